// SPDX-License-Identifier: Apache-2.0
//
// die RANK PLACE [CODE]: that rank ends at that place, the others go on to their end. PLACE is one of
//   before-init            kills itself with SIGKILL before MPI_Init
//   in-barrier             the same in a barrier it has entered; the others cannot leave it, as another one follows
//   before-finalize        the same after the last barrier
//   in-finalize            the same in MPI_Finalize: when the attributes of MPI_COMM_SELF are deleted, its first
//                          step
//   exit-without-finalize  leaves by _exit(CODE), 0 if none is given, after MPI_Init and a barrier
// Rank 0 prints "die: all have started" where the others can tell, which is everywhere but before-init.
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static int die_in_finalize(MPI_Comm comm, int key, void* value, void* state) {
  (void)comm, (void)key, (void)value, (void)state;
  die();
  return MPI_SUCCESS;
}

// The rank as the launcher says it; -1 if it does not.
static int rank_in_environment(void) {
  const char* names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (getenv(names[i])) return atoi(getenv(names[i]));
  return -1;
}

static void die_in_barrier(void) {
  MPI_Request request;
  int done;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  die();
}

static int usage(void) {
  fprintf(stderr,
          "usage: die RANK before-init|in-barrier|before-finalize|in-finalize|exit-without-finalize [CODE]\n");
  return 2;
}

int main(int argc, char** argv) {
  if (argc < 3) return usage();
  int victim = atoi(argv[1]), rank, key;
  const char* place = argv[2];
  if (strcmp(place, "before-init") == 0 && rank_in_environment() == victim) die();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == victim && strcmp(place, "in-finalize") == 0) {
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, die_in_finalize, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    printf("die: all have started\n");
    fflush(stdout);
  }
  MPI_Barrier(MPI_COMM_WORLD);  // not before that line is out
  if (rank == victim && strcmp(place, "exit-without-finalize") == 0) _exit(argc > 3 ? atoi(argv[3]) : 0);
  if (strcmp(place, "in-barrier") == 0) {
    if (rank == victim) die_in_barrier();
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank == victim && strcmp(place, "before-finalize") == 0) die();
  MPI_Finalize();
  return 0;
}
