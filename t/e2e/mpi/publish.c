// SPDX-License-Identifier: Apache-2.0
//
// publish [connect]: rank 0 publishes a name, the last rank looks it up; unpublished, it is gone. With `connect` it
// is the name of a port that rank 0 opens, and the last rank connects to it. Rank 0 prints "publish ok, 2 ranks".
#include <mpi.h>
#include <string.h>

#include "check.h"

static const char* const kService = "nacre-e2e-service";

static int rank;
static int size;

static void pass_number(const char* port) {
  int number = 4711, got = 0;
  MPI_Comm other;
  if (rank == 0) {
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    MPI_Send(&number, 1, MPI_INT, 0, 1, other);
    MPI_Comm_disconnect(&other);
  } else if (rank == size - 1) {
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    MPI_Recv(&got, 1, MPI_INT, 0, 1, other, MPI_STATUS_IGNORE);
    CHECK(rank, got == number, "got %d over the port, expected %d", got, number);
    MPI_Comm_disconnect(&other);
  }
}

int main(int argc, char** argv) {
  char port[MPI_MAX_PORT_NAME] = "a-port-of-nobody";
  char found[MPI_MAX_PORT_NAME] = "";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int connect = argc > 1 && strcmp(argv[1], "connect") == 0;
  CHECK(rank, size > 1, "needs two ranks");
  if (rank == 0) {
    if (connect) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name(kService, MPI_INFO_NULL, port);
  }
  MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank == size - 1) {
    MPI_Lookup_name(kService, MPI_INFO_NULL, found);
    CHECK(rank, strcmp(found, port) == 0, "looked up '%s', expected '%s'", found, port);
  }
  if (connect) pass_number(rank == 0 ? port : found);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) MPI_Unpublish_name(kService, MPI_INFO_NULL, port);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int code = MPI_Lookup_name(kService, MPI_INFO_NULL, found);
    CHECK(rank, code != MPI_SUCCESS, "found '%s' after it was unpublished", found);
  }
  MPI_Barrier(MPI_COMM_WORLD);  // all have checked
  if (rank == 0) {
    if (connect) MPI_Close_port(port);
    printf("publish ok, %d ranks\n", size);
  }
  MPI_Finalize();
  return 0;
}
