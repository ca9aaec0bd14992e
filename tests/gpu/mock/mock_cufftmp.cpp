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
// What each process tells the others of a plan, or of a move: its boxes, and how far it is.
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

static Told* toldBy(Told* own, int peer) { return (Told*)nvshmem_ptr((char*)own, peer); }
static void await_all(Told* own) {
  u64 step = ++own->steps;
  for (int peer = 0; peer < nvshmem_n_pes(); peer++) while (toldBy(own, peer)->steps < step) usleep(50);
}
static Told* tell(const Box& input, const Box& output) {
  Told* told = (Told*)nvshmem_malloc(sizeof(Told));
  told->input = input;
  told->output = output;
  return await_all(told), told;
}
static Box boxOf(int rank, const i64* lower, const i64* upper, const i64* strides) {
  Box box{};
  for (int d = 0; d < rank; d++) box.lower[d] = lower[d], box.upper[d] = upper[d], box.strides[d] = strides[d];
  return box;
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
  p.input = boxOf(rank, lowerIn, upperIn, stridesIn);
  p.output = boxOf(rank, lowerOut, upperOut, stridesOut);
  for (int d = 0; d < rank; d++) if (lowerIn[d] >= upperIn[d] || lowerOut[d] >= upperOut[d]) return INVALID_VALUE;
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
  p.told = tell(p.input, p.output);
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
  auto boxAt = [&](int peer, bool isInput) {
    Told* told = toldBy(p.told, peer);
    return isInput == (direction == -1) ? told->input : told->output;
  };
  await_all(p.told);
  i64 total = 1;
  for (i64 n : p.n) total *= n;
  std::vector<Number> whole(total);
  for (i64 i = 0; i < total; i++) {
    std::vector<i64> index = indicesOf(i, p.n);
    bool isMirrored = isHalf(p.type, true) && index.back() > p.n.back() / 2;
    if (isMirrored) for (size_t d = 0; d < index.size(); d++) index[d] = (p.n[d] - index[d]) % p.n[d];
    for (int peer = 0; peer < size; peer++) {
      Box box = boxAt(peer, true);
      if (!holds(box, index)) continue;
      Number value = load(nvshmem_ptr(input, peer), p.type, true, place(box, index));
      whole[i] = isMirrored ? std::conj(value) : value;
    }
  }
  await_all(p.told);
  transform(whole, p.n, direction);
  Box box = boxAt(rank, false);
  for (i64 i = 0; i < total; i++) {
    std::vector<i64> index = indicesOf(i, p.n);
    if (isHalf(p.type, false) && index.back() > p.n.back() / 2) continue;
    if (holds(box, index)) store(output, p.type, place(box, index), whole[i]);
  }
  await_all(p.told);
  return OK;
}

// ---- moves of parts: each process takes what it wants from all parts --------------------------------------------------

struct Reshape { int rank; u64 size; Told* told; };

API int cufftMpCreateReshape(Reshape** reshape) { return *reshape = new Reshape{}, OK; }
API int __cufftMpMakeReshape_11_4(Reshape* reshape, u64 size, int rank, const i64* lowerIn, const i64* upperIn,
                                  const i64* stridesIn, const i64* lowerOut, const i64* upperOut, const i64* stridesOut,
                                  void* comm, int type) {
  if (type != 1 || comm != nullptr || (size != 4 && size != 8 && size != 16)) return INVALID_VALUE;
  reshape->rank = rank;
  reshape->size = size;
  reshape->told = tell(boxOf(rank, lowerIn, upperIn, stridesIn), boxOf(rank, lowerOut, upperOut, stridesOut));
  return OK;
}
API int cufftMpGetReshapeSize(Reshape*, size_t* bytes) { return *bytes = 0, OK; }
API int cufftMpExecReshapeAsync(Reshape* reshape, char* output, char* input, void*, void*) {
  if (nvshmem_ptr(input, nvshmem_my_pe()) == nullptr) return INVALID_VALUE;
  await_all(reshape->told);
  Box wanted = reshape->told->output;
  std::vector<i64> extents(reshape->rank);
  i64 total = 1;
  for (int d = 0; d < reshape->rank; d++) total *= extents[d] = wanted.upper[d] - wanted.lower[d];
  for (i64 i = 0; i < total; i++) {
    std::vector<i64> index = indicesOf(i, extents);
    for (int d = 0; d < reshape->rank; d++) index[d] += wanted.lower[d];
    for (int peer = 0; peer < nvshmem_n_pes(); peer++) {
      Box box = toldBy(reshape->told, peer)->input;
      if (!holds(box, index)) continue;
      const char* from = (char*)nvshmem_ptr(input, peer) + place(box, index) * reshape->size;
      memcpy(output + place(wanted, index) * reshape->size, from, reshape->size);
    }
  }
  return await_all(reshape->told), OK;
}
API int cufftMpDestroyReshape(Reshape* reshape) {
  if (reshape->told) nvshmem_free((char*)reshape->told);
  return delete reshape, OK;
}
