#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the tasks write, as it comes out on the shell's own streams. Files and eventlogs: output_places.bats.
load lib.bash

@test "lines of many tasks are never mixed" {
  prepare 16 sh -c 'for i in $(seq 500); do printf "%s" "$FLUX_TASK_RANK:"; echo "$i aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; done'
  run nacre
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 8000 ]
  run ! grep -vE '^[0-9]+:[0-9]+ a{44}$' <<<"$output"
}

# bats test_tags=long
@test "each task's lines keep their order" {
  prepare 4 sh -c 'for i in $(seq 1000); do echo "$FLUX_TASK_RANK $i"; done'
  run nacre
  for rank in 0 1 2 3; do
    [ "$(grep "^$rank " <<<"$output" | cut -d' ' -f2)" = "$(seq 1000)" ]
  done
}

@test "label-io puts the rank before each line" {
  prepare 2 sh -c 'echo a; echo b'
  run nacre -o label-io
  [ "$(sort <<<"$output")" = $'0: a\n0: b\n1: a\n1: b' ]
}

@test "stdout and stderr stay apart" {
  prepare 1 sh -c 'echo out; echo err >&2'
  nacre >out 2>err
  [ "$(cat out)" = out ]
  [ "$(cat err)" = err ]
}

@test "a last line without a newline comes out as it is" {
  prepare 1 printf abc
  nacre >out
  [ "$(od -An -c out | tr -d ' \n')" = abc ]
}

@test "but not on the same line as another task's" {
  prepare 2 printf abc
  nacre >out
  [ "$(cat out)" = $'abc\nabc' ]
}

@test "all bytes come out: NUL, invalid UTF-8, a line of 5 MB" {
  head -c 5000000 /dev/urandom >data
  prepare 1 cat "$work/data"
  nacre >out
  cmp data out
}

@test "a reader that goes away ends the writers, as in a pipe" {
  prepare 1 yes
  run timeout 20 bash -c '"$@" | head -n 1; exit ${PIPESTATUS[0]}' - "${nacre[@]}"
  [ "$status" -eq 141 ]
  [ "${lines[0]}" = y ]
}

@test "a full disk is named, and the exit code tells" {
  prepare 1 echo x
  run bash -c '"$@" >/dev/full' - "${nacre[@]}"
  [ "$status" -ne 0 ]
  [[ $output == *"cannot write stdout: No space left on device"* ]]
}

@test "so is a file that may not grow, and the tasks are ended" {
  prepare 1 sh -c 'yes | head -c 100000; exec sleep 1000'
  run timeout 20 bash -c 'ulimit -f 4; "$@" >out' - "${nacre[@]}"
  [ "$status" -eq 1 ]
  [[ $output == *"cannot write stdout: File too large"* ]]
  [ -z "$(ls "$TMPDIR")" ]
}

@test "the shell's own lines do not come between two halves of a task's, however late standard error is read" {
  prepare 2 sh -c '[ $FLUX_TASK_RANK = 0 ] || { sleep 0.3; exit 3; }; yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | head -n 20000 >&2'
  { nacre -o exit-report=line 2>&1 >/dev/null || true; } | { sleep 1; cat; } >err
  [ "$(grep -cx 'x\{39\}' err)" -eq 20000 ]
  [ "$(grep -v '^x' err)" = "nacre-shell[0]: error: task 1 on node0: exit code 3" ] || { grep -v '^x*$' err; return 1; }
}

# The handler's process is a copy of the shell: it must not write to the shell's files, and timers do not run in it.
@test "what a handler of task.exec logs is on the task's standard error, wherever that goes" {
  echo 'plugin.register { name = "x", handlers = { { topic = "task.exec", fn = function () shell.log ("hello") end } } }' >rc.lua
  prepare 2 true
  for to in "" "-o output.stderr.type=file -o output.stderr.path=e" "-o output.stderr.type=file -o output.stderr.path=e.{{task.rank}}" \
    "-o output.stdout.type=file -o output.stdout.path=e" "--record-dir=rec" "-o output.stderr.format=json"; do
    rm -rf e e.* rec
    # shellcheck disable=SC2086 # several options
    nacre --initrc=rc.lua $to >out 2>&1 || { echo "$to: $?"; cat out e*; return 1; }
    [ "$(cat out e e.* rec/guest.output 2>/dev/null | grep -c "x: hello")" -eq 2 ] || { echo "$to"; tail out e* rec/*; return 1; }
  done
}
