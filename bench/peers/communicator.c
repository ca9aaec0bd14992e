/* Small messages, called from C.
 *
 * Orders: allreduce <chunks> <calls>, pingpong <chunks> <calls>: seconds a call (a round trip), averaged over chunks. */
#include <mpi.h>

#include "worker.h"

static int rank;

static void all_reduce(void) {
  static double sent = 1, received;
  MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void ping_pong(void) {
  static char byte;
  if (rank == 0) {
    MPI_Send(&byte, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(&byte, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

static void handle(int words, char **word, Times *times) {
  if (words != 3) fail("order", word[0]);
  void (*run)(void) = strcmp(word[0], "allreduce") ? ping_pong : all_reduce;
  int chunks = number(word[1]), calls = number(word[2]);
  for (int chunk = 0; chunk < chunks; chunk++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    for (int call = 0; call < calls; call++) run();
    times->seconds[times->count++] = (now() - start) / calls;
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  serve(rank, handle);
  MPI_Finalize();
}
