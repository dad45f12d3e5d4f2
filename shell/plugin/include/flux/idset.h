/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of non-negative integers. Sources: idset_create(3), idset_add(3), idset_alloc(3), idset_decode(3) and
 * idset_encode(3) of Flux; RFC 22 for the text form.
 *
 * A set has a universe: it can hold the ids below that size, which is at most IDSET_MAX_UNIVERSE. Its memory
 * depends on its number of runs of consecutive ids, and not on their size or that of the universe.
 *
 * Functions that return int return 0, or -1 with errno; those that return a pointer, NULL with errno:
 *   EINVAL  NULL, or IDSET_INVALID_ID or above, for an argument; flags that the function does not know; malformed
 *           text; an id beyond a universe that does not grow
 *   ERANGE  an id or size beyond IDSET_MAX_UNIVERSE
 *   ENOMEM  a text that would be too long
 *   EEXIST  see idset_free_check()
 * A call that fails changes nothing. For functions with another type, NULL is the empty set.
 */
#ifndef FLUX_IDSET_H
#define FLUX_IDSET_H

#include <limits.h>
#include <sys/param.h>

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct idset;

typedef struct {
  char text[160];
} idset_error_t;

#define IDSET_INVALID_ID (UINT_MAX - 1) /* no such id */
#define IDSET_MAX_UNIVERSE ((size_t)(INT_MAX) + 1)

enum idset_flags {
  IDSET_FLAG_AUTOGROW = 1, /* create: the universe doubles, up to the maximum, until an id fits that is set */
  IDSET_FLAG_BRACKETS = 2, /* encode: "[0,2]" where there is not exactly one id */
  IDSET_FLAG_RANGE = 4,    /* encode: "0-3" instead of "0,1,2,3" */
  IDSET_FLAG_INITFULL = 8, /* create: holds all ids, also of what it grows by; an id that is cleared grows it too */
  IDSET_FLAG_COUNT_LAZY = 16, /* create: changes nothing here */
  IDSET_FLAG_ALLOC_RR = 32,   /* create: idset_alloc() goes on behind the id that it took last, and begins again
                                 when there is none */
};

/* ---- making: the caller destroys all with idset_destroy(), except taskmap_taskids()'s ---- */

/* `size` 0: 1024. */
struct idset* idset_create(size_t size, int flags) FLUX_NOTHROW;
void idset_destroy(struct idset* idset) FLUX_NOTHROW;
struct idset* idset_copy(const struct idset* idset) FLUX_NOTHROW; /* universe and flags too */
size_t idset_universe_size(const struct idset* idset) FLUX_NOTHROW;

/* ---- text; len < 0: up to the NUL, else at most `len` bytes; `error` may be NULL ---- */

/* A set that grows. */
struct idset* idset_decode(const char* s) FLUX_NOTHROW;
FLUX_DEPRECATED(struct idset* idset_ndecode(const char* s, size_t len) FLUX_NOTHROW);
/* As idset_create(size, flags), with the ids set. size < 0: the smallest that has room for the ids. For no ids that
 * is 1 if it may grow, else EINVAL. */
struct idset* idset_decode_ex(const char* s, ssize_t len, ssize_t size, int flags,
                              idset_error_t* error) FLUX_NOTHROW;
bool idset_decode_empty(const char* s, ssize_t len) FLUX_NOTHROW; /* false if malformed */
/* Either may be NULL; the maximum of no ids is IDSET_INVALID_ID. */
int idset_decode_info(const char* s, ssize_t len, size_t* count, unsigned int* maxid,
                      idset_error_t* error) FLUX_NOTHROW;
int idset_decode_add(struct idset* idset, const char* s, ssize_t len, idset_error_t* error) FLUX_NOTHROW;
int idset_decode_subtract(struct idset* idset, const char* s, ssize_t len, idset_error_t* error) FLUX_NOTHROW;

/* The caller frees it with free(3). ENOMEM for more than 2^20 ids without IDSET_FLAG_RANGE. */
char* idset_encode(const struct idset* idset, int flags) FLUX_NOTHROW;

/* ---- ids; a range includes both its ends, in either order; clearing an id that is not there is no failure ---- */

int idset_set(struct idset* idset, unsigned int id) FLUX_NOTHROW;
int idset_range_set(struct idset* idset, unsigned int lo, unsigned int hi) FLUX_NOTHROW;
int idset_clear(struct idset* idset, unsigned int id) FLUX_NOTHROW;
int idset_range_clear(struct idset* idset, unsigned int lo, unsigned int hi) FLUX_NOTHROW;

bool idset_test(const struct idset* idset, unsigned int id) FLUX_NOTHROW;
size_t idset_count(const struct idset* idset) FLUX_NOTHROW; /* linear in the runs */
bool idset_empty(const struct idset* idset) FLUX_NOTHROW;

/* IDSET_INVALID_ID if there is none, or if `id` is not valid. */
unsigned int idset_first(const struct idset* idset) FLUX_NOTHROW;
unsigned int idset_next(const struct idset* idset, unsigned int id) FLUX_NOTHROW;
unsigned int idset_last(const struct idset* idset) FLUX_NOTHROW;
unsigned int idset_prev(const struct idset* idset, unsigned int id) FLUX_NOTHROW;

/* ---- two sets ---- */

bool idset_equal(const struct idset* a, const struct idset* b) FLUX_NOTHROW; /* the same ids; NULL equals nothing */
bool idset_has_intersection(const struct idset* a, const struct idset* b) FLUX_NOTHROW;
/* New sets, which grow, with the larger of the two universes. */
struct idset* idset_union(const struct idset* a, const struct idset* b) FLUX_NOTHROW;
struct idset* idset_difference(const struct idset* a, const struct idset* b) FLUX_NOTHROW;
struct idset* idset_intersect(const struct idset* a, const struct idset* b) FLUX_NOTHROW;
/* a += b; a -= b: sets, or clears, each id of `b`. */
int idset_add(struct idset* a, const struct idset* b) FLUX_NOTHROW;
int idset_subtract(struct idset* a, const struct idset* b) FLUX_NOTHROW;
#define idset_clear_all(x) idset_subtract((x), (x))

/* ---- a set as a store of ids: made with IDSET_FLAG_INITFULL (else EINVAL), it holds the free ones ---- */

/* Takes an id out. If none is left the set grows, or the call fails with EINVAL. */
int idset_alloc(struct idset* idset, unsigned int* val) FLUX_NOTHROW;
/* Put an id back. idset_free_check() fails with EEXIST if the id is there already. */
void idset_free(struct idset* idset, unsigned int val) FLUX_NOTHROW;
int idset_free_check(struct idset* idset, unsigned int val) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_IDSET_H */
