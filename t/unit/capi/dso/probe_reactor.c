/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-reactor"
#include "probe.h"

#include <signal.h>
#include <unistd.h>

/* What has happened, one letter each. */
static char seen[64];

static void note(char what) {
  size_t length = strlen(seen);
  if (length + 1 < sizeof seen) seen[length] = what;
}

static void on_event(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  (void)r, (void)w, (void)revents;
  note(*(const char*)arg);
}

static flux_reactor_t* reactor_of(flux_shell_t* shell) { return flux_get_reactor(flux_shell_get_flux(shell)); }

/* --- bad arguments --- */

PROBE(refused) {
  flux_reactor_t* r = reactor_of(shell);
  struct stat status;
  FAILS(flux_reactor_create(77) == NULL, EINVAL);
  FAILS(flux_reactor_run(NULL, 0) == -1, EINVAL);
  FAILS(flux_reactor_run(r, 64) == -1, EINVAL);
  FAILS(flux_reactor_now(NULL) < 0, EINVAL);
  FAILS(flux_fd_watcher_create(NULL, 0, FLUX_POLLIN, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_fd_watcher_create(r, -1, FLUX_POLLIN, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_timer_watcher_create(NULL, 0, 0, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_timer_watcher_create(r, -1, 0, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_timer_watcher_create(r, 0, -1, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_periodic_watcher_create(r, -1, 0, NULL, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_prepare_watcher_create(NULL, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_idle_watcher_create(NULL, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_signal_watcher_create(r, 0, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_signal_watcher_create(r, 1000, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_stat_watcher_create(r, NULL, 0, on_event, NULL) == NULL, EINVAL);
  FAILS(flux_handle_watcher_create(r, NULL, FLUX_POLLIN, on_event, NULL) == NULL, EINVAL);

  flux_watcher_t* idle = flux_idle_watcher_create(r, on_event, "x");
  FAILS(flux_fd_watcher_get_fd(idle) == -1, EINVAL);
  FAILS(flux_signal_watcher_get_signum(idle) == -1, EINVAL);
  FAILS(flux_stat_watcher_get_rstat(idle, &status, NULL) == -1, EINVAL);
  FAILS(flux_handle_watcher_get_flux(idle) == NULL, EINVAL);
  FAILS(flux_watcher_next_wakeup(idle) < 0, EINVAL);
  FAILS(flux_watcher_next_wakeup(NULL) < 0, EINVAL);
  flux_watcher_destroy(idle);

  flux_watcher_destroy(NULL);
  flux_watcher_start(NULL);
  flux_watcher_stop(NULL);
  flux_watcher_ref(NULL);
  flux_watcher_unref(NULL);
  flux_watcher_set_priority(NULL, 1);
  EXPECT(!flux_watcher_is_active(NULL) && !flux_watcher_is_referenced(NULL));
  flux_reactor_destroy(NULL);
  flux_reactor_incref(NULL);
  flux_reactor_stop(NULL);
  flux_reactor_stop_error(NULL);
  flux_reactor_now_update(NULL);
}

/* --- a reactor of one's own --- */

static void stop_it(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  (void)w, (void)revents;
  if (arg != NULL) {
    flux_reactor_stop_error(r);
  } else {
    flux_reactor_stop(r);
  }
}

/* Watchers without a callback. */
PROBE(silent) {
  flux_reactor_t* r = flux_reactor_create(0);
  flux_watcher_t* all[] = {flux_timer_watcher_create(r, 0., 0., NULL, NULL),
                           flux_periodic_watcher_create(r, 0., 0., NULL, NULL, NULL),
                           flux_prepare_watcher_create(r, NULL, NULL),
                           flux_check_watcher_create(r, NULL, NULL),
                           flux_idle_watcher_create(r, NULL, NULL),
                           flux_signal_watcher_create(r, SIGUSR2, NULL, NULL),
                           flux_fd_watcher_create(r, 0, FLUX_POLLIN, NULL, NULL),
                           flux_stat_watcher_create(r, "/", 0, NULL, NULL),
                           flux_handle_watcher_create(r, flux_shell_get_flux(shell), FLUX_POLLOUT, NULL, NULL)};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    EXPECT(all[i] != NULL);
    if (i < 5) flux_watcher_start(all[i]);
  }
  for (int i = 0; i < 5; ++i) EXPECT(flux_reactor_run(r, FLUX_REACTOR_NOWAIT) >= 0);
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) flux_watcher_destroy(all[i]);
  flux_reactor_destroy(r);
}

/* By each clock that there is no timer is early. */
PROBE(never_early) {
  flux_reactor_t* r = flux_reactor_create(0);
  for (int i = 0; i < 30; ++i) {
    double wait = 0.002 + i * 0.0001;
    flux_watcher_t* w = flux_timer_watcher_create(r, wait, 0., NULL, NULL);
    flux_reactor_now_update(r);
    double now = flux_reactor_now(r), time = flux_reactor_time();
    flux_watcher_start(w);
    EXPECT(flux_reactor_run(r, 0) == 0);
    flux_reactor_now_update(r);
    EXPECT(flux_reactor_now(r) - now >= wait && flux_reactor_time() - time >= wait);
    flux_watcher_destroy(w);
  }
  flux_reactor_destroy(r);
}

static void count_down(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  (void)r, (void)revents;
  if (--*(int*)arg == 0) flux_watcher_stop(w);
}

PROBE(own_reactor) {
  flux_reactor_t* r = flux_reactor_create(0);
  flux_watcher_t* w = flux_timer_watcher_create(r, 0., 0., on_event, "t");
  memset(seen, 0, sizeof seen);
  EXPECT(flux_reactor_run(r, 0) == 0 && same(seen, ""));
  flux_watcher_start(w);
  EXPECT(flux_watcher_is_active(w) && flux_watcher_is_referenced(w));
  EXPECT(flux_watcher_next_wakeup(w) >= flux_reactor_now(r) - 0.001);
  flux_watcher_start(w);
  EXPECT(flux_reactor_run(r, 0) == 0 && same(seen, "t"));
  EXPECT(!flux_watcher_is_active(w));

  /* Unreferenced, it does not keep the reactor running. */
  flux_timer_watcher_reset(w, 600., 0.);
  flux_watcher_unref(w);
  EXPECT(!flux_watcher_is_referenced(w));
  flux_watcher_start(w);
  EXPECT(flux_reactor_run(r, 0) == 0 && same(seen, "t"));
  flux_watcher_ref(w);
  EXPECT(flux_watcher_is_referenced(w));
  EXPECT(flux_reactor_run(r, FLUX_REACTOR_NOWAIT) == 1);
  flux_watcher_destroy(w);

  /* again: with its repeat, or not at all. */
  int rounds = 3;
  w = flux_timer_watcher_create(r, 600., 0.001, count_down, &rounds);
  flux_timer_watcher_again(w);
  EXPECT(flux_reactor_run(r, 0) == 0 && rounds == 0);
  flux_timer_watcher_reset(w, 0., 0.);
  flux_watcher_start(w);
  flux_timer_watcher_again(w);
  EXPECT(!flux_watcher_is_active(w));
  flux_watcher_destroy(w);

  /* stop, stop_error */
  w = flux_idle_watcher_create(r, stop_it, NULL);
  flux_watcher_start(w);
  EXPECT(flux_reactor_run(r, 0) == 1);
  flux_watcher_destroy(w);
  w = flux_idle_watcher_create(r, stop_it, r);
  flux_watcher_start(w);
  EXPECT(flux_reactor_run(r, 0) == -1);

  /* A watcher may outlive its reactor. */
  flux_reactor_incref(r);
  flux_reactor_decref(r);
  EXPECT(flux_watcher_is_active(w));
  flux_reactor_destroy(r);
  EXPECT(!flux_watcher_is_active(w));
  flux_watcher_start(w);
  EXPECT(!flux_watcher_is_active(w));
  flux_watcher_destroy(w);
}

PROBE(clocks) {
  flux_reactor_t* r = reactor_of(shell);
  double before = flux_reactor_time();
  flux_reactor_now_update(r);
  double now = flux_reactor_now(r);
  EXPECT(now >= before - 0.1 && now <= flux_reactor_time() + 0.1);
  EXPECT(flux_reactor_now(r) == now);
}

static double next_time(flux_watcher_t* w, double now, void* arg) {
  (void)w;
  int* left = arg;
  return (*left)-- > 0 ? now + 0.001 : now - 1;
}

static void nothing(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  (void)r, (void)w, (void)revents, (void)arg;
  note('.');
}

PROBE(periodic) {
  flux_reactor_t* r = flux_reactor_create(0);
  int left = 2;
  memset(seen, 0, sizeof seen);
  flux_watcher_t* w = flux_periodic_watcher_create(r, 0., 0., next_time, nothing, &left);
  flux_watcher_start(w);
  EXPECT(flux_reactor_run(r, 0) == 0);
  EXPECT(same(seen, "..") && !flux_watcher_is_active(w));

  /* Once, at a time that has gone by. */
  flux_periodic_watcher_reset(w, 1., 0., NULL);
  flux_watcher_start(w);
  EXPECT(flux_reactor_run(r, 0) == 0 && same(seen, "..."));

  /* The next whole 1000 seconds. */
  flux_periodic_watcher_reset(w, 0., 1000., NULL);
  flux_watcher_start(w);
  double next = flux_watcher_next_wakeup(w);
  EXPECT(next > flux_reactor_time() - 1 && next <= flux_reactor_time() + 1001);
  EXPECT((long)(next + 0.5) % 1000 == 0);
  flux_watcher_destroy(w);
  flux_reactor_destroy(r);
}

PROBE(phases) {
  flux_reactor_t* r = flux_reactor_create(0);
  flux_watcher_t* prepare = flux_prepare_watcher_create(r, on_event, "p");
  flux_watcher_t* check = flux_check_watcher_create(r, on_event, "c");
  flux_watcher_t* idle = flux_idle_watcher_create(r, on_event, "i");
  memset(seen, 0, sizeof seen);
  flux_watcher_set_priority(check, 1);
  flux_watcher_start(prepare);
  flux_watcher_start(check);
  flux_watcher_start(idle);
  EXPECT(flux_reactor_run(r, FLUX_REACTOR_ONCE) == 3);
  EXPECT(same(seen, "ipc"));
  flux_watcher_destroy(prepare);
  flux_watcher_destroy(check);
  flux_watcher_destroy(idle);
  flux_reactor_destroy(r);
}

static void read_it(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  (void)r, (void)arg;
  char byte;
  EXPECT(revents == FLUX_POLLIN);
  ssize_t got = read(flux_fd_watcher_get_fd(w), &byte, 1);
  note(got == 1 ? byte : '|');
  if (got <= 0) flux_watcher_destroy(w);
}

PROBE(descriptors) {
  flux_reactor_t* r = flux_reactor_create(0);
  int fds[2];
  EXPECT(pipe(fds) == 0);
  memset(seen, 0, sizeof seen);
  flux_watcher_t* w = flux_fd_watcher_create(r, fds[0], FLUX_POLLIN, read_it, NULL);
  EXPECT(flux_fd_watcher_get_fd(w) == fds[0]);
  flux_watcher_start(w);
  EXPECT(write(fds[1], "ab", 2) == 2);
  close(fds[1]);
  EXPECT(flux_reactor_run(r, 0) == 0);
  EXPECT(same(seen, "ab|"));
  close(fds[0]);
  flux_reactor_destroy(r);
}

PROBE(files) {
  flux_reactor_t* r = flux_reactor_create(0);
  char path[] = "/tmp/probe-stat-XXXXXX";
  int fd = mkstemp(path);
  struct stat now, before;
  memset(seen, 0, sizeof seen);
  flux_watcher_t* w = flux_stat_watcher_create(r, path, 0.001, on_event, "s");
  flux_watcher_start(w);
  EXPECT(write(fd, "x", 1) == 1);
  while (same(seen, "")) flux_reactor_run(r, FLUX_REACTOR_ONCE);
  EXPECT(flux_stat_watcher_get_rstat(w, &now, &before) == 0 && now.st_size == 1 && before.st_size == 0);
  unlink(path);
  while (same(seen, "s")) flux_reactor_run(r, FLUX_REACTOR_ONCE);
  EXPECT(flux_stat_watcher_get_rstat(w, &now, NULL) == 0 && now.st_nlink == 0);
  close(fd);
  flux_watcher_destroy(w);
  flux_reactor_destroy(r);
}

/* --- the shell's --- */

static flux_watcher_t* of_signal;

static void on_signal(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  (void)revents, (void)arg;
  EXPECT(flux_signal_watcher_get_signum(w) == SIGUSR1);
  EXPECT(flux_reactor_run(r, 0) == -1 && errno == EBUSY);
  note('u');
  flux_watcher_destroy(w);
}

PROBE(begin) {
  flux_reactor_t* r = reactor_of(shell);
  memset(seen, 0, sizeof seen);
  of_signal = flux_signal_watcher_create(r, SIGUSR1, on_signal, NULL);
  flux_watcher_start(of_signal);
  flux_watcher_t* left_behind = flux_timer_watcher_create(r, 600., 0., on_event, "never");
  flux_watcher_unref(left_behind);
  flux_watcher_start(left_behind);
  raise(SIGUSR1);
}

PROBE(end) { EXPECT(same(seen, "u")); }

static void crash(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  (void)r, (void)w, (void)revents, (void)arg;
  raise(SIGSEGV);
}

PROBE(crash_later) { flux_watcher_start(flux_timer_watcher_create(reactor_of(shell), 0., 0., crash, NULL)); }

static const struct flux_plugin_handler table[] = {
    {"probe.silent", silent, NULL},
    {"probe.never-early", never_early, NULL},
    {"probe.refused", refused, NULL},
    {"probe.own-reactor", own_reactor, NULL},
    {"probe.clocks", clocks, NULL},
    {"probe.periodic", periodic, NULL},
    {"probe.phases", phases, NULL},
    {"probe.descriptors", descriptors, NULL},
    {"probe.files", files, NULL},
    {"probe.begin", begin, NULL},
    {"probe.end", end, NULL},
    {"probe.crash-later", crash_later, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
