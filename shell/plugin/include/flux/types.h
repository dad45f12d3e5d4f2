/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that the other headers of <flux/...> share. Handles are opaque.
 */
#ifndef FLUX_TYPES_H
#define FLUX_TYPES_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
/* No function of this API throws. */
#define FLUX_NOTHROW noexcept
#else
#define FLUX_NOTHROW
#endif

#ifndef FLUX_PRINTF
/* Argument `f` is a printf(3) format for the arguments from `a` on. */
#define FLUX_PRINTF(f, a) __attribute__((format(printf, f, a)))
#endif

#ifndef FLUX_DEPRECATED
#define FLUX_DEPRECATED(...) __VA_ARGS__ __attribute__((deprecated))
#endif

/* Frees what a plugin has attached to a handle. */
typedef void (*flux_free_f)(void* arg);

/* One line of text about an error. */
typedef struct {
  char text[160];
} flux_error_t;

typedef uint64_t flux_jobid_t;

typedef struct flux_handle flux_t;
typedef struct flux_future flux_future_t;
typedef struct flux_msg flux_msg_t;
typedef struct flux_msg_handler flux_msg_handler_t;
typedef struct flux_reactor flux_reactor_t;
typedef struct flux_watcher flux_watcher_t;
typedef struct flux_subprocess flux_subprocess_t;

typedef void (*flux_msg_handler_f)(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg);

#ifdef __cplusplus
}
#endif

#endif /* FLUX_TYPES_H */
