/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-rpc"
#include "probe.h"

#include <unistd.h>

static char seen[512];

static void note(const char* format, ...) {
  va_list args;
  size_t length = strlen(seen);
  va_start(args, format);
  vsnprintf(seen + length, sizeof seen - length, format, args);
  va_end(args);
}

/* --- the other side: adds, streams, waits, refuses --- */

static const flux_msg_t* waiting;

static void on_add(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  int a, b;
  uint32_t userid = 0;
  (void)mh;
  EXPECT(flux_msg_get_userid(msg, &userid) == 0 && userid == getuid() && flux_msg_is_local(msg));
  if (flux_request_unpack(msg, NULL, "{s:i s:i}", "a", &a, "b", &b) < 0) {
    flux_respond_error(h, msg, errno, "a and b are needed");
    return;
  }
  EXPECT(flux_respond_pack(h, msg, "{s:i}", "sum", a + b + *(int*)arg) == 0);
}

static void on_stream(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  (void)mh, (void)arg;
  EXPECT(flux_msg_is_streaming(msg));
  flux_respond(h, msg, "first");
  flux_respond(h, msg, "second");
  flux_respond_error(h, msg, ENODATA, NULL);
}

static void on_wait(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  (void)h, (void)mh, (void)arg;
  waiting = flux_msg_incref(msg);
}

static void on_quiet(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  (void)mh, (void)arg;
  EXPECT(flux_msg_is_noresponse(msg));
  note("quiet;");
  EXPECT(flux_respond(h, msg, "nobody hears") == 0);
}

static void on_event(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  const char *topic = NULL, *text = NULL;
  (void)h, (void)mh;
  EXPECT(flux_event_decode(msg, &topic, &text) == 0);
  note("%s:%s=%s;", (const char*)arg, topic, text != NULL ? text : "");
}

static void answered(flux_future_t* f, void* arg) {
  const char* text = NULL;
  if (flux_rpc_get(f, &text) < 0) {
    note("%s!%d;", (const char*)arg, errno == ENODATA ? 0 : errno);
    flux_future_destroy(f);
    return;
  }
  note("%s=%s;", (const char*)arg, text != NULL ? text : "");
  if (same(arg, "wait")) {
    flux_future_destroy(f);
  } else {
    flux_future_reset(f);
  }
}

static int zero = 0, hundred = 100;

PROBE(calls) {
  flux_t* h = flux_shell_get_flux(shell);
  const char *text = NULL, *service = NULL;
  int sum = 0;
  EXPECT(flux_shell_info_unpack(shell, "{s:s}", "service", &service) == 0);
  EXPECT(flux_shell_service_register(shell, "add", on_add, &zero) == 0);
  EXPECT(flux_shell_service_register(shell, "stream", on_stream, NULL) == 0);
  EXPECT(flux_shell_service_register(shell, "wait", on_wait, NULL) == 0);
  EXPECT(flux_shell_service_register(shell, "quiet", on_quiet, NULL) == 0);
  FAILS(flux_shell_rpc_pack(shell, "add", 1, 0, "{}") == NULL, EINVAL);
  FAILS(flux_shell_rpc_pack(shell, "add", 0, 0, "[]") == NULL, EINVAL);
  FAILS(flux_shell_rpc_pack(NULL, "add", 0, 0, "{}") == NULL, EINVAL);

  flux_future_t* f = flux_shell_rpc_pack(shell, "add", 0, 0, "{s:i s:i}", "a", 2, "b", 3);
  EXPECT(!flux_future_is_ready(f)); /* never from within the call */
  EXPECT(flux_rpc_get_unpack(f, "{s:i}", "sum", &sum) == 0 && sum == 5);
  EXPECT(flux_rpc_get_nodeid(f) == 0 && flux_rpc_get_matchtag(f) != FLUX_MATCHTAG_NONE);
  EXPECT(flux_future_get_flux(f) == h);
  FAILS(flux_rpc_get_unpack(f, "{s:i}", "product", &sum) == -1, EPROTO);
  flux_future_destroy(f);

  f = flux_shell_rpc_pack(shell, "add", 0, 0, "{s:i}", "a", 2);
  FAILS(flux_rpc_get(f, NULL) == -1, EPROTO);
  EXPECT(same(flux_future_error_string(f), "a and b are needed"));
  flux_future_destroy(f);

  /* Nobody there. */
  f = flux_rpc(h, "kvs.lookup", NULL, FLUX_NODEID_ANY, 0);
  FAILS(flux_rpc_get(f, NULL) == -1, ENOSYS);
  flux_future_destroy(f);
  f = flux_rpc_pack(h, "nobody.here", 0, 0, "{s:s}", "a", "b");
  FAILS(flux_future_get(f, NULL) == -1, ENOSYS);
  flux_future_destroy(f);

  /* Nothing to wait for. */
  f = flux_rpc_raw(h, "kvs.x", "abc", 3, 0, FLUX_RPC_NORESPONSE);
  EXPECT(flux_future_is_ready(f));
  flux_future_destroy(f);
  char topic[128];
  snprintf(topic, sizeof topic, "%s.quiet", service);
  flux_msg_t* request = flux_request_encode(topic, NULL);
  f = flux_rpc_message(h, request, FLUX_NODEID_ANY, FLUX_RPC_NORESPONSE);
  flux_msg_destroy(request);
  flux_future_destroy(f);

  FAILS(flux_rpc(NULL, "a", NULL, 0, 0) == NULL, EINVAL);
  FAILS(flux_rpc(h, NULL, NULL, 0, 0) == NULL, EINVAL);
  FAILS(flux_rpc(h, "a", NULL, 0, 64) == NULL, EINVAL);
  FAILS(flux_rpc(h, "a", NULL, 0, FLUX_RPC_NORESPONSE | FLUX_RPC_STREAMING) == NULL, EINVAL);
  FAILS(flux_rpc_get(NULL, &text) == -1, EINVAL);
  FAILS(flux_rpc_message(h, NULL, 0, 0) == NULL, EINVAL);
  FAILS(flux_respond(NULL, NULL, NULL) == -1, EINVAL);
  FAILS(flux_respond_pack(h, NULL, "{}") == -1, EINVAL);
  FAILS(flux_respond_error(h, NULL, 1, NULL) == -1, EINVAL);
  FAILS(flux_respond_raw(h, NULL, NULL, -1) == -1, EINVAL);
}

PROBE(begin) {
  seen[0] = '\0';
  EXPECT(flux_future_then(flux_shell_rpc_pack(shell, "stream", 0, FLUX_RPC_STREAMING, "{}"), -1., answered,
                          "stream") == 0);
  EXPECT(flux_future_then(flux_shell_rpc_pack(shell, "wait", 0, 0, "{}"), -1., answered, "wait") == 0);
  EXPECT(same(seen, ""));
}

PROBE(middle) {
  EXPECT(same(seen, "quiet;stream=first;stream=second;stream!0;"));
  if (!same(seen, "quiet;stream=first;stream=second;stream!0;")) shell_log_error("%s", seen);
  seen[0] = '\0';
  EXPECT(flux_respond(flux_shell_get_flux(shell), waiting, "at last") == 0);
  flux_msg_decref(waiting);
}

PROBE(end) { EXPECT(same(seen, "wait=at last;")); }

/* --- events --- */

PROBE(publish) {
  flux_t* h = flux_shell_get_flux(shell);
  int seq = 0, next = 0;
  seen[0] = '\0';
  EXPECT(flux_shell_add_event_handler(shell, "kill", on_event, "a") == 0);
  struct flux_match match = FLUX_MATCH_EVENT;
  match.topic_glob = "shell-*";
  flux_msg_handler_start(flux_msg_handler_create(h, match, on_event, "b"));
  flux_future_t* f = flux_event_publish_pack(h, "shell-1.kill", 0, "{s:i}", "signum", 15);
  EXPECT(flux_event_publish_get_seq(f, &seq) == 0);
  flux_future_destroy(f);
  f = flux_event_publish(h, "shell-1.other", FLUX_EVENT_PRIVATE, "text");
  EXPECT(flux_event_publish_get_seq(f, &next) == 0 && next == seq + 1);
  flux_future_destroy(f);
  flux_future_destroy(flux_event_publish_raw(h, "unheard", 0, "x", 1));
  FAILS(flux_event_publish(h, NULL, 0, NULL) == NULL, EINVAL);
  FAILS(flux_event_publish(NULL, "a", 0, NULL) == NULL, EINVAL);
  FAILS(flux_event_publish(h, "a", 99, NULL) == NULL, EINVAL);
  FAILS(flux_event_publish_pack(h, "a", 0, "[]") == NULL, EINVAL);
  EXPECT(flux_event_subscribe(h, "shell-") == 0 && flux_event_unsubscribe(h, "shell-") == 0);
  FAILS(flux_event_unsubscribe(h, "shell-") == -1, ENOENT);
  FAILS(flux_event_subscribe(h, NULL) == -1, EINVAL);
}

PROBE(published) {
  EXPECT(same(seen, "a:shell-1.kill={\"signum\":15};b:shell-1.kill={\"signum\":15};b:shell-1.other=text;"));
  if (failures > 0) shell_log_error("%s", seen);
}

/* --- handlers: which one gets a request --- */

PROBE(handlers) {
  flux_t* h = flux_shell_get_flux(shell);
  int sum = 0;
  const struct flux_msg_handler_spec table[] = {
      {FLUX_MSGTYPE_REQUEST, "sums.*", on_add, 0},
      {FLUX_MSGTYPE_REQUEST, "sums.add", on_add, FLUX_ROLE_USER},
      FLUX_MSGHANDLER_TABLE_END,
  };
  flux_msg_handler_t **zeros = NULL, **hundreds = NULL;
  EXPECT(flux_msg_handler_addvec(h, table, &zero, &zeros) == 0);
  EXPECT(zeros[0] != NULL && zeros[1] != NULL && zeros[2] == NULL);
  EXPECT(flux_msg_handler_addvec(h, table, &hundred, &hundreds) == 0);
  flux_future_t* f = flux_rpc_pack(h, "sums.add", 0, 0, "{s:i s:i}", "a", 1, "b", 1);
  EXPECT(flux_rpc_get_unpack(f, "{s:i}", "sum", &sum) == 0 && sum == 102); /* the last registered */
  flux_future_destroy(f);
  flux_msg_handler_stop(hundreds[1]);
  f = flux_rpc_pack(h, "sums.add", 0, 0, "{s:i s:i}", "a", 1, "b", 1);
  EXPECT(flux_rpc_get_unpack(f, "{s:i}", "sum", &sum) == 0 && sum == 2); /* the very topic before a glob */
  flux_future_destroy(f);

  /* A user's request where only the owner may. */
  flux_msg_t* request = flux_request_encode("sums.other", "{\"a\":1,\"b\":1}");
  struct flux_msg_cred guest = {12345, FLUX_ROLE_USER};
  flux_msg_set_cred(request, guest);
  f = flux_rpc_message(h, request, 0, 0);
  FAILS(flux_rpc_get(f, NULL) == -1, EPERM);
  flux_future_destroy(f);
  flux_msg_destroy(request);

  flux_msg_handler_delvec(hundreds);
  flux_msg_handler_delvec(zeros);
  flux_msg_handler_delvec(NULL);
  f = flux_rpc_pack(h, "sums.add", 0, 0, "{}");
  FAILS(flux_rpc_get(f, NULL) == -1, ENOSYS);
  flux_future_destroy(f);
  FAILS(flux_msg_handler_create(NULL, FLUX_MATCH_ANY, on_add, NULL) == NULL, EINVAL);
  FAILS(flux_msg_handler_create(h, FLUX_MATCH_ANY, NULL, NULL) == NULL, EINVAL);
  FAILS(flux_msg_handler_addvec(h, NULL, NULL, &zeros) == -1, EINVAL);
  flux_msg_handler_destroy(NULL);
  flux_msg_handler_start(NULL);
}

/* --- by hand --- */

PROBE(by_hand) {
  flux_t* h = flux_shell_get_flux(shell);
  flux_msg_t* msg = flux_event_encode("by.hand", "1");
  struct flux_match match = FLUX_MATCH_EVENT;
  match.topic_glob = "by.hand";
  EXPECT(flux_pollevents(h) == FLUX_POLLOUT);
  FAILS(flux_recv(h, match, FLUX_O_NONBLOCK) == NULL, EAGAIN);
  EXPECT(flux_send(h, msg, 0) == 0 && flux_pollevents(h) == (FLUX_POLLOUT | FLUX_POLLIN));
  match.topic_glob = "other";
  FAILS(flux_recv(h, match, 0) == NULL, EAGAIN);
  match.topic_glob = "by.hand";
  flux_msg_t* got = flux_recv(h, match, 0);
  EXPECT(got != NULL && flux_requeue(h, got, FLUX_RQ_HEAD) == 0);
  flux_msg_destroy(got);
  got = flux_recv(h, match, 0);
  EXPECT(got != NULL);
  flux_msg_destroy(got);
  FAILS(flux_requeue(h, msg, 77) == -1, EINVAL);
  flux_msg_incref(msg);
  FAILS(flux_send_new(h, &msg, 0) == -1, EINVAL);
  flux_msg_decref(msg);
  EXPECT(flux_send_new(h, &msg, 0) == 0 && msg == NULL);
  flux_msg_destroy(flux_recv(h, match, 0));
  FAILS(flux_send(NULL, msg, 0) == -1, EINVAL);
  FAILS(flux_recv(NULL, match, 0) == NULL, EINVAL);
  FAILS(flux_pollevents(NULL) == -1, EINVAL);
  uint32_t a = flux_matchtag_alloc(h), b = flux_matchtag_alloc(h);
  EXPECT(a != FLUX_MATCHTAG_NONE && b != FLUX_MATCHTAG_NONE && a != b);
  flux_matchtag_free(h, a);
  flux_matchtag_free(h, b);
  FAILS(flux_matchtag_alloc(NULL) == FLUX_MATCHTAG_NONE, EINVAL);
}

/* --- the handle --- */

static int freed;
static void count_free(void* arg) {
  (void)arg;
  ++freed;
}

PROBE(handle) {
  flux_t* h = flux_shell_get_flux(shell);
  uint32_t number = 99;
  EXPECT(h != NULL && flux_shell_get_flux(shell) == h);
  EXPECT(flux_get_rank(h, &number) == 0 && number == 0);
  EXPECT(flux_get_size(h, &number) == 0 && number == 1);
  FAILS(flux_get_rank(NULL, &number) == -1, EINVAL);
  FAILS(flux_get_size(h, NULL) == -1, EINVAL);
  EXPECT(same(flux_attr_get(h, "rank"), "0") && same(flux_attr_get(h, "size"), "1"));
  EXPECT(same(flux_attr_get(h, "hostname"), "fake0") && same(flux_attr_get(h, "hostlist"), "fake0"));
  EXPECT(same(flux_attr_get(h, "jobid"),
              "\xc6\x92"
              "2"));
  FAILS(flux_attr_get(h, "broker.pid") == NULL, ENOENT);
  FAILS(flux_attr_get(NULL, "rank") == NULL, EINVAL);
  FAILS(flux_attr_set(h, "rank", "7") == -1, EPERM);
  FAILS(flux_attr_set(NULL, "rank", "7") == -1, EINVAL);
  freed = 0;
  EXPECT(flux_aux_set(h, "key", &number, count_free) == 0 && flux_aux_get(h, "key") == &number);
  EXPECT(flux_aux_set(h, "key", NULL, NULL) == 0 && freed == 1);
  FAILS(flux_aux_get(h, "key") == NULL, ENOENT);
  FAILS(flux_aux_get(NULL, "key") == NULL, EINVAL);
  FAILS(flux_aux_set(NULL, "key", &number, NULL) == -1, EINVAL);
  flux_flags_set(h, FLUX_O_TRACE | FLUX_O_RPCTRACK);
  flux_flags_unset(h, FLUX_O_TRACE);
  EXPECT(flux_flags_get(h) == FLUX_O_RPCTRACK && flux_flags_get(NULL) == 0);
  EXPECT(flux_incref(h) == h);
  flux_close(h);
  flux_close(h); /* one too many: the shell keeps it */
  EXPECT(flux_shell_get_flux(shell) == h);
  FAILS(flux_get_reactor(NULL) == NULL, EINVAL);
  FAILS(flux_incref(NULL) == NULL, EINVAL);
  FAILS(flux_set_reactor(h, NULL) == -1, EINVAL);
}

static void llog(void* h, const char* format, ...) {
  va_list args;
  va_start(args, format);
  flux_llog(h, "file.c", 7, "llog", "part", LOG_INFO, format, args);
  va_end(args);
}

PROBE(logging) {
  flux_t* h = flux_shell_get_flux(shell);
  EXPECT(flux_log(h, LOG_ERR, "error %d", 1) == 0);
  EXPECT(flux_log(h, LOG_WARNING, "warning") == 0);
  EXPECT(flux_log(NULL, LOG_INFO, "info") == 0);
  EXPECT(flux_log(h, LOG_DEBUG, "debug") == 0);
  errno = ENOENT;
  flux_log_error(h, "file %s", "x");
  EXPECT(errno == ENOENT);
  flux_log_set_appname(h, "app");
  flux_log_set_procid(h, "7");
  llog(h, "n is %d", 5);
  flux_log_set_appname(h, "");
  FAILS(flux_log(h, LOG_ERR, NULL) == -1, EINVAL);
}

static const struct flux_plugin_handler table[] = {
    {"probe.calls", calls, NULL},
    {"probe.begin", begin, NULL},
    {"probe.middle", middle, NULL},
    {"probe.end", end, NULL},
    {"probe.publish", publish, NULL},
    {"probe.published", published, NULL},
    {"probe.handlers", handlers, NULL},
    {"probe.by-hand", by_hand, NULL},
    {"probe.handle", handle, NULL},
    {"probe.log", logging, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
