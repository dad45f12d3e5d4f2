/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of a list of hosts, for the signature of flux_shell_get_hostlist(). Lists cannot be read from C yet; the
 * host of each shell is in flux_shell_get_rank_info().
 */
#ifndef FLUX_HOSTLIST_H
#define FLUX_HOSTLIST_H

struct hostlist;

#endif /* FLUX_HOSTLIST_H */
