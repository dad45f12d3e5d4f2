/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-future"
#include "probe.h"

static int freed;

static void count_free(void* arg) {
  (void)arg;
  ++freed;
}

static int value_of(flux_future_t* f) {
  const void* result = NULL;
  if (flux_future_get(f, &result) < 0) return -1;
  return result != NULL ? *(const int*)result : 0;
}

static int one = 1, two = 2, three = 3;

/* --- results --- */

PROBE(results) {
  flux_future_t* f = flux_future_create(NULL, NULL);
  freed = 0;
  EXPECT(!flux_future_is_ready(f) && !flux_future_has_error(f) && flux_future_error_string(f) == NULL);
  FAILS(flux_future_wait_for(f, 0.) == -1, ETIMEDOUT);
  FAILS(flux_future_wait_for(f, -1.) == -1, EDEADLOCK);
  FAILS(flux_future_get(f, NULL) == -1, EDEADLOCK);
  flux_future_fulfill(f, &one, count_free);
  flux_future_fulfill(f, &two, count_free);
  flux_future_fulfill_error(f, EBADF, "bad");
  flux_future_fulfill_error(f, EPERM, NULL);
  EXPECT(flux_future_is_ready(f) && flux_future_wait_for(f, 0.) == 0);
  EXPECT(value_of(f) == 1 && value_of(f) == 1);
  flux_future_reset(f);
  EXPECT(freed == 1 && value_of(f) == 2 && !flux_future_has_error(f));
  flux_future_reset(f);
  FAILS(flux_future_get(f, NULL) == -1, EBADF);
  EXPECT(flux_future_has_error(f) && same(flux_future_error_string(f), "bad"));
  flux_future_reset(f);
  EXPECT(same(future_strerror(f, 0), "Operation not permitted"));
  flux_future_reset(f);
  EXPECT(!flux_future_is_ready(f) && same(future_strerror(f, ENOENT), "No such file or directory"));
  flux_future_fulfill(f, &three, count_free);
  flux_future_fatal_error(f, EIO, "fatal");
  flux_future_fatal_error(f, EPERM, "later");
  FAILS(flux_future_get(f, NULL) == -1, EIO);
  flux_future_reset(f);
  FAILS(flux_future_get(f, NULL) == -1, EIO);
  EXPECT(same(flux_future_error_string(f), "fatal"));
  flux_future_incref(f);
  flux_future_destroy(f);
  EXPECT(flux_future_is_ready(f));
  flux_future_decref(f);
  EXPECT(freed == 3);
}

PROBE(refused) {
  flux_future_t* f = flux_future_create(NULL, NULL);
  FAILS(flux_future_get(NULL, NULL) == -1, EINVAL);
  FAILS(flux_future_wait_for(NULL, 0.) == -1, EINVAL);
  FAILS(flux_future_then(NULL, 0., NULL, NULL) == -1, EINVAL);
  FAILS(flux_future_then(f, 0., NULL, NULL) == -1, EINVAL);
  FAILS(flux_future_fulfill_with(NULL, f) == -1, EINVAL);
  FAILS(flux_future_fulfill_with(f, NULL) == -1, EINVAL);
  FAILS(flux_future_fulfill_with(f, f) == -1, EINVAL);
  FAILS(flux_future_aux_set(NULL, "a", f, NULL) == -1, EINVAL);
  FAILS(flux_future_aux_set(f, NULL, NULL, NULL) == -1, EINVAL);
  FAILS(flux_future_aux_get(NULL, "a") == NULL, EINVAL);
  FAILS(flux_future_aux_get(f, NULL) == NULL, EINVAL);
  FAILS(flux_future_aux_get(f, "a") == NULL, ENOENT);
  FAILS(flux_future_get_reactor(NULL) == NULL, EINVAL);
  FAILS(flux_future_get_flux(NULL) == NULL, EINVAL);
  FAILS(flux_future_get_flux(f) == NULL, EINVAL);
  FAILS(flux_future_push(NULL, "a", f) == -1, EINVAL);
  FAILS(flux_future_push(f, "a", f) == -1, EINVAL);
  FAILS(flux_future_get_child(NULL, "a") == NULL, EINVAL);
  FAILS(flux_future_first_child(NULL) == NULL, EINVAL);
  FAILS(flux_future_next_child(NULL) == NULL, EINVAL);
  FAILS(flux_future_and_then(NULL, NULL, NULL) == NULL, EINVAL);
  FAILS(flux_future_or_then(NULL, NULL, NULL) == NULL, EINVAL);
  FAILS(flux_future_continue(NULL, f) == -1, EINVAL);
  FAILS(flux_future_continue(f, NULL) == -1, ENOENT);
  FAILS(flux_future_fulfill_next(f, NULL, NULL) == -1, ENOENT);
  EXPECT(!flux_future_is_ready(NULL) && !flux_future_has_error(NULL) && flux_future_error_string(NULL) == NULL);
  flux_future_fulfill(NULL, NULL, NULL);
  flux_future_fulfill_error(NULL, 1, NULL);
  flux_future_fatal_error(NULL, 1, NULL);
  flux_future_reset(NULL);
  flux_future_destroy(NULL);
  flux_future_destroy(f);
}

PROBE(carried) {
  flux_t* h = flux_shell_get_flux(shell);
  flux_future_t *f = flux_future_create(NULL, NULL), *source = flux_future_create(NULL, NULL);
  freed = 0;
  EXPECT(flux_future_get_reactor(f) == flux_get_reactor(h));
  flux_future_set_flux(f, h);
  EXPECT(flux_future_get_flux(f) == h);
  flux_reactor_t* r = flux_reactor_create(0);
  flux_future_set_reactor(f, r);
  EXPECT(flux_future_get_reactor(f) == r);
  flux_reactor_destroy(r);
  EXPECT(flux_future_aux_set(source, "of p", &one, count_free) == 0);
  FAILS(flux_future_fulfill_with(f, source) == -1, EAGAIN);
  flux_future_fulfill(source, &two, count_free);
  EXPECT(flux_future_fulfill_with(f, source) == 0);
  flux_future_destroy(source);
  EXPECT(freed == 0 && value_of(f) == 2);
  EXPECT(flux_future_aux_get(f, "of p") == &one);
  source = flux_future_create(NULL, NULL);
  flux_future_fulfill_error(source, EXDEV, "other");
  FAILS(flux_future_fulfill_with(f, source) == -1, EEXIST);
  flux_future_destroy(f);
  EXPECT(freed == 2);
  f = flux_future_create(NULL, NULL);
  EXPECT(flux_future_fulfill_with(f, source) == 0);
  FAILS(flux_future_get(f, NULL) == -1, EXDEV);
  EXPECT(same(flux_future_error_string(f), "other"));
  flux_future_destroy(f);
  flux_future_destroy(source);
}

/* --- waiting: the future sets up a timer on the reactor that it is given --- */

static void on_timer(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  (void)r, (void)w, (void)revents;
  flux_future_fulfill(arg, &three, NULL);
}

static void destroy_watcher(void* arg) { flux_watcher_destroy(arg); }

static int set_ups;

static void set_up(flux_future_t* f, void* arg) {
  flux_watcher_t* w = flux_timer_watcher_create(flux_future_get_reactor(f), *(double*)arg, 0., on_timer, f);
  flux_future_aux_set(f, NULL, w, destroy_watcher);
  flux_watcher_start(w);
  ++set_ups;
}

PROBE(waiting) {
  double soon = 0.001, late = 600;
  set_ups = 0;
  flux_future_t* f = flux_future_create(set_up, &soon);
  EXPECT(set_ups == 0);
  EXPECT(flux_future_wait_for(f, 100.) == 0 && value_of(f) == 3 && set_ups == 1);
  flux_future_destroy(f);
  f = flux_future_create(set_up, &late);
  FAILS(flux_future_wait_for(f, 0.001) == -1, ETIMEDOUT);
  FAILS(flux_future_wait_for(f, 0.001) == -1, ETIMEDOUT);
  EXPECT(set_ups == 2);
  flux_future_destroy(f);
}

/* --- continuations --- */

static char seen[256];

static void note(flux_future_t* f, void* arg) {
  const void* result;
  char text[64];
  if (flux_future_get(f, &result) < 0) {
    snprintf(text, sizeof text, "%s!%s;", (const char*)arg, flux_future_error_string(f));
  } else {
    snprintf(text, sizeof text, "%s%d;", (const char*)arg, result != NULL ? *(const int*)result : 0);
  }
  strncat(seen, text, sizeof seen - strlen(seen) - 1);
  flux_future_reset(f);
}

static void note_and_destroy(flux_future_t* f, void* arg) {
  note(f, arg);
  flux_future_destroy(f);
}

static double soon = 0.001, late = 600;
static flux_future_t *many, *timed;

PROBE(begin) {
  seen[0] = '\0';
  many = flux_future_create(NULL, NULL);
  EXPECT(flux_future_then(many, -1., note, "many") == 0);
  flux_future_fulfill(many, &one, NULL);
  flux_future_fulfill(many, &two, NULL);
  EXPECT(same(seen, "")); /* never from within */
  timed = flux_future_create(set_up, &late);
  EXPECT(flux_future_then(timed, 0.001, note_and_destroy, "timed") == 0);
}

/* Another continuation takes the place of the first; a reset starts the time again. */
static int timeouts;

static void on_timeout(flux_future_t* f, void* arg) {
  EXPECT(arg == &timeouts);
  FAILS(flux_future_get(f, NULL) == -1, ETIMEDOUT);
  if (++timeouts < 3) {
    flux_future_reset(f);
  } else if (timeouts == 3) {
    flux_future_reset(f);
    EXPECT(flux_future_then(f, 0., on_timeout, arg) == 0);
  } else {
    flux_future_destroy(f);
  }
}

PROBE(begin_again) {
  timeouts = 0;
  flux_future_t* f = flux_future_create(NULL, NULL);
  EXPECT(flux_future_then(f, 600., note, "never") == 0);
  EXPECT(flux_future_then(f, 0.001, on_timeout, &timeouts) == 0);
}

PROBE(end_again) { EXPECT(timeouts == 4); }

PROBE(end) {
  EXPECT(same(seen, "many1;many2;timed!Connection timed out;"));
  if (!same(seen, "many1;many2;timed!Connection timed out;")) shell_log_error("%s", seen);
  flux_future_destroy(many);
}

/* --- several, and one after another --- */

PROBE(several) {
  flux_future_t* all = flux_future_wait_all_create();
  flux_future_t* a = flux_future_create(NULL, NULL);
  flux_future_t* b = flux_future_create(set_up, &soon);
  EXPECT(flux_future_push(all, "a", a) == 0 && flux_future_push(all, "b", b) == 0);
  FAILS(flux_future_push(all, "a", b) == -1, EEXIST);
  EXPECT(same(flux_future_first_child(all), "a") && same(flux_future_next_child(all), "b"));
  EXPECT(flux_future_next_child(all) == NULL);
  EXPECT(flux_future_get_child(all, "b") == b);
  FAILS(flux_future_get_child(all, "c") == NULL, ENOENT);
  FAILS(flux_future_wait_for(all, 0.01) == -1, ETIMEDOUT);
  flux_future_fulfill(a, &one, NULL);
  EXPECT(flux_future_wait_for(all, 100.) == 0 && flux_future_get(all, NULL) == 0);
  flux_future_destroy(all);

  flux_future_t* any = flux_future_wait_any_create();
  EXPECT(flux_future_push(any, NULL, flux_future_create(NULL, NULL)) == 0);
  a = flux_future_create(NULL, NULL);
  EXPECT(flux_future_push(any, NULL, a) == 0);
  flux_future_fulfill_error(a, EXDEV, "of a");
  FAILS(flux_future_get(any, NULL) == -1, EXDEV);
  EXPECT(same(flux_future_error_string(any), "of a"));
  EXPECT(flux_future_get_child(any, "1") == a);
  flux_future_destroy(any);
}

static void go_on_with(flux_future_t* prev, void* arg) {
  EXPECT(flux_future_continue(prev, flux_future_create(set_up, arg)) == 0);
  flux_future_destroy(prev);
}

static void go_on_at_once(flux_future_t* prev, void* arg) { flux_future_fulfill_next(prev, arg, NULL); }
static void fail_here(flux_future_t* prev, void* arg) { flux_future_continue_error(prev, EXDEV, arg); }
static void pass_on(flux_future_t* prev, void* arg) {
  (void)prev;
  ++*(int*)arg;
}

PROBE(one_after_another) {
  int calls = 0;
  flux_future_t* f = flux_future_create(set_up, &soon);
  flux_future_t* next = flux_future_and_then(f, go_on_with, &soon);
  FAILS(flux_future_and_then(f, go_on_with, NULL) == NULL, EEXIST);
  EXPECT(value_of(next) == 3);
  flux_future_destroy(next);

  f = flux_future_create(NULL, NULL);
  flux_future_fulfill_error(f, EBADF, NULL);
  next = flux_future_or_then(flux_future_and_then(f, go_on_with, &soon), go_on_at_once, &two);
  EXPECT(value_of(next) == 2);
  flux_future_destroy(next);

  f = flux_future_create(NULL, NULL);
  flux_future_fulfill(f, &one, NULL);
  next = flux_future_or_then(flux_future_and_then(f, pass_on, &calls), pass_on, &calls);
  EXPECT(value_of(next) == 1 && calls == 1);
  flux_future_destroy(next);

  f = flux_future_create(NULL, NULL);
  flux_future_fulfill(f, &one, NULL);
  next = flux_future_and_then(f, fail_here, "no further");
  FAILS(flux_future_get(next, NULL) == -1, EXDEV);
  EXPECT(same(flux_future_error_string(next), "no further"));
  flux_future_destroy(next);
}

static const struct flux_plugin_handler table[] = {
    {"probe.results", results, NULL},
    {"probe.refused", refused, NULL},
    {"probe.carried", carried, NULL},
    {"probe.waiting", waiting, NULL},
    {"probe.begin", begin, NULL},
    {"probe.end", end, NULL},
    {"probe.begin-again", begin_again, NULL},
    {"probe.end-again", end_again, NULL},
    {"probe.several", several, NULL},
    {"probe.one-after-another", one_after_another, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
