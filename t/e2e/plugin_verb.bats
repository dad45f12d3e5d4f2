#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre plugin, with nacre as it is installed.
# shellcheck disable=SC2154,SC2153 # bats sets status, output, lines; lib.bash work; plugins.bash RCPATH
load plugins.bash

setup_file() { stage_nacre; }

plugin() { command nacre plugin "$@"; }

# The check of FILE ended with $2 and printed the other arguments as its lines, each after "FILE: ".
check_says() {
  local file=$1 code=$2 expected=()
  shift 2
  run plugin check "${flags[@]}" "$file"
  for line in "$@"; do expected+=("$file: $line"); done
  [ "$status" -eq "$code" ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "$(printf '%s\n' "${expected[@]}")" ] || { echo "not '${expected[*]}': $output"; return 1; }
  [ -z "$(ls -A "$TMPDIR")" ]
}

# FILE.so of a plugin whose only handler is the body on standard input, for topic $2.
build_handler() {
  build "$1" <<END
#include <signal.h>
#include <unistd.h>
static int handle(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  $(cat)
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "$2", handle, NULL); }
END
}

# ---- new ---------------------------------------------------------------------
@test "new: in each language make check passes at once, install and clean do what they say" {
  for language in c c++ lua; do
    name=p-$language
    name=${name//+/x}
    run plugin new "$name" --lang "$language"
    [ "$status" -eq 0 ]
    [ "$output" = "$name: ready; try it: make -C $name check" ]
    run make -s -C "$name" check
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" = "test.sh: passed" ]
    make -s -C "$name" install DESTDIR="$work/dest"
    make -s -C "$name" clean
    [ "$(find "$name" -type f | wc -l)" -eq 8 ]
  done
  [ "$(cd dest && find . -name '*.so' | sort)" = ".$PLUGINPATH/p-c.so
.$PLUGINPATH/p-cxx.so" ]
  [ -s "dest$RCPATH/lua.d/p-lua.lua" ]
}

# bats test_tags=long
@test "new: PREFIX moves where a plugin is installed" {
  plugin new moved --lang c
  make -s -C moved install PREFIX="$work/there"
  [ "$(find there -name moved.so)" = "there/lib${PLUGINPATH##*/lib}/moved.so" ]
}

# bats test_tags=long
@test "new: the test of a skeleton fails when the plugin does" {
  plugin new broken --lang lua
  sed -i 's/task.setenv/-- &/' broken/broken.lua
  run make -s -C broken check
  [ "$status" -eq 2 ]
  [[ $output == *"< task 0: good day"*"test.sh: FAILED"* ]]
  sed -i 's/-- task.setenv/task.setenv/; s/exit \$/exit 0 $/' broken/broken.lua broken/test/jobspec.json
  run make -s -C broken check
  [ "$status" -eq 2 ]
}

# bats test_tags=long
@test "new: a wrong option value fails the job, and is named" {
  for language in c c++ lua; do
    rm -rf x
    plugin new x --lang $language
    make -s -C x
    run nacre-shell -s --initrc=x/test/initrc.lua -j x/test/jobspec.json -R x/test/R.json -o x.greeting=5
    [ "$status" -eq 1 ]
    [[ $output == *"x.greeting: expected a string"* ]]
  done
}

@test "new: bad names, languages and places are refused with a line; what is there stays as it is" {
  long=$(printf 'a%.0s' {1..65})
  for name in "" Big a.b a/b ../a _a "a b" é "$long"; do
    run plugin new "$name" --lang c
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == "nacre plugin new: NAME: "* ]]
  done
  ! plugin new a --lang rust || false
  ! plugin new a || false
  run plugin new a --lang c --dir "$work/none"
  fails_with 1 "nacre plugin new: $work/none/a: No such file or directory"
  [ "$(ls)" = tmp ]
  plugin new "${long:1}" --lang c --dir tmp
  [ -d "tmp/${long:1}" ]
  mkdir a
  run plugin new a --lang c
  fails_with 1 "nacre plugin new: ./a: File exists"
  [ -z "$(ls a)" ]
}

# ---- list --------------------------------------------------------------------
# An initrc that loads an object and registers a Lua plugin.
prepare_two() {
  build_handler loaded 'task.*' <<<''
  cat >rc.lua <<END
print "a line of the initrc's own"
plugin.register { name = "lua", handlers = { { topic = "shell.init", fn = error }, { topic = "task.exit", fn = error } } }
plugin.load '$work/loaded.so'
if shell.options.more then plugin.register { name = "output", handlers = { { topic = "shell.exit", fn = error } } } end
END
}

@test "list: builtins, then objects and Lua plugins, in order, with files and topics" {
  prepare_two
  run plugin list --initrc rc.lua
  [ "$status" -eq 0 ]
  [[ ${lines[0]} =~ ^NAME\ +FROM\ +TOPICS$ ]]
  grep -qE "^taskmap +builtin +taskmap.block" <<<"$output"
  [[ ${lines[-2]} =~ ^lua\ +"rc.lua"\ +shell.init\ task.exit$ || ${lines[-2]} =~ ^lua\ +"$work/rc.lua"\ +shell.init\ task.exit$ ]]
  [[ ${lines[-1]} =~ ^loaded\ +"$work/loaded.so"\ +task.\*$ ]]
}

# bats test_tags=long
@test "list: JSON, options, and a plugin that takes a builtin's place" {
  prepare_two
  run --separate-stderr plugin list --initrc rc.lua --json -o more
  [ "$status" -eq 0 ]
  [ "$(jq -r '.[-1] | "\(.name) \(.topics) \(.replaces_builtin)"' <<<"$output")" = 'output ["shell.exit"] true' ]
  [ "$(jq '[.[] | select(.name == "output")] | length' <<<"$output")" -eq 1 ]
  [ "$(jq -r '.[-2] | "\(.name) \(.origin) \(.topics) \(.replaces_builtin)"' <<<"$output")" \
    = "loaded $work/loaded.so [\"task.*\"] false" ]
  [ "$(jq '.[0] | .origin == "builtin" and .replaces_builtin == false' <<<"$output")" = true ]
  run plugin list --initrc rc.lua -o more
  [[ ${lines[-1]} == *", replaces the builtin"*"shell.exit" ]]
}

@test "list: the option initrc, given or in the jobspec, is the job's initrc" {
  prepare_two
  options='{"initrc": "'$work/rc.lua'", "more": 1}' prepare 1 true
  run plugin list -j jobspec.json -R R.json
  [ "$status" -eq 0 ]
  [[ $output == *"replaces the builtin"* ]]
  run plugin list -o initrc=rc.lua
  [ "$status" -eq 0 ]
  [[ ${lines[-1]} == loaded* ]]
}

@test "list: the initrc that is installed with the program is the default" {
  cp -r "$STAGE" copy
  rcpath=copy${RCPATH#"$STAGE"}
  local copy=$work/copy${NACRE_BIN#"$STAGE"}
  echo 'plugin.register { name = "here", handlers = { { topic = "task.init", fn = function () end } } }' >>"$rcpath/initrc.lua"
  run "$copy/nacre" plugin list
  [ "$status" -eq 0 ]
  [[ ${lines[-1]} == "here "*"$work/$rcpath/initrc.lua"*"task.init" ]]
  rm "$rcpath/initrc.lua"
  system=${RCPATH#"$STAGE"}/initrc.lua
  run "$copy/nacre" plugin list
  if [ -e "$system" ]; then [ "$status" -eq 0 ]; else fails_with 1 "$system: No such file or directory"; fi
}

@test "list: no handler runs, nothing is started and nothing stays" {
  echo "plugin.register { name = 'x', handlers = { { topic = '*', fn = function () io.open ('ran', 'w') end } } }" >rc.lua
  prepare_sleepers
  run plugin list --initrc rc.lua -j jobspec.json -R R.json
  [ "$status" -eq 0 ]
  [ ! -e ran ]
  not_started
  no_trace_left
}

@test "list: what fails is said as the shell says it" {
  echo 'plugin.load "/no/such.so"' >rc.lua
  run plugin list --initrc rc.lua
  fails_with 1 "rc.lua:1: plugin.load: /no/such.so: No such file or directory"
  run plugin list -j jobspec.json
  [ "$status" -eq 2 ]
  run plugin list -j - -R R.json
  [ "$status" -eq 2 ]
}

# ---- check -------------------------------------------------------------------
@test "check: a good plugin is fine, in each language" {
  build_handler good 'task.*' <<<''
  check_says good.so 0 "fine: good: task.*"
  echo "plugin.register { name = 'l', handlers = { { topic = 'shell.init', fn = function () end } } }" >good.lua
  check_says good.lua 0 "fine: l: shell.init"
  mkdir "odd [name]: x"
  cp good.so "odd [name]: x/a*b.so"
  check_says "odd [name]: x/a*b.so" 0 "fine: a*b: task.*"
}

@test "check: what is no plugin at all" {
  check_says none.so 1 "there is no such file: name a .so or a .lua file"
  check_says . 1 "is not a regular file: name a .so or a .lua file"
  echo text >text.so
  check_says text.so 1 "is no plugin: neither an ELF object nor named *.lua: build it with cc -shared -fPIC"
  : >empty.so
  check_says empty.so 1 "is no plugin: neither an ELF object nor named *.lua: build it with cc -shared -fPIC"
  cc -c -xc - -o object.so <<<'int x;'
  check_says object.so 1 "is no plugin: an object file, not a shared object: link it with cc -shared"
}

# bats test_tags=long
@test "check: an object for another machine, and one that is cut" {
  build_handler other 'task.*' <<<''
  printf '\363\000' | dd of=other.so bs=1 seek=18 conv=notrunc status=none
  run plugin check other.so
  [ "$status" -eq 1 ]
  [[ $output == "other.so: is built for RISC-V, 64 bits, this shell for "*": build it on this machine" ]]
  build_handler good 'task.*' <<<''
  head -c 1000 good.so >cut.so
  run plugin check cut.so
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ $output == "cut.so: "* ]]
}

@test "check: all undefined symbols are named, and a library that is not found" {
  build_handler unresolved 'shell.init' <<<'extern int one(void), two(void), three; return one() + two() + three;'
  remedy="neither nacre-shell nor a library that it is linked with has it"
  run plugin check unresolved.so
  [ "$status" -eq 1 ]
  [ "$(sort <<<"$output")" = "unresolved.so: undefined symbol one: $remedy
unresolved.so: undefined symbol three: $remedy
unresolved.so: undefined symbol two: $remedy" ]
  cc -shared -fPIC -Wl,-soname,libgone.so -xc - -o libgone.so <<<'int gone(void) { return 0; }'
  build_handler needs 'shell.init' "cc -xc" <<<'extern int gone(void); return gone();'
  cc -shared -fPIC -I"$NACRE_SOURCE_DIR/shell/plugin/include" -xc needs.source -xnone -o needs.so -L. -lgone
  rm libgone.so
  check_says needs.so 1 \
    "needs the library libgone.so, which is not found: install it, or set its directory with -Wl,-rpath when linking"
}

# bats test_tags=long
@test "check: no flux_plugin_init, or one that fails, crashes, ends the process or hangs" {
  cc -shared -fPIC -xc - -o no_init.so <<<'int x;'
  check_says no_init.so 1 "is no plugin: no symbol flux_plugin_init: is this a shell plugin?: define int flux_plugin_init \
(flux_plugin_t *p), in C++ outside of any namespace"
  build fails <<<'int flux_plugin_init(flux_plugin_t* p) { errno = EPERM; return -1; }'
  check_says fails.so 1 "flux_plugin_init failed (Operation not permitted): it returned a negative value: log why with \
shell_log_error"
  build crashes <<<'int flux_plugin_init(flux_plugin_t* p) { abort(); }'
  check_says crashes.so 1 "crashes in flux_plugin_init or a constructor (SIGABRT): gdb --args nacre-shell --standalone \
... shows where"
  build ends <<<'int flux_plugin_init(flux_plugin_t* p) { _Exit(0); }'
  check_says ends.so 1 "ends the shell's process in flux_plugin_init or a constructor: return -1 to fail, or call \
shell_die; exit(3) is not for plugins"
  build hangs <<<'int flux_plugin_init(flux_plugin_t* p) { for (;;) { } }'
  flags=(-t 1)
  check_says hangs.so 1 "has not come back from flux_plugin_init or a constructor after 1 s: a handler must not wait: use \
watchers and timers, or completion references"
}

# bats test_tags=long
@test "check: a handler that fails is named with its topic, and with what it logged" {
  for topic in shell.init shell.post-init task.init task.fork shell.start task.exit shell.finish shell.exit; do
    build_handler fails $topic <<<'shell_log_error("because"); return -1;'
    run plugin check fails.so
    [ "$status" -eq 1 ]
    echo "$output"
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == "fails.so: "*"because"*"$topic: "*"handler failed"* ]]
  done
}

# bats test_tags=long
@test "check: a handler that crashes, hangs or ends the process is named with its topic" {
  for topic in shell.init task.init task.fork task.exit shell.exit; do
    build_handler bad $topic <<<'raise(SIGSEGV);'
    check_says bad.so 1 "crashes in $topic (SIGSEGV): gdb --args nacre-shell --standalone ... shows where"
    build_handler bad $topic <<<'_exit(0);'
    check_says bad.so 1 "ends the shell's process in $topic: return -1 to fail, or call shell_die; exit(3) is not for plugins"
  done
  flags=(-t 1)
  for topic in shell.init task.exec task.exit; do
    build_handler bad $topic <<<'shell_log("a call within the call"); for (;;) { }'
    check_says bad.so 1 "has not come back from $topic after 1 s: a handler must not wait: use watchers and timers, or \
completion references"
  done
}

# bats test_tags=long
@test "check: a process that is left behind is ended, with its children" {
  build_handler forks shell.init <<<'if (fork() == 0) { if (fork() == 0) { setsid(); for (;;) pause(); } for (;;) pause(); } for (;;) pause();'
  MARK=$work run plugin check -t 1 forks.so
  [ "$status" -eq 1 ]
  no_process_left
}

# bats test_tags=long
@test "check: a job that does not end" {
  build_handler holds shell.init <<<'flux_shell_add_completion_ref(flux_plugin_get_shell(p), "mine");'
  run plugin check -t 1 holds.so
  [ "$status" -eq 1 ]
  [[ $output == "holds.so: the job does not end: nothing happens after shell."*", 1 s long: release each completion reference"* ]]
}

# bats test_tags=long
@test "check: a plugin that listens to nothing, and one that takes a builtin's place" {
  build none <<<'int flux_plugin_init(flux_plugin_t* p) { return 0; }'
  check_says none.so 1 "plugin 'none' listens to no topic: subscribe in flux_plugin_init with flux_plugin_register or \
flux_plugin_add_handler"
  build_handler tmpdir task.exit <<<''
  check_says tmpdir.so 0 "note: takes the place of the builtin plugin 'tmpdir': take another name if that is not meant" \
    "fine: tmpdir: task.exit"
}

# bats test_tags=long
@test "check: topics that no shell calls, and the nearest" {
  while read -r topic nearest; do
    build_handler typo "$topic" <<<''
    check_says typo.so 1 "listens to '$topic', which no shell ever calls: did you mean '$nearest'?"
  done <<'END'
shel.init shell.init
task.ini task.init
shell.started shell.start
task.exited task.exit
taskmaps.mine taskmap.mine
END
  build_handler own mine.reload <<<''
  check_says own.so 0 "note: listens to 'mine.reload', which is no topic of the shell: right only if a plugin calls it" \
    "fine: own: mine.reload"
  build_handler more shell.reconnect <<<''
  check_says more.so 0 "note: listens to 'shell.reconnect', which this version never calls: no harm is done" "fine: more: shell.reconnect"
  build_handler lost shell.lost <<<''
  check_says lost.so 0 "fine: lost: shell.lost"
}

# bats test_tags=long
@test "check: Lua files that do not parse, fail, or register nothing" {
  echo 'plugin.register {' >bad.lua
  run plugin check bad.lua
  [ "$status" -eq 1 ]
  [[ $output == "bad.lua: bad.lua:2: "*"near <eof>: correct what the error names"* ]]
  echo 'error "on purpose"' >bad.lua
  run plugin check bad.lua
  [[ $output == "bad.lua: "*"on purpose"* ]]
  echo 'while true do end' >bad.lua
  flags=(-t 1)
  check_says bad.lua 1 "has not come back from the file itself after 1 s: a handler must not wait: use watchers and \
timers, or completion references"
  echo 'shell.setenv ("A", "b")' >bad.lua
  check_says bad.lua 0 "note: registers no plugin: right for an initrc; a plugin is made with plugin.register" "fine"
  echo "plugin.register { name = 'l', handlers = { { topic = 'task.init', fn = function () error 'late' end } } }" >bad.lua
  run plugin check bad.lua
  [ "$status" -eq 1 ]
  [[ $output == "bad.lua: "*"task.init: "*"late"* ]]
}

# bats test_tags=long
@test "check: a plugin that waits for an option, and one that uses environ" {
  build waits <<'END'
static int go(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) { return 0; }
int flux_plugin_init(flux_plugin_t* p) {
  const char* kind = "";
  flux_shell_getopt_unpack(flux_plugin_get_shell(p), "pmi", "s", &kind);
  return strcmp(kind, "mine") == 0 ? flux_plugin_add_handler(p, "shell.init", go, NULL) : 0;
}
END
  check_says waits.so 0 "note: plugin 'waits' listens to no topic; it has asked for the option pmi: give what it waits \
for: nacre plugin check -o pmi=... waits.so" "fine: waits: "
  build_handler around shell.init <<<'extern char** environ; return environ == NULL;'
  check_says around.so 0 "note: uses environ: the shell's own environment, which no task gets: flux_shell_getenv and \
flux_shell_setenvf are for that of the tasks" "fine: around: shell.init"
}

# bats test_tags=long
@test "check: several files, options, and wrong usage" {
  build_handler good task.exit <<<''
  build_handler picky shell.init <<<'return flux_shell_getopt(flux_plugin_get_shell(p), "picky", NULL) == 1 ? 0 : -1;'
  run plugin check good.so picky.so good.so
  [ "$status" -eq 1 ]
  [[ ${lines[0]} == "good.so: fine"* && ${lines[1]} == "picky.so: "* && ${lines[2]} == "good.so: fine"* ]]
  run plugin check -o picky picky.so
  [ "$status" -eq 0 ]
  for wrong in "" "-t 0 good.so" "-t x good.so" "-t 3601 good.so"; do
    # shellcheck disable=SC2086 # several words
    run plugin check $wrong
    [ "$status" -eq 2 ]
  done
}
