#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# restart: tasks that have ended are started again where they were, within limits of the whole job.
load control.bash

# Runs a job by nacre run: its code is in code, its output and messages in out and err.
run_() {
  rm -f out err tries.*
  code=0
  "$front" run --shell="$NACRE_SHELL" -l "$@" >out 2>err || code=$?
}
start_run() {
  rm -f out err tries.*
  start_by_run "$@"
}
# Fails with 3 in the first $upto tries of the ranks in $who, once $all tasks have begun; prints and notes its try.
fails='echo "$NACRE_TASK_TRY" >>"tries.$FLUX_TASK_RANK"; echo "try $NACRE_TASK_TRY restarts $NACRE_JOB_RESTARTS"
  case " $who " in *" $FLUX_TASK_RANK "*) [ "$NACRE_TASK_TRY" -gt "${upto:-1}" ] || { until [ "$(cat tries.* | wc -l)" -ge "${all:-1}" ]; do sleep 0.02; done; exit "${with:-3}"; } ;; esac'
export who upto with all
now=on-failure,backoff=0
restarts() { grep -c "warn: restart: rank .* starts\|warn: restart: rank .* start again" err || :; }
classes() { jq -c '[.classes[] | [.record, .ranks]]' report; }

@test "a leaf, an inner shell and the leader: a rank that fails starts again where it was, and the job ends well" {
  for rank in 0 1 2 6; do
    who=$rank run_ --local=7 --arity=2 -n 7 --report=report --restart=$now sh -c "$fails; sleep 0.2; echo \$PPID >shell.\$FLUX_TASK_RANK.\$NACRE_TASK_TRY" || return 1
    [ "$code" -eq 0 ] || { cat err; return 1; }
    grep -qx "$rank: try 2 restarts 1" out || { cat out err; return 1; }
    [ "$(grep -c 'try 1 restarts 0' out)" -eq 7 ]
    [ "$(restarts)" -eq 1 ]
    grep -qF "restart: rank $rank on $(uname -n) exited with code 3: try 2 of it starts now (restart 1 of 3)" err
    [ "$(classes)" = '[["x0","0-6"]]' ] || { jq . report; return 1; }
    [ "$(jq -c '[.timeline[] | select(.event == "restart") | [.ranks, .record, .try, .restart, .max]]' report)" = "[[\"$rank\",\"x3\",2,1,3]]" ] || { jq . report; return 1; }
  done
}

# bats test_tags=long
@test "alone, and several tasks of one shell at once; the limit is the job's, and the end that is over it counts" {
  who="0 1 2" upto=2 run_ -n 3 --restart=$now,max=6 sh -c "$fails"
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(cat tries.* | sort | uniq -c | awk '{ print $1 ":" $2 }' | paste -sd,)" = "3:1,3:2,3:3" ]
  who="0 1 2" upto=2 run_ -n 3 --report=report --restart=$now,max=5 sh -c "$fails"
  [ "$code" -eq 3 ]
  [ "$(cat tries.* | wc -l)" -eq 8 ]
  grep -q "is not started again: the job has used 5 of 5 restarts" err || { cat err; return 1; }
  [ "$(jq -r '[.classes[].ranks] | join(" ")' report | wc -w)" -eq 2 ]
  who=1 upto=5 run_ -n 2 --restart=$now,per-task=1 sh -c "$fails"
  [ "$code" -eq 3 ]
  grep -q "rank 1 exited with code 3, and is not started again: the task has used 1 of 1 restarts" err
  who="0 1 2 3 4" upto=1 run_ -n 5 --restart=$now,per-task=1 sh -c "$fails"
  [ "$code" -eq 0 ] || { cat err; return 1; }
}

# bats test_tags=long
@test "two ranks of two hosts that fail at one instant share one restart" {
  local round
  for round in 1 2 3 4 5 6 7 8; do
    who="1 2" run_ --local=3 -n 3 -o exit-on-error=off --restart=$now,max=1 sh -c 'until [ "$(date +%s%N)" -ge '$(($(date +%s%N) + 700000000))' ]; do :; done; '"$fails"
    [ "$code" -eq 3 ]
    [ "$(cat tries.* | wc -l)" -eq 4 ] || { cat out err; return 1; }
    [ "$(restarts)" -eq 1 ]
    [ "$(grep -c "is not started again: the job has used 1 of 1 restarts" err)" -eq 1 ]
  done
}

@test "policies do not see an end that is none: fail-fast, exit-timeout, notices" {
  who=1 run_ --local=2 -n 4 --fail-fast -o exit-timeout=0.2s --notify=notices --report=report --restart=$now sh -c "$fails; sleep 0.6"
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(jq -s 'map(.x // {} | keys[]) | length' notices)" -eq 0 ] || { cat notices; return 1; }
  who=1 upto=9 run_ --local=2 -n 4 --fail-fast --report=report --restart=$now,max=2 sh -c "$fails; sleep 20"
  [ "$code" -eq 3 ]
  [ "$(classes)" = '[["c/s15","0,2-3"],["x3","1"]]' ] || { jq . report; return 1; }
  [ "$(jq -c '[.cause.rank, .cause.try]' report)" = "[1,3]" ]
}

# bats test_tags=long
@test "which ends: signals, codes, always, exit-ok" {
  who=0 run_ -n 1 --restart=$now sh -c 'echo $NACRE_TASK_TRY >>tries.0; [ $NACRE_TASK_TRY -gt 1 ] || kill -SEGV $$'
  [ "$code" -eq 0 ]
  grep -q "rank 0 killed by SIGSEGV.*: try 2 of it starts now" err
  who=0 run_ -n 1 --restart=$now,codes=4,139 sh -c "$fails"
  [ "$code" -eq 3 ]
  [ "$(<tries.0)" = 1 ]
  who=0 with=4 run_ -n 1 --restart=$now,codes=4,139 sh -c "$fails"
  [ "$code" -eq 0 ]
  run_ -n 1 --restart=always,backoff=0,max=4 sh -c "$fails"
  [ "$code" -eq 0 ]
  [ "$(wc -l <tries.0)" -eq 5 ]
  who=0 with=77 run_ -n 1 --exit-ok=77 --restart=$now sh -c "$fails"
  [ "$code" -eq 0 ]
  [ "$(<tries.0)" = 1 ]
}

@test "a command that cannot be started never starts again" {
  run_ --local=2 --restart=$now /no/such/command
  [ "$code" -eq 127 ]
  [ "$(restarts)" -eq 0 ]
}

# bats test_tags=long
@test "the wait doubles, and a job that is cancelled meanwhile ends at once with the last end of the task" {
  who=0 upto=2 run_ -n 1 --restart=on-failure,backoff=200ms:10s sh -c "$fails; date +%s%N >>when"
  [ "$code" -eq 0 ]
  grep -q "starts in 200ms (restart 1 of 3)" err
  grep -q "starts in 400ms (restart 2 of 3)" err
  for end in cancel "kill -s TERM" "kill --ranks=1"; do
    who=1 upto=9 start_run --local=2 -n 2 --report=report --restart=on-failure,backoff=1h:2h sh -c "$fails; until [ -e go ]; do sleep 0.2; done"
    wait_until grep -q "starts in 1h" err
    [ "$("$front" ps --json | jq -c 'select(.rank != null) | [.rank, .try]' | paste -sd,)" = "[0,1]" ]
    # shellcheck disable=SC2086 # words
    "$front" $end "$id"
    [ "$end" != "kill --ranks=1" ] || touch go
    fails
    [ "$(jq -c '.classes[] | select(.ranks == "1").record' report)" = '"x3"' ] || { jq . report; cat err; return 1; }
    nothing_left "^nacre-shell: $id"
    rm -f go
  done
}

# bats test_tags=long
@test "a task that a user has ended does not start again; one that its own signal has, does" {
  for how in "kill -s KILL --ranks=1" "kill -s TERM --ranks=1" "kill -s USR1 --ranks=1"; do
    start_run --local=2 -n 2 -o exit-on-error=off --restart=$now sh -c 'echo $NACRE_TASK_TRY >>tries.$FLUX_TASK_RANK; trap "exit 9" TERM; until [ -e go ]; do sleep 0.1; done'
    wait_until test -s tries.1
    sleep 0.2
    # shellcheck disable=SC2086 # words
    "$front" $how "$id"
    sleep 0.2
    touch go
    wait "$launcher" || :
    [ "$(wc -l <tries.1)" -eq 1 ] || { echo "$how"; cat err; return 1; }
    rm go
  done
  start_run --local=2 -n 2 --restart=$now sh -c 'echo $$ >"pid.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; until [ -e go ]; do sleep 0.1; done'
  wait_until test -s pid.1.1
  kill -KILL "$(<pid.1.1)"
  wait_until test -s pid.1.2
  "$front" ps --json | jq -e 'select(.rank == 1 and .try == 2)'
  [ "$("$front" jobs --json | jq .restarts)" = 1 ]
  touch go
  ends_with 0
}

# bats test_tags=long
@test "output goes on where it went, stdin is not replayed, and what a try has left behind is killed" {
  for place in "" --output=common --output='own.{{task.rank}}'; do
    who=1 run_ --local=2 -n 2 ${place:+"$place"} --restart=$now sh -c "$fails; printf half"
    [ "$code" -eq 0 ]
    cat out common own.1 2>/dev/null >all || :
    [ "$(grep -c "try 1" all)" -ge 1 ] && [ "$(grep -c "try 2 restarts 1" all)" -eq 1 ] || { cat all; return 1; }
    rm -f common own.*
  done
  printf 'a\nb\nc\n' | who=0 run_ -n 1 --restart=$now sh -c 'read -r line; echo "got $line"; '"$fails"
  [ "$(grep -c 'got a' out)" -eq 1 ] || { cat out; return 1; }
  [ "$code" -eq 0 ]
  who=0 run_ -n 1 --restart=$now sh -c "[ \$NACRE_TASK_TRY -gt 1 ] || sleep 4321 & $fails; sleep 0.1"
  [ "$code" -eq 0 ]
  run pgrep -f "^sleep 4321"
  [ -z "$output" ]
}

@test "a start begins a line of its own in the task's file, whoever writes there" {
  for direct in on off; do
    rm -f own.*
    "$front" run --shell="$NACRE_SHELL" -n 2 --output='own.{{task.rank}}' -o output.direct=$direct --restart=$now,max=9 sh -c 'printf "try $NACRE_TASK_TRY"; [ $NACRE_TASK_TRY = 3 ]' 2>err
    for rank in 0 1; do
      [ "$(<own.$rank)" = $'try 1\ntry 2\ntry 3' ] || { echo "$direct: $(<own.$rank)"; return 1; }
    done
  done
}

# bats test_tags=long
@test "hooks and torch do for a start what they do for the first" {
  who=1 run_ --local=2 -n 2 --torch -o 'task-prolog=echo prolog $FLUX_TASK_RANK >>hooks; echo export SEEN=$FLUX_TASK_RANK' -o 'task-epilog=sleep 0.2; echo epilog $FLUX_TASK_RANK >>hooks' \
    --restart=$now sh -c 'echo "$SEEN $RANK $LOCAL_RANK $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS" >>env.$FLUX_TASK_RANK; '"$fails"
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(<env.1)" = $'1 1 0 0 3\n1 1 0 1 3' ] || { cat env.1; return 1; }
  [ "$(grep 1 hooks)" = $'prolog 1\nepilog 1\nprolog 1\nepilog 1' ] || { cat hooks; return 1; }
}

# bats test_tags=long
@test "a shell that is lost with a restart pending: its rank goes to a spare, or counts as lost" {
  for spares in 1 0; do
    who=1 upto=1 start_run -N 2+$spares --local=$((2 + spares)) --on-lost=replace --report=report --restart=on-failure,backoff=2s sh -c "echo \$PPID >shell.\$FLUX_TASK_RANK.\$NACRE_TASK_TRY; $fails; until [ -e go ]; do sleep 0.2; done"
    wait_until grep -q "starts in 2s" err
    kill -KILL "$(<shell.1.1)"
    if [ "$spares" = 1 ]; then
      wait_until test -e shell.1.3
      touch go
      ends_with 0
      [ "$(classes)" = '[["x0","0-1"]]' ] || { jq . report; return 1; }
    else
      fails
      [ "$(jq -c '.classes[] | select(.ranks == "1").record' report)" = '"l"' ] || { jq . report; return 1; }
    fi
    rm -f go shell.*
  done
}

# bats test_tags=long
@test "a rank that a spare has taken over starts again there; in the end of the others, and when the leader waits" {
  start_run -N 2+1 --local=3 --on-lost=replace --restart=$now sh -c 'echo $PPID >"shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; [ $FLUX_TASK_RANK = 1 ] || exit 0; until [ -e go.$NACRE_TASK_TRY ]; do sleep 0.1; done; [ $NACRE_TASK_TRY = 3 ] || exit 4'
  wait_until test -s shell.1.1
  kill -KILL "$(<shell.1.1)"
  wait_until test -s shell.1.2
  touch go.2
  wait_until test -s shell.1.3
  [ "$(<shell.1.2)" = "$(<shell.1.3)" ]
  touch go.3
  ends_with 0
}

# bats test_tags=long
@test "scope=job: all tasks start again together on their shells, with one restart" {
  for rank in 0 2 6; do
    who=$rank all=7 run_ --local=7 --arity=2 -n 7 --report=report --restart=$now,scope=job,max=1 sh -c "echo \$PPID >>shell.\$FLUX_TASK_RANK; $fails; [ \$NACRE_TASK_TRY -gt 1 ] || sleep 100"
    [ "$code" -eq 0 ] || { cat err out; return 1; }
    for each in 0 1 2 3 4 5 6; do [ "$(<tries.$each)" = $'1\n2' ] && [ "$(sort -u shell.$each | wc -l)" -eq 1 ] || { cat out; return 1; }; done
    grep -q "restart: rank $rank on .* exited with code 3: all tasks of the job start again now (restart 1 of 1)" err
    [ "$(grep -c "try 2 restarts 1" out)" -eq 7 ]
    [ "$(classes)" = '[["x0","0-6"]]' ] || { jq . report; return 1; }
    rm shell.*
  done
}

@test "scope=job: after several restarts each line still has its task's label, and is in its task's file" {
  local script='echo "I am $FLUX_TASK_RANK" in try $NACRE_TASK_TRY; : >"begun.$NACRE_TASK_TRY.$FLUX_TASK_RANK"; [ $NACRE_TASK_TRY -le 4 ] || exit 0
    until [ "$(ls begun.$NACRE_TASK_TRY.* | wc -l)" -eq 8 ]; do sleep 0.05; done; [ $FLUX_TASK_RANK != 5 ] || exit 3; exec sleep 60'
  run_ --local=2 -n 8 --restart=$now,scope=job,max=4 sh -c "$script"
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(wc -l <out)" -eq 40 ] || { cat out; return 1; }
  [ "$(awk '$1 != $4 ":"' out)" = "" ] || { cat out; return 1; }
  rm begun.*
  run_ --local=2 -n 8 --restart=$now,scope=job,max=4 --output='out.{{task.rank}}' sh -c "$script"
  [ "$code" -eq 0 ] || { cat err; return 1; }
  for rank in 0 1 2 3 4 5 6 7; do
    [ "$(grep -c "I am $rank " "out.$rank")" -eq 5 ] && [ "$(wc -l <"out.$rank")" -eq 5 ] || { cat "out.$rank"; return 1; }
  done
}

# bats test_tags=long
@test "scope=job: a shell to which the taskmap has given no task takes part" {
  who=0 all=3 run_ --local=3 -n 3 -o 'taskmap=manual:[[0,1,2,1],[2,1,1,1]]' --restart=$now,scope=job \
    sh -c "$fails; [ \"\$NACRE_TASK_TRY\" -gt 1 ] || exec sleep 100"
  [ "$code" -eq 0 ] || { cat out err; return 1; }
  [ "$(grep -c 'try 2 restarts 1' out)" -eq 3 ] || { cat out err; return 1; }
}

# bats test_tags=long
@test "per-task: where tasks start again together it is the limit of the one that fails, also by scope=node" {
  who=1 upto=9 all=2 run_ -n 2 --restart=$now,scope=job,per-task=2 sh -c "$fails; sleep 100"
  [ "$code" -eq 3 ]
  [ "$(wc -l <tries.1)" -eq 3 ] || { cat err; return 1; }
  grep -q "rank 1 exited with code 3, and is not started again: the task has used 2 of 2 restarts" err || { cat err; return 1; }
  who=0 upto=9 all=2 run_ --local=2 -n 4 --restart=$now,scope=node,per-task=1 sh -c "$fails; sleep 100"
  [ "$code" -eq 3 ]
  [ "$(wc -l <tries.0)" -eq 2 ] || { cat err; return 1; }
}

@test "scope=job: limits, tasks that ignore SIGTERM, and one that has ended for good" {
  who="0 1" upto=9 all=4 run_ --local=2 -n 4 --fail-fast --restart=$now,scope=job,max=2 sh -c "$fails; sleep 100"
  [ "$code" -eq 3 ]
  [ "$(cat tries.0 tries.1 | sort | uniq -c | awk '{ print $1 ":" $2 }' | paste -sd,)" = "2:1,2:2,2:3" ] || { cat out err; return 1; }
  [ -s tries.2 ]
  [ -s tries.3 ]
  who=1 run_ --local=2 -n 2 -o kill-timeout=0.3s --restart=$now,scope=job sh -c "trap '' TERM; $fails; [ \$NACRE_TASK_TRY -gt 1 ] || while :; do sleep 0.1; done"
  [ "$code" -eq 0 ] || { cat err; return 1; }
  who=1 run_ --local=2 -n 2 --restart=$now,scope=job sh -c "[ \$FLUX_TASK_RANK = 1 ] && sleep 0.5; $fails"
  [ "$code" -eq 3 ]
  grep -q "is not started again: all tasks would have to start again, and task 0 has ended for good" err || { cat err; return 1; }
}

# bats test_tags=long
@test "scope=job: a job that is cancelled, or interrupted, while it starts again ends at once" {
  for end in cancel "kill -s INT"; do
    who=1 upto=9 start_run --local=2 -n 2 --report=report --restart=on-failure,backoff=1h:2h,scope=job sh -c "$fails; sleep 100"
    wait_until grep -q "start again in 1h" err
    wait_until sh -c "! '$front' ps -q | grep -q ."
    # shellcheck disable=SC2086 # words
    "$front" $end "$id"
    fails
    [ "$(jq -r '[.classes[].ranks] | join(",")' report | tr , '\n' | sort | paste -sd,)" = "0,1" ] || { jq . report; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

# The tries of these ranks, as 0:1,0:2,1:1.
tried() {
  for rank; do sed "s/^/$rank:/" "tries.$rank"; done | paste -sd,
}

# bats test_tags=long
@test "scope=node: all tasks of the shell start again together, with one restart, and those of others go on" {
  for rank in 0 3 5; do
    who=$rank all=6 run_ --local=3 -N 3 -n 6 --oversubscribe --report=report --restart=$now,scope=node,max=1 sh -c "echo \$PPID >>shell.\$FLUX_TASK_RANK; $fails
      case \$FLUX_TASK_RANK in $((rank / 2 * 2)) | $((rank / 2 * 2 + 1))) [ \$NACRE_TASK_TRY -gt 1 ] || sleep 100; : >again.\$FLUX_TASK_RANK ;; esac
      until [ -e again.$((rank / 2 * 2)) ] && [ -e again.$((rank / 2 * 2 + 1)) ]; do sleep 0.02; done"
    [ "$code" -eq 0 ] || { cat err out; return 1; }
    first=$((rank / 2 * 2))
    [ "$(tried $first $((first + 1)))" = "$first:1,$first:2,$((first + 1)):1,$((first + 1)):2" ] || { cat out err; return 1; }
    [ "$(grep -c "try 1 restarts 0" out)" -eq 6 ] && [ "$(grep -c "try 2 restarts 1" out)" -eq 2 ] || { cat out; return 1; }
    grep -qF "restart: rank $rank on $(uname -n) exited with code 3: all tasks of shell $((rank / 2)) (rank $first-$((first + 1))) start again now (restart 1 of 1)" err || { cat err; return 1; }
    [ "$(restarts)" -eq 1 ]
    [ "$(classes)" = '[["x0","0-5"]]' ] || { jq . report; return 1; }
    [ "$(jq -c '[.timeline[] | select(.event == "restart") | [.ranks, .ended, .scope, .try]]' report)" = "[[\"$first-$((first + 1))\",\"$rank\",\"node\",null]]" ] || { jq . report; return 1; }
    rm -f again.* shell.*
  done
}

# bats test_tags=long
@test "scope=node: both tasks of a node that fail at one instant, tasks that ignore SIGTERM, one that has ended for good" {
  local round
  for round in 1 2 3 4 5; do
    who="2 3" all=4 run_ --local=2 -N 2 -n 4 --oversubscribe --restart=$now,scope=node,max=1 sh -c "$fails"
    [ "$code" -eq 0 ] || { cat err; return 1; }
    [ "$(tried 0 1 2 3)" = 0:1,1:1,2:1,2:2,3:1,3:2 ] || { tried 0 1 2 3; cat err; return 1; }
  done
  who=1 all=2 run_ -n 2 --oversubscribe -o kill-timeout=0.3s --restart=$now,scope=node sh -c "trap '' TERM; $fails; [ \$NACRE_TASK_TRY -gt 1 ] || while :; do sleep 0.1; done"
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(tried 0 1)" = 0:1,0:2,1:1,1:2 ]
  who=3 run_ --local=2 -N 2 -n 4 --oversubscribe --restart=$now,scope=node sh -c "[ \$FLUX_TASK_RANK -lt 3 ] || sleep 0.5; $fails"
  [ "$code" -eq 3 ]
  grep -q "is not started again: all tasks of its shell would have to start again, and task 2 has ended for good" err || { cat err; return 1; }
}

# bats test_tags=long
@test "scope=node: where one of them cannot be executed any more, the ends of the others' new starts count" {
  printf '#!/bin/sh\nexec sleep 60\n' >b
  chmod +x b
  # shellcheck disable=SC2016 # for the task
  printf '%s\n' '0 ./b' '1 sh -c "[ $NACRE_TASK_TRY -gt 1 ] && exec sleep 60; rm -f b; exit 9"' >programs
  run_ --oversubscribe --report=report --restart=$now,scope=node --multi-prog=programs
  [ "$code" -eq 127 ] || { cat err; return 1; }
  [ "$(classes)" = '[["c/s15","1"],["f127","0"]]' ] || { jq . report; return 1; }
}

@test "scope=node: the wait doubles for each node; a signal for one of its tasks, and the end of the job, cancel it" {
  # Each try of all four has written before one of them fails.
  who="0 3" upto=2 run_ --local=2 -N 2 -n 4 --oversubscribe --restart=on-failure,backoff=100ms:10s,max=4,scope=node sh -c "all=\$((4 * NACRE_TASK_TRY)); $fails; until [ \"\$(cat tries.0 tries.3 | wc -l)\" -ge 6 ]; do sleep 0.2; done"
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(tried 0 1 2 3)" = 0:1,0:2,0:3,1:1,1:2,1:3,2:1,2:2,2:3,3:1,3:2,3:3 ] || { tried 0 1 2 3; cat err; return 1; }
  [ "$(grep -c "start again in 100ms" err)" -eq 2 ] && [ "$(grep -c "start again in 200ms" err)" -eq 2 ] || { cat err; return 1; }
  for end in cancel "kill --ranks=2" "kill --ranks=3"; do
    who=3 upto=9 all=4 start_run --local=2 -N 2 -n 4 --oversubscribe --report=report -o exit-on-error=off --restart=on-failure,backoff=1h:2h,scope=node sh -c "$fails; until [ -e go ]; do sleep 0.2; done"
    wait_until grep -q "start again in 1h" err
    wait_until sh -c "[ \"\$('$front' ps -q | wc -l)\" -eq 2 ]"
    # shellcheck disable=SC2086 # words
    "$front" $end "$id"
    [ "$end" = cancel ] || touch go
    fails
    case $end in cancel) ends='["c/s15","0-2"]' ;; *) ends='["c/s15","2"],["x0","0-1"]' ;; esac
    [ "$(classes)" = "[$ends,[\"x3\",\"3\"]]" ] || { jq . report; cat err; return 1; }
    nothing_left "^nacre-shell: $id"
    rm -f go
  done
}

# Runs a program of PMI that dies between init and finalize in its first start.
pmi_job() {
  rm -f out err tries.*
  code=0
  "$front" run --shell="$NACRE_SHELL" -l "$@" >out 2>err || code=$?
}

# bats test_tags=long
@test "a rank that has called PMI init takes all with it, and PMI begins anew; one that has not starts alone" {
  client=$BATS_TEST_DIRNAME/pmi_client
  pmi_job --local=4 --arity=2 -n 4 --restart=$now,max=1 sh -c 'echo $NACRE_TASK_TRY >>tries.$FLUX_TASK_RANK
    if [ $NACRE_TASK_TRY = 1 ] && [ $FLUX_TASK_RANK = 2 ]; then exec "$0" init barrier exit:3; fi
    exec "$0" init "cmd=put kvsname=%k key=k.%r value=v$NACRE_TASK_TRY" barrier barrier "cmd=get kvsname=%k key=k.2" has:v2 finalize' "$client"
  [ "$code" -eq 0 ] || { cat err out; return 1; }
  for rank in 0 1 2 3; do [ "$(<tries.$rank)" = $'1\n2' ]; done
  grep -q "restart: rank 2 on .* all tasks of the job start again now (restart 1 of 1)" err
  pmi_job --local=4 --arity=2 -n 4 --restart=$now,max=1 sh -c 'echo $NACRE_TASK_TRY >>tries.$FLUX_TASK_RANK
    [ $NACRE_TASK_TRY$FLUX_TASK_RANK != 12 ] || exit 3
    exec "$0" init barrier barrier finalize' "$client"
  [ "$code" -eq 0 ] || { cat err out; return 1; }
  [ "$(cat tries.* | wc -l)" -eq 5 ]
  pmi_job --local=2 -N 2 -n 4 --oversubscribe --restart=$now,max=1,scope=node sh -c 'echo $NACRE_TASK_TRY >>tries.$FLUX_TASK_RANK
    if [ $NACRE_TASK_TRY = 1 ] && [ $FLUX_TASK_RANK = 2 ]; then exec "$0" init barrier exit:3; fi
    exec "$0" init barrier barrier finalize' "$client"
  [ "$code" -eq 0 ] || { cat err out; return 1; }
  [ "$(cat tries.* | wc -l)" -eq 8 ]
  grep -q "restart: rank 2 on .* all tasks of the job start again now (restart 1 of 1)" err
  pmi_job --local=2 -N 2 -n 4 --oversubscribe --restart=$now,max=1,scope=node sh -c 'echo $NACRE_TASK_TRY >>tries.$FLUX_TASK_RANK
    [ $NACRE_TASK_TRY$FLUX_TASK_RANK != 12 ] || { until [ -s tries.3 ]; do sleep 0.1; done; exit 3; }
    [ $NACRE_TASK_TRY$FLUX_TASK_RANK != 13 ] || sleep 100
    exec "$0" init barrier barrier finalize' "$client"
  [ "$code" -eq 0 ] || { cat err out; return 1; }
  [ "$(cat tries.* | wc -l)" -eq 6 ]
}

# bats test_tags=long
@test "PMI_Abort is the failure of its task where all may start again, and ends the job if they do not" {
  pmi_job --local=3 -n 3 --restart=$now,max=1 "$BATS_TEST_DIRNAME/pmi_client" init touch:in.%r.%t barrier '1:send:cmd=abort exitcode=7\n' 1:exit:7 barrier finalize
  [ "$code" -eq 7 ] || { cat err; return 1; }
  for rank in 0 1 2; do [ -e "in.$rank.2" ]; done
  grep -q "restart: rank 1 on .* exited with code 7: all tasks of the job start again now (restart 1 of 1)" err || { cat err; return 1; }
  grep -q "rank 1 on .* exited with code 7, and is not started again: the job has used 1 of 1 restarts" err || { cat err; return 1; }
  grep -q "rank 1 on .* called PMI_Abort with code 7" err || { cat err; return 1; }
}

# bats test_tags=long
@test "as lines of JSON; and a plugin gets the topics" {
  cat >rc.lua <<'LUA'
plugin.register { name = "see", handlers = {
  { topic = "job.tasks-restart", fn = function() io.open ("restart." .. shell.info.rank, "w"):write ("x"):close () end },
  { topic = "task.exit", fn = function() if task.info.starts_again then io.open ("exit." .. task.info.rank, "w"):write ("x"):close () end end } } }
LUA
  write_nodes 2 1
  write_jobspec 2 sh -c "who=1; $fails"
  run --separate-stderr launch -R R.json -o cpu-affinity=off --local=2 --restart=$now --format=json --initrc="$PWD/rc.lua" -- --eventlog="$PWD/events"
  [ "$status" -eq 0 ]
  [ "$(jq -c 'select(.name == "restart").context | [.ranks, .record, .try, .restart, .max]' <<<"$output")" = '["1","x3",2,1,3]' ] || { echo "$output"; return 1; }
  [ -e restart.0 ]
  [ -e restart.1 ]
  [ -e exit.1 ]
  [ "$(jq -c 'select(.name == "exception").context | [.type, .severity]' events)" = '["restart",2]' ] || { cat events; return 1; }
}

@test "what restart cannot be is refused in words" {
  run_ --restart=often true
  [ "$code" -eq 2 ]
  grep -q -- '--restart: expected never, on-request, on-failure or always' err || { cat err; return 1; }
  run_ --restart=on-failure,max=0 true
  grep -q -- "--restart: max: expected a number of restarts" err
  run_ --restart=always -o restart=never true
  [ "$code" -eq 2 ]
  grep -q -- "--restart=always and -o restart=never contradict each other" err
  run_ --restart=always --pty true
  [ "$code" -eq 1 ]
  grep -q "a task with a terminal (pty) cannot be started again: leave out one of them" err || { cat err; return 1; }
}
