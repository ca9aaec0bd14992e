// What a tile kernel does, tile after tile, on one thread. The text of the kernel gives the macros and the parameters; see
// src/overlap/executors/tile/source.ts. Waiting works between processes, since symmetric memory is files that all map.

struct Box { char* address; u64 inner, outer, stride, boxInner, boxOuter; };
static const Box& box_of(const TensorMap& map) { return *(const Box*)&map; }

#if IS_BFLOAT16
static float to_float(unsigned short bits) { return mock_bits<float>((u32)bits << 16); }
static unsigned short rounded(float value) { return float_to_bfloat16(value); }
#else
static float to_float(unsigned short bits) { return half_to_float(bits); }
static unsigned short rounded(float value) { return float_to_half(value); }
#endif
// What an element of 8 bits is: float8_e5m2 has the upper half of a float16.
static float narrow_to_float(unsigned char bits, bool is_e5m2) {
  if (is_e5m2) return half_to_float((unsigned short)(bits << 8));
  int exponent = bits >> 3 & 15, fraction = bits & 7;
  float value = exponent == 0 ? fraction / 512.0f : __builtin_ldexpf(8 + fraction, exponent - 10);
  return (bits & 127) == 127 ? __builtin_nanf("") : bits & 128 ? -value : value;
}
constexpr u32 FACTOR_BYTES = IS_NARROW ? 1 : 2;
static float factor(const char* at, bool is_e5m2) {
  return IS_NARROW ? narrow_to_float(*(const unsigned char*)at, is_e5m2) : to_float(*(const unsigned short*)at);
}
static char* element(const TensorMap& map, long inner, long outer, u32 bytes) {
  const Box& box = box_of(map);
  if (inner < 0 || outer < 0 || inner >= (long)box.inner || outer >= (long)box.outer) return nullptr;
  return box.address + outer * box.stride + inner * bytes;
}
static float factor_a(const TensorMap& map, long inner, long outer) {
  char* found = element(map, inner, outer, FACTOR_BYTES);
  return found ? factor(found, IS_E5M2_A) : 0.0f;
}
static float read(const TensorMap& map, long inner, long outer) {
  char* found = element(map, inner, outer, 2);
  return found ? to_float(*(unsigned short*)found) : 0.0f;
}

extern "C" int usleep(unsigned);
extern "C" int clock_gettime(int, void*);
static u64 now() {
  long time[2];
  clock_gettime(1, time);
  return time[0] * 1000000000ull + time[1];
}

static bool has_reached(u64 flag, u32 value) { return (int)(__atomic_load_n((u32*)flag, __ATOMIC_ACQUIRE) - value) >= 0; }

static bool is_over;
static u64 end_of_patience;
static void await(const Parameters& p, u64 flag, u32 value, u32 what, u32 rank) {
  while (!is_over && !has_reached(flag, value)) {
    usleep(20);
    if (now() < end_of_patience) continue;
    is_over = true;
    *p.error = *p.report = (u64)what << 40 | (u64)(rank + 1) << 32 | p.call;
  }
}

// All shares of this rank's part, as its blocks take and push them.
static void push(const Parameters& p) {
  u32 each = p.pieces * SHARES + gridDim.x, *taken = (u32*)p.shares;
  if (*taken != (p.call - 1) * each) __builtin_trap();
  *taken += each;
  for (u32 piece = 0; piece < p.pieces && !is_over; piece++) {
    u32 top = piece * p.pieceRows, left = piece * p.pieceUnits;
    u32 bottom = p.pieceRows != 0 && top + p.pieceRows < p.pushedRows ? top + p.pieceRows : p.pushedRows;
    u32 right = p.pieceUnits != 0 && left + p.pieceUnits < p.pushedUnits ? left + p.pieceUnits : p.pushedUnits;
    for (u32 rank = 0; rank < 8; rank++) {
      if (p.send[rank] == 0) continue;
      for (u64 row = top; row < bottom; row++) {
        u64 at = (row * p.pitch + left) * 16;
        __builtin_memcpy((char*)p.send[rank] + at, (char*)p.pushed + at, (right - left) * 16);
      }
      __atomic_fetch_add((u32*)(p.raise[rank] + piece * PIECE_FLAGS), SHARES, __ATOMIC_RELEASE);
    }
  }
}

extern "C" __global__ void multiply_tiles(const Parameters p) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  static float sum[CLUSTER * 128][COLUMNS];
  is_over = *p.error != 0;
  end_of_patience = now() + p.patience;
  if (BLOCKS_PUSH) push(p);
  for (u32 position = 0; position < p.count; position++) {
    uint4 tile = p.tiles[position];
    u32 flag = flag_of(tile);
    auto mark = [&](Mark what) {
      if (p.marks) p.marks[(u64)position * MARKS + what] = now();
    };
    if (flag != 0) {
      mark(AWAIT_PART);
      if (!BLOCKS_PUSH) await(p, p.gathered[flag - 1], p.call * p.pieces, 1, flag - 1);
      for (u32 piece = 0; BLOCKS_PUSH && piece < p.pieces; piece++) {
        await(p, p.gathered[flag - 1] + piece * PIECE_FLAGS, p.call * SHARES, 1, flag - 1);
      }
      mark(HAVE_PART);
    }
    mark(MULTIPLY);
    const TensorMap &a = p.a[part_of_a(tile)], &b = p.b[part_of_b(tile)];
    long row = (long)(int)tile.x - p.first_a[part_of_a(tile)], column = (long)(int)tile.y - p.first_b[part_of_b(tile)];
    // The hardware takes boxes that begin at multiples of 16 bytes, and else says "illegal instruction".
    if ((!IS_ROW_MAJOR_A && row % 8) || (IS_ROW_MAJOR_B && column % 8)) __builtin_trap();
    // Rows beyond the part, which another part has, are loaded like others, and not stored.
    const Box& of_b = box_of(b);
    long columns = (long)(IS_ROW_MAJOR_B ? of_b.inner : of_b.outer) - column;
    if (columns > COLUMNS) columns = COLUMNS;
    long terms = (long)(IS_ROW_MAJOR_B ? of_b.outer : of_b.inner);
    if (terms > (long)p.steps * STEP) terms = (long)p.steps * STEP;
    u64 across = IS_ROW_MAJOR_B ? FACTOR_BYTES : of_b.stride, down = IS_ROW_MAJOR_B ? of_b.stride : FACTOR_BYTES;
    for (long i = 0; i < CLUSTER * 128; i++) {
      for (long j = 0; j < COLUMNS; j++) sum[i][j] = 0;
      for (long l = 0; l < terms; l++) {
        float left = IS_ROW_MAJOR_A ? factor_a(a, l, row + i) : factor_a(a, row + i, l);
        if (left == 0) continue;
        const char* right = of_b.address + column * across + l * down;
        for (long j = 0; j < columns; j++) sum[i][j] += left * factor(right + j * across, IS_E5M2_B);
      }
      if (p.alpha != 1) {
        for (long j = 0; j < COLUMNS; j++) sum[i][j] = p.alpha == 0 ? 0 : sum[i][j] * p.alpha;
      }
    }
    mark(MULTIPLIED);
    u32 receivers = receivers_of(tile.w), senders = senders_of(tile.w), targets = targets_of(tile);
    u32 rows = p.rows[part_of_a(tile)];
    // A rank's own sums come back from it, if it sends them to itself.
    bool comes_back = senders >> p.rank & 1;
    for (u32 half = 0; half < 2 * CLUSTER; half++) {
      u32 top = tile.x + half * 64, valid = top < rows ? (rows - top < 64 ? rows - top : 64) : 0;
      u64 number = (u64)number_of(tile) * 2 + half;
      if (receivers != 0) {
        for (u32 rank = 0; rank < 8; rank++) {
          if (!(receivers >> rank & 1) || (!p.isPushed && (valid == 0 || is_over))) continue;
          unsigned short* to = (unsigned short*)(p.send[rank] + number * CHUNKS * CHUNK_BYTES);
          for (u32 i = 0; i < valid; i++) {
            for (u32 j = 0; j < COLUMNS; j++) to[j / 64 * 4096 + i * 64 + j % 64] = rounded(sum[half * 64 + i][j]);
          }
          if (p.isPushed) __atomic_fetch_add((u32*)(p.raise[rank] + number / p.panel * 4), 1, __ATOMIC_RELEASE);
          else __atomic_store_n((u32*)(p.raise[rank] + number * 4), p.call, __ATOMIC_RELEASE);
        }
        for (u32 i = 0; i < 64; i++) {
          for (u32 j = 0; j < COLUMNS; j++) {
            float& mine = sum[half * 64 + i][j];
            mine = comes_back ? 0 : to_float(rounded(mine));
          }
        }
      }
      for (u32 rank = 0; rank < 8; rank++) {
        if (!(senders >> rank & 1) || valid == 0) continue;
        if (half == 0) mark(AWAIT_SUMS);
        await(p, p.expect[rank] + number / p.panel * 4, p.call, 2, rank);
        if (half == 0) mark(HAVE_SUMS);
        const unsigned short* from = (unsigned short*)(p.arrive[rank] + number * CHUNKS * CHUNK_BYTES);
        for (u32 i = 0; i < valid; i++) {
          for (u32 j = 0; j < COLUMNS; j++) sum[half * 64 + i][j] += to_float(from[j / 64 * 4096 + i * 64 + j % 64]);
        }
      }
    }
    if (targets == 0) continue;
    long top = (long)(int)tile.x, left = (long)(int)tile.y;
    for (long i = 0; i < CLUSTER * 128 && tile.x + i < rows; i++) {
      for (long j = 0; j < COLUMNS; j++) {
        float& value = sum[i][j];
        if (p.hasAddend == 1 && (left - p.originColumn) % 8) __builtin_trap();
        if (p.hasAddend == 1) value += p.beta * read(p.c, left + j - p.originColumn, top + i - p.originRow);
        if (p.hasAddend == 2) {
          u32 first = __builtin_ctz(targets);
          value += p.beta * read(p.d[first], left + j - p.first_column[first], top + i - p.first_row[first]);
        }
        if (HAS_BIAS) {
          long at = p.isBiasOfRows ? top + i - p.originRow : left + j - p.originColumn;
          if (at < p.biasCount) value += p.bias[at];
        }
        if (IS_RELU) value = value < 0 ? 0 : value;
        if (IS_GELU) {
          value = value / (1 + __builtin_expf(-1.5957691216f * (value + 0.044715f * value * value * value)));
        }
        for (u32 target = 0; target < 8; target++) {
          if (!(targets >> target & 1)) continue;
          if ((left - p.first_column[target]) % 8) __builtin_trap();
          char* to = element(p.d[target], left + j - p.first_column[target], top + i - p.first_row[target], 2);
          if (to) *(unsigned short*)to = rounded(value);
        }
      }
    }
  }
  for (u32 rank = 0; rank < 8; rank++) {
    if (p.finishMask >> rank & 1 && !is_over) __atomic_fetch_add((u32*)p.finish[rank], p.finishCount, __ATOMIC_RELEASE);
  }
  for (u32 rank = 0; rank < 8; rank++) {
    if (p.finishMask >> rank & 1) await(p, p.finished[rank], p.call * p.finishCount, 3, rank);
  }
}
