// SPDX-License-Identifier: Apache-2.0
//
// survive RANK: that rank kills itself. The others see a receive from it fail, acknowledge that, and pass a message
// round among themselves. The first of them prints
// "survive ok, 3 of 4 ranks". Needs what MPICH has of it in mpix.
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static int world_rank;

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// Waits until a receive from the lost rank fails.
static void await_failure(int lost) {
  int nothing, class;
  int code = MPI_Recv(&nothing, 1, MPI_INT, lost, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Error_class(code, &class);
  CHECK(world_rank, class == MPIX_ERR_PROC_FAILED, "an error of class %d", class);
}

static void acknowledge(int lost) {
  MPI_Group group, world;
  int size, first = 0, rank;
  MPIX_Comm_failure_ack(MPI_COMM_WORLD);
  MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_size(group, &size);
  CHECK(world_rank, size == 1, "%d ranks are lost, expected 1", size);
  MPI_Group_translate_ranks(group, 1, &first, world, &rank);
  CHECK(world_rank, rank == lost, "rank %d is lost, expected %d", rank, lost);
}

// Each rank adds one to what it gets from the former rank, and passes it on. Returns what comes back to the first.
static int count_round(int size, int lost) {
  int first = lost == 0, next = (world_rank + 1) % size, before = (world_rank + size - 1) % size, count = 0;
  if (next == lost) next = (next + 1) % size;
  if (before == lost) before = (before + size - 1) % size;
  if (world_rank != first) MPI_Recv(&count, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  ++count;
  int code = MPI_Send(&count, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
  CHECK(world_rank, code == MPI_SUCCESS, "cannot send to rank %d", next);
  if (world_rank != first) return 0;
  MPI_Recv(&count, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return count;
}

int main(int argc, char** argv) {
  int size, lost = argc > 1 ? atoi(argv[1]) : -1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(world_rank, lost >= 0 && lost < size, "usage: survive RANK");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == lost) die();
  await_failure(lost);
  acknowledge(lost);
  int count = count_round(size, lost);
  CHECK(world_rank, count == 0 || count == size - 1, "the message went through %d ranks", count);
  if (count) printf("survive ok, %d of %d ranks\n", count, size);
  MPI_Finalize();
  return 0;
}
