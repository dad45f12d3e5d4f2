// SPDX-License-Identifier: Apache-2.0
//
// spawn PROGRAM COUNT [COUNT2]: all ranks together spawn COUNT copies of PROGRAM (the program `spawned`), with
// COUNT2 as a second command of MPI_Comm_spawn_multiple, and reduce over parents and children. Rank 0 prints
// "spawn ok, 2 ranks spawned 3".
#include <mpi.h>
#include <stdlib.h>

#include "check.h"

enum { kMax = 64 };

static int rank;

static MPI_Comm spawn_one(char* program, int count, int* codes) {
  char* args[] = {"first", "a word with spaces", NULL};
  MPI_Comm children;
  MPI_Comm_spawn(program, args, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
  return children;
}

static MPI_Comm spawn_two(char* program, int count, int count2, int* codes) {
  char* first[] = {"first", "a word with spaces", NULL};
  char* second[] = {"second", NULL};
  char* programs[] = {program, program};
  char** args[] = {first, second};
  int counts[] = {count, count2};
  MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
  MPI_Comm children;
  MPI_Comm_spawn_multiple(2, programs, args, counts, infos, 0, MPI_COMM_WORLD, &children, codes);
  return children;
}

int main(int argc, char** argv) {
  int size, remote, sum, codes[2 * kMax];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int count = argc > 2 ? atoi(argv[2]) : 0, count2 = argc > 3 ? atoi(argv[3]) : 0, total = count + count2;
  CHECK(rank, count > 0 && count <= kMax && count2 >= 0 && count2 <= kMax, "usage: spawn PROGRAM COUNT [COUNT2]");
  for (int i = 0; i < total; ++i) codes[i] = -1;
  MPI_Comm children = count2 ? spawn_two(argv[1], count, count2, codes) : spawn_one(argv[1], count, codes);
  for (int i = 0; i < total; ++i) CHECK(rank, codes[i] == MPI_SUCCESS, "error code %d is %d", i, codes[i]);
  MPI_Comm_remote_size(children, &remote);
  CHECK(rank, remote == total, "%d children, expected %d", remote, total);

  MPI_Comm all;
  MPI_Intercomm_merge(children, 0, &all);
  int mine = rank + 1, expected = size * (size + 1) / 2 + 1000 * total * (total + 1) / 2;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
  CHECK(rank, sum == expected, "sum over parents and children: %d, expected %d", sum, expected);
  MPI_Barrier(all);  // the children have checked too
  if (rank == 0) printf("spawn ok, %d ranks spawned %d\n", size, total);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&children);
  MPI_Finalize();
  return 0;
}
