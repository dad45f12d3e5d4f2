/* SPDX-License-Identifier: Apache-2.0
 *
 * chaos_task PLAN: a task of t/long/chaos. Line RANK of the file PLAN says what it does:
 *
 *   LINES LONGEST SEED PAUSE_US CODE READS IGNORES ESCAPES
 *
 * It leaves `task.RANK` ("PID PPID\n") when it starts. It writes so many lines, "RANK.NUMBER " and at most LONGEST letters, in
 * pieces that do not keep to lines, with a pause after each piece; with READS it first reads its input to the end and writes
 * "RANK.in BYTES"; IGNORES: SIGTERM; ESCAPES: it starts a process in a session of its own. It ends with CODE, having left
 * `done.RANK`.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static unsigned long long state;

static unsigned next(unsigned below) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(state >> 33) % below;
}

static void leave(const char* what, const char* rank, const char* text) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s.new", what, rank);
  FILE* file = fopen(name, "w");
  if (file == NULL) exit(99);
  fputs(text, file);
  fclose(file);
  char last[64];
  snprintf(last, sizeof last, "%s.%s", what, rank);
  if (rename(name, last) != 0) exit(99);
}

/* 98: nobody reads it. */
static void write_all(const char* data, size_t size, unsigned pause) {
  while (size > 0) {
    size_t piece = 1 + next(size < 9000 ? (unsigned)size : 9000);
    ssize_t written = write(STDOUT_FILENO, data, piece);
    if (written < 0) exit(98);
    data += written;
    size -= (size_t)written;
    if (pause > 0) usleep(pause);
  }
}

static char* lines_of(const char* rank, unsigned lines, unsigned longest, int reads, size_t* size) {
  size_t room = (size_t)(lines + 1) * (longest + 64), at = 0;
  char* text = malloc(room);
  if (text == NULL) exit(99);
  if (reads) {
    size_t got = 0;
    char buffer[4096];
    ssize_t part;
    while ((part = read(STDIN_FILENO, buffer, sizeof buffer)) > 0) got += (size_t)part;
    at += (size_t)sprintf(text, "%s.in %zu\n", rank, got);
  }
  for (unsigned i = 0; i < lines; ++i) {
    at += (size_t)sprintf(text + at, "%s.%u ", rank, i);
    unsigned length = longest > 0 ? (i * 7919) % longest : 0; /* known to who checks it */
    memset(text + at, 'a' + (int)(i % 26), length);
    at += length;
    text[at++] = '\n';
  }
  *size = at;
  return text;
}

int main(int argc, char** argv) {
  const char* rank = getenv("FLUX_TASK_RANK");
  struct rlimit limit; /* it may be lower for the shell */
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return 99;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 99;
  FILE* plan = argc > 1 ? fopen(argv[1], "r") : NULL;
  if (rank == NULL || plan == NULL) return 99;
  char line[256] = "";
  for (int i = atoi(rank); i >= 0; --i) {
    if (fgets(line, sizeof line, plan) == NULL) return 99;
  }
  fclose(plan);
  unsigned lines, longest, seed, pause, code, reads, ignores, escapes;
  if (sscanf(line, "%u %u %u %u %u %u %u %u", &lines, &longest, &seed, &pause, &code, &reads, &ignores, &escapes) !=
      8)
    return 99;
  if (ignores) signal(SIGTERM, SIG_IGN);
  if (escapes && fork() == 0) {
    setsid();
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    sleep(1000);
    _exit(0);
  }
  char ids[64];
  snprintf(ids, sizeof ids, "%d %d\n", (int)getpid(), (int)getppid());
  leave("task", rank, ids);
  state = seed;
  size_t size = 0;
  char* text = lines_of(rank, lines, longest, (int)reads, &size);
  write_all(text, size, pause);
  free(text);
  leave("done", rank, "");
  return (int)code;
}
