/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: requests, responses and events, with a topic and a payload. Source of the terms: Flux RFC 3, RFC 6.
 *
 * Functions that return int fail with -1 and errno: EINVAL if the message or a needed argument is NULL, EPROTO if the
 * message is of another kind, or lacks the requested part. Strings and data that are returned belong to the message.
 */
#ifndef FLUX_MESSAGE_H
#define FLUX_MESSAGE_H

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum {
  FLUX_MSGTYPE_REQUEST = 0x01,
  FLUX_MSGTYPE_RESPONSE = 0x02,
  FLUX_MSGTYPE_EVENT = 0x04,
  FLUX_MSGTYPE_CONTROL = 0x08,
  FLUX_MSGTYPE_ANY = 0x0f,
  FLUX_MSGTYPE_MASK = 0x0f,
};

enum {
  FLUX_MSGFLAG_TOPIC = 0x01,
  FLUX_MSGFLAG_PAYLOAD = 0x02,
  FLUX_MSGFLAG_NORESPONSE = 0x04,
  FLUX_MSGFLAG_ROUTE = 0x08,
  FLUX_MSGFLAG_UPSTREAM = 0x10,
  FLUX_MSGFLAG_PRIVATE = 0x20,
  FLUX_MSGFLAG_STREAMING = 0x40,
  FLUX_MSGFLAG_USER1 = 0x80,
};

/* Too large for an enumerator of ISO C. */
#define FLUX_NODEID_ANY 0xFFFFFFFFU
#define FLUX_NODEID_UPSTREAM 0xFFFFFFFEU
enum { FLUX_MATCHTAG_NONE = 0 };
#define FLUX_USERID_UNKNOWN 0xFFFFFFFFU

enum {
  FLUX_ROLE_NONE = 0,
  FLUX_ROLE_OWNER = 1,
  FLUX_ROLE_USER = 2,
  FLUX_ROLE_LOCAL = 4,
  FLUX_ROLE_ADMIN = 8,
};
#define FLUX_ROLE_ALL 0xFFFFFFFFU

/* Matches messages of these types, with this match tag, with a topic that matches this glob(7). 0 and NULL: any. */
struct flux_match {
  int typemask;
  uint32_t matchtag;
  const char* topic_glob;
};
struct flux_match flux_match_init(int typemask, uint32_t matchtag, const char* topic_glob) FLUX_NOTHROW;
/* Sets a topic_glob that flux_match_free() frees. */
int flux_match_asprintf(struct flux_match* m, const char* fmt, ...) FLUX_NOTHROW FLUX_PRINTF(2, 3);
void flux_match_free(struct flux_match m) FLUX_NOTHROW;
#define FLUX_MATCH_ANY flux_match_init(FLUX_MSGTYPE_ANY, FLUX_MATCHTAG_NONE, NULL)
#define FLUX_MATCH_EVENT flux_match_init(FLUX_MSGTYPE_EVENT, FLUX_MATCHTAG_NONE, NULL)
#define FLUX_MATCH_REQUEST flux_match_init(FLUX_MSGTYPE_REQUEST, FLUX_MATCHTAG_NONE, NULL)
#define FLUX_MATCH_RESPONSE flux_match_init(FLUX_MSGTYPE_RESPONSE, FLUX_MATCHTAG_NONE, NULL)
bool flux_msg_cmp(const flux_msg_t* msg, struct flux_match match) FLUX_NOTHROW;

/* `type` is one of FLUX_MSGTYPE. References are counted: a handler that keeps a message takes one. */
flux_msg_t* flux_msg_create(int type) FLUX_NOTHROW;
flux_msg_t* flux_msg_copy(const flux_msg_t* msg, bool payload) FLUX_NOTHROW;
const flux_msg_t* flux_msg_incref(const flux_msg_t* msg) FLUX_NOTHROW;
void flux_msg_decref(const flux_msg_t* msg) FLUX_NOTHROW;
void flux_msg_destroy(flux_msg_t* msg) FLUX_NOTHROW;
int flux_msg_aux_set(const flux_msg_t* msg, const char* name, void* aux, flux_free_f destroy) FLUX_NOTHROW;
void* flux_msg_aux_get(const flux_msg_t* msg, const char* name) FLUX_NOTHROW;

int flux_msg_get_type(const flux_msg_t* msg, int* type) FLUX_NOTHROW;
int flux_msg_set_type(flux_msg_t* msg, int type) FLUX_NOTHROW;
const char* flux_msg_typestr(int type) FLUX_NOTHROW; /* "request", ...; "unknown" */
bool flux_msg_has_flag(const flux_msg_t* msg, int flag) FLUX_NOTHROW;
int flux_msg_set_flag(flux_msg_t* msg, int flag) FLUX_NOTHROW;
int flux_msg_clear_flag(flux_msg_t* msg, int flag) FLUX_NOTHROW;
int flux_msg_set_private(flux_msg_t* msg) FLUX_NOTHROW;
bool flux_msg_is_private(const flux_msg_t* msg) FLUX_NOTHROW;
int flux_msg_set_streaming(flux_msg_t* msg) FLUX_NOTHROW; /* and clears NORESPONSE */
bool flux_msg_is_streaming(const flux_msg_t* msg) FLUX_NOTHROW;
int flux_msg_set_noresponse(flux_msg_t* msg) FLUX_NOTHROW; /* and clears STREAMING */
bool flux_msg_is_noresponse(const flux_msg_t* msg) FLUX_NOTHROW;

int flux_msg_set_topic(flux_msg_t* msg, const char* topic) FLUX_NOTHROW; /* NULL: none */
int flux_msg_get_topic(const flux_msg_t* msg, const char** topic) FLUX_NOTHROW;

/* A payload is bytes; text is a payload with its NUL, and JSON is text. get_string gives NULL if there is none. */
int flux_msg_set_payload(flux_msg_t* msg, const void* buf, size_t size) FLUX_NOTHROW; /* NULL, 0: none */
int flux_msg_get_payload(const flux_msg_t* msg, const void** buf, size_t* size) FLUX_NOTHROW;
bool flux_msg_has_payload(const flux_msg_t* msg) FLUX_NOTHROW;
int flux_msg_set_string(flux_msg_t* msg, const char* s) FLUX_NOTHROW;
int flux_msg_get_string(const flux_msg_t* msg, const char** s) FLUX_NOTHROW;
int flux_msg_pack(flux_msg_t* msg, const char* fmt, ...) FLUX_NOTHROW; /* an object: RFC 3 */
int flux_msg_vpack(flux_msg_t* msg, const char* fmt, va_list ap) FLUX_NOTHROW;
int flux_msg_unpack(const flux_msg_t* msg, const char* fmt, ...) FLUX_NOTHROW;
int flux_msg_vunpack(const flux_msg_t* msg, const char* fmt, va_list ap) FLUX_NOTHROW;
const char* flux_msg_last_error(const flux_msg_t* msg) FLUX_NOTHROW; /* of the last pack or unpack, or "" */

int flux_msg_set_nodeid(flux_msg_t* msg, uint32_t nodeid) FLUX_NOTHROW; /* requests */
int flux_msg_get_nodeid(const flux_msg_t* msg, uint32_t* nodeid) FLUX_NOTHROW;
int flux_msg_set_errnum(flux_msg_t* msg, int errnum) FLUX_NOTHROW; /* responses */
int flux_msg_get_errnum(const flux_msg_t* msg, int* errnum) FLUX_NOTHROW;
int flux_msg_set_matchtag(flux_msg_t* msg, uint32_t matchtag) FLUX_NOTHROW; /* requests and responses */
int flux_msg_get_matchtag(const flux_msg_t* msg, uint32_t* matchtag) FLUX_NOTHROW;
bool flux_msg_cmp_matchtag(const flux_msg_t* msg, uint32_t matchtag) FLUX_NOTHROW;
int flux_msg_set_seq(flux_msg_t* msg, uint32_t seq) FLUX_NOTHROW; /* events */
int flux_msg_get_seq(const flux_msg_t* msg, uint32_t* seq) FLUX_NOTHROW;

/* The sender. Messages of this shell have its user, which is the owner. */
struct flux_msg_cred {
  uint32_t userid;
  uint32_t rolemask;
};
int flux_msg_set_userid(flux_msg_t* msg, uint32_t userid) FLUX_NOTHROW;
int flux_msg_get_userid(const flux_msg_t* msg, uint32_t* userid) FLUX_NOTHROW;
int flux_msg_set_rolemask(flux_msg_t* msg, uint32_t rolemask) FLUX_NOTHROW;
int flux_msg_get_rolemask(const flux_msg_t* msg, uint32_t* rolemask) FLUX_NOTHROW;
int flux_msg_set_cred(flux_msg_t* msg, struct flux_msg_cred cred) FLUX_NOTHROW;
int flux_msg_get_cred(const flux_msg_t* msg, struct flux_msg_cred* cred) FLUX_NOTHROW;
/* Succeeds for the owner, and for the user with this id; else EPERM. */
int flux_msg_authorize(const flux_msg_t* msg, uint32_t userid) FLUX_NOTHROW;
int flux_msg_cred_authorize(struct flux_msg_cred cred, uint32_t userid) FLUX_NOTHROW;
bool flux_msg_is_local(const flux_msg_t* msg) FLUX_NOTHROW;
/* The route is a stack of ids, which only plugins push; a response has its request's. EPROTO until it is
 * enabled. */
void flux_msg_route_enable(flux_msg_t* msg) FLUX_NOTHROW;
void flux_msg_route_disable(flux_msg_t* msg) FLUX_NOTHROW;
void flux_msg_route_clear(flux_msg_t* msg) FLUX_NOTHROW;
int flux_msg_route_push(flux_msg_t* msg, const char* id) FLUX_NOTHROW;
int flux_msg_route_delete_last(flux_msg_t* msg) FLUX_NOTHROW;
const char* flux_msg_route_first(const flux_msg_t* msg) FLUX_NOTHROW; /* NULL: there is none */
const char* flux_msg_route_last(const flux_msg_t* msg) FLUX_NOTHROW;
int flux_msg_route_count(const flux_msg_t* msg) FLUX_NOTHROW;
char* flux_msg_route_string(const flux_msg_t* msg)
    FLUX_NOTHROW; /* "first!second", 8 characters of each; free(3) it */
bool flux_msg_route_match_first(const flux_msg_t* msg1,
                                const flux_msg_t* msg2) FLUX_NOTHROW; /* true if neither has a route */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_MESSAGE_H */
