// SPDX-License-Identifier: Apache-2.0
//
// The limit: copies of a program, each with a socket pair to this process, which answers PMI-1 with as many
// wake-ups and bytes as a server has to, but parses, stores and checks nothing: it looks at one or two bytes of a
// request, and every get has the same answer.
//   pmi_limit N VALUE-BYTES PROGRAM [ARG...]
// With --tree=ARITY before N it is N such processes with a copy each, in a tree: for a barrier each passes on to
// its parent that all below have come, and what the parent answers to all below, in as many bytes as nacre's shells
// need.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBuffer = 65536, kEvents = 256, kValueMax = 8192 };

struct Answer {
  const char* text;
  size_t length;
};

// Who is served here: first the copies, then processes below.
static int* clients;
static int copies, count;
static int size;  // copies in all processes
static int above = -1;
static struct Answer value;

static _Noreturn void fail(const char* what) {
  fprintf(stderr, "pmi_limit: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void start(int rank, int fd, char** argv) {
  char number[3][16];
  snprintf(number[0], sizeof number[0], "%d", fd);
  snprintf(number[1], sizeof number[1], "%d", rank);
  snprintf(number[2], sizeof number[2], "%d", size);
  if (setenv("PMI_FD", number[0], 1) < 0 || setenv("PMI_RANK", number[1], 1) < 0 ||
      setenv("PMI_SIZE", number[2], 1) < 0)
    fail("setenv");
  pid_t pid;
  errno = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
  if (errno != 0) fail(argv[0]);
}

static void watch(int poll, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
}

static void start_copies(int poll, int first_rank, char** argv) {
  for (int i = 0; i < copies; ++i) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) fail("socketpair");
    if (fcntl(pair[1], F_SETFD, 0) < 0) fail("fcntl");
    start(first_rank + i, pair[1], argv);
    close(pair[1]);
    clients[i] = pair[0];
    watch(poll, pair[0]);
  }
}

static void make_value(size_t bytes) {
  static char text[kValueMax + 64] = "cmd=get_result rc=0 msg=success value=";
  size_t head = strlen(text);
  memset(text + head, 'x', bytes);
  text[head + bytes] = '\n';
  value = (struct Answer){text, head + bytes + 1};
}

// By the first letter that differs: "cmd=init", "cmd=put", "cmd=finalize"; "cmd=get", "cmd=get_maxes",
// "cmd=get_my...".
static struct Answer answer(const char* request) {
#define TEXT(text) ((struct Answer){text, sizeof text - 1})
  switch (request[4]) {
    case 'i': return TEXT("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    case 'p': return TEXT("cmd=put_result rc=0 msg=success\n");
    case 'f': return TEXT("cmd=finalize_ack\n");
  }
  if (request[7] == ' ') return value;
  return request[9] == 'a' ? TEXT("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n")
                           : TEXT("cmd=my_kvsname kvsname=kvs_1_0_100000000_node\n");
#undef TEXT
}

static void send_text(int fd, struct Answer text) {
  if (write(fd, text.text, text.length) != (ssize_t)text.length) fail("write");
}

static const char passed_on[160] = "....barrier";  // up, and down again

static void release(void) {
  for (int i = 0; i < count; ++i) {
    bool is_copy = i < copies;
    send_text(clients[i],
              is_copy ? (struct Answer){"cmd=barrier_out\n", 16} : (struct Answer){passed_on, sizeof passed_on});
  }
}

static void serve(int poll) {
  static char buffer[kBuffer];
  struct epoll_event events[kEvents];
  for (int open = count, waiting = 0; open > 0;) {
    int ready = epoll_wait(poll, events, kEvents, -1);
    if (ready < 0) fail("epoll_wait");
    for (int i = 0; i < ready; ++i) {
      int fd = events[i].data.fd;
      ssize_t got = read(fd, buffer, sizeof buffer);
      if (fd == above && got > 0) {
        release();
      } else if (got <= 0) {
        close(fd);
        --open;
      } else if (buffer[4] != 'b') {
        send_text(fd, answer(buffer));
      } else if (++waiting == count) {
        waiting = 0;
        if (above >= 0) send_text(above, (struct Answer){passed_on, sizeof passed_on});
        if (above < 0) release();
      }
    }
  }
}

static int children_end(void) {
  int failed = 0;
  for (int status; wait(&status) >= 0;) failed |= status != 0;
  return failed;
}

static int run_one(char** argv) {
  copies = count = size;
  clients = calloc((size_t)count, sizeof *clients);
  int poll = epoll_create1(EPOLL_CLOEXEC);
  if (!clients || poll < 0) fail("set-up");
  start_copies(poll, 0, argv);
  serve(poll);
  return children_end();
}

// The process `self` of the tree, with those below.
static int run_in_tree(int self, int arity, char** argv) {
  int poll = epoll_create1(EPOLL_CLOEXEC);
  copies = count = 1;
  clients = calloc((size_t)arity + 1, sizeof *clients);
  if (!clients || poll < 0) fail("set-up");
  for (int child = self * arity + 1; child <= self * arity + arity && child < size; ++child) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) fail("socketpair");
    pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (pid == 0) {
      above = dup2(pair[1], STDERR_FILENO + 1);  // all else is of other processes
      close_range(STDERR_FILENO + 2, ~0U, 0);
      fcntl(above, F_SETFD, FD_CLOEXEC);
      exit(run_in_tree(child, arity, argv));
    }
    close(pair[1]);
    clients[count++] = pair[0];
    watch(poll, pair[0]);
  }
  if (above >= 0) watch(poll, above);
  start_copies(poll, self, argv);
  serve(poll);
  return children_end();
}

int main(int argc, char** argv) {
  int arity = 0;
  if (argc > 1 && sscanf(argv[1], "--tree=%d", &arity) == 1) {
    --argc;
    ++argv;
  }
  if (argc < 4 || atoi(argv[1]) < 1 || atol(argv[2]) < 0 || atol(argv[2]) > kValueMax) {
    fprintf(stderr, "usage: pmi_limit [--tree=ARITY] N VALUE-BYTES PROGRAM [ARG...]\n");
    return 2;
  }
  size = atoi(argv[1]);
  make_value((size_t)atol(argv[2]));
  return arity > 0 ? run_in_tree(0, arity, argv + 3) : run_one(argv + 3);
}
