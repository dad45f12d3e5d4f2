// SPDX-License-Identifier: Apache-2.0
//
// keeps_zombie FILE: lets any process of the user trace it, writes its process id into FILE, and waits.
// keeps_zombie FILE PID: traces PID, makes FILE, and never looks how PID ends: its parent does not learn of its end
// until this program has ended.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 3) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  if (argc == 3 && ptrace(PTRACE_SEIZE, atoi(argv[2]), NULL, NULL) != 0) {
    perror("keeps_zombie");
    return 1;
  }
  FILE* file = fopen(argv[1], "w");
  if (file == NULL || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0) return 1;
  for (;;) pause();
}
