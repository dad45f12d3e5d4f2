/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-process"
#include "probe.h"

#include <signal.h>

static char seen[512];

static void note(const char* format, ...) {
  va_list args;
  size_t length = strlen(seen);
  va_start(args, format);
  vsnprintf(seen + length, sizeof seen - length, format, args);
  va_end(args);
}

static flux_reactor_t* reactor_of(flux_shell_t* shell) { return flux_get_reactor(flux_shell_get_flux(shell)); }

static flux_cmd_t* command(const char* script) {
  char* argv[] = {"/bin/sh", "-c", (char*)script, NULL};
  char* env[] = {"PATH=/usr/bin:/bin", NULL};
  return flux_cmd_create(3, argv, env);
}

static void on_output(flux_subprocess_t* p, const char* stream) {
  const char* line = NULL;
  int length = flux_subprocess_getline(p, stream, &line);
  if (length > 0) {
    note("%s:%.*s;", stream, length - (line[length - 1] == '\n'), line);
  } else if (flux_subprocess_read_stream_closed(p, stream)) {
    note("%s|;", stream);
  }
}

static void on_state(flux_subprocess_t* p, flux_subprocess_state_t state) {
  (void)p;
  note("%s;", flux_subprocess_state_string(state));
}

static void on_completion(flux_subprocess_t* p) {
  note("done %d;", flux_subprocess_exit_code(p));
  flux_subprocess_destroy(p);
}

static void on_credit(flux_subprocess_t* p, const char* stream, int bytes) {
  if (strcmp(stream, "stdin") != 0 || bytes < 100) return;
  note("credit;");
  EXPECT(flux_subprocess_write(p, "stdin", "fed\n", 4) == 4);
  EXPECT(flux_subprocess_close(p, "stdin") == 0);
  FAILS(flux_subprocess_write(p, "stdin", "more", 4) == -1, EPIPE);
}

static void* aux_freed;
static void free_aux(void* arg) { aux_freed = arg; }

PROBE(begin) {
  flux_cmd_t* cmd = command("cat; echo err >&2; exit 3");
  flux_subprocess_ops_t ops = {on_completion, on_state, NULL, on_output, on_output, on_credit};
  seen[0] = '\0';
  flux_subprocess_t* child = flux_local_exec(reactor_of(shell), 0, cmd, &ops);
  EXPECT(child != NULL && same(seen, ""));
  EXPECT(flux_subprocess_state(child) == FLUX_SUBPROCESS_RUNNING && flux_subprocess_active(child));
  EXPECT(flux_subprocess_pid(child) > 0 && kill(flux_subprocess_pid(child), 0) == 0);
  EXPECT(flux_subprocess_get_reactor(child) == reactor_of(shell));
  EXPECT(flux_cmd_argc(flux_subprocess_get_cmd(child)) == 3);
  EXPECT(flux_subprocess_aux_set(child, "key", seen, free_aux) == 0 &&
         flux_subprocess_aux_get(child, "key") == seen);
  FAILS(flux_subprocess_aux_get(child, "none") == NULL, ENOENT);
  FAILS(flux_subprocess_exit_code(child) == -1, EINVAL);
  FAILS(flux_subprocess_status(child) == -1, EINVAL);
  FAILS(flux_subprocess_signaled(child) == -1, EINVAL);
  FAILS(flux_subprocess_rank(child) == -1, EINVAL);
  FAILS(flux_subprocess_fail_errno(child) == -1, EINVAL);
  FAILS(flux_subprocess_write(child, "stdout", "x", 1) == -1, EINVAL);
  FAILS(flux_subprocess_write(child, "none", "x", 1) == -1, EINVAL);
  FAILS(flux_subprocess_read(child, "none", NULL) == -1, EINVAL);
  FAILS(flux_subprocess_close(child, "none") == -1, EINVAL);
  flux_cmd_destroy(cmd);
}

PROBE(end) {
  const char* expected = "Running;credit;stdout:fed;stdout|;stderr:err;stderr|;";
  int same_length = strncmp(seen, "Running;credit;", 15) == 0;
  EXPECT(same_length && strlen(seen) == strlen(expected) + strlen("Exited;done 3;"));
  EXPECT(strstr(seen, "stdout:fed;") != NULL && strstr(seen, "stderr:err;") != NULL);
  EXPECT(strstr(seen, "Exited;") != NULL && strcmp(seen + strlen(seen) - 7, "done 3;") == 0);
  EXPECT(aux_freed == seen);
  if (failures > 0) shell_log_error("%s", seen);
}

/* --- other ways to start and to end --- */

static flux_subprocess_t* sleeper;
static flux_subprocess_t* chatty;

static void was_killed(flux_subprocess_t* p) {
  note("killed %d;", flux_subprocess_signaled(p));
  EXPECT(flux_subprocess_status(p) == SIGKILL && !flux_subprocess_active(p));
  flux_future_t* f = flux_subprocess_kill(p, SIGTERM);
  FAILS(flux_future_get(f, NULL) == -1, ESRCH);
  flux_future_destroy(f);
}

static void on_channel(flux_subprocess_t* p, const char* stream) {
  const char* text = NULL;
  int length = flux_subprocess_read_trimmed_line(p, stream, &text);
  if (length > 0) note("%s:%s;", stream, text);
}

static void in_child(flux_subprocess_t* p, void* arg) {
  (void)p;
  setenv("HOOK", arg, 1);
}

static void in_parent(flux_subprocess_t* p, void* arg) { note("%s %d;", (char*)arg, flux_subprocess_pid(p) > 0); }

PROBE(begin_others) {
  flux_reactor_t* r = reactor_of(shell);
  flux_subprocess_ops_t killed = {.on_completion = was_killed};
  seen[0] = '\0';
  flux_cmd_t* cmd = command("exec sleep 600");
  sleeper = flux_local_exec(r, FLUX_SUBPROCESS_FLAGS_NO_SETPGRP, cmd, &killed);
  EXPECT(sleeper != NULL);
  flux_future_t* f = flux_subprocess_kill(sleeper, SIGKILL);
  EXPECT(flux_future_get(f, NULL) == 0);
  flux_future_destroy(f);
  flux_cmd_destroy(cmd);

  /* A channel, by its number in the environment; hooks on both sides. */
  cmd = command("read word <&$LINK; echo \"$word\" >&$LINK");
  EXPECT(flux_cmd_add_channel(cmd, "LINK") == 0);
  FAILS(flux_cmd_add_channel(cmd, "LINK") == -1, EEXIST);
  FAILS(flux_cmd_add_channel(cmd, "A=B") == -1, EINVAL);
  FAILS(flux_cmd_add_channel(NULL, "A") == -1, EINVAL);
  flux_subprocess_ops_t channel = {.on_channel_out = on_channel};
  flux_subprocess_hooks_t hooks = {in_child, "x", in_parent, "forked"};
  chatty = flux_local_exec_ex(r, 0, cmd, &channel, &hooks, NULL, NULL);
  EXPECT(chatty != NULL && flux_subprocess_write(chatty, "LINK", "through\n", 8) == 8);
  flux_cmd_destroy(cmd);
}

PROBE(end_others) {
  EXPECT(strstr(seen, "forked 1;") != NULL && strstr(seen, "killed 9;") != NULL);
  EXPECT(strstr(seen, "LINK:through;") != NULL);
  if (failures > 0) shell_log_error("%s", seen);
  flux_subprocess_destroy(sleeper);
  flux_subprocess_destroy(chatty);
}

PROBE(refused) {
  flux_reactor_t *r = reactor_of(shell), *own = flux_reactor_create(0);
  flux_cmd_t* cmd = command("true");
  flux_cmd_t* empty = flux_cmd_create(0, NULL, NULL);
  char* missing[] = {"/nonexistent/program", NULL};
  char* forbidden[] = {"/etc/passwd", NULL};
  FAILS(flux_local_exec(NULL, 0, cmd, NULL) == NULL, EINVAL);
  FAILS(flux_local_exec(r, 0, NULL, NULL) == NULL, EINVAL);
  FAILS(flux_local_exec(r, 4096, cmd, NULL) == NULL, EINVAL);
  FAILS(flux_local_exec(r, 0, empty, NULL) == NULL, EINVAL);
  FAILS(flux_local_exec(own, 0, cmd, NULL) == NULL, ENOSYS);
  FAILS(flux_rexec(flux_shell_get_flux(shell), 0, 0, cmd, NULL) == NULL, ENOSYS);
  FAILS(flux_rexec(NULL, 0, 0, cmd, NULL) == NULL, EINVAL);
  flux_cmd_destroy(empty);
  empty = flux_cmd_create(1, missing, NULL);
  FAILS(flux_local_exec(r, 0, empty, NULL) == NULL, ENOENT);
  flux_cmd_destroy(empty);
  empty = flux_cmd_create(1, forbidden, NULL);
  FAILS(flux_local_exec(r, 0, empty, NULL) == NULL, EACCES);
  flux_cmd_destroy(empty);
  flux_cmd_destroy(cmd);
  flux_reactor_destroy(own);
  FAILS(flux_subprocess_pid(NULL) == -1, EINVAL);
  FAILS(flux_subprocess_kill(NULL, 9) == NULL, EINVAL);
  FAILS(flux_subprocess_write(NULL, "stdin", "x", 1) == -1, EINVAL);
  FAILS(flux_subprocess_read_line(NULL, "stdout", NULL) == -1, EINVAL);
  FAILS(flux_subprocess_get_cmd(NULL) == NULL, EINVAL);
  FAILS(flux_subprocess_get_reactor(NULL) == NULL, EINVAL);
  FAILS(flux_subprocess_aux_set(NULL, "a", NULL, NULL) == -1, EINVAL);
  EXPECT(flux_subprocess_state(NULL) == FLUX_SUBPROCESS_INIT && !flux_subprocess_active(NULL));
  EXPECT(!flux_subprocess_read_stream_closed(NULL, "stdout"));
  EXPECT(same(flux_subprocess_state_string(FLUX_SUBPROCESS_FAILED), "Failed"));
  flux_subprocess_destroy(NULL);
}

/* --- options of streams and the command's own --- */

PROBE(options) {
  flux_cmd_t* cmd = command("true");
  EXPECT(flux_cmd_getopt(cmd, "stdout_LINE_BUFFER") == NULL && flux_cmd_get_label(cmd) == NULL);
  EXPECT(flux_cmd_setopt(cmd, "stdout_LINE_BUFFER", "false") == 0);
  EXPECT(flux_cmd_set_label(cmd, "mine") == 0 && same(flux_cmd_get_label(cmd), "mine"));
  flux_cmd_t* copy = flux_cmd_copy(cmd);
  EXPECT(same(flux_cmd_getopt(copy, "stdout_LINE_BUFFER"), "false") && same(flux_cmd_get_label(copy), "mine"));
  flux_cmd_destroy(copy);
  FAILS(flux_cmd_setopt(cmd, NULL, "x") == -1, EINVAL);
  FAILS(flux_cmd_setopt(cmd, "x", NULL) == -1, EINVAL);
  FAILS(flux_cmd_getopt(NULL, "x") == NULL, EINVAL);
  FAILS(flux_cmd_set_label(cmd, "") == -1, EINVAL);
  FAILS(flux_cmd_get_label(NULL) == NULL, EINVAL);
  EXPECT(flux_cmd_setopt(cmd, "stdout_BUFSIZE", "much") == 0);
  FAILS(flux_local_exec(reactor_of(shell), 0, cmd, NULL) == NULL, EINVAL);
  flux_cmd_destroy(cmd);
}

/* --- a task as a process --- */

static void on_task(flux_shell_task_t* task, const char* stream, void* arg) { (void)task, (void)stream, (void)arg; }

PROBE(task) {
  flux_shell_task_t* task = flux_shell_current_task(shell);
  flux_subprocess_t* child = flux_shell_task_subprocess(task);
  EXPECT(child != NULL && flux_shell_task_subprocess(task) == child);
  EXPECT(flux_subprocess_state(child) == FLUX_SUBPROCESS_INIT);
  FAILS(flux_subprocess_pid(child) == -1, EINVAL);
  EXPECT(flux_subprocess_get_cmd(child) == flux_shell_task_cmd(task));
  FAILS(flux_shell_task_channel_subscribe(task, "PMI_FD", on_task, NULL) == -1, ENOENT);
  EXPECT(flux_cmd_add_channel(flux_shell_task_cmd(task), "PMI_FD") == 0);
  EXPECT(flux_shell_task_channel_subscribe(task, "PMI_FD", on_task, NULL) == 0);
  FAILS(flux_shell_task_channel_subscribe(task, "PMI_FD", on_task, NULL) == -1, EEXIST);
  EXPECT(flux_shell_task_channel_subscribe(task, "stdout", on_task, NULL) == 0);
  FAILS(flux_shell_task_channel_subscribe(task, "stdout", on_task, NULL) == -1, EEXIST);
  FAILS(flux_shell_task_channel_subscribe(NULL, "x", on_task, NULL) == -1, EINVAL);
  FAILS(flux_shell_task_channel_subscribe(task, NULL, on_task, NULL) == -1, EINVAL);
  FAILS(flux_shell_task_channel_subscribe(task, "x", NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_task_subprocess(NULL) == NULL, EINVAL);
  flux_subprocess_destroy(child); /* not the plugin's: nothing */
}

static const struct flux_plugin_handler table[] = {
    {"probe.begin", begin, NULL},
    {"probe.end", end, NULL},
    {"probe.begin-others", begin_others, NULL},
    {"probe.end-others", end_others, NULL},
    {"probe.refused", refused, NULL},
    {"probe.options", options, NULL},
    {"probe.task", task, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
