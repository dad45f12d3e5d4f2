/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop for plugins, and what it can watch. The shell's own is flux_get_reactor(flux_shell_get_flux()).
 *
 * Times are in seconds. create functions return NULL with errno set: EINVAL if the reactor or the callback is NULL or an
 * argument is out of range, else that of the system call behind. A watcher is created stopped, and its creator destroys it;
 * a callback may start, stop and destroy it. Functions that get a watcher of another kind set EINVAL.
 */
#ifndef FLUX_REACTOR_H
#define FLUX_REACTOR_H

#include <sys/stat.h>

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* For descriptors and handles. */
enum {
  FLUX_POLLIN = 1,
  FLUX_POLLOUT = 2,
  FLUX_POLLERR = 4,
};

enum {
  FLUX_REACTOR_NOWAIT = 1, /* handle what is ready now */
  FLUX_REACTOR_ONCE = 2,   /* wait for one round of events */
};

/* Makes one for the plugin itself. `flags` is 0. */
flux_reactor_t* flux_reactor_create(int flags) FLUX_NOTHROW;
void flux_reactor_destroy(flux_reactor_t* r) FLUX_NOTHROW; /* drops a reference, as decref; its watchers go first */
void flux_reactor_incref(flux_reactor_t* r) FLUX_NOTHROW;
void flux_reactor_decref(flux_reactor_t* r) FLUX_NOTHROW;

/* Runs until no referenced watcher is active any more, or until it is stopped. Returns how many watchers are
 * active; -1 after flux_reactor_stop_error(). EBUSY for the shell's own, which runs already. */
int flux_reactor_run(flux_reactor_t* r, int flags);
void flux_reactor_stop(flux_reactor_t* r) FLUX_NOTHROW; /* does nothing to the shell's own */
void flux_reactor_stop_error(flux_reactor_t* r) FLUX_NOTHROW;

double flux_reactor_now(flux_reactor_t* r) FLUX_NOTHROW; /* since the epoch, as of this round of events */
void flux_reactor_now_update(flux_reactor_t* r) FLUX_NOTHROW;
double flux_reactor_time(void) FLUX_NOTHROW; /* since the epoch, now */

/* --- watchers --- */

typedef void (*flux_watcher_f)(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg);

void flux_watcher_start(flux_watcher_t* w) FLUX_NOTHROW;
void flux_watcher_stop(flux_watcher_t* w) FLUX_NOTHROW;
void flux_watcher_destroy(flux_watcher_t* w) FLUX_NOTHROW;
bool flux_watcher_is_active(flux_watcher_t* w) FLUX_NOTHROW;
/* A watcher keeps flux_reactor_run() going while it is active, unless it is unref'ed. */
void flux_watcher_ref(flux_watcher_t* w) FLUX_NOTHROW;
void flux_watcher_unref(flux_watcher_t* w) FLUX_NOTHROW;
bool flux_watcher_is_referenced(flux_watcher_t* w) FLUX_NOTHROW;
void flux_watcher_set_priority(flux_watcher_t* w, int priority) FLUX_NOTHROW; /* -2 to 2; no effect here */
/* When an active timer or periodic watcher is due, as flux_reactor_now(); less than 0 and EINVAL for all others. */
double flux_watcher_next_wakeup(flux_watcher_t* w) FLUX_NOTHROW;

/* `events` of FLUX_POLLIN, FLUX_POLLOUT. The descriptor still belongs to the caller; it is set O_NONBLOCK, and can
 * have one watcher; a regular file can have none. */
flux_watcher_t* flux_fd_watcher_create(flux_reactor_t* r, int fd, int events, flux_watcher_f cb,
                                       void* arg) FLUX_NOTHROW;
int flux_fd_watcher_get_fd(flux_watcher_t* w) FLUX_NOTHROW;

/* First `after` its start, then every `repeat` unless that is 0. reset takes effect at the next start; again
 * (re)starts it with `repeat`, and stops it if that is 0. */
flux_watcher_t* flux_timer_watcher_create(flux_reactor_t* r, double after, double repeat, flux_watcher_f cb,
                                          void* arg) FLUX_NOTHROW;
void flux_timer_watcher_reset(flux_watcher_t* w, double after, double repeat) FLUX_NOTHROW;
void flux_timer_watcher_again(flux_watcher_t* w) FLUX_NOTHROW;

/* By the wall clock: at `offset` since the epoch if `interval` is 0, else at offset + n * interval; or at the time that
 * `reschedule_cb` returns, which gets the current one (if it returns no later time, the watcher is stopped). */
typedef double (*flux_reschedule_f)(flux_watcher_t* w, double now, void* arg);
flux_watcher_t* flux_periodic_watcher_create(flux_reactor_t* r, double offset, double interval,
                                             flux_reschedule_f reschedule_cb, flux_watcher_f cb,
                                             void* arg) FLUX_NOTHROW;
void flux_periodic_watcher_reset(flux_watcher_t* w, double offset, double interval,
                                 flux_reschedule_f reschedule_cb) FLUX_NOTHROW;

/* Called before the loop waits, after it has waited, or in each round, which then does not wait. */
flux_watcher_t* flux_prepare_watcher_create(flux_reactor_t* r, flux_watcher_f cb, void* arg) FLUX_NOTHROW;
flux_watcher_t* flux_check_watcher_create(flux_reactor_t* r, flux_watcher_f cb, void* arg) FLUX_NOTHROW;
flux_watcher_t* flux_idle_watcher_create(flux_reactor_t* r, flux_watcher_f cb, void* arg) FLUX_NOTHROW;

/* For signals of the shell: the shell itself still handles them too. */
flux_watcher_t* flux_signal_watcher_create(flux_reactor_t* r, int signum, flux_watcher_f cb,
                                           void* arg) FLUX_NOTHROW;
int flux_signal_watcher_get_signum(flux_watcher_t* w) FLUX_NOTHROW;

/* Changes of a file's status, checked every `interval` (0: 5 s). If there is no file st_nlink is 0. */
flux_watcher_t* flux_stat_watcher_create(flux_reactor_t* r, const char* path, double interval, flux_watcher_f cb,
                                         void* arg) FLUX_NOTHROW;
int flux_stat_watcher_get_rstat(flux_watcher_t* w, struct stat* stat, struct stat* prev) FLUX_NOTHROW;

/* A handle has messages to be received (FLUX_POLLIN). It can always send (FLUX_POLLOUT). */
flux_watcher_t* flux_handle_watcher_create(flux_reactor_t* r, flux_t* h, int events, flux_watcher_f cb,
                                           void* arg) FLUX_NOTHROW;
flux_t* flux_handle_watcher_get_flux(flux_watcher_t* w) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_REACTOR_H */
