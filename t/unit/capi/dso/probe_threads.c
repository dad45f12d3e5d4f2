/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-threads"
#include "probe.h"

#include <pthread.h>

/* --- messages --- */

static int received;

static void* speak(void* arg) {
  for (int i = 1; i <= 3; ++i) {
    flux_msg_t* msg = flux_request_encode("count", NULL);
    flux_msg_pack(msg, "{s:i}", "n", i);
    flux_send_new(arg, &msg, 0);
  }
  return NULL;
}

static void listen_to(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  int n = 0;
  (void)arg;
  EXPECT(revents == FLUX_POLLIN);
  flux_msg_t* msg = flux_recv(flux_handle_watcher_get_flux(w), FLUX_MATCH_ANY, 0);
  EXPECT(flux_request_unpack(msg, NULL, "{s:i}", "n", &n) == 0);
  received = 10 * received + n;
  flux_msg_destroy(msg);
  if (n == 3) flux_reactor_stop(r);
}

PROBE(threads) {
  received = 0;
  flux_error_t error;
  flux_t* here = flux_open("interthread://probe", 0);
  flux_t* there = flux_open("interthread://probe", 0);
  EXPECT(here != NULL && there != NULL);
  FAILS(flux_open_ex("interthread://probe", 0, &error) == NULL, EADDRINUSE);
  FAILS(flux_open(NULL, 0) == NULL, ENOSYS);
  FAILS(flux_open_ex("local:///run/flux/local", 0, &error) == NULL, ENOSYS);
  EXPECT(same(error.text, "there is no Flux broker to connect to"));
  flux_reactor_t* r = flux_reactor_create(0);
  EXPECT(flux_set_reactor(here, r) == 0 && flux_get_reactor(here) == r);
  FAILS(flux_set_reactor(here, r) == -1, EEXIST);
  flux_watcher_t* w = flux_handle_watcher_create(r, here, FLUX_POLLIN, listen_to, NULL);
  flux_watcher_start(w);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, speak, there) == 0);
  flux_reactor_run(r, 0);
  pthread_join(thread, NULL);
  EXPECT(received == 123);
  flux_watcher_destroy(w);
  flux_close(here);
  flux_close(there);
  flux_reactor_destroy(r);
  here = flux_open("interthread://probe", 0); /* the name is free again */
  EXPECT(here != NULL);
  flux_close(here);
}

/* --- calls --- */

static void on_sum(flux_future_t* f, void* arg) {
  EXPECT(flux_rpc_get_unpack(f, "{s:i}", "sum", arg) == 0);
  flux_future_destroy(f);
}

static void on_twice(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  int n = 0;
  (void)mh;
  EXPECT(flux_request_unpack(msg, NULL, "{s:i}", "n", &n) == 0);
  EXPECT(flux_respond_pack(h, msg, "{s:i}", "sum", 2 * n) == 0);
  if (--*(int*)arg == 0) flux_reactor_stop(flux_get_reactor(h));
}

/* The other thread: serves as many calls as it is told. */
static void* serve(void* h) {
  int calls = 2;
  struct flux_match match = FLUX_MATCH_REQUEST;
  match.topic_glob = "twice";
  flux_msg_handler_t* mh = flux_msg_handler_create(h, match, on_twice, &calls);
  flux_msg_handler_start(mh);
  flux_reactor_run(flux_get_reactor(h), 0);
  flux_msg_handler_destroy(mh);
  return NULL;
}

PROBE(calls_of_threads) {
  flux_t* here = flux_open("interthread://calls", 0);
  flux_t* there = flux_open("interthread://calls", 0);
  int sum = 0;
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, serve, there) == 0);
  flux_future_t* f = flux_rpc_pack(here, "twice", FLUX_NODEID_ANY, 0, "{s:i}", "n", 4);
  EXPECT(flux_rpc_get_unpack(f, "{s:i}", "sum", &sum) == 0 && sum == 8);
  flux_future_destroy(f);
  EXPECT(flux_future_then(flux_rpc_pack(here, "twice", 0, 0, "{s:i}", "n", 5), -1., on_sum, &sum) == 0);
  EXPECT(flux_reactor_run(flux_get_reactor(here), 0) == 0); /* nothing is left to wait for */
  EXPECT(sum == 10);
  pthread_join(thread, NULL);
  f = flux_rpc_pack(here, "nobody", FLUX_NODEID_ANY, 0, "{}");
  FAILS(flux_future_wait_for(f, 0.01) == -1, ETIMEDOUT); /* nobody runs the other end's reactor */
  flux_future_destroy(f);
  flux_close(here);
  flux_close(there);
}

static const struct flux_plugin_handler table[] = {
    {"probe.threads", threads, NULL},
    {"probe.calls-of-threads", calls_of_threads, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
