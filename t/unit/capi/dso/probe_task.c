/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-task"
#include "probe.h"

PROBE(before_tasks) {
  FAILS(flux_shell_task_first(shell) == NULL, EAGAIN);
  FAILS(flux_shell_task_next(shell) == NULL, EAGAIN);
  FAILS(flux_shell_current_task(shell) == NULL, 0);
  FAILS(flux_shell_task_first(NULL) == NULL, EINVAL);
  FAILS(flux_shell_task_next(NULL) == NULL, EINVAL);
  FAILS(flux_shell_current_task(NULL) == NULL, EINVAL);
}

PROBE(all_tasks) {
  int n = 0;
  for (flux_shell_task_t* task = flux_shell_task_first(shell); task != NULL; task = flux_shell_task_next(shell)) {
    int local = -1;
    EXPECT(flux_shell_task_info_unpack(task, "{s:i}", "localid", &local) == 0 && local == n);
    ++n;
  }
  EXPECT(n == 4);
  EXPECT(flux_shell_task_next(shell) == NULL);
}

/* Of task 2, before it is started. */
PROBE(current) {
  flux_shell_task_t* task = flux_shell_current_task(shell);
  int rank = -1, local = -1;
  const char* state = NULL;
  char* json = NULL;
  EXPECT(flux_shell_task_info_unpack(task, "{s:i s:i s:s}", "rank", &rank, "localid", &local, "state", &state) ==
         0);
  EXPECT(rank == 2 && local == 2 && same(state, "Init"));
  EXPECT(flux_shell_task_get_info(task, &json) == 0 && strstr(json, "\"localid\":2") != NULL);
  free(json);
  FAILS(flux_shell_task_info_unpack(task, "{s:i}", "exitcode", &rank) == -1, EINVAL);
  FAILS(flux_shell_task_get_info(NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_task_get_info(task, NULL) == -1, EINVAL);
  FAILS(flux_shell_task_info_unpack(NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_task_info_unpack(task, NULL) == -1, EINVAL);
  FAILS(flux_shell_task_cmd(NULL) == NULL, EINVAL);
  FAILS(flux_shell_task_subprocess(NULL) == NULL, EINVAL);
  FAILS(flux_shell_task_channel_subscribe(NULL, NULL, NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_task_mustache_render(shell, NULL, "{{id}}") == NULL, EINVAL);
}

PROBE(ended) {
  int status = -1, exitcode = -1;
  const char* state = NULL;
  EXPECT(flux_shell_task_info_unpack(flux_shell_current_task(shell), "{s:s s:i s:i}", "state", &state,
                                     "wait_status", &status, "exitcode", &exitcode) == 0);
  EXPECT(same(state, "Exited") && status == 3 << 8 && exitcode == 3);
}

/* Of task 2, whose command is "true". */
PROBE(command) {
  flux_cmd_t* cmd = flux_shell_task_cmd(flux_shell_current_task(shell));
  char* env[] = {"ONE=1", "TWO=2", NULL};
  char* bad[] = {"ONE", NULL};
  const char* null_format = NULL;
  EXPECT(flux_cmd_argc(cmd) == 1 && same(flux_cmd_arg(cmd, 0), "true"));
  EXPECT(flux_cmd_argv_append(cmd, "last") == 0 && flux_cmd_argv_appendf(cmd, "%03d", 7) == 0);
  EXPECT(flux_cmd_argv_insert(cmd, 0, "first") == 0 && flux_cmd_argv_insert(cmd, 4, "end") == 0);
  EXPECT(same_text(flux_cmd_stringify(cmd), "first true last 007 end"));
  EXPECT(flux_cmd_argv_delete(cmd, 1) == 0 && flux_cmd_argc(cmd) == 4 && same(flux_cmd_arg(cmd, 1), "last"));
  FAILS(flux_cmd_arg(cmd, 4) == NULL, EINVAL);
  FAILS(flux_cmd_arg(cmd, -1) == NULL, EINVAL);
  FAILS(flux_cmd_argv_insert(cmd, 5, "x") == -1, EINVAL);
  FAILS(flux_cmd_argv_delete(cmd, 4) == -1, EINVAL);
  FAILS(flux_cmd_argv_append(cmd, NULL) == -1, EINVAL);
  FAILS(flux_cmd_argv_appendf(cmd, null_format, 0) == -1, EINVAL);

  EXPECT(same(flux_cmd_getenv(cmd, "FLUX_TASK_RANK"), "2"));
  EXPECT(flux_cmd_setenvf(cmd, 0, "FLUX_TASK_RANK", "9") == 0 && same(flux_cmd_getenv(cmd, "FLUX_TASK_RANK"), "2"));
  EXPECT(flux_cmd_setenvf(cmd, 1, "PROBE_A", "%d", 1) == 0 && flux_cmd_setenvf(cmd, 0, "PROBE_B", "b") == 0);
  EXPECT(same(flux_cmd_getenv(cmd, "PROBE_A"), "1") && same(flux_cmd_getenv(cmd, "PROBE_B"), "b"));
  EXPECT(flux_shell_getenv(shell, "PROBE_A") == NULL); /* the task's alone */
  flux_cmd_unsetenv(cmd, "PROBE_*");
  FAILS(flux_cmd_getenv(cmd, "PROBE_A") == NULL, ENOENT);
  flux_cmd_unsetenv(cmd, "FLUX_TASK_RANK");
  EXPECT(flux_cmd_getenv(cmd, "FLUX_TASK_RANK") == NULL);
  FAILS(flux_cmd_setenvf(cmd, 1, "A=B", "x") == -1, EINVAL);
  EXPECT(flux_cmd_env_replace(cmd, env) == 0);
  EXPECT(same(flux_cmd_getenv(cmd, "TWO"), "2") && flux_cmd_getenv(cmd, "FLUX_TASK_LOCAL_ID") == NULL);
  FAILS(flux_cmd_env_replace(cmd, bad) == -1, EINVAL);
  EXPECT(same(flux_cmd_getenv(cmd, "ONE"), "1")); /* all or nothing */

  FAILS(flux_cmd_getcwd(cmd) == NULL, 0);
  EXPECT(flux_cmd_setcwd(cmd, "/tmp") == 0 && same(flux_cmd_getcwd(cmd), "/tmp"));
  FAILS(flux_cmd_setcwd(cmd, NULL) == -1, EINVAL);

  FAILS(flux_cmd_argc(NULL) == -1, EINVAL);
  FAILS(flux_cmd_arg(NULL, 0) == NULL, EINVAL);
  FAILS(flux_cmd_getenv(NULL, "x") == NULL, EINVAL);
  FAILS(flux_cmd_getenv(cmd, NULL) == NULL, EINVAL);
  FAILS(flux_cmd_stringify(NULL) == NULL, EINVAL);
  FAILS(flux_cmd_copy(NULL) == NULL, EINVAL);
  flux_cmd_unsetenv(NULL, "x");
}

PROBE(own_command) {
  char* argv[] = {"echo", "hello", NULL};
  char* env[] = {"GREETING=a=b", NULL};
  flux_cmd_t* cmd = flux_cmd_create(2, argv, env);
  flux_cmd_t* copy = flux_cmd_copy(cmd);
  EXPECT(flux_cmd_setenvf(cmd, 1, "GREETING", "changed") == 0 && flux_cmd_argv_delete(cmd, 1) == 0);
  EXPECT(same(flux_cmd_getenv(copy, "GREETING"), "a=b") && flux_cmd_argc(copy) == 2);
  flux_cmd_destroy(cmd);
  flux_cmd_destroy(copy);
  flux_cmd_destroy(NULL);
  FAILS(flux_cmd_create(-1, NULL, NULL) == NULL, EINVAL);
  FAILS(flux_cmd_create(1, NULL, NULL) == NULL, EINVAL);
}

static const struct flux_plugin_handler table[] = {
    {"probe.before-tasks", before_tasks, NULL},
    {"probe.all-tasks", all_tasks, NULL},
    {"probe.current", current, NULL},
    {"probe.ended", ended, NULL},
    {"probe.command", command, NULL},
    {"probe.own-command", own_command, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
