/* SPDX-License-Identifier: Apache-2.0
 *
 * Between PMIx_Init and PMIx_Finalize until there is the file "go"; makes "in.RANK" before, and "out.RANK" after it. With an
 * argument it then fences without that rank.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

static void touch(const char* what) {
  char name[64];
  snprintf(name, sizeof name, "%s.%u", what, me.rank);
  close(open(name, O_CREAT | O_WRONLY, 0644));
}

int main(int argc, char** argv) {
  begin();
  touch("in");
  while (access("go", F_OK) != 0) usleep(20000);
  if (argc > 1) must(fence_without((pmix_rank_t)atoi(argv[1])), "fence");
  finish();
  touch("out");
  return 0;
}
