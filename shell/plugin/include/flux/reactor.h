/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop as plugins see it, and what it can watch. The shell's own is
 * flux_get_reactor(flux_shell_get_flux()).
 *
 * Times are seconds. create functions return NULL with errno set: EINVAL if the reactor or the callback is NULL or
 * an argument is out of range, else that of the system call behind. A watcher is created stopped, to be destroyed
 * by its creator; a callback may start, stop and destroy it. Functions that take a watcher of another kind set
 * EINVAL.
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

/* One of the plugin's own. `flags` is 0. */
flux_reactor_t* flux_reactor_create(int flags) FLUX_NOTHROW;
void flux_reactor_destroy(flux_reactor_t* r) FLUX_NOTHROW; /* drops a reference, as decref; its watchers go first */
void flux_reactor_incref(flux_reactor_t* r) FLUX_NOTHROW;
void flux_reactor_decref(flux_reactor_t* r) FLUX_NOTHROW;

/* Until nothing referenced is active any more, or it is stopped. How many watchers are active; -1 after
 * flux_reactor_stop_error(). The shell's own runs already: EBUSY. */
int flux_reactor_run(flux_reactor_t* r, int flags);
void flux_reactor_stop(flux_reactor_t* r) FLUX_NOTHROW; /* the shell's own: nothing */
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
/* A watcher keeps flux_reactor_run() going while it is active; not when it is unref'ed. */
void flux_watcher_ref(flux_watcher_t* w) FLUX_NOTHROW;
void flux_watcher_unref(flux_watcher_t* w) FLUX_NOTHROW;
bool flux_watcher_is_referenced(flux_watcher_t* w) FLUX_NOTHROW;
void flux_watcher_set_priority(flux_watcher_t* w, int priority) FLUX_NOTHROW; /* -2 to 2; no effect here */
/* When an active timer or periodic watcher is due, as flux_reactor_now(); less than 0 and EINVAL for all else. */
double flux_watcher_next_wakeup(flux_watcher_t* w) FLUX_NOTHROW;

/* `events` of FLUX_POLLIN, FLUX_POLLOUT. The descriptor stays the caller's, is set O_NONBLOCK, and can have one
 * watcher; a regular file can have none. */
flux_watcher_t* flux_fd_watcher_create(flux_reactor_t* r, int fd, int events, flux_watcher_f cb,
                                       void* arg) FLUX_NOTHROW;
int flux_fd_watcher_get_fd(flux_watcher_t* w) FLUX_NOTHROW;

/* First `after` its start, then every `repeat` unless that is 0. reset: takes effect when it is next started;
 * again: (re)starts it with `repeat`, and stops it if that is 0. */
flux_watcher_t* flux_timer_watcher_create(flux_reactor_t* r, double after, double repeat, flux_watcher_f cb,
                                          void* arg) FLUX_NOTHROW;
void flux_timer_watcher_reset(flux_watcher_t* w, double after, double repeat) FLUX_NOTHROW;
void flux_timer_watcher_again(flux_watcher_t* w) FLUX_NOTHROW;

/* By the wall clock: at `offset` since the epoch if `interval` is 0, else at offset + n * interval; or when
 * `reschedule_cb` says, which gets the time and returns a later one (else the watcher is stopped). */
typedef double (*flux_reschedule_f)(flux_watcher_t* w, double now, void* arg);
flux_watcher_t* flux_periodic_watcher_create(flux_reactor_t* r, double offset, double interval,
                                             flux_reschedule_f reschedule_cb, flux_watcher_f cb,
                                             void* arg) FLUX_NOTHROW;
void flux_periodic_watcher_reset(flux_watcher_t* w, double offset, double interval,
                                 flux_reschedule_f reschedule_cb) FLUX_NOTHROW;

/* Before the loop waits, after it has waited, and in each round, which then does not wait. */
flux_watcher_t* flux_prepare_watcher_create(flux_reactor_t* r, flux_watcher_f cb, void* arg) FLUX_NOTHROW;
flux_watcher_t* flux_check_watcher_create(flux_reactor_t* r, flux_watcher_f cb, void* arg) FLUX_NOTHROW;
flux_watcher_t* flux_idle_watcher_create(flux_reactor_t* r, flux_watcher_f cb, void* arg) FLUX_NOTHROW;

/* Of the shell's signals: what the shell itself does with them, it still does. */
flux_watcher_t* flux_signal_watcher_create(flux_reactor_t* r, int signum, flux_watcher_f cb,
                                           void* arg) FLUX_NOTHROW;
int flux_signal_watcher_get_signum(flux_watcher_t* w) FLUX_NOTHROW;

/* Changes of a file's status, looked for every `interval` (0: 5 s). Without a file st_nlink is 0. */
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
