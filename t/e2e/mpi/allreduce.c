// SPDX-License-Identifier: Apache-2.0
//
// allreduce: MPI_Allreduce of several types and lengths, every value checked; rank 0 prints "allreduce ok, 16
// ranks".
#include <mpi.h>
#include <stdlib.h>

#include "check.h"

static int rank;
static int size;

static long long sum_of_ranks(void) { return (long long)size * (size - 1) / 2; }

static void* room(int count, size_t each) {
  void* memory = calloc((size_t)count, each);
  CHECK(rank, memory, "out of memory");
  return memory;
}

// Item i is rank + i: the sum over all ranks is known, and no two items of it are alike.
static void sum_integers(int count) {
  long long* mine = room(count, sizeof *mine);
  long long* all = room(count, sizeof *all);
  for (int i = 0; i < count; ++i) mine[i] = rank + (long long)i;
  MPI_Allreduce(mine, all, count, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    long long expected = sum_of_ranks() + (long long)i * size;
    CHECK(rank, all[i] == expected, "sum of long long, item %d of %d: %lld, expected %lld", i, count, all[i],
          expected);
  }
  free(mine);
  free(all);
}

// Halves are exact in binary, so the order of the additions does not matter.
static void sum_doubles(int count) {
  double* all = room(count, sizeof *all);
  for (int i = 0; i < count; ++i) all[i] = 0.5 * rank + i;
  MPI_Allreduce(MPI_IN_PLACE, all, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    double expected = 0.5 * (double)sum_of_ranks() + (double)i * size;
    CHECK(rank, all[i] == expected, "sum of double, item %d of %d: %g, expected %g", i, count, all[i], expected);
  }
  free(all);
}

static void extremes(int count) {
  int* mine = room(count, sizeof *mine);
  int* all = room(count, sizeof *all);
  for (int i = 0; i < count; ++i) mine[i] = (rank + i) % size;
  MPI_Allreduce(mine, all, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) CHECK(rank, all[i] == size - 1, "maximum, item %d of %d: %d", i, count, all[i]);
  MPI_Allreduce(mine, all, count, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) CHECK(rank, all[i] == 0, "minimum, item %d of %d: %d", i, count, all[i]);
  free(mine);
  free(all);
}

static void bits(void) {
  unsigned char mine[64] = {0}, all[64];
  mine[rank % 64] = (unsigned char)(1 + rank % 7);
  MPI_Allreduce(mine, all, 64, MPI_UNSIGNED_CHAR, MPI_BOR, MPI_COMM_WORLD);
  for (int i = 0; i < 64; ++i) {
    unsigned char expected = 0;
    for (int other = i; other < size; other += 64) expected |= (unsigned char)(1 + other % 7);
    CHECK(rank, all[i] == expected, "bits of item %d: %d, expected %d", i, all[i], expected);
  }
  struct {
    double value;
    int rank;
  } own = {(double)((rank * 7) % size) + (rank == size / 2 ? size : 0), rank}, most;
  MPI_Allreduce(&own, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  CHECK(rank, most.rank == size / 2, "place of the maximum: rank %d, expected %d", most.rank, size / 2);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int counts[] = {1, 7, 1000, 50000};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    sum_integers(counts[i]);
    sum_doubles(counts[i]);
    extremes(counts[i]);
  }
  bits();
  MPI_Barrier(MPI_COMM_WORLD);  // all have checked
  if (rank == 0) printf("allreduce ok, %d ranks\n", size);
  MPI_Finalize();
  return 0;
}
