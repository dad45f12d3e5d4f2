#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Handlers that do not return, or end the process, and leftovers of a killed shell.

load plugins.bash
load nodes.bash

# Writes rc.lua, whose plugin `stuck` runs the other arguments as Lua code at topic $1 on shell $2.
write_rc() {
  cat >rc.lua <<END
plugin.register { name = "stuck", handlers = { { topic = "$1", fn = function ()
  if shell.info.rank == $2 then io.open ("stuck", "w"):close () $3 end
end } } }
END
}

loop='while true do end'

# Runs nacre-shell in the background with rc.lua; its output in `out`.
start_shell() {
  "${nacre[@]}" --initrc=rc.lua >out 2>&1 &
  shell=$!
}

start_launch() {
  "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off "$@" >out 2>&1 &
  launcher=$!
}

# Ends leftovers of a failed test, as loops do not end by themselves.
teardown() {
  local pid
  for pid in $(pgrep -f "$work") $(marked_processes); do kill -9 "$pid" || true; done
  cd /
  rm -rf "$work"
}

# The process $1 ends with code $2, within 15 seconds.
ends_with() {
  local code=0
  timeout 15 tail --pid="$1" -f /dev/null || { echo "$1 is still there"; return 1; }
  wait "$1" || code=$?
  [ "$code" -eq "$2" ] || { echo "exit code $code, not $2: $(cat out)"; return 1; }
}

twice() { # process signal
  kill "-$2" "$1"
  sleep 0.3
  kill "-$2" "$1"
}

said() { grep -qxF "$1" out || { echo "no '$1' in: $(cat out)"; return 1; }; }

no_job_left() {
  gone() { [ -z "$(marked_processes)" ] && [ -z "$(ls -A "$TMPDIR")" ]; }
  wait_until gone || { no_process_left; ls -A "$TMPDIR"; return 1; }
}

@test "a handler that loops is ended by a second signal, and named" {
  prepare_marked 2 sh -c 'exec sleep 1000'
  for topic in shell.init task.init task.fork task.exec shell.start; do
    for signal in TERM INT HUP QUIT; do
      [ "$topic" = task.fork ] || [ "$signal" = TERM ] || continue
      rm -f stuck
      write_rc "$topic" 0 "$loop"
      start_shell
      wait_until test -e stuck
      twice "$shell" "$signal"
      ends_with "$shell" $((128 + $(kill -l "$signal")))
      said "nacre-shell[0]: plugin 'stuck' does not return from $topic: ended by a second SIG$signal"
      [ "$(wc -l <out)" -eq 1 ] || { cat out; return 1; }
      killed_processes_go
    done
  done
}

# bats test_tags=long
@test "so are an initrc, and a handler in C that waits for ever" {
  prepare_marked 1 true
  echo "io.open ('stuck', 'w'):close () $loop" >rc.lua
  start_shell
  wait_until test -e stuck
  twice "$shell" TERM
  ends_with "$shell" 143
  said "nacre-shell[0]: plugin 'initrc' does not return from rc.lua: ended by a second SIGTERM"
  build waits <<'END'
#include <fcntl.h>
#include <unistd.h>
static int on_start(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  close(open("waits", O_CREAT | O_WRONLY, 0600));
  for (;;) pause();
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.start", on_start, NULL); }
END
  prepare_marked 1 sleep 1000
  echo "plugin.load { file = '$work/waits.so' }" >rc.lua
  start_shell
  wait_until test -e waits
  twice "$shell" TERM
  ends_with "$shell" 143
  said "nacre-shell[0]: plugin 'waits' does not return from shell.start: ended by a second SIGTERM"
  killed_processes_go
}

@test "one signal waits for a handler that is only slow" {
  prepare_marked 1 sh -c 'exec sleep 1000'
  write_rc shell.start 0 "os.execute ('while [ ! -e go ]; do sleep 0.2; done')"
  start_shell
  wait_until test -e stuck
  kill "$shell"
  sleep 0.5
  touch go
  ends_with "$shell" 143
  [ ! -s out ] || { cat out; return 1; }
}

# bats test_tags=long
@test "exit in a handler is a failure, and named; in task.exec the task is not executed" {
  prepare_marked 2 sh -c 'exec sleep 1000'
  for topic in shell.init task.init task.fork shell.start; do
    write_rc "$topic" 0 "os.exit (3)"
    run nacre --initrc=rc.lua
    fails_with 1 "nacre-shell[0]: plugin 'stuck' called exit(3) in $topic"
    killed_processes_go
  done
  write_rc shell.init 0 "os.exit (0, true)"
  run nacre --initrc=rc.lua
  fails_with 1 "nacre-shell[0]: plugin 'stuck' called exit(0) in shell.init"
  prepare_marked 1 sleep 1000
  write_rc task.exec 0 "os.exit (3)"
  run nacre --initrc=rc.lua
  fails_with 126 "task 0: plugin 'stuck': task.exec: the process exited with code 3, instead of returning"
}

# bats test_tags=long
@test "exit in a handler in C is named too, and what it does to its thread" {
  build leaves <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static int on_topic(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  if (strcmp(topic, "shell.init") == 0) exit(3);
  pthread_exit(NULL);
}
int flux_plugin_init(flux_plugin_t* p) {
  const char* topic = "shell.init";
  flux_plugin_conf_unpack(p, "{s:s}", "topic", &topic);
  return flux_plugin_add_handler(p, topic, on_topic, NULL);
}
END
  prepare_marked 1 sleep 1000
  echo "plugin.load { file = '$work/leaves.so' }" >rc.lua
  run nacre --initrc=rc.lua
  fails_with 1 "nacre-shell[0]: plugin 'leaves' called exit(3) in shell.init"
  echo "plugin.load { file = '$work/leaves.so', conf = { topic = 'shell.start' } }" >rc.lua
  run nacre --initrc=rc.lua
  [ "$status" -eq 1 ]
  [[ $output == *"plugin 'leaves' crashed in shell.start (SIGABRT)"* ]]
  killed_processes_go
}

# bats test_tags=long
@test "of four shells one that loops ends with the job: a second SIGTERM to the launcher" {
  write_nodes 4 1
  environment='{"PATH": "/usr/bin:/bin", "MARK": "'$work'"}' write_jobspec 4 sh -c 'exec sleep 1000'
  for rank in 2 1 0; do
    for topic in shell.init task.fork; do
      rm -f stuck
      write_rc "$topic" "$rank" "$loop"
      start_launch --local=4 --arity=2 -o lost-after=2s -- --initrc="$work/rc.lua"
      wait_until test -e stuck
      twice "$launcher" TERM
      timeout 15 tail --pid="$launcher" -f /dev/null
      ! wait "$launcher" || false
      no_job_left
      # Before there are tasks the leader does not wait for other shells with equal lines.
      [ "$topic" = shell.init ] || grep -F "plugin 'stuck'" out | grep -qF "$topic" || { cat out; return 1; }
    done
  done
}

# bats test_tags=long
@test "without its launcher a leader that loops is ended, and named" {
  write_nodes 3 1
  environment='{"PATH": "/usr/bin:/bin", "MARK": "'$work'"}' write_jobspec 3 sh -c 'exec sleep 1000'
  write_rc task.fork 0 "$loop"
  start_launch --local=3 -o lost-after=2s -- --initrc="$work/rc.lua"
  wait_until test -e stuck
  kill -9 "$launcher"
  no_job_left
  said "nacre-shell[0]: plugin 'stuck' does not return from task.fork, and the process that started this shell has gone: it is killed (on node0)"
}

# bats test_tags=long
@test "a shell that has been stopped for good does not outlive its launcher" {
  write_nodes 4 1
  environment='{"PATH": "/usr/bin:/bin", "MARK": "'$work'"}' write_jobspec 4 \
    sh -c 'echo $PPID >shell.$FLUX_TASK_RANK; echo >>started; exec sleep 1000'
  # In a new session, as by sshd: in the launcher's session the kernel continues stopped processes once the launcher
  # has gone.
  printf '#!/bin/sh\nshift\nexec setsid --wait sh -c "$*"\n' >agent
  chmod +x agent
  for rank in 0 1 3; do
    : >started
    start_launch --hosts='other[0-3]' --agent="$PWD/agent" --arity=2 -o lost-after=2s
    lines_come started 4
    kill -STOP "$(cat shell.$rank)"
    kill -9 "$launcher"
    no_job_left
    wait "$launcher" || true
  done
}

# bats test_tags=long
@test "_exit in a handler is named" {
  build quits <<'END'
#include <unistd.h>
static int on_start(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) { _exit(3); }
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.start", on_start, NULL); }
END
  write_nodes 1 1
  write_jobspec 1 sleep 1000
  echo "plugin.load { file = '$work/quits.so' }" >rc.lua
  start_launch --local=1 -- --initrc="$work/rc.lua"
  ends_with "$launcher" 3
  wait_until said "nacre-shell[0]: this shell has ended while plugin 'quits' ran shell.start: it called _exit(2), or was killed"
  write_R 1
  run timeout 60 "$NACRE_SHELL" --standalone -j jobspec.json -R R.json -o cpu-affinity=off --initrc=rc.lua
  [ "$status" -eq 3 ]
  [ "$output" = "nacre-shell[0]: this shell has ended while plugin 'quits' ran shell.start: it called _exit(2), or was killed" ]
}

# bats test_tags=long
@test "of a shell that is killed nothing is left: neither what has made itself a session, nor the job's directory" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'echo $PPID >shell.$FLUX_TASK_RANK
    mkdir -p "$FLUX_JOB_TMPDIR/a/b"; touch "$FLUX_JOB_TMPDIR/a/b/file"; chmod 0 "$FLUX_JOB_TMPDIR/a/b"
    setsid sh -c "sleep 98763$FLUX_TASK_RANK; :" & echo >>started; wait'
  touch started
  start_launch --local=2 -o tolerate-loss -o exit-timeout=none
  lines_come started 2
  wait_until pgrep -f 'sleep 987631'
  kill -9 "$(cat shell.1)"
  nothing_left 'sleep 987631'
  pgrep -f 'sleep 987630'
  kill -9 "$(cat shell.0)"
  nothing_left 'sleep 987630'
  wait "$launcher" || true
  empty() { [ -z "$(ls -A "$TMPDIR")" ]; }
  wait_until empty
}

# bats test_tags=long
@test "a hook of a shell that is killed runs on, with what it starts" {
  write_nodes 1 1
  write_jobspec 1 sh -c 'echo $PPID >shell.0'
  start_launch --local=1 -o epilog="echo >begun; setsid sh -c 'sleep 1; echo >>finished' & while [ ! -e go ]; do sleep 0.1; done; echo >>finished"
  wait_until test -e begun
  kill -9 "$(cat shell.0)"
  wait "$launcher" || true
  empty() { [ -z "$(ls -A "$TMPDIR")" ]; }
  wait_until empty # the guard has done its work
  touch go
  lines_come finished 2
}

# bats test_tags=long
@test "what a shell without a guard has left is removed by the next job, with a line" {
  prepare_marked 1 sh -c 'echo $PPID >shell.0; touch "$FLUX_JOB_TMPDIR/file"; exec sleep 1000'
  write_rc none 0 ""
  start_shell
  wait_until test -s shell.0
  left=$(ls -d "$TMPDIR"/nacre-*)
  kill -9 "$(cat shell.0)"
  wait "$shell" || true
  [ -d "$left" ]
  gone='[ ! -e "'$left'" ]'
  prepare 1 sh -c "i=0; until $gone; do sleep 0.02; i=\$((i + 1)); [ \$i -lt 500 ] || exit 1; done"
  run nacre
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[0]: tmpdir: removes what a shell that was killed has left: $left" ]
  [ -z "$(ls -A "$TMPDIR")" ]
  run nacre
  [ -z "$output" ]
}

# Root owns them, so that they are another user's; tasks run for a while, as shells look at the names meanwhile.
# bats test_tags=root,long
@test "300,000 names of another user in the TMPDIR cost a job neither a shell nor its time" {
  local program shell shells
  program=$(copy_for_all "$NACRE_BUILD_DIR/nacre")
  shell=$(copy_for_all "$NACRE_SHELL")
  mkdir -m 1777 full
  mkdir -m 700 own
  chown 65534:65534 own
  python3 - <<'END'
import os
os.chdir("full")
for i in range(300000):
    os.close(os.open(f"nacre-{i:08x}-1-0-aaaaaa", os.O_CREAT | os.O_WRONLY))
for i in range(2000):
    os.mkdir(f"nacre-{i:08x}-2-0-aaaaaa")
END
  for shells in 1 4; do
    run timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups env PATH=/usr/bin:/bin HOME="$work/own" NACRE_JOBS_DIR="$work/own/jobs" \
      TMPDIR="$work/full" "$program" run --shell="$shell" --local="$shells" -n 4 --oversubscribe --cwd=/ sh -c 'sleep 2; echo ran'
    echo "$shells shells: $output"
    [ "$status" -eq 0 ]
    [ "$(grep -c "^ran$" <<<"$output")" -eq 4 ]
    ! grep -E "lost|tmpdir" <<<"$output"
  done
  [ "$(find full -mindepth 1 -maxdepth 1 | wc -l)" -eq 302000 ]
}
