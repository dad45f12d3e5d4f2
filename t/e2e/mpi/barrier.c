// SPDX-License-Identifier: Apache-2.0
//
// barrier RANK: all ranks wait in an MPI barrier, but RANK, which reads from a pipe that nobody else has open. Each
// makes a file `there.RANK` before.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int read_mesh(void) {
  int ends[2];
  char byte;
  if (pipe(ends) != 0) return 1;
  return read(ends[0], &byte, 1) == 1 ? 0 : 1;
}

static void exchange(void) { MPI_Barrier(MPI_COMM_WORLD); }

int main(int argc, char** argv) {
  int rank;
  char name[32];
  FILE* file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(name, sizeof name, "there.%d", rank);
  if ((file = fopen(name, "w")) != NULL) fclose(file);
  if (argc > 1 && rank == atoi(argv[1])) read_mesh();
  exchange();
  MPI_Finalize();
  return 0;
}
