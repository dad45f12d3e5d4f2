/* SPDX-License-Identifier: Apache-2.0
 *
 * What libpmix's server keeps of process groups of former starts of the tasks. In C, as libpmix's own headers are.
 */
#ifndef NACRE_PMIX_FORMER_GROUPS_H
#define NACRE_PMIX_FORMER_GROUPS_H

#ifdef __cplusplus
extern "C" {
#endif

/* The server forgets all groups, and all that waits for their members, except groups with a process of the
 * namespace `home`, or of one that its tasks have spawned. Only in libpmix's thread. */
void forget_former_groups(const char* home);

#ifdef __cplusplus
}
#endif

#endif
