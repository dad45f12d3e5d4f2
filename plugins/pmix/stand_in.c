/* SPDX-License-Identifier: Apache-2.0
 *
 * Connects to the PMIx server as the process that its environment names, and exits at once without PMIx_Finalize.
 * libpmix takes a process out of collective operations only when its connection is lost. For a process that ended
 * before it had a connection, this program loses one.
 */
#include <pmix.h>
#include <unistd.h>

int main(void) {
  pmix_proc_t me;
  _exit(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS ? 0 : 1);
}
