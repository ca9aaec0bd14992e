/* ?gemm of one process with several threads, called from C. Arguments: the library files in the order of loading.
 *
 * Order: gemm <s|d> <n> <N|T> <N|T> <repeats>: the seconds of each call, column-major n x n matrices. */
#include "worker.h"

typedef void Gemm(const char *, const char *, const int *, const int *, const int *, const void *, const void *,
                  const int *, const void *, const int *, const void *, void *, const int *);

static void handle(int words, char **word, Times *times) {
  if (words != 6) fail("order", word[0]);
  char type = word[1][0];
  int n = number(word[2]), repeats = number(word[5]);
  double one64 = 1, zero64 = 0;
  float one32 = 1, zero32 = 0;
  void *alpha = type == 'd' ? (void *)&one64 : &one32, *beta = type == 'd' ? (void *)&zero64 : &zero32;
  void *a = matrix(type, (size_t)n * n), *b = matrix(type, (size_t)n * n), *c = matrix(type, (size_t)n * n);
  Gemm *gemm = (Gemm *)symbol(type == 'd' ? "dgemm_" : "sgemm_");
  for (int repeat = -1; repeat < repeats; repeat++) {
    double start = now();
    gemm(word[3], word[4], &n, &n, &n, alpha, a, &n, b, &n, beta, c, &n);
    double end = now();
    if (repeat >= 0) times->seconds[times->count++] = end - start; /* the first one warms up */
  }
  free(a), free(b), free(c);
}

int main(int argc, char **argv) {
  open_libraries(argc - 1, argv + 1);
  serve(0, handle);
}
