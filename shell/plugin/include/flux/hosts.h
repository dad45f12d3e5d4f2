/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of the job's shells, by the rank of each: the attribute "hostlist".
 */
#ifndef FLUX_HOSTS_H
#define FLUX_HOSTS_H

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Never NULL: "(null)" for no such shell, "any" and "upstream" for FLUX_NODEID_ANY and FLUX_NODEID_UPSTREAM. Valid until
 * the next call. */
const char* flux_get_hostbyrank(flux_t* h, uint32_t rank) FLUX_NOTHROW;
/* The lowest rank on this host; -1 and ENOENT (no such host), EINVAL. */
int flux_get_rankbyhost(flux_t* h, const char* host) FLUX_NOTHROW;
/* Ranks (RFC 22) to their hosts (RFC 29), or hosts to their lowest ranks; free(3) it. NULL, with `errp`, which may be
 * NULL, and errno: ENOENT (no such rank or host), EINVAL. */
char* flux_hostmap_lookup(flux_t* h, const char* targets, flux_error_t* errp) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_HOSTS_H */
