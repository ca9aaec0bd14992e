// cuBLASMp for machines without a GPU: the functions that distmath's engine calls, beside mock_gpu.cpp, whose NCCL carries
// the messages. Every rank collects all parts as the descriptors say, computes in complex double precision, and keeps its
// part. It shows what the calls ask for; it shows nothing about overlap or speed. There are no epilogs.
#include <complex>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "captured.h"

using i64 = long long;
using Number = std::complex<double>;
#define API extern "C" __attribute__((visibility("default")))

// The beginning of mock_gpu.cpp's communicator.
struct Communicator { std::string folder; int rank; };
API int ncclGroupStart();
API int ncclGroupEnd();
API int ncclSend(const void*, unsigned long long, int, int, Communicator*, void*);
API int ncclRecv(void*, unsigned long long, int, int, Communicator*, void*);

enum { OK = 0, INVALID_VALUE = 3, INTERNAL_ERROR = 6, NOT_SUPPORTED = 7 };

struct Grid {
  i64 rows, columns;
  int layout;
  Communicator* comm;
  i64 size() const { return rows * columns; }
  void place(i64 rank, i64& row, i64& column) const {
    row = layout == 0 ? rank % rows : rank / columns;
    column = layout == 0 ? rank / rows : rank % columns;
  }
};
struct Matrix { i64 m, n, mb, nb, rsrc, csrc, lld; int type; Grid* grid; };
struct Product { int compute; std::map<int, std::vector<char>> attributes; };

static FILE* logFile = nullptr;
static int logLevel = 0;
static void say(const char* level, const std::string& text) {
  if (!logFile || logLevel == 0) return;
  fprintf(logFile, "[mock][cublasMp][1][%s][cublasMpMatmul] %s\n", level, text.c_str());
  fflush(logFile);
}
static int fail(int code, const std::string& text) { return say("Error", text), code; }

// ---- numbers --------------------------------------------------------------------------------------------------------

static size_t sizeOf(int type) {
  switch (type) {
    case 0: return 4;
    case 1: case 4: return 8;
    case 2: case 14: return 2;
    case 5: return 16;
    default: return 1;
  }
}
static double decode8(uint8_t code, int mantissaBits, int bias) {
  int exponent = (code & 0x7f) >> mantissaBits, mantissa = code & ((1 << mantissaBits) - 1);
  bool isNaN = mantissaBits == 3 ? (code & 0x7f) == 0x7f : (code & 0x7f) > 0x7c;
  if (isNaN) return NAN;
  if (mantissaBits == 2 && (code & 0x7f) == 0x7c) return code & 0x80 ? -INFINITY : INFINITY;
  double value = exponent ? std::ldexp(1 + std::ldexp(mantissa, -mantissaBits), exponent - bias)
                          : std::ldexp(mantissa, 1 - bias - mantissaBits);
  return code & 0x80 ? -value : value;
}
// The nearest finite code, ties to even.
static uint8_t encode8(double value, int mantissaBits, int bias) {
  int largest = mantissaBits == 3 ? 0x7e : 0x7b, best = 0;
  if (std::isnan(value)) return mantissaBits == 3 ? 0x7f : 0x7e;
  for (int code = 1; code <= largest; code++) {
    double near = std::abs(decode8(best, mantissaBits, bias) - std::abs(value));
    double now = std::abs(decode8(code, mantissaBits, bias) - std::abs(value));
    if (now < near || (now == near && code % 2 == 0)) best = code;
  }
  return std::signbit(value) ? best | 0x80 : best;
}
static Number load(const char* at, int type) {
  switch (type) {
    case 0: return *(const float*)at;
    case 1: return *(const double*)at;
    case 2: return (double)*(const _Float16*)at;
    case 4: return Number(((const float*)at)[0], ((const float*)at)[1]);
    case 5: return Number(((const double*)at)[0], ((const double*)at)[1]);
    case 14: { uint32_t bits = (uint32_t)*(const uint16_t*)at << 16; float value; memcpy(&value, &bits, 4); return value; }
    case 28: return decode8(*(const uint8_t*)at, 3, 7);
    default: return decode8(*(const uint8_t*)at, 2, 15);
  }
}
static void store(char* at, int type, Number value) {
  switch (type) {
    case 0: *(float*)at = (float)value.real(); break;
    case 1: *(double*)at = value.real(); break;
    case 2: *(_Float16*)at = (_Float16)(float)value.real(); break;
    case 4: ((float*)at)[0] = (float)value.real(), ((float*)at)[1] = (float)value.imag(); break;
    case 5: ((double*)at)[0] = value.real(), ((double*)at)[1] = value.imag(); break;
    case 14: {
      float narrow = (float)value.real();
      uint32_t bits;
      memcpy(&bits, &narrow, 4);
      *(uint16_t*)at = std::isnan(narrow) ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
      break;
    }
    case 28: *(uint8_t*)at = encode8((float)value.real(), 3, 7); break;
    default: *(uint8_t*)at = encode8((float)value.real(), 2, 15);
  }
}
static Number scalar(const void* at, int compute, int type) {
  bool isComplex = type == 4 || type == 5;
  if (compute == 64 || compute == 65) return load((const char*)at, 2);
  if (compute == 70 || compute == 71 || compute == 79) return load((const char*)at, isComplex ? 5 : 1);
  return load((const char*)at, isComplex ? 4 : 0);
}

// ---- distributed matrices -------------------------------------------------------------------------------------------

static i64 numroc(i64 n, i64 nb, i64 process, i64 processes) {
  i64 blocks = n / nb, count = blocks / processes * nb, extra = blocks % processes;
  return process < extra ? count + nb : process == extra ? count + n % nb : count;
}
static i64 globalIndex(i64 local, i64 nb, i64 process, i64 processes) {
  return (local / nb * processes + process) * nb + local % nb;
}
struct Part {
  i64 row, column, rows, columns;
  Part(const Matrix& d, i64 rank) {
    d.grid->place(rank, row, column);
    rows = numroc(d.m, d.mb, row, d.grid->rows), columns = numroc(d.n, d.nb, column, d.grid->columns);
  }
};
struct Dense {
  i64 m, n;
  std::vector<Number> data;
  Dense(i64 m, i64 n) : m(m), n(n), data(m * n) {}
  Number& at(i64 i, i64 j) { return data[i + j * m]; }
};

static bool fits(const Matrix& d) { return d.lld >= std::max<i64>(1, Part(d, d.grid->comm->rank).rows); }

static Dense gather(const char* local, const Matrix& d) {
  Communicator* comm = d.grid->comm;
  size_t bytes = sizeOf(d.type);
  std::vector<std::vector<char>> parts(d.grid->size());
  for (i64 rank = 0; rank < d.grid->size(); rank++) {
    Part part(d, rank);
    parts[rank].resize(part.rows * part.columns * bytes);
  }
  Part own(d, comm->rank);
  for (i64 j = 0; j < own.columns; j++) {
    memcpy(parts[comm->rank].data() + j * own.rows * bytes, local + j * d.lld * bytes, own.rows * bytes);
  }
  ncclGroupStart();
  for (i64 rank = 0; rank < d.grid->size(); rank++) {
    if (rank == comm->rank) continue;
    ncclSend(parts[comm->rank].data(), parts[comm->rank].size(), 1, (int)rank, comm, nullptr);
    ncclRecv(parts[rank].data(), parts[rank].size(), 1, (int)rank, comm, nullptr);
  }
  ncclGroupEnd();
  Dense whole(d.m, d.n);
  for (i64 rank = 0; rank < d.grid->size(); rank++) {
    Part part(d, rank);
    for (i64 j = 0; j < part.columns; j++) {
      for (i64 i = 0; i < part.rows; i++) {
        i64 r = globalIndex(i, d.mb, part.row, d.grid->rows), c = globalIndex(j, d.nb, part.column, d.grid->columns);
        whole.at(r, c) = load(parts[rank].data() + (i + j * part.rows) * bytes, d.type);
      }
    }
  }
  return whole;
}
template <typename F>
static void scatter(char* local, const Matrix& d, F value) {
  Part own(d, d.grid->comm->rank);
  for (i64 j = 0; j < own.columns; j++) {
    for (i64 i = 0; i < own.rows; i++) {
      i64 r = globalIndex(i, d.mb, own.row, d.grid->rows), c = globalIndex(j, d.nb, own.column, d.grid->columns);
      char* at = local + (i + j * d.lld) * sizeOf(d.type);
      value(r, c, at);
    }
  }
}
static Dense turn(Dense a, int operation) {
  if (operation == 0) return a;
  Dense result(a.n, a.m);
  for (i64 i = 0; i < a.m; i++) {
    for (i64 j = 0; j < a.n; j++) result.at(j, i) = operation == 2 ? std::conj(a.at(i, j)) : a.at(i, j);
  }
  return result;
}
static Dense multiply(Dense a, Dense b) {
  Dense result(a.m, b.n);
  for (i64 j = 0; j < b.n; j++) {
    for (i64 p = 0; p < a.n; p++) {
      Number factor = b.at(p, j);
      if (factor == 0.0) {
        // As a GPU does: 0 x NaN is NaN.
        for (i64 i = 0; i < a.m; i++) if (!std::isfinite(a.at(i, p).real())) result.at(i, j) = NAN;
        continue;
      }
      for (i64 i = 0; i < a.m; i++) result.at(i, j) += a.at(i, p) * factor;
    }
  }
  return result;
}

// ---- the library ----------------------------------------------------------------------------------------------------

API int cublasMpGetVersion(int* version) { return *version = 1000, 0; }
struct Handle { int* stream; };
API int cublasMpCreate(Handle** handle, int* stream) { return *handle = new Handle{stream}, 0; }
API int cublasMpDestroy(Handle* handle) { return delete handle, 0; }
API int cublasMpSetStream(Handle* handle, int* stream) {
  // As cuBLASMp 0.10, which still looks at the stream that it had.
  if (*handle->stream == 0) return INTERNAL_ERROR;
  return handle->stream = stream, 0;
}
API int cublasMpGridCreate(i64 rows, i64 columns, int layout, Communicator* comm, Grid** grid) {
  return *grid = new Grid{rows, columns, layout, comm}, 0;
}
static std::set<std::pair<Grid*, void*>> registered;
API int cublasMpGridDestroy(Grid* grid) {
  for (auto& [owner, memory] : registered) if (owner == grid) return INTERNAL_ERROR;
  return delete grid, 0;
}
API const char* cublasMpGetStatusString(int) { return "an error of the mock"; }
API int cublasMpMalloc(Grid*, void** memory, size_t bytes) { return *memory = malloc(bytes), 0; }
API int cublasMpFree(Grid*, void* memory) { return free(memory), 0; }
API int cublasMpBufferRegister(Grid* grid, void* memory, size_t bytes) {
  return bytes && registered.insert({grid, memory}).second ? OK : INVALID_VALUE;
}
API int cublasMpBufferDeregister(Grid* grid, void* memory) {
  return registered.erase({grid, memory}) ? OK : INVALID_VALUE;
}
API int cublasMpMatrixDescriptorInit(i64 m, i64 n, i64 mb, i64 nb, i64 rsrc, i64 csrc, i64 lld, int type, Grid* grid,
                                     Matrix* descriptor) {
  return *descriptor = {m, n, mb, nb, rsrc, csrc, lld, type, grid}, 0;
}
API int cublasMpMatrixDescriptorCreate(i64 m, i64 n, i64 mb, i64 nb, i64 rsrc, i64 csrc, i64 lld, int type, Grid* grid,
                                       Matrix** descriptor) {
  return *descriptor = new Matrix{m, n, mb, nb, rsrc, csrc, lld, type, grid}, 0;
}
API int cublasMpMatrixDescriptorDestroy(Matrix* descriptor) { return delete descriptor, 0; }
API int cublasMpMatmulDescriptorCreate(Product** product, int compute) { return *product = new Product{compute, {}}, 0; }
API int cublasMpMatmulDescriptorDestroy(Product* product) { return delete product, 0; }
API int cublasMpMatmulDescriptorSetAttribute(Product* product, int attribute, const char* value, size_t bytes) {
  return product->attributes[attribute].assign(value, value + bytes), 0;
}
API int cublasMpLoggerOpenFile(const char* path) { return (logFile = fopen(path, "w")) ? 0 : INTERNAL_ERROR; }
API int cublasMpLoggerSetLevel(int level) { return logLevel = level, 0; }

static int number(Product* product, int attribute, int otherwise) {
  auto found = product->attributes.find(attribute);
  return found == product->attributes.end() ? otherwise : *(int*)found->second.data();
}
static float* pointer(Product* product, int attribute) {
  auto found = product->attributes.find(attribute);
  return found == product->attributes.end() ? nullptr : *(float**)found->second.data();
}

enum { TRANSA, TRANSB, ALGO = 3, EPILOGUE = 5, AMAX = 24 };
enum { A_SCALE = 16, A_MODE, B_SCALE, B_MODE, C_SCALE, C_MODE, D_SCALE, D_MODE };
enum { SCALAR, OUTER_VEC = 3, VEC128, BLK128x128 };

// A factor with k along its rows times its scales, which lie as cuBLASLt wants them: those of each piece of columns apart.
static Dense gatherScaled(const char* local, const Matrix& d, const float* scales, int mode, i64 pieces) {
  if (mode == SCALAR) return gather(local, d);
  Part own(d, d.grid->comm->rank);
  auto up4 = [](i64 count) { return (count + 3) / 4 * 4; };
  i64 width = own.columns / pieces, blocks = (own.rows + 127) / 128;
  std::vector<float> values(own.rows * own.columns + 1);
  for (i64 j = 0; j < own.columns; j++) {
    i64 piece = j / width, column = j % width;
    for (i64 i = 0; i < own.rows; i++) {
      i64 at = mode == OUTER_VEC ? j
        : mode == VEC128 ? piece * blocks * up4(width) + i / 128 * up4(width) + column
        : piece * up4(blocks) * (width / 128) + i / 128 + column / 128 * up4(blocks);
      values[i + j * own.rows] = (float)load(local + (i + j * d.lld) * sizeOf(d.type), d.type).real() * scales[at];
    }
  }
  Matrix wide = d;
  wide.type = 0, wide.lld = std::max<i64>(1, own.rows);
  return gather((const char*)values.data(), wide);
}

API int cublasMpMatmul_bufferSize(void*, Product*, i64, i64, i64, const void*, void*, i64, i64, Matrix*, void*, i64, i64,
                                  Matrix*, const void*, void*, i64, i64, Matrix*, void*, i64, i64, Matrix*, size_t* device,
                                  size_t* host) {
  return *device = 4096, *host = 0, 0;
}

API int cublasMpMatmul(void*, Product* product, i64 m, i64 n, i64 k, const void* alpha, const char* a, i64, i64, Matrix* da,
                       const char* b, i64, i64, Matrix* db, const void* beta, const char* c, i64, i64, Matrix* dc, char* d,
                       i64, i64, Matrix* dd, void* work, size_t bytes, void*, size_t) {
  int ta = number(product, TRANSA, 0), tb = number(product, TRANSB, 0), algo = number(product, ALGO, 0);
  int epilogue = number(product, EPILOGUE, 0);
  bool isRelu = epilogue == 2 && dd->type == 0;
  if (epilogue & ~1 && !isRelu) return fail(NOT_SUPPORTED, "the mock has no epilog but relu of float32");
  if (algo == 0 || algo == 2 || algo == 4 || algo == 6) return fail(INVALID_VALUE, "the mock has no such algorithm");
  if (!work || bytes < 4096) return fail(INVALID_VALUE, "workspace is missing");
  for (Matrix* matrix : {da, db, dd}) if (!fits(*matrix)) return fail(INVALID_VALUE, "a leading dimension is too small");
  i64 am = ta ? da->nb : da->mb, ak = ta ? da->mb : da->nb, bk = tb ? db->nb : db->mb, bn = tb ? db->mb : db->nb;
  bool isReduced = epilogue & 1;
  if (am != dd->mb || (!isReduced && bn != dd->nb) || ak != bk) return fail(INVALID_VALUE, "block sizes differ");
  if ((ta ? da->n : da->m) != m || (ta ? da->m : da->n) != k || (tb ? db->m : db->n) != n) {
    return fail(INVALID_VALUE, "extents differ");
  }
  i64 size = dd->grid->size();
  auto isLine = [&](Matrix* x, bool rows) { return (rows ? x->grid->columns : x->grid->rows) == 1 && size > 1; };
  bool aAlongM = isLine(da, !ta), bAlongN = isLine(db, tb), dRows = isLine(dd, true), dColumns = isLine(dd, false);
  bool aAlongK = isLine(da, ta), bAlongK = isLine(db, !tb);
  std::string overlap = algo == 1 ? "SPLIT_P2P " : algo == 3 ? "ATOMIC_P2P " : "NO_OVERLAP ";
  // As seen with cuBLASMp 0.10: where k lies in blocks, too, it takes the generic path.
  bool isWhole = dd->mb * (dRows ? size : 1) >= dd->m && dd->nb * size >= dd->n && ak * (aAlongK ? size : 1) >= k;
  std::string path = size == 1 ? "local Matmul"
    : isReduced ? overlap + "Matmul + AllReduce"
    : isWhole && aAlongM && bAlongN && dRows ? overlap + "AllGather + Matmul"
    : isWhole && aAlongK && bAlongK && dColumns ? overlap + "Matmul + ReduceScatter"
    : da->grid == dd->grid && db->grid == dd->grid ? "generic Matmul" : "fallback Matmul";
  if (isReduced && (ta == 0 || tb != 0)) return fail(NOT_SUPPORTED, "AllReduce takes TN only");
  bool isSummed = isReduced || path.find("ReduceScatter") != std::string::npos;
  if (isReduced && da->lld != da->mb) return fail(NOT_SUPPORTED, "AllReduce takes A without gaps");
  if (isSummed && (dd->lld != m || (c && dc->lld != m))) return fail(NOT_SUPPORTED, "sums take C and D without gaps");
  bool isNarrow = da->type >= 28;
  if (isNarrow && (ta == 0 || tb != 0 || ak % 16 || (isReduced ? n : bn) % 16 || am % 16)) {
    return fail(NOT_SUPPORTED, "8 bits: TN, multiples of 16");
  }
  bool isHalf = da->type == 2 || da->type == 14;
  if (isHalf && size > 1 && path.find("generic") && path.find("fallback") && !isReduced && bn % 2) {
    return fail(NOT_SUPPORTED, "16 bits: chunks at multiples of 4 bytes");
  }
  int modeA = number(product, A_MODE, 0), modeB = number(product, B_MODE, 0);
  bool isInBlocks = modeA == VEC128 || modeA == BLK128x128;
  if (modeA != modeB && !(modeA + modeB == VEC128 + BLK128x128 && isInBlocks)) return fail(NOT_SUPPORTED, "scale modes");
  if (modeA == BLK128x128 && modeB == BLK128x128) return fail(NOT_SUPPORTED, "scales of two blocks");
  if (modeA != SCALAR && (!isNarrow || dd->type >= 28)) return fail(NOT_SUPPORTED, "scale modes for these types");
  if (isInBlocks && (am % 128 || ak % 128 || (isReduced ? n : bn) % 128)) return fail(NOT_SUPPORTED, "multiples of 128");
  say("Trace", "Using " + path);
  if (path == "generic Matmul") {
    for (Matrix* matrix : {da, db, dd}) {
      for (i64 rank = 0; rank < size; rank++) {
        Part part(*matrix, rank);
        if (part.rows == 0 || part.columns == 0) return fail(INTERNAL_ERROR, "invalid pitch argument");
      }
    }
  }
  i64 pieces = path.find("ReduceScatter") == std::string::npos ? 1 : size;
  Dense sum = multiply(turn(gatherScaled(a, *da, pointer(product, A_SCALE), modeA, 1), ta),
                       turn(gatherScaled(b, *db, pointer(product, B_SCALE), modeB, pieces), tb));
  auto factor = [&](int attribute) { return pointer(product, attribute) ? *pointer(product, attribute) : 1.0f; };
  Number scale = scalar(alpha, product->compute, dd->type) *
    (double)(modeA == SCALAR ? factor(A_SCALE) * factor(B_SCALE) : 1);
  Number other = scalar(beta, product->compute, dd->type);
  // As cuBLASMp, without a look at the epilog.
  if (scale == 0.0 && other == 1.0 && dd->type < 28) return OK;
  double largest = 0;
  scatter(d, *dd, [&](i64 i, i64 j, char* at) {
    Number value = scale * sum.at(i, isReduced ? j % n : j);
    if (c && other != 0.0) {
      i64 offset = (at - d) / (i64)sizeOf(dd->type), row = offset % dd->lld, column = offset / dd->lld;
      value += other * load(c + (row + column * dc->lld) * sizeOf(dc->type), dc->type) * (double)factor(C_SCALE);
    }
    if (isRelu) value = std::max(0.0, value.real());
    largest = std::max(largest, std::abs(value.real()));
    store(at, dd->type, value * (double)factor(D_SCALE));
  });
  if (pointer(product, AMAX)) *pointer(product, AMAX) = std::max(*pointer(product, AMAX), (float)largest);
  return OK;
}

// ---- PBLAS ----------------------------------------------------------------------------------------------------------

static Dense triangle(Dense a, int uplo, int diag) {
  for (i64 i = 0; i < a.m; i++) {
    for (i64 j = 0; j < a.n; j++) {
      if (i == j && diag) a.at(i, j) = 1;
      else if (uplo == 0 ? i < j : i > j) a.at(i, j) = 0;
    }
  }
  return a;
}
static Dense mirrored(Dense a, int uplo, bool isHermitian = false) {
  for (i64 i = 0; i < a.m; i++) {
    for (i64 j = 0; j < a.n; j++) {
      if (uplo == 0 ? i < j : i > j) a.at(i, j) = isHermitian ? std::conj(a.at(j, i)) : a.at(j, i);
      if (isHermitian && i == j) a.at(i, j) = a.at(i, j).real();
    }
  }
  return a;
}
static bool isIn(int uplo, i64 i, i64 j) { return uplo == 0 ? i >= j : i <= j; }
// X with T X = B for a triangular T, by substitution in the order that its triangle allows.
static Dense solve(Dense t, Dense b) {
  bool isLower = true;
  for (i64 i = 0; i < t.m; i++) for (i64 j = i + 1; j < t.n; j++) if (t.at(i, j) != 0.0) isLower = false;
  for (i64 column = 0; column < b.n; column++) {
    for (i64 step = 0; step < t.m; step++) {
      i64 i = isLower ? step : t.m - 1 - step;
      for (i64 p = 0; p < t.m; p++) if (p != i && t.at(i, p) != 0.0) b.at(i, column) -= t.at(i, p) * b.at(p, column);
      b.at(i, column) /= t.at(i, i);
    }
  }
  return b;
}
static void update(char* local, Matrix* d, Number alpha, Dense& sum, Number beta, int uplo, bool isHermitian = false) {
  scatter(local, *d, [&](i64 i, i64 j, char* at) {
    if (uplo >= 0 && !isIn(uplo, i, j)) return;
    Number value = alpha * sum.at(i, j) + (beta == 0.0 ? 0.0 : beta * load(at, d->type));
    store(at, d->type, isHermitian && i == j ? value.real() : value);
  });
}
static Number pblasScalar(const void* at, Matrix* d) { return load((const char*)at, d->type); }

#define WORK void*, size_t, void*, size_t
#define A_ const char *a, i64, i64, Matrix *da
#define B_ char *b, i64, i64, Matrix *db
#define C_ char *c, i64, i64, Matrix *dc
#define SIZES(name, ...) \
  API int name(__VA_ARGS__, size_t* device, size_t* host) { return *device = 256, *host = 0, 0; }

SIZES(cublasMpTrsm_bufferSize, void*, int, int, int, int, i64, i64, const void*, A_, B_, int)
API int cublasMpTrsm(void*, int side, int uplo, int trans, int diag, i64, i64, const void* alpha, A_, B_, int, WORK) {
  Dense t = turn(triangle(gather(a, *da), uplo, diag), trans), right = gather(b, *db);
  Dense x = side == 0 ? solve(t, right) : turn(solve(turn(t, 1), turn(right, 1)), 1);
  return update(b, db, pblasScalar(alpha, db), x, 0, -1), 0;
}
SIZES(cublasMpTrmm_bufferSize, void*, int, int, int, int, i64, i64, const void*, A_, B_, C_, int)
API int cublasMpTrmm(void*, int side, int uplo, int trans, int diag, i64, i64, const void* alpha, A_, B_, C_, int, WORK) {
  Part own(*db, db->grid->comm->rank);
  if (b == c && own.rows * own.columns > 0) return INVALID_VALUE;
  Dense t = turn(triangle(gather(a, *da), uplo, diag), trans), other = gather(b, *db);
  Dense x = side == 0 ? multiply(t, other) : multiply(other, t);
  return update(c, dc, pblasScalar(alpha, db), x, 0, -1), 0;
}
static int rankK(int uplo, int trans, bool isHermitian, const void* alpha, A_, const void* beta, C_) {
  Dense factor = turn(gather(a, *da), trans);
  Dense sum = multiply(factor, turn(factor, isHermitian ? 2 : 1));
  int real = isHermitian ? (dc->type == 5 ? 1 : 0) : dc->type;
  update(c, dc, load((const char*)alpha, real), sum, load((const char*)beta, real), uplo, isHermitian);
  return 0;
}
SIZES(cublasMpSyrk_bufferSize, void*, int, int, i64, i64, const void*, A_, const void*, C_, int)
API int cublasMpSyrk(void*, int uplo, int trans, i64, i64, const void* alpha, A_, const void* beta, C_, int, WORK) {
  return rankK(uplo, trans, false, alpha, a, 1, 1, da, beta, c, 1, 1, dc);
}
SIZES(cublasMpHerk_bufferSize, void*, int, int, i64, i64, const void*, A_, const void*, C_, int)
API int cublasMpHerk(void*, int uplo, int trans, i64, i64, const void* alpha, A_, const void* beta, C_, int, WORK) {
  return rankK(uplo, trans, true, alpha, a, 1, 1, da, beta, c, 1, 1, dc);
}
static int rank2K(int uplo, int trans, bool isHermitian, const void* alpha, A_, B_, const void* beta, C_) {
  Dense left = turn(gather(a, *da), trans), right = turn(gather(b, *db), trans);
  Number scale = pblasScalar(alpha, dc), other = isHermitian ? std::conj(scale) : scale;
  Dense sum = multiply(left, turn(right, isHermitian ? 2 : 1)), second = multiply(right, turn(left, isHermitian ? 2 : 1));
  for (size_t at = 0; at < sum.data.size(); at++) sum.data[at] = scale * sum.data[at] + other * second.data[at];
  int real = isHermitian ? (dc->type == 5 ? 1 : 0) : dc->type;
  update(c, dc, 1, sum, load((const char*)beta, real), uplo, isHermitian);
  return 0;
}
SIZES(cublasMpSyr2k_bufferSize, void*, int, int, i64, i64, const void*, A_, B_, const void*, C_, int)
API int cublasMpSyr2k(void*, int uplo, int trans, i64, i64, const void* alpha, A_, B_, const void* beta, C_, int, WORK) {
  return rank2K(uplo, trans, false, alpha, a, 1, 1, da, b, 1, 1, db, beta, c, 1, 1, dc);
}
SIZES(cublasMpHer2k_bufferSize, void*, int, int, i64, i64, const void*, A_, B_, const void*, C_, int)
API int cublasMpHer2k(void*, int uplo, int trans, i64, i64, const void* alpha, A_, B_, const void* beta, C_, int, WORK) {
  return rank2K(uplo, trans, true, alpha, a, 1, 1, da, b, 1, 1, db, beta, c, 1, 1, dc);
}
SIZES(cublasMpSymm_bufferSize, void*, int, int, i64, i64, const void*, A_, B_, const void*, C_, int)
API int cublasMpSymm(void*, int side, int uplo, i64, i64, const void* alpha, A_, B_, const void* beta, C_, int, WORK) {
  Dense s = mirrored(gather(a, *da), uplo), other = gather(b, *db);
  Dense sum = side == 0 ? multiply(s, other) : multiply(other, s);
  return update(c, dc, pblasScalar(alpha, dc), sum, pblasScalar(beta, dc), -1), 0;
}
SIZES(cublasMpHemm_bufferSize, void*, int, int, i64, i64, const void*, A_, B_, const void*, C_, int)
API int cublasMpHemm(void*, int side, int uplo, i64, i64, const void* alpha, A_, B_, const void* beta, C_, int, WORK) {
  Dense s = mirrored(gather(a, *da), uplo, true), other = gather(b, *db);
  Dense sum = side == 0 ? multiply(s, other) : multiply(other, s);
  return update(c, dc, pblasScalar(alpha, dc), sum, pblasScalar(beta, dc), -1), 0;
}
SIZES(cublasMpGeadd_bufferSize, void*, int, i64, i64, const void*, A_, const void*, C_)
API int cublasMpGeadd(void*, int trans, i64, i64, const void* alpha, A_, const void* beta, C_, WORK) {
  if (!a || !c) return NOT_SUPPORTED;
  Dense sum = turn(gather(a, *da), trans);
  return update(c, dc, pblasScalar(alpha, dc), sum, pblasScalar(beta, dc), -1), 0;
}
SIZES(cublasMpTradd_bufferSize, void*, int, int, i64, i64, const void*, A_, const void*, C_)
API int cublasMpTradd(void*, int uplo, int trans, i64 m, i64 n, const void* alpha, A_, const void* beta, C_, WORK) {
  if (m != n) return INVALID_VALUE;
  Dense sum = turn(gather(a, *da), trans);
  return update(c, dc, pblasScalar(alpha, dc), sum, pblasScalar(beta, dc), uplo), 0;
}

// Opened before cuBLASMp, and asked for their versions only.
API size_t cublasLtGetVersion() { return 130100; }
API int cublasGetProperty(int, int* value) { return *value = 13, 0; }

// ---- cuBLASLt: one product on one GPU -------------------------------------------------------------------------------

struct LtProduct { int compute, scale; std::map<int, std::vector<char>> attributes; };
struct LtLayout { int type; unsigned long long rows, columns; i64 leading; };

API const char* cublasLtGetStatusName(int) { return "MOCK_CUBLAS_STATUS"; }
API const char* cublasLtGetStatusString(int) { return "an error of the mock"; }
API int cublasLtCreate(void** handle) { return *handle = (void*)1, 0; }
API int cublasLtDestroy(void*) { return 0; }
API int cublasLtMatmulDescCreate(LtProduct** made, int compute, int scale) {
  return *made = new LtProduct{compute, scale, {}}, 0;
}
API int cublasLtMatmulDescDestroy(LtProduct* product) { return delete product, 0; }
API int cublasLtMatmulDescSetAttribute(LtProduct* product, int attribute, const char* value, size_t bytes) {
  return product->attributes[attribute].assign(value, value + bytes), 0;
}
API int cublasLtMatrixLayoutCreate(LtLayout** made, int type, unsigned long long rows, unsigned long long columns, i64 leading) {
  return *made = new LtLayout{type, rows, columns, leading}, 0;
}
API int cublasLtMatrixLayoutDestroy(LtLayout* layout) { return delete layout, 0; }
API int cublasLtMatmulPreferenceCreate(void** made) { return *made = (void*)1, 0; }
API int cublasLtMatmulPreferenceDestroy(void*) { return 0; }
API int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
API int cublasLtMatmulAlgoGetHeuristic(void*, LtProduct* product, LtLayout* a, LtLayout* b, LtLayout*, LtLayout*, void*, int,
                                       char* results, int* found) {
  auto operation = [&](int which) {
    auto value = product->attributes.find(which);
    return value == product->attributes.end() ? 0 : *(int*)value->second.data();
  };
  // As the library on Hopper: factors of 8 bits lie with k along their columns.
  bool isNarrow = sizeOf(a->type) == 1 || sizeOf(b->type) == 1;
  *found = isNarrow && (operation(3) == 0 || operation(4) != 0 || a->leading % 16 || b->leading % 16) ? 0 : 1;
  return memset(results, 0, 96), *found ? 0 : 15;
}
API int cublasLtMatmul(void* library, LtProduct* product, const void* alpha, const char* a, LtLayout* layoutA, const char* b,
                       LtLayout* layoutB, const void* beta, const char* c, LtLayout* layoutC, char* d, LtLayout* layoutD,
                       void* algorithm, void* workspace, size_t bytes, void* stream) {
  if (captured) {
    auto kept = [&](const void* factor) { return std::string((const char*)factor, sizeOf(product->scale)); };
    return captured->push_back([=, alpha = kept(alpha), beta = kept(beta)] {
      return cublasLtMatmul(library, product, alpha.data(), a, layoutA, b, layoutB, beta.data(), c, layoutC, d, layoutD,
                            algorithm, workspace, bytes, stream);
    }), 0;
  }
  auto integer = [&](int which) {
    auto value = product->attributes.find(which);
    return value == product->attributes.end() ? 0 : *(int*)value->second.data();
  };
  auto factor = [&](int which) {
    auto value = product->attributes.find(which);
    return value == product->attributes.end() ? 1.0 : (double)**(float**)value->second.data();
  };
  int operationA = integer(3), operationB = integer(4);
  auto element = [](const char* matrix, LtLayout* layout, int operation, i64 row, i64 column) {
    if (operation != 0) std::swap(row, column);
    Number x = load(matrix + (row + column * layout->leading) * sizeOf(layout->type), layout->type);
    return operation == 2 ? std::conj(x) : x;
  };
  i64 m = layoutD->rows, n = layoutD->columns, k = operationA ? layoutA->rows : layoutA->columns;
  i64 rows = operationA ? layoutA->columns : layoutA->rows, columns = operationB ? layoutB->rows : layoutB->columns;
  if (rows != m || columns != n || (i64)(operationB ? layoutB->columns : layoutB->rows) != k) return 7;
  Number scaleOfProduct = load((const char*)alpha, product->scale) * factor(17) * factor(18);
  Number scaleOfC = load((const char*)beta, product->scale) * factor(19);
  std::vector<Number> left(m * k), right(k * n);
  for (i64 l = 0; l < k; l++) {
    for (i64 i = 0; i < m; i++) left[l * m + i] = element(a, layoutA, operationA, i, l);
    for (i64 j = 0; j < n; j++) right[j * k + l] = element(b, layoutB, operationB, l, j);
  }
  for (i64 j = 0; j < n; j++) {
    for (i64 i = 0; i < m; i++) {
      Number sum = 0;
      for (i64 l = 0; l < k; l++) sum += left[l * m + i] * right[j * k + l];
      sum *= scaleOfProduct;
      if (scaleOfC != 0.0) sum += scaleOfC * element(c, layoutC, 0, i, j);
      store(d + (i + j * layoutD->leading) * sizeOf(layoutD->type), layoutD->type, sum * factor(20));
    }
  }
  return 0;
}
