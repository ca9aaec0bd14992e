// cuFFTMp for machines without a GPU: what distmath's engine calls of it, by the definition of the transform, on parts in the
// mock NVSHMEM's memory: every process reads all parts, and writes its own. Like cuFFTMp it works in place in such memory
// only, and refuses what that does: one dimension, fewer planes than processes, a plan without its memory.
#include <atomic>
#include <unistd.h>
#include "fourier.h"

extern "C" {
void* nvshmem_malloc(u64 bytes);
void nvshmem_free(char* address);
void* nvshmem_ptr(char* address, int peer);
int nvshmem_my_pe();
int nvshmem_n_pes();
int nvshmemx_init_status();
}

enum { INPLACE = 2, SHUFFLED = 3, DISTRIBUTED_INPUT = 5, DISTRIBUTED_OUTPUT = 6 };

struct Box { i64 lower[3], upper[3], strides[3]; };
// What each process tells the others of a plan: its boxes, and how far it is.
struct Told { std::atomic<u64> steps; Box input, output; };
struct Plan {
  std::vector<i64> n;
  int type, formats[2];
  bool isAttached, allocates, hasBoxes;
  Box input, output;
  i64 bytes;
  void* work;
  Told* told;
};
static std::map<int, Plan> plans;
static int made = 0;

static Told* toldBy(const Plan& plan, int peer) { return (Told*)nvshmem_ptr((char*)plan.told, peer); }
static void await_all(Plan& plan) {
  u64 step = ++plan.told->steps;
  for (int peer = 0; peer < nvshmem_n_pes(); peer++) while (toldBy(plan, peer)->steps < step) usleep(50);
}

// The box of slabs along an axis, in place: rows of real numbers are padded.
static Box slab(std::vector<i64> shape, bool isPadded, int axis, int rank, int size) {
  Box box{};
  i64 each = shape[axis] / size, more = shape[axis] % size;
  i64 stride = 1;
  for (i64 d = shape.size() - 1; d >= 0; d--) {
    box.lower[d] = d == axis ? rank * each + std::min<i64>(rank, more) : 0;
    box.upper[d] = d == axis ? box.lower[d] + each + (rank < more) : shape[d];
    box.strides[d] = stride;
    i64 extent = box.upper[d] - box.lower[d];
    stride *= isPadded && d == (i64)shape.size() - 1 ? 2 * (extent / 2 + 1) : extent;
  }
  return box;
}

API int cufftGetVersion(int* version) { return *version = 12103, OK; }
API int cufftCreate(int* plan) { return plans[*plan = ++made] = {}, plans[made].allocates = true, OK; }
API int cufftDestroy(int plan) {
  if (!plans.count(plan)) return INVALID_PLAN;
  if (plans[plan].told) nvshmem_free((char*)plans[plan].told);
  return plans.erase(plan), OK;
}
API int cufftSetAutoAllocation(int plan, int isAutomatic) { return plans.at(plan).allocates = isAutomatic, OK; }
API int cufftMpAttachComm(int plan, int type, void* comm) {
  if (type != 1 || comm != nullptr || nvshmemx_init_status() != 2) return INVALID_VALUE;
  return plans.at(plan).isAttached = true, OK;
}
API int cufftSetStream(int plan, void*) { return plans.count(plan) ? OK : INVALID_PLAN; }
API int cufftSetWorkArea(int plan, void* work) {
  if (nvshmem_ptr((char*)work, nvshmem_my_pe()) == nullptr) return INVALID_VALUE;
  return plans.at(plan).work = work, OK;
}
API int cufftXtSetDistribution(int plan, int rank, const i64* lowerIn, const i64* upperIn, const i64* lowerOut,
                               const i64* upperOut, const i64* stridesIn, const i64* stridesOut) {
  if (rank < 2 || rank > 3) return INVALID_VALUE;
  Plan& p = plans.at(plan);
  p.hasBoxes = true;
  for (int d = 0; d < rank; d++) {
    p.input.lower[d] = lowerIn[d], p.input.upper[d] = upperIn[d], p.input.strides[d] = stridesIn[d];
    p.output.lower[d] = lowerOut[d], p.output.upper[d] = upperOut[d], p.output.strides[d] = stridesOut[d];
    if (lowerIn[d] >= upperIn[d] || lowerOut[d] >= upperOut[d]) return INVALID_VALUE;
  }
  return OK;
}
API int cufftXtSetSubformatDefault(int plan, int forward, int inverse) {
  return plans.at(plan).formats[0] = forward, plans.at(plan).formats[1] = inverse, OK;
}

static int make(int plan, std::vector<i64> n, int type, size_t* bytes) {
  Plan& p = plans.at(plan);
  int rank = nvshmem_my_pe(), size = nvshmem_n_pes();
  if (!p.isAttached || n[0] < size || n[1] < size) return INVALID_VALUE;
  p.n = n;
  p.type = type;
  if (!p.hasBoxes) {
    if (p.formats[0] + p.formats[1] != INPLACE + SHUFFLED) return INVALID_VALUE;
    bool isHalved = type != C2C && type != Z2Z;
    // Real numbers of two dimensions are in slabs along the first.
    if (isHalved && n.size() == 2 && p.formats[0] != INPLACE) return NOT_IMPLEMENTED;
    std::vector<i64> half = n;
    if (isHalved) half.back() = half.back() / 2 + 1;
    p.input = slab(n, isHalved, p.formats[0] - INPLACE, rank, size);
    p.output = slab(half, false, p.formats[1] - INPLACE, rank, size);
  } else if (p.formats[0] != DISTRIBUTED_INPUT || p.formats[1] != DISTRIBUTED_OUTPUT) return INVALID_VALUE;
  p.told = (Told*)nvshmem_malloc(sizeof(Told));
  p.told->input = p.input;
  p.told->output = p.output;
  await_all(p);
  *bytes = p.bytes = 128 + rank;
  return OK;
}
API int cufftMakePlan2d(int plan, int x, int y, int type, size_t* bytes) { return make(plan, {x, y}, type, bytes); }
API int cufftMakePlan3d(int plan, int x, int y, int z, int type, size_t* bytes) {
  return make(plan, {x, y, z}, type, bytes);
}

static bool holds(const Box& box, const std::vector<i64>& index) {
  for (size_t d = 0; d < index.size(); d++) if (index[d] < box.lower[d] || index[d] >= box.upper[d]) return false;
  return true;
}
static i64 place(const Box& box, const std::vector<i64>& index) {
  i64 at = 0;
  for (size_t d = 0; d < index.size(); d++) at += (index[d] - box.lower[d]) * box.strides[d];
  return at;
}

API int cufftXtExec(int plan, char* input, char* output, int direction) {
  if (!plans.count(plan)) return INVALID_PLAN;
  Plan& p = plans[plan];
  int rank = nvshmem_my_pe(), size = nvshmem_n_pes();
  if (!p.allocates && p.work == nullptr) return NO_WORKSPACE;
  if (input != output || nvshmem_ptr(input, rank) == nullptr) return INVALID_VALUE;
  if (isHalf(p.type, false)) direction = -1;
  if (isHalf(p.type, true)) direction = 1;
  if (p.work) memset(p.work, 0x77, p.bytes);
  auto boxOf = [&](int peer, bool isInput) {
    Told* told = toldBy(p, peer);
    return isInput == (direction == -1) ? told->input : told->output;
  };
  await_all(p);
  i64 total = 1;
  for (i64 n : p.n) total *= n;
  std::vector<Number> whole(total);
  for (i64 i = 0; i < total; i++) {
    std::vector<i64> index = indicesOf(i, p.n);
    bool isMirrored = isHalf(p.type, true) && index.back() > p.n.back() / 2;
    if (isMirrored) for (size_t d = 0; d < index.size(); d++) index[d] = (p.n[d] - index[d]) % p.n[d];
    for (int peer = 0; peer < size; peer++) {
      Box box = boxOf(peer, true);
      if (!holds(box, index)) continue;
      Number value = load(nvshmem_ptr(input, peer), p.type, true, place(box, index));
      whole[i] = isMirrored ? std::conj(value) : value;
    }
  }
  await_all(p);
  transform(whole, p.n, direction);
  Box box = boxOf(rank, false);
  for (i64 i = 0; i < total; i++) {
    std::vector<i64> index = indicesOf(i, p.n);
    if (isHalf(p.type, false) && index.back() > p.n.back() / 2) continue;
    if (holds(box, index)) store(output, p.type, place(box, index), whole[i]);
  }
  await_all(p);
  return OK;
}
