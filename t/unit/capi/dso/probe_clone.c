/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-clone"
#include "probe.h"

static char seen[256];

static void note(const char* what, const char* topic) {
  size_t length = strlen(seen);
  snprintf(seen + length, sizeof seen - length, "%s:%s;", what, topic);
}

static void on_message(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  const char* topic = "none";
  int type = 0;
  (void)mh;
  flux_msg_get_topic(msg, &topic);
  note(arg, topic);
  if (flux_msg_get_type(msg, &type) == 0 && type == FLUX_MSGTYPE_REQUEST) flux_respond(h, msg, arg);
}

static void on_answer(flux_future_t* f, void* arg) {
  const char* text = NULL;
  if (flux_rpc_get(f, &text) < 0)
    note(arg, strerror(errno));
  else
    note(arg, text);
  flux_future_destroy(f);
}

static flux_msg_handler_t* handle(flux_t* h, int typemask, const char* topic, char* name) {
  struct flux_match match = {typemask, FLUX_MATCHTAG_NONE, topic};
  flux_msg_handler_t* mh = flux_msg_handler_create(h, match, on_message, name);
  flux_msg_handler_start(mh);
  return mh;
}

static void send_event(flux_t* h, const char* topic) {
  flux_msg_t* event = flux_event_encode(topic, NULL);
  EXPECT(flux_send_new(h, &event, 0) == 0);
}

PROBE(identity) {
  flux_t* h = flux_shell_get_flux(shell);
  int number = 1;
  uint32_t id = 12345, got = 0;
  FAILS(flux_clone(NULL) == NULL, EINVAL);
  flux_t* clone = flux_clone(h);
  flux_t* second = flux_clone(clone);
  EXPECT(clone != NULL && clone != h && second != NULL && second != clone);
  EXPECT((flux_flags_get(clone) & FLUX_O_CLONE) != 0 && (flux_flags_get(h) & FLUX_O_CLONE) == 0);
  EXPECT(flux_aux_set(h, "of.original", &number, NULL) == 0);
  FAILS(flux_aux_get(clone, "of.original") == NULL, ENOENT);
  EXPECT(flux_opt_set(clone, FLUX_OPT_TESTING_USERID, &id, sizeof id) == 0);
  EXPECT(flux_opt_get(h, FLUX_OPT_TESTING_USERID, &got, sizeof got) == 0 && got == id);
  id = FLUX_USERID_UNKNOWN;
  EXPECT(flux_opt_set(second, FLUX_OPT_TESTING_USERID, &id, sizeof id) == 0);
  EXPECT(flux_event_subscribe(clone, "x") == 0 && flux_event_unsubscribe(h, "x") == 0);
  flux_close(clone);
  EXPECT(flux_get_reactor(second) != NULL && flux_get_reactor(second) != flux_get_reactor(h));
  FAILS(flux_set_reactor(second, flux_get_reactor(h)) == -1, EEXIST);
  send_event(second, "direct");
  flux_msg_t* msg = flux_recv(h, FLUX_MATCH_EVENT, 0);
  EXPECT(msg != NULL);
  flux_msg_destroy(msg);
  flux_close(second);
}

/* A clone's reactor runs for its own messages; the others are the original's, in their order, once it is done. */
PROBE(own_loop) {
  flux_t* h = flux_shell_get_flux(shell);
  seen[0] = '\0';
  handle(h, FLUX_MSGTYPE_EVENT, "*", "original"); /* left to the shell */
  flux_t* clone = flux_clone(h);
  flux_reactor_t* r = flux_reactor_create(0);
  EXPECT(flux_set_reactor(clone, r) == 0);
  flux_msg_handler_t* request = handle(clone, FLUX_MSGTYPE_REQUEST, "clone.*", "clone");
  send_event(h, "first");
  send_event(clone, "second");
  EXPECT(flux_future_then(flux_rpc(h, "nobody", NULL, 0, 0), -1., on_answer, "original's call") == 0);
  EXPECT(flux_future_then(flux_rpc(clone, "clone.call", NULL, 0, 0), -1., on_answer, "answer") == 0);
  flux_reactor_run(r, FLUX_REACTOR_ONCE);
  flux_reactor_run(r, FLUX_REACTOR_ONCE);
  flux_reactor_run(r, FLUX_REACTOR_ONCE);
  EXPECT(same(seen, "clone:clone.call;answer:clone;"));
  if (failures > 0) shell_log_error("%s", seen);
  seen[0] = '\0';
  flux_msg_handler_destroy(request);
  EXPECT(flux_reactor_run(r, 0) == 0); /* nothing is left to wait for */
  flux_close(clone);
  flux_reactor_destroy(r);
}

PROBE(after_own_loop) {
  EXPECT(same(seen, "original:first;original:second;original's call:Function not implemented;"));
  if (failures > 0) shell_log_error("%s", seen);
  seen[0] = '\0';
}

/* A call that is waited for, while a clone keeps messages of others. */
PROBE(waiting) {
  flux_t* h = flux_shell_get_flux(shell);
  const char* text = NULL;
  seen[0] = '\0';
  flux_t* clone = flux_clone(h);
  flux_msg_handler_t* of_clone = handle(clone, FLUX_MSGTYPE_EVENT, "never", "clone");
  flux_msg_handler_t* of_original = handle(h, FLUX_MSGTYPE_REQUEST, "original.*", "original");
  flux_future_t* f = flux_rpc(clone, "original.call", NULL, 0, 0);
  flux_reactor_run(flux_get_reactor(clone), FLUX_REACTOR_NOWAIT);
  EXPECT(same(seen, ""));
  EXPECT(flux_rpc_get(f, &text) == 0 && same(text, "original"));
  flux_future_destroy(f);
  flux_msg_handler_destroy(of_clone);
  flux_msg_handler_destroy(of_original);
  flux_close(clone);
}

/* On the loop of the original both have handlers. The second clone is left to the shell. */
PROBE(shared_loop) {
  flux_t* h = flux_shell_get_flux(shell);
  seen[0] = '\0';
  for (int i = 0; i < 2; ++i) {
    flux_t* clone = flux_clone(h);
    EXPECT(flux_set_reactor(clone, flux_get_reactor(h)) == 0);
    handle(clone, FLUX_MSGTYPE_REQUEST, i == 0 ? "one.*" : "two.*", i == 0 ? "one" : "two");
  }
  EXPECT(flux_future_then(flux_rpc(h, "one.x", NULL, 0, 0), -1., on_answer, "x") == 0);
  EXPECT(flux_future_then(flux_rpc(h, "two.y", NULL, 0, 0), -1., on_answer, "y") == 0);
  EXPECT(flux_future_then(flux_rpc(h, "three.z", NULL, 0, 0), -1., on_answer, "z") == 0);
}

PROBE(after_shared_loop) {
  EXPECT(strstr(seen, "one:one.x;two:two.y;") != NULL && strstr(seen, "x:one;") != NULL);
  EXPECT(strstr(seen, "y:two;") != NULL && strstr(seen, "z:Function not implemented;") != NULL);
  if (failures > 0) shell_log_error("%s", seen);
}

/* A clone of one end of a pair has that end's messages, and keeps it open. */
PROBE(of_a_link) {
  flux_t* here = flux_open("interthread://cloned", 0);
  flux_t* there = flux_open("interthread://cloned", 0);
  flux_t* clone = flux_clone(here);
  seen[0] = '\0';
  flux_close(here);
  FAILS(flux_open("interthread://cloned", 0) == NULL, EADDRINUSE);
  flux_msg_handler_t* mh = handle(clone, FLUX_MSGTYPE_REQUEST, "call", "clone");
  flux_msg_t* request = flux_request_encode("call", NULL);
  EXPECT(flux_send_new(there, &request, 0) == 0);
  flux_reactor_run(flux_get_reactor(clone), FLUX_REACTOR_ONCE);
  EXPECT(same(seen, "clone:call;"));
  flux_msg_t* response = flux_recv(there, FLUX_MATCH_RESPONSE, 0);
  EXPECT(response != NULL);
  flux_msg_destroy(response);
  flux_msg_handler_destroy(mh);
  flux_close(clone);
  flux_close(there);
  here = flux_open("interthread://cloned", 0);
  EXPECT(here != NULL);
  flux_close(here);
}

static const struct flux_plugin_handler table[] = {
    {"probe.identity", identity, NULL},
    {"probe.own-loop", own_loop, NULL},
    {"probe.after-own-loop", after_own_loop, NULL},
    {"probe.waiting", waiting, NULL},
    {"probe.shared-loop", shared_loop, NULL},
    {"probe.after-shared-loop", after_shared_loop, NULL},
    {"probe.of-a-link", of_a_link, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
