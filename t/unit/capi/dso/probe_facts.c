/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-facts"
#include "probe.h"

#include <math.h>
#include <poll.h>

PROBE(version) {
  int major = -1, minor = -1, patch = -1;
  EXPECT(same(flux_core_version_string(), FLUX_CORE_VERSION_STRING));
  EXPECT(flux_core_version(&major, &minor, &patch) == FLUX_CORE_VERSION_HEX);
  EXPECT(major == FLUX_CORE_VERSION_MAJOR && minor == FLUX_CORE_VERSION_MINOR && patch == FLUX_CORE_VERSION_PATCH);
  EXPECT(flux_core_version(NULL, NULL, NULL) == (major << 16 | minor << 8 | patch));
}

/* In a job on fake0, fake1, fake2. */
PROBE(hosts) {
  flux_t* h = flux_shell_get_flux(shell);
  flux_error_t error = {""};
  EXPECT(same(flux_get_hostbyrank(h, 2), "fake2") && same(flux_get_hostbyrank(h, 3), "(null)"));
  EXPECT(same(flux_get_hostbyrank(h, FLUX_NODEID_ANY), "any"));
  EXPECT(same(flux_get_hostbyrank(h, FLUX_NODEID_UPSTREAM), "upstream"));
  EXPECT(same(flux_get_hostbyrank(NULL, 0), "(null)"));
  EXPECT(flux_get_rankbyhost(h, "fake1") == 1);
  FAILS(flux_get_rankbyhost(h, "fake3") == -1, ENOENT);
  FAILS(flux_get_rankbyhost(NULL, "fake1") == -1, EINVAL);
  FAILS(flux_get_rankbyhost(h, NULL) == -1, EINVAL);
  EXPECT(same_text(flux_hostmap_lookup(h, "0,2", NULL), "fake[0,2]"));
  EXPECT(same_text(flux_hostmap_lookup(h, "fake[1-2]", &error), "1-2"));
  FAILS(flux_hostmap_lookup(h, "0-3", &error) == NULL, ENOENT);
  EXPECT(same(error.text, "there is no shell 3: the job has 3"));
  FAILS(flux_hostmap_lookup(h, "fake[1-3]", &error) == NULL, ENOENT);
  EXPECT(same(error.text, "no shell of the job is on fake3"));
  FAILS(flux_hostmap_lookup(h, "fake[1-", &error) == NULL, EINVAL);
  EXPECT(same(error.text, "expected ranks (RFC 22) or hosts (RFC 29), got 'fake[1-'"));
  FAILS(flux_hostmap_lookup(NULL, "0", NULL) == NULL, EINVAL);
}

static void on_any(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  (void)h, (void)mh;
  flux_msg_get_userid(msg, arg);
}

PROBE(options) {
  flux_t* h = flux_shell_get_flux(shell);
  uint32_t id = 12345, got = 0;
  size_t count = 99;
  EXPECT(flux_opt_get(h, FLUX_OPT_RECV_QUEUE_COUNT, &count, sizeof count) == 0 && count == 0);
  struct pollfd readable = {flux_pollfd(h), POLLIN, 0};
  EXPECT(poll(&readable, 1, 0) == 0);
  EXPECT(flux_opt_set(h, FLUX_OPT_TESTING_USERID, &id, sizeof id) == 0);
  EXPECT(flux_opt_get(h, FLUX_OPT_TESTING_USERID, &got, sizeof got) == 0 && got == id);
  got = FLUX_ROLE_USER;
  EXPECT(flux_opt_set(h, FLUX_OPT_TESTING_ROLEMASK, &got, sizeof got) == 0);
  flux_msg_t* event = flux_event_encode("of.another", NULL);
  EXPECT(flux_send_new(h, &event, 0) == 0);
  EXPECT(flux_opt_get(h, FLUX_OPT_RECV_QUEUE_COUNT, &count, sizeof count) == 0 && count == 1);
  EXPECT(flux_opt_get(h, FLUX_OPT_SEND_QUEUE_COUNT, &count, sizeof count) == 0 && count == 0);
  EXPECT(poll(&readable, 1, 0) == 1);
  flux_msg_t* msg = flux_recv(h, FLUX_MATCH_EVENT, 0);
  got = 0;
  on_any(h, NULL, msg, &got);
  EXPECT(got == id);
  EXPECT(flux_msg_get_rolemask(msg, &got) == 0 && got == FLUX_ROLE_USER);
  flux_msg_destroy(msg);
  id = FLUX_USERID_UNKNOWN, got = FLUX_ROLE_NONE;
  EXPECT(flux_opt_set(h, FLUX_OPT_TESTING_USERID, &id, sizeof id) == 0);
  EXPECT(flux_opt_set(h, FLUX_OPT_TESTING_ROLEMASK, &got, sizeof got) == 0);
  FAILS(flux_opt_set(h, FLUX_OPT_TESTING_USERID, &id, 1) == -1, EINVAL);
  FAILS(flux_opt_set(h, FLUX_OPT_TESTING_USERID, NULL, sizeof id) == -1, EINVAL);
  FAILS(flux_opt_set(h, FLUX_OPT_RECV_QUEUE_COUNT, &count, sizeof count) == -1, EINVAL);
  FAILS(flux_opt_set(h, "other", &count, sizeof count) == -1, EINVAL);
  FAILS(flux_opt_get(h, "other", &count, sizeof count) == -1, EINVAL);
  FAILS(flux_opt_get(h, FLUX_OPT_RECV_QUEUE_COUNT, &count, 1) == -1, EINVAL);
  FAILS(flux_opt_get(NULL, FLUX_OPT_RECV_QUEUE_COUNT, &count, sizeof count) == -1, EINVAL);
  FAILS(flux_pollfd(NULL) == -1, EINVAL);
}

PROBE(routes) {
  flux_msg_t *msg = flux_msg_create(FLUX_MSGTYPE_REQUEST), *other = flux_msg_create(FLUX_MSGTYPE_REQUEST);
  FAILS(flux_msg_route_count(NULL) == -1, EINVAL);
  FAILS(flux_msg_route_count(msg) == -1, EPROTO);
  FAILS(flux_msg_route_push(msg, "a") == -1, EPROTO);
  FAILS(flux_msg_route_delete_last(msg) == -1, EPROTO);
  FAILS(flux_msg_route_string(msg) == NULL, EPROTO);
  flux_msg_route_enable(msg);
  EXPECT(flux_msg_route_count(msg) == 0 && flux_msg_route_first(msg) == NULL && flux_msg_route_last(msg) == NULL);
  EXPECT(flux_msg_route_match_first(msg, other));
  FAILS(flux_msg_route_push(msg, NULL) == -1, EINVAL);
  EXPECT(flux_msg_route_push(msg, "sender") == 0 && flux_msg_route_push(msg, "0123456789") == 0);
  EXPECT(flux_msg_route_count(msg) == 2 && same(flux_msg_route_first(msg), "sender"));
  EXPECT(same(flux_msg_route_last(msg), "0123456789"));
  EXPECT(same_text(flux_msg_route_string(msg), "sender!01234567"));
  EXPECT(!flux_msg_route_match_first(msg, other));
  flux_msg_set_topic(msg, "a.b");
  flux_msg_t *copy = flux_msg_copy(msg, true), *response = flux_response_derive(msg, 0);
  EXPECT(flux_msg_route_match_first(msg, copy) && flux_msg_route_count(response) == 2);
  EXPECT(flux_msg_route_delete_last(msg) == 0 && same(flux_msg_route_last(msg), "sender"));
  flux_msg_route_clear(msg);
  EXPECT(flux_msg_route_count(msg) == 0 && flux_msg_route_delete_last(msg) == 0);
  flux_msg_route_disable(msg);
  FAILS(flux_msg_route_count(msg) == -1, EPROTO);
  flux_msg_destroy(msg);
  flux_msg_destroy(other);
  flux_msg_destroy(copy);
  flux_msg_destroy(response);
}

PROBE(job) {
  flux_t* h = flux_shell_get_flux(shell);
  flux_error_t error = {""};
  char name[32], small[4];
  double left = -1;
  EXPECT(flux_job_timeleft(h, NULL, &left) == 0 && isinf(left));
  FAILS(flux_job_timeleft(h, &error, NULL) == -1, EINVAL);
  EXPECT(same(error.text, "expected a handle and a place for the time"));
  FAILS(flux_job_timeleft(NULL, NULL, &left) == -1, EINVAL);

  EXPECT(flux_job_kvs_key(name, sizeof name, 1, NULL) == 23 && same(name, "job.0000.0000.0000.0001"));
  EXPECT(flux_job_kvs_key(name, sizeof name, 1, "R") == 25 && same(name, "job.0000.0000.0000.0001.R"));
  EXPECT(flux_job_kvs_guest_key(name, sizeof name, 1, "a") == 31 && same(name, "job.0000.0000.0000.0001.guest.a"));
  EXPECT(flux_job_kvs_namespace(name, sizeof name, 1) == 5 && same(name, "job-1"));
  FAILS(flux_job_kvs_key(small, sizeof small, 1, NULL) == -1, EOVERFLOW);
  FAILS(flux_job_kvs_key(NULL, 4, 1, NULL) == -1, EINVAL);
  FAILS(flux_job_kvs_namespace(name, 0, 1) == -1, EINVAL);
}

PROBE(raising) {
  flux_t* h = flux_shell_get_flux(shell);
  flux_future_t* f = flux_job_raise(h, 1, "test", 3, "a note");
  EXPECT(flux_future_get(f, NULL) == 0);
  flux_future_destroy(f);
  f = flux_job_raise(h, 1, "test", 7, NULL);
  EXPECT(flux_future_get(f, NULL) == 0);
  flux_future_destroy(f);
  f = flux_job_raise(h, 2, "test", 0, "not ours");
  FAILS(flux_future_get(f, NULL) == -1, ENOSYS);
  flux_future_destroy(f);
  FAILS(flux_job_raise(NULL, 1, "test", 0, NULL) == NULL, EINVAL);
  FAILS(flux_job_raise(h, 1, NULL, 0, NULL) == NULL, EINVAL);
  FAILS(flux_job_raise(h, 1, "two words", 0, NULL) == NULL, EINVAL);
  FAILS(flux_job_raise(h, 1, "test", 8, NULL) == NULL, EINVAL);
  FAILS(flux_job_raise(h, 1, "test", -1, NULL) == NULL, EINVAL);
}

static const struct flux_plugin_handler table[] = {
    {"probe.version", version, NULL},
    {"probe.hosts", hosts, NULL},
    {"probe.options", options, NULL},
    {"probe.routes", routes, NULL},
    {"probe.job", job, NULL},
    {"probe.raise", raising, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
