/* p?gemr2d, called from C. Arguments: the library files in the order of loading.
 *
 * Order: gemr2d <d|z> <m> <n> <rows> <columns> <mb> <nb> <rows> <columns> <mb> <nb> <repeats>: an m x n matrix, column-major,
 * from one process grid in column-major order with its block sizes to another: the seconds of `repeats` calls. */
#include "blacs.h"

typedef void Move(const int *, const int *, const void *, const int *, const int *, const int *, void *, const int *,
                  const int *, const int *, const int *);

/* The descriptor on a new grid, described by four words, and the memory of this rank's part. */
static double *part(int m, int n, char **word, int parts, int *descriptor) {
  int rows = number(word[0]), columns = number(word[1]), mb = number(word[2]), nb = number(word[3]);
  int context = system_handle(MPI_COMM_WORLD), zero = 0, row, column;
  grid_init(&context, "Col", rows, columns);
  grid_info(context, &rows, &columns, &row, &column);
  int local_rows = numroc(&m, &mb, &row, &zero, &rows), local_columns = numroc(&n, &nb, &column, &zero, &columns);
  int made[9] = {1, context, m, n, mb, nb, 0, 0, local_rows > 1 ? local_rows : 1};
  memcpy(descriptor, made, sizeof made);
  return matrix('d', (size_t)local_rows * local_columns * parts);
}

static void handle(int words, char **word, Times *times) {
  if (words != 13) fail("order", word[0]);
  int is_complex = word[1][0] == 'z', m = number(word[2]), n = number(word[3]), repeats = number(word[12]), one = 1;
  int from[9], to[9];
  static double *a, *b;
  free(a), free(b);
  a = part(m, n, word + 4, 1 + is_complex, from);
  b = part(m, n, word + 8, 1 + is_complex, to);
  Move *move = (Move *)symbol(is_complex ? "pzgemr2d_" : "pdgemr2d_");
  for (int repeat = -1; repeat < repeats; repeat++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    move(&m, &n, a, &one, &one, from, b, &one, &one, to, &from[1]);
    double end = now();
    if (repeat >= 0) times->seconds[times->count++] = end - start; /* the first one warms up */
  }
  grid_exit(from[1]);
  grid_exit(to[1]);
}
