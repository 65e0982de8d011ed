// Runs kernels on one processor, each CUDA thread as a fibre, in an order that a seed decides.
//
// Several blocks are in flight at once.  A fibre goes on until it meets a barrier or another lane's
// business, or, at an atomic, until chance takes the processor away.  What real hardware would leave
// undefined is an error here: a barrier that some threads never reach, a lane that is asked for and
// has ended or does something else, a write behind the shared memory of a block.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "shim.h"

thread_local Index threadIdx, blockIdx, blockDim, gridDim;

namespace {

const size_t STACK_BYTES = 64 << 10;
const size_t GUARD_WORDS = 16;
const unsigned MAX_THREADS = 1024, MAX_BLOCKS = 4;  // in flight

enum State { READY, AT_BARRIER, IN_WARP, DONE };

struct Fibre {
  ucontext_t context;
  jmp_buf jump;
  bool started;
  State state;
  unsigned thread, slot;
  int operation;
  uint32_t mask, by;
  uint64_t value, result;
};

struct Block {
  unsigned number, waiting, left;
  unsigned long long *shared;
};

Fibre *fibres;  // block by block
Block blocks[MAX_BLOCKS];
Fibre *current;
Fibre **ready;
unsigned ready_count;
jmp_buf scheduler;
const char *error;
uint64_t chance;
unsigned yield_odds;
void (*kernel)(const uint64_t *);
const uint64_t *words;
uint64_t shared_words;

uint64_t draw() {
  chance ^= chance << 13;
  chance ^= chance >> 7;
  chance ^= chance << 17;
  return chance * 0x2545F4914F6CDD1D >> 16;
}

void fail(const char *what) {
  if (!error) error = what;
}

void suspend() {
  if (!_setjmp(current->jump)) _longjmp(scheduler, 1);
}

// A fibre lives on from block to block, and from launch to launch.
void live() {
  for (;;) {
    kernel(words);
    current->state = DONE;
    suspend();
  }
}

void make_ready(Fibre *fibre) {
  fibre->state = READY;
  ready[ready_count++] = fibre;
}

void resume(Fibre *fibre) {
  current = fibre;
  threadIdx.x = fibre->thread;
  blockIdx.x = blocks[fibre->slot].number;
  if (_setjmp(scheduler)) return;
  if (fibre->started) _longjmp(fibre->jump, 1);
  fibre->started = true;
  getcontext(&fibre->context);
  fibre->context.uc_stack.ss_sp = malloc(STACK_BYTES);
  fibre->context.uc_stack.ss_size = STACK_BYTES;
  fibre->context.uc_link = nullptr;
  makecontext(&fibre->context, live, 0);
  setcontext(&fibre->context);
}

void start_block(unsigned slot, unsigned number) {
  Block &block = blocks[slot];
  block.number = number;
  block.waiting = 0;
  block.left = blockDim.x;
  for (uint64_t i = 0; i < shared_words + GUARD_WORDS; i++) block.shared[i] = 0xA5A5A5A5A5A5A5A5;
  for (unsigned i = 0; i < blockDim.x; i++) {
    Fibre *fibre = &fibres[slot * MAX_THREADS + i];
    fibre->thread = i;
    fibre->slot = slot;
    make_ready(fibre);
  }
}

void end_thread(Block &block) {
  block.left--;
  if (block.waiting) fail("a barrier that some threads never reach");
  for (uint64_t i = 0; i < GUARD_WORDS; i++)
    if (block.shared[shared_words + i] != 0xA5A5A5A5A5A5A5A5)
      fail("a write behind the shared memory");
}

// In half of the launches some warps go on only while all others wait, so that the others run ahead
// as far as they can; now and then it is the turn of other warps.
unsigned pick_next(bool unfair, uint64_t &starved) {
  unsigned pick = draw() % ready_count;
  if (!unfair) return pick;
  if (draw() % 512 == 0) starved = draw();
  for (unsigned i = 0; i < ready_count; i++, pick = pick + 1 < ready_count ? pick + 1 : 0)
    if (!(starved >> (ready[pick]->slot * 8 + ready[pick]->thread / 32 % 8) & 1)) break;
  return pick;
}

uint64_t result_of(Fibre *warp, unsigned lane) {
  const Fibre &own = warp[lane];
  if (own.operation == SYNC) return 0;
  if (own.operation == BALLOT) {
    uint64_t votes = 0;
    for (unsigned i = 0; i < 32; i++)
      if (own.mask >> i & 1) votes |= (warp[i].value != 0 ? 1ull : 0) << i;
    return votes;
  }
  const unsigned from = own.operation == SHUFFLE_XOR ? lane ^ own.by
                        : lane >= own.by             ? lane - own.by
                                                     : lane;
  if (from > 31 || !(own.mask >> from & 1)) {
    fail("a lane outside of the mask is read");
    return 0;
  }
  return warp[from].value;
}

}  // namespace

extern "C" {

void emu_yield() {
  if (yield_odds && draw() % yield_odds == 0) {
    make_ready(current);
    suspend();
  }
}

void emu_yield_rarely() {
  if (yield_odds && draw() % 64 == 0) emu_yield();
}

// The launch ends with the next switch, and this thread goes no further.
void emu_fail(const char *what) {
  fail(what);
  suspend();
}

void emu_barrier() {
  Block &block = blocks[current->slot];
  current->state = AT_BARRIER;
  if (block.left < blockDim.x) fail("a barrier that some threads never reach");
  if (++block.waiting == block.left) {
    block.waiting = 0;
    Fibre *first = &fibres[current->slot * MAX_THREADS];
    for (unsigned i = 0; i < blockDim.x; i++)
      if (first[i].state == AT_BARRIER) make_ready(&first[i]);
  }
  suspend();
}

uint64_t emu_warp(int operation, uint32_t mask, uint64_t value, uint32_t by) {
  const unsigned lane = current->thread & 31;
  Fibre *warp = current - lane;
  current->state = IN_WARP;
  current->operation = operation;
  current->mask = mask;
  current->by = by;
  current->value = value;
  if (!(mask >> lane & 1)) fail("a lane that is not in its own mask");
  bool complete = true;
  for (unsigned i = 0; i < 32; i++) {
    if (!(mask >> i & 1)) continue;
    if (warp[i].state == DONE) fail("a lane of the mask has ended");
    if (warp[i].state != IN_WARP) {
      complete = false;
    } else if (warp[i].mask != mask || warp[i].operation != operation) {
      fail("lanes of a mask do different things");
    }
  }
  if (complete) {
    for (unsigned i = 0; i < 32; i++)
      if (mask >> i & 1) warp[i].result = result_of(warp, i);
    for (unsigned i = 0; i < 32; i++)
      if (mask >> i & 1) make_ready(&warp[i]);
  }
  suspend();
  return current->result;
}

unsigned long long *emu_shared() { return blocks[current->slot].shared; }

// Returns what is wrong with the kernel, or null.
const char *emu_launch(void (*runner)(const uint64_t *), const uint64_t *arguments, unsigned grid,
                       unsigned threads, uint64_t shared_bytes, uint64_t seed, unsigned odds) {
  if (threads == 0 || threads > MAX_THREADS || threads % 32) return "no such block of threads";
  if (!fibres) {
    fibres = (Fibre *)calloc(MAX_BLOCKS * MAX_THREADS, sizeof(Fibre));
    ready = (Fibre **)calloc(MAX_BLOCKS * MAX_THREADS, sizeof(Fibre *));
  }
  kernel = runner;
  words = arguments;
  shared_words = (shared_bytes + 7) / 8;
  chance = (seed + 1) * 0x9E3779B97F4A7C15;
  for (int i = 0; i < 8; i++) draw();
  yield_odds = odds;
  blockDim.x = threads;
  gridDim.x = grid;
  error = nullptr;
  ready_count = 0;
  unsigned next = 0;
  const unsigned slots = 1 + draw() % MAX_BLOCKS;
  const unsigned shift = draw() % grid;  // blocks start anywhere
  for (unsigned slot = 0; slot < slots; slot++) {
    blocks[slot].left = 0;
    blocks[slot].shared = (unsigned long long *)aligned_alloc(
        64, (shared_words + GUARD_WORDS + 7) / 8 * 64);
    if (next < grid) start_block(slot, (next++ + shift) % grid);
  }
  const bool unfair = draw() & 1;
  uint64_t starved = draw();
  while (ready_count && !error) {
    const unsigned pick = pick_next(unfair, starved);
    Fibre *fibre = ready[pick];
    ready[pick] = ready[--ready_count];
    resume(fibre);
    if (fibre->state != DONE) continue;
    Block &block = blocks[fibre->slot];
    end_thread(block);
    if (block.left == 0 && next < grid) start_block(fibre->slot, (next++ + shift) % grid);
  }
  for (unsigned slot = 0; slot < slots; slot++) {
    if (blocks[slot].left) fail("a barrier that some threads never reach");
    free(blocks[slot].shared);
  }
  if (error)  // fibres that wait in the middle of a kernel start afresh
    for (unsigned i = 0; i < MAX_BLOCKS * MAX_THREADS; i++) {
      if (fibres[i].started) free(fibres[i].context.uc_stack.ss_sp);
      fibres[i].started = false;
    }
  return error;
}
}
