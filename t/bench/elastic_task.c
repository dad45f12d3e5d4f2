// SPDX-License-Identifier: Apache-2.0
//
// A task for t/bench/elastic. It goes on until there is the file FOLDER/go; TERM ends it.
//   elastic_task start FOLDER   first writes the time to FOLDER/in.RANK.TRY
//   elastic_task pmi FOLDER     the same, after it has called PMI-1's init and a barrier itself, over PMI_FD
//   elastic_task mpi FOLDER     the same, after MPI_Init, if it is compiled with -DWITH_MPI
//   elastic_task watch FOLDER   the same as start, and writes a line to FOLDER/gaps.RANK for each time that it has
//                               stood still for more than 20 ms: when that has begun, and for how long
// Times are seconds of CLOCK_REALTIME.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

enum { kPath = 4096, kLine = 1024 };

static const double kStill = 0.02;
static const char* folder;

static void fail(const char* what) {
  fprintf(stderr, "elastic_task: %s\n", what);
  exit(1);
}

static const char* variable(const char* name) {
  const char* value = getenv(name);
  if (!value) fail(name);
  return value;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static FILE* open_file(const char* name, const char* mode) {
  char path[kPath];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, mode);
  if (!file) fail(path);
  return file;
}

static void note_in(void) {
  char name[64], last[kPath], path[kPath];
  double in = now();
  const char* try = getenv("NACRE_TASK_TRY");
  snprintf(name, sizeof name, "new.%d", (int)getpid());
  FILE* file = open_file(name, "w");
  fprintf(file, "%.6f\n", in);
  fclose(file);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  snprintf(last, sizeof last, "%s/in.%s.%s", folder, variable("FLUX_TASK_RANK"), try ? try : "1");
  if (rename(path, last) < 0) fail(last);
}

static void ask(int server, const char* request, const char* answer) {
  char line[kLine];
  size_t length = 0;
  if (write(server, request, strlen(request)) < 0) fail("PMI has gone");
  while (length == 0 || line[length - 1] != '\n') {
    ssize_t got = length < sizeof line - 1 ? read(server, line + length, sizeof line - 1 - length) : 0;
    if (got <= 0) fail("no answer of PMI");
    length += (size_t)got;
  }
  line[length] = '\0';
  if (strncmp(line, answer, strlen(answer)) != 0) fail(line);
}

static int init_pmi(void) {
  int server = atoi(variable("PMI_FD"));
  ask(server, "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init");
  ask(server, "cmd=barrier_in\n", "cmd=barrier_out");
  return server;
}

static void watch(const char* end) {
  char name[64];
  const struct timespec step = {0, 1000000};
  snprintf(name, sizeof name, "gaps.%s", variable("FLUX_TASK_RANK"));
  FILE* gaps = open_file(name, "w");
  for (double before = now(), after = before; access(end, F_OK) != 0; before = after) {
    nanosleep(&step, NULL);
    after = now();
    if (after - before < kStill) continue;
    fprintf(gaps, "%.6f %.6f\n", before, after - before);
    fflush(gaps);
  }
  fclose(gaps);
}

int main(int argc, char** argv) {
  char end[kPath];
  const struct timespec step = {0, 10000000};
  if (argc != 3) fail("usage: elastic_task start|pmi|mpi|watch FOLDER");
  folder = argv[2];
  snprintf(end, sizeof end, "%s/go", folder);
  int server = strcmp(argv[1], "pmi") == 0 ? init_pmi() : -1;
#ifdef WITH_MPI
  if (strcmp(argv[1], "mpi") == 0) MPI_Init(&argc, &argv);
#endif
  note_in();
  if (strcmp(argv[1], "watch") == 0) watch(end);
  while (access(end, F_OK) != 0) nanosleep(&step, NULL);
  if (server >= 0) ask(server, "cmd=finalize\n", "cmd=finalize_ack");
#ifdef WITH_MPI
  if (strcmp(argv[1], "mpi") == 0) MPI_Finalize();
#endif
  return 0;
}
