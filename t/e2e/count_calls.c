// SPDX-License-Identifier: Apache-2.0
//
// Runs a program, and writes to FILE how often that process has called exec and open: "EXECS OPENS". Those of its
// children do not count.
//   count_calls FILE PROGRAM [ARG...]
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_open(unsigned long long number) {
#ifdef SYS_open
  if (number == SYS_open) return 1;
#endif
#ifdef SYS_openat2
  if (number == SYS_openat2) return 1;
#endif
  return number == SYS_openat;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: count_calls FILE PROGRAM [ARG...]\n");
    return 2;
  }
  pid_t pid = fork();
  if (pid == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) < 0 ||
      ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) < 0) {
    fprintf(stderr, "count_calls: %s\n", strerror(errno));
    return 1;
  }
  unsigned execs = 0, opens = 0;
  long signal = 0;
  for (;;) {
    if (ptrace(PTRACE_SYSCALL, pid, NULL, signal) < 0 || waitpid(pid, &status, 0) < 0) return 1;
    if (WIFEXITED(status) || WIFSIGNALED(status)) break;
    signal = WSTOPSIG(status);
    if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_EXEC << 8))) {
      ++execs;
      signal = 0;
    } else if (signal == (SIGTRAP | 0x80)) {
      struct __ptrace_syscall_info info;
      signal = 0;
      if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void*)sizeof info, &info) < 0) return 1;
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY && is_open(info.entry.nr)) ++opens;
    }
  }
  FILE* file = fopen(argv[1], "w");
  if (file == NULL || fprintf(file, "%u %u\n", execs, opens) < 0 || fclose(file) != 0) {
    fprintf(stderr, "count_calls: %s: %s\n", argv[1], strerror(errno));
    return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
