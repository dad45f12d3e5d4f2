// SPDX-License-Identifier: Apache-2.0
//
// eu-stack ... -p PID, of a kind: begins to trace the process, and is killed at once, while the SIGSTOP of that is
// still on its way.
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(int argc, char** argv) {
  pid_t pid = atoi(argv[argc - 1]);
  if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) != 0) return 1;
  kill(getpid(), SIGKILL);
  return 1;
}
