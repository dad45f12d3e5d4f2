/* SPDX-License-Identifier: Apache-2.0
 *
 * What the job shell offers to its plugins. See nacre-shell-plugins(7). Before this file is included,
 * FLUX_SHELL_PLUGIN_NAME must be defined as the plugin's name, a string: the logging macros use it.
 *
 * Unless stated otherwise, functions return 0, or -1 with errno set: EINVAL if a handle or a needed argument is
 * NULL or malformed, ENOSYS if this shell does not offer it. `char **json_str` gets a string that the caller frees
 * with free(3). FORMATs with variable arguments are those of jansson's json_pack(3) and json_unpack(3); unpacked
 * strings and objects belong to the shell and are valid while it runs (those of a task: until its state changes).
 *
 * Call all functions from the thread that calls the plugin.
 */
#ifndef FLUX_SHELL_H
#define FLUX_SHELL_H

#include <flux/core.h>
#include <flux/hostlist.h>
#include <flux/shell_log.h>
#include <flux/taskmap.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct flux_shell flux_shell_t;
typedef struct shell_task flux_shell_task_t;

typedef void (*flux_shell_task_io_f)(flux_shell_task_t* task, const char* stream, void* arg);

flux_shell_t* flux_plugin_get_shell(flux_plugin_t* p) FLUX_NOTHROW;

/* Data for all plugins, by key; otherwise as flux_plugin_aux_set(). Freed after the last plugin. */
int flux_shell_aux_set(flux_shell_t* shell, const char* key, void* val, flux_free_f free_fn) FLUX_NOTHROW;
void* flux_shell_aux_get(flux_shell_t* shell, const char* key) FLUX_NOTHROW;

/* --- shell options; "a.b" names a member of a member --- */

/* 1 if the option is set, 0 if not, -1 on errors. json_str may be NULL. */
int flux_shell_getopt(flux_shell_t* shell, const char* name, char** json_str) FLUX_NOTHROW;
int flux_shell_getopt_unpack(flux_shell_t* shell, const char* name, const char* fmt, ...) FLUX_NOTHROW;
/* A NULL json_str unsets it. To change the option of a builtin plugin, call this in flux_plugin_init(). */
int flux_shell_setopt(flux_shell_t* shell, const char* name, const char* json_str) FLUX_NOTHROW;
int flux_shell_setopt_pack(flux_shell_t* shell, const char* name, const char* fmt, ...) FLUX_NOTHROW;

/* --- the job's environment, inherited by all tasks --- */

/* NULL if it is not set. Valid until this variable changes. */
const char* flux_shell_getenv(flux_shell_t* shell, const char* name) FLUX_NOTHROW;
int flux_shell_get_environ(flux_shell_t* shell, char** json_str) FLUX_NOTHROW; /* an object of strings */
/* EEXIST if it is set and `overwrite` is 0. */
int flux_shell_setenvf(flux_shell_t* shell, int overwrite, const char* name, const char* fmt, ...) FLUX_NOTHROW
    FLUX_PRINTF(4, 5);
int flux_shell_unsetenv(flux_shell_t* shell, const char* name) FLUX_NOTHROW; /* ENOENT if it is not set */

/* --- facts --- */

/* "jobid":I "rank":i "size":i "ntasks":i "service":s "options":{"verbose":i "standalone":b} "jobspec":o "R":o */
int flux_shell_get_info(flux_shell_t* shell, char** json_str) FLUX_NOTHROW;
int flux_shell_info_unpack(flux_shell_t* shell, const char* fmt, ...) FLUX_NOTHROW;

/* For one shell (-1: this one): "id":i "name":s "broker_rank":i "ntasks":i "taskids":s "resources":{"ncores":i
 * "cores":s "gpus":s} */
int flux_shell_get_rank_info(flux_shell_t* shell, int shell_rank, char** json_str) FLUX_NOTHROW;
int flux_shell_rank_info_unpack(flux_shell_t* shell, int shell_rank, const char* fmt, ...) FLUX_NOTHROW;

/* "version":i, and for version 1 "ntasks":i "nslots":i "cores_per_slot":i "gpus_per_slot":i "nnodes":i (-1: not
 * given) "slots_per_node":i (-1: not given) "node_exclusive":b */
int flux_shell_get_jobspec_info(flux_shell_t* shell, char** json_str) FLUX_NOTHROW;
int flux_shell_jobspec_info_unpack(flux_shell_t* shell, const char* fmt, ...) FLUX_NOTHROW;

/* The job's current task map: before shell.init it is block, unless it was remapped. */
const struct taskmap* flux_shell_get_taskmap(flux_shell_t* shell) FLUX_NOTHROW;
/* The hosts of the shells by rank, with R's names. It belongs to the shell. */
const struct hostlist* flux_shell_get_hostlist(flux_shell_t* shell) FLUX_NOTHROW;
/* This node's topology, discovered at the first call (tens of milliseconds) and then kept. It belongs to the shell. */
int flux_shell_get_hwloc_xml(flux_shell_t* shell, const char** xmlp) FLUX_NOTHROW;

/* --- changing the job --- */

/* The shell does not finish before each reference is removed. add returns how many of this name there are now. */
int flux_shell_add_completion_ref(flux_shell_t* shell, const char* fmt, ...) FLUX_NOTHROW FLUX_PRINTF(2, 3);
int flux_shell_remove_completion_ref(flux_shell_t* shell, const char* fmt, ...) FLUX_NOTHROW FLUX_PRINTF(2, 3);

void flux_shell_killall(flux_shell_t* shell, int sig) FLUX_NOTHROW; /* all running tasks; nothing if sig <= 0 */

/* Calls `topic` on all plugins. `args` (may be NULL) has the arguments and receives the results. */
int flux_shell_plugstack_call(flux_shell_t* shell, const char* topic, flux_plugin_arg_t* args) FLUX_NOTHROW;

/* Adds members to the context of the event shell.init or shell.start. `flags` is 0. */
int flux_shell_add_event_context(flux_shell_t* shell, const char* name, int flags, const char* fmt,
                                 ...) FLUX_NOTHROW;

/* --- tasks --- */

/* The task that a task.* topic is about; NULL outside of one. */
flux_shell_task_t* flux_shell_current_task(flux_shell_t* shell) FLUX_NOTHROW;
/* All tasks of this shell by local id, from shell.init on; NULL at the end, and EAGAIN if there are none. */
flux_shell_task_t* flux_shell_task_first(flux_shell_t* shell) FLUX_NOTHROW;
flux_shell_task_t* flux_shell_task_next(flux_shell_t* shell) FLUX_NOTHROW;

/* "localid":i "rank":i "state":s, "pid":I once it runs, "wait_status":i "exitcode":i "signaled":i once it has
 * ended. */
int flux_shell_task_get_info(flux_shell_task_t* task, char** json_str) FLUX_NOTHROW;
int flux_shell_task_info_unpack(flux_shell_task_t* task, const char* fmt, ...) FLUX_NOTHROW;

flux_cmd_t* flux_shell_task_cmd(flux_shell_task_t* task) FLUX_NOTHROW;

/* The task as a process, to signal it, and to read and write its channels. The caller does not destroy it. */
flux_subprocess_t* flux_shell_task_subprocess(flux_shell_task_t* task) FLUX_NOTHROW;
/* In task.init: calls `cb` when the task has written to a channel of flux_cmd_add_channel(), or to "stdout" or
 * "stderr" if no other plugin reads them. What no plugin reads is dropped. EEXIST: the channel is read already.
 * ENOENT: there is no such channel. */
int flux_shell_task_channel_subscribe(flux_shell_task_t* task, const char* channel, flux_shell_task_io_f cb,
                                      void* arg) FLUX_NOTHROW;

/* --- templates: text with {{tags}}, see nacre-shell-options(7) --- */

/* Text that the caller frees with free(3). Tags of a task are rendered in a task.* topic, for its task, and by the
 * last of the three functions; otherwise they stay, as unknown tags do. `shell_rank` -1: this shell. */
char* flux_shell_mustache_render(flux_shell_t* shell, const char* fmt) FLUX_NOTHROW;
char* flux_shell_rank_mustache_render(flux_shell_t* shell, int shell_rank, const char* fmt) FLUX_NOTHROW;
char* flux_shell_task_mustache_render(flux_shell_t* shell, flux_shell_task_t* task, const char* fmt) FLUX_NOTHROW;
/* Whether the text can come out differently for two shells or tasks. */
bool flux_shell_mustache_is_per_rank(flux_shell_t* shell, const char* fmt) FLUX_NOTHROW;

/* --- messages, see <flux/handle.h> --- */

/* The shell's handle. The caller does not close it. */
flux_t* flux_shell_get_flux(flux_shell_t* shell) FLUX_NOTHROW;
/* Handles requests with the topic SERVICE.METHOD, with SERVICE as in flux_shell_get_info(), and events
 * shell-JOBID.SUBTOPIC, with JOBID in decimal, until the shell ends. */
int flux_shell_service_register(flux_shell_t* shell, const char* method, flux_msg_handler_f cb,
                                void* arg) FLUX_NOTHROW;
int flux_shell_add_event_handler(flux_shell_t* shell, const char* subtopic, flux_msg_handler_f cb,
                                 void* arg) FLUX_NOTHROW;
/* Sends a request to that service of a shell of the job. EINVAL: no such shell; EMSGSIZE: more than 16 MiB, to
 * another shell. The future fails with ENOSYS (no such service) and EHOSTUNREACH (the shell is lost). A shell
 * that has not run shell.init keeps requests that it has no service for. Each message to another shell costs a
 * message to every shell. */
flux_future_t* flux_shell_rpc_pack(flux_shell_t* shell, const char* method, int shell_rank, int flags,
                                   const char* fmt, ...) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_SHELL_H */
