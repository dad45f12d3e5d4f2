/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi WHAT: an MPI program. Each rank says what it found, in one line.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void hello(void) { printf("rank %d of %d\n", rank, size); }

static void allreduce(void) {
  int sum = 0;
  for (int round = 0; round < 100; ++round) {
    int mine = rank + round, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    sum += all;
  }
  printf("rank %d: %d\n", rank, sum);
}

static void alltoall(void) {
  enum { kEach = 10000 };
  int* out = malloc(sizeof *out * (size_t)size * kEach);
  int* in = malloc(sizeof *in * (size_t)size * kEach);
  int wrong = 0;
  for (int i = 0; i < size * kEach; ++i) out[i] = rank * 1000 + i / kEach;
  MPI_Alltoall(out, kEach, MPI_INT, in, kEach, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < size * kEach; ++i) wrong += in[i] != (i / kEach) * 1000 + rank;
  printf("rank %d: %d wrong\n", rank, wrong);
  free(out);
  free(in);
}

static void spawn(char* program) {
  MPI_Comm parent, others;
  char* args[] = {(char*)"spawn", NULL};
  int number = 0;
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    MPI_Bcast(&number, 1, MPI_INT, 0, parent);
    printf("child %d of %d got %d\n", rank, size, number);
    return;
  }
  number = 42;
  MPI_Comm_spawn(program, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
  MPI_Bcast(&number, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, others);
  printf("parent %d\n", rank);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "hello") == 0) hello();
  if (strcmp(what, "allreduce") == 0) allreduce();
  if (strcmp(what, "alltoall") == 0) alltoall();
  if (strcmp(what, "spawn") == 0) spawn(argv[0]);
  fflush(stdout);
  if (strcmp(what, "abort") == 0 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 3);
  if (strcmp(what, "abort") == 0) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
