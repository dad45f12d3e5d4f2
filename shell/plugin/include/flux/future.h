/* SPDX-License-Identifier: Apache-2.0
 *
 * A result that comes later. The code that has the result fulfils the future, once or several times; the code that
 * needs it waits for the future or sets a continuation.
 *
 * Functions that return int fail with -1 and errno, EINVAL if the future or a needed argument is NULL; those that return a
 * future fail with NULL. A result belongs to the future: its free function is called when the future is destroyed or reset.
 */
#ifndef FLUX_FUTURE_H
#define FLUX_FUTURE_H

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- for code that needs the result --- */

typedef void (*flux_continuation_f)(flux_future_t* f, void* arg);

/* Calls `cb` from the loop once the future is fulfilled, and for each later fulfilment if the continuation
 * resets the future. After `timeout` (negative: never) the future is fulfilled with ETIMEDOUT; a reset starts
 * that time again. A further call replaces the continuation and its time. */
int flux_future_then(flux_future_t* f, double timeout, flux_continuation_f cb, void* arg) FLUX_NOTHROW;
/* Waits on a loop of its own, and on the shell's as well while a call to another shell is open. ETIMEDOUT:
 * `timeout` has passed, or for such a call the option rpc-timeout. EDEADLOCK: nothing can fulfil the future, as
 * in a callback where that needs the shell's loop. ECANCELED: the job is being ended. */
int flux_future_wait_for(flux_future_t* f, double timeout);
/* Waits if needed. errno is the error with which it was fulfilled. `result` may be NULL. */
int flux_future_get(flux_future_t* f, const void** result);
bool flux_future_is_ready(flux_future_t* f) FLUX_NOTHROW;
bool flux_future_has_error(flux_future_t* f) FLUX_NOTHROW;
/* The error as text; NULL if there is none. */
const char* flux_future_error_string(flux_future_t* f) FLUX_NOTHROW;
/* Goes on to the next fulfilment, which may have come already. */
void flux_future_reset(flux_future_t* f) FLUX_NOTHROW;
void flux_future_destroy(flux_future_t* f) FLUX_NOTHROW; /* drops a reference, as decref; errno is kept */
void flux_future_incref(flux_future_t* f) FLUX_NOTHROW;
void flux_future_decref(flux_future_t* f) FLUX_NOTHROW;

/* --- for code that makes the result --- */

/* `cb` (may be NULL) arranges what will fulfil the future, on flux_future_get_reactor(). It is called when a wait
 * begins, at most once for a continuation and once for waiting. */
typedef void (*flux_future_init_f)(flux_future_t* f, void* arg);
flux_future_t* flux_future_create(flux_future_init_f cb, void* arg) FLUX_NOTHROW;

void flux_future_fulfill(flux_future_t* f, void* result, flux_free_f free_fn) FLUX_NOTHROW;
void flux_future_fulfill_error(flux_future_t* f, int errnum, const char* errstr) FLUX_NOTHROW;
/* Fulfils `f` with the result or error of `p`, and keeps `p` for that. EAGAIN: `p` is not fulfilled. EEXIST: the
 * last call was for another `p`. */
int flux_future_fulfill_with(flux_future_t* f, flux_future_t* p) FLUX_NOTHROW;
/* Sets an error that comes before all results, and that stays. */
void flux_future_fatal_error(flux_future_t* f, int errnum, const char* errstr) FLUX_NOTHROW;

/* As flux_plugin_aux_set(). get also searches the future that has fulfilled this one. */
int flux_future_aux_set(flux_future_t* f, const char* name, void* aux, flux_free_f destroy) FLUX_NOTHROW;
void* flux_future_aux_get(flux_future_t* f, const char* name) FLUX_NOTHROW;

/* get_reactor: while somebody waits for the future, the reactor of that wait. */
void flux_future_set_reactor(flux_future_t* f, flux_reactor_t* r) FLUX_NOTHROW;
flux_reactor_t* flux_future_get_reactor(flux_future_t* f) FLUX_NOTHROW;
void flux_future_set_flux(flux_future_t* f, flux_t* h) FLUX_NOTHROW;
flux_t* flux_future_get_flux(flux_future_t* f) FLUX_NOTHROW;

/* --- composite futures --- */

/* Fulfilled when all, or one, of the futures pushed to it are: with an error if one of them was. They belong to it. */
flux_future_t* flux_future_wait_all_create(void) FLUX_NOTHROW;
flux_future_t* flux_future_wait_any_create(void) FLUX_NOTHROW;
int flux_future_push(flux_future_t* cf, const char* name, flux_future_t* f) FLUX_NOTHROW; /* NULL name: a number */
const char* flux_future_first_child(flux_future_t* cf) FLUX_NOTHROW; /* names in byte order; NULL at the end */
const char* flux_future_next_child(flux_future_t* cf) FLUX_NOTHROW;
flux_future_t* flux_future_get_child(flux_future_t* cf, const char* name) FLUX_NOTHROW; /* NULL and ENOENT */

/* --- futures that follow each other --- */

/* A future that follows `f`. When `f` is fulfilled with a result (or_then: an error), `cb` is called to continue. A
 * result that it does not continue, or for which it is not called, is passed on. `f` belongs to the new future. */
flux_future_t* flux_future_and_then(flux_future_t* f, flux_continuation_f cb, void* arg) FLUX_NOTHROW;
flux_future_t* flux_future_or_then(flux_future_t* f, flux_continuation_f cb, void* arg) FLUX_NOTHROW;
/* In `cb`: the future that follows `prev` will be fulfilled as `f` is (NULL: it is not fulfilled now), or at once
 * by continue_error. ENOENT: no future follows. */
int flux_future_continue(flux_future_t* prev, flux_future_t* f) FLUX_NOTHROW;
void flux_future_continue_error(flux_future_t* prev, int errnum, const char* errstr) FLUX_NOTHROW;
int flux_future_fulfill_next(flux_future_t* prev, void* result, flux_free_f free_fn) FLUX_NOTHROW;

#define future_strerror(f, errnum) (flux_future_has_error(f) ? flux_future_error_string(f) : flux_strerror(errnum))
const char* flux_strerror(int errnum) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_FUTURE_H */
