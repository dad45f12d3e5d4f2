#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a plugin in C does with the shell's loop while tasks run: timers, processes, messages, streams of tasks. How each
# function behaves is tested in t/unit/capi; here they are in a real job.
load nodes.bash
load plugins.bash

@test "a timer that a plugin holds the job for" {
  build linger <<'END'
static void late(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  shell_log("waited");
  flux_shell_remove_completion_ref(arg, "linger");
  flux_watcher_destroy(w);
}
static int begin(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  flux_reactor_t* r = flux_get_reactor(flux_shell_get_flux(shell));
  flux_shell_add_completion_ref(shell, "linger");
  flux_watcher_start(flux_timer_watcher_create(r, 0.05, 0., late, shell));
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.finish", begin, NULL); }
END
  prepare 1 echo over
  with_rc <<<"plugin.load { file = '$work/linger.so' }"
  [ "$status" -eq 0 ]
  [ "$output" = "over
nacre-shell[0]: linger: waited" ]
}

@test "a task and a plugin talk over a channel" {
  build pair <<'END'
static void on_word(flux_shell_task_t* task, const char* channel, void* arg) {
  flux_subprocess_t* process = flux_shell_task_subprocess(task);
  const char* line;
  char answer[64];
  int length = flux_subprocess_read_trimmed_line(process, channel, &line);
  if (length <= 0) return;
  snprintf(answer, sizeof answer, "you said %s\n", line);
  if (flux_subprocess_write(process, channel, answer, strlen(answer)) < 0) shell_log_errno("write");
}
static int give(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_task_t* task = flux_shell_current_task(flux_plugin_get_shell(p));
  if (flux_cmd_add_channel(flux_shell_task_cmd(task), "PAIR_FD") < 0) return -1;
  return flux_shell_task_channel_subscribe(task, "PAIR_FD", on_word, NULL);
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "task.init", give, NULL); }
END
  # shellcheck disable=SC2016 # for the task
  prepare 3 sh -c 'echo "I am $FLUX_TASK_RANK" >&$PAIR_FD; read -r answer <&$PAIR_FD; echo "$answer"'
  with_rc <<<"plugin.load { file = '$work/pair.so' }"
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = "you said I am 0
you said I am 1
you said I am 2" ]
}

@test "stdout has a reader already" {
  build nosy <<'END'
static void on_output(flux_shell_task_t* task, const char* stream, void* arg) {}
static int ask(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_task_t* task = flux_shell_current_task(flux_plugin_get_shell(p));
  if (flux_shell_task_channel_subscribe(task, "stdout", on_output, NULL) == 0) return -1;
  shell_log("%s", errno == EEXIST ? "taken" : strerror(errno));
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "task.init", ask, NULL); }
END
  prepare 1 echo heard
  with_rc <<<"plugin.load { file = '$work/nosy.so' }"
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[0]: nosy: taken
heard" ]
}

@test "a plugin in place of output reads stdout itself" {
  build reader <<'END'
static void on_output(flux_shell_task_t* task, const char* stream, void* arg) {
  const char* line;
  if (flux_subprocess_getline(flux_shell_task_subprocess(task), stream, &line) > 0) shell_log("%s says %s", stream, line);
}
static int subscribe(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  return flux_shell_task_channel_subscribe(flux_shell_current_task(flux_plugin_get_shell(p)), "stdout", on_output, NULL);
}
int flux_plugin_init(flux_plugin_t* p) {
  flux_plugin_set_name(p, "output");
  return flux_plugin_add_handler(p, "task.init", subscribe, NULL);
}
END
  prepare 1 sh -c 'echo one; echo two; printf three'
  with_rc <<<"plugin.load { file = '$work/reader.so' }"
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[0]: reader: stdout says one
nacre-shell[0]: reader: stdout says two
nacre-shell[0]: reader: stdout says three" ]
}

# A process of a plugin's that would outlive the job.
@test "processes that a plugin leaves behind are ended with the shell" {
  build starter <<'END'
static int start(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  char* argv[] = {"/bin/sh", "-c", "echo $$ >pid; exec sleep 600", NULL};
  flux_cmd_t* cmd = flux_cmd_create(3, argv, NULL);
  flux_subprocess_t* child = flux_local_exec(flux_get_reactor(flux_shell_get_flux(shell)), 0, cmd, NULL);
  flux_cmd_destroy(cmd);
  return child != NULL ? flux_shell_aux_set(shell, "child", child, (flux_free_f)flux_subprocess_destroy) : -1;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.init", start, NULL); }
END
  prepare 1 sh -c 'until [ -s pid ]; do sleep 0.1; done'
  with_rc <<<"plugin.load { file = '$work/starter.so' }"
  [ "$status" -eq 0 ]
  [ -s pid ]
  run ! kill -0 "$(cat pid)"
}

@test "a service that another plugin calls, and the events of the job" {
  build server <<'END'
static void on_double(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  int n;
  if (flux_request_unpack(msg, NULL, "{s:i}", "n", &n) < 0) flux_respond_error(h, msg, errno, NULL);
  else flux_respond_pack(h, msg, "{s:i}", "n", 2 * n);
}
int flux_plugin_init(flux_plugin_t* p) {
  return flux_shell_service_register(flux_plugin_get_shell(p), "double", on_double, NULL);
}
END
  build client <<'END'
static void on_event(flux_future_t* f, void* arg) {
  const char* event;
  char name[64] = "";
  if (flux_job_event_watch_get(f, &event) < 0) return;
  sscanf(strstr(event, "\"name\":"), "\"name\":\"%63[^\"]", name);
  shell_log("event %s", name);
  flux_future_reset(f);
}
static int call(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  int n = 0;
  flux_future_t* f = flux_shell_rpc_pack(flux_plugin_get_shell(p), "double", 0, 0, "{s:i}", "n", 21);
  if (flux_rpc_get_unpack(f, "{s:i}", "n", &n) < 0) return shell_log_errno("double");
  shell_log("%d", n);
  flux_future_destroy(f);
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  flux_jobid_t id;
  flux_shell_info_unpack(shell, "{s:I}", "jobid", &id);
  flux_future_t* f = flux_job_event_watch(flux_shell_get_flux(shell), id, "guest.exec.eventlog", 0);
  flux_future_then(f, -1., on_event, NULL);
  flux_plugin_aux_set(p, NULL, f, (flux_free_f)flux_future_destroy);
  return flux_plugin_add_handler(p, "task.exit", call, NULL);
}
END
  prepare 1 true
  with_rc <<<"plugin.load { file = '$work/server.so' }
plugin.load { file = '$work/client.so' }"
  [ "$status" -eq 0 ]
  # The events come in their order; the event of the first end comes after the task's task.exit. The task may end
  # before shell.start.
  [ "$(grep "event" <<<"$output")" = "nacre-shell[0]: client: event shell.init
nacre-shell[0]: client: event shell.start
nacre-shell[0]: client: event shell.task-exit
nacre-shell[0]: client: event shell.exit" ]
  [ "$(grep -v "event shell.init\|event shell.start" <<<"$output")" = "nacre-shell[0]: client: 42
nacre-shell[0]: client: event shell.task-exit
nacre-shell[0]: client: event shell.exit" ]
}

@test "all shells have the leader's events, with what its plugins have added, whenever they ask for them" {
  build watch <<'END'
static void on_event(flux_future_t* f, void* arg) {
  const char* event;
  if (flux_job_event_watch_get(f, &event) < 0) return;
  shell_log("event %s", event);
  flux_future_reset(f);
}
static int watch(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  flux_jobid_t id;
  int rank;
  flux_shell_info_unpack(shell, "{s:I s:i}", "jobid", &id, "rank", &rank);
  if (rank == 0 && strcmp(topic, "shell.init") == 0) return flux_shell_add_event_context(shell, "shell.init", 0, "{s:s}", "port", "4242");
  if (rank == 0 || (rank != 3 && strcmp(topic, flux_shell_getenv(shell, "WHEN")) != 0)) return 0;
  if (flux_plugin_aux_get(p, "f") != NULL) return 0;
  flux_future_t* f = flux_job_event_watch(flux_shell_get_flux(shell), id, "guest.exec.eventlog", 0);
  flux_future_then(f, -1., on_event, NULL);
  return flux_plugin_aux_set(p, "f", f, (flux_free_f)flux_future_destroy);
}
int flux_plugin_init(flux_plugin_t* p) {
  flux_shell_setenvf(flux_plugin_get_shell(p), 0, "WHEN", "%s", "shell.init");
  return flux_plugin_add_handler(p, "shell.*", watch, NULL);
}
END
  echo "plugin.load { file = '$work/watch.so' }" >rc.lua
  for when in shell.init shell.start shell.finish; do
    environment="{\"PATH\": \"/usr/bin:/bin\", \"WHEN\": \"$when\"}" prepare 4 sleep 0.1
    write_nodes 4 1
    "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json --local=4 --arity=2 -R R.json --initrc=rc.lua -o cpu-affinity=off \
      --eventlog=events >out 2>&1 || { cat out; return 1; }
    jq -se 'map([.name, .context.port]) == [["shell.init", "4242"], ["shell.start", null], ["shell.task-exit", null], ["shell.exit", null]]' events
    for shell in 1 2 3; do
      sed -n "s/^nacre-shell\[$shell\]: watch: event //p" out | diff - events || { echo "$when, shell $shell"; cat out; return 1; }
    done
  done
}

@test "libc's variables are a plugin's as they are the program's: environ, stdin, stdout, stderr" {
  local program
  for program in nacre-shell nacre; do
    run grep -E '_COPY .*@GLIBC_' <(readelf -rW "$NACRE_BUILD_DIR/$program")
    [ "$status" -eq 1 ] || { echo "$program: $output"; return 1; }
  done
  build surroundings <<'END'
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char** environ;
static int on_init(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  char* const argv[] = {"printenv", "GREETING", NULL};
  int status = -1;
  pid_t pid;
  if (environ == NULL) return -1;
  fprintf(stdout, "to stdout\n");
  fflush(stdout);
  fprintf(stderr, "to stderr\n");
  if (setenv("GREETING", "changed", 1) < 0 || posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0) return -1;
  waitpid(pid, &status, 0);
  return getc(stdin) == 'x' && status == 0 ? 0 : -1;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.init", on_init, NULL); }
END
  prepare 1 true
  echo "plugin.load { file = '$work/surroundings.so' }" >rc.lua
  GREETING=hello run bash -c 'echo x | "$0" --standalone -j jobspec.json -R R.json -o cpu-affinity=off --initrc=rc.lua' "$NACRE_SHELL"
  [ "$status" -eq 0 ]
  [ "$output" = "to stdout
to stderr
changed" ]
}

@test "a misspelt topic is a warning, with the nearest one, of a plugin in C and in Lua" {
  build typo <<'END'
static int go(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) { return 0; }
int flux_plugin_init(flux_plugin_t* p) {
  return flux_plugin_add_handler(p, "task.ext", go, NULL) + flux_plugin_add_handler(p, "mine.reload", go, NULL);
}
END
  prepare 1 true
  with_rc <<<"plugin.load { file = '$work/typo.so' }
plugin.register { name = 'lua', handlers = { { topic = 'shel.*', fn = function () end } } }"
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[0]: warn: plugin 'typo' ($work/typo.so) listens to 'task.ext', which no shell ever calls; did you mean 'task.exit'?
nacre-shell[0]: warn: plugin 'lua' (rc.lua) listens to 'shel.*', which no shell ever calls; did you mean 'shell.*'?" ]
}

@test "nacre-shell-plugins(7) lists the functions that the headers declare and the program exports" {
  run "$NACRE_SOURCE_DIR/t/e2e/capi_table.py" "$NACRE_SOURCE_DIR/doc/man/nacre-shell-plugins.7.scd" \
    "$NACRE_SOURCE_DIR/shell/plugin/include/flux" "$NACRE_SHELL"
  [ "$status" -eq 0 ]
  [[ $output =~ ^[0-9]+' functions'$ ]]
}

@test "what nacre-flux(7) says is not there of libflux-core is not there" {
  sed -n '/^- These functions of libflux-core are not there/,/^[-#]/p' "$NACRE_SOURCE_DIR/doc/man/nacre-flux.7.scd" | sed '1d;/^[-#]/d' |
    tr -d '\134' | grep -oE 'flux_[a-z0-9_]+\*?' | sed 's/\*/.*/' >names
  [ "$(wc -l <names)" -gt 80 ]
  nm -D --defined-only "$NACRE_SHELL" | awk '{ print $NF }' >exported
  ! grep -xEf names exported || return 1
  ! grep -ohE 'flux_[a-z0-9_]+ *\(' "$NACRE_SOURCE_DIR"/shell/plugin/include/flux/*.h | tr -d ' (' | grep -xEf names || return 1
}

@test "nacre-shell-plugins(7) has each topic that shells call" {
  sed -n '/kCalled = {/,/};/p' "$NACRE_SOURCE_DIR/shell/job/option_table.cpp" | grep -oE '"[a-z.-]+"' | tr -d '"' >called
  [ "$(wc -l <called)" -gt 40 ]
  local topic
  while read -r topic; do
    grep -qF "*$topic*" "$NACRE_SOURCE_DIR/doc/man/nacre-shell-plugins.7.scd" || { echo "the page has no $topic"; return 1; }
  done <called
}

@test "a plugin that is linked with libflux-core, or with what is, calls the shell's functions" {
  mkdir lib
  printf 'int %s(void) { __builtin_trap(); }\n' flux_plugin_add_handler flux_plugin_get_shell flux_shell_setenvf flux_plugin_set_name |
    cc -xc -shared -fPIC -Wl,-soname,libflux-core.so.2 -o lib/libflux-core.so.2 -
  cc -xc -shared -fPIC -o lib/libbetween.so - -xnone -Wl,--no-as-needed,-rpath,"$work/lib" lib/libflux-core.so.2 </dev/null
  for library in "" lib/libflux-core.so.2 lib/libbetween.so; do
    build linked "cc -xnone -Wl,--no-as-needed,-rpath,$work/lib $library -xc" <<'END'
static int init(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  return flux_shell_setenvf(flux_plugin_get_shell(p), 1, "DEEP", "%d", flux_plugin_get_flags(p) & FLUX_PLUGIN_RTLD_DEEPBIND);
}
int flux_plugin_init(flux_plugin_t* p) {
  return flux_plugin_set_name(p, "linked") < 0 ? -1 : flux_plugin_add_handler(p, "shell.init", init, NULL);
}
END
    prepare 1 sh -c 'echo $DEEP'
    with_rc <<<"plugin.load { file = '$work/linked.so' }"
    echo "${library:-none}: $output"
    [ "$status" -eq 0 ]
    [ "$output" = "$([ -n "$library" ] && echo 0 || echo 8)" ]
  done
}
