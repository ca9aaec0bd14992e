// cuFFT for machines without a GPU: the functions that distmath's engine calls, on host memory, by the definition of the
// transform, in double precision. Like cuFFT it works in memory that it is given, which it fills with something else, and
// refuses what that does: a plan without its memory, more than three dimensions, real numbers that do not begin where a
// complex one could; of half precision extents that are no powers of two, and real numbers with strides.
#include "fourier.h"

struct Side { std::vector<i64> embed; i64 stride, distance; };
struct Plan { std::vector<i64> n; Side in, out; int type; i64 batch, bytes; void* work; bool allocates; };
static std::map<int, Plan> plans;
static int made = 0;

API int cufftGetVersion(int* version) { return *version = 12000, OK; }
API int cufftCreate(int* plan) { return plans[*plan = ++made] = {{}, {}, {}, 0, 0, 0, nullptr, true}, OK; }
API int cufftDestroy(int plan) { return plans.erase(plan) == 1 ? OK : INVALID_PLAN; }
API int cufftSetAutoAllocation(int plan, int isAutomatic) { return plans.at(plan).allocates = isAutomatic, OK; }
API int cufftSetStream(int plan, void*) { return plans.count(plan) ? OK : INVALID_PLAN; }
API int cufftSetWorkArea(int plan, void* work) { return plans.at(plan).work = work, OK; }
// The type of a transform by its elements' (library_types.h), which have to be of one precision; 0 if there is none.
static int typeOf(int input, int output, int execution) {
  for (int types : {0x2a04, 0x2c40, 0x2944, 0x6a15, 0x6c51, 0x6955, 0x1a26, 0x1c62, 0x1966}) {
    int from = types >> 4 & 0xf, to = types & 0xf;
    if (input == from && output == to && execution == (from > to ? from : to)) return types >> 8;
  }
  return 0;
}

API int cufftXtMakePlanMany(int plan, int rank, i64* n, i64* inembed, i64 istride, i64 idist, int inputtype,
                            i64* onembed, i64 ostride, i64 odist, int outputtype, i64 batch, size_t* bytes, int executiontype) {
  if (!plans.count(plan)) return INVALID_PLAN;
  int type = typeOf(inputtype, outputtype, executiontype);
  if (type == 0) return INVALID_TYPE;
  if (rank < 1 || rank > 3 || istride < 1 || ostride < 1 || batch < 1) return INVALID_VALUE;
  for (int i = 0; i < rank; i++) {
    if (n[i] < 1 || (isNarrow(type) && (n[i] & (n[i] - 1)) != 0)) return INVALID_SIZE;
    bool isLast = i == rank - 1;
    if (i == 0) continue;
    if (inembed[i] < (isLast && isHalf(type, true) ? n[i] / 2 + 1 : n[i])) return INVALID_VALUE;
    if (onembed[i] < (isLast && isHalf(type, false) ? n[i] / 2 + 1 : n[i])) return INVALID_VALUE;
  }
  if (isNarrow(type) && n[rank - 1] == 1 && (istride > 1 || ostride > 1)) return INVALID_SIZE;
  if (isNarrow(type) && ((isReal(type, true) && istride > 1) || (isReal(type, false) && ostride > 1))) return NOT_SUPPORTED;
  Plan& p = plans[plan];
  p.n.assign(n, n + rank);
  p.in = {{inembed, inembed + rank}, istride, idist};
  p.out = {{onembed, onembed + rank}, ostride, odist};
  p.type = type;
  p.batch = batch;
  *bytes = p.bytes = 64 * rank;
  return OK;
}

// Where element (indices) of a batch lies.
static i64 place(const Side& side, const std::vector<i64>& index, i64 batch) {
  i64 at = index[0];
  for (size_t d = 1; d < index.size(); d++) at = at * side.embed[d] + index[d];
  return at * side.stride + batch * side.distance;
}

API int cufftXtExec(int plan, void* input, void* output, int direction) {
  if (!plans.count(plan)) return INVALID_PLAN;
  const Plan& p = plans[plan];
  if (!p.allocates && p.work == nullptr) return NO_WORKSPACE;
  u64 unit = isDouble(p.type) ? 16 : isNarrow(p.type) ? 4 : 8;
  if ((u64)input % unit != 0 || (u64)output % unit != 0) return INVALID_VALUE;
  if (p.work) memset(p.work, 0x77, p.bytes);
  if (isReal(p.type, true)) direction = -1;
  if (isReal(p.type, false)) direction = 1;
  i64 rank = p.n.size(), total = 1;
  for (i64 n : p.n) total *= n;
  std::vector<std::vector<Number>> wholes;
  for (i64 b = 0; b < p.batch; b++) {
    std::vector<Number> whole(total);
    for (i64 i = 0; i < total; i++) {
      std::vector<i64> index = indicesOf(i, p.n);
      bool isMirrored = isHalf(p.type, true) && index[rank - 1] > p.n[rank - 1] / 2;
      if (isMirrored) for (i64 d = 0; d < rank; d++) index[d] = (p.n[d] - index[d]) % p.n[d];
      Number value = load(input, p.type, true, place(p.in, index, b));
      whole[i] = isMirrored ? std::conj(value) : value;
    }
    transform(whole, p.n, direction);
    wholes.push_back(whole);
  }
  for (i64 b = 0; b < p.batch; b++) {
    for (i64 i = 0; i < total; i++) {
      std::vector<i64> index = indicesOf(i, p.n);
      if (isHalf(p.type, false) && index[rank - 1] > p.n[rank - 1] / 2) continue;
      store(output, p.type, place(p.out, index, b), wholes[b][i]);
    }
  }
  return OK;
}
