// SPDX-License-Identifier: Apache-2.0
//
// For the MPI programs beside this file: a check that fails prints one line that names the rank, and aborts the job
// with exit code 3. To be included after <mpi.h>.
#ifndef NACRE_T_E2E_MPI_CHECK_H
#define NACRE_T_E2E_MPI_CHECK_H

#include <stdarg.h>
#include <stdio.h>

// One write for the whole line, so that other ranks do not write into it.
static inline void say_wrong(int rank, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "rank %d: wrong: %s\n", rank, text);
}

#define CHECK(rank, condition, ...) \
  do {                              \
    if (!(condition)) {             \
      say_wrong(rank, __VA_ARGS__); \
      MPI_Abort(MPI_COMM_WORLD, 3); \
    }                               \
  } while (0)

#endif
