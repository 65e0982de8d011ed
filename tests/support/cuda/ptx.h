// What translated PTX is made of, where an operator of C++ does not do.
#pragma once
#include "shim.h"

template <class T>
inline T shift_left(T x, uint32_t by) {
  return by >= 8 * sizeof(T) ? 0 : x << by;
}
template <class T>
inline T shift_right(T x, uint32_t by) {
  return by >= 8 * sizeof(T) ? (x < 0 ? (T)-1 : 0) : x >> by;
}
inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t by) {
  return (uint32_t)(((uint64_t)high << 32 | low) << (by & 31) >> 32);
}
template <class T>
inline T multiply_high(T a, T b) {
  static_assert((T)-1 > 0, "of unsigned numbers");
  return (T)((unsigned __int128)a * b >> 8 * sizeof(T));
}
template <class T>
inline T invert(T x) {
  return ~x;
}
inline bool invert(bool x) { return !x; }
template <class T>
inline T smaller(T a, T b) {
  return a < b ? a : b;
}
template <class T>
inline T larger(T a, T b) {
  return a < b ? b : a;
}
template <class T>
inline T insert_bits(T a, T b, uint32_t at, uint32_t length) {
  const T mask = shift_left<T>(shift_left<T>(1, length) - 1, at);
  return (b & ~mask) | (shift_left<T>(a, at) & mask);
}
inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; i++) {
    const uint32_t pick = selector >> 4 * i & 15;
    uint32_t byte = bytes >> 8 * (pick & 7) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}
// Lanes all over the warp, as the third operand of the instruction says.
inline uint32_t shuffle_xor(uint32_t x, uint32_t by, uint32_t clamp, uint32_t mask) {
  if (clamp != 31) emu_fail("a shuffle within part of a warp");
  return __shfl_xor_sync(mask, x, by);
}
inline uint32_t shuffle_up(uint32_t x, uint32_t by, uint32_t clamp, uint32_t mask) {
  if (clamp != 0) emu_fail("a shuffle within part of a warp");
  return __shfl_up_sync(mask, x, by);
}
// A device refuses what is not aligned.
inline uint64_t checked(uint64_t address, uint32_t size) {
  if (address % size) emu_fail("an address that is not aligned");
  return address;
}
inline uint64_t global(uint64_t address, uint32_t size) {
  emu_yield_rarely();
  return checked(address, size);
}
// Addresses in shared memory count from its start.
inline uint64_t shared(uint64_t address, uint32_t size) {
  return (uint64_t)emu_shared() + checked(address, size);
}
