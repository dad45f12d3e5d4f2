// SPDX-License-Identifier: Apache-2.0
//
// The task of t/e2e/stdio_property. `stdio_task DIR` does what the lines of DIR/RANK.plan say:
//   w FD BYTES    write the next bytes of DIR/RANK.FD to the descriptor FD, 1 or 2
//   r BYTES       read so many bytes of stdin, unless it ends before; they have to be those of DIR/input
//   R             read stdin to its end
//   c             close stdin
//   p USEC        pause
//   S USEC        stop; a child continues it so long after it has stopped
//   k USEC        a child kills it with SIGKILL so much later
//   K             kill itself with SIGKILL
//   F CODE        fork; this process exits with CODE, and the child goes on
//   z             wait for ever
//   x CODE        exit
// What it has done is in DIR/RANK.account at any time, so that a kill loses none of it.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct Account {
  uint64_t begun[2];    // bytes of stdout and stderr that write(2) was asked to take
  uint64_t written[2];  // ... and has taken
  uint64_t read;        // bytes of stdin
  uint64_t at_end;      // stdin has ended
  uint64_t wrong;       // stdin is not DIR/input
};

struct Bytes {
  const char* data;
  size_t size;
};

static struct Account* account;
static struct Bytes streams[2];
static struct Bytes input;

static void fail(const char* what) {
  fprintf(stderr, "stdio_task: %s: %s\n", what, strerror(errno));
  _exit(99);
}

static const char* path_of(const char* directory, const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

static struct Bytes map(const char* path) {
  struct Bytes bytes = {NULL, 0};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) < 0) fail(path);
  bytes.size = (size_t)info.st_size;
  if (bytes.size > 0) bytes.data = mmap(NULL, bytes.size, PROT_READ, MAP_SHARED, fd, 0);
  if (bytes.data == MAP_FAILED) fail(path);
  close(fd);
  return bytes;
}

static void open_account(const char* path) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *account) < 0) fail(path);
  account = mmap(NULL, sizeof *account, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (account == MAP_FAILED) fail(path);
  close(fd);
}

static void write_next(int fd, uint64_t size) {
  int stream = fd - 1;
  account->begun[stream] += size;
  while (account->written[stream] < account->begun[stream]) {
    uint64_t at = account->written[stream];
    ssize_t done = write(fd, streams[stream].data + at, account->begun[stream] - at);
    if (done < 0 && errno != EINTR) fail("write");
    if (done > 0) account->written[stream] += (uint64_t)done;
  }
}

static void read_input(uint64_t size) {
  static char buffer[64 << 10];
  while (size > 0) {
    ssize_t got = read(0, buffer, size < sizeof buffer ? size : sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read");
    if (got == 0) account->at_end = 1;
    if (got == 0) return;
    uint64_t at = account->read;
    account->read += (uint64_t)got;
    if (account->read > input.size || memcmp(buffer, input.data + at, (size_t)got) != 0) account->wrong = 1;
    size -= (uint64_t)got;
  }
}

static int is_stopped(pid_t pid) {
  char path[64];
  char text[512] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || read(fd, text, sizeof text - 1) < 0) _exit(0);
  close(fd);
  const char* end = strrchr(text, ')');
  return end != NULL && end[1] == ' ' && end[2] == 'T';
}

// Signals this process later; the child that does it holds no pipe open.
static void signal_later(int signum, useconds_t delay) {
  pid_t self = getpid();
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child > 0) return;
  for (int fd = 0; fd <= 2; ++fd) close(fd);
  while (signum == SIGCONT && !is_stopped(self)) usleep(200);
  usleep(delay);
  if (getppid() == self) kill(self, signum);
  _exit(0);
}

static void act(char verb, uint64_t first, uint64_t second) {
  switch (verb) {
    case 'w': return write_next((int)first, second);
    case 'r': return read_input(first);
    case 'R': return read_input(UINT64_MAX);
    case 'c': close(0); return;
    case 'p': usleep((useconds_t)first); return;
    case 'S':
      signal_later(SIGCONT, (useconds_t)first);
      raise(SIGSTOP);
      return;
    case 'k': return signal_later(SIGKILL, (useconds_t)first);
    case 'K': raise(SIGKILL); return;
    case 'F':
      if (fork() != 0) _exit((int)first);
      return;
    case 'z':
      for (;;) pause();
    case 'x': _exit((int)first);
    default: errno = EINVAL; fail("plan");
  }
}

int main(int argc, char** argv) {
  const char* rank = getenv("FLUX_TASK_RANK");
  if (argc != 2 || rank == NULL) return 98;
  char name[64];
  for (int i = 0; i < 2; ++i) {
    snprintf(name, sizeof name, "%s.%d", rank, i + 1);
    streams[i] = map(path_of(argv[1], name));
  }
  input = map(path_of(argv[1], "input"));
  snprintf(name, sizeof name, "%s.account", rank);
  open_account(path_of(argv[1], name));
  snprintf(name, sizeof name, "%s.plan", rank);
  FILE* plan = fopen(path_of(argv[1], name), "re");
  if (plan == NULL) fail(name);
  char line[128];
  while (fgets(line, sizeof line, plan) != NULL) {
    char verb = 0;
    unsigned long long numbers[2] = {0, 0};
    if (sscanf(line, "%c %llu %llu", &verb, &numbers[0], &numbers[1]) >= 1) act(verb, numbers[0], numbers[1]);
  }
  return 97;
}
