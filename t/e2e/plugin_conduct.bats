#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Plugins that do odd things while they run: with names, handlers, formats, data, options, tasks and globs. What may
# be done has its effect, what may not is one line; nothing is left behind.
load plugins.bash

# ---- names -------------------------------------------------------------------

@test "of two plugins with one name the last one counts, whatever each is" {
  for name in first second; do
    build $name <<END
#undef FLUX_SHELL_PLUGIN_NAME
#define FLUX_SHELL_PLUGIN_NAME "same"
static int say(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  return shell_log("$name"), 0;
}
int flux_plugin_init(flux_plugin_t* p) {
  return flux_plugin_set_name(p, "same") < 0 ? -1 : flux_plugin_add_handler(p, "shell.init", say, NULL);
}
END
  done
  lua="plugin.register { name = 'same', handlers = { { topic = 'shell.init', fn = function () shell.log 'Lua' end } } }"
  first="plugin.load '$work/first.so'"
  second="plugin.load '$work/second.so'"
  prepare_marked 1 true
  with_rc <<<"$first $second"
  succeeds_saying "nacre-shell[0]: same: second"
  with_rc <<<"$first $second $first $first"
  succeeds_saying "nacre-shell[0]: same: first"
  with_rc <<<"$first $lua"
  succeeds_saying "nacre-shell[0]: same: Lua"
  with_rc <<<"$lua $second"
  succeeds_saying "nacre-shell[0]: same: second"
}

@test "a plugin with the name of a builtin takes its place" {
  build tmpdir <<'END'
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_set_name(p, FLUX_SHELL_PLUGIN_NAME); }
END
  prepare_marked 1 sh -c 'echo "${FLUX_JOB_TMPDIR-none}"'
  with_rc <<<"plugin.load '$work/tmpdir.so'"
  succeeds_saying none
}

# ---- handlers that change what is loaded -------------------------------------

@test "a handler may add and remove handlers, its own too, while it runs" {
  build shifty <<'END'
static int third(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  return shell_log("third in %s", topic), 0;
}
static int second(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  return shell_log("second in %s", topic), flux_plugin_add_handler(p, topic, third, NULL);
}
static int first(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  if (flux_plugin_remove_handler(p, topic) < 0 || flux_plugin_get_handler(p, topic) != NULL) return -1;
  if (flux_plugin_remove_handler(p, topic) < 0 || flux_plugin_remove_handler(p, "never.there") < 0) return -1;
  for (int i = 0; i < 1000; ++i) {
    char other[32];
    snprintf(other, sizeof other, "other.%d", i);
    if (flux_plugin_add_handler(p, other, second, NULL) < 0) return -1;
  }
  shell_log("first in %s", topic);
  return flux_plugin_add_handler(p, "task.init", second, NULL) < 0 ? -1 : flux_plugin_add_handler(p, "shell.p*", second, NULL);
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.init", first, NULL); }
END
  prepare_marked 2 true
  with_rc <<<"plugin.load '$work/shifty.so'"
  succeeds_saying "nacre-shell[0]: shifty: first in shell.init
nacre-shell[0]: shifty: second in shell.post-init
nacre-shell[0]: shifty: second in task.init
nacre-shell[0]: shifty: third in task.init"
}

@test "a handler may load another plugin of its own name, which takes over from the next topic on" {
  build old <<'END'
static void freed(void* text) { shell_log("%s", (char*)text); }
static int replace(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  static char text[] = "old is gone";
  flux_plugin_aux_set(p, "x", text, freed);
  if (flux_shell_plugstack_call(flux_plugin_get_shell(p), "replace.it", NULL) < 0) return -1;
  shell_log("old in %s, still %s", topic, flux_plugin_get_name(p));
  return flux_plugin_aux_get(p, "x") == text ? 0 : -1;
}
static int never(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) { return -1; }
int flux_plugin_init(flux_plugin_t* p) {
  flux_plugin_set_name(p, "same");
  return flux_plugin_add_handler(p, "shell.post-init", never, NULL) < 0
             ? -1 : flux_plugin_add_handler(p, "shell.init", replace, NULL);
}
END
  build new <<'END'
static int say(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  return shell_log("new in %s", topic), 0;
}
int flux_plugin_init(flux_plugin_t* p) {
  flux_plugin_set_name(p, "same");
  return flux_plugin_add_handler(p, "shell.*", say, NULL);
}
END
  prepare_marked 1 true
  with_rc <<END
plugin.load '$work/old.so'
plugin.register { name = "loader", handlers = { { topic = "replace.it", fn = function () plugin.load '$work/new.so' end } } }
END
  [ "$status" -eq 0 ]
  # The last words of the old one are a call of shell.log already, on the new one.
  [ "$(grep -v 'new in shell.log' <<<"$output" | head -3)" = "nacre-shell[0]: old: old in shell.init, still same
nacre-shell[0]: old: old is gone
nacre-shell[0]: new: new in shell.post-init" ]
  [[ $output != *"new in shell.init"* ]]
  no_trace_left
}

@test "a handler that loads what cannot be loaded fails as an initrc does" {
  prepare_sleepers
  with_rc <<'END'
plugin.register { name = "loader", handlers = { { topic = "task.init", fn = function ()
  plugin.load '/no/such/file.so'
end } } }
END
  fails_with 1 "task 0: plugin 'loader': task.init: rc.lua:2: plugin.load: /no/such/file.so: No such file or directory"
  not_started
  no_trace_left
}

# ---- what plugins ask for ----------------------------------------------------

@test "an unpack format that does not match is an error of the call, and says why to who asks" {
  build wrong <<'END'
static int ask(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  int number = 7;
  errno = 0;
  if (flux_shell_getopt_unpack(shell, "word", "i", &number) != -1 || errno != EINVAL) return shell_log("getopt"), 0;
  if (number != 7) return shell_log("written"), 0;
  return flux_shell_info_unpack(shell, "{s:i}", "jobspec", &number);
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.init", ask, NULL); }
END
  prepare_sleepers
  with_rc -o word=text <<<"plugin.load '$work/wrong.so'"
  fails_with 1 "plugin 'wrong': shell.init: the plugin's handler failed"
  not_started
  no_trace_left
  with_rc -o word=text -o verbose=1 <<<"plugin.load '$work/wrong.so'"
  [[ $output == *"debug: option word: Expected integer, got string"* ]]
  [[ $output == *"debug: shell info: Expected integer, got object"* ]]
}

@test "attached data is freed once, however often it is replaced and removed" {
  build aux <<'END'
static int freed[4];
static void count(void* item) { ++*(int*)item; }
static flux_shell_t* the_shell;
static void again(void* item) { ++*(int*)item; flux_shell_aux_set(the_shell, "key", &freed[3], count); }
static int check(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = the_shell = flux_plugin_get_shell(p);
  flux_shell_aux_set(shell, "key", &freed[0], count);
  flux_shell_aux_set(shell, "key", &freed[1], count);
  flux_shell_aux_set(shell, "key", NULL, NULL);
  flux_shell_aux_set(shell, "key", NULL, NULL);
  flux_plugin_aux_set(p, "key", &freed[2], count);
  flux_plugin_aux_delete_value(p, &freed[2]);
  flux_plugin_aux_delete_value(p, &freed[2]);
  flux_plugin_aux_set(p, "key", &freed[2], again); /* its free function attaches something */
  flux_plugin_aux_set(p, "key", NULL, NULL);
  flux_shell_aux_set(shell, "key", NULL, NULL);
  shell_log("%d %d %d %d", freed[0], freed[1], freed[2], freed[3]);
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "task.init", check, NULL); }
END
  prepare_marked 1 true
  with_rc <<<"plugin.load '$work/aux.so'"
  succeeds_saying "nacre-shell[0]: aux: 1 1 2 1"
}

@test "options that are deleted under a running plugin: what it was given stays, and it can ask again" {
  build holder <<'END'
static const char* word;
static int keep(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  return flux_shell_getopt_unpack(flux_plugin_get_shell(p), "holder", "{s:s}", "word", &word) == 1 ? 0 : -1;
}
static int look(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  char* text = NULL;
  int there = flux_shell_getopt(shell, "holder", &text);
  shell_log("%s, now %d and %s", word, there, text == NULL ? "none" : text);
  if (flux_shell_setopt(shell, "holder.word", "\"new\"") < 0) return -1;
  return flux_shell_setopt(shell, "holder", NULL) < 0 ? -1 : flux_shell_setopt(shell, "holder", NULL);
}
int flux_plugin_init(flux_plugin_t* p) {
  return flux_plugin_add_handler(p, "shell.init", keep, NULL) < 0 ? -1 : flux_plugin_add_handler(p, "task.init", look, NULL);
}
END
  prepare_marked 2 true
  with_rc -o holder.word=kept <<END
plugin.load '$work/holder.so'
plugin.register { name = "deletes", handlers = { { topic = "shell.post-init", fn = function ()
  shell.options.holder = nil
end } } }
END
  succeeds_saying "nacre-shell[0]: holder: kept, now 0 and none
nacre-shell[0]: holder: kept, now 0 and none"
}

@test "all options deleted at any time: the builtins that have read them go on" {
  for topic in shell.init shell.post-init task.init task.fork shell.start task.exit shell.finish; do
    prepare_marked 2 sh -c 'echo hello'
    with_rc -o label-io -o rlimit.core=0 -o kill-timeout=5s -o exit-timeout=5s -o nosetpgrp <<END
plugin.register { name = "deletes", handlers = { { topic = "$topic", fn = function ()
  local names = {}
  for name in pairs (shell.options) do names[#names + 1] = name end
  for _, name in ipairs (names) do shell.options[name] = nil end
  for name in pairs (shell.options) do error (name) end
end } } }
END
    [ "$status" -eq 0 ]
    [ "$(sort <<<"$output")" = $'0: hello\n1: hello' ]
    no_trace_left
  done
}

@test "task.* outside of a topic of a task" {
  for call in "local x = task.info" "task.getenv 'A'" "task.setenv ('A', 'b')" "task.unsetenv 'A'"; do
    for topic in shell.init shell.post-init shell.start; do
      prepare_sleepers
      with_rc <<<"plugin.register { name = 'lua', handlers = { { topic = '$topic', fn = function () $call end } } }"
      fails_with 1 "plugin 'lua': $topic: rc.lua:1: task." "can only be used in a task.* callback"
      [ $topic = shell.start ] || not_started
      no_trace_left
    done
  done
  with_rc <<<"task.setenv ('A', 'b')"
  fails_with 1 "rc.lua:1: task.setenv can only be used in a task.* callback"

  build outside <<'END'
static int ask(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  flux_shell_task_t* task = flux_shell_current_task(shell);
  int rank;
  errno = 0;
  if (flux_shell_task_cmd(task) != NULL || errno != EINVAL) return -1;
  if (flux_shell_task_info_unpack(task, "{s:i}", "rank", &rank) != -1 || errno != EINVAL) return -1;
  return shell_log("%s: %s task", topic, task == NULL ? "no" : "a"), 0;
}
int flux_plugin_init(flux_plugin_t* p) {
  return flux_plugin_add_handler(p, "shell.*", ask, NULL);
}
END
  prepare_marked 1 true
  with_rc <<<"plugin.load '$work/outside.so'"
  [ "$status" -eq 0 ]
  [[ ${lines[0]} == "nacre-shell[0]: outside: shell.init: no task" ]]
  [[ $output != *"a task"* ]]
}

# ---- globs -------------------------------------------------------------------

@test "globs that match nothing load nothing, and are no error" {
  prepare_marked 1 echo fine
  with_rc <<<"assert (plugin.load '$work/none-*.so' == 0) source '$work/none-*.lua' source_if_exists 'none-?.lua'
plugin.register { name = 'lua', handlers = { { topic = 'no.[z]*', fn = error } } }"
  succeeds_saying fine
  with_rc <<<"plugin.searchpath = '/no/such/folder:$work' assert (plugin.load '*.so' == 0)"
  succeeds_saying fine
}

@test "globs that match a thousand files load them all, in order" {
  mkdir many
  build one <<'END'
static int* count(flux_shell_t* shell) {
  static int of_the_first;
  int* known = flux_shell_aux_get(shell, "count");
  if (known == NULL) flux_shell_aux_set(shell, "count", known = &of_the_first, NULL);
  return known;
}
static int add(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  int* calls = count(flux_plugin_get_shell(p));
  if (++*calls == 1 || *calls == 1000) shell_log("%s is number %d", flux_plugin_get_name(p), *calls);
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.init", add, NULL); }
END
  for i in {000..999}; do
    cp one.so "many/p$i.so"
    echo "total = (total or 0) + 1 last = '$i'" >"many/f$i.lua"
  done
  prepare_marked 1 true
  with_rc <<<"assert (plugin.load '$work/many/*.so' == 1000)"
  succeeds_saying "nacre-shell[0]: one: p000 is number 1
nacre-shell[0]: one: p999 is number 1000"
  with_rc <<<"source '$work/many/*.lua' assert (total == 1000 and last == '999') shell.log 'all'"
  succeeds_saying "nacre-shell[0]: initrc: all"
}

@test "a hundred plugins of one name are one" {
  mkdir many
  build same <<'END'
static void freed(void* none) { (void)none; }
static int say(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  return shell_log("%s", strrchr(flux_plugin_get_path(p), '/') + 1), 0;
}
int flux_plugin_init(flux_plugin_t* p) {
  return flux_plugin_set_name(p, "same") < 0 || flux_plugin_aux_set(p, "x", p, freed) < 0
             ? -1 : flux_plugin_add_handler(p, "shell.init", say, NULL);
}
END
  for i in {00..99}; do cp same.so "many/p$i.so"; done
  prepare_marked 1 true
  with_rc <<<"plugin.load '$work/many/*.so'"
  succeeds_saying "nacre-shell[0]: same: p99.so"
}

# ---- threads -----------------------------------------------------------------

@test "the tmpdir goes, also while a plugin's thread takes away what is in it" {
  build tidy 'cc -xc -pthread' <<'END'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
enum { N = 500 };
static int dirs[N], top;
static char name[N][16];
static pthread_t thread;
// From the moment that the first of them goes it takes away what is left.
static void* tidy(void* arg) {
  int seen = 0;
  while (!seen) {
    for (int i = 0; i < N && !seen; ++i) seen = faccessat(top, name[i], F_OK, 0) < 0;
  }
  for (int i = N; i-- > 0;) {
    unlinkat(dirs[i], "x", AT_REMOVEDIR);
    unlinkat(top, name[i], AT_REMOVEDIR);
  }
  return NULL;
}
__attribute__((destructor)) static void wait_for_it(void) { pthread_join(thread, NULL); }
static int fill(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  char* job = flux_shell_mustache_render(flux_plugin_get_shell(p), "{{tmpdir}}");
  if (job == NULL || (top = open(job, O_DIRECTORY)) < 0) return -1;
  free(job);
  for (int i = 0; i < N; ++i) {
    snprintf(name[i], sizeof name[i], "%d", i);
    if (mkdirat(top, name[i], 0700) < 0 || (dirs[i] = openat(top, name[i], O_DIRECTORY)) < 0) return -1;
    if (mkdirat(dirs[i], "x", 0700) < 0) return -1;
  }
  return pthread_create(&thread, NULL, tidy, NULL) == 0 ? 0 : -1;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "task.exit", fill, NULL); }
END
  prepare_marked 1 true
  with_rc <<<"plugin.load '$work/tidy.so'"
  succeeds_saying ""
}

# In that process nothing waits for equal warnings of other shells.
@test "a warning in task.exec comes out, also of the shell that has started the others" {
  build warns <<'END'
static int warn(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  shell_warn("hello");
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "task.exec", warn, NULL); }
END
  echo "plugin.load { file = '$work/warns.so' }" >rc.lua
  run "$NACRE_BUILD_DIR/nacre" run --local=2 -n 4 --initrc=rc.lua true
  [ "$(grep -c "warn: warns: hello" <<<"$output")" -eq 4 ]
}

@test "what task.init opens for a task is its own until task.fork: tasks start one by one where a plugin listens to these" {
  build pipes <<'END'
#include <unistd.h>
static int fds[2];
static int open_pipe(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  if (fds[0] > 0) return shell_log_errno("the pipe of another task is open"), -1;
  return pipe(fds);
}
static int close_pipe(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  int failed = close(fds[0]) + close(fds[1]);
  fds[0] = 0;
  return failed;
}
int flux_plugin_init(flux_plugin_t* p) {
  return flux_plugin_add_handler(p, "task.init", open_pipe, NULL) + flux_plugin_add_handler(p, "task.fork", close_pipe, NULL);
}
END
  prepare 4 true
  with_rc <<<"plugin.load { file = '$work/pipes.so' }"
  succeeds_saying ""
}
