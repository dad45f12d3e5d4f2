// SPDX-License-Identifier: Apache-2.0
//
// The limit: copies of a program, each with a socket pair to this process, which answers PMI-1 with as many wake-ups and
// bytes as a server has to, but parses, stores and checks nothing: it looks at one or two bytes of a request, and every
// get has the same answer.
//   pmi_limit N VALUE-BYTES PROGRAM [ARG...]
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
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

static int* clients;
static int count;
static struct Answer value;

static _Noreturn void fail(const char* what) {
  fprintf(stderr, "pmi_limit: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void start(int rank, int fd, char** argv) {
  char number[3][16];
  snprintf(number[0], sizeof number[0], "%d", fd);
  snprintf(number[1], sizeof number[1], "%d", rank);
  snprintf(number[2], sizeof number[2], "%d", count);
  if (setenv("PMI_FD", number[0], 1) < 0 || setenv("PMI_RANK", number[1], 1) < 0 ||
      setenv("PMI_SIZE", number[2], 1) < 0)
    fail("setenv");
  pid_t pid;
  errno = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
  if (errno != 0) fail(argv[0]);
}

static void start_all(int poll, char** argv) {
  clients = calloc((size_t)count, sizeof *clients);
  if (!clients) fail("calloc");
  for (int rank = 0; rank < count; ++rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) fail("socketpair");
    if (fcntl(pair[1], F_SETFD, 0) < 0) fail("fcntl");
    start(rank, pair[1], argv);
    close(pair[1]);
    clients[rank] = pair[0];
    struct epoll_event event = {.events = EPOLLIN, .data.fd = pair[0]};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, pair[0], &event) < 0) fail("epoll_ctl");
  }
}

static void make_value(size_t bytes) {
  static char text[kValueMax + 64] = "cmd=get_result rc=0 msg=success value=";
  size_t head = strlen(text);
  memset(text + head, 'x', bytes);
  text[head + bytes] = '\n';
  value = (struct Answer){text, head + bytes + 1};
}

// By the first letter that differs: "cmd=init", "cmd=put", "cmd=finalize"; "cmd=get", "cmd=get_maxes", "cmd=get_my...".
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

static void serve(int poll) {
  static char buffer[kBuffer];
  struct epoll_event events[kEvents];
  for (int open = count, waiting = 0; open > 0;) {
    int ready = epoll_wait(poll, events, kEvents, -1);
    if (ready < 0) fail("epoll_wait");
    for (int i = 0; i < ready; ++i) {
      int fd = events[i].data.fd;
      ssize_t got = read(fd, buffer, sizeof buffer);
      if (got <= 0) {
        close(fd);
        --open;
      } else if (buffer[4] != 'b') {
        send_text(fd, answer(buffer));
      } else if (++waiting == count) {
        for (int rank = 0; rank < count; ++rank) send_text(clients[rank], (struct Answer){"cmd=barrier_out\n", 16});
        waiting = 0;
      }
    }
  }
}

int main(int argc, char** argv) {
  if (argc < 4 || atoi(argv[1]) < 1 || atol(argv[2]) < 0 || atol(argv[2]) > kValueMax) {
    fprintf(stderr, "usage: pmi_limit N VALUE-BYTES PROGRAM [ARG...]\n");
    return 2;
  }
  count = atoi(argv[1]);
  make_value((size_t)atol(argv[2]));
  int poll = epoll_create1(EPOLL_CLOEXEC);
  if (poll < 0) fail("epoll_create1");
  start_all(poll, argv + 3);
  serve(poll);
  int failed = 0;
  for (int status; wait(&status) >= 0;) failed |= status != 0;
  return failed;
}
