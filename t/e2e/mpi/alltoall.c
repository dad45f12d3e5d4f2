// SPDX-License-Identifier: Apache-2.0
//
// alltoall: MPI_Alltoall of several lengths and MPI_Alltoallv of unequal ones, every value checked; rank 0 prints
// "alltoall ok, 64 ranks".
#include <mpi.h>
#include <stdlib.h>

#include "check.h"

static int rank;
static int size;

// Tells the sender, the receiver and the place.
static long long value_of(int from, int to, int place) { return ((long long)from * size + to) * 100000 + place; }

static long long* room(size_t count) {
  long long* memory = calloc(count, sizeof *memory);
  CHECK(rank, memory, "out of memory");
  return memory;
}

static void check_from(int from, const long long* values, int count) {
  for (int i = 0; i < count; ++i)
    CHECK(rank, values[i] == value_of(from, rank, i), "item %d of %d from rank %d: %lld, expected %lld", i, count,
          from, values[i], value_of(from, rank, i));
}

static void equal_lengths(int count) {
  long long* out = room((size_t)size * (size_t)count);
  long long* in = room((size_t)size * (size_t)count);
  for (int to = 0; to < size; ++to)
    for (int i = 0; i < count; ++i) out[to * count + i] = value_of(rank, to, i);
  MPI_Alltoall(out, count, MPI_LONG_LONG, in, count, MPI_LONG_LONG, MPI_COMM_WORLD);
  for (int from = 0; from < size; ++from) check_from(from, in + from * count, count);
  free(out);
  free(in);
}

// From rank a to rank b go (a + 2 b) % 5 values: none for some pairs.
static void unequal_lengths(void) {
  int* places = calloc((size_t)size * 4, sizeof *places);
  CHECK(rank, places, "out of memory");
  int *out_counts = places, *out_starts = places + size, *in_counts = places + 2 * size,
      *in_starts = places + 3 * size;
  int out_total = 0, in_total = 0;
  for (int other = 0; other < size; ++other) {
    out_starts[other] = out_total;
    in_starts[other] = in_total;
    out_total += out_counts[other] = (rank + 2 * other) % 5;
    in_total += in_counts[other] = (other + 2 * rank) % 5;
  }
  long long* out = room((size_t)out_total + 1);
  long long* in = room((size_t)in_total + 1);
  for (int to = 0; to < size; ++to)
    for (int i = 0; i < out_counts[to]; ++i) out[out_starts[to] + i] = value_of(rank, to, i);
  MPI_Alltoallv(out, out_counts, out_starts, MPI_LONG_LONG, in, in_counts, in_starts, MPI_LONG_LONG,
                MPI_COMM_WORLD);
  for (int from = 0; from < size; ++from) check_from(from, in + in_starts[from], in_counts[from]);
  free(out);
  free(in);
  free(places);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  equal_lengths(1);
  equal_lengths(100);
  unequal_lengths();
  MPI_Barrier(MPI_COMM_WORLD);  // all have checked
  if (rank == 0) printf("alltoall ok, %d ranks\n", size);
  MPI_Finalize();
  return 0;
}
