/* SPDX-License-Identifier: Apache-2.0
 *
 * A command: arguments, environment, working directory. That of a task comes from flux_shell_task_cmd(); change it
 * before the task starts, in task.init.
 *
 * Unless stated otherwise, functions return 0, or -1 with errno set: EINVAL if `cmd` or a needed argument is NULL.
 */
#ifndef FLUX_COMMAND_H
#define FLUX_COMMAND_H

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct flux_command flux_cmd_t;

/* Makes a command, which the caller destroys. `argv` and `env` (NULL-terminated "NAME=value", or NULL) are copied. */
flux_cmd_t* flux_cmd_create(int argc, char* argv[], char** env) FLUX_NOTHROW;
flux_cmd_t* flux_cmd_copy(const flux_cmd_t* cmd) FLUX_NOTHROW;
void flux_cmd_destroy(flux_cmd_t* cmd) FLUX_NOTHROW;

/* --- arguments, counted from 0. A pointer stays valid until the arguments change. --- */

int flux_cmd_argc(const flux_cmd_t* cmd) FLUX_NOTHROW;
const char* flux_cmd_arg(const flux_cmd_t* cmd, int n) FLUX_NOTHROW; /* NULL and EINVAL if there is no n-th */
int flux_cmd_argv_append(flux_cmd_t* cmd, const char* arg) FLUX_NOTHROW;
int flux_cmd_argv_appendf(flux_cmd_t* cmd, const char* fmt, ...) FLUX_NOTHROW FLUX_PRINTF(2, 3);
int flux_cmd_argv_insert(flux_cmd_t* cmd, int n,
                         const char* arg) FLUX_NOTHROW; /* before the n-th; n = argc: last */
int flux_cmd_argv_delete(flux_cmd_t* cmd, int n) FLUX_NOTHROW;
char* flux_cmd_stringify(const flux_cmd_t* cmd) FLUX_NOTHROW; /* joined by blanks; free(3) it */

/* --- environment --- */

/* NULL and ENOENT if it is not set. Valid until this variable changes. */
const char* flux_cmd_getenv(const flux_cmd_t* cmd, const char* name) FLUX_NOTHROW;
/* If the variable is set and `overwrite` is 0, it is kept and 0 returned. */
int flux_cmd_setenvf(flux_cmd_t* cmd, int overwrite, const char* name, const char* fmt, ...) FLUX_NOTHROW
    FLUX_PRINTF(4, 5);
void flux_cmd_unsetenv(flux_cmd_t* cmd, const char* name) FLUX_NOTHROW; /* a glob(7) unsets all that match */
int flux_cmd_env_replace(flux_cmd_t* cmd, char** env) FLUX_NOTHROW;

/* --- working directory --- */

const char* flux_cmd_getcwd(const flux_cmd_t* cmd) FLUX_NOTHROW; /* NULL: that of the shell */
int flux_cmd_setcwd(flux_cmd_t* cmd, const char* cwd) FLUX_NOTHROW;

/* --- further streams besides stdin, stdout, stderr, and options of streams --- */

/* A socket for both directions; the process finds its number in the environment variable `name`. EEXIST: it
 * exists. */
int flux_cmd_add_channel(flux_cmd_t* cmd, const char* name) FLUX_NOTHROW;
/* STREAM_LINE_BUFFER "false": on_output is called as output comes; STREAM_BUFSIZE: bytes, with K or M; STREAM_STREAM_STOP
 * "true": output can be read only after flux_subprocess_stream_start(). Other options are kept, without effect. */
int flux_cmd_setopt(flux_cmd_t* cmd, const char* var, const char* val) FLUX_NOTHROW;
const char* flux_cmd_getopt(flux_cmd_t* cmd, const char* var) FLUX_NOTHROW; /* NULL: not set */
int flux_cmd_set_label(flux_cmd_t* cmd, const char* label) FLUX_NOTHROW;
const char* flux_cmd_get_label(const flux_cmd_t* cmd) FLUX_NOTHROW; /* NULL: none */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_COMMAND_H */
