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

/* The events that this shell posts, from the first on: `path` is "guest.exec.eventlog", `id` this job's. Each event
 * is one fulfilment; flux_future_reset() goes on to the next; after the last one comes ENODATA. The job's main log
 * and those of other jobs belong to a Flux broker: fulfilled with ENOSYS. `flags` is 0. */
flux_future_t* flux_job_event_watch(flux_t* h, flux_jobid_t id, const char* path, int flags) FLUX_NOTHROW;
int flux_job_event_watch_get(flux_future_t* f, const char** event); /* JSON on one line, with its newline */
int flux_job_event_watch_cancel(flux_future_t* f) FLUX_NOTHROW;     /* the next is ENODATA */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_JOB_H */
