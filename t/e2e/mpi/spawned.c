// SPDX-License-Identifier: Apache-2.0
//
// spawned: what the program `spawn` starts. Checks its arguments, and adds 1000 (rank + 1) to the sum over parents
// and children.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

int main(int argc, char** argv) {
  int rank, size, sum, *number, found;
  MPI_Comm parent, all;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_parent(&parent);
  CHECK(rank, parent != MPI_COMM_NULL, "was not spawned: there is no parent");
  int second = argc == 2 && strcmp(argv[1], "second") == 0;
  int first = argc == 3 && strcmp(argv[1], "first") == 0 && strcmp(argv[2], "a word with spaces") == 0;
  CHECK(rank, first || second, "%d arguments, the first is '%s'", argc - 1, argc > 1 ? argv[1] : "");
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found);
  CHECK(rank, !found || *number == second, "appnum is %d, expected %d", *number, second);
  CHECK(rank, rank > 0 || first, "rank 0 is of the second command");

  MPI_Intercomm_merge(parent, 1, &all);
  int mine = 1000 * (rank + 1);
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
  CHECK(rank, sum > 1000 * size * (size + 1) / 2, "sum over parents and children: %d", sum);
  MPI_Barrier(all);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&parent);
  MPI_Finalize();
  return 0;
}
