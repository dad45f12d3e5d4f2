/* SPDX-License-Identifier: Apache-2.0
 *
 * An ordered list of host names, which may repeat, with a cursor. Source: hostlist_create(3) of Flux; RFC 29 for
 * the text form, "node[0-3],login".
 *
 * Functions that return a name set the cursor to it; the name is valid until the list or its cursor changes. NULL
 * and -1 come with errno: EINVAL for a NULL or malformed argument, ENOENT if there is no such name or the cursor is
 * after the last one, ERANGE for a list of more than 2^20 names or a number of more than 18 digits, ENOMEM. A call
 * that fails changes nothing. Each function has a note on what the caller frees.
 */
#ifndef FLUX_HOSTLIST_H
#define FLUX_HOSTLIST_H

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct hostlist;
struct hostlist_hostname;

/* The caller destroys these three with hostlist_destroy(). */
struct hostlist* hostlist_create(void) FLUX_NOTHROW;
struct hostlist* hostlist_decode(const char* s) FLUX_NOTHROW;
struct hostlist* hostlist_copy(const struct hostlist* hl) FLUX_NOTHROW; /* the cursor is at the first name */
void hostlist_destroy(struct hostlist* hl) FLUX_NOTHROW;

char* hostlist_encode(struct hostlist* hl) FLUX_NOTHROW; /* free(3) it */
int hostlist_count(struct hostlist* hl) FLUX_NOTHROW;    /* 0 for NULL */
#define hostlist_is_empty(hl) (hostlist_count(hl) == 0)

/* Return how many names were appended, or deleted. The first occurrence of each is deleted. If the name at the
 * cursor is deleted, the cursor moves to the next one that is left. */
int hostlist_append(struct hostlist* hl, const char* hosts) FLUX_NOTHROW;
int hostlist_append_list(struct hostlist* hl1, struct hostlist* hl2) FLUX_NOTHROW;
int hostlist_delete(struct hostlist* hl, const char* hosts) FLUX_NOTHROW;

const char* hostlist_nth(struct hostlist* hl, int n) FLUX_NOTHROW; /* from 0 */
/* The position of the first such name, to which the cursor moves. */
int hostlist_find(struct hostlist* hl, const char* hostname) FLUX_NOTHROW;

/* A name to search for in many lists. The caller destroys it. */
struct hostlist_hostname* hostlist_hostname_create(const char* hostname) FLUX_NOTHROW;
void hostlist_hostname_destroy(struct hostlist_hostname* hn) FLUX_NOTHROW;
int hostlist_find_hostname(struct hostlist* hl, struct hostlist_hostname* hn) FLUX_NOTHROW;

/* By the text before a number, its width, and the number: n9, n10, n010. uniq sorts, then removes repeats. Both set the cursor to the first name. */
void hostlist_sort(struct hostlist* hl) FLUX_NOTHROW;
void hostlist_uniq(struct hostlist* hl) FLUX_NOTHROW;

const char* hostlist_first(struct hostlist* hl) FLUX_NOTHROW;
const char* hostlist_last(struct hostlist* hl) FLUX_NOTHROW;
const char* hostlist_next(struct hostlist* hl) FLUX_NOTHROW;
const char* hostlist_current(struct hostlist* hl) FLUX_NOTHROW;
/* Returns how many were removed: 1, or 0 if the cursor is after the last. */
int hostlist_remove_current(struct hostlist* hl) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_HOSTLIST_H */
