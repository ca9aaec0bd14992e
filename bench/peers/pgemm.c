/* p?gemm on a two-dimensional process grid, called from C. Arguments: the library files in the order of loading.
 *
 * Order: pgemm <s|d> <n> <nb> <rows> <columns> <beta> <repeats> <calls>, with the block size nb and the process grid
 * rows x columns in row-major order: `repeats` times the seconds a call, averaged over `calls` calls. */
#include "blacs.h"

typedef void Gemm(const char *, const char *, const int *, const int *, const int *, const void *, const void *,
                  const int *, const int *, const int *, const void *, const int *, const int *, const int *,
                  const void *, void *, const int *, const int *, const int *);

static void handle(int words, char **word, Times *times) {
  if (words != 9) fail("order", word[0]);
  char type = word[1][0];
  int n = number(word[2]), nb = number(word[3]), rows = number(word[4]), columns = number(word[5]);
  int repeats = number(word[7]), calls = number(word[8]), zero = 0, one = 1, row, column;
  int context = system_handle(MPI_COMM_WORLD);
  grid_init(&context, "Row", rows, columns);
  grid_info(context, &rows, &columns, &row, &column);
  int local_rows = numroc(&n, &nb, &row, &zero, &rows), local_columns = numroc(&n, &nb, &column, &zero, &columns);
  int descriptor[9] = {1, context, n, n, nb, nb, 0, 0, local_rows > 1 ? local_rows : 1};
  size_t elements = (size_t)local_rows * local_columns;
  void *a = matrix(type, elements), *b = matrix(type, elements), *c = matrix(type, elements);
  double alpha64 = 0.45, beta64 = atof(word[6]);
  float alpha32 = alpha64, beta32 = beta64;
  void *alpha = type == 'd' ? (void *)&alpha64 : &alpha32, *beta = type == 'd' ? (void *)&beta64 : &beta32;
  Gemm *gemm = (Gemm *)symbol(type == 'd' ? "pdgemm_" : "psgemm_");
  for (int repeat = -1; repeat < repeats; repeat++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    for (int call = 0; call < calls; call++)
      gemm("N", "N", &n, &n, &n, alpha, a, &one, &one, descriptor, b, &one, &one, descriptor, beta, c, &one, &one,
           descriptor);
    double end = now();
    if (repeat >= 0) times->seconds[times->count++] = (end - start) / calls; /* the first one warms up */
  }
  free(a), free(b), free(c);
  grid_exit(context);
}
