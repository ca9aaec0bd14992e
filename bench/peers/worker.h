/* The side of a benchmark that runs on a rank, for C peers: open the same library files as distmath does, wait for the
 * driver's orders on its socket without using the processor, answer with times. See bench/harness/worker.ts. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_WORDS 16
#define MAX_CALLS 4096

/* Seconds of the calls of one order. */
typedef struct {
  int count;
  double seconds[MAX_CALLS];
} Times;

typedef void Handler(int words, char **word, Times *times);

static inline double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static inline void fail(const char *what, const char *detail) {
  fprintf(stderr, "%s: %s\n", what, detail ? detail : "unknown");
  exit(1);
}

/* Open libraries in the given order; each finds the symbols of those before it. */
static inline void open_libraries(int count, char **paths) {
  for (int i = 0; i < count; i++)
    if (!dlopen(paths[i], RTLD_LAZY | RTLD_GLOBAL)) fail("dlopen", dlerror());
}

static inline void *symbol(const char *name) {
  void *address = dlsym(RTLD_DEFAULT, name);
  if (!address) fail("dlsym", dlerror());
  return address;
}

static inline int number(const char *word) { return atoi(word); }

/* `elements` values in [-1, 1) of type 's' (float) or 'd' (double). */
static inline void *matrix(char type, size_t elements) {
  unsigned long long state = 88172645463325252ull;
  void *data = malloc(elements * (type == 'd' ? 8 : 4) + 64);
  for (size_t i = 0; i < elements; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    double value = (double)(state >> 11) / (1ull << 52) - 1;
    if (type == 'd') ((double *)data)[i] = value;
    else ((float *)data)[i] = value;
  }
  return data;
}

/* Obey the driver's orders until it hangs up. */
static inline void serve(int rank, Handler *handle) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const char *path = getenv("DISTMATH_BENCH_SOCKET");
  if (!path) fail("DISTMATH_BENCH_SOCKET", "not set: benchmarks are started by `deno task bench`");
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int connection = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(connection, (struct sockaddr *)&address, sizeof address)) fail("connect", path);
  FILE *orders = fdopen(connection, "r"), *answers = fdopen(dup(connection), "w");
  fprintf(answers, "%d\n", rank);
  fflush(answers);

  static Times times;
  char line[1024], *word[MAX_WORDS];
  while (fgets(line, sizeof line, orders)) {
    int words = 0;
    for (char *next = strtok(line, " \n"); next && words < MAX_WORDS; next = strtok(NULL, " \n")) word[words++] = next;
    times.count = 0;
    handle(words, word, &times);
    fputc('[', answers);
    for (int i = 0; i < times.count; i++) fprintf(answers, "%s%.9g", i ? "," : "", times.seconds[i]);
    fputs("]\n", answers);
    fflush(answers);
  }
}
