// SPDX-License-Identifier: Apache-2.0
//
// A task of t/e2e/blame, on sockets: blame_task crash|silent|assert. The rank in CULPRIT crashes, exits without a
// word, or has an assertion that fails; the others lose their connection to it or, with assert, wait for its
// datagrams in vain. Only the first try fails.
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kMost = 64 };

static int rank, size, culprit;
static const char* try_;

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void put(const char* what, int value) {
  char name[64], temporary[80];
  snprintf(name, sizeof name, "%s.%s.%d", what, try_, rank);
  snprintf(temporary, sizeof temporary, "%s.new", name);
  FILE* file = fopen(temporary, "w");
  if (file == NULL) fail(temporary);
  fprintf(file, "%d\n", value);
  fclose(file);
  if (rename(temporary, name) < 0) fail(name);
}

static int wait_for(const char* what, int of) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s.%d", what, try_, of);
  for (;;) {
    FILE* file = fopen(name, "r");
    int value;
    if (file != NULL && fscanf(file, "%d", &value) == 1) {
      fclose(file);
      return value;
    }
    if (file != NULL) fclose(file);
    usleep(10000);
  }
}

static struct sockaddr_in address(int port) {
  struct sockaddr_in out;
  memset(&out, 0, sizeof out);
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.sin_port = htons((unsigned short)port);
  return out;
}

static int bound(int type) {
  int fd = socket(AF_INET, type, 0);
  struct sockaddr_in own = address(0);
  socklen_t length = sizeof own;
  if (fd < 0 || bind(fd, (struct sockaddr*)&own, sizeof own) < 0) fail("bind");
  if (type == SOCK_STREAM && listen(fd, kMost) < 0) fail("listen");
  getsockname(fd, (struct sockaddr*)&own, &length);
  put("port", ntohs(own.sin_port));
  return fd;
}

// What is closed without having been read resets the connection.
static void join(int fd) {
  struct linger at_once = {1, 0};
  if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) < 0) fail("setsockopt");
}

static void be_here(void) {
  put("here", 1);
  for (int i = 0; i < size; ++i) wait_for("here", i);
  if (rank == culprit) usleep(200000 + rand() % 200000);
}

static void lose(const char* how) {
  if (strcmp(how, "crash") == 0) *(volatile int*)0 = 1;
  exit(1);
}

static void talk(const char* how) {
  struct pollfd peers[kMost];
  int count = 0;
  int listener = bound(SOCK_STREAM);
  for (int i = 0; i < rank; ++i) {
    struct sockaddr_in to = address(wait_for("port", i));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr*)&to, sizeof to) < 0) fail("connect");
    peers[count++] = (struct pollfd){fd, POLLIN, 0};
  }
  for (int i = rank + 1; i < size; ++i) peers[count++] = (struct pollfd){accept(listener, NULL, NULL), POLLIN, 0};
  for (int i = 0; i < count; ++i) join(peers[i].fd);
  be_here();
  if (culprit < 0) return;
  if (rank == culprit) lose(how);
  if (poll(peers, (nfds_t)count, -1) < 0) fail("poll");
  for (int i = 0; i < count; ++i) {
    char byte;
    if (peers[i].revents == 0) continue;
    if (recv(peers[i].fd, &byte, 1, 0) < 0) fail("recv");
  }
  fprintf(stderr, "connection closed\n");
  exit(1);
}

static void listen_to_all(void) {
  int fd = bound(SOCK_DGRAM);
  struct sockaddr_in to[kMost];
  long long last[kMost];
  be_here();
  for (int i = 0; i < size; ++i) {
    to[i] = address(wait_for("port", i));
    last[i] = 0;
  }
  if (culprit < 0) return;
  for (long long round = 1;; ++round) {
    if (rank == culprit) assert(round < 3);
    for (int i = 0; i < size; ++i) sendto(fd, &rank, sizeof rank, 0, (struct sockaddr*)&to[i], sizeof to[i]);
    usleep(50000);
    int from;
    while (recv(fd, &from, sizeof from, MSG_DONTWAIT) == (ssize_t)sizeof from) last[from] = round;
    for (int i = 0; i < size; ++i) {
      if (round - last[i] < 40) continue;
      fprintf(stderr, "timed out: no word of rank %d\n", i);
      exit(2);
    }
  }
}

int main(int argc, char** argv) {
  rank = number("NACRE_TASK_RANK", 0);
  size = number("NACRE_JOB_SIZE", 1);
  try_ = getenv("NACRE_TASK_TRY") != NULL ? getenv("NACRE_TASK_TRY") : "1";
  culprit = strcmp(try_, "1") == 0 ? number("CULPRIT", 0) : -1;
  srand((unsigned)getpid());
  if (argc != 2 || size > kMost) return 2;
  if (strcmp(argv[1], "assert") == 0)
    listen_to_all();
  else
    talk(argv[1]);
  return 0;
}
