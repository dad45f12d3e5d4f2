/* SPDX-License-Identifier: Apache-2.0
 *
 * early connected|finalized: rank 0 finalizes and exits with 0 before the others, who stay as the word says for two seconds.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  pmix_proc_t me;
  if (argc != 2 || PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 9;
  int stays = strcmp(argv[1], "connected") == 0;
  if (me.rank != 0 && stays) sleep(2);
  if (PMIx_Finalize(NULL, 0) != PMIX_SUCCESS) return 9;
  if (me.rank != 0 && !stays) sleep(2);
  return 0;
}
