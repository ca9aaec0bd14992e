/* Complex transforms of double precision on slabs, called from C: by FFTW-MPI with measured plans (`fft fftw`), or by
 * MKL's cluster FFT (`fft cluster`, and MKL's files in the order of loading, with its BLACS among them). Both in place.
 *
 * Orders, each answered by the seconds of every call:
 *   transform <natural> <repeats> <extents...>: of the first extent's slabs; `natural` leaves the result in slabs of the
 *     second one, in the order of axes that the library prefers (of x, y, z FFTW's is y, x, z, MKL's y, z, x), false
 *     brings it back.
 *   batch <repeats> <count> <length>: `count` transforms of each `length`, divided among the ranks.
 *   small <chunks> <calls> <extents...>: as `transform` with `natural`, in chunks of so many calls, of which the answers
 *     are averages. */
#include <mpi.h>
#include <stddef.h>

#include "worker.h"

enum { FORWARD = -1, MEASURE = 0, TRANSPOSED_OUT = 1 << 30 };

typedef void *Plan;
static int is_fftw, rank, size;
static double *(*allocate)(size_t);
static Plan (*plan_mpi)(int, const ptrdiff_t *, void *, void *, MPI_Comm, int, unsigned);
static ptrdiff_t (*local_size)(int, const ptrdiff_t *, MPI_Comm, ptrdiff_t *, ptrdiff_t *, ptrdiff_t *, ptrdiff_t *);
static Plan (*plan_many)(int, const int *, int, void *, const int *, int, int, void *, const int *, int, int, int,
                         unsigned);
static void (*execute)(Plan);

/* MKL's names and numbers, from mkl_cdft.h. */
enum { DFTI_TRANSPOSE = 19, DFTI_COMPLEX = 32, DFTI_DOUBLE = 36, DFTI_ALLOW = 51, CDFT_LOCAL_SIZE = 1000 };
static long (*create)(MPI_Comm, void **, int, int, long, ...), (*commit)(void *), (*compute)(void *, void *, ...),
    (*get)(void *, int, ...), (*set)(void *, int, ...);

/* Plans are kept: an order comes again in each round. */
static struct {
  char key[256];
  Plan plan;
  double *data;
} last;

static void fill(double *data, size_t numbers) {
  unsigned long long state = 88172645463325252ull + rank;
  for (size_t i = 0; i < numbers; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    data[i] = (double)(state >> 11) / (1ull << 52) - 1;
  }
}

static void prepare(int words, char **word, int first, int natural) {
  ptrdiff_t n[8], elements = 0, local, start, local_out, start_out;
  int dimensions = words - first;
  for (int i = 0; i < dimensions; i++) n[i] = number(word[first + i]);
  free(last.data);
  if (is_fftw) {
    elements = local_size(dimensions, n, MPI_COMM_WORLD, &local, &start, &local_out, &start_out);
    last.data = allocate(2 * elements);
    last.plan = plan_mpi(dimensions, n, last.data, last.data, MPI_COMM_WORLD, FORWARD,
                         MEASURE | (natural ? TRANSPOSED_OUT : 0));
  } else {
    long extents[8], numbers;
    for (int i = 0; i < dimensions; i++) extents[i] = n[i];
    if (create(MPI_COMM_WORLD, &last.plan, DFTI_DOUBLE, DFTI_COMPLEX, dimensions, extents)) fail("create", word[0]);
    if (natural && set(last.plan, DFTI_TRANSPOSE, DFTI_ALLOW)) fail("set", word[0]);
    if (get(last.plan, CDFT_LOCAL_SIZE, &numbers)) fail("get", word[0]);
    elements = numbers;
    last.data = allocate(2 * elements);
    if (commit(last.plan)) fail("commit", word[0]);
  }
  if (!last.plan) fail("plan", word[0]);
  fill(last.data, 2 * elements);
}

static void prepare_batch(int count, int length) {
  int mine = count / size + (rank < count % size);
  free(last.data);
  last.data = allocate(2 * (size_t)mine * length);
  last.plan = plan_many(1, &length, mine, last.data, NULL, 1, length, last.data, NULL, 1, length, FORWARD, MEASURE);
  fill(last.data, 2 * (size_t)mine * length);
}

static void run(void) {
  if (is_fftw) execute(last.plan);
  else if (compute(last.plan, last.data)) fail("compute", last.key);
}

static double *plain(size_t numbers) {
  return aligned_alloc(64, (numbers * sizeof(double) + 64) / 64 * 64);
}

static void handle(int words, char **word, Times *times) {
  char key[256] = "";
  int is_batch = !strcmp(word[0], "batch"), is_small = !strcmp(word[0], "small");
  int repeats = number(word[is_batch || is_small ? 1 : 2]), calls = is_small ? number(word[2]) : 1;
  for (int i = 0; i < words; i++) strncat(strncat(key, word[i], 30), " ", 2);
  if (strcmp(key, last.key)) {
    if (is_batch) prepare_batch(number(word[2]), number(word[3]));
    else prepare(words, word, 3, is_small || !strcmp(word[1], "true"));
    strcpy(last.key, key);
  }
  run(); /* warms up */
  for (int repeat = 0; repeat < repeats; repeat++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    for (int call = 0; call < calls; call++) run();
    times->seconds[times->count++] = (now() - start) / calls;
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  is_fftw = argc > 1 && !strcmp(argv[1], "fftw");
  allocate = plain;
  if (is_fftw) {
    char *files[] = {"libfftw3.so.3", "libfftw3_mpi.so.3"};
    open_libraries(2, files);
    ((void (*)(void))symbol("fftw_mpi_init"))();
    plan_mpi = (Plan(*)(int, const ptrdiff_t *, void *, void *, MPI_Comm, int, unsigned))symbol("fftw_mpi_plan_dft");
    local_size = (ptrdiff_t(*)(int, const ptrdiff_t *, MPI_Comm, ptrdiff_t *, ptrdiff_t *, ptrdiff_t *, ptrdiff_t *))
        symbol("fftw_mpi_local_size_transposed");
    plan_many = (Plan(*)(int, const int *, int, void *, const int *, int, int, void *, const int *, int, int, int,
                         unsigned))symbol("fftw_plan_many_dft");
    execute = (void (*)(Plan))symbol("fftw_execute");
  } else {
    /* MKL's cluster FFT and BLACS before its interface, which they have functions for. */
    char *files[32], cluster[4096];
    int count = 0, at = argc - 1;
    while (at > 2 && !strstr(argv[at], "libmkl_scalapack")) at--;
    const char *end = strrchr(argv[at], '/');
    if (!end || !strstr(argv[at], "libmkl_scalapack")) fail("cluster", "distmath does not use MKL here");
    const char *suffix = strstr(end, ".so");
    snprintf(cluster, sizeof cluster, "%.*s/libmkl_cdft_core%s", (int)(end - argv[at]), argv[at], suffix);
    for (int i = 2; i < argc; i++)
      if (!strstr(argv[i], "intel_lp64") && !strstr(argv[i], "scalapack") && !strstr(argv[i], "blacs"))
        files[count++] = argv[i];
    files[count++] = cluster;
    for (int i = 2; i < argc; i++)
      if (strstr(argv[i], "blacs")) files[count++] = argv[i];
    for (int i = 2; i < argc; i++)
      if (strstr(argv[i], "mkl_intel_lp64")) files[count++] = argv[i];
    open_libraries(count, files);
    create = (long (*)(MPI_Comm, void **, int, int, long, ...))symbol("DftiCreateDescriptorDM");
    get = (long (*)(void *, int, ...))symbol("DftiGetValueDM");
    set = (long (*)(void *, int, ...))symbol("DftiSetValueDM");
    commit = (long (*)(void *))symbol("DftiCommitDescriptorDM");
    compute = (long (*)(void *, void *, ...))symbol("DftiComputeForwardDM");
  }
  serve(rank, handle);
  MPI_Finalize();
}
