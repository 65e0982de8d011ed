// Runs all stages of a look under ThreadSanitizer: digests, table, packing.  Compiled behind the
// kernels; the program ends with an error if two threads touch one word without order.
#include <stdlib.h>

extern "C" void emu_run(void (*)(const uint64_t *), const uint64_t *, unsigned, unsigned, uint64_t);

template <class... Words>
void launch(void (*runner)(const uint64_t *), Words... given) {
  const uint64_t words[] = {(uint64_t)given...};
  emu_run(runner, words, 2, 64, 24 * 8 + 64 * 80);
}

template <class... Words>
void launch_block(void (*runner)(const uint64_t *), Words... given) {
  const uint64_t words[] = {(uint64_t)given...};
  emu_run(runner, words, 1, 64, 24 * 8 + 64 * 80);
}

template <class T>
T *room(size_t count) {
  T *array = (T *)aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64);
  memset(array, 0, count * sizeof(T));
  return array;
}

void look(u64 chunk, void (*digest)(const uint64_t *)) {
  // Few different chunks, so that threads fight for slots; and a short one at the end.
  const u64 count = 1100, nbytes = count * chunk - 5, slots = 4000, tiles = 2;
  u8 *data = room<u8>(nbytes);
  for (u64 i = 0; i < nbytes; i++) data[i] = i / chunk * 7919 % 61 / 2;
  Digest *digests = room<Digest>(count), *known = room<Digest>(count);
  u8 *labels = room<u8>(count), *payload = room<u8>(nbytes + 5);
  u64 *table = room<u64>(slots), *total = room<u64>(1), *root = room<u64>(2);
  u64 *blocks = room<u64>(2 * (nbytes / BLOCK_BYTES + 1) + 1);
  u32 *slot_of = room<u32>(count), *failures = room<u32>(1), *offsets = room<u32>(tiles);
  u32 *nodes = room<u32>(count), *numbers = room<u32>(count);
  memset(table, 0xFF, slots * 8);
  const u64 block_count = (nbytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
  launch(digest, data, nbytes, chunk, count, 0, digests, labels);
  launch(run_digest_blocks, data, nbytes, 0, chunk, block_count, labels, blocks);
  launch_block(run_digest_root, blocks, block_count, nbytes, root);
  launch(run_insert, table, slots, known, digests, labels, CHANGED, 0, count, slot_of, failures);
  launch(run_resolve, table, slot_of, count, labels);
  launch(run_count_tiles, labels, count, NEW, tiles, offsets);
  launch_block(run_add_up, offsets, tiles, total);
  launch(run_pack, labels, count, NEW, tiles, offsets, nodes);
  launch(run_publish, nodes, *total, 0, digests, slot_of, known, table);
  launch(run_gather, data, nbytes, chunk, nodes, *total, payload);
  launch(run_look_up, nodes, *total, table, slot_of, numbers);
}

int main() {
  look(64, run_digest_small_chunks);
  look(256, run_digest_chunks);
}
