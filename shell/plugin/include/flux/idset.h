/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading sets of ids, as taskmap_taskids() returns them. Source of the text form: Flux RFC 22.
 */
#ifndef FLUX_IDSET_H
#define FLUX_IDSET_H

#include <limits.h>

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct idset;

#define IDSET_INVALID_ID UINT_MAX /* no such id */

enum idset_flags {
  IDSET_FLAG_BRACKETS = 2, /* "[0,2]" where there is more than one id */
  IDSET_FLAG_RANGE = 4,    /* "0-3" instead of "0,1,2,3" */
};

/* NULL and EINVAL if the text is malformed. To be destroyed by the caller, as a copy is. */
struct idset* idset_decode(const char* s) FLUX_NOTHROW;
struct idset* idset_copy(const struct idset* idset) FLUX_NOTHROW;
void idset_destroy(struct idset* idset) FLUX_NOTHROW;

char* idset_encode(const struct idset* idset, int flags) FLUX_NOTHROW; /* the caller frees it with free(3) */

size_t idset_count(const struct idset* idset) FLUX_NOTHROW;
bool idset_empty(const struct idset* idset) FLUX_NOTHROW;
bool idset_test(const struct idset* idset, unsigned int id) FLUX_NOTHROW;

/* In ascending order; IDSET_INVALID_ID at the end. */
unsigned int idset_first(const struct idset* idset) FLUX_NOTHROW;
unsigned int idset_next(const struct idset* idset, unsigned int id) FLUX_NOTHROW;
unsigned int idset_last(const struct idset* idset) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_IDSET_H */
