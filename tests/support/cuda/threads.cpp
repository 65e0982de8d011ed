// Runs kernels with an operating-system thread for each CUDA thread, so that ThreadSanitizer can
// watch them.  It takes for ordered only what a barrier, or lanes that meet, put in order.
#include <stdlib.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "shim.h"

thread_local Index threadIdx, blockIdx, blockDim, gridDim;

namespace {

// A place where a number of threads meet; each leaves a value, and may read those of the others.
struct Meeting {
  std::mutex mutex;
  std::condition_variable all_here;
  unsigned arrived = 0, round = 0;
  uint64_t values[2][32] = {};

  uint64_t *meet(unsigned count, unsigned place, uint64_t value) {
    std::unique_lock<std::mutex> lock(mutex);
    const unsigned mine = round;
    values[mine & 1][place] = value;
    if (++arrived == count) {
      arrived = 0;
      round++;
      all_here.notify_all();
    } else {
      all_here.wait(lock, [&] { return round != mine; });
    }
    return values[mine & 1];
  }
};

struct Block {
  Meeting barrier;
  Meeting lanes[32][5];  // of each warp: all of it, and its four groups of eight
  std::vector<unsigned long long> shared;
};

thread_local Block *block;

}  // namespace

extern "C" {

void emu_yield() { std::this_thread::yield(); }
void emu_yield_rarely() {}
void emu_fail(const char *) { abort(); }
void emu_barrier() { block->barrier.meet(blockDim.x, 0, 0); }
unsigned long long *emu_shared() { return block->shared.data(); }

uint64_t emu_warp(int operation, uint32_t mask, uint64_t value, uint32_t by) {
  const unsigned lane = threadIdx.x & 31;
  const unsigned group = mask == ~0u ? 0 : 1 + lane / 8;
  if (group && mask != 0xFFu << (lane & 24)) abort();
  Meeting &meeting = block->lanes[threadIdx.x / 32][group];
  const uint64_t *values = meeting.meet(group ? 8 : 32, lane, value);
  if (operation == SHUFFLE_XOR) return values[lane ^ by];
  if (operation == SHUFFLE_UP) return values[lane >= by ? lane - by : lane];
  uint64_t votes = 0;
  for (unsigned i = 0; i < 32; i++)
    if (mask >> i & 1) votes |= (values[i] ? 1ull : 0) << i;
  return votes;
}

void emu_run(void (*runner)(const uint64_t *), const uint64_t *words, unsigned grid,
             unsigned threads, uint64_t shared_bytes) {
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::thread> running;
  for (unsigned number = 0; number < grid; number++) {
    blocks.emplace_back(new Block);
    Block *own = blocks.back().get();
    own->shared.resize((shared_bytes + 15) / 8);
    for (unsigned i = 0; i < threads; i++)
      running.emplace_back([=] {
        block = own;
        threadIdx.x = i;
        blockIdx.x = number;
        blockDim.x = threads;
        gridDim.x = grid;
        runner(words);
      });
  }
  for (auto &one : running) one.join();
}
}
