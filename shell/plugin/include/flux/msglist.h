/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of messages, each with a reference.
 */
#ifndef FLUX_MSGLIST_H
#define FLUX_MSGLIST_H

#include <flux/message.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct flux_msglist;

struct flux_msglist* flux_msglist_create(void) FLUX_NOTHROW;
void flux_msglist_destroy(struct flux_msglist* l) FLUX_NOTHROW;
/* Add at the end, and at the front. -1 and EINVAL if an argument is NULL. */
int flux_msglist_append(struct flux_msglist* l, const flux_msg_t* msg) FLUX_NOTHROW;
int flux_msglist_push(struct flux_msglist* l, const flux_msg_t* msg) FLUX_NOTHROW;
/* Removes the first one and gives its reference to the caller. NULL if there is none. */
const flux_msg_t* flux_msglist_pop(struct flux_msglist* l) FLUX_NOTHROW;
int flux_msglist_count(struct flux_msglist* l) FLUX_NOTHROW; /* -1 and EINVAL for NULL */
/* first and next move a cursor from the front; NULL at the end. delete removes the message at the cursor. */
const flux_msg_t* flux_msglist_first(struct flux_msglist* l) FLUX_NOTHROW;
const flux_msg_t* flux_msglist_next(struct flux_msglist* l) FLUX_NOTHROW;
const flux_msg_t* flux_msglist_last(struct flux_msglist* l) FLUX_NOTHROW;
void flux_msglist_delete(struct flux_msglist* l) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_MSGLIST_H */
