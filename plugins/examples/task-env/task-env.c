/* SPDX-License-Identifier: Apache-2.0
 *
 * task-env: gives each task the variable TASK_ID, "RANK/TASKS", and logs how it ended.
 *
 *   -o task-env.name=VAR    another name for the variable
 */

/* The name of this plugin, for the log macros; to be defined before the include. */
#define FLUX_SHELL_PLUGIN_NAME "task-env"
#include <flux/shell.h>

#include <sys/wait.h>

/* Called in the shell for each task before it is started: the place to change its command. */
static int set_variable(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  flux_shell_task_t* task = flux_shell_current_task(shell);
  const char* name = "TASK_ID";
  int rank, ntasks;

  (void)topic, (void)args, (void)data; /* every handler gets them; this one needs none */

  /* 1: the option is set; 0: it is not, and `name` stays as it is; -1: it is no string. */
  if (flux_shell_getopt_unpack(shell, "task-env.name", "s", &name) < 0) {
    shell_log_error("task-env.name: expected a string");
    return -1; /* a handler that fails, fails the job */
  }

  /* Facts come as JSON, to be unpacked as jansson does: "{s:i}" is an object with a key and an integer. */
  if (flux_shell_info_unpack(shell, "{s:i}", "ntasks", &ntasks) < 0 ||
      flux_shell_task_info_unpack(task, "{s:i}", "rank", &rank) < 0)
    return shell_log_errno("cannot tell which task this is"); /* logs, and returns -1 */

  if (flux_cmd_setenvf(flux_shell_task_cmd(task), 1, name, "%d/%d", rank, ntasks) < 0)
    return shell_log_errno("cannot set %s", name);
  return 0;
}

/* Called when a task has ended. */
static int log_exit(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_task_t* task = flux_shell_current_task(flux_plugin_get_shell(p));
  int rank, status;

  (void)topic, (void)args, (void)data;

  if (flux_shell_task_info_unpack(task, "{s:i s:i}", "rank", &rank, "wait_status", &status) < 0)
    return shell_log_errno("cannot tell how the task ended");
  if (WIFSIGNALED(status))
    shell_log("task %d was killed by signal %d", rank, WTERMSIG(status));
  else
    shell_log("task %d exited with %d", rank, WEXITSTATUS(status));
  return 0;
}

static const struct flux_plugin_handler handlers[] = {
    {"task.init", set_variable, NULL},
    {"task.exit", log_exit, NULL},
    {NULL, NULL, NULL},
};

/* The one symbol that a plugin exports: called once, when the plugin has been loaded. */
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, handlers); }
