// CUDA C for a CPU: what a kernel uses of the language, in terms of a few functions of a runtime.
//
// Atomics are relaxed, which is all that CUDA promises.  A thread may lose the processor at each.
#pragma once
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__ static
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define SHARED_WORDS(name) unsigned long long *name = emu_shared()

struct Index {
  unsigned x;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};

extern thread_local Index threadIdx, blockIdx, blockDim, gridDim;

enum WarpOperation { SYNC, BALLOT, SHUFFLE_XOR, SHUFFLE_UP };

// The runtime: `fibres.cpp`, or `threads.cpp` for ThreadSanitizer.
extern "C" {
void emu_barrier();
uint64_t emu_warp(int operation, uint32_t mask, uint64_t value, uint32_t by);
void emu_yield();
void emu_yield_rarely();
void emu_fail(const char *what);
unsigned long long *emu_shared();
}

inline void __syncthreads() { emu_barrier(); }
inline void __syncwarp(unsigned mask = ~0u) { emu_warp(SYNC, mask, 0, 0); }
inline unsigned __ballot_sync(unsigned mask, bool flag) {
  return (unsigned)emu_warp(BALLOT, mask, flag, 0);
}
inline bool __any_sync(unsigned mask, bool flag) { return __ballot_sync(mask, flag) != 0; }
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, unsigned by) {
  return (T)emu_warp(SHUFFLE_XOR, mask, value, by);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  return (T)emu_warp(SHUFFLE_UP, mask, value, by);
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

template <class T>
inline T atomicCAS(T *at, T expected, T value) {
  emu_yield();
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T>
inline T atomicAdd(T *at, T value) {
  emu_yield();
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicMin(T *at, T value) {
  emu_yield();
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < old && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED)) {
  }
  return old;
}

// Calls a kernel with parameters that are words.
template <class... Types>
struct Call {
  void (*kernel)(Types...);
  template <class... Words>
  void operator()(const uint64_t *words, Words... taken) const {
    if constexpr (sizeof...(Words) == sizeof...(Types))
      kernel((Types)taken...);
    else
      (*this)(words, taken..., words[sizeof...(Words)]);
  }
};
template <class... Types>
Call<Types...> call(void (*kernel)(Types...)) {
  return {kernel};
}
#define RUNNER(name) \
  extern "C" void run_##name(const uint64_t *words) { call(name)(words); }
