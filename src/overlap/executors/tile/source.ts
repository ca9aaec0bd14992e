/**
 * The tile kernel: one source for products of tiles and for what travels between GPUs meanwhile.
 *
 * A block has a group of 128 threads that moves data and two groups that multiply. One thread loads A and B, as many
 * steps ahead as there are stages; two threads, one for each multiplying group, see to the chunks of 64 x 64 elements in
 * which a tile leaves; a warp may push this rank's part of a gathered operand to the others. What is done with a tile
 * stands in the list of tiles: which flag to wait for before it is loaded, to which ranks the partial sums go, from which
 * ranks partial sums are added, into which matrices the result is stored.
 *
 * Two things keep it fast: the barriers of a cluster's other block are arrived at without `.release.cluster`, and
 * `fence.proxy.async` names shared memory where only that is meant. Either would wait for all stores in flight.
 *
 * It cannot hang: only flags of other ranks are waited for with a deadline; after it nothing is waited for or sent any
 * more, and the kernel runs to its end on what memory holds. All other waits are for the block's own loads.
 *
 * @module
 */
import {
  checkConfiguration,
  columnsOfBlock,
  loadsOfStep,
  type NarrowDType,
  PUSH_BUFFERS,
  stepElements,
  type TileConfiguration,
  type TileDType,
} from "./configuration.ts";

/** The kernel's name. */
export const TILE_KERNEL = "multiply_tiles";

const TYPES: Record<TileDType | NarrowDType, string> = {
  bfloat16: "bf16",
  float16: "f16",
  float8_e4m3: "e4m3",
  float8_e5m2: "e5m2",
};

/** The product of 64 rows by so many columns along 32 bytes of k: an instruction with as many operands as there are sums. */
function product({ columns, dtype, narrow, isRowMajorA, isRowMajorB }: TileConfiguration): string {
  const count = columns / 2;
  const sums = Array.from({ length: count }, (_, i) => `%${i}`).join(", ");
  const operands = Array.from({ length: count }, (_, i) => `"+f"(sum[${i}])`).join(", ");
  const [a, b] = (narrow ?? [dtype, dtype]).map((type) => TYPES[type]);
  const [extent, transposed] = narrow ? [32, ""] : [16, `, ${isRowMajorA ? 0 : 1}, ${isRowMajorB ? 1 : 0}`];
  return `
__device__ __forceinline__ void multiply(float (&sum)[COLUMNS / 2], u64 a, u64 b, int accumulate) {
  asm volatile("{\\n.reg .pred p;\\nsetp.ne.b32 p, %${count + 2}, 0;\\n"
    "wgmma.mma_async.sync.aligned.m64n${columns}k${extent}.f32.${a}.${b} {${sums}}, %${count}, %${count + 1}, "
    "p, 1, 1${transposed};\\n}"
    : ${operands} : "l"(a), "l"(b), "r"(accumulate));
}`;
}

const head = String.raw`
typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) TensorMap { u64 words[16]; };

struct Parameters {
  TensorMap a[8], b[8], d[8];  // by part of A, part of B, and by target
  TensorMap c;                 // what is added to the result, if hasAddend is 1; what D holds if it is 2
  const uint4* tiles;
  // By rank: where its partial sums go, and their flags; where partial sums from it arrive, or wait, and their flags.
  u64 send[8], raise[8], arrive[8], expect[8];
  u64 finish[8], finished[8];  // by rank: where to count blocks that have stored all, and where it counts its own here
  u64 gathered[8];             // by rank: how many pieces of its parts of the gathered operand are here, of all calls
  u64* error;
  u64* report;                 // the same word where the host sees it
  u64 patience;                // in nanoseconds
  const float* bias;           // a number for each row of D, or for each column, if there is a bias
  u32 rows[8];                 // by part of A: the row after its last
  int first_a[8], first_b[8];  // by part: the row of D where A begins, the column where B begins
  int first_row[8], first_column[8];  // by target: the row and column of D where it begins
  u32 count, steps, rank, call, bytesA, piece, finishMask, finishCount;
  float alpha, beta;
  u32 hasAddend, biasCount, isBiasOfRows;
  int originRow, originColumn;  // where this rank's D begins
  // How many halves of tiles have one flag. Where partial sums go to memory of this rank, for copy engines to push them on,
  // the flags to raise count these halves; else they hold the call.
  u32 panel, isPushed;
  u64* stamps;                  // by call: when its first block began, when its last one ended; or 0
  u32 pieces, pieceSteps;       // how many pieces along k parts of a gathered factor have, and how many steps each
  u64* marks;                   // by tile of the list: when what its first block does with it begins and ends; or 0
  // If blocks push this rank's part of the gathered operand, to where partial sums would go: where it lies, and what counts
  // the shares that they took of it, of all calls; its rows, and their units of 16 bytes; by how many of each a piece begins
  // after the one before, if it does; and units from a row to the next.
  u64 pushed, shares;
  u32 pushedRows, pushedUnits, pieceRows, pieceUnits, pitch;
  u32 putEvery, takeEvery;      // how many steps lie between two chunks that leave, and between two that are added
};
constexpr u32 STAMPS = 64;
// Shares of a piece, which blocks take one by one; and bytes from the flags of a piece to those of the next.
constexpr u32 SHARES = 128, PIECE_FLAGS = 32;

// What is marked of a tile: a wait for a part of an operand, its products, a wait for partial sums.
enum Mark { AWAIT_PART, HAVE_PART, MULTIPLY, MULTIPLIED, AWAIT_SUMS, HAVE_SUMS, MARKS };

// A tile of the list. x, y: its first row and column. z: its number in the receiver's list, and << 24 the targets.
// w: the part of A, << 4 the part of B, << 8 the rank whose part it waits for and one more,
// << 16 the ranks to send to, << 24 the ranks to add.
__device__ __forceinline__ u32 part_of_a(uint4 t) { return t.w & 15; }
__device__ __forceinline__ u32 part_of_b(uint4 t) { return t.w >> 4 & 15; }
__device__ __forceinline__ u32 flag_of(uint4 t) { return t.w >> 8 & 15; }
__device__ __forceinline__ u32 receivers_of(u32 ranks) { return ranks >> 16 & 255; }
__device__ __forceinline__ u32 senders_of(u32 ranks) { return ranks >> 24; }
__device__ __forceinline__ u32 targets_of(uint4 t) { return t.z >> 24; }
__device__ __forceinline__ u32 number_of(uint4 t) { return t.z & 0xffffff; }

constexpr u32 CHUNKS = (COLUMNS + 63) / 64, BYTES_A = 128 * 128, BYTES_B = CHUNKS * 64 * 128;
constexpr u32 BYTES_STAGE = BYTES_A + BYTES_B, CHUNK_BYTES = 8192;
// What is loaded of B a stage: where columns follow each other whole chunks, else what each block of a cluster loads.
constexpr u32 LOADED_B = IS_ROW_MAJOR_B ? BYTES_B : CLUSTER * COLUMNS_OF_BLOCK * 128;

// The column of a tile where a chunk begins. The last one overlaps the one before unless it is full of columns of its own.
__device__ __forceinline__ constexpr u32 column_of(u32 chunk) {
  return chunk * 64 + 64 <= COLUMNS ? chunk * 64 : COLUMNS - 64;
}
// The first of a chunk's 32 sums that no chunk before has.
__device__ __forceinline__ constexpr u32 own_sums(u32 chunk) { return (chunk * 64 - column_of(chunk)) / 2; }

// ---- barriers in shared memory

__device__ __forceinline__ void barrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ bool barrier_test(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
    : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  return done;
}
__device__ __forceinline__ bool barrier_try(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
    : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  return done;
}
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
  while (!barrier_try(barrier, parity)) {}
}
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_arrive_at(u32 barrier, u32 block) {
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [r];\n}"
    :: "r"(barrier), "r"(block) : "memory");
}
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// ---- copies that the hardware does by itself

__device__ __forceinline__ void load_box(u32 to, const TensorMap* map, int x, int y, u32 barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
    :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ __forceinline__ void load_box_for_all(u32 to, const TensorMap* map, int x, int y, u32 barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
    "[%0], [%1, {%2, %3}], [%4], %5;"
    :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier), "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap* map, int x, int y, u32 from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
    :: "l"(map), "r"(x), "r"(y), "r"(from) : "memory");
}
__device__ __forceinline__ void load_bytes(u32 to, u64 from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
__device__ __forceinline__ void store_bytes(u64 to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
// All but the last group of stores.
__device__ __forceinline__ void earlier_stores_done() { asm volatile("cp.async.bulk.wait_group 1;" ::: "memory"); }
__device__ __forceinline__ void stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// ---- flags of other ranks

__device__ __forceinline__ u32 flag_read(u64 flag) {
  u32 value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ __forceinline__ void flag_write(u64 flag, u32 value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}
__device__ __forceinline__ void flag_count(u64 flag) {
  asm volatile("red.release.sys.global.add.u32 [%0], 1;" :: "l"(flag) : "memory");
}
__device__ __forceinline__ bool has_reached(u64 flag, u32 value) { return (int)(flag_read(flag) - value) >= 0; }

__device__ __forceinline__ u64 now() {
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__device__ __forceinline__ void mark(const Parameters& p, u32 tile, Mark what) {
  if (p.marks != nullptr) p.marks[(u64)tile * MARKS + what] = now();
}

// The time that a thread waits for other ranks. Once it is up, what it notes is which rank, and for what.
struct Patience {
  u64 end;
  u32 polls;
  bool is_over;
  __device__ __forceinline__ Patience(const Parameters& p)
    : end(now() + p.patience), polls(0), is_over(*(volatile u64*)p.error != 0) {}
  __device__ __forceinline__ bool ends(const Parameters& p, u32 what, u32 rank) {
    if (!is_over && (++polls & 63) == 0 && now() > end) {
      is_over = true;
      u64 word = (u64)what << 40 | (u64)(rank + 1) << 32 | p.call;
      if (atomicCAS(p.error, 0ull, word) == 0) *(volatile u64*)p.report = word;
    }
    return is_over;
  }
};

// ---- elements

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 both;
  asm volatile("cvt.rn." PAIR ".f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ __forceinline__ float low_of(u32 both) {
#if IS_BFLOAT16
  return __uint_as_float(both << 16);
#else
  float x;
  asm volatile("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.f32.f16 %0, l;\n}" : "=f"(x) : "r"(both));
  return x;
#endif
}
__device__ __forceinline__ float high_of(u32 both) {
#if IS_BFLOAT16
  return __uint_as_float(both & 0xffff0000u);
#else
  float x;
  asm volatile("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %1;\ncvt.f32.f16 %0, h;\n}" : "=f"(x) : "r"(both));
  return x;
#endif
}
`;

const body = String.raw`
// What wgmma has to know of a tile in shared memory: where it starts, the strides of its groups of 64 x 8 elements, and
// that rows of 128 bytes are swizzled.
__device__ __forceinline__ u64 descriptor(u32 address, bool is_k_major) {
  u64 leading = is_k_major ? 1 : 8192 >> 4;
  return (u64)(address >> 4 & 0x3fff) | leading << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

// How far 32 bytes along k are, in units of 16 bytes.
constexpr u32 STEP_A = IS_ROW_MAJOR_A ? 2 : 128, STEP_B = IS_ROW_MAJOR_B ? 128 : 2;

// Load A and B, tile after tile.
__device__ __forceinline__ void load(const Parameters& p, u32 stages, u32 full, u32 empty, u32 block, u32 first, u32 stride) {
  Patience patience(p);
  u32 here = 1;  // the parts of the gathered operand that are known to be here
  const u32 loads = p.steps * LOADS;
  u32 use = 0, phase = 1;
  if (first >= p.count) return;
  uint4 next = p.tiles[first];
  for (u32 position = first; position < p.count; position += stride) {
    uint4 tile = next;
    if (position + stride < p.count) next = p.tiles[position + stride];
    u32 flag = flag_of(tile), piece = 0;
    u32 known = here >> flag & 1 ? loads : 0;  // the loads whose factors are here
    here |= 1u << flag;
    const TensorMap* a = &p.a[part_of_a(tile)];
    const TensorMap* b = &p.b[part_of_b(tile)];
    int row = tile.x + block * 128 - p.first_a[part_of_a(tile)], column = tile.y - p.first_b[part_of_b(tile)];
    // A block whose rows all lie behind the part's end takes part for the other one's B: loading nothing but zeros is slow.
    const bool has_rows = tile.x + block * 128 < p.rows[part_of_a(tile)];
    for (u32 load = 0; load < loads; load++) {
      if (load == known) {
        if (block == 0 && load == 0) mark(p, position, AWAIT_PART);
        // Blocks count the shares of each piece, copy engines pieces.
        const u64 count = p.gathered[flag - 1] + (BLOCKS_PUSH ? piece * PIECE_FLAGS : 0);
        piece++;
        const u32 least = BLOCKS_PUSH ? p.call * SHARES : (p.call - 1) * p.pieces + piece;
        while (!has_reached(count, least) && !patience.ends(p, 1, flag - 1)) {}
        fence_global();
        known += p.pieceSteps * LOADS;
        if (block == 0 && load == 0) mark(p, position, HAVE_PART);
      }
      int k = load * (STEP / LOADS);
      u32 at = stages + use * BYTES_STAGE, barrier = full + use * 8;
      barrier_wait(empty + use * 8, phase);
      barrier_expect(barrier, (has_rows ? p.bytesA : 0) + LOADED_B);
#if IS_ROW_MAJOR_A
      if (has_rows) load_box(at, a, k, row, barrier);
#else
      if (has_rows) load_box(at, a, row, k, barrier);
      if (has_rows) load_box(at + BYTES_A / 2, a, row + 64, k, barrier);
#endif
      u32 to = at + BYTES_A;
#if IS_ROW_MAJOR_B
#pragma unroll
      for (u32 i = 0; i < CHUNKS; i++) {
#if CLUSTER == 1
        load_box(to + i * 8192, b, column + i * 64, k, barrier);
#else
        load_box_for_all(to + i * 8192 + block * (8192 / CLUSTER), b, column + i * 64, k + block * (64 / CLUSTER), barrier);
#endif
      }
#elif CLUSTER == 1
      load_box(to, b, k, column, barrier);
#else
      const u32 part = block * (COLUMNS - COLUMNS_OF_BLOCK);
      load_box_for_all(to + part * 128, b, k, column + part, barrier);
#endif
      if (++use == STAGES) use = 0, phase ^= 1;
    }
  }
  // A kernel behind this one may come as soon as blocks end.
  asm volatile("griddepcontrol.launch_dependents;");
}

#if BLOCKS_PUSH
// What blocks push of a piece: its rows have so many units.
__device__ __forceinline__ u32 width_of(const Parameters& p, u32 piece) {
  return p.pieceUnits != 0 ? min(p.pieceUnits, p.pushedUnits - piece * p.pieceUnits) : p.pushedUnits;
}
__device__ __forceinline__ u64 units_of(const Parameters& p, u32 piece) {
  const u32 rows = p.pieceRows != 0 ? min(p.pieceRows, p.pushedRows - piece * p.pieceRows) : p.pushedRows;
  return (u64)rows * width_of(p, piece);
}

// A chunk at the most of what is pushed, which a share ends with, or does not.
struct Portion { u32 piece, unit, count; bool ends; };

// Each lane copies some of a portion's rows, or what it has of them: from or to so many bytes behind the part's first one,
// between so many behind the chunk's.
template <class Copy>
__device__ __forceinline__ void each_row(const Parameters& p, const Portion& portion, const Copy& copy) {
  const u32 width = width_of(p, portion.piece), end = portion.unit + portion.count;
  for (u32 row = portion.unit / width + (threadIdx.x & 31); row * width < end; row += 32) {
    const u32 from = max(portion.unit, row * width), to = min(end, (row + 1) * width);
    const u64 first = (u64)(portion.piece * p.pieceRows + row) * p.pitch + portion.piece * p.pieceUnits;
    copy((first + from - row * width) * 16, (from - portion.unit) * 16, (to - from) * 16);
  }
}

// Push this rank's part of the gathered operand to the others, share by share. Blocks that run take what there is: none
// waits for another one to run. While a portion is loaded, the one before leaves, and the one before that is told of.
__device__ __forceinline__ void push(const Parameters& p, u32 buffers, u32 barriers) {
  const u32 lane = threadIdx.x & 31, all = p.pieces * SHARES;
  const bool is_over = __any_sync(~0u, *(volatile u64*)p.error != 0);
  // Each block asks once more than it gets.
  auto take = [&] { return lane == 0 ? atomicAdd((u32*)p.shares, 1) - (p.call - 1) * (all + gridDim.x) : 0; };
  Portion loaded = {}, leaving = {}, left = {};
  u32 next = take(), piece = 0, unit = 0, end = 0;
  bool has_more = true;
  for (u32 turn = 0, last = ~0u; turn != last; turn++) {
    if (has_more && unit == end) {
      const u32 share = __shfl_sync(~0u, next, 0), part = share % SHARES;
      has_more = share < all;
      if (has_more) {
        next = take();
        piece = share / SHARES;
        const u64 units = units_of(p, piece);
        unit = units * part / SHARES;
        end = units * (part + 1) / SHARES;
        if (is_over) unit = end;
      } else {
        last = turn + 2;
      }
    }
    left = leaving;
    leaving = loaded;
    const u32 count = has_more ? min(end - unit, CHUNK_BYTES / 16) : 0;
    loaded = {piece, unit, count, has_more && unit + count == end};
    unit += count;
    stores_read();
    __syncwarp();
    const u32 buffer = buffers + turn % PUSH_BUFFERS * CHUNK_BYTES, barrier = barriers + turn % PUSH_BUFFERS * 8;
    if (lane == 0) barrier_expect(barrier, count * 16);
    __syncwarp();
    if (count != 0) {
      each_row(p, loaded, [&](u64 from, u32 at, u32 bytes) { load_bytes(buffer + at, p.pushed + from, bytes, barrier); });
    }
    if (leaving.count != 0) {
      const u32 before = (turn - 1) % PUSH_BUFFERS;
      barrier_wait(barriers + before * 8, (turn - 1) / PUSH_BUFFERS & 1);
      for (u32 rank = 0; rank < 8; rank++) {
        if (p.send[rank] == 0) continue;
        each_row(p, leaving, [&](u64 to, u32 at, u32 bytes) {
          store_bytes(p.send[rank] + to, buffers + before * CHUNK_BYTES + at, bytes);
        });
      }
    }
    stores_commit();
    earlier_stores_done();
    __syncwarp();
    if (left.ends && lane < 8 && p.send[lane] != 0 && !is_over) flag_count(p.raise[lane] + left.piece * PIECE_FLAGS);
  }
}
#endif

// The uses of the slots in their order, as both sides of a slot go through them. A tile has up to four phases: its
// partial sums are sent, chunk by chunk; those of each sender are added, chunk by chunk; then C is; the result is stored.
enum Phase { SEND, ADD, ADD_C, STORE };
struct Cursor {
  u32 position, use, chunk, senders;
  Phase phase;
  uint4 tile;
  __device__ __forceinline__ void open(const Parameters& p) {
    if (position >= p.count) return;
    tile = p.tiles[position];
    chunk = 0;
    senders = senders_of(tile.w);
    phase = receivers_of(tile.w) != 0 ? SEND : senders != 0 ? ADD : p.hasAddend ? ADD_C : STORE;
  }
  __device__ __forceinline__ Cursor(const Parameters& p, u32 first) : position(first), use(0) { open(p); }
  __device__ __forceinline__ void advance(const Parameters& p, u32 stride) {
    use++;
    if (++chunk < CHUNKS) return;
    chunk = 0;
    if (phase == ADD) senders &= senders - 1;
    if (phase < ADD_C && senders != 0) phase = ADD;
    else if (phase != STORE && targets_of(tile) != 0) phase = phase < ADD_C && p.hasAddend ? ADD_C : STORE;
    else {
      position += stride;
      open(p);
    }
  }
};

// See to the slots of one multiplying group: fill them with what arrived, empty them to where it goes.
__device__ __forceinline__ void carry(
  const Parameters& p, u32 slots, u32 ready, u32 filled, u32 block, u32 half, u32 first, u32 stride
) {
  Patience patience(p);
  Cursor in(p, first), out(p, first);
  bool is_waiting = false;  // for partial sums
  u32 freed = 0;  // the uses whose slot can be taken again
  while (out.position < p.count) {
    bool has_room = in.position < p.count && in.use < freed + SLOTS;
    if (has_room) {
      u32 slot = in.use % SLOTS, barrier = ready + slot * 8;
      u32 row = in.tile.x + block * 128 + half * 64, rows = p.rows[part_of_a(in.tile)];
      u32 valid = row < rows ? min(rows - row, 64) : 0;
      bool is_here = true;
      if (in.phase == ADD && valid != 0) {
        u32 sender = __ffs(in.senders) - 1;
        u32 number = (number_of(in.tile) + block) * 2 + half;
        // All chunks of a tile have one flag.
        if (in.chunk == 0) {
          u64 flag = p.expect[sender] + (u64)(number / p.panel) * 4;
          is_here = patience.is_over || has_reached(flag, p.call) || patience.ends(p, 2, sender);
          if (is_here == is_waiting) {
            if (block == 0 && half == 0) mark(p, in.position, is_here ? HAVE_SUMS : AWAIT_SUMS);
            is_waiting = !is_here;
          }
        }
        if (patience.is_over) {
          // The memory may be that of a rank that has gone.
          barrier_arrive(barrier);
        } else if (is_here) {
          fence_global();
          barrier_expect(barrier, valid * 128);
          u64 from = p.arrive[sender] + ((u64)number * CHUNKS + in.chunk) * CHUNK_BYTES;
          load_bytes(slots + slot * CHUNK_BYTES, from, valid * 128, barrier);
        }
      } else if (in.phase == ADD_C) {
        u32 target = __ffs(targets_of(in.tile)) - 1;
        bool is_in_d = p.hasAddend == 2;
        int column = in.tile.y + column_of(in.chunk) - (is_in_d ? p.first_column[target] : p.originColumn);
        int line = row - (is_in_d ? p.first_row[target] : p.originRow);
        barrier_expect(barrier, CHUNK_BYTES);
        load_box(slots + slot * CHUNK_BYTES, is_in_d ? &p.d[target] : &p.c, column, line, barrier);
      } else {
        barrier_arrive(barrier);
      }
      if (is_here) {
        in.advance(p, stride);
        continue;
      }
    }
    u32 slot = out.use % SLOTS, parity = out.use / SLOTS & 1;
    // Where something else may have to be done soon, a look is enough.
    bool may_wait = !has_room && freed == out.use;
    if (out.use < in.use && (may_wait ? barrier_try(filled + slot * 8, parity) : barrier_test(filled + slot * 8, parity))) {
      u32 from = slots + slot * CHUNK_BYTES, receivers = receivers_of(out.tile.w);
      u32 row = out.tile.x + block * 128 + half * 64, rows = p.rows[part_of_a(out.tile)];
      u32 valid = row < rows ? min(rows - row, 64) : 0;
      if (out.phase == SEND) {
        u32 number = (number_of(out.tile) + block) * 2 + half;
        u64 offset = ((u64)number * CHUNKS + out.chunk) * CHUNK_BYTES;
        if (p.isPushed) {
          u32 receiver = __ffs(receivers) - 1;
          if (valid != 0) {
            store_bytes(p.send[receiver] + offset, from, valid * 128);
            stores_commit();
          }
          // Also after a deadline, and for halves without rows: copy engines wait for all.
          if (out.chunk == CHUNKS - 1) {
            stores_done();
            freed = out.use + 1;
            flag_count(p.raise[receiver] + (u64)(number / p.panel) * 4);
          }
        } else if (valid != 0 && !patience.is_over) {
          for (u32 left = receivers; left; left &= left - 1) {
            u64 to = p.send[__ffs(left) - 1] + offset;
            for (u32 sent = 0; sent < valid * 128; sent += p.piece) {
              store_bytes(to + sent, from + sent, min(p.piece, valid * 128 - sent));
              stores_commit();
              // One piece at a time: more would only queue at the link and slow the loads of A and B.
              if (!(left & left - 1)) stores_done();
            }
          }
          if (out.chunk == CHUNKS - 1) {
            for (u32 left = receivers; left; left &= left - 1) {
              flag_write(p.raise[__ffs(left) - 1] + (u64)number * 4, p.call);
            }
          }
          freed = out.use + 1;
        }
      } else if (out.phase == STORE) {
        if (valid != 0) {
          for (u32 left = targets_of(out.tile); left; left &= left - 1) {
            u32 target = __ffs(left) - 1;
            int column = out.tile.y + column_of(out.chunk);
            store_box(&p.d[target], column - p.first_column[target], row - p.first_row[target], from);
          }
          stores_commit();
        }
      }
      out.advance(p, stride);
    } else if (freed < out.use) {
      stores_read();
      freed = out.use;
    }
  }
  stores_done();
  for (u32 left = p.finishMask; left; left &= left - 1) {
    if (!patience.is_over) flag_count(p.finish[__ffs(left) - 1]);
  }
  // The cluster that begins last waits until all ranks have stored all.
  if (first == stride - 1 && block == 0 && half == 0) {
    for (u32 left = p.finishMask; left; left &= left - 1) {
      u32 rank = __ffs(left) - 1;
      while (!has_reached(p.finished[rank], p.call * p.finishCount) && !patience.ends(p, 3, rank)) {}
    }
  }
}

// Chunks of 64 x 64 in shared memory: rows of 128 bytes, their 16-byte units swizzled as the copies of boxes expect. Where
// a thread's first unit lies; its others are 32 bytes on, where the swizzle has them.
__device__ __forceinline__ u32 unit_offset() {
  u32 lane = threadIdx.x & 31, row = (threadIdx.x >> 5 & 3) * 16 + (lane & 15);
  return row * 128 + ((lane >> 4 ^ row & 7) << 4);
}

// Round the sums of a chunk, two in a word.
__device__ __forceinline__ void round_chunk(u32* words, const float* sum) {
#pragma unroll
  for (u32 i = 0; i < 16; i++) words[i] = pack(sum[i * 2], sum[i * 2 + 1]);
}

__device__ __forceinline__ void write_chunk(const u32* words, u32 unit) {
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    const u32* w = words + i * 4;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};"
      :: "r"(unit ^ i << 5), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
  }
}

__device__ __forceinline__ void read_chunk(u32* words, u32 unit) {
#pragma unroll
  for (u32 i = 0; i < 4; i++) {
    u32* w = words + i * 4;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(unit ^ i << 5) : "memory");
  }
}

// Add a chunk to the sums of a tile: those that no chunk before has.
__device__ __forceinline__ void add_chunk(float (&sums)[COLUMNS / 2], u32 chunk, const u32* words, float factor = 1) {
  float* sum = sums + column_of(chunk) / 2;
#pragma unroll
  for (u32 i = own_sums(chunk) / 2; i < 16; i++) {
    sum[i * 2] = __fmaf_rn(factor, low_of(words[i]), sum[i * 2]);
    sum[i * 2 + 1] = __fmaf_rn(factor, high_of(words[i]), sum[i * 2 + 1]);
  }
}

// gelu in its tanh form: 1 + tanh(u) is 2 / (1 + exp(-2u)).
__device__ __forceinline__ float gelu(float x) {
  return __fdividef(x, 1 + __expf(-1.5957691216057308f * __fmaf_rn(0.044715f * x * x, x, x)));
}

// Bias and activation, where the kernel has them. A thread has, of each 8 columns, two neighbours in one row and in the row
// 8 below.
__device__ __forceinline__ void finish(const Parameters& p, float (&sum)[COLUMNS / 2], uint4 tile, u32 top) {
  // Asking for it, too, keeps what follows apart: with both in one the compiler spills registers.
  if (HAS_BIAS && p.bias != nullptr) {
    const u32 lane = threadIdx.x & 31;
    const u32 row = tile.x + top + (threadIdx.x >> 5 & 3) * 16 + (lane >> 2) - p.originRow;
    const u32 column = tile.y + (lane & 3) * 2 - p.originColumn;
    auto bias = [&](u32 i) { return i < p.biasCount ? p.bias[i] : 0; };
    if (p.isBiasOfRows) {
      const float upper = bias(row), lower = bias(row + 8);
#pragma unroll
      for (u32 i = 0; i < COLUMNS / 2; i++) sum[i] += i & 2 ? lower : upper;
    } else {
#pragma unroll
      for (u32 i = 0; i < COLUMNS / 2; i += 4) {
        const float left = bias(column + i * 2), right = bias(column + i * 2 + 1);
        sum[i] += left, sum[i + 1] += right, sum[i + 2] += left, sum[i + 3] += right;
      }
    }
  }
  if (IS_RELU) {
#pragma unroll
    for (u32 i = 0; i < COLUMNS / 2; i++) sum[i] = sum[i] < 0 ? 0 : sum[i];
  } else if (IS_GELU) {
#pragma unroll
    for (u32 i = 0; i < COLUMNS / 2; i++) sum[i] = gelu(sum[i]);
  }
}

// Multiply, tile after tile, and hand the results over in chunks: while the first steps of the next tile are multiplied,
// since all blocks would pause at the same time otherwise.
__device__ __forceinline__ void compute(
  const Parameters& p, u32 stages, u32 slots, u32 full, u32 empty, u32 ready, u32 filled, u32 block, u32 half, u32 first,
  u32 stride
) {
  const u32 thread = threadIdx.x & 127;
  u32 stage = 0, phase = 0, use = 0;
  float sum[COLUMNS / 2];
#if IS_NARROW
  // Tensor cores add products of 8 bits with few bits: what they add in a step is added to the sums here.
  float part[COLUMNS / 2];
#else
  float (&part)[COLUMNS / 2] = sum;
#endif
  // In the first steps of a tile, the result of the one before, rounded; in the last ones, what arrived from one sender.
  u32 held[CHUNKS * 16];

  const u32 offset = slots + unit_offset();
  auto unit_in = [&](u32 use) { return offset + use % SLOTS * CHUNK_BYTES; };
  auto await = [&](u32 use) { barrier_wait(ready + use % SLOTS * 8, use / SLOTS & 1); };
  auto hand_over = [&](u32 use) {
    fence_shared();
    __syncwarp();
    if (thread % 32 == 0) barrier_arrive(filled + use % SLOTS * 8);
  };
  auto put = [&](const u32* words) {
    await(use);
    write_chunk(words, unit_in(use));
    hand_over(use++);
  };
  auto take = [&](u32* words) {
    await(use);
    read_chunk(words, unit_in(use));
    hand_over(use++);
  };
  auto begin_step = [&](u32 step) {
#pragma unroll
    for (u32 load = 0; load < LOADS; load++) barrier_wait(full + (stage + load) * 8, phase);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (u32 load = 0; load < LOADS; load++) {
      u32 at = stages + (stage + load) * BYTES_STAGE;
      u64 a = descriptor(at + half * (BYTES_A / 2), IS_ROW_MAJOR_A), b = descriptor(at + BYTES_A, !IS_ROW_MAJOR_B);
#pragma unroll
      for (u32 i = 0; i < 4; i++) multiply(part, a + i * STEP_A, b + i * STEP_B, !IS_NARROW && step != 0 || load != 0 || i != 0);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  };
  // The stage of the step before the one that comes next.
  auto release = [&] {
    if (thread < CLUSTER) barrier_arrive_at(empty + (stage == 0 ? STAGES - 1 : stage - 1) * 8, thread);
  };
  auto end_step = [&](u32 step) {
#if IS_NARROW
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (u32 load = 0; load < LOADS; load++) {
      if (++stage == STAGES) stage = 0, phase ^= 1;
      release();
    }
#pragma unroll
    for (u32 i = 0; i < COLUMNS / 2; i++) {
      asm volatile("" : "+f"(part[i]) :: "memory");
      sum[i] += part[i];
    }
#else
    // The step before this one is done with its stage.
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (step != 0) release();
    if (++stage == STAGES) stage = 0, phase ^= 1;
#endif
  };

  u32 position = first;
  for (; position < p.count; position += stride) {
    const uint4 tile = p.tiles[position];
    const u32 senders = senders_of(tile.w);
    const bool is_sent = receivers_of(tile.w) != 0, is_result = targets_of(tile) != 0;
    const bool is_holding = position >= stride;
    const bool is_marking = threadIdx.x == 128 && block == 0;
    if (is_marking) mark(p, position, MULTIPLY);
#if IS_NARROW
#pragma unroll
    for (u32 i = 0; i < COLUMNS / 2; i++) sum[i] = 0;
#endif
    // What is added to this tile first is fetched meanwhile.
    const bool is_fetched = !is_sent && (senders != 0 || p.hasAddend);
    u32 left = is_holding ? 0 : CHUNKS, taken = is_fetched ? 0 : CHUNKS;  // chunks that have left, and that are taken
    const u32 first_taken = p.steps - min(p.steps, CHUNKS * p.takeEvery);
    auto put_next = [&] {
#pragma unroll
      for (u32 i = 0; i < CHUNKS; i++) {
        if (i == left) put(held + i * 16);
      }
      left++;
    };
    auto take_next = [&] {
#pragma unroll
      for (u32 i = 0; i < CHUNKS; i++) {
        if (i == taken) take(held + i * 16);
      }
      taken++;
    };
    // A chunk leaves, or is taken, in some of the steps; no more code for steps than this, since it takes long to compile.
    u32 step = 0;
#pragma unroll 1
    while (step < p.steps) {
      const u32 next = left < CHUNKS ? left * p.putEvery : taken < CHUNKS ? first_taken + taken * p.takeEvery : p.steps;
#pragma unroll 1
      for (const u32 end = min(next, p.steps); step < end; step++) {
        begin_step(step);
        end_step(step);
      }
      if (step == p.steps) break;
      begin_step(step);
      if (left < CHUNKS) put_next();
      else take_next();
      end_step(step++);
    }
#pragma unroll 1
    while (left < CHUNKS) put_next();
#pragma unroll 1
    while (taken < CHUNKS) take_next();
#if !IS_NARROW
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release();
#endif

    if (is_marking) mark(p, position, MULTIPLIED);
    if (p.alpha != 1) {
#pragma unroll
      for (u32 i = 0; i < COLUMNS / 2; i++) sum[i] = p.alpha == 0 ? 0 : sum[i] * p.alpha;
    }
    if (is_sent && senders != 0) {
      // The others wait for it. What they get is rounded, so it is what is added here, too; or it comes back from here.
      const bool comes_back = senders >> p.rank & 1;
#pragma unroll
      for (u32 chunk = 0; chunk < CHUNKS; chunk++) {
        u32 words[16];
        round_chunk(words, sum + column_of(chunk) / 2);
        put(words);
#pragma unroll
        for (u32 i = own_sums(chunk); i < 32; i++) sum[column_of(chunk) / 2 + i] = 0;
        if (!comes_back) add_chunk(sum, chunk, words);
      }
    }
    if (is_fetched) {
      const float factor = senders != 0 ? 1 : p.beta;
#pragma unroll
      for (u32 chunk = 0; chunk < CHUNKS; chunk++) add_chunk(sum, chunk, held + chunk * 16, factor);
    }
    // What the other senders made, and C behind them.
    const u32 sums = __popc(senders), summands = sums + (is_result && senders != 0 && p.hasAddend);
    for (u32 i = is_fetched && senders != 0; i < summands; i++) {
      const float factor = i < sums ? 1 : p.beta;
#pragma unroll
      for (u32 chunk = 0; chunk < CHUNKS; chunk++) {
        u32 words[16];
        take(words);
        add_chunk(sum, chunk, words, factor);
      }
    }
    if (is_result && (HAS_BIAS || IS_RELU || IS_GELU)) finish(p, sum, tile, block * 128 + half * 64);
#pragma unroll
    for (u32 chunk = 0; chunk < CHUNKS; chunk++) round_chunk(held + chunk * 16, sum + column_of(chunk) / 2);
  }
  if (position >= stride) {
#pragma unroll
    for (u32 chunk = 0; chunk < CHUNKS; chunk++) put(held + chunk * 16);
  }
}

extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
__launch_bounds__(384, 1) multiply_tiles(const __grid_constant__ Parameters p) {
  extern __shared__ unsigned char shared[];
  const u32 stages = ((u32)__cvta_generic_to_shared(shared) + 1023) & ~1023u, slots = stages + STAGES * BYTES_STAGE;
  const u32 pushed = slots + 2 * SLOTS * CHUNK_BYTES, full = pushed + PUSH_BUFFERS * CHUNK_BYTES;
  const u32 empty = full + STAGES * 8, ready = empty + STAGES * 8, filled = ready + 2 * SLOTS * 8;
  const u32 pushing = filled + 2 * SLOTS * 8;
  const u32 block = CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER, first = blockIdx.x / CLUSTER, stride = gridDim.x / CLUSTER;
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < STAGES; i++) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, 2 * CLUSTER);
    }
    for (u32 i = 0; i < 2 * SLOTS; i++) {
      barrier_init(ready + i * 8, 1);
      barrier_init(filled + i * 8, 4);
    }
    for (u32 i = 0; i < PUSH_BUFFERS; i++) barrier_init(pushing + i * 8, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
#if CLUSTER > 1
  cluster_barrier();
#endif
  // What was on the stream before is done with its memory; all above is beside it.
  asm volatile("griddepcontrol.wait;" ::: "memory");
  u64* stamp = p.stamps + p.call % STAMPS * 2;
  if (p.stamps != nullptr && threadIdx.x == 0) atomicMin(stamp, now());
  const u32 group = threadIdx.x / 128;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    u32 warp = threadIdx.x / 32;
#if BLOCKS_PUSH
    if (warp == 3) push(p, pushed, pushing);
#endif
    if (threadIdx.x % 32 == 0) {
      if (warp == 0) load(p, stages, full, empty, block, first, stride);
      else if (warp < 3) {
        u32 half = warp - 1, of_half = half * SLOTS;
        carry(p, slots + of_half * CHUNK_BYTES, ready + of_half * 8, filled + of_half * 8, block, half, first, stride);
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    u32 half = group - 1, of_half = half * SLOTS;
    compute(p, stages, slots + of_half * CHUNK_BYTES, full, empty, ready + of_half * 8, filled + of_half * 8, block, half, first, stride);
  }
#if CLUSTER > 1
  // The other block may still copy into this one's memory, and arrive at its barriers.
  cluster_barrier();
#endif
  if (p.stamps != nullptr && threadIdx.x % 32 == 0) atomicMax(stamp + 1, now());
}
`;

/**
 * The source of the kernel for a configuration, in CUDA C++ without any header.
 *
 * @throws {RangeError} if there can be no such kernel.
 */
export function tileSource(configuration: TileConfiguration): string {
  checkConfiguration(configuration);
  const { columns, stages, slots, cluster, dtype, narrow, isRowMajorA, isRowMajorB, hasBias, activation, blocksPush } =
    configuration;
  const macros = {
    COLUMNS: columns,
    STAGES: stages,
    SLOTS: slots,
    CLUSTER: cluster,
    COLUMNS_OF_BLOCK: columnsOfBlock(configuration),
    STEP: stepElements(configuration),
    IS_BFLOAT16: Number(dtype === "bfloat16"),
    IS_NARROW: Number(narrow !== undefined),
    LOADS: loadsOfStep(configuration),
    // Of 8-bit factors, 1 for float8_e5m2.
    IS_E5M2_A: Number(narrow?.[0] === "float8_e5m2"),
    IS_E5M2_B: Number(narrow?.[1] === "float8_e5m2"),
    IS_ROW_MAJOR_A: Number(isRowMajorA),
    IS_ROW_MAJOR_B: Number(isRowMajorB),
    BLOCKS_PUSH: Number(blocksPush ?? false),
    PUSH_BUFFERS: blocksPush ? PUSH_BUFFERS : 0,
    HAS_BIAS: Number(hasBias ?? false),
    IS_RELU: Number(activation === "relu"),
    IS_GELU: Number(activation === "gelu"),
    PAIR: `"${TYPES[dtype]}x2"`,
  };
  const lines = Object.entries(macros).map(([name, value]) => `#define ${name} ${value}`);
  return [...lines, head, product(configuration), body].join("\n");
}
