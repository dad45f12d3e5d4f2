/* SPDX-License-Identifier: Apache-2.0
 *
 * Between PMI2_Init and PMI2_Finalize until there is the file "go"; makes "in.RANK" before, and "out.RANK" after it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <slurm/pmi2.h>

static void touch(const char* what, int rank) {
  char name[64];
  snprintf(name, sizeof name, "%s.%d", what, rank);
  close(open(name, O_CREAT | O_WRONLY, 0644));
}

int main(void) {
  int spawned, size, rank, appnum;
  if (PMI2_Init(&spawned, &size, &rank, &appnum) != PMI2_SUCCESS) return 9;
  touch("in", rank);
  while (access("go", F_OK) != 0) usleep(20000);
  if (PMI2_Finalize() != PMI2_SUCCESS) return 9;
  touch("out", rank);
  return 0;
}
