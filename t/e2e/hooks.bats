#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# prolog, epilog, task-prolog and task-epilog, in a job.
load nodes.bash

@test "prologs run before the tasks, epilogs after them, in order" {
  prepare 2 sh -c 'echo task $FLUX_TASK_RANK $FROM_PROLOG >>log; exit $FLUX_TASK_RANK'
  run nacre -o exit-report=line -o 'prolog=echo prolog "$@" | cut -c1-12 >>log' -o 'task-prolog=echo export FROM_PROLOG=p$FLUX_TASK_RANK' \
    -o 'task-epilog=echo after $FLUX_TASK_RANK $NACRE_EXIT_STATUS $FROM_PROLOG >>log' \
    -o 'epilog=echo epilog $NACRE_EXIT_STATUS >>log; ls -d "$FLUX_JOB_TMPDIR" >tmpdir'
  [ "$status" -eq 1 ]
  [ "$output" = "nacre-shell[0]: error: task 1 on node0: exit code 1" ]
  [ "$(head -n 1 log)" = "prolog sh -c" ]
  [ "$(sed 1d log | sed '$d' | sort)" = "after 0 0 p0
after 1 1 p1
task 0 p0
task 1 p1" ]
  [ "$(tail -n 1 log)" = "epilog 1" ]
  [ -s tmpdir ]
}

@test "their output is the job's, and a task-prolog prints" {
  prepare 1 true
  run --separate-stderr nacre -o 'prolog=echo out; echo err >&2; cat' -o 'task-prolog=echo print hello; echo nothing' \
    -o 'epilog=["echo", "bye  bye"]' <<<"typed"
  [ "$status" -eq 0 ]
  [ "$output" = "out
hello
bye  bye" ]
  [ "$stderr" = err ]
}

@test "a prolog that fails: one line, and no task runs, nor an epilog" {
  prepare 2 sh -c 'echo ran >>log'
  for option in prolog task-prolog; do
    run nacre -o "$option=exit 3" -o 'epilog=echo epilog'
    fails_with 1 "$option 'exit 3': exited with code 3"
    [ ! -e log ]
  done
  run nacre -o 'prolog=["/nowhere/x"]'
  fails_with 1 "prolog '/nowhere/x': /nowhere/x: No such file or directory"
}

# All processes that a shell starts have the shell's rank as RANK.
write_rank_rc() {
  cat >rc.lua <<'LUA'
plugin.register { name = "rank", handlers = { { topic = "shell.init", fn = function() shell.setenv ("RANK", shell.info.rank) end } } }
LUA
}

@test "a prolog that fails on one node, and late: no task of any node runs" {
  write_nodes 3 2
  write_jobspec 6 sh -c 'echo ran >>log'
  write_rank_rc
  for option in prolog task-prolog; do
    run launch -R R.json -o cpu-affinity=off --local=3 -o "$option=test \$RANK != 2 || { sleep 1; exit 3; }" -- --initrc="$PWD/rc.lua"
    [ "$status" -eq 1 ]
    [[ $output == *"$option"*"exited with code 3 on node2"* ]] || { echo "$output"; return 1; }
    [ ! -e log ]
  done
  # Only one shell sets the option.
  echo 'if shell.info.rank == 2 then shell.options.prolog = "sleep 1; exit 3" end' >>rc.lua
  run launch -R R.json -o cpu-affinity=off --local=3 -- --initrc="$PWD/rc.lua"
  [ "$status" -eq 1 ]
  [ ! -e log ]
}

@test "a prolog that takes too long is killed" {
  prepare 1 echo ran
  run nacre -o 'prolog.command=sleep 1000' -o prolog.timeout=0.1s
  fails_with 1 "prolog 'sleep 1000': took longer than 100ms"
}

# Sends the signal $1 to the shell once the hook that the options are for has made the file `started`; sets status.
signalled() {
  "${nacre[@]}" "${@:2}" >out 2>&1 &
  local shell=$!
  wait_until test -e started
  kill -s "$1" "$shell"
  wait "$shell" || status=$?
}

@test "an interrupt ends the job while its prolog runs" {
  prepare 1 echo ran
  # exec, as a sh between them might report that its child was killed
  signalled INT -o 'prolog=echo >started; exec sleep 1000'
  [ "$status" -eq 130 ]
  run cat out
  fails_with 0 "nacre-shell[0]: fatal: interrupted"
}

@test "SIGTERM ends a prolog, and so the job" {
  prepare 1 echo ran
  # exec, as a sh between them might report that its child was killed
  signalled TERM -o 'prolog=echo >started; exec sleep 1000'
  [ "$status" -eq 143 ]
  run cat out
  fails_with 0 "nacre-shell[0]: fatal: ended by SIGTERM"
}

@test "an interrupt ends an epilog" {
  prepare 1 true
  # exec, as Debian's sh loses an interrupt that comes while it starts a program
  signalled INT -o 'epilog=echo >started; exec sleep 1000'
  [ "$status" -eq 130 ]
  [[ $(<out) == *"epilog 'echo >started; exec sleep 1000': killed by SIGINT" ]]
}

@test "an epilog that takes no notice of an interrupt is killed after the kill-timeout" {
  prepare 1 true
  signalled INT -o kill-timeout=0.2s -o 'epilog=trap "" INT; echo >started; sleep 1000'
  [ "$status" -eq 130 ]
  [[ $(<out) == *": did not end within 200ms of SIGINT" ]]
}

@test "an epilog that fails makes a good job fail, and leaves the code of a bad one" {
  prepare 1 true
  run nacre -o 'task-epilog=exit 4' -o 'epilog=exit 5'
  [ "$status" -eq 1 ]
  [ "$output" = "nacre-shell[0]: error: hooks: task 0: task-epilog 'exit 4': exited with code 4
nacre-shell[0]: error: hooks: epilog 'exit 5': exited with code 5
nacre-shell[0]: error: 2 epilogs failed" ]
  prepare 1 sh -c 'exit 7'
  run nacre -o 'epilog=exit 1'
  [ "$status" -eq 7 ]
}

@test "the epilog runs after a job that was ended before its time, too" {
  prepare 2 sh -c '[ $FLUX_TASK_RANK = 0 ] || exec sleep 1000; exit 6'
  run nacre -o exit-on-error -o 'epilog=echo status $NACRE_EXIT_STATUS'
  [ "$status" -eq 6 ]
  [[ $output == *"status 143"* ]]
}

@test "--explain runs none of them" {
  prepare 1 true
  run nacre --explain -o 'prolog=echo ran >log' -o 'task-prolog=echo ran >log' -o 'epilog=echo ran >log'
  [ "$status" -eq 0 ]
  [ ! -e log ]
}
