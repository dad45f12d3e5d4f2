// SPDX-License-Identifier: Apache-2.0
//
// A program of MPI for t/bench/scheduling. Rank 0 prints the median of the rounds, in us.
//   mpi_rounds ring ROUNDS         a number goes from each rank to the next, once round
//   mpi_rounds allreduce ROUNDS    the sum of a number of each rank, in all of them
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWarmUp = 3 };

static int rank;
static int size;

static void fail(const char* what) {
  fprintf(stderr, "mpi_rounds: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void ring(void) {
  int number = 0;
  int next = (rank + 1) % size;
  int before = (rank + size - 1) % size;
  if (rank != 0) MPI_Recv(&number, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  ++number;
  MPI_Send(&number, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
  if (rank != 0) return;
  MPI_Recv(&number, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (number != size) fail("the number has not been at each rank");
}

static void allreduce(void) {
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum != size * (size - 1) / 2) fail("the sum is wrong");
}

static int by_time(const void* a, const void* b) {
  double left = *(const double*)a;
  double right = *(const double*)b;
  return (left > right) - (left < right);
}

int main(int argc, char** argv) {
  int is_ring = argc == 3 && strcmp(argv[1], "ring") == 0;
  int rounds = argc == 3 ? atoi(argv[2]) : 0;
  if (rounds < 1 || (!is_ring && strcmp(argv[1], "allreduce") != 0)) {
    fprintf(stderr, "usage: mpi_rounds ring|allreduce ROUNDS\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double* times = calloc((size_t)rounds, sizeof *times);
  if (!times || (is_ring && size < 2)) fail(times ? "a ring has at least two ranks" : "out of memory");
  for (int i = -kWarmUp; i < rounds; ++i) {
    double begun = MPI_Wtime();
    if (is_ring) {
      ring();
    } else {
      allreduce();
    }
    if (i >= 0) times[i] = (MPI_Wtime() - begun) * 1e6;
  }
  qsort(times, (size_t)rounds, sizeof *times, by_time);
  if (rank == 0) printf("%.1f\n", times[rounds / 2]);
  free(times);
  MPI_Finalize();
  return 0;
}
