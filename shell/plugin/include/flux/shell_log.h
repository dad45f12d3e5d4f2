/* SPDX-License-Identifier: Apache-2.0
 *
 * Logging, ending the job, and what Flux has not; part of <flux/shell.h>. Functions without a handle act on the
 * shell that has loaded the plugin; without a shell messages are dropped.
 */
#ifndef FLUX_SHELL_LOG_H
#define FLUX_SHELL_LOG_H

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum {
  FLUX_SHELL_QUIET = -1,
  FLUX_SHELL_FATAL = 0,
  FLUX_SHELL_ERROR = 3,
  FLUX_SHELL_WARN = 4,
  FLUX_SHELL_NOTICE = 5, /* shown by default */
  FLUX_SHELL_DEBUG = 6,
  FLUX_SHELL_TRACE = 7,
};

void flux_shell_log(const char* component, int level, const char* file, int line, const char* fmt, ...) FLUX_NOTHROW
    FLUX_PRINTF(5, 6);
/* Logs at level error, and adds ": strerror(errnum)" if errnum is not 0. Returns -1 with errno = errnum. */
int flux_shell_err(const char* component, const char* file, int line, int errnum, const char* fmt, ...) FLUX_NOTHROW
    FLUX_PRINTF(5, 6);
/* Logs the same at level fatal and ends the job with this exit code. It returns; the plugin should return too. */
void flux_shell_fatal(const char* component, const char* file, int line, int errnum, int exit_code, const char* fmt,
                      ...) FLUX_NOTHROW FLUX_PRINTF(6, 7);

/* Raises an exception of the job: severity 0 ends it, 1 to 7 are notes. */
void flux_shell_raise(const char* type, int severity, const char* fmt, ...) FLUX_NOTHROW FLUX_PRINTF(3, 4);
/* Ends the job by an exception of type exec; wait_status >= 0 (as of waitpid(2)) becomes the job's status. */
void flux_shell_raise_exit_status(int wait_status, const char* fmt, ...) FLUX_NOTHROW FLUX_PRINTF(2, 3);
/* Only here, not in Flux. Does the same, and names the task of this rank, on any shell, as the cause in reports
 * and notices. A task that still runs becomes a victim of the job's end. If the job has no such rank, no task is
 * named. */
#define NACRE_SHELL_HAVE_RAISE_TASK_STATUS 1
void nacre_shell_raise_task_status(int rank, int wait_status, const char* fmt, ...) FLUX_NOTHROW FLUX_PRINTF(3, 4);

/* Only here, not in Flux. While tasks run, asks the job's leader, from any shell, to take shells out of the job,
 * as nacre-shrink(1) does. `fmt` packs one of "shells":s, "hosts":s and "count":i, and perhaps "signal":i (or
 * s), "grace":f (seconds), "tasks":s ("end" or "refuse") and "force":b. `fn` (may be NULL) is called once,
 * perhaps before this returns: with errnum 0 and the answer as JSON, "gone":s "unconfirmed":s "hosts":s
 * "unconfirmed_hosts":s; or with an errno and its reason: EINVAL, EBUSY, EAGAIN (the job is being started),
 * ECANCELED (the job has ended, or this shell has left). EINVAL: fmt packs none of these; `fn` is not called. */
#define NACRE_SHELL_HAVE_SHRINK 1
struct flux_shell; /* flux_shell_t */
typedef void (*nacre_shell_shrink_f)(struct flux_shell* shell, int errnum, const char* text, void* arg);
int nacre_shell_shrink(struct flux_shell* shell, nacre_shell_shrink_f fn, void* arg, const char* fmt,
                       ...) FLUX_NOTHROW;

/* Drops messages above `level`: all (dest NULL), or those to one destination ("stderr", ...). */
int flux_shell_log_setlevel(int level, const char* dest) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#ifndef FLUX_SHELL_PLUGIN_NAME
#error "define FLUX_SHELL_PLUGIN_NAME, the plugin's name, before including <flux/shell.h>"
#endif

#define shell_log_at_(level, ...) flux_shell_log(FLUX_SHELL_PLUGIN_NAME, level, __FILE__, __LINE__, __VA_ARGS__)
#define shell_trace(...) shell_log_at_(FLUX_SHELL_TRACE, __VA_ARGS__)
#define shell_debug(...) shell_log_at_(FLUX_SHELL_DEBUG, __VA_ARGS__)
#define shell_log(...) shell_log_at_(FLUX_SHELL_NOTICE, __VA_ARGS__)
#define shell_warn(...) shell_log_at_(FLUX_SHELL_WARN, __VA_ARGS__)
#define shell_log_error(...) shell_log_at_(FLUX_SHELL_ERROR, __VA_ARGS__)

#define shell_log_errn(errn, ...) flux_shell_err(FLUX_SHELL_PLUGIN_NAME, __FILE__, __LINE__, errn, __VA_ARGS__)
#define shell_log_errno(...) shell_log_errn(errno, __VA_ARGS__)

#define shell_die_errn_(errn, code, ...) \
  flux_shell_fatal(FLUX_SHELL_PLUGIN_NAME, __FILE__, __LINE__, errn, code, __VA_ARGS__)
#define shell_die(code, ...) shell_die_errn_(0, code, __VA_ARGS__)
#define shell_die_errno(code, ...) shell_die_errn_(errno, code, __VA_ARGS__)

#define shell_set_verbose(n) flux_shell_log_setlevel(FLUX_SHELL_NOTICE + (n), NULL)
#define shell_set_quiet(n) flux_shell_log_setlevel(FLUX_SHELL_NOTICE - (n), NULL)

#endif /* FLUX_SHELL_LOG_H */
