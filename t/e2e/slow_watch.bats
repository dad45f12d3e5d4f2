#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# slow-watch: which host, or which task, is slower than the others for long.
load control.bash

# A clock, which all tasks follow: a machine that is slow slows all of them alike.
ticks() {
  local tick=0
  until [ -e over ]; do
    tick=$((tick + 1))
    echo "$tick" >tick
    pause 0.1
  done
}
# Counts a step at each Nth tick, with N in the file every.RANK, until there is a file over, or one that has it
# fail. It starts no process except for its FIFO.
counts='left=0; n=0; last=
  [ -e "never.$FLUX_TASK_RANK" ] || mkfifo "never.$FLUX_TASK_RANK"; exec 9<>"never.$FLUX_TASK_RANK"
  until [ -e over ]; do
    read -rt 0.1 <&9
    read -r tick <tick && read -r every <"every.$FLUX_TASK_RANK" || continue
    [ ! -e "fail.$FLUX_TASK_RANK.$NACRE_TASK_TRY" ] || exit 3
    left=$((left + tick - ${last:-$tick})); last=$tick
    [ $left -ge $every ] || continue
    n=$((n + left / every)); left=$((left % every))
    echo "step $n"
  done; true'
# Starts a job of $1 shells with $2 tasks by nacre run, with the options behind, which runs until there is a file
# over.
start_counting() {
  local rank
  for ((rank = 0; rank < $2; ++rank)); do echo 1 >"every.$rank"; done
  echo 0 >tick
  ticks &
  "$front" run --shell="$NACRE_SHELL" --oversubscribe --local="$1" -n "$2" "${@:3}" bash -c "$counts" >out 2>err &
  launcher=$!
}
# changes RANK EVERY: from now on RANK counts each EVERY-th tick.
changes() { echo "$2" >"every.$1"; }
# The messages, without those that tasks share cores.
said() { grep -v ' tasks share .* core' err || :; }
quiet() { [ -z "$(said)" ] || { cat err; return 1; }; }
says() { grep -q -- "$1" err; }
over() {
  touch over
  code=0
  wait "$launcher" || code=$?
  [ "$code" -eq 0 ] || { cat err; return 1; }
}

@test "a host whose tasks count more slowly is named once, and when it is as fast again; report and JSON have it" {
  start_counting 4 4 --slow-watch=2s,output:step --report=report.json
  changes 2 6
  wait_until says 'is slow'
  line=$(said)
  [[ $line =~ ^"nacre: $(uname -n) (shell 2) is slow: its rank 2 does "[0-9.]+" steps/"(s|min)", the others "[0-9.]+" (3 windows of "[0-9.]+" s)"$ ]] || { echo "$line"; return 1; }
  changes 2 1
  wait_until says 'as fast as the others again'
  id=$("$front" jobs -q)
  over
  [ "$(said | sed 1d)" = "nacre: $(uname -n) (shell 2) is as fast as the others again" ] || { cat err; return 1; }
  jq -e '[.timeline[] | select(.event == "slow")] | length == 2 and (.[0] | .slow and .shell == 2 and .ranks == "2" and .of == "host" and .by == "number"
    and .word == "step" and .own * 1.5 <= .others) and (.[1].slow | not)' report.json || { jq .timeline report.json; return 1; }
  "$front" report "$id" | grep -q "^nacre: while it ran: $(uname -n) (shell 2) is slow: its rank 2 does "
  "$front" report --json "$id" | jq -e '[.. | objects | select(.event? == "slow")] | length == 2'
}

@test "one task of several on a host" {
  start_counting 2 6 --slow-watch=2s,output:step -o output.events
  changes 4 6
  events() { jq -ce 'select(.name == "slow")' out >slow; }
  wait_until events
  over
  jq -e '.context | .of == "tasks" and .ranks == "4" and .shell == 1 and (.text | startswith("rank 4 on "))' slow || { cat slow; return 1; }
  quiet
}

# bats test_tags=long
@test "a task that is kept from running is found without any help of the program, also where the others wait for it" {
  local core hog hogs=()
  core=$(taskset -cp $$ | sed 's/.*[ :]//; s/[,-].*//')
  for hog in 1 2 3; do
    taskset -c "$core" bash -c 'until [ -e over ]; do for i in {1..1000}; do :; done; done' &
    hogs+=($!)
  done
  "$front" run --shell="$NACRE_SHELL" --oversubscribe --local=3 -n 3 -o cpu-affinity=off --slow-watch=2s bash -c '
    [ $FLUX_TASK_RANK != 1 ] || exec taskset -c '"$core"' bash -c "until [ -e over ]; do for i in {1..1000}; do :; done; done"
    mkfifo "never.$FLUX_TASK_RANK"; exec 9<>"never.$FLUX_TASK_RANK"
    until [ -e over ]; do read -rt 0.2 <&9; done; true' >out 2>err &
  launcher=$!
  wait_until says 'is slow'
  over
  wait "${hogs[@]}"
  [[ $(said | head -n 1) =~ ^"nacre: $(uname -n) (shell 1) is slow: its rank 1 gets "[0-9]+" % of the cpu time that it could use, the others 100 % (3 windows of "[0-9.]+" s)"$ ]] || { cat err; return 1; }
}

@test "of tasks that all sleep, or count alike, nothing is said" {
  start_counting 3 6 --slow-watch=1s,output:step
  counted() { [ "$(grep -c . out)" -gt 300 ]; }
  wait_until counted
  over
  quiet
}

@test "a task that starts again, and counts from 1 again, begins anew" {
  start_counting 3 3 -l --restart=on-failure,backoff=0s --slow-watch=1s,output:step
  reached() { grep '^1: step ' out | tail -n 1 | grep -qE "step ($1)\$"; }
  wait_until reached '[4-9][0-9]|[0-9]{3,}'
  touch fail.1.1
  wait_until says 'restart: rank 1 .*exited with code 3'
  wait_until reached '9[0-9]|[0-9]{3,}'
  over
  ! says 'is slow' || { cat err; return 1; }
}

@test "what it cannot be is refused" {
  run run_job --slow-watch=never true
  [ "$status" -eq 2 ]
  [[ $output == *"--slow-watch: expected DURATION of at least 1 s, and perhaps output:WORD and factor=F (1.1 to 100) behind it, as 30s,output:step, got \"never\""* ]] || { echo "$output"; return 1; }
  run run_job --slow-watch=30s,output --output='o.{{task.rank}}' true
  [ "$status" -eq 0 ] || { echo "$output"; return 1; } # the shell looks at the lines on their way to the files
  run_job --slow-watch true
  prepare 1 true
  run nacre -o slow-watch
  [ "$status" -eq 2 ]
  [[ $output == *"-o slow-watch: expected a time"* ]] || { echo "$output"; return 1; }
}
