/* SPDX-License-Identifier: Apache-2.0
 *
 * Task maps: which node runs which task. Source of the formats: Flux RFC 34; RFC 13 for the PMI-1 form.
 *
 * Functions that return int fail with -1 and errno: EINVAL if `map` is NULL or an argument out of range, ENOENT if
 * there is no such task or node.
 */
#ifndef FLUX_TASKMAP_H
#define FLUX_TASKMAP_H

#include <flux/core.h>
#include <flux/idset.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct taskmap;

enum taskmap_flags {
  TASKMAP_ENCODE_WRAPPED = 1,      /* {"version":1,"map":[...]}     */
  TASKMAP_ENCODE_PMI = 2,          /* (vector,(...))                */
  TASKMAP_ENCODE_RAW = 4,          /* idsets joined by semicolons   */
  TASKMAP_ENCODE_RAW_DERANGED = 8, /* the same without ranges       */
};

struct taskmap* taskmap_create(void) FLUX_NOTHROW; /* empty */
void taskmap_destroy(struct taskmap* map) FLUX_NOTHROW;

/* The next tasks, `ppn` on each of `nnodes` nodes from `nodeid` on. */
int taskmap_append(struct taskmap* map, int nodeid, int nnodes, int ppn) FLUX_NOTHROW;

/* Any of the forms above. NULL, with the reason in `errp` (may be NULL). */
struct taskmap* taskmap_decode(const char* map, flux_error_t* errp) FLUX_NOTHROW;
/* One of the forms above (flags 0: the bare JSON array). The caller frees it with free(3). */
char* taskmap_encode(const struct taskmap* map, int flags) FLUX_NOTHROW;

bool taskmap_unknown(const struct taskmap* map) FLUX_NOTHROW; /* holds no information */
int taskmap_nodeid(const struct taskmap* map, int taskid) FLUX_NOTHROW;
int taskmap_ntasks(const struct taskmap* map, int nodeid) FLUX_NOTHROW;
int taskmap_nnodes(const struct taskmap* map) FLUX_NOTHROW;
int taskmap_total_ntasks(const struct taskmap* map) FLUX_NOTHROW;
/* The tasks of a node. Valid until the next call of this function on `map`. */
const struct idset* taskmap_taskids(const struct taskmap* map, int nodeid) FLUX_NOTHROW;

/* 0 if both have the same numbers of tasks and of nodes; else -1, with the difference in `errp` (may be NULL). */
int taskmap_check(const struct taskmap* a, const struct taskmap* b, flux_error_t* errp) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_TASKMAP_H */
