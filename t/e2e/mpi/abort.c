// SPDX-License-Identifier: Apache-2.0
//
// abort RANK CODE: that rank calls MPI_Abort with that code, the others wait in a barrier that nobody can leave.
#include <mpi.h>
#include <stdlib.h>

#include "check.h"

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(rank, argc == 3 && atoi(argv[1]) < size, "usage: abort RANK CODE, with a rank below %d", size);
  if (rank == 0) {
    printf("abort: rank %s will abort with %s\n", argv[1], argv[2]);
    fflush(stdout);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == atoi(argv[1])) MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d left the barrier\n", rank);
  MPI_Finalize();
  return 0;
}
