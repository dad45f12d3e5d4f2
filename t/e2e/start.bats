#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Started badly: without standard streams, with signals blocked or ignored.
load lib.bash

no_closing=("<&0" "<&-" ">&-" "2>&-" "<&- >&-" "<&- 2>&-" ">&- 2>&-" "<&- >&- 2>&-")

# Runs the other arguments with the redirections $1, which close streams. Output on open streams goes to out and
# err, the exit code to $status.
closed() {
  local how=$1
  shift
  : >out && : >err
  status=0
  eval 'timeout 60 "$@" >out 2>err </dev/null '"$how" || status=$?
}

# Checks a job of two tasks that write a line to both streams, with the redirections $1.
as_expected() {
  local said
  if [[ $1 == *" >&-"* || $1 == ">&-"* ]]; then
    [[ $status != @(0|124|137) ]] || { echo "$1: exit code $status"; return 1; }
    if [[ $1 != *"2>&-"* ]]; then
      said=$(grep -c "cannot write stdout: Bad file descriptor" err)
      [ "$said" -eq 1 ] || { echo "$1: $said lines"; cat err; return 1; }
    fi
    return
  fi
  [ "$status" -eq 0 ] || { echo "$1: exit code $status"; cat err; return 1; }
  [ "$(sort out)" = $'out\nout' ] || { echo "$1: wrote"; cat out; return 1; }
  [[ $1 == *"2>&-"* ]] || [ "$(sort err)" = $'err\nerr' ] || { echo "$1: wrote"; cat err; return 1; }
}

@test "a shell alone runs without standard streams; output that nobody takes is an error" {
  prepare 2 sh -c 'echo out; echo err >&2'
  for how in "${no_closing[@]}"; do
    closed "$how" "${nacre[@]}"
    as_expected "$how"
  done
}

# bats test_tags=long
@test "a job of two shells runs without standard streams; output that nobody takes is an error" {
  write_jobspec 2 sh -c 'echo out; echo err >&2'
  for how in "${no_closing[@]}"; do
    closed "$how" "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --local=2 -j jobspec.json -o cpu-affinity=off
    as_expected "$how"
  done
}

@test "a job that writes nothing needs no standard streams" {
  prepare 1 true
  for how in "${no_closing[@]}"; do
    closed "$how" "${nacre[@]}"
    [ "$status" -eq 0 ] || { echo "$how: exit code $status"; cat err; return 1; }
  done
}

# Runs the other arguments without a working standard output: one line, which begins with $1, reports that.
cannot_print() {
  local begin=$1 to
  shift
  for to in ">&-" ">/dev/full"; do
    closed "$to" "$@"
    [ "$status" -eq 1 ] || { echo "$* $to: exit code $status"; cat err; return 1; }
    [[ $(wc -l <err) -eq 1 && $(<err) == "$begin: standard output: "* ]] || { cat err; return 1; }
  done
}

# bats test_tags=long
@test "what a program prints itself and nobody takes is an error" {
  prepare 1 true
  export NACRE_ARCHIVE_DIR=$PWD/archives
  "$NACRE_BUILD_DIR/nacre" archive create jobspec.json
  echo 'return {}' >p.lua
  cannot_print nacre-shell "$NACRE_SHELL" --help
  cannot_print nacre-shell "$NACRE_SHELL" --version
  cannot_print nacre-shell "${nacre[@]}" --explain
  cannot_print nacre-shell "${nacre[@]}" --explain=plugins
  cannot_print nacre "$NACRE_BUILD_DIR/nacre" --help
  cannot_print "nacre launch" "$NACRE_BUILD_DIR/nacre" launch --help
  cannot_print "nacre archive list" "$NACRE_BUILD_DIR/nacre" archive list
  cannot_print "nacre plugin list" "$NACRE_BUILD_DIR/nacre" plugin list --initrc=/dev/null
}

# Runs the other arguments with all signals blocked, and those in $1 ignored.
with_signals() {
  exec python3 -c 'import os, signal, sys
for name in sys.argv[1].split():
    signal.signal(getattr(signal, "SIG" + name), signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execvp(sys.argv[2], sys.argv[2:])' "$@"
}

@test "blocked and ignored signals: a job ends all the same" {
  prepare 2 true
  run timeout -s KILL 60 bash -c "$(declare -f with_signals); with_signals 'CHLD TERM' \"\$@\"" - "${nacre[@]}"
  [ "$status" -eq 0 ]
  run timeout -s KILL 60 bash -c "$(declare -f with_signals); with_signals 'CHLD TERM' \"\$@\"" - \
    "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --local=2 -j jobspec.json -o cpu-affinity=off
  [ "$status" -eq 0 ]
}

@test "blocked and ignored signals: they come to the tasks, and their own are as a shell's" {
  prepare 1 python3 -c 'import signal, time
print("blocked", len(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "ignored",
      [s for s in range(1, signal.NSIG) if s not in (13, 25, 32, 33) and signal.getsignal(s) == signal.SIG_IGN], flush=True)
open("ready", "w").close()
time.sleep(1000)'
  launch=("$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --local=1 -j jobspec.json -o cpu-affinity=off)
  for program in nacre launch; do
    local -n command=$program
    rm -f ready
    with_signals "CHLD TERM USR1 ALRM" "${command[@]}" >out 2>&1 3>&- &
    pid=$!
    wait_until test -e ready
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 143 ] || { echo "exit code $status"; cat out; return 1; }
    [ "$(cat out)" = "blocked 0 ignored []" ] || { cat out; return 1; }
  done
}

# bats test_tags=long
@test "SIGHUP that was ignored stays so, SIGINT is taken" {
  prepare 1 sh -c 'touch ready; until test -e go; do sleep 0.2; done'
  with_signals "HUP INT QUIT" "${nacre[@]}" >out 2>&1 3>&- &
  pid=$!
  wait_until test -e ready
  kill -HUP "$pid"
  sleep 0.5
  kill -0 "$pid"
  touch go
  status=0
  wait "$pid" || status=$?
  [ "$status" -eq 0 ] || { echo "exit code $status"; cat out; return 1; }
  rm ready go
  with_signals "HUP INT QUIT" "${nacre[@]}" >out 2>&1 3>&- &
  pid=$!
  wait_until test -e ready
  kill -INT "$pid"
  status=0
  wait "$pid" || status=$?
  [ "$status" -eq 130 ] || { echo "exit code $status"; cat out; return 1; }
}

tasks_are() { # all three in the state that ps calls $1; a task that is stopped at once has not run a line
  local pids
  pids=$(pgrep -xf "sleep 76558")
  [ "$(ps -o state= -p "${pids//$'\n'/,}" | tr -d '\n')" = "$1$1$1" ]
}

# A job of three shells by nacre launch, with the other arguments as its options, is told to stop while its start is
# held until there is `go`. Its tasks are stopped once they run, and SIGCONT continues them.
stops_once_started() {
  write_jobspec 3 sleep 76558
  rm -f go
  "$NACRE_BUILD_DIR/nacre" launch --local=3 -j jobspec.json -o cpu-affinity=off "$@" >out 2>&1 3>&- &
  pid=$!
  wait_until test -e held
  kill -TSTP "$pid"
  wait_until eval '[ "$(ps -o state= -p $pid)" = T ]'
  touch go
  wait_until tasks_are T || { echo "the tasks are not stopped: $(cat out)"; kill -KILL "$pid"; return 1; }
  kill -CONT "$pid"
  wait_until tasks_are S
  kill -TERM "$pid"
  status=0
  wait "$pid" || status=$?
  [ "$status" -eq 143 ] || { echo "exit code $status"; cat out; return 1; }
  rmdir held
}

# bats test_tags=long
@test "SIGTSTP that comes while a job starts stops its tasks once they run" {
  local hold='mkdir held; until test -e go; do sleep 0.1; done'
  # The leader begins first.
  printf '#!/bin/sh\nmkdir first 2>/dev/null || { %s; }\nexec "%s" "$@"\n' "${hold/mkdir/mkdir -p}" "$NACRE_SHELL" >late
  chmod +x late
  stops_once_started --shell="$PWD/late"
  echo "if shell.info.rank == 2 then shell.options.prolog = '$hold' end" >hold.lua
  stops_once_started --shell="$NACRE_SHELL" -- --initrc=hold.lua
}

# bats test_tags=long
@test "SIGTSTP stops tasks that lead sessions, too, and is left to those that catch it" {
  prepare 2 sh -c '[ $FLUX_TASK_RANK = 0 ] || { trap "echo caught >caught.$FLUX_TASK_RANK" TSTP; touch there; while :; do sleep 0.1; done; }; exec sleep 76558'
  "${nacre[@]}" -o session=task >out 2>&1 3>&- &
  pid=$!
  wait_until test -e there
  wait_until pgrep -xf "sleep 76558"
  task=$(pgrep -xf "sleep 76558")
  [ "$(ps -o sid= -p "$task" | tr -d ' ')" = "$task" ]
  kill -TSTP "$pid"
  state_is() { [ "$(ps -o state= -p "$task")" = "$1" ]; }
  wait_until state_is T
  wait_until test -e caught.1
  kill -CONT "$pid"
  wait_until state_is S
  kill -TERM "$pid"
  status=0
  wait "$pid" || status=$?
  [ "$status" -eq 143 ]
}

@test "a shell that is not started ends the job soon, though those that it would have started never come" {
  write_jobspec 5 true
  printf '#!/bin/sh\n[ "$1" != other1 ] || exit 9\nshift\nexec sh -c "$*"\n' >agent
  chmod +x agent
  run timeout 100 "$NACRE_BUILD_DIR/nacre" launch --timeout=1000 --shell="$NACRE_SHELL" --arity=2 --hosts='other[0-4]' --agent="$PWD/agent" \
    -j jobspec.json -o cpu-affinity=off
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 2 ]
  [ "${lines[0]}" = "nacre-shell[0]: error: shell 1 on other1 was not started: it has printed nothing (agent exited with code 9)" ]
  [ "${lines[1]}" = "nacre-shell[0]: fatal: shell 1 on other1 did not join the job" ]
}

# bats test_tags=long
@test "one shell of several that runs out of descriptors, at whatever number, ends the job soon, with a line, and leaves nothing" {
  write_jobspec 3 true
  mkdir left
  printf '#!/bin/sh\n%s\n%s\nexec "%s" "$@"\n' 'n=0; until mkdir start.$n 2>/dev/null; do n=$((n + 1)); done' \
    '[ $n -ne "$(cat chosen)" ] || ulimit -n "$(cat limit)"' "$NACRE_SHELL" >few
  chmod +x few
  local rank limit failed=0
  for rank in 0 2; do
    echo "$rank" >chosen
    for limit in {8..32}; do
      rm -rf start.*
      echo "$limit" >limit
      run timeout 100 env TMPDIR="$PWD/left" "$NACRE_BUILD_DIR/nacre" launch --timeout=1000 --shell="$PWD/few" --local=3 -j jobspec.json \
        -o cpu-affinity=off < <(echo data)
      if [ "$status" -ne 0 ]; then
        failed=$((failed + 1))
        [ "$status" -eq 1 ] && [ -n "$output" ] || { echo "shell $rank with $limit: exit code $status: $output"; return 1; }
      fi
      wait_until eval '[ -z "$(ls left)" ]' || { echo "shell $rank with $limit: $(ls left) $output"; return 1; }
    done
  done
  [ "$failed" -gt 20 ]
}

@test "who reads only the beginning of what a verb prints is told nothing of the rest" {
  front=$NACRE_BUILD_DIR/nacre
  for words in "help run" "jobs -a --json" "--version" "initrc --help"; do
    # shellcheck disable=SC2086 # several words
    { code=0; "$front" $words 2>said || code=$?; echo "$code" >code; } | true
    [ "$(cat code)" -eq 141 ] || [ "$(cat code)" -eq 0 ] || { echo "$words: $(cat code)"; return 1; }
    [ ! -s said ] || { cat said; return 1; }
  done
  # By then the reader has certainly gone.
  { sleep 0.3; code=0; "$front" help run 2>said || code=$?; echo "$code" >code; } | true
  [ "$(cat code)" -eq 141 ] && [ ! -s said ] || { cat code said; return 1; }
}

# Each shell, and the process that starts them, has that limit, and so do the tasks. `ulimit -s` also sets the hard
# limit.
@test "jobs of one shell and of several run with a stack of 64 KiB, with input and output" {
  local shells sum
  sum=$(head -c 300000 /dev/zero | tr '\0' x | md5sum) # which runs with it; wc(1) of Debian 13 does not
  for shells in 1 3; do
    run bash -c "ulimit -s 64; head -c 300000 /dev/zero | tr '\\0' x | '$NACRE_BUILD_DIR/nacre' run --local=$shells -n 3 sh -c 'md5sum; ulimit -s'"
    [ "$status" -eq 0 ] || { echo "$shells shells: exit code $status: $output"; return 1; }
    [[ $(grep -cxF "$sum" <<<"$output") -eq 3 && $(grep -cx 64 <<<"$output") -eq 3 && ${#lines[@]} -eq 6 ]] || { echo "$shells shells: $output"; return 1; }
  done
}
