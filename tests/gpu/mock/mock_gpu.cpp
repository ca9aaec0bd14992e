// A GPU for machines without one: the functions of the CUDA driver and runtime, NVRTC, NCCL and NVSHMEM that distmath's
// arrays call, on host memory. Kernels are compiled by g++ and run block by block, their threads as fibers. Work is done
// when it is queued, but what NCCL receives with MOCK_LATE; a graph is the calls that were captured, in their order: copies,
// kernels, what is written and awaited. Symmetric memory is files that all ranks map. It shows what kernels compute and who
// calls what; it shows nothing about streams, races or speed.
//
// Built and put into use by build.ts; functions that are not here are made there and return "not supported".

// Fibers jump from stack to stack, which glibc's check of jumps takes for an error.
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "captured.h"

// A name in the folder for temporary files.
static std::string temporary(const char* name) {
  const char* folder = getenv("TMPDIR");
  return std::string(folder && *folder ? folder : P_tmpdir) + "/" + name;
}

using u64 = unsigned long long;
#define API extern "C" __attribute__((visibility("default")))

static int gpus() {
  const char* text = getenv("MOCK_GPUS");
  return text ? atoi(text) : 4;
}

// ---- fibers ---------------------------------------------------------------------------------------------------------

struct Index { unsigned x, y, z; };
struct Kernel {
  void (*launch)(const void*);
  Index *thread, *block, *blocks, *threads;
  void (**sync)();
  bool hasBarriers;
  u64 bytes;  // of its argument
};
// What runs a thread of a kernel with barriers, block after block. It is begun by setcontext, once, and then goes on by
// jumps: swapcontext would make a system call each time.
struct Fiber {
  std::vector<char> stack = std::vector<char>(65536);
  jmp_buf place;
  bool hasBegun = false, hasEnded = false;
};
static std::deque<Fiber> fibers;
static jmp_buf scheduler;
static unsigned running;
static Kernel* current;
static const void* words;

static void sync_threads() {
  if (_setjmp(fibers[running].place) == 0) _longjmp(scheduler, 1);
}
static void run_threads() {
  for (;;) {
    current->launch(words);
    fibers[running].hasEnded = true;
    sync_threads();
  }
}
static void begin(Fiber& fiber) {
  fiber.hasBegun = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.data();
  context.uc_stack.ss_size = fiber.stack.size();
  makecontext(&context, run_threads, 0);
  setcontext(&context);
}
// A function of its own, since a jump back to it leaves its caller's variables as they are.
__attribute__((noinline)) static void resume(Fiber& fiber) {
  if (_setjmp(scheduler) != 0) return;
  if (fiber.hasBegun) _longjmp(fiber.place, 1);
  begin(fiber);
}

static void run_block(unsigned threads) {
  if (!current->hasBarriers) {
    for (unsigned i = 0; i < threads; i++) {
      current->thread->x = i;
      current->launch(words);
    }
    return;
  }
  while (fibers.size() < threads) fibers.emplace_back();
  for (Fiber& fiber : fibers) fiber.hasEnded = false;
  for (bool left = true; left;) {
    left = false;
    for (running = 0; running < threads; running++) {
      Fiber& fiber = fibers[running];
      if (fiber.hasEnded) continue;
      current->thread->x = running;
      resume(fiber);
      left = left || !fiber.hasEnded;
    }
  }
}

// ---- driver ---------------------------------------------------------------------------------------------------------

API int cuInit(unsigned) { return gpus() > 0 ? 0 : 100; }
API int cuDriverGetVersion(int* version) {
  const char* text = getenv("MOCK_CUDA");
  return *version = text ? atoi(text) : 13000, 0;
}
API int cuGetErrorName(int, const char** text) { return *text = "MOCK_ERROR", 0; }
API int cuGetErrorString(int code, const char** text) { return *text = code == 2 ? "out of memory" : "an error of the mock", 0; }
API int cuDeviceGetCount(int* count) { return *count = gpus(), 0; }
API int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
API int cuDeviceGetName(char* name, int length, int) { return snprintf(name, length, "Mock GPU"), 0; }
API int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  memset(uuid, 0, 16);
  uuid[15] = (unsigned char)device;
  // Other machines have other GPUs.
  if (const char* host = getenv("MOCK_HOST")) uuid[14] = (unsigned char)atoi(host);
  return 0;
}
API int cuDeviceTotalMem_v2(u64* bytes, int) { return *bytes = 1ull << 34, 0; }
// Compute capability 9.0, 4 multiprocessors.
API int cuDeviceGetAttribute(int* value, int attribute, int) {
  return *value = attribute == 75 ? 9 : attribute == 16 ? 4 : 0, 0;
}
// So many more allocations succeed, of memory and of modules; all if negative.
static long allowed = -1;
API void mock_allow_allocations(long count) { allowed = count; }
static bool allow() { return allowed > 0 ? allowed--, true : allowed < 0; }
API int cuModuleLoadData(void** module, const char* path) {
  if (!allow()) return 2;
  *module = dlopen(path, RTLD_NOW);
  if (!*module) fprintf(stderr, "mock: %s\n", dlerror());
  return *module ? 0 : 200;
}
API int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto* kernel = new Kernel;
  kernel->launch = (void (*)(const void*))dlsym(module, (std::string("launch_") + name).c_str());
  kernel->thread = (Index*)dlsym(module, "threadIdx");
  kernel->block = (Index*)dlsym(module, "blockIdx");
  kernel->blocks = (Index*)dlsym(module, "gridDim");
  kernel->threads = (Index*)dlsym(module, "blockDim");
  kernel->sync = (void (**)())dlsym(module, "mock_sync");
  const u64* bytes = (const u64*)dlsym(module, (std::string("bytes_of_") + name).c_str());
  kernel->bytes = bytes ? *bytes : 0;
  kernel->hasBarriers = dlsym(module, (std::string("barriers_in_") + name).c_str()) != nullptr;
  *function = kernel;
  return kernel->launch ? 0 : 500;
}
// A tile kernel whose partial sums copy engines push on waits for copies that are queued after it: it runs beside them. All
// that is put on its stream waits for it. Inline variables are one for all libraries that are copies of this one.
inline std::thread* beside;
inline void* besideStream;
// With MOCK_LATE messages of NCCL come when they come, in their order, and a stream is not done before: this is what has
// to. Only waiting for the stream does not block then.
inline std::deque<std::function<bool()>> late;
static bool has_come() {
  while (!late.empty() && late.front()()) late.pop_front();
  return late.empty();
}
static void settle(void* stream) {
  while (!has_come()) usleep(200);
  if (beside == nullptr || (stream != nullptr && stream != besideStream)) return;
  beside->join();
  delete beside;
  beside = nullptr;
}

API int cuLaunchKernel(Kernel* kernel, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                       void* stream, void** parameters, void**) {
  if (captured) {
    std::vector<char> own((char*)parameters[0], (char*)parameters[0] + kernel->bytes);
    return captured->push_back([=] {
      void* pointers[] = {(void*)own.data()};
      return cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, nullptr);
    }), 0;
  }
  settle(nullptr);
  current = kernel;
  words = parameters[0];
  *kernel->blocks = {blocks, 1, 1};
  *kernel->threads = {threads, 1, 1};
  *kernel->sync = sync_threads;
  for (unsigned block = 0; block < blocks; block++) {
    *kernel->block = {block, 0, 0};
    run_block(threads);
  }
  return 0;
}

// Where a tile kernel's parameters say that its sums are pushed on. Such a kernel is not captured.
static const u64 IS_PUSHED = 3912;
API int cuLaunchCooperativeKernel(Kernel* kernel, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                                  unsigned, void* stream, void** parameters) {
  if (*(unsigned*)((char*)parameters[0] + IS_PUSHED)) {
    settle(nullptr);
    std::vector<char> own((char*)parameters[0], (char*)parameters[0] + kernel->bytes);
    besideStream = stream;
    beside = new std::thread([kernel, own] {
      *kernel->block = *kernel->thread = {0, 0, 0};
      kernel->launch(own.data());
    });
    return 0;
  }
  return cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, nullptr, parameters, nullptr);
}
// Of CUlaunchConfig: the grid, the block, the stream, and one attribute, which may be that of a cooperative launch.
API int cuLaunchKernelEx(const char* config, Kernel* kernel, void** parameters, void**) {
  const unsigned* numbers = (const unsigned*)config;
  void* stream = *(void* const*)(config + 32);
  return **(const unsigned* const*)(config + 40) == 2
    ? cuLaunchCooperativeKernel(kernel, numbers[0], 1, 1, numbers[3], 1, 1, 0, stream, parameters)
    : cuLaunchKernel(kernel, numbers[0], 1, 1, numbers[3], 1, 1, 0, stream, parameters, nullptr);
}
API int cuFuncSetAttribute(void*, int, int) { return 0; }
API int cuStreamWriteValue32_v2(void* stream, unsigned* address, unsigned value, unsigned flags) {
  CAPTURED(cuStreamWriteValue32_v2(stream, address, value, flags));
  return __atomic_store_n(address, value, __ATOMIC_RELEASE), 0;
}
API int cuStreamWaitValue32_v2(void* stream, unsigned* address, unsigned value, unsigned flags) {
  CAPTURED(cuStreamWaitValue32_v2(stream, address, value, flags));
  while ((int)(__atomic_load_n(address, __ATOMIC_ACQUIRE) - value) < 0) usleep(20);
  return 0;
}
// Waits are 1, writes are 2.
struct MemoryOperation { int type; unsigned* address; unsigned value; char rest[28]; };
API int cuStreamBatchMemOp_v2(void* stream, unsigned count, MemoryOperation* operations, unsigned) {
  for (unsigned i = 0; i < count; i++) {
    auto [type, address, value, rest] = operations[i];
    type == 1 ? cuStreamWaitValue32_v2(stream, address, value, 0) : cuStreamWriteValue32_v2(stream, address, value, 0);
  }
  return 0;
}
// A box, as tiles.h reads it.
API int cuTensorMapEncodeTiled(u64* map, int, unsigned, u64 address, const u64* extents, const u64* strides,
                               const unsigned* box, const unsigned*, int, int, int, int) {
  const u64 words[] = {address, extents[0], extents[1], strides[0], box[0], box[1]};
  // What the hardware does not take.
  if (address % 16 || strides[0] % 16 || extents[0] == 0 || extents[1] == 0) return 1;
  return memcpy(map, words, sizeof words), 0;
}

// ---- runtime --------------------------------------------------------------------------------------------------------

static u64 used = 0;
static std::map<void*, u64> sizes;
static void* allocate(u64 bytes) {
  void* address = aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset(address, 0xa5, bytes);
  sizes[address] = bytes;
  used += bytes;
  return address;
}
static int release(void* address) {
  auto found = sizes.find(address);
  if (found == sizes.end()) return address ? 1 : 0;
  used -= found->second;
  memset(address, 0x5a, found->second);
  free(address);
  sizes.erase(found);
  return 0;
}
API int cudaRuntimeGetVersion(int* version) { return *version = 13000, 0; }
API int cudaDriverGetVersion(int* version) { return *version = 13000, 0; }
API const char* cudaGetErrorName(int) { return "mockError"; }
API const char* cudaGetErrorString(int) { return "an error of the mock"; }
// Of what has failed for want of memory, or was asked for too early.
static int last = 0;
static int fail_last(int code = 2) { return last = code; }
API int cudaGetLastError() {
  int code = last;
  return last = 0, code;
}
API int cudaGetDeviceCount(int* count) { return *count = gpus(), 0; }
API int cudaDeviceCanAccessPeer(int* can, int device, int peer) { return *can = device != peer, 0; }
// Joined by NVLink, or with MOCK_PCIE by PCIe.
API int cudaDeviceGetP2PAttribute(int* value, int attribute, int, int) {
  return *value = attribute == 3 && !getenv("MOCK_PCIE"), 0;
}
API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  return attribute == 16 ? cuDeviceGetAttribute(value, attribute, device) : 801;
}
API int cudaSetDevice(int) { return 0; }
API int cudaDeviceSynchronize() { return settle(nullptr), 0; }
API int cudaMemGetInfo(u64* available, u64* total) { return *total = 1ull << 34, *available = *total - used, 0; }
API int cudaFree(void* address) { return settle(nullptr), release(address); }
API int cudaMalloc(void** address, u64 bytes) { return *address = allocate(bytes), 0; }
API int cudaMallocAsync(void** address, u64 bytes, void*) {
  if (used + bytes > 1ull << 34 || !allow()) return fail_last();
  return *address = allocate(bytes), 0;
}
// With MOCK_LOST the GPU's work has failed, as every call then says; with MOCK_CAPTURING a graph is said to be captured, and
// with MOCK_NO_GRAPHS none can be.
API int cudaFreeAsync(void* address, void*) {
  // In the order of the stream: what the garbage collector frees waits for nobody.
  if (!has_come()) return late.push_back([=] { return release(address), true; }), 0;
  return settle(nullptr), getenv("MOCK_LOST") ? 700 : release(address);
}
API int cudaHostAlloc(void** address, u64 bytes, unsigned) {
  return (*address = aligned_alloc(4096, bytes)) ? 0 : fail_last();
}
API int cudaFreeHost(void* address) { return free(address), getenv("MOCK_LOST") ? 700 : 0; }
API int cudaMemcpyAsync(void* target, const void* source, u64 bytes, int kind, void* stream) {
  CAPTURED(cudaMemcpyAsync(target, source, bytes, kind, stream));
  return settle(stream), memmove(target, source, bytes), 0;
}
API int cudaMemcpy2DAsync(char* target, u64 targetPitch, const char* source, u64 sourcePitch, u64 width, u64 height, int kind,
                          void* stream) {
  CAPTURED(cudaMemcpy2DAsync(target, targetPitch, source, sourcePitch, width, height, kind, stream));
  settle(stream);
  for (u64 row = 0; row < height; row++) memmove(target + row * targetPitch, source + row * sourcePitch, width);
  return 0;
}
API int cudaMemsetAsync(void* target, int value, u64 bytes, void* stream) {
  CAPTURED(cudaMemsetAsync(target, value, bytes, stream));
  return settle(nullptr), memset(target, value, bytes), 0;
}
API int cudaDeviceGetDefaultMemPool(void** pool, int) { return *pool = (void*)1, 0; }
API int cudaMemPoolSetAttribute(void*, int, void*) { return 0; }
API int cudaMemPoolGetAttribute(void*, int, u64* value) { return *value = used, 0; }
API int cudaMemPoolTrimTo(void*, u64) { return 0; }
// A stream that was destroyed stays, as 0, so that whoever uses it can be found out.
API int cudaStreamCreateWithPriority(void** stream, unsigned, int) { return *stream = new int(1), 0; }
API int cudaStreamDestroy(void* stream) { return *(int*)stream = 0, getenv("MOCK_LOST") ? 700 : 0; }
API int cudaStreamSynchronize(void*) { return settle(nullptr), 0; }
API int cudaStreamQuery(void*) { return has_come() ? (settle(nullptr), 0) : fail_last(600); }
API int cudaStreamWaitEvent(void*, void*, unsigned) { return 0; }
// The clock of events: it goes on by a millisecond whenever one is recorded.
static long ticks = 0;
API int cudaEventCreateWithFlags(void** event, unsigned) { return *event = calloc(1, sizeof(long)), 0; }
API int cudaEventDestroy(void* event) { return free(event), getenv("MOCK_LOST") ? 700 : 0; }
API int cudaEventRecord(void* event, void* stream) {
  *(long*)event = ++ticks;
  return captured == nullptr && late.empty() ? (settle(stream), 0) : 0;
}
API int cudaEventQuery(void*) { return has_come() ? 0 : fail_last(600); }
API int cudaEventSynchronize(void*) { return settle(nullptr), 0; }
API int cudaStreamIsCapturing(void*, int* status) { return *status = captured || getenv("MOCK_CAPTURING") ? 1 : 0, 0; }
API int cudaStreamBeginCapture(void*, int) { return getenv("MOCK_NO_GRAPHS") ? 900 : (captured = new Captured, 0); }
API int cudaStreamEndCapture(void*, Captured** graph) { return *graph = captured, captured = nullptr, 0; }
API int cudaGraphInstantiate(Captured** executable, Captured* graph, u64) { return *executable = new Captured(*graph), 0; }
API int cudaGraphLaunch(Captured* executable, void* stream) {
  settle(stream);
  for (auto& call : *executable) {
    if (int code = call()) return code;
  }
  return 0;
}
API int cudaGraphExecDestroy(Captured* executable) { return delete executable, 0; }
API int cudaGraphDestroy(Captured* graph) { return delete graph, 0; }
API int cudaEventElapsedTime(float* milliseconds, void* start, void* end) {
  return *milliseconds = *(long*)end - *(long*)start, 0;
}

// ---- NVRTC: g++; the machine code is the path of a shared library ---------------------------------------------------

static const char* PREAMBLE = R"(
extern "C" {
double fabs(double); double floor(double); double ceil(double); double trunc(double); double rint(double);
double sqrt(double); double exp(double); double expm1(double); double log(double); double log1p(double);
double log2(double); double log10(double); double pow(double, double); double hypot(double, double);
double sin(double); double cos(double); double tan(double); double asin(double); double acos(double);
double atan(double); double atan2(double, double); double sinh(double); double cosh(double); double tanh(double); double erf(double); double erfc(double);
double fma(double, double, double);
}
#define isnan __builtin_isnan
#define isinf __builtin_isinf
struct Index { unsigned x, y, z; };
struct ulonglong2 { unsigned long long x, y; };
extern "C" { Index threadIdx, blockIdx, gridDim, blockDim; void (*mock_sync)(); }
#define __device__ inline
#define __noinline__
#define __global__
#define __shared__ static
#define __syncthreads() mock_sync()
#define __syncwarp() mock_sync()
#define __threadfence_system() __sync_synchronize()
#define __nanosleep(t) usleep(1)
#define atomicAdd(address, value) __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST)
#define __trap() __builtin_trap()
extern "C" { int usleep(unsigned); long clock(); }
#define clock64() clock()
#define sincospi(x, s, c) __builtin_sincos(3.14159265358979323846 * (x), s, c)
template <typename T, typename F> T mock_bits(F from) { T to; __builtin_memcpy(&to, &from, sizeof to); return to; }
#define __longlong_as_double(x) mock_bits<double>((long long)(x))
#define __double_as_longlong(x) mock_bits<long long>((double)(x))
#define __float_as_uint(x) mock_bits<unsigned>((float)(x))
#define __uint_as_float(x) mock_bits<float>((unsigned)(x))
#define expf __builtin_expf
static float half_to_float(unsigned short bits) { return (float)mock_bits<_Float16>(bits); }
static unsigned short float_to_half(float value) { return mock_bits<unsigned short>((_Float16)value); }
static unsigned short float_to_bfloat16(float value) {
  unsigned bits = mock_bits<unsigned>(value);
  return value != value ? 0x7fff : (unsigned short)(bits + 0x7fff + (bits >> 16 & 1) >> 16);
}
)";

// Tile kernels are written in the GPU's own instructions: of these, tiles.h does what they do.
static std::string tiles_of(const std::string& text) {
  auto part = [&](const char* from, const char* to) {
    size_t start = text.find(from);
    return text.substr(start, text.find(to) - start);
  };
  std::ifstream file(MOCK_FOLDER "/tiles.h");
  std::string emulation((std::istreambuf_iterator<char>(file)), {});
  return "#define __forceinline__\n#define alignas(x)\nstruct uint4 { unsigned x, y, z, w; };\n" +
    text.substr(0, text.find("typedef")) + part("typedef unsigned int u32;", "// ---- barriers") + emulation;
}

static const char* COMPILER = "g++ -std=c++17 -O1 -w -ffp-contract=off -fno-gnu-unique -Wl,-Bsymbolic -shared -fPIC -o ";
// Where the library of a source is kept for all tests, below MOCK_KERNELS: it has the name of what it is made from, by two
// hashes (FNV-1a). Empty without.
static std::string kept_library(const std::string& text) {
  const char* folder = getenv("MOCK_KERNELS");
  if (!folder) return "";
  u64 hashes[] = {0xcbf29ce484222325, 0x9e3779b97f4a7c15};
  for (u64& hash : hashes) {
    for (unsigned char byte : COMPILER + (PREAMBLE + text)) hash = (hash ^ byte) * 0x100000001b3;
  }
  char name[40];
  snprintf(name, sizeof name, "/%016llx%016llx.so", hashes[0], hashes[1]);
  return folder + std::string(name);
}

struct Source { std::string text, image, log; };
API int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 99, 0; }
API const char* nvrtcGetErrorString(int) { return "an error of the mock"; }
API int nvrtcGetNumSupportedArchs(int* count) { return *count = 1, 0; }
API int nvrtcGetSupportedArchs(int* archs) { return *archs = 90, 0; }
API int nvrtcCreateProgram(Source** program, const char* text, const char*, int, void*, void*) {
  std::string source = text;
  return *program = new Source{source.find("multiply_tiles") == std::string::npos ? source : tiles_of(source), "", ""}, 0;
}
API int nvrtcDestroyProgram(Source** program) { return delete *program, 0; }
API int nvrtcCompileProgram(Source* program, int, void*) {
  std::string kept = kept_library(program->text);
  if (!kept.empty() && access(kept.c_str(), R_OK) == 0) return program->image = kept, 0;
  std::string code = PREAMBLE + program->text + "\n";
  std::regex kernel("__global__ void (\\w+)\\(const (\\w+) p\\)");
  for (std::sregex_iterator i(program->text.begin(), program->text.end(), kernel), end; i != end; ++i) {
    std::string name = (*i)[1], type = (*i)[2];
    std::string body = (*i).suffix().str().substr(0, (*i).suffix().str().find("__global__"));
    auto has = [&](const char* word) { return body.find(word) != std::string::npos; };
    if (has("__syncthreads") || has("__syncwarp") || has(" across(")) code += "extern \"C\" { int barriers_in_" + name + " = 1; }\n";
    code += "extern \"C\" { unsigned long bytes_of_" + name + " = sizeof(" + type + "); }\n";
    code += "extern \"C\" void launch_" + name + "(const void* words) { " + name + "(*(const " + type + "*)words); }\n";
  }
  std::string stem = temporary("mock_kernel_XXXXXX");
  close(mkstemp(stem.data()));
  std::string file = stem + ".cpp", library = kept.empty() ? stem + ".so" : kept + stem.substr(stem.size() - 7);
  FILE* out = fopen(file.c_str(), "w");
  fwrite(code.data(), 1, code.size(), out);
  fclose(out);
  std::string command = COMPILER + library + " " + file + " 2> " + stem;
  int status = system(command.c_str());
  if (status != 0) {
    program->log = "see " + stem;
    return 6;
  }
  unlink(file.c_str());
  unlink(stem.c_str());
  // Whoever finds it finds it complete.
  if (!kept.empty()) rename(library.c_str(), kept.c_str());
  program->image = kept.empty() ? library : kept;
  return 0;
}
API int nvrtcGetProgramLogSize(Source* program, u64* size) { return *size = program->log.size() + 1, 0; }
API int nvrtcGetProgramLog(Source* program, char* log) { return strcpy(log, program->log.c_str()), 0; }
API int nvrtcGetCUBINSize(Source* program, u64* size) { return *size = program->image.size() + 1, 0; }
API int nvrtcGetCUBIN(Source* program, char* image) { return strcpy(image, program->image.c_str()), 0; }

// ---- memory that several processes map ------------------------------------------------------------------------------

static void* map_file(const std::string& path, u64 bytes) {
  int file = open(path.c_str(), O_RDWR);
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return address;
}
// Names come last, so that whoever sees one finds the file complete.
static void write_file(const std::string& path, const std::string& text, u64 bytes) {
  FILE* file = fopen((path + ".part").c_str(), "w");
  fwrite(text.data(), 1, text.size(), file);
  if (ftruncate(fileno(file), bytes) != 0) perror("mock");
  fclose(file);
  rename((path + ".part").c_str(), path.c_str());
}
static void await_file(const std::string& path) {
  while (access(path.c_str(), R_OK) != 0) usleep(200);
}

// ---- NCCL: messages are files ---------------------------------------------------------------------------------------

struct Id { char text[128]; };
struct Communicator { std::string folder; int rank; std::map<int, int> sent, received; int size = 1, windows = 0; };
struct Window { Communicator* comm; std::string notice; u64 bytes; std::vector<void*> peers; };
static std::vector<std::function<void()>> sends;
static std::vector<std::function<bool()>> receives;
static int depth = 0;

static void flush() {
  for (auto& send : sends) send();
  for (auto& receive : receives) {
    if (getenv("MOCK_LATE")) late.push_back(receive);
    else while (!receive()) usleep(200);
  }
  sends.clear();
  receives.clear();
}
static std::string message(Communicator* comm, int from, int to, int number) {
  return comm->folder + "/" + std::to_string(from) + "_" + std::to_string(to) + "_" + std::to_string(number);
}
API int ncclGetVersion(int* version) { return *version = 23007, 0; }
API const char* ncclGetErrorString(int) { return "an error of the mock"; }
API const char* ncclGetLastError(void*) { return ""; }
API int ncclGetUniqueId(Id* id) {
  std::string folder = temporary("mock_nccl_XXXXXX");
  if (folder.size() >= sizeof id->text || !mkdtemp(folder.data())) return 2;
  strcpy(id->text, folder.c_str());
  return 0;
}
API int ncclCommInitRank(Communicator** comm, int size, Id id, int rank) {
  return *comm = new Communicator{id.text, rank, {}, {}, size}, 0;
}
API int ncclCommFinalize(Communicator*) { return 0; }
API int ncclCommDestroy(Communicator* comm) { return rmdir(comm->folder.c_str()), delete comm, 0; }
// What NCCL does in the background fails, from the next look on.
static int failure = 0;
API void mock_fail_nccl(int code) { failure = code; }
API int ncclCommGetAsyncError(Communicator*, int* result) { return *result = failure, 0; }
API int ncclCommAbort(Communicator*) { return late.clear(), 0; }
API int ncclGroupStart() { return depth++, 0; }
API int ncclGroupEnd() {
  if (--depth == 0) flush();
  return 0;
}
API int ncclSend(const void* data, u64 bytes, int type, int peer, Communicator* comm, void*) {
  sends.push_back([=] {
    std::string path = message(comm, comm->rank, peer, comm->sent[peer]++);
    FILE* file = fopen((path + ".part").c_str(), "w");
    fwrite(data, 1, bytes, file);
    fclose(file);
    rename((path + ".part").c_str(), path.c_str());
  });
  if (depth == 0) flush();
  return type == 1 ? 0 : 5;
}
API int ncclRecv(void* data, u64 bytes, int type, int peer, Communicator* comm, void*) {
  receives.push_back([=] {
    std::string path = message(comm, peer, comm->rank, comm->received[peer]);
    if (access(path.c_str(), R_OK) != 0) return false;
    comm->received[peer]++;
    FILE* file = fopen(path.c_str(), "r");
    if (fread(data, 1, bytes, file) != bytes || fgetc(file) != EOF) fprintf(stderr, "mock: a message of another size\n");
    fclose(file);
    return unlink(path.c_str()) == 0;
  });
  if (depth == 0) flush();
  return type == 1 ? 0 : 5;
}
static std::map<void*, std::pair<std::string, u64>> windowMemory;
API int ncclMemAlloc(void** address, u64 bytes) {
  std::string path = temporary("mock_window_XXXXXX");
  close(mkstemp(path.data()));
  if (truncate(path.c_str(), bytes) != 0) return 2;
  *address = map_file(path, bytes);
  windowMemory[*address] = {path, bytes};
  return 0;
}
API int ncclMemFree(void* address) {
  auto found = windowMemory.find(address);
  if (found == windowMemory.end()) return 4;
  munmap(address, found->second.second);
  unlink(found->second.first.c_str());
  windowMemory.erase(found);
  return 0;
}
API int ncclCommWindowRegister(Communicator* comm, void* address, u64 bytes, Window** window, int) {
  std::string stem = comm->folder + "/window_" + std::to_string(comm->windows++) + "_";
  const std::string& own = windowMemory[address].first;
  *window = new Window{comm, stem + std::to_string(comm->rank), bytes, {}};
  write_file((*window)->notice, own, own.size());
  for (int rank = 0; rank < comm->size; rank++) {
    std::string notice = stem + std::to_string(rank);
    await_file(notice);
    char path[4096] = {};
    FILE* file = fopen(notice.c_str(), "r");
    if (fread(path, 1, sizeof path - 1, file) == 0) return 2;
    fclose(file);
    (*window)->peers.push_back(map_file(path, bytes));
  }
  return 0;
}
API int ncclCommWindowDeregister(Communicator*, Window* window) {
  for (void* peer : window->peers) munmap(peer, window->bytes);
  unlink(window->notice.c_str());
  delete window;
  return 0;
}
API int ncclGetPeerDevicePointer(Window* window, u64 offset, int peer, void** address) {
  return *address = (char*)window->peers[peer] + offset, 0;
}

// ---- NVSHMEM: a file for each buffer of each rank ---------------------------------------------------------------------

struct Symmetric { int number; u64 bytes; std::vector<char*> peers; };
static std::string heap;
static int heapRank, heapSize, heapStatus, heapMade;
static const char* heapId;
static std::map<char*, Symmetric> symmetric;

static std::string heap_file(int number, int rank) {
  return heap + "/" + std::to_string(number) + "_" + std::to_string(rank);
}
API void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) { *major = 3, *minor = 4, *patch = 5; }
API int nvshmemx_init_status() { return heapStatus; }
API int nvshmemx_get_uniqueid(char* id) {
  std::string folder = temporary("mock_heap_XXXXXX");
  if (folder.size() > 120 || !mkdtemp(folder.data())) return 2;
  strcpy(id + 4, folder.c_str());
  return 0;
}
API int nvshmemx_set_attr_uniqueid_args(int rank, int size, const char* id, void*) {
  return heapRank = rank, heapSize = size, heapId = id, 0;
}
API int nvshmemx_hostlib_init_attr(unsigned, void*) { return heap = heapId + 4, heapStatus = 2, 0; }
API void nvshmemx_hostlib_finalize() { heapStatus = 0, rmdir(heap.c_str()); }
API int nvshmem_my_pe() { return heapRank; }
API int nvshmem_n_pes() { return heapSize; }
API void* nvshmem_malloc(u64 bytes) {
  if (bytes > 1ull << 30) return nullptr;
  Symmetric made{heapMade++, bytes + 1, {}};
  write_file(heap_file(made.number, heapRank), "", made.bytes);
  for (int rank = 0; rank < heapSize; rank++) {
    await_file(heap_file(made.number, rank));
    made.peers.push_back((char*)map_file(heap_file(made.number, rank), made.bytes));
  }
  char* own = made.peers[heapRank];
  symmetric[own] = made;
  return own;
}
API void nvshmem_free(char* address) {
  Symmetric& freed = symmetric.at(address);
  for (char* peer : freed.peers) munmap(peer, freed.bytes);
  unlink(heap_file(freed.number, heapRank).c_str());
  symmetric.erase(address);
}
API void* nvshmem_ptr(char* address, int peer) {
  auto found = symmetric.upper_bound(address);
  if (found == symmetric.begin()) return nullptr;
  auto& [own, block] = *--found;
  return address < own + block.bytes ? block.peers[peer] + (address - own) : nullptr;
}
