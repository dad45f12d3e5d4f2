// SPDX-License-Identifier: Apache-2.0
//
// A task of t/e2e/blame, of any MPI: the rank in CULPRIT finds that its input is wrong, and exits without
// finalizing. The others get an error back from MPI, or are ended with the job.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const char* attempt = getenv("NACRE_TASK_TRY");
  int culprit = attempt == NULL || strcmp(attempt, "1") == 0 ? atoi(getenv("CULPRIT")) : -1;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int round = 0; round < 100 && culprit >= 0; ++round) {
    int sum = 0;
    if (rank == culprit && round == 3) {
      fprintf(stderr, "rank %d: line 7 of the input is no number\n", rank);
      exit(3);
    }
    int error = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (error != MPI_SUCCESS) {
      char text[MPI_MAX_ERROR_STRING];
      int length = 0;
      MPI_Error_string(error, text, &length);
      fprintf(stderr, "MPI_Allreduce: %.*s\n", length, text);
      exit(1);
    }
    usleep(50000);
  }
  MPI_Finalize();
  return 0;
}
