#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Plugins that are broken, or fail: the job fails with one line that says which and where, tasks are not started or
# are ended, and nothing is left behind. Archives have tests of their own.
load plugins.bash

# The plugin `refuses`: its handler of conf.topic returns -1.
setup_file() {
  cd "$BATS_FILE_TMPDIR" || return
  build refuses <<'END'
static int refuse(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) { return -1; }
int flux_plugin_init(flux_plugin_t* p) {
  const char* topic;
  if (flux_plugin_conf_unpack(p, "{s:s}", "topic", &topic) < 0) return -1;
  return flux_plugin_add_handler(p, topic, refuse, NULL);
}
END
}

# ---- files that are no plugins -----------------------------------------------

# plugin.load of the file $1 fails with one line that names it and has each of the other arguments in it.
is_refused() {
  local file=$1
  shift
  prepare_sleepers
  with_rc <<<"plugin.load { file = '$work/$file' }"
  fails_with 1 "rc.lua:1: plugin.load: $work/$file: " "$@"
  not_started
  no_trace_left
}

# The plugin `refuses` with the bytes $3 at offset $2 of its ELF header, as the file $1.
spoiled_elf() {
  cp "$BATS_FILE_TMPDIR/refuses.so" "$1"
  printf '%b' "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "a symbol that nobody has" {
  build unknown <<'END'
int function_of_a_later_version(flux_plugin_t* p);
int flux_plugin_init(flux_plugin_t* p) { return function_of_a_later_version(p); }
END
  is_refused unknown.so "undefined symbol: function_of_a_later_version"
}

@test "a library that is not installed" {
  echo 'void of_library(void) {}' | cc -xc - -shared -fPIC -Wl,-soname,libno-such-library.so.1 -o library.so
  echo 'void of_library(void); int flux_plugin_init(void *p) { of_library(); return p ? 0 : -1; }' >plugin.c
  cc -shared -fPIC plugin.c library.so -o needs.so
  rm library.so
  prepare_sleepers
  with_rc <<<"plugin.load { file = '$work/needs.so' }"
  fails_with 1 "$work/needs.so: libno-such-library.so.1: " "No such file or directory"
  not_started
  no_trace_left
}

@test "an object of 32 bits, of another machine, system or byte order" {
  spoiled_elf bits.so 4 '\x01'
  is_refused bits.so "wrong ELF class: ELFCLASS32"
  spoiled_elf system.so 7 '\x63'
  is_refused system.so "ELF file OS ABI invalid"
  spoiled_elf order.so 5 '\x02'
  is_refused order.so "ELF file data encoding not little-endian"
}

@test "an object of another machine" {
  spoiled_elf foreign.so 18 '\x14\x00' # EM_PPC
  is_refused foreign.so "is for another machine (ELF machine 20, "
}

# bats test_tags=long
@test "an object that is cut off" {
  local size
  size=$(stat -c %s "$BATS_FILE_TMPDIR/refuses.so")
  : >empty.so
  is_refused empty.so "file too short"
  head -c 100 "$BATS_FILE_TMPDIR/refuses.so" >header.so
  is_refused header.so "cannot read file data"
  head -c $((size / 2)) "$BATS_FILE_TMPDIR/refuses.so" >half.so
  is_refused half.so "is cut off: it has $((size / 2)) bytes, of at least "
}

# bats test_tags=long
@test "a program, text, a directory, a file that may not be read" {
  cp "$(type -P true)" program.so
  is_refused program.so "cannot dynamically load position-independent executable"
  head -c 4096 /dev/zero | tr '\0' x >text.so
  is_refused text.so "invalid ELF header"
  mkdir directory.so
  is_refused directory.so "Is a directory"
  cp "$BATS_FILE_TMPDIR/refuses.so" closed.so
  chmod 0 closed.so
  if [ "$(id -u)" -ne 0 ]; then is_refused closed.so "Permission denied"; fi
}

# bats test_tags=long
@test "no flux_plugin_init, one that fails, one that throws" {
  echo 'int x;' | cc -shared -fPIC -xc - -o none.so
  is_refused none.so "no symbol flux_plugin_init: is this a shell plugin?"
  build fails <<<'int flux_plugin_init(flux_plugin_t* p) { errno = ENOSPC; return -1; }'
  is_refused fails.so "flux_plugin_init failed (No space left on device)"
  build throws "c++ -xc++" <<'END'
#include <stdexcept>
int flux_plugin_init(flux_plugin_t*) { throw std::runtime_error("no luck"); }
END
  is_refused throws.so "the plugin threw an exception: no luck"
  build odd "c++ -xc++" <<<'int flux_plugin_init(flux_plugin_t*) { throw 42; }'
  is_refused odd.so "the plugin threw what is no std::exception"
}

@test "one bad plugin among good ones stops the job, and what was loaded before it goes away" {
  mkdir plugins
  build good <<'END'
static void freed(void* text) { shell_log("%s", (char*)text); }
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_aux_set(p, "x", "freed", freed); }
END
  mv good.so plugins/a.so
  echo text >plugins/b.so
  prepare_sleepers
  with_rc <<<"plugin.load { file = '$work/plugins/*.so' }"
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 2 ]
  [[ $output == *"good: freed"* ]]
  [[ $output == *"plugin.load: $work/plugins/b.so: "* ]]
  not_started
  no_trace_left
}

# ---- handlers that fail, in each topic ---------------------------------------

# Runs a job whose handler of topic $1 fails: that of `refuses`, or of a Lua plugin where $language says so.
fail_at() {
  local topic=$1
  shift
  if [ "$language" = lua ]; then
    with_rc "$@" <<END
plugin.register { name = "refuses", handlers = { { topic = "$topic", fn = function ()
  error "no luck"
end } } }
END
    why="rc.lua:2: no luck"
  else
    with_rc "$@" <<<"plugin.load { file = '$BATS_FILE_TMPDIR/refuses.so', conf = { topic = '$topic' } }"
    why="the plugin's handler failed"
  fi
}

# A job whose handler of topic $1 fails never starts its tasks.
fails_before_tasks() {
  prepare_sleepers
  fail_at "$@"
  fails_with 1 "plugin 'refuses': $1: $why"
  not_started
  no_trace_left
}

# bats test_tags=long
@test "a handler that fails before there are tasks: none is started" {
  for language in c lua; do
    fails_before_tasks taskmap.odd -o taskmap=odd
    fails_before_tasks shell.init
    fails_before_tasks shell.post-init
    fails_before_tasks mustache.render.odd -o 'env-expand.X="{{odd}}"'
    fails_before_tasks task.init
  done
}

@test "a handler of task.exec that fails: the task is not executed, and the others are ended" {
  for language in c lua; do
    prepare_sleepers
    fail_at task.exec
    fails_with 126 "task 0: " "plugin 'refuses': task.exec: $why"
    not_started
    no_trace_left
  done
}

@test "a process that a plugin forks and leaves: what ends it is no signal to the shell, and the job ends as its tasks have" {
  build forks <<'END'
#include <unistd.h>
static int leave_one(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  if (fork() != 0) return 0;
  pause();
  _exit(0);
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.init", leave_one, NULL); }
END
  prepare_marked 1 true
  with_rc <<<"plugin.load '$work/forks.so'"
  [[ $status -eq 0 && -z $output ]] || { echo "$status: $output"; return 1; }
  no_trace_left
}

@test "a handler that fails while tasks run: they are ended" {
  for language in c lua; do
    for topic in task.fork shell.start; do
      prepare_sleepers
      fail_at $topic
      fails_with 1 "plugin 'refuses': $topic: $why"
      no_trace_left
    done
  done
}

# bats test_tags=long
@test "a handler of task.exit that fails ends the other tasks" {
  for language in c lua; do
    prepare_marked 3 sh -c '[ $FLUX_TASK_RANK = 1 ] || exec sleep 1000'
    fail_at task.exit
    fails_with 1 "task 1: plugin 'refuses': task.exit: $why"
    no_trace_left
  done
}

# bats test_tags=long
@test "a handler that fails after the tasks: the job has failed" {
  for language in c lua; do
    for topic in shell.finish shell.tasks-complete shell.exit; do
      rm -f started
      prepare_marked 2 sh -c 'echo >>started'
      fail_at $topic
      fails_with 1 "plugin 'refuses': $topic: $why"
      [ "$(wc -l <started)" -eq 2 ]
      no_trace_left
    done
  done
}

@test "a handler that fails in every topic is named once, where it fails first" {
  for language in c lua; do
    prepare_sleepers
    fail_at 'shell.*'
    fails_with 1 "plugin 'refuses': shell.init: $why"
    not_started
    prepare_sleepers
    fail_at 'task.*'
    fails_with 1 "task 0: plugin 'refuses': task.init: $why"
    not_started
    no_trace_left
  done
}

# bats test_tags=long
@test "a topic that nobody calls may fail" {
  for language in c lua; do
    prepare_marked 1 true
    fail_at mine.no-such-topic
    succeeds_saying ""
  done
}

# bats test_tags=long
@test "Lua errors of every kind are one line" {
  for body in "error { code = 5 }" "local x = nil + 1" "error ()" "error (nil)" "no_such_function ()" \
    "error 'two\\\\nlines'" "string.rep ('x', -1, {})" "setmetatable ({}, { __index = error }).x ()"; do
    prepare_sleepers
    with_rc <<<"plugin.register { name = 'lua', handlers = { { topic = 'task.init', fn = function () $body end } } }"
    fails_with 1 "nacre-shell: task 0: plugin 'lua': task.init: rc.lua:1: "
    not_started
  done
  with_rc <<'END'
plugin.register { name = "lua", handlers = { { topic = "shell.init", fn = function ()
  local function deep () return 1 + deep () end
  deep ()
end } } }
END
  fails_with 1 "plugin 'lua': shell.init: rc.lua:2: stack overflow"
  not_started
  no_trace_left
}

# bats test_tags=long
@test "a plugin that crashes takes the tasks with it" {
  build crashes <<'END'
static int crash(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  return *(volatile int*)8;
}
int flux_plugin_init(flux_plugin_t* p) {
  const char* topic;
  if (flux_plugin_conf_unpack(p, "{s:s}", "topic", &topic) < 0) return -1;
  return flux_plugin_add_handler(p, topic, crash, NULL);
}
END
  for topic in shell.init task.init task.fork shell.start; do
    prepare_sleepers
    with_rc <<<"plugin.load { file = '$work/crashes.so', conf = { topic = '$topic' } }"
    fails_with 1 "nacre-shell[0]: plugin 'crashes' crashed in $topic (SIGSEGV)"
    rm -rf "$TMPDIR"/nacre-* # no process is left that would remove this
    killed_processes_go
  done
}
