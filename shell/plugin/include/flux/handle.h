/* SPDX-License-Identifier: Apache-2.0
 *
 * The handle with which a plugin sends and receives messages. In Flux it is a connection to a broker. Here it ends
 * in this shell: a request goes to the handler that was registered for its topic, an event to all handlers, a
 * response to the future that waits for it. Each is delivered from the loop, never from within the call that sends.
 * Published events, and requests for services of the job's other shells, go to those shells: see
 * flux_shell_rpc_pack(). Requests that a broker would answer, such as those of the KVS, get ENOSYS and a line in
 * the debug log.
 *
 * In a job of a Flux instance the handle also reaches the broker of its node: requests that nothing here takes go there, events
 * are published there, and requests of others for the job's service come to the handlers. A call to it can be waited for anywhere.
 *
 * Functions that return int fail with -1 and errno, those that return a pointer with NULL: EINVAL if the handle or
 * a needed argument is NULL.
 */
#ifndef FLUX_HANDLE_H
#define FLUX_HANDLE_H

#include <syslog.h>

#include <flux/message.h>
#include <flux/reactor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum {
  FLUX_O_TRACE = 1,
  FLUX_O_CLONE = 2,
  FLUX_O_NONBLOCK = 4,
  FLUX_O_MATCHDEBUG = 8,
  FLUX_O_TEST_NOSUB = 16,
  FLUX_O_RPCTRACK = 32,
  FLUX_O_NOREQUEUE = 64,
};

/* There is no broker to connect to: NULL and ENOSYS. The shell's handle is flux_shell_get_flux(). In an instance NULL, or the
 * URI of its own broker, gives a clone of that. */
flux_t* flux_open(const char* uri, int flags) FLUX_NOTHROW;
flux_t* flux_open_ex(const char* uri, int flags, flux_error_t* error) FLUX_NOTHROW;
void flux_close(flux_t* h) FLUX_NOTHROW; /* drops a reference, as decref */
/* A handle that gets the same messages, for the same thread: its calls and options are those of `orig`, with a reactor, handlers
 * and attached data of its own. A message goes to the loop that runs and has a handler, or the open call, for it. A clone on
 * a loop of its own keeps others for the time that it has started handlers or open calls, and `orig` runs no loop. */
flux_t* flux_clone(flux_t* orig) FLUX_NOTHROW;
flux_t* flux_incref(flux_t* h) FLUX_NOTHROW;
void flux_decref(flux_t* h) FLUX_NOTHROW;

flux_reactor_t* flux_get_reactor(flux_t* h) FLUX_NOTHROW;
int flux_set_reactor(flux_t* h, flux_reactor_t* r) FLUX_NOTHROW; /* EEXIST: it has one */

/* As flux_plugin_aux_set(). */
int flux_aux_set(flux_t* h, const char* name, void* aux, flux_free_f destroy) FLUX_NOTHROW;
void* flux_aux_get(flux_t* h, const char* name) FLUX_NOTHROW;

void flux_flags_set(flux_t* h, int flags) FLUX_NOTHROW; /* remembered, without effect */
void flux_flags_unset(flux_t* h, int flags) FLUX_NOTHROW;
int flux_flags_get(flux_t* h) FLUX_NOTHROW;

/* EINVAL: there is no such option, or `len` is not the size of its type. The two testing options (uint32_t, get
 * and set) are the sender of messages that are sent afterwards. The two counts (size_t, get) are the messages
 * that wait to be handled here, or at the other end of an interthread handle. */
#define FLUX_OPT_TESTING_USERID "flux::testing_userid"
#define FLUX_OPT_TESTING_ROLEMASK "flux::testing_rolemask"
#define FLUX_OPT_SEND_QUEUE_COUNT "flux::send_queue_count"
#define FLUX_OPT_RECV_QUEUE_COUNT "flux::recv_queue_count"
int flux_opt_set(flux_t* h, const char* option, const void* val, size_t len) FLUX_NOTHROW;
int flux_opt_get(flux_t* h, const char* option, void* val, size_t len) FLUX_NOTHROW;

/* get_rank: the rank of this shell's node in the enclosing instance, by R. get_size: how many shells the job
 * has; in an instance, how many brokers the instance has. */
int flux_get_rank(flux_t* h, uint32_t* rank) FLUX_NOTHROW;
int flux_get_size(flux_t* h, uint32_t* size) FLUX_NOTHROW;
/* "rank", "size", "hostname", "hostlist", "jobid", in an instance those of the broker; ENOENT for all others. They cannot be set:
 * EPERM. */
const char* flux_attr_get(flux_t* h, const char* name) FLUX_NOTHROW;
int flux_attr_set(flux_t* h, const char* name, const char* val) FLUX_NOTHROW;

/* --- the shell's log, at a level of syslog(3) --- */

int flux_log(flux_t* h, int level, const char* fmt, ...) FLUX_NOTHROW FLUX_PRINTF(3, 4);
int flux_vlog(flux_t* h, int level, const char* fmt, va_list ap) FLUX_NOTHROW;
void flux_log_error(flux_t* h, const char* fmt, ...) FLUX_NOTHROW FLUX_PRINTF(2, 3); /* adds the text of errno */
void flux_log_verror(flux_t* h, const char* fmt, va_list ap) FLUX_NOTHROW;
void flux_log_set_appname(flux_t* h, const char* s) FLUX_NOTHROW; /* instead of the plugin's name */
void flux_log_set_procid(flux_t* h, const char* s) FLUX_NOTHROW;  /* no effect: the shell's log has none */
#define FLUX_LOG_ERROR(h) (void)flux_log_error((h), "%s::%d[%s]", __FILE__, __LINE__, __func__)
/* A llog function: `arg` is the handle. */
void flux_llog(void* arg, const char* file, int line, const char* func, const char* subsys, int level,
               const char* fmt, va_list args) FLUX_NOTHROW;

/* --- messages --- */

int flux_send(flux_t* h, const flux_msg_t* msg, int flags) FLUX_NOTHROW;
/* The same, but the handle takes over the reference. EINVAL if the message has other references. */
int flux_send_new(flux_t* h, flux_msg_t** msg, int flags) FLUX_NOTHROW;
/* Takes the first matching message of those that wait to be handled. EAGAIN if there is none, with or without
 * FLUX_O_NONBLOCK: only the loop brings more. */
flux_msg_t* flux_recv(flux_t* h, struct flux_match match, int flags) FLUX_NOTHROW;
enum {
  FLUX_RQ_HEAD = 1,
  FLUX_RQ_TAIL = 2,
};
int flux_requeue(flux_t* h, const flux_msg_t* msg, int flags) FLUX_NOTHROW;
int flux_pollevents(flux_t* h) FLUX_NOTHROW;
int flux_pollfd(flux_t* h) FLUX_NOTHROW; /* readable while a message waits; it belongs to the handle */

uint32_t flux_matchtag_alloc(flux_t* h) FLUX_NOTHROW; /* FLUX_MATCHTAG_NONE and errno if there is none */
void flux_matchtag_free(flux_t* h, uint32_t matchtag) FLUX_NOTHROW;

/* --- handlers. A request goes to the handler registered last for exactly its topic, or else to the last one
 * that matches; an event goes to all that match. `arg` belongs to the caller. --- */

flux_msg_handler_t* flux_msg_handler_create(flux_t* h, const struct flux_match match, flux_msg_handler_f cb,
                                            void* arg) FLUX_NOTHROW;
void flux_msg_handler_destroy(flux_msg_handler_t* mh) FLUX_NOTHROW;
void flux_msg_handler_start(flux_msg_handler_t* mh) FLUX_NOTHROW;
void flux_msg_handler_stop(flux_msg_handler_t* mh) FLUX_NOTHROW;
/* Sets from which users, besides the owner, the handler gets messages; a request of another user is answered
 * with EPERM. */
void flux_msg_handler_allow_rolemask(flux_msg_handler_t* mh, uint32_t rolemask) FLUX_NOTHROW;
void flux_msg_handler_deny_rolemask(flux_msg_handler_t* mh, uint32_t rolemask) FLUX_NOTHROW;

struct flux_msg_handler_spec {
  int typemask;
  const char* topic_glob;
  flux_msg_handler_f cb;
  uint32_t rolemask;
};
#define FLUX_MSGHANDLER_TABLE_END \
  { 0, NULL, NULL, 0 }
/* Creates and starts all handlers of a table; the array ends with NULL and is for delvec. */
int flux_msg_handler_addvec(flux_t* h, const struct flux_msg_handler_spec tab[], void* arg,
                            flux_msg_handler_t** handlers[]) FLUX_NOTHROW;
void flux_msg_handler_delvec(flux_msg_handler_t* handlers[]) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_HANDLE_H */
