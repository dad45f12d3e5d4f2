/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that a plugin starts, and the task of a task.* topic seen as one. Source: libsubprocess of flux-core.
 *
 * Functions that return int fail with -1 and errno: EINVAL if the process or a needed argument is NULL. Streams are
 * "stdin", "stdout", "stderr" and the names of channels.
 */
#ifndef FLUX_SUBPROCESS_H
#define FLUX_SUBPROCESS_H

#include <flux/command.h>
#include <flux/future.h>
#include <flux/reactor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum {
  FLUX_SUBPROCESS_INIT,
  FLUX_SUBPROCESS_RUNNING, /* it has executed */
  FLUX_SUBPROCESS_EXITED,
  FLUX_SUBPROCESS_FAILED,  /* it could not be started: flux_subprocess_fail_errno() */
  FLUX_SUBPROCESS_STOPPED, /* only reported to on_state_change; the state stays RUNNING */
} flux_subprocess_state_t;

enum {
  FLUX_SUBPROCESS_FLAGS_STDIO_FALLTHROUGH = 1, /* stdin, stdout, stderr are the shell's own */
  FLUX_SUBPROCESS_FLAGS_NO_SETPGRP = 2,        /* no process group of its own */
  FLUX_SUBPROCESS_FLAGS_FORK_EXEC = 4,         /* no effect */
  FLUX_SUBPROCESS_FLAGS_LOCAL_UNBUF = 8,       /* for processes of a broker: no effect */
};

typedef void (*flux_subprocess_f)(flux_subprocess_t* p);
typedef void (*flux_subprocess_output_f)(flux_subprocess_t* p, const char* stream);
typedef void (*flux_subprocess_state_f)(flux_subprocess_t* p, flux_subprocess_state_t state);
typedef void (*flux_subprocess_credit_f)(flux_subprocess_t* p, const char* stream, int bytes);
typedef void (*flux_subprocess_hook_f)(flux_subprocess_t* p, void* arg);

/* on_output is called for each line, unless the command's option STREAM_LINE_BUFFER is "false"; repeated while the
 * callback reads, and once more, with nothing to read, at the end. */
typedef struct {
  flux_subprocess_f on_completion; /* exited, and all output has been offered; not after FAILED */
  flux_subprocess_state_f on_state_change;
  flux_subprocess_output_f on_channel_out;
  flux_subprocess_output_f on_stdout;
  flux_subprocess_output_f on_stderr;
  flux_subprocess_credit_f on_credit; /* so many more bytes may be written; at first the size of the buffer */
} flux_subprocess_ops_t;

typedef struct {
  flux_subprocess_hook_f pre_exec; /* in the new process */
  void* pre_exec_arg;
  flux_subprocess_hook_f post_fork; /* in the shell */
  void* post_fork_arg;
} flux_subprocess_hooks_t;

typedef void (*subprocess_log_f)(void* arg, const char* file, int line, const char* func, const char* subsys,
                                 int level, const char* fmt, va_list args);

/* NULL with errno if the command cannot be executed, such as ENOENT or EACCES. `r` must be the shell's (else
 * ENOSYS). What `ops` points to is copied; NULL: none. The job does not wait for the process, see
 * flux_shell_add_completion_ref(); it is ended with the shell. */
flux_subprocess_t* flux_local_exec(flux_reactor_t* r, int flags, const flux_cmd_t* cmd,
                                   const flux_subprocess_ops_t* ops) FLUX_NOTHROW;
flux_subprocess_t* flux_local_exec_ex(flux_reactor_t* r, int flags, const flux_cmd_t* cmd,
                                      const flux_subprocess_ops_t* ops, const flux_subprocess_hooks_t* hooks,
                                      subprocess_log_f log_fn, void* log_data) FLUX_NOTHROW;
/* Would start a process on another node, which needs a broker: NULL and ENOSYS. */
flux_subprocess_t* flux_rexec(flux_t* h, int rank, int flags, const flux_cmd_t* cmd,
                              const flux_subprocess_ops_t* ops) FLUX_NOTHROW;
/* A process that still runs is left alone, and its output is lost. */
void flux_subprocess_destroy(flux_subprocess_t* p) FLUX_NOTHROW;

/* --- streams --- */

/* Writes all of `len` and returns that, or fails with ENOSPC. EPIPE once the stream is closed. */
int flux_subprocess_write(flux_subprocess_t* p, const char* stream, const char* buf, size_t len) FLUX_NOTHROW;
int flux_subprocess_close(flux_subprocess_t* p, const char* stream) FLUX_NOTHROW;
/* Return how many bytes there are; 0: none. *bufp ends with a NUL and is valid until the next call for this stream.
 * read: all bytes. read_line: a whole line. read_trimmed_line: without its newline. getline: at the end also the
 * rest. */
int flux_subprocess_read(flux_subprocess_t* p, const char* stream, const char** bufp) FLUX_NOTHROW;
int flux_subprocess_read_line(flux_subprocess_t* p, const char* stream, const char** bufp) FLUX_NOTHROW;
int flux_subprocess_read_trimmed_line(flux_subprocess_t* p, const char* stream, const char** bufp) FLUX_NOTHROW;
int flux_subprocess_getline(flux_subprocess_t* p, const char* stream, const char** bufp) FLUX_NOTHROW;
bool flux_subprocess_read_stream_closed(flux_subprocess_t* p, const char* stream) FLUX_NOTHROW;
void flux_subprocess_stream_start(flux_subprocess_t* p, const char* stream) FLUX_NOTHROW;
void flux_subprocess_stream_stop(flux_subprocess_t* p, const char* stream) FLUX_NOTHROW;

/* --- the process --- */

/* Signals its process group, if it has one. The future is fulfilled at once, with ESRCH if the process has
 * ended. */
flux_future_t* flux_subprocess_kill(flux_subprocess_t* p, int signum) FLUX_NOTHROW;
flux_subprocess_state_t flux_subprocess_state(flux_subprocess_t* p) FLUX_NOTHROW;
const char* flux_subprocess_state_string(flux_subprocess_state_t state) FLUX_NOTHROW; /* "Init", "Running", ... */
bool flux_subprocess_active(flux_subprocess_t* p) FLUX_NOTHROW; /* it runs, or has output to be offered */
pid_t flux_subprocess_pid(flux_subprocess_t* p) FLUX_NOTHROW;
int flux_subprocess_rank(flux_subprocess_t* p) FLUX_NOTHROW;       /* EINVAL: the process is on this node */
int flux_subprocess_fail_errno(flux_subprocess_t* p) FLUX_NOTHROW; /* -1: it has not failed */
const char* flux_subprocess_fail_error(flux_subprocess_t* p) FLUX_NOTHROW;
/* status: that of waitpid(2). exit_code: that of a normal exit. signaled: the signal. EINVAL if the process has
 * not ended in this way. */
int flux_subprocess_status(flux_subprocess_t* p) FLUX_NOTHROW;
int flux_subprocess_exit_code(flux_subprocess_t* p) FLUX_NOTHROW;
int flux_subprocess_signaled(flux_subprocess_t* p) FLUX_NOTHROW;
flux_cmd_t* flux_subprocess_get_cmd(flux_subprocess_t* p) FLUX_NOTHROW;
flux_reactor_t* flux_subprocess_get_reactor(flux_subprocess_t* p) FLUX_NOTHROW;
int flux_subprocess_aux_set(flux_subprocess_t* p, const char* name, void* ctx, flux_free_f free_fn) FLUX_NOTHROW;
void* flux_subprocess_aux_get(flux_subprocess_t* p, const char* name) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_SUBPROCESS_H */
