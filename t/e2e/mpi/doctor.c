// SPDX-License-Identifier: Apache-2.0
//
// doctor WHAT [MILLISECONDS]: as doctor_task.c, by MPI.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAD = 1 };

static int rank, size;
static volatile int flag;
static volatile double result;

static void there(void) {
  char name[32];
  FILE* file;
  snprintf(name, sizeof name, "there.%d", rank);
  if ((file = fopen(name, "w")) != NULL) fclose(file);
}

static void add_up(long count) {
  for (long i = 1; i < count; ++i) result += 1.0 / (double)i;
}
static void multiply(long count) {
  for (long i = 1; i < count; ++i) result = result * 1.0000001 + (double)(i % 7);
}
static void compute(long milliseconds) {
  for (double end = MPI_Wtime() + (double)milliseconds / 1e3; MPI_Wtime() < end;) {
    add_up(20000);
    multiply(20000);
  }
}

static void* lock(void* of) {
  pthread_mutex_lock(of);
  return of;
}

static void steps(long milliseconds, int uneven) {
  double one = 1, all;
  there();
  for (long step = 0;; ++step) {
    // A different rank in turn has most to do.
    int factor = uneven == 0 ? 1 : uneven == 1 ? (rank == step % size ? 8 : 1) : (rank == size - 1 ? 20 : 1);
    compute(milliseconds * factor);
    MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (step % 5 == 0) MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void ring(long milliseconds) {
  int token = 0;
  there();
  for (;;) {
    if (rank == 0) MPI_Send(&token, 1, MPI_INT, 1 % size, 0, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    compute(milliseconds);
    if (rank != 0) MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
  }
}

__attribute__((noinline)) static void hang(const char* what) {
  int byte = 0, ends[2];
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread;
  there();
  if (strcmp(what, "cycle") == 0)
    MPI_Recv(&byte, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank != BAD) MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(what, "receive") == 0) MPI_Recv(&byte, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (strcmp(what, "spin") == 0) {
    while (flag == 0) continue;
  }
  if (strcmp(what, "pipe") == 0 && pipe(ends) == 0) (void)!read(ends[0], &byte, 1);
  if (strcmp(what, "join") == 0) {
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, lock, &mutex);
    pthread_join(thread, NULL);
  }
  MPI_Abort(MPI_COMM_WORLD, 4);
}

int main(int argc, char** argv) {
  const char* text = getenv("FLUX_TASK_RANK");
  if (argc < 3) return 2;
  rank = atoi(text == NULL ? "0" : text);
  if (strcmp(argv[2], "start") == 0 && rank == BAD) {
    there();
    sleep(100000);
  }
  if (strcmp(argv[2], "start") == 0) there();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(argv[1], "even") == 0) steps(atol(argv[2]), 0);
  if (strcmp(argv[1], "uneven") == 0) steps(atol(argv[2]), 1);
  if (strcmp(argv[1], "one-slow") == 0) steps(atol(argv[2]), 2);
  if (strcmp(argv[1], "ring") == 0) ring(atol(argv[2]));
  if (strcmp(argv[1], "hang") == 0) hang(argv[2]);
  MPI_Finalize();
  return 2;
}
