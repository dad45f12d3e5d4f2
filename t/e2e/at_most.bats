#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Many commands, some at a time on each host: --at-most, a list (:::, --arg-file), --joblog with --resume.
load control.bash

run_job() { env -u SLURM_JOB_ID -u FLUX_ENCLOSING_ID "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" "$@"; }
# The same, with an interrupt once its tasks run.
interrupted() { timeout --preserve-status -s INT 4 env -u SLURM_JOB_ID -u FLUX_ENCLOSING_ID "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" "$@"; }
# The words of standard input in one line, in order.
joined() { sort -n | paste -sd' '; }
# Adds "+" to the file running as a task begins, and "-" as it ends; prints the largest number of tasks that ran at
# once.
most_at_once() { awk '/\+/ { if (++now > most) most = now } /-/ { --now } END { print most }' "$1"; }

@test "a list: a task for each element, in place of {}, or behind the command; lines of a file" {
  [ "$(run_job --at-most=2 echo '<{}-{}>' ::: a 'b  c' 'd{{id}}' | sort)" = "$(printf '<a-a>\n<b  c-b  c>\n<d{{id}}-d{{id}}>')" ]
  [ "$(run_job echo x ::: 1 2 3 | joined)" = "x 1 x 2 x 3" ]
  printf 'one\n\ntwo words\nlast' >args
  for words in "-a args echo" "--arg-file=args echo {}" "echo :::: args" "-a - echo"; do
    # shellcheck disable=SC2086 # several words
    [ "$(run_job $words <args | sort | paste -sd,)" = "last,one,two words" ] || { echo "$words"; return 1; }
  done
  [ "$(run_job --output='out.{{task.argument}}' echo hi ::: a b; cat out.a out.b)" = "$(printf 'hi a\nhi b')" ]
  [ "$(run_job -n 2 -P 1 echo ::: a b | paste -sd,)" = "a,b" ]
}

@test "what is wrong with a list is one line" {
  : >empty
  printf 'a\0b' >nul
  while IFS='|' read -r words line; do
    # shellcheck disable=SC2086 # several words
    run run_job $words
    [ "$status" -eq 2 ] && [ "${lines[0]}" = "nacre run: $line" ] || { echo "$words: $status: $output"; return 1; }
  done <<'END'
-n 3 echo ::: a b|-n 3, but the list has 2 elements, a task for each: leave out -n
echo :::|what is behind ':::' is empty: expected an element of the list for each task
-a empty echo|--arg-file: empty is empty: expected an element of the list for each task
-a none echo|--arg-file: none: No such file or directory
-a nul echo|--arg-file: nul has a NUL, which no argument can have: its elements are lines (find -print, not -print0)
-a empty echo ::: a|--arg-file has the list: give none behind :::
echo ::: a ::: b|':::': a second list: only one is taken
::: a|expected a program to run: nacre run echo {} ::: a b c
echo : -n 2 echo ::: a|a list is for one command: not with --file, --multi-prog or several programs
--at-most=0 echo|--at-most: expected a number from 1 to 16777216, or cores, got '0'
--resume echo ::: a|--resume needs --joblog
END
}

@test "at most so many run at the same time on each host, all of them, and each in a slot of its own" {
  for shells in 1 2; do
    : >log
    run_job --local=$shells -n 24 --at-most=3 -o cpu-affinity=off sh -c 'echo + $0 >>log; sleep 0.02; echo - >>log; echo $NACRE_TASK_RANK.$0' '{{node.id}}.{{task.slot}}' >out
    [ "$(cut -d. -f1 out | joined)" = "$(seq -s' ' 0 23)" ]
    [ "$(most_at_once log)" -le $((3 * shells)) ]
    [ "$(cut -d. -f2,3 out | sort -u | wc -l)" -eq $((3 * shells)) ]
    rm log
  done
}

@test "what tasks are bound to, and the gpus that they see, go by the slot" {
  run_job -n 6 --at-most=1 -o cpu-affinity=per-task sh -c 'taskset -cp $$ | sed "s/.*: //"' >own
  [ "$(sort -u own | wc -l)" -eq 1 ]
  [ "$(wc -l <own)" -eq 6 ]
  run_job --pretend=1x4c4g -n 12 --at-most=4 -g 1 sh -c 'echo $0 $CUDA_VISIBLE_DEVICES' '{{task.slot}}' >gpus
  [ "$(wc -l <gpus)" -eq 12 ]
  [ "$(sort -u gpus | paste -sd,)" = "0 0,1 1,2 2,3 3" ]
  run run_job -g 1 true ::: a b
  fails_with 1 "--at-most=N"
  [ "$(run_job --dry-run -n 100 --at-most=8 -c 2 true | jq -c '[.resources[0].with[0].count, .tasks[0].count]')" = '[8,{"total":100}]' ]
}

@test "a task that fails, or cannot be started, does not end the others, but with --fail-fast; the exit code is the largest" {
  run -5 --separate-stderr run_job --at-most=2 sh -c 'echo {}; test {} != 2 || exit 5; test {} != 3 || kill -9 $$' ::: 1 2 4 5
  [ "$(joined <<<"$output")" = "1 2 4 5" ]
  run -137 run_job --at-most=2 sh -c 'test {} != 2 || exit 5; test {} != 3 || kill -9 $$' ::: 1 2 3 4 5
  printf '1 ./none\n* echo ran\n' >programs
  run -127 --separate-stderr run_job --at-most=1 --multi-prog=programs -n 4
  [ "$(wc -l <<<"$output")" -eq 3 ]
  run -5 --separate-stderr run_job --at-most=1 --fail-fast sh -c 'echo {}; test {} != 2 || exit 5; test {} = 1 || sleep 60' ::: 1 2 3 4
  [[ $(joined <<<"$output") != *4* ]]
  # The end of a task starts no exit timeout.
  run_job --at-most=1 -o exit-timeout=0.1s sh -c 'sleep 0.3' ::: 1 2
}

@test "a signal to all is for those that wait, one to a rank for that; the time limit is of all" {
  run_job --at-most=2 sh -c 'echo {}; exec sleep 60' ::: 1 2 3 4 5 >out & local job=$!
  wait_until listed
  wait_until grep -q 2 out
  wait_until eval '"$NACRE_BUILD_DIR/nacre" ps last 2>&1 | grep -q "3 tasks wait for others to end (at-most): 2-4"'
  "$NACRE_BUILD_DIR/nacre" kill --ranks=3 last
  "$NACRE_BUILD_DIR/nacre" kill --ranks=0 last
  wait_until grep -q 3 out
  "$NACRE_BUILD_DIR/nacre" kill -s INT last
  local code=0
  wait $job || code=$?
  [ "$code" -eq 143 ]
  [ "$(joined <out)" = "1 2 3" ]
  run -124 run_job --at-most=1 -t 0.5s sleep 60 ::: 1 2 3
}

@test "tasks that start again keep their slot; all together cannot" {
  run --separate-stderr run_job --at-most=2 --restart=on-failure,backoff=10ms sh -c 'test $NACRE_TASK_TRY = 2 || exit 1; echo {}' ::: 1 2 3
  [ "$status" -eq 0 ]
  [ "$(joined <<<"$output")" = "1 2 3" ]
  run run_job --at-most=1 --restart=on-failure,scope=job true ::: 1 2
  fails_with 1 "restart: with scope=job and scope=node" "at-most"
}

@test "tasks that would wait for all by PMI are refused, and do not hang" {
  # shellcheck disable=SC2016 # for the tasks
  local client='printf "cmd=init pmi_version=1 pmi_subversion=1\n" >&$PMI_FD; read -ru $PMI_FD; printf "cmd=barrier_in\n" >&$PMI_FD; read -ru $PMI_FD; printf "cmd=finalize\n" >&$PMI_FD; read -ru $PMI_FD'
  run run_job -n 4 --at-most=2 -o exit-report=off bash -c "$client"
  [ "$status" -eq 1 ]
  [[ $output == *"PMI: tasks wait for all 4 of the job, and some of these start only when others have ended: leave out --at-most, or give -o pmi=off"* ]]
  run_job -n 4 --at-most=4 bash -c "$client"
  run run_job -n 4 --at-most=2 -o pmi=pmix true
  fails_with 1 "--at-most"
}

@test "standard input is each task's own if it is a file, and else empty" {
  echo line >file
  [ "$(run_job -n 3 --at-most=1 cat <file | joined)" = "line line line" ]
  [ "$(echo no | run_job -n 3 --at-most=1 sh -c 'cat; echo end' | joined)" = "end end end" ]
  [ "$(echo no | run_job --local=2 -n 3 --at-most=1 sh -c 'cat; echo end' | joined)" = "end end end" ]
  [ "$(run_job -n 3 --at-most=1 --input=file cat | joined)" = "line line line" ]
}

@test "--joblog: a line as each task ends; --resume runs what it lacks, --resume-failed what has failed" {
  job() { run_job --at-most=2 --joblog=log "$@" sh -c 'echo {} >>ran; test {} != 3 -o -e ok || exit 4' ::: 1 2 3 4; }
  run -4 --separate-stderr job
  [ "$(tail -n +2 log | cut -f1,7 | joined)" = "$(printf '1\t0 2\t0 3\t4 4\t0')" ]
  run -4 --separate-stderr job --resume
  [ "$(wc -l <log)" -eq 5 ]
  touch ok
  job --resume-failed
  [ "$(joined <ran)" = "1 2 3 3 4" ]
  job --resume
  [ "$(tail -n 1 log | cut -f1,7)" = "$(printf '3\t0')" ]
  # The joblog of a killed job has the tasks that had ended.
  head -n 3 log >short
  run_job --joblog=short --resume --output='out.{{task.rank}}' sh -c 'echo {} >>ran; test {} != 3 -o -e ok || exit 4' ::: 1 2 3 4
  [ "$(wc -l <short)" -eq 5 ]
  [ "$(wc -l <ran)" -eq 7 ]
  # The joblog of another shell's tasks comes through the launcher.
  run_job --local=2 --at-most=1 --joblog=two true ::: a b c d
  head -n 2 two >part
  run_job --local=2 --at-most=1 --joblog=part --resume true ::: a b c d
  [ "$(tail -n +2 part | cut -f1 | joined)" = "1 2 3 4" ]
}

@test "--resume also runs tasks that were ended with their job: by a failure, the limit of time, Ctrl-C" {
  # The first task fails once the others have written.
  script='echo {} >>ran; if test {} = 1; then until test $(wc -l <ran) -ge 3; do sleep 0.1; done; exit 4; fi; test -e ok || sleep 60'
  ended_by() { # CODE COMMAND... : the first run, which has ended its tasks 2 and 3
    rm -f ok
    run -"$1" --separate-stderr "${@:2}" sh -c "$script" ::: 1 2 3
    touch ok
    run -4 --separate-stderr run_job --joblog=log --resume sh -c "$script" ::: 1 2 3
    [ "$(joined <ran)" = "1 2 2 3 3" ]
    rm log ran
  }
  ended_by 4 run_job --at-most=4 --joblog=log --fail-fast
  ended_by 124 run_job --at-most=4 --joblog=log --time-limit=2s
  ended_by 130 interrupted --at-most=4 --joblog=log
}

@test "a joblog that is cut off, of other commands, or cannot be written, is one line" {
  run_job --at-most=1 --joblog=log echo ::: a b
  head -c -3 log >short
  run run_job --joblog=short --resume echo ::: a b
  fails_with 1 "nacre run: --joblog: short: line 3 is cut off: remove it, and its task runs again"
  run run_job --joblog=log --resume cat ::: a b
  fails_with 1 "--joblog: log: Seq 1 is of the command 'echo a', and is to be 'cat a' now: it is another job's"
  run run_job --joblog=log --resume echo ::: a
  fails_with 1 "--joblog: log: it has a line of Seq 2, and the job has 1 tasks"
  echo text >log
  run run_job --joblog=log --resume echo ::: a
  fails_with 1 "--joblog: log: line 1: expected the names of a joblog's columns"
  run run_job --joblog=none/log echo ::: a
  fails_with 1 "joblog: $PWD/none/log: No such file or directory"
}

@test "the jobspec may ask for it, too" {
  write_R 2
  options='{"at-most": 1, "arguments": ["x", "y", "z"]}' write_jobspec 2 echo '{{task.argument}}'
  sed -i 's/"per_slot": 1/"total": 3/' jobspec.json
  [ "$(nacre | joined)" = "x y z" ]
  run nacre -o 'arguments=["x"]'
  fails_with 1 "arguments: it has 1 elements, and the job 3 tasks"
}
