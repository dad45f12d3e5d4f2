/* SPDX-License-Identifier: Apache-2.0
 *
 * Job ids as text, and the events of the job. Sources: Flux RFC 19 (ids), RFC 18 (events).
 */
#ifndef FLUX_JOB_H
#define FLUX_JOB_H

#include <flux/future.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* `type`: "dec", "hex", "kvs", "dothex", "words", "f58" or "f58plain". -1 and EINVAL for another type or a NULL,
 * EOVERFLOW if `buf` is too small. */
int flux_job_id_encode(flux_jobid_t id, const char* type, char* buf, size_t bufsz) FLUX_NOTHROW;
/* Reads any of these forms. -1 and EINVAL. */
int flux_job_id_parse(const char* s, flux_jobid_t* id) FLUX_NOTHROW;

/* Events of this job, `id`: with the `path` "guest.exec.eventlog" those that this shell posts, from the first on; with
 * "eventlog", which in Flux the job manager writes, "start", as the shells run, and exceptions. Each event is one fulfilment;
 * flux_future_reset() goes on to the next; after the last one comes ENODATA. Other logs, and those of other jobs, belong to a
 * Flux broker: fulfilled with ENOSYS. `flags` is 0. */
flux_future_t* flux_job_event_watch(flux_t* h, flux_jobid_t id, const char* path, int flags) FLUX_NOTHROW;
int flux_job_event_watch_get(flux_future_t* f, const char** event); /* JSON on one line, with its newline */
int flux_job_event_watch_cancel(flux_future_t* f) FLUX_NOTHROW;     /* the next is ENODATA */

/* Raises an exception of this job: severity 0 ends it; `type` is one word, `note` may be NULL. EINVAL. For another job the
 * future is fulfilled with ENOSYS. */
flux_future_t* flux_job_raise(flux_t* h, flux_jobid_t id, const char* type, int severity,
                              const char* note) FLUX_NOTHROW;

/* How many seconds are left until R expires: 0 if it has, infinity if it does not. `errp` may be NULL. */
int flux_job_timeleft(flux_t* h, flux_error_t* errp, double* timeleft) FLUX_NOTHROW;

/* Names in the key-value store of a Flux instance: of the job's directory if `key` is NULL, of one of its keys, of the same
 * in its guest directory ("key" alone where FLUX_KVS_NAMESPACE is set), and of the guest's namespace. They return the length;
 * -1: EINVAL, EOVERFLOW. */
int flux_job_kvs_key(char* buf, int bufsz, flux_jobid_t id, const char* key) FLUX_NOTHROW;
int flux_job_kvs_guest_key(char* buf, int bufsz, flux_jobid_t id, const char* key) FLUX_NOTHROW;
int flux_job_kvs_namespace(char* buf, int bufsz, flux_jobid_t id) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_JOB_H */
