// SPDX-License-Identifier: Apache-2.0
//
// A task that speaks PMI-1 itself over PMI_FD, for t/bench/pmi: one write and one read for each request, no
// library, so that its side costs the same whoever serves it.
//   pmi_client RESULTS barrier ROUNDS         the time of each of ROUNDS barriers
//   pmi_client RESULTS exchange BYTES         a put, a barrier, and a get of every rank's value
//   pmi_client RESULTS load BYTES KEYS TOP    KEYS puts, a barrier, KEYS gets of the next rank's values; the peak
//                                             memory of all processes above this one, below the process TOP
// RESULTS: a file. A barrier's rank 0 writes a line to it, "median mean" in us. Otherwise each rank writes at its
// rank a struct of five 64-bit numbers: start and end of the puts, start and end of the gets (CLOCK_MONOTONIC, ns),
// peak KiB. With PMI_BENCH_UNCHECKED in its environment it takes any value for the right one.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kLine = 4096, kHead = 16, kWarmUp = 20 };

struct Times {
  int64_t put_start, put_end, get_start, get_end, peak_kib;
};

static int server;
static int rank;
static int size;
static int unchecked;
static char kvsname[256];
static char line[kLine];

static void fail(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "pmi_client: rank %d: %s\n", rank, text);
  exit(1);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int number(const char* name) {
  const char* text = getenv(name);
  if (!text) fail("%s is not set: start this under a server of PMI-1", name);
  return atoi(text);
}

// Sends a line, and leaves the answer in `line`, without its newline; it has to begin with `expected`.
static void request(const char* text, size_t length, const char* expected) {
  if (write(server, text, length) != (ssize_t)length) fail("write: %s", strerror(errno));
  size_t have = 0;
  while (have == 0 || line[have - 1] != '\n') {
    ssize_t got = read(server, line + have, sizeof line - 1 - have);
    if (got <= 0) fail("read: %s", got < 0 ? strerror(errno) : "the server has gone");
    have += (size_t)got;
  }
  line[have - 1] = '\0';
  if (strncmp(line, expected, strlen(expected)) != 0) fail("sent '%.99s', got '%.99s'", text, line);
}

static void ask(const char* text, const char* expected) { request(text, strlen(text), expected); }

static void barrier(void) { ask("cmd=barrier_in\n", "cmd=barrier_out"); }

// A value is all the same but for its head, which tells whose it is.
static void name_value(char* value, unsigned owner, unsigned key) {
  char head[kHead + 1];
  snprintf(head, sizeof head, "%07x-%07x-", owner & 0xfffffff, key & 0xfffffff);
  memcpy(value, head, kHead);
}

static void put(char* value, size_t bytes, int key) {
  char text[kLine];
  name_value(value, (unsigned)rank, (unsigned)key);
  int length = snprintf(text, sizeof text, "cmd=put kvsname=%s key=bench-%d-%d value=%.*s\n", kvsname, rank, key,
                        (int)bytes, value);
  request(text, (size_t)length, "cmd=put_result rc=0");
}

static void get(char* value, size_t bytes, int owner, int key) {
  char text[512];
  int length = snprintf(text, sizeof text, "cmd=get kvsname=%s key=bench-%d-%d\n", kvsname, owner, key);
  request(text, (size_t)length, "cmd=get_result rc=0");
  const char* found = strstr(line, " value=");
  name_value(value, (unsigned)owner, (unsigned)key);
  if (!found || (!unchecked && (strlen(found + 7) != bytes || memcmp(found + 7, value, bytes) != 0)))
    fail("a wrong value for bench-%d-%d: '%.99s'", owner, key, line);
}

static void start(void) {
  server = number("PMI_FD");
  rank = number("PMI_RANK");
  size = number("PMI_SIZE");
  unchecked = getenv("PMI_BENCH_UNCHECKED") != NULL;
  ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init");
  ask("cmd=get_maxes\n", "cmd=maxes");
  ask("cmd=get_my_kvsname\n", "cmd=my_kvsname");
  const char* found = strstr(line, "kvsname=");
  if (!found || sscanf(found, "kvsname=%255s", kvsname) != 1) fail("no kvsname in '%.99s'", line);
}

static int compare(const void* left, const void* right) {
  int64_t a = *(const int64_t*)left;
  int64_t b = *(const int64_t*)right;
  return (a > b) - (a < b);
}

static void time_barriers(const char* results, int rounds) {
  int64_t* times = calloc((size_t)rounds, sizeof *times);
  if (!times) fail("out of memory");
  for (int i = 0; i < kWarmUp; ++i) barrier();
  int64_t first = now();
  for (int64_t i = 0, last = first; i < rounds; ++i) {
    barrier();
    int64_t time = now();
    times[i] = time - last;
    last = time;
  }
  double mean = (double)(now() - first) / rounds / 1e3;
  qsort(times, (size_t)rounds, sizeof *times, compare);
  if (rank == 0) {
    FILE* file = fopen(results, "w");
    if (!file || fprintf(file, "%.3f %.3f\n", (double)times[rounds / 2] / 1e3, mean) < 0 || fclose(file) != 0)
      fail("%s: %s", results, strerror(errno));
  }
  free(times);
}

// The sum of the peak memory of this process's ancestors, up to but without `top`.
static int64_t peak_above(long top) {
  int64_t sum = 0;
  for (long pid = getppid(); pid > 1 && pid != top;) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    FILE* file = fopen(path, "r");
    if (!file) fail("%s: %s", path, strerror(errno));
    while (fgets(text, sizeof text, file)) {
      long value;
      if (sscanf(text, "PPid: %ld", &value) == 1) pid = value;
      if (sscanf(text, "VmHWM: %ld", &value) == 1) sum += value;
    }
    fclose(file);
  }
  return sum;
}

static void save(const char* results, const struct Times* times) {
  int file = open(results, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || pwrite(file, times, sizeof *times, (off_t)sizeof *times * rank) != (ssize_t)sizeof *times)
    fail("%s: %s", results, strerror(errno));
  close(file);
}

// `keys` values of this rank; then gets of `keys` of the next one, or with keys == 0 of one value of every rank.
static void time_values(const char* results, size_t bytes, int keys, long top) {
  char value[kLine];
  if (bytes < kHead || bytes > kLine / 2) fail("a value has %d to %d bytes", kHead, kLine / 2);
  memset(value, 'x', sizeof value);
  struct Times times = {0};
  barrier();
  times.put_start = now();
  for (int key = 0; key < (keys < 0 ? 1 : keys); ++key) put(value, bytes, key);
  times.put_end = now();
  barrier();
  times.get_start = now();
  if (keys < 0) {
    for (int i = 0; i < size; ++i) get(value, bytes, (rank + i) % size, 0);
  } else {
    for (int key = 0; key < keys; ++key) get(value, bytes, (rank + 1) % size, key);
  }
  times.get_end = now();
  barrier();
  if (rank == 0 && top > 0) times.peak_kib = peak_above(top);
  save(results, &times);
}

int main(int argc, char** argv) {
  const char* verb = argc > 2 ? argv[2] : "";
  if (strcmp(verb, "barrier") == 0 && argc == 4) {
    start();
    time_barriers(argv[1], atoi(argv[3]));
  } else if (strcmp(verb, "exchange") == 0 && argc == 4) {
    start();
    time_values(argv[1], (size_t)atol(argv[3]), -1, 0);
  } else if (strcmp(verb, "load") == 0 && argc == 6) {
    start();
    time_values(argv[1], (size_t)atol(argv[3]), atoi(argv[4]), atol(argv[5]));
  } else {
    fprintf(stderr, "usage: pmi_client RESULTS barrier ROUNDS | exchange BYTES | load BYTES KEYS TOP\n");
    return 2;
  }
  ask("cmd=finalize\n", "cmd=finalize_ack");
  return 0;
}
