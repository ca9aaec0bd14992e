/* A worker on process grids of the BLACS: their functions, and a main that opens libraries and serves orders. */
#include <mpi.h>

#include "worker.h"

static int (*system_handle)(MPI_Comm), (*numroc)(const int *, const int *, const int *, const int *, const int *);
static void (*grid_init)(int *, const char *, int, int), (*grid_info)(int, int *, int *, int *, int *),
    (*grid_exit)(int);

static void handle(int words, char **word, Times *times);

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  open_libraries(argc - 1, argv + 1);
  system_handle = (int (*)(MPI_Comm))symbol("Csys2blacs_handle");
  numroc = (int (*)(const int *, const int *, const int *, const int *, const int *))symbol("numroc_");
  grid_init = (void (*)(int *, const char *, int, int))symbol("Cblacs_gridinit");
  grid_info = (void (*)(int, int *, int *, int *, int *))symbol("Cblacs_gridinfo");
  grid_exit = (void (*)(int))symbol("Cblacs_gridexit");
  serve(rank, handle);
  MPI_Finalize();
}
