/* SPDX-License-Identifier: Apache-2.0
 *
 * A result that comes later. Who makes it available fulfils the future, once or several times; who wants it waits
 * for it or leaves a continuation.
 *
 * Functions that return int fail with -1 and errno, EINVAL if the future or a needed argument is NULL; those that
 * return a future fail with NULL. A result belongs to the future: its free function runs when the future goes or is
 * reset.
 */
#ifndef FLUX_FUTURE_H
#define FLUX_FUTURE_H

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- for who wants the result --- */

typedef void (*flux_continuation_f)(flux_future_t* f, void* arg);

/* Calls `cb` in the loop, once it is fulfilled: for each fulfilment again if the continuation resets the future.
 * After `timeout` (negative: never) it is fulfilled with ETIMEDOUT. EEXIST if there is a continuation already. */
int flux_future_then(flux_future_t* f, double timeout, flux_continuation_f cb, void* arg) FLUX_NOTHROW;
/* Waits on a loop of its own. ETIMEDOUT; EDEADLOCK if nothing is there that could fulfil it. */
int flux_future_wait_for(flux_future_t* f, double timeout);
/* Waits if need be. The error that it was fulfilled with is in errno. `result` may be NULL. */
int flux_future_get(flux_future_t* f, const void** result);
bool flux_future_is_ready(flux_future_t* f) FLUX_NOTHROW;
bool flux_future_has_error(flux_future_t* f) FLUX_NOTHROW;
/* The error in words; NULL if there is none. */
const char* flux_future_error_string(flux_future_t* f) FLUX_NOTHROW;
/* On to the next fulfilment, that may be there already. */
void flux_future_reset(flux_future_t* f) FLUX_NOTHROW;
void flux_future_destroy(flux_future_t* f) FLUX_NOTHROW; /* drops a reference, as decref; errno is kept */
void flux_future_incref(flux_future_t* f) FLUX_NOTHROW;
void flux_future_decref(flux_future_t* f) FLUX_NOTHROW;

/* --- for who makes it --- */

/* `cb` (may be NULL) sets up what will fulfil the future, on flux_future_get_reactor(): called when somebody begins
 * to wait, at most once for a continuation and once for waiting. */
typedef void (*flux_future_init_f)(flux_future_t* f, void* arg);
flux_future_t* flux_future_create(flux_future_init_f cb, void* arg) FLUX_NOTHROW;

void flux_future_fulfill(flux_future_t* f, void* result, flux_free_f free_fn) FLUX_NOTHROW;
void flux_future_fulfill_error(flux_future_t* f, int errnum, const char* errstr) FLUX_NOTHROW;
/* With what `p` has been fulfilled with; `p` is kept for it. EAGAIN if it has not, EEXIST for another `p` than the
 * last time. */
int flux_future_fulfill_with(flux_future_t* f, flux_future_t* p) FLUX_NOTHROW;
/* Comes before all results, and stays. */
void flux_future_fatal_error(flux_future_t* f, int errnum, const char* errstr) FLUX_NOTHROW;

/* As flux_plugin_aux_set(). get looks also in what the future was fulfilled with. */
int flux_future_aux_set(flux_future_t* f, const char* name, void* aux, flux_free_f destroy) FLUX_NOTHROW;
void* flux_future_aux_get(flux_future_t* f, const char* name) FLUX_NOTHROW;

/* While it is waited for: the loop of that wait. */
void flux_future_set_reactor(flux_future_t* f, flux_reactor_t* r) FLUX_NOTHROW;
flux_reactor_t* flux_future_get_reactor(flux_future_t* f) FLUX_NOTHROW;
void flux_future_set_flux(flux_future_t* f, flux_t* h) FLUX_NOTHROW;
flux_t* flux_future_get_flux(flux_future_t* f) FLUX_NOTHROW;

/* --- several --- */

/* Fulfilled when all, or one, of those pushed are: with an error if one of them was. They belong to it. */
flux_future_t* flux_future_wait_all_create(void) FLUX_NOTHROW;
flux_future_t* flux_future_wait_any_create(void) FLUX_NOTHROW;
int flux_future_push(flux_future_t* cf, const char* name, flux_future_t* f) FLUX_NOTHROW; /* NULL name: a number */
const char* flux_future_first_child(flux_future_t* cf) FLUX_NOTHROW; /* names in byte order; NULL at the end */
const char* flux_future_next_child(flux_future_t* cf) FLUX_NOTHROW;
flux_future_t* flux_future_get_child(flux_future_t* cf, const char* name) FLUX_NOTHROW; /* NULL and ENOENT */

/* --- one after another --- */

/* A future for what comes after `f`. When `f` is fulfilled with a result (or_then: an error), `cb` is called to
 * continue; what it does not continue, and what it is not called for, is passed on. `f` belongs to the new one. */
flux_future_t* flux_future_and_then(flux_future_t* f, flux_continuation_f cb, void* arg) FLUX_NOTHROW;
flux_future_t* flux_future_or_then(flux_future_t* f, flux_continuation_f cb, void* arg) FLUX_NOTHROW;
/* In `cb`, of the future that comes after `prev`: fulfil it with what `f` will be (NULL: not at all, now), or at
 * once. ENOENT if none comes after. */
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
