/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-message"
#include "probe.h"

#include <unistd.h>

static int freed;
static void count_free(void* arg) {
  (void)arg;
  ++freed;
}

PROBE(fields) {
  const char* topic = NULL;
  const char* text = NULL;
  const void* data = NULL;
  size_t size = 0;
  int number = 0;
  uint32_t id = 0;
  freed = 0;
  FAILS(flux_msg_create(0x100) == NULL, EINVAL);
  flux_msg_t* msg = flux_msg_create(FLUX_MSGTYPE_REQUEST);
  EXPECT(flux_msg_get_type(msg, &number) == 0 && number == FLUX_MSGTYPE_REQUEST);
  EXPECT(same(flux_msg_typestr(number), "request") && same(flux_msg_typestr(77), "unknown"));
  FAILS(flux_msg_get_topic(msg, &topic) == -1, EPROTO);
  EXPECT(flux_msg_set_topic(msg, "a.b") == 0 && flux_msg_get_topic(msg, &topic) == 0 && same(topic, "a.b"));
  EXPECT(flux_msg_has_flag(msg, FLUX_MSGFLAG_TOPIC) && !flux_msg_has_flag(msg, FLUX_MSGFLAG_PAYLOAD));
  EXPECT(flux_msg_get_string(msg, &text) == 0 && text == NULL && !flux_msg_has_payload(msg));
  FAILS(flux_msg_get_payload(msg, &data, &size) == -1, EPROTO);
  FAILS(flux_msg_unpack(msg, "{}") == -1, EPROTO);
  EXPECT(flux_msg_set_payload(msg, "abc", 3) == 0);
  FAILS(flux_msg_get_string(msg, &text) == -1, EPROTO);
  EXPECT(flux_msg_get_payload(msg, &data, &size) == 0 && size == 3 && memcmp(data, "abc", 3) == 0);
  EXPECT(flux_msg_set_string(msg, "text") == 0 && flux_msg_get_string(msg, &text) == 0 && same(text, "text"));
  FAILS(flux_msg_unpack(msg, "{}") == -1, EPROTO);
  EXPECT(strlen(flux_msg_last_error(msg)) > 0);
  EXPECT(flux_msg_pack(msg, "{s:i s:s}", "n", 7, "s", "seven") == 0 && same(flux_msg_last_error(msg), ""));
  EXPECT(flux_msg_unpack(msg, "{s:i s:s}", "n", &number, "s", &text) == 0 && number == 7 && same(text, "seven"));
  FAILS(flux_msg_unpack(msg, "{s:i}", "none", &number) == -1, EPROTO);
  FAILS(flux_msg_pack(msg, "[i]", 1) == -1, EINVAL);
  FAILS(flux_msg_pack(msg, "{s:", "n") == -1, EINVAL);
  FAILS(flux_msg_pack(NULL, "{}") == -1, EINVAL);
  FAILS(flux_msg_unpack(NULL, "{}") == -1, EINVAL);
  FAILS(flux_msg_set_payload(msg, NULL, 3) == -1, EINVAL);
  EXPECT(flux_msg_set_payload(msg, NULL, 0) == 0 && !flux_msg_has_payload(msg));

  EXPECT(flux_msg_get_nodeid(msg, &id) == 0 && id == FLUX_NODEID_ANY);
  EXPECT(flux_msg_set_nodeid(msg, 3) == 0 && flux_msg_get_nodeid(msg, &id) == 0 && id == 3);
  EXPECT(flux_msg_set_matchtag(msg, 9) == 0 && flux_msg_get_matchtag(msg, &id) == 0 && id == 9);
  EXPECT(flux_msg_cmp_matchtag(msg, 9) && !flux_msg_cmp_matchtag(msg, 8));
  FAILS(flux_msg_set_errnum(msg, 1) == -1, EINVAL);
  FAILS(flux_msg_get_errnum(msg, &number) == -1, EPROTO);
  FAILS(flux_msg_get_seq(msg, &id) == -1, EPROTO);

  EXPECT(flux_msg_set_streaming(msg) == 0 && flux_msg_is_streaming(msg));
  EXPECT(flux_msg_set_noresponse(msg) == 0 && flux_msg_is_noresponse(msg) && !flux_msg_is_streaming(msg));
  EXPECT(flux_msg_set_private(msg) == 0 && flux_msg_is_private(msg));
  EXPECT(flux_msg_clear_flag(msg, FLUX_MSGFLAG_PRIVATE) == 0 && !flux_msg_is_private(msg));
  FAILS(flux_msg_set_flag(msg, 0x1000) == -1, EINVAL);
  FAILS(flux_msg_set_flag(msg, FLUX_MSGFLAG_STREAMING | FLUX_MSGFLAG_NORESPONSE) == -1, EINVAL);

  EXPECT(flux_msg_aux_set(msg, "key", &freed, count_free) == 0 && flux_msg_aux_get(msg, "key") == &freed);
  FAILS(flux_msg_aux_get(msg, "none") == NULL, ENOENT);
  flux_msg_set_string(msg, "kept");
  flux_msg_t* copy = flux_msg_copy(msg, true);
  flux_msg_t* bare = flux_msg_copy(msg, false);
  EXPECT(flux_msg_incref(msg) == msg);
  flux_msg_decref(msg);
  flux_msg_destroy(msg);
  EXPECT(freed == 1);
  EXPECT(flux_msg_get_string(copy, &text) == 0 && same(text, "kept") && !flux_msg_has_payload(bare));
  EXPECT(flux_msg_get_matchtag(bare, &id) == 0 && id == 9);
  EXPECT(flux_msg_set_type(bare, FLUX_MSGTYPE_EVENT) == 0 && flux_msg_set_seq(bare, 5) == 0);
  EXPECT(flux_msg_get_seq(bare, &id) == 0 && id == 5);
  EXPECT(flux_msg_get_type(copy, NULL) == 0 &&
         flux_msg_get_matchtag(copy, NULL) == 0); /* only whether there is one */
  EXPECT(flux_msg_get_payload(copy, NULL, NULL) == 0 && flux_msg_get_string(copy, NULL) == 0);
  flux_msg_destroy(copy);
  flux_msg_destroy(bare);
  flux_msg_destroy(NULL);
  FAILS(flux_msg_incref(NULL) == NULL, EINVAL);
  FAILS(flux_msg_copy(NULL, true) == NULL, EINVAL);
  FAILS(flux_msg_get_type(NULL, &number) == -1, EINVAL);
  FAILS(flux_msg_set_topic(NULL, "x") == -1, EINVAL);
}

PROBE(matching) {
  flux_msg_t* msg = flux_event_encode("job.start", NULL);
  struct flux_match match = FLUX_MATCH_EVENT;
  EXPECT(flux_msg_cmp(msg, FLUX_MATCH_ANY) && flux_msg_cmp(msg, match));
  EXPECT(!flux_msg_cmp(msg, FLUX_MATCH_REQUEST) && !flux_msg_cmp(NULL, match));
  match.topic_glob = "job.*";
  EXPECT(flux_msg_cmp(msg, match));
  match.topic_glob = "";
  EXPECT(flux_msg_cmp(msg, match));
  EXPECT(flux_match_asprintf(&match, "job.%s", "end") == 0 && same(match.topic_glob, "job.end"));
  EXPECT(!flux_msg_cmp(msg, match));
  flux_match_free(match);
  match = FLUX_MATCH_ANY;
  match.matchtag = 4;
  EXPECT(!flux_msg_cmp(msg, match));
  FAILS(flux_match_asprintf(NULL, "x") == -1, EINVAL);
  flux_msg_destroy(msg);
}

PROBE(senders) {
  struct flux_msg_cred cred = {0, 0};
  uint32_t id = 0;
  flux_msg_t* msg = flux_msg_create(FLUX_MSGTYPE_EVENT);
  EXPECT(flux_msg_get_userid(msg, &id) == 0 && id == (uint32_t)FLUX_USERID_UNKNOWN);
  FAILS(flux_msg_authorize(msg, 7) == -1, EPERM);
  EXPECT(flux_msg_set_userid(msg, 7) == 0 && flux_msg_set_rolemask(msg, FLUX_ROLE_USER) == 0);
  EXPECT(flux_msg_authorize(msg, 7) == 0);
  FAILS(flux_msg_authorize(msg, 8) == -1, EPERM);
  EXPECT(flux_msg_get_cred(msg, &cred) == 0 && cred.userid == 7 && cred.rolemask == FLUX_ROLE_USER);
  cred.rolemask = FLUX_ROLE_OWNER | FLUX_ROLE_LOCAL;
  EXPECT(!flux_msg_is_local(msg) && flux_msg_set_cred(msg, cred) == 0 && flux_msg_is_local(msg));
  EXPECT(flux_msg_authorize(msg, 8) == 0 && flux_msg_cred_authorize(cred, 9) == 0);
  EXPECT(flux_msg_get_rolemask(msg, &id) == 0 && id == (FLUX_ROLE_OWNER | FLUX_ROLE_LOCAL));
  FAILS(flux_msg_authorize(NULL, 7) == -1, EINVAL);
  flux_msg_destroy(msg);
}

PROBE(kinds) {
  const char *topic = NULL, *text = NULL;
  const void* data = NULL;
  size_t size = 0;
  int n = 0;
  flux_msg_t* request = flux_request_encode("t", "{\"n\":4}");
  EXPECT(flux_request_decode(request, &topic, &text) == 0 && same(topic, "t") && same(text, "{\"n\":4}"));
  EXPECT(flux_request_unpack(request, NULL, "{s:i}", "n", &n) == 0 && n == 4);
  EXPECT(flux_request_decode_raw(request, NULL, &data, &size) == 0 && size == 8);
  FAILS(flux_response_decode(request, &topic, &text) == -1, EPROTO);
  FAILS(flux_event_decode(request, &topic, &text) == -1, EPROTO);
  FAILS(flux_request_decode(NULL, NULL, NULL) == -1, EINVAL);
  FAILS(flux_request_unpack(request, NULL, NULL) == -1, EINVAL);
  FAILS(flux_request_encode(NULL, "x") == NULL, EINVAL);

  flux_msg_t* response = flux_response_derive(request, 0);
  EXPECT(flux_response_decode(response, &topic, &text) == 0 && same(topic, "t") && text == NULL);
  flux_msg_destroy(response);
  response = flux_response_encode_error("t", ENOENT, "not here");
  FAILS(flux_response_decode(response, NULL, NULL) == -1, ENOENT);
  FAILS(flux_response_decode_raw(response, NULL, &data, &size) == -1, ENOENT);
  EXPECT(flux_response_decode_error(response, &text) == 0 && same(text, "not here"));
  flux_msg_destroy(response);
  FAILS(flux_response_encode_error("t", 0, NULL) == NULL, EINVAL);
  response = flux_response_encode_raw("t", "xy", 2);
  EXPECT(flux_response_decode_raw(response, NULL, &data, &size) == 0 && size == 2);
  FAILS(flux_response_decode_error(response, &text) == -1, ENOENT);
  flux_msg_destroy(response);
  response = flux_response_encode("t", NULL);
  EXPECT(flux_response_decode(response, NULL, &text) == 0 && text == NULL);
  flux_msg_destroy(response);
  flux_msg_destroy(request);

  flux_msg_t* event = flux_event_pack("e", "{s:i}", "n", 6);
  EXPECT(flux_event_unpack(event, &topic, "{s:i}", "n", &n) == 0 && n == 6 && same(topic, "e"));
  EXPECT(flux_event_decode(event, NULL, &text) == 0 && same(text, "{\"n\":6}"));
  EXPECT(flux_event_decode_raw(event, NULL, &data, &size) == 0 && size == 8);
  FAILS(flux_event_pack("e", "[]") == NULL, EINVAL);
  flux_msg_destroy(event);
  event = flux_event_encode_raw("e", "1", 1);
  EXPECT(flux_event_decode_raw(event, NULL, &data, &size) == 0 && size == 1);
  flux_msg_destroy(event);
  request = flux_request_encode_raw("r", NULL, 0);
  EXPECT(flux_request_decode_raw(request, NULL, &data, &size) == 0 && data == NULL && size == 0);
  flux_msg_destroy(request);
}

PROBE(lists) {
  struct flux_msglist* l = flux_msglist_create();
  flux_msg_t* a = flux_event_encode("a", NULL);
  flux_msg_t* b = flux_event_encode("b", NULL);
  EXPECT(flux_msglist_count(l) == 0 && flux_msglist_pop(l) == NULL && flux_msglist_first(l) == NULL);
  EXPECT(flux_msglist_append(l, b) == 0 && flux_msglist_push(l, a) == 0 && flux_msglist_count(l) == 2);
  EXPECT(flux_msglist_first(l) == a && flux_msglist_next(l) == b && flux_msglist_next(l) == NULL);
  EXPECT(flux_msglist_last(l) == b && flux_msglist_first(l) == a);
  flux_msglist_delete(l);
  EXPECT(flux_msglist_count(l) == 1 && flux_msglist_next(l) == b);
  const flux_msg_t* popped = flux_msglist_pop(l);
  EXPECT(popped == b);
  flux_msg_decref(popped);
  EXPECT(flux_msglist_append(l, b) == 0);
  FAILS(flux_msglist_append(l, NULL) == -1, EINVAL);
  FAILS(flux_msglist_push(NULL, a) == -1, EINVAL);
  FAILS(flux_msglist_count(NULL) == -1, EINVAL);
  flux_msglist_destroy(l);
  flux_msglist_destroy(NULL);
  flux_msg_destroy(a);
  flux_msg_destroy(b);
}

static const struct flux_plugin_handler table[] = {
    {"probe.fields", fields, NULL}, {"probe.matching", matching, NULL}, {"probe.senders", senders, NULL},
    {"probe.kinds", kinds, NULL},   {"probe.lists", lists, NULL},       {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
