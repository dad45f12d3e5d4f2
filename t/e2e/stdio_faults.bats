#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What can go wrong with the tasks' output and input: each fault has its message, nothing hangs, and nothing is lost but
# what the message says.
load lib.bash
set -o pipefail

eval "lib_$(declare -f teardown)"

teardown() {
  if mountpoint -q "$work/small"; then umount "$work/small"; fi
  lib_teardown
}

# A file system small/ with the options of mount(8).
mount_small() {
  needs_root "to mount a file system"
  mkdir small
  mount -t tmpfs -o "$1" tmpfs small
}

# The shell, to be ended if it hangs.
nacre() { timeout -k 5 60 "${nacre[@]}" "$@"; }

# Waits for a condition: a command that succeeds.
await() { timeout 30 bash -c 'until eval "$0"; do sleep 0.02; done' "$*" || { echo "in vain: $*"; return 1; }; }

# Reads all of stdin to the file $1, but only once the condition holds.
read_late() {
  local file=$1
  shift
  await "$@" && cat >"$file"
}

# The process with this file is there, and has written something, but nothing for a while.
is_stuck() {
  local before
  before=$(grep '^wchar: [1-9]' "/proc/$(cat "$1")/io") && sleep 0.3 && [ "$(grep wchar "/proc/$(cat "$1")/io")" = "$before" ]
}
export -f is_stuck

said() { grep -qF -- "$1" err || { echo "no '$1' in: $(cat err)"; return 1; }; }

# ---- places that can't be written

# bats test_tags=long
@test "a full disk is named, with how much it has" {
  mount_small size=256k
  prepare 2 sh -c 'seq 100000; exec sleep 1000'
  run nacre -o output.stdout.path=small/out -o kill-timeout=1
  fails_with 1 "cannot write small/out: No space left on device; $(stat -c %s small/out) bytes had been written"
}

@test "a task that writes its file itself sees that the disk is full" {
  mount_small size=256k
  prepare 1 sh -c 'seq 100000; echo "code $?" >&2'
  run nacre -o 'output.stdout.path=small/out.{{task.rank}}' -o output.stderr.type=term
  [ "$status" -eq 0 ]
  [[ $output == *"No space left on device"*"code 1" ]]
}

@test "a file system that is read-only is named before any task starts" {
  mount_small ro
  prepare 2 touch started
  run nacre -o output.stdout.path=small/out
  fails_with 1 "output.stdout.path: small/out: Read-only file system"
  [ ! -e started ]
}

@test "a directory that is missing is named before any task starts" {
  prepare 2 touch started
  run nacre -o output.stderr.path=no/such/out
  fails_with 1 "output.stderr.path: no/such/out: its directory is not there; make it first"
  [ ! -e started ]
}

@test "with output.mkdir it is made; what is in its way is named" {
  prepare 2 sh -c 'echo here'
  run nacre -o output.mkdir -o output.stdout.path='no/such/{{task.rank}}'
  [ "$status" -eq 0 ]
  [ "$(cat no/such/0 no/such/1)" = $'here\nhere' ]
  touch in-the-way
  run nacre -o output.mkdir -o output.stdout.path=in-the-way/out
  [ "$status" -eq 1 ]
  [[ $output == *"output.stdout.path: in-the-way/out: "* ]]
}

@test "so is one that is missing for a task's own file" {
  prepare 2 touch started
  run nacre -o output.stdout.path='no/such/{{task.rank}}'
  fails_with 1 "output.stdout.path: no/such/0: its directory is not there; make it first"
  [ ! -e started ]
}

@test "a path that is a directory is named" {
  mkdir folder
  prepare 2 true
  run nacre -o output.stdout.path=folder
  fails_with 1 "output.stdout.path: folder: Is a directory"
}

@test "a tag that nobody knows is an error in the path of a file, before any task starts" {
  prepare 2 sh -c 'touch ran; echo hello'
  for tag in colour task.shade node.shade; do
    for path in "out.{{task.rank}}.{{$tag}}" "all.{{$tag}}"; do
      run nacre -o output.stdout.path="$path"
      fails_with 1 "output.stdout.path: there is no tag {{$tag}}"
    done
  done
  run nacre -o output.stderr.path='err.{{task.rnk}}'
  fails_with 1 "output.stderr.path: there is no tag {{task.rnk}}; did you mean task.rank?"
  for path in 'out.{{task.rank}' 'out.{task.rank}}' 'out.{{task.rank' 'out.{{}}' '{{id}}.{{task.rank}'; do
    run nacre -o output.stdout.path="$path"
    fails_with 1 "output.stdout.path: '$path': expected tags as {{task.rank}}, with two braces on both sides"
  done
  run nacre -o input.stdin.path='{{nme}}.in'
  fails_with 1 "there is no tag {{nme}}; did you mean name?"
  run nacre -o coprocess.a.command=cat -o coprocess.a.output='{{node.nam}}.log'
  fails_with 1 "coprocess.a.output: there is no tag {{node.nam}}; did you mean node.name?"
  [ ! -e ran ] && [ -z "$(find . -name '*{{*')" ]
}

@test "a FIFO without a reader is an error and not a wait" {
  mkfifo pipe
  prepare 2 true
  run nacre -o output.stdout.path=pipe
  fails_with 1 "output.stdout.path: pipe: a FIFO that nobody reads; start its reader first"
}

@test "so is one for input that nobody writes to; one with a writer, or with what a writer has left, is read" {
  mkfifo pipe
  prepare 1 cat
  run nacre -o input.stdin.path=pipe
  fails_with 1 "input.stdin.path: pipe: a FIFO that nobody writes to; start its writer first"
  exec 6<>pipe
  exec 7<pipe
  prepare 1 head -n 1
  echo one >&6
  [ "$(nacre -o input.stdin.path=pipe)" = one ] # its writer is there
  prepare 1 cat
  seq 2000 >&6
  exec 6>&-
  nacre -o input.stdin.path=pipe >out # it has gone
  exec 7<&-
  seq 2000 | cmp - out
}

@test "a FIFO with a reader is as good as a pipe" {
  mkfifo pipe
  cat pipe >out &
  prepare 2 seq 20000
  run nacre -o output.stdout.path=pipe
  [ "$status" -eq 0 ]
  wait $!
  [ "$(sort out | md5sum)" = "$({ seq 20000; seq 20000; } | sort | md5sum)" ]
}

# bats test_tags=long
@test "the limit of a file's size is an error for the shell, which it does not kill" {
  prepare 2 sh -c 'seq 100000; exec sleep 1000'
  run bash -c 'ulimit -f 64; exec timeout 60 "$@"' - "${nacre[@]}" -o output.stdout.path=out -o kill-timeout=1
  fails_with 1 "cannot write out: File too large; 65536 bytes had been written"
  [ "$(stat -c %s out)" -eq 65536 ]
}

@test "a task that reaches it in a file of its own is killed by SIGXFSZ" {
  prepare 1 bash -c 'while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done'
  run bash -c 'ulimit -c 0; ulimit -f 64; exec timeout 60 "$@"' - "${nacre[@]}" -o 'output.stdout.path=out.{{task.rank}}'
  [ "$status" -eq $((128 + 25)) ]
  [ "$(stat -c %s out.0)" -eq 65536 ]
}

# ---- readers

@test "when the reader of stdout is gone, tasks that write get SIGPIPE" {
  prepare 3 yes
  run --separate-stderr timeout 60 bash -c '"$@" | head -n 1; exit "${PIPESTATUS[0]}"' - "${nacre[@]}" -o label-io
  [ "$status" -eq $((128 + 13)) ]
  [[ $output =~ ^[0-2]:\ y$ ]]
}

@test "or EPIPE where they ignore that" {
  prepare 2 bash -c 'trap "" PIPE; while echo y; do :; done 2>/dev/null; exit 7'
  run --separate-stderr timeout 60 bash -c '"$@" | head -n 1; exit "${PIPESTATUS[0]}"' - "${nacre[@]}"
  [ "$status" -eq 7 ]
  [ "$output" = y ]
}

# bats test_tags=long
@test "a file that has the output too still gets all of it when the reader of stdout is gone" {
  prepare 2 seq 100000
  run timeout 60 bash -c '"$@" | head -n 1; exit "${PIPESTATUS[0]}"' - "${nacre[@]}" \
    -o output.stdout.type=term,file -o output.stdout.path=out
  [ "$status" -eq 0 ]
  [ "$output" = 1 ]
  [ "$(sort out | md5sum)" = "$({ seq 100000; seq 100000; } | sort | md5sum)" ]
}

# bats test_tags=long
@test "with overflow=block tasks wait for a slow reader, and nothing is lost" {
  prepare 2 sh -c 'echo $$ >"pid.$FLUX_TASK_RANK"; exec seq 1000000'
  nacre 2>err | read_late out 'is_stuck pid.0 && is_stuck pid.1'
  [ "$(sort out | md5sum)" = "$({ seq 1000000; seq 1000000; } | sort | md5sum)" ]
  [ ! -s err ]
}

@test "with overflow=drop they do not wait: what came and what was dropped is what was written" {
  prepare 2 sh -c 'seq 1000000 1999999; touch "written.$FLUX_TASK_RANK"'
  nacre -o output.overflow=drop 2>err | read_late out '[ -e written.0 -a -e written.1 ]'
  came=$(grep -cxE '1[0-9]{6}' out)
  dropped=$(sed -nE 's/^\[([0-9]+) lines, [0-9]+ bytes dropped here: the reader is too slow\]$/\1/p' out | paste -sd+ | bc)
  [ "$dropped" -gt 0 ]
  [ "$((came + dropped))" -eq 2000000 ]
  [ "$(grep -vcxE '1[0-9]{6}|\[.*\]' out)" -eq 0 ]
  said "stdout: $dropped lines, $((8 * dropped)) bytes were dropped, as the reader was too slow"
}

# bats test_tags=long
@test "with overflow=spill they do not wait, and all comes" {
  prepare 2 sh -c 'seq 1000000 1999999; touch "written.$FLUX_TASK_RANK"'
  nacre -o output.overflow=spill 2>err | read_late out '[ -e written.0 -a -e written.1 ]'
  [ "$(sort out | md5sum)" = "$(seq 1000000 1999999 | sed p | md5sum)" ]
  [ ! -s err ]
}

# bats test_tags=long
@test "at spill-limit they wait" {
  prepare 1 sh -c 'echo $$ >pid.0; exec seq 1000000 1999999'
  nacre -o output.overflow=spill -o output.spill-limit=1M 2>err | read_late out 'is_stuck pid.0'
  [ ! -s err ]
  cmp out <(seq 1000000 1999999)
}

# bats test_tags=long
@test "when there is no room to spill to they wait, with a warning, and all comes" {
  mount_small size=1m
  prepare 1 seq 1000000 1999999
  TMPDIR=$work/small nacre -o output.overflow=spill 2>err | read_late out 'grep -q "wait for the reader" err'
  cmp out <(seq 1000000 1999999)
  said "No space left on device: tasks wait for the reader instead"
  [ "$(wc -l <err)" -eq 1 ]
}

@test "output.limit cuts each stream, and says what was cut" {
  prepare 2 sh -c 'seq 1000000 1000999; echo short >&2'
  nacre -o output.limit=1000 >out 2>err
  [ "$(grep -cE '^1000[0-9]{3}$' out)" -eq 125 ]
  [ "$(tail -n 1 out)" = "[stdout is cut here: output.limit is 1000 bytes]" ]
  [ "$(grep -c '^short$' err)" -eq 2 ]
  said "stdout: 15000 bytes over output.limit were cut"
}

# ---- tasks

@test "a task that is stopped holds up neither the others nor its own output before" {
  prepare 3 sh -c 'echo before; if [ "$FLUX_TASK_RANK" = 1 ]; then echo $$ >pid; kill -STOP $$; fi; echo after'
  nacre -o label-io >out &
  await 'grep -q "State:.*stopped" "/proc/$(cat pid)/status" && [ "$(grep -c after out)" -eq 2 ]'
  [ "$(sort out)" = $'0: after\n0: before\n1: before\n2: after\n2: before' ]
  kill -CONT "$(cat pid)"
  wait $!
  [ "$(grep -c '^1: after$' out)" -eq 1 ]
}

@test "half a line of a task that is killed comes out, on a line of its own" {
  prepare 2 bash -c 'if [ "$FLUX_TASK_RANK" = 1 ]; then printf half; kill -KILL $$; fi; for i in 1 2 3; do echo "line $i"; done'
  nacre >out || code=$?
  [ "$code" -eq 137 ]
  [ "$(sort out)" = $'half\nline 1\nline 2\nline 3' ]
}

# bats test_tags=long
@test "a process outside of the job that holds the output is not waited for longer than drain-timeout" {
  prepare 1 sh -c 'echo done; echo $$ >pid.new; mv pid.new pid; until [ -e held ]; do sleep 0.1; done'
  nacre -o output.drain-timeout=0.3s >out 2>err &
  shell=$!
  await '[ -e pid ]'
  exec 4>"/proc/$(cat pid)/fd/1"
  touch held
  code=0
  wait $shell || code=$?
  exec 4>&-
  [ "$code" -eq 0 ]
  [ "$(cat out)" = "done" ]
  [ "$(wc -l <err)" -eq 1 ]
  said "task 0: its stdout is held open by a process that it left; it is not waited for"
}

@test "what holds the output of a try before the last is not waited for longer than drain-timeout" {
  prepare 1 sh -c 'echo "try $NACRE_TASK_TRY"; [ "$NACRE_TASK_TRY" = 2 ] || { echo $$ >pid.new; mv pid.new pid; until [ -e held ]; do sleep 0.1; done; exit 3; }'
  nacre -o output.drain-timeout=0.3s -o restart=on-failure,backoff=10ms >out 2>err &
  shell=$!
  await '[ -e pid ]'
  exec 4>"/proc/$(cat pid)/fd/1"
  touch held
  await "! kill -0 $shell"
  exec 4>&-
  wait $shell
  [ "$(cat out)" = $'try 1\ntry 2' ]
  said "task 0: its stdout is held open by a process that it left; it is not waited for"
}

# ---- input

@test "input.limit cuts stdin for all, and says so" {
  prepare 3 sh -c 'wc -c'
  nacre -o input.limit=1000 < <(seq 100000) >out 2>err
  [ "$(uniq -c out | tr -s ' ')" = " 3 1000" ]
  [ "$(wc -l <err)" -eq 1 ]
  said "stdin is cut here: input.limit is 1000 bytes"
}

@test "tasks that close stdin early, or end, take nothing from the others" {
  prepare 4 sh -c 'case $FLUX_TASK_RANK in 0) exec <&-; until [ -e read.2 ]; do sleep 0.1; done; exit 0;; 1) exit 0;; esac
    md5sum; touch "read.$FLUX_TASK_RANK"'
  run nacre -o output.ranks=2,3 < <(seq 1000000)
  [ "$status" -eq 0 ]
  [ "$output" = "$(for i in 1 2; do seq 1000000 | md5sum; done)" ]
}

# bats test_tags=long
@test "a FIFO whose writer has gone before the shell opens it anew: its rest and its end, or a writer that comes later" {
  prepare 3 sh -c 'md5sum'
  mkfifo fifo
  for count in 0 5 10000; do
    exec 6<>fifo
    exec 7<fifo
    seq "$count" >&6
    exec 6>&-
    run nacre <&7 7<&-
    [ "$status" -eq 0 ]
    [ "$output" = "$(for i in 1 2 3; do seq "$count" | md5sum; done)" ]
    exec 7<&-
  done
  # The next writer may come before the end is read.
  exec 6<>fifo
  exec 7<fifo
  echo one >&6
  exec 6>&-
  nacre <&7 7<&- >out &
  exec 7<&-
  timeout 30 sh -c 'exec 8>fifo; echo two >&8' || :
  wait $!
  grep -qxF "$(md5sum <<<one)" out || grep -qxF "$(printf 'one\ntwo\n' | md5sum)" out
}

# bats test_tags=long
@test "a task that never reads 50 MB of stdin does not hold up those that do" {
  prepare 3 sh -c 'if [ "$FLUX_TASK_RANK" = 1 ]; then until [ -e read.0 ] && [ -e read.2 ]; do sleep 0.02; done; exit 0; fi
    md5sum; touch "read.$FLUX_TASK_RANK"'
  run nacre < <(head -c 50000000 /dev/zero | tr '\0' x)
  [ "$status" -eq 0 ]
  [ "$output" = "$(for i in 1 2; do head -c 50000000 /dev/zero | tr '\0' x | md5sum; done)" ]
}

# bats test_tags=long
@test "where it can't fall behind it is named, and the others get all once it has ended" {
  mount_small size=1m
  prepare 2 sh -c 'if [ "$FLUX_TASK_RANK" = 1 ]; then until grep -q stdin err; do sleep 0.02; done; exit 0; fi; md5sum'
  head -c 50000000 /dev/zero | TMPDIR=$work/small nacre >out 2>err
  [ "$(cat out)" = "$(head -c 50000000 /dev/zero | md5sum)" ]
  [ "$(wc -l <err)" -eq 1 ]
  said "task 1: does not read its stdin, and the others have to wait for it: cannot keep output in"
  said "No space left on device; input.ranks chooses the tasks that get it"
}

@test "an input file that is missing, or a directory, is named" {
  prepare 2 true
  run nacre -o input.stdin.path=missing
  fails_with 1 "input.stdin.path: missing: No such file or directory"
  run nacre -o input.stdin.path=.
  fails_with 1 "input.stdin.path: .: Is a directory"
}
