/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and their responses, events, and remote procedure calls: a request whose response fulfils a future.
 *
 * The other side is a handler in this job's shells; there is no broker: see <flux/handle.h>.
 *
 * Functions that return int fail with -1 and errno: EINVAL if the message or a needed argument is NULL, EPROTO if
 * the message is of another kind, or lacks the requested part. Those that return a pointer fail with NULL. Strings
 * and data that are returned belong to the message, or to the future.
 */
#ifndef FLUX_RPC_H
#define FLUX_RPC_H

#include <flux/future.h>
#include <flux/message.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- requests --- */

flux_msg_t* flux_request_encode(const char* topic, const char* s) FLUX_NOTHROW;
flux_msg_t* flux_request_encode_raw(const char* topic, const void* data, size_t len) FLUX_NOTHROW;
int flux_request_decode(const flux_msg_t* msg, const char** topic, const char** s) FLUX_NOTHROW;
int flux_request_decode_raw(const flux_msg_t* msg, const char** topic, const void** data, size_t* len) FLUX_NOTHROW;
int flux_request_unpack(const flux_msg_t* msg, const char** topic, const char* fmt, ...) FLUX_NOTHROW;

/* --- responses. Decoding one with an errnum fails: -1 with that errno --- */

flux_msg_t* flux_response_encode(const char* topic, const char* s) FLUX_NOTHROW;
flux_msg_t* flux_response_encode_raw(const char* topic, const void* data, size_t len) FLUX_NOTHROW;
flux_msg_t* flux_response_encode_error(const char* topic, int errnum, const char* errstr) FLUX_NOTHROW;
flux_msg_t* flux_response_derive(const flux_msg_t* request, int errnum) FLUX_NOTHROW;
int flux_response_decode(const flux_msg_t* msg, const char** topic, const char** s) FLUX_NOTHROW;
int flux_response_decode_raw(const flux_msg_t* msg, const char** topic, const void** data,
                             size_t* len) FLUX_NOTHROW;
int flux_response_decode_error(const flux_msg_t* msg, const char** errstr) FLUX_NOTHROW; /* ENOENT: none */

/* --- events --- */

flux_msg_t* flux_event_encode(const char* topic, const char* s) FLUX_NOTHROW;
flux_msg_t* flux_event_encode_raw(const char* topic, const void* data, size_t len) FLUX_NOTHROW;
flux_msg_t* flux_event_pack(const char* topic, const char* fmt, ...) FLUX_NOTHROW;
int flux_event_decode(const flux_msg_t* msg, const char** topic, const char** s) FLUX_NOTHROW;
int flux_event_decode_raw(const flux_msg_t* msg, const char** topic, const void** data, size_t* len) FLUX_NOTHROW;
int flux_event_unpack(const flux_msg_t* msg, const char** topic, const char* fmt, ...) FLUX_NOTHROW;

/* To all handlers that match, on all shells of the job: each shell receives all events, its own too, in one order.
 * A shell that has not run shell.init yet may miss them. EMSGSIZE beyond 64 MiB. Each costs a message to every
 * shell. FLUX_EVENT_PRIVATE has no effect. The future is fulfilled when the event has come back to this shell, and get_seq is
 * then its number, by which events ascend on all shells; in a callback it is fulfilled at once, without one: EPROTO. */
enum {
  FLUX_EVENT_PRIVATE = 1,
};
flux_future_t* flux_event_publish(flux_t* h, const char* topic, int flags, const char* s) FLUX_NOTHROW;
flux_future_t* flux_event_publish_pack(flux_t* h, const char* topic, int flags, const char* fmt, ...) FLUX_NOTHROW;
flux_future_t* flux_event_publish_raw(flux_t* h, const char* topic, int flags, const void* data,
                                      size_t len) FLUX_NOTHROW;
int flux_event_publish_get_seq(flux_future_t* f, int* seq) FLUX_NOTHROW;
/* Requests the events whose topic begins with `topic`. Here all are delivered, subscribed to or not. */
int flux_event_subscribe(flux_t* h, const char* topic) FLUX_NOTHROW;
int flux_event_unsubscribe(flux_t* h, const char* topic) FLUX_NOTHROW; /* ENOENT if it was not subscribed to */

/* --- responses: to a request with FLUX_MSGFLAG_NORESPONSE none is sent, which is no error --- */

int flux_respond(flux_t* h, const flux_msg_t* request, const char* s) FLUX_NOTHROW;
int flux_respond_pack(flux_t* h, const flux_msg_t* request, const char* fmt, ...) FLUX_NOTHROW;
int flux_respond_raw(flux_t* h, const flux_msg_t* request, const void* data, int len) FLUX_NOTHROW;
/* `errnum` 0: EINVAL. `errstr` may be NULL. */
int flux_respond_error(flux_t* h, const flux_msg_t* request, int errnum, const char* errstr) FLUX_NOTHROW;

/* --- calls --- */

enum {
  FLUX_RPC_NORESPONSE = 1, /* the future is fulfilled at once */
  FLUX_RPC_STREAMING = 2,  /* several responses; the last is ENODATA */
};

/* `nodeid` is a shell's rank, FLUX_NODEID_ANY or FLUX_NODEID_UPSTREAM. If there is no handler, the response is ENOSYS. Only
 * topics of the job's service, as the info's "service" names it, go to other shells. */
flux_future_t* flux_rpc(flux_t* h, const char* topic, const char* s, uint32_t nodeid, int flags) FLUX_NOTHROW;
flux_future_t* flux_rpc_pack(flux_t* h, const char* topic, uint32_t nodeid, int flags, const char* fmt,
                             ...) FLUX_NOTHROW;
flux_future_t* flux_rpc_vpack(flux_t* h, const char* topic, uint32_t nodeid, int flags, const char* fmt,
                              va_list ap) FLUX_NOTHROW;
flux_future_t* flux_rpc_raw(flux_t* h, const char* topic, const void* data, size_t len, uint32_t nodeid,
                            int flags) FLUX_NOTHROW;
flux_future_t* flux_rpc_message(flux_t* h, const flux_msg_t* msg, uint32_t nodeid, int flags) FLUX_NOTHROW;

/* Read the response, and wait for it if needed. */
int flux_rpc_get(flux_future_t* f, const char** s);
int flux_rpc_get_raw(flux_future_t* f, const void** data, size_t* len);
int flux_rpc_get_unpack(flux_future_t* f, const char* fmt, ...);
uint32_t flux_rpc_get_matchtag(flux_future_t* f) FLUX_NOTHROW;
uint32_t flux_rpc_get_nodeid(flux_future_t* f) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_RPC_H */
