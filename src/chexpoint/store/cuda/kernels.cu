// What the CUDA engine runs on the device: XXH3-128 digests, a lock-free table of all chunks ever
// seen, Merkle levels, and the packing of what is new into one buffer.
//
// Nothing here depends on the order in which threads run: the same contents give the same bytes.
// All scalar parameters are u64, and a kernel takes any number of blocks of 32, 64, .. 1024 threads.
// Launches follow one another on one stream, so what one launch wrote, the next may read.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// Dynamic shared memory, its size given at the launch.
#ifndef SHARED_WORDS
#define SHARED_WORDS(name) extern __shared__ u64 name[]
#endif

#define KERNEL extern "C" __global__ void
#define INLINE __device__ __forceinline__

// What a chunk, or a region of the tree, is.
enum Label : u8 { UNCHANGED = 0, CHANGED = 1, NEW = 2, MOVED = 3, MIXED = 4, PARTIAL = 5 };
const u64 ANY = 255;  // every label but PARTIAL, which says that some chunks do not exist

const u64 BLOCK_BYTES = 65536;  // what one digest of the contents covers
const u32 TILE = 1024;          // labels that one block of threads packs at a time
const u64 EMPTY = ~0ULL;        // a free slot of the table
const u64 NEWBIT = 1ULL << 63;  // a slot that was claimed in this look

INLINE u64 thread_number() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
INLINE u64 thread_count() { return (u64)gridDim.x * blockDim.x; }

// ------------------------------------------------------------------------------------- XXH3-128
// Seed 0, default secret: digests equal those of the library, bit for bit.

const u64 PRIME32_1 = 0x9E3779B1, PRIME32_2 = 0x85EBCA77, PRIME32_3 = 0xC2B2AE3D;
const u64 PRIME64_1 = 0x9E3779B185EBCA87, PRIME64_2 = 0xC2B2AE3D27D4EB4F;
const u64 PRIME64_3 = 0x165667B19E3779F9, PRIME64_4 = 0x85EBCA77C2B2AE63;
const u64 PRIME64_5 = 0x27D4EB2F165667C5;
const u64 PRIME_MX1 = 0x165667919E3779F9, PRIME_MX2 = 0x9FB21C651E98DF25;

const u32 SECRET_WORDS = 24;
__constant__ constexpr u64 SECRET[SECRET_WORDS] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
};

struct alignas(16) Digest {  // read and written at once
  u64 low, high;
};

INLINE bool operator==(Digest a, Digest b) { return a.low == b.low && a.high == b.high; }

// The word of the secret that starts at a byte.
INLINE u64 secret_at(const u64 *words, u32 at) {
  const u32 word = at / 8, bits = at % 8 * 8;
  return bits ? words[word] >> bits | words[word + 1] << (64 - bits) : words[word];
}

INLINE u64 secret(u32 at) { return secret_at(SECRET, at); }

// Reads from an address that is a multiple of ALIGN: 16, 4 or 1.
template <int ALIGN>
INLINE u64 load64(const u8 *p) {
  if (ALIGN == 16) return *(const u64 *)p;
  if (ALIGN == 4) return ((const u32 *)p)[0] | (u64)((const u32 *)p)[1] << 32;
  u64 word = 0;
#pragma unroll 1
  for (int i = 7; i >= 0; i--) word = word << 8 | p[i];
  return word;
}

template <int ALIGN>
INLINE ulonglong2 load128(const u8 *p) {
  if (ALIGN == 16) return *(const ulonglong2 *)p;
  ulonglong2 pair;
  pair.x = load64<ALIGN>(p);
  pair.y = load64<ALIGN>(p + 8);
  return pair;
}

INLINE u32 load32(const u8 *p) {
  return (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24;
}

INLINE u32 rotate32(u32 x, int by) { return x << by | x >> (32 - by); }

INLINE u32 swap32(u32 x) {
  return x << 24 | (x & 0xFF00) << 8 | (x >> 8 & 0xFF00) | x >> 24;
}

INLINE u64 swap64(u64 x) { return (u64)swap32((u32)x) << 32 | swap32((u32)(x >> 32)); }

INLINE Digest multiply(u64 a, u64 b) { return {a * b, __umul64hi(a, b)}; }

INLINE u64 fold(u64 a, u64 b) { return a * b ^ __umul64hi(a, b); }

INLINE u64 avalanche64(u64 h) {
  h = (h ^ h >> 33) * PRIME64_2;
  h = (h ^ h >> 29) * PRIME64_3;
  return h ^ h >> 32;
}

INLINE u64 avalanche(u64 h) {
  h = (h ^ h >> 37) * PRIME_MX1;
  return h ^ h >> 32;
}

INLINE void mix32(Digest &sum, ulonglong2 one, ulonglong2 two, u32 at) {
  sum.low += fold(one.x ^ secret(at), one.y ^ secret(at + 8));
  sum.low ^= two.x + two.y;
  sum.high += fold(two.x ^ secret(at + 16), two.y ^ secret(at + 24));
  sum.high ^= one.x + one.y;
}

INLINE Digest finish(Digest sum, u64 length) {
  const u64 high = sum.low * PRIME64_1 + sum.high * PRIME64_4 + length * PRIME64_2;
  return {avalanche(sum.low + sum.high), 0 - avalanche(high)};
}

INLINE Digest digest_1_3(const u8 *p, u64 length) {
  const u32 low = (u32)p[0] << 16 | (u32)p[length >> 1] << 24 | p[length - 1] | (u32)length << 8;
  const u32 high = rotate32(swap32(low), 13);
  const u64 flip_low = (u32)secret(0) ^ (u32)(secret(0) >> 32);
  const u64 flip_high = (u32)secret(8) ^ (u32)(secret(8) >> 32);
  return {avalanche64(low ^ flip_low), avalanche64(high ^ flip_high)};
}

INLINE Digest digest_4_8(const u8 *p, u64 length) {
  const u64 word = load32(p) + ((u64)load32(p + length - 4) << 32);
  Digest d = multiply(word ^ secret(16) ^ secret(24), PRIME64_1 + (length << 2));
  d.high += d.low << 1;
  d.low ^= d.high >> 3;
  d.low = (d.low ^ d.low >> 35) * PRIME_MX2;
  return {d.low ^ d.low >> 28, avalanche(d.high)};
}

INLINE Digest digest_9_16(const u8 *p, u64 length) {
  const u64 low = load64<1>(p);
  u64 high = load64<1>(p + length - 8);
  Digest m = multiply(low ^ high ^ secret(32) ^ secret(40), PRIME64_1);
  m.low += (length - 1) << 54;
  high ^= secret(48) ^ secret(56);
  m.high += high + (high & 0xFFFFFFFF) * (PRIME32_2 - 1);
  m.low ^= swap64(m.high);
  Digest d = multiply(m.low, PRIME64_2);
  d.high += m.high * PRIME64_2;
  return {avalanche(d.low), avalanche(d.high)};
}

template <int ALIGN>
INLINE Digest digest_17_128(const u8 *p, u64 length) {
  const u8 *end = p + length;
  Digest sum = {length * PRIME64_1, 0};
#pragma unroll 1
  for (int i = (int)(length - 1) / 32; i >= 0; i--)
    mix32(sum, load128<ALIGN>(p + 16 * i), load128<ALIGN>(end - 16 * i - 16), 32 * i);
  return finish(sum, length);
}

template <int ALIGN>
INLINE Digest digest_129_240(const u8 *p, u64 length) {
  const u8 *end = p + length;
  Digest sum = {length * PRIME64_1, 0};
#pragma unroll 1
  for (u32 i = 0; i < (u32)length / 32; i++) {
    if (i == 4) sum = {avalanche(sum.low), avalanche(sum.high)};
    const u32 at = i < 4 ? 32 * i : 32 * i - 125;
    mix32(sum, load128<ALIGN>(p + 32 * i), load128<ALIGN>(p + 32 * i + 16), at);
  }
  if (length < 160) sum = {avalanche(sum.low), avalanche(sum.high)};
  mix32(sum, load128<ALIGN>(end - 16), load128<ALIGN>(end - 32), 103);
  return finish(sum, length);
}

template <int ALIGN>
INLINE Digest digest_17_240(const u8 *p, u64 length) {
  return length > 128 ? digest_129_240<ALIGN>(p, length) : digest_17_128<ALIGN>(p, length);
}

// Whether an address and a length are multiples of a size.
INLINE bool aligned(const u8 *p, u64 length, u32 size) {
  return (((u64)p | length) & (size - 1)) == 0;
}

// One thread digests up to 240 bytes.
INLINE Digest digest_short(const u8 *p, u64 length) {
  if (length > 16) return digest_17_240<1>(p, length);
  if (length > 8) return digest_9_16(p, length);
  if (length >= 4) return digest_4_8(p, length);
  return digest_1_3(p, length);
}

// Eight lanes digest more than 240 bytes together: each keeps one of the eight accumulators, so that
// they read stripes of 64 adjacent bytes.
struct Lane {
  const u64 *secret;  // in shared memory
  u32 at;             // 0..7
  u32 mask;           // the eight lanes in their warp
};

template <int ALIGN>
INLINE u64 accumulate(u64 sum, const u8 *stripe, u64 key, u32 at) {
  const ulonglong2 pair = load128<ALIGN>(stripe + 16 * (at >> 1));
  const u64 mine = at & 1 ? pair.y : pair.x, other = at & 1 ? pair.x : pair.y;
  const u64 keyed = mine ^ key;
  return sum + other + (keyed & 0xFFFFFFFF) * (keyed >> 32);
}

INLINE u64 first_sum(u32 at) {
  switch (at) {
    case 0: return PRIME32_3;
    case 1: return PRIME64_1;
    case 2: return PRIME64_2;
    case 3: return PRIME64_3;
    case 4: return PRIME64_4;
    case 5: return PRIME32_2;
    case 6: return PRIME64_5;
    default: return PRIME32_1;
  }
}

template <int ALIGN>
INLINE u64 accumulate_all(const u8 *p, u64 length, Lane lane) {
  u64 sum = first_sum(lane.at);
  const u8 *end = p + length, *stripe = p;
  for (u64 left = (length - 1) / 1024; left; left--) {
#pragma unroll(ALIGN == 16 ? 8 : 1)
    for (u32 i = 0; i < 16; i++, stripe += 64)
      sum = accumulate<ALIGN>(sum, stripe, lane.secret[i + lane.at], lane.at);
    sum = (sum ^ sum >> 47 ^ lane.secret[16 + lane.at]) * PRIME32_1;
  }
  const u32 stripes = (u32)((length - 1) % 1024 / 64);
#pragma unroll(ALIGN == 16 ? 3 : 1)
  for (u32 i = 0; i < stripes; i++, stripe += 64)
    sum = accumulate<ALIGN>(sum, stripe, lane.secret[i + lane.at], lane.at);
  return accumulate<ALIGN>(sum, end - 64, secret_at(lane.secret, 121 + 8 * lane.at), lane.at);
}

INLINE Digest digest_long(const u8 *p, u64 length, Lane lane) {
  const u64 sum = aligned(p, length, 16)  ? accumulate_all<16>(p, length, lane)
                  : aligned(p, length, 4) ? accumulate_all<4>(p, length, lane)
                                          : accumulate_all<1>(p, length, lane);
  // Even lanes merge the low half, odd lanes the high half; each a pair of accumulators.
  const bool odd = lane.at & 1;
  const u64 other = __shfl_xor_sync(lane.mask, sum, 1);
  const u64 left = odd ? other : sum, right = odd ? sum : other;
  const u32 from = (odd ? 117 : 11) + 16 * (lane.at >> 1);
  u64 half = fold(left ^ secret_at(lane.secret, from), right ^ secret_at(lane.secret, from + 8));
  half += __shfl_xor_sync(lane.mask, half, 2);
  half += __shfl_xor_sync(lane.mask, half, 4);
  half = avalanche(half + (odd ? ~(length * PRIME64_2) : length * PRIME64_1));
  const u64 swapped = __shfl_xor_sync(lane.mask, half, 1);
  return odd ? Digest{swapped, half} : Digest{half, swapped};
}

// All eight lanes return the digest.
INLINE Digest digest_any(const u8 *p, u64 length, Lane lane) {
  return length > 240 ? digest_long(p, length, lane) : digest_short(p, length);
}

INLINE Lane share_secret(u64 *words) {
  for (u32 i = threadIdx.x; i < SECRET_WORDS; i += blockDim.x) words[i] = SECRET[i];
  __syncthreads();
  return {words, threadIdx.x & 7, 0xFFu << (threadIdx.x & 24)};
}

// As the library writes digests: high half first, each with its highest byte first.
INLINE void store_canonical(u64 *out, Digest d) {
  out[0] = swap64(d.high);
  out[1] = swap64(d.low);
}

INLINE u64 length_of(u64 at, u64 size, u64 nbytes) {
  const u64 left = nbytes - at * size;
  return left < size ? left : size;
}

// -------------------------------------------------------------------------------------- digests

INLINE void compare(Digest *digests, u8 *labels, u64 at, u64 known, Digest d) {
  const bool same = at < known && digests[at] == d;
  labels[at] = same ? UNCHANGED : CHANGED;
  if (!same) digests[at] = d;
}

// Small chunks, of 240 bytes at most: a thread for each; a block reads them together, through shared
// memory.
KERNEL digest_small_chunks(const u8 *data, u64 nbytes, u64 chunk, u64 count, u64 known,
                           Digest *digests, u8 *labels) {
  SHARED_WORDS(words);
  ulonglong2 *tile = (ulonglong2 *)words;
  const bool whole = aligned(data, chunk, 16);
  const u32 width = (u32)chunk / 16, pitch = width | 1;  // odd: no two threads in one bank
  for (u64 base = (u64)blockIdx.x * blockDim.x; base < count; base += thread_count()) {
    if (whole) {
      const u64 first = base * width, last = nbytes / 16;
      for (u32 i = threadIdx.x; i < blockDim.x * width && first + i < last; i += blockDim.x)
        tile[i / width * pitch + i % width] = ((const ulonglong2 *)data)[first + i];
    }
    __syncthreads();
    const u64 at = base + threadIdx.x;
    if (at < count) {
      const u64 length = length_of(at, chunk, nbytes);
      const bool staged = whole && length == chunk && length > 16;
      const Digest d = staged ? digest_17_240<16>((const u8 *)(tile + threadIdx.x * pitch), length)
                              : digest_short(data + at * chunk, length);
      compare(digests, labels, at, known, d);
    }
    __syncthreads();
  }
}

// Longer chunks: eight lanes for each.
KERNEL digest_chunks(const u8 *data, u64 nbytes, u64 chunk, u64 count, u64 known, Digest *digests,
                     u8 *labels) {
  SHARED_WORDS(words);
  const Lane lane = share_secret(words);
  for (u64 at = thread_number() / 8; at < count; at += thread_count() / 8) {
    const Digest d = digest_any(data + at * chunk, length_of(at, chunk, nbytes), lane);
    if (lane.at == 0) compare(digests, labels, at, known, d);
  }
}

// Digests of blocks in which something changed, or which got longer or shorter.
KERNEL digest_blocks(const u8 *data, u64 nbytes, u64 nbytes_before, u64 chunk, u64 count,
                     const u8 *labels, u64 *digests) {
  SHARED_WORDS(words);
  const Lane lane = share_secret(words);
  for (u64 at = thread_number() / 8; at < count; at += thread_count() / 8) {
    const u64 start = at * BLOCK_BYTES, length = length_of(at, BLOCK_BYTES, nbytes);
    bool dirty = start >= nbytes_before || length_of(at, BLOCK_BYTES, nbytes_before) != length;
    const u64 last = (start + length - 1) / chunk;
    for (u64 i = start / chunk + lane.at; i <= last && !dirty; i += 8) dirty = labels[i];
    if (!__any_sync(lane.mask, dirty)) continue;
    const Digest d = digest_any(data + start, length, lane);
    if (lane.at == 0) store_canonical(digests + 2 * at, d);
  }
}

// Digest of the digests of all blocks, and of the length, which this writes behind them.
KERNEL digest_root(u64 *digests, u64 count, u64 nbytes, u64 *root) {
  SHARED_WORDS(words);
  const Lane lane = share_secret(words);
  if (thread_number() == 0) digests[2 * count] = nbytes;
  __syncthreads();
  if (thread_number() >= 8) return;
  const Digest d = digest_any((const u8 *)digests, 16 * count + 8, lane);
  if (lane.at == 0) store_canonical(root, d);
}

// ---------------------------------------------------------------------------------------- table
// A slot is one word: EMPTY, the number of a known digest, or NEWBIT and the number of a node.  Its
// key is the digest that the word stands for.  Among equal digests the smallest word wins: what is
// known beats what is new, and what is new is the node with the lowest number, whoever came first.
// All digests were written by earlier launches, so that no fence is needed.

INLINE u64 home(Digest d, u64 slots) { return __umul64hi(d.low, slots); }

INLINE Digest key_of(u64 word, const Digest *known, const Digest *digests) {
  return word & NEWBIT ? digests[word & ~NEWBIT] : known[word];
}

// Return the slot in which a digest is now, or EMPTY if there is no room.
INLINE u64 claim(u64 *table, u64 slots, const Digest *known, const Digest *digests, Digest d,
                 u64 word) {
  u64 slot = home(d, slots);
  for (u64 probes = 0; probes < slots; probes++) {
    const u64 found = atomicCAS(&table[slot], EMPTY, word);
    if (found == EMPTY) return slot;
    if (key_of(found, known, digests) == d) {
      if (word < found) atomicMin(&table[slot], word);
      return slot;
    }
    slot = slot + 1 < slots ? slot + 1 : 0;
  }
  return EMPTY;
}

// Return the slot of a digest, or EMPTY if the table does not have it; nobody may write meanwhile.
INLINE u64 find(const u64 *table, u64 slots, const Digest *known, const Digest *digests, Digest d) {
  u64 slot = home(d, slots);
  for (u64 probes = 0; probes < slots; probes++) {
    const u64 word = table[slot];
    if (word == EMPTY) return EMPTY;
    if (key_of(word, known, digests) == d) return slot;
    slot = slot + 1 < slots ? slot + 1 : 0;
  }
  return EMPTY;
}

// Put the nodes of one label, or of any, out of first..last, into the table.
KERNEL insert(u64 *table, u64 slots, const Digest *known, const Digest *digests, const u8 *labels,
              u64 label, u64 first, u64 last, u32 *slot_of, u32 *overflow) {
  for (u64 at = first + thread_number(); at < last; at += thread_count()) {
    if (label == ANY ? labels[at] == PARTIAL : labels[at] != label) continue;
    const u64 slot = claim(table, slots, known, digests, digests[at], NEWBIT | at);
    if (slot == EMPTY) atomicAdd(overflow, 1u);
    slot_of[at] = (u32)slot;
  }
}

// Fill an empty table, which has grown, with all known digests.
KERNEL refill(u64 *table, u64 slots, const Digest *known, u64 count, u32 *overflow) {
  for (u64 at = thread_number(); at < count; at += thread_count())
    if (claim(table, slots, known, known, known[at], at) == EMPTY) atomicAdd(overflow, 1u);
}

// Changed chunks whose claim won are new; the others were seen, here or before.
KERNEL resolve(const u64 *table, const u32 *slot_of, u64 count, u8 *labels) {
  for (u64 at = thread_number(); at < count; at += thread_count())
    if (labels[at] == CHANGED) labels[at] = table[slot_of[at]] == (NEWBIT | at) ? NEW : MOVED;
}

// What is new becomes known: numbers from `base` on, in order.
KERNEL publish(const u32 *nodes, u64 count, u64 base, const Digest *digests, const u32 *slot_of,
               Digest *known, u64 *table) {
  for (u64 i = thread_number(); i < count; i += thread_count()) {
    known[base + i] = digests[nodes[i]];
    table[slot_of[nodes[i]]] = base + i;
  }
}

// The number of the digest that each node equals; after `publish`.
KERNEL look_up(const u32 *nodes, u64 count, const u64 *table, const u32 *slot_of, u32 *numbers) {
  for (u64 i = thread_number(); i < count; i += thread_count())
    numbers[i] = (u32)table[slot_of[nodes[i]]];
}

// Where the digests of these numbers were seen first.
KERNEL take(const u32 *values, const u32 *numbers, u64 count, u32 *taken) {
  for (u64 i = thread_number(); i < count; i += thread_count()) taken[i] = values[numbers[i]];
}

// -------------------------------------------------------------------------------------- packing
// In three launches, so that positions come out in order: count per tile, add up, write.

// Return how many threads of the block before this one have `flag`; `total` is that of all.
INLINE u32 rank_in_block(u32 *counts, bool flag, u32 &total) {
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const u32 votes = __ballot_sync(~0u, flag);
  if (lane == 0) counts[warp] = __popc(votes);
  __syncthreads();
  u32 before = __popc(votes & ((1u << lane) - 1));
  total = 0;
  for (u32 i = 0; i < warps; i++) {
    if (i < warp) before += counts[i];
    total += counts[i];
  }
  __syncthreads();
  return before;
}

KERNEL count_tiles(const u8 *labels, u64 count, u64 label, u64 tiles, u32 *offsets) {
  SHARED_WORDS(words);
  for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    u32 sum = 0;
    for (u32 i = 0; i < TILE; i += blockDim.x) {
      const u64 at = tile * TILE + i + threadIdx.x;
      u32 total;
      rank_in_block((u32 *)words, i + threadIdx.x < TILE && at < count && labels[at] == label,
                    total);
      sum += total;
    }
    if (threadIdx.x == 0) offsets[tile] = sum;
  }
}

// Counts become offsets; one block of threads.
KERNEL add_up(u32 *offsets, u64 tiles, u64 *total) {
  SHARED_WORDS(words);
  u32 *sums = (u32 *)words;
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  u32 carry = 0;
  for (u64 base = 0; base < tiles; base += blockDim.x) {
    const u64 at = base + threadIdx.x;
    const u32 own = at < tiles ? offsets[at] : 0;
    u32 sum = own;
    for (u32 by = 1; by < 32; by *= 2) {
      const u32 left = __shfl_up_sync(~0u, sum, by);
      if (lane >= by) sum += left;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    u32 before = carry;
    for (u32 i = 0; i < warps; i++) {
      if (i < warp) before += sums[i];
      carry += sums[i];
    }
    if (at < tiles) offsets[at] = before + sum - own;
    __syncthreads();
  }
  if (threadIdx.x == 0) *total = carry;
}

KERNEL pack(const u8 *labels, u64 count, u64 label, u64 tiles, const u32 *offsets, u32 *nodes) {
  SHARED_WORDS(words);
  for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    u32 before = offsets[tile];
    for (u32 i = 0; i < TILE; i += blockDim.x) {
      const u64 at = tile * TILE + i + threadIdx.x;
      const bool wanted = i + threadIdx.x < TILE && at < count && labels[at] == label;
      u32 total;
      const u32 rank = rank_in_block((u32 *)words, wanted, total);
      if (wanted) nodes[before + rank] = (u32)at;
      before += total;
    }
  }
}

// Copy chunks one behind another; a warp for each.
KERNEL gather(const u8 *data, u64 nbytes, u64 chunk, const u32 *nodes, u64 count, u8 *payload) {
  const u32 lane = threadIdx.x & 31;
  for (u64 i = thread_number() / 32; i < count; i += thread_count() / 32) {
    const u8 *from = data + nodes[i] * chunk;
    u8 *to = payload + i * chunk;
    const u64 length = length_of(nodes[i], chunk, nbytes);
    const u64 wide = aligned(from, (u64)to, 16) ? length / 16 : 0;
    for (u64 k = lane; k < wide; k += 32) ((ulonglong2 *)to)[k] = ((const ulonglong2 *)from)[k];
    for (u64 k = wide * 16 + lane; k < length; k += 32) to[k] = from[k];
  }
}

// ----------------------------------------------------------------------------------------- tree
// Level k is an array of its own: its node j covers the chunks from j << k up to (j + 1) << k.

// XXH3-128 of both digests and the level, so that no chunk can pass for a node.
INLINE Digest digest_node(Digest left, Digest right, u64 level) {
  const ulonglong2 words[4] = {
      {left.low, left.high}, {left.high, right.low}, {right.low, right.high}, {right.high, level}};
  Digest sum = {40 * PRIME64_1, 0};
  mix32(sum, words[2], words[1], 32);
  mix32(sum, words[0], words[3], 0);
  return finish(sum, 40);
}

// Nodes over two new ones are new, those over two unchanged ones are unchanged.  Only new ones need
// a digest, unless `all` do.
KERNEL fold_new(Digest *digests, u8 *labels, u64 level, u64 below, u64 children, u64 here,
                u64 count, u64 all) {
  for (u64 at = thread_number(); at < count; at += thread_count()) {
    const u64 left = below + 2 * at, right = left + 1;
    u8 label = PARTIAL;
    if (2 * at + 1 < children && labels[right] != PARTIAL) {
      const bool kept = labels[left] == labels[right] && labels[left] != MOVED;
      label = kept ? labels[left] : MIXED;
      if (label == NEW || all)
        digests[here + at] = digest_node(digests[left], digests[right], level);
    }
    labels[here + at] = label;
  }
}

// Nodes over two moved ones moved too, if the table has another one like them.
KERNEL fold_moved(Digest *digests, u8 *labels, u64 level, u64 below, u64 children, u64 here,
                  u64 count, const u64 *table, u64 slots, const Digest *known, u32 *slot_of) {
  for (u64 at = thread_number(); at < count; at += thread_count()) {
    const u64 left = below + 2 * at, right = left + 1;
    if (2 * at + 1 >= children || labels[left] != MOVED || labels[right] != MOVED) continue;
    const Digest d = digest_node(digests[left], digests[right], level);
    const u64 slot = find(table, slots, known, digests, d);
    if (slot == EMPTY || table[slot] == (NEWBIT | (here + at))) continue;
    digests[here + at] = d;
    slot_of[here + at] = (u32)slot;
    labels[here + at] = MOVED;
  }
}

// Mark the nodes that the table holds since this look.
KERNEL mark_claims(const u64 *table, const u32 *slot_of, const u8 *labels, u64 count, u8 *marks) {
  for (u64 at = thread_number(); at < count; at += thread_count()) {
    const bool holds = labels[at] != PARTIAL && table[slot_of[at]] == (NEWBIT | at);
    marks[at] = holds ? NEW : UNCHANGED;
  }
}

// Keep the labels of the nodes that name a region: those whose parent does not say the same.
KERNEL mark_regions(const u8 *labels, u64 here, u64 count, u64 above, u8 *marks) {
  for (u64 at = thread_number(); at < count; at += thread_count()) {
    const u8 label = labels[here + at];
    const bool covered = count > 1 && labels[above + at / 2] == label;
    marks[here + at] = covered || (label != NEW && label != MOVED) ? UNCHANGED : label;
  }
}
