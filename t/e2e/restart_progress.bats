#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# restart=...,no-progress=N: a job ends if its restarts bring no progress.
load control.bash

now=on-failure,backoff=0
# Runs a job by nacre run: its code is in code, its output and messages in out and err.
run_() {
  rm -f out err tries.* report
  code=0
  "$front" run --shell="$NACRE_SHELL" -l --report=report --exit-class=no-progress:93 "$@" >out 2>err || code=$?
}
# stands WORD...: the job has ended for lack of progress, after $1 messages that tasks start again; one line has all
# WORDs.
stands() {
  local restarts=$1 line word
  shift
  [ "$code" -eq 93 ] || { echo "code $code"; cat out err; return 1; }
  [ "$(grep -c ': error: no-progress: ' err)" -eq 1 ] || { cat err; return 1; }
  line=$(grep ': error: no-progress: ' err)
  for word; do
    [[ $line == *"$word"* ]] || { echo "no '$word' in: $line"; return 1; }
  done
  [ "$(grep -c 'warn: restart: .* start' err)" -eq "$restarts" ] || { cat err; return 1; }
  [[ $line == *": no-progress: $(jq -r .cause.message report)" ]] || { jq . report; return 1; }
  [ "$(jq -r .exit.by report)" = "exit-class no-progress" ] || { jq .exit report; return 1; }
  grep -q '^nacre:   not started again: ' err || { cat err; return 1; }
}
# Once all ranks in $all have begun this try, the rank $who fails with 3; the others sleep.
together='echo $NACRE_TASK_TRY >>tries.$FLUX_TASK_RANK
  [ "$FLUX_TASK_RANK" = "$who" ] || exec sleep 100
  until [ "$(cat tries.* | grep -cx "$NACRE_TASK_TRY")" -ge "${all:-2}" ]; do sleep 0.02; done
  exit 3'
export who all

@test "one shell: the largest number in the output has to grow, by default behind 'step'" {
  run_ -n 1 --restart=$now,no-progress=2 sh -c 'echo "Step: $((39 + (NACRE_TASK_TRY > 1)))/100, loss 99"; exit 3'
  stands 3 "restart: 2 restarts have brought no progress since 20" ": the largest number behind 'step' in the output is still 40"
  [ "$(grep -c Step out)" -eq 4 ]
  [ "$(jq -c '[.cause.rank, .cause.record]' report)" = '[0,"x3"]' ]
  # Without the class the code is that of the task.
  code=0
  "$front" run --shell="$NACRE_SHELL" --restart=$now,no-progress=1:output:epoch,max=9 sh -c 'echo step $NACRE_TASK_TRY >&2; exit 3' 2>err >out || code=$?
  [ "$code" -eq 3 ]
  grep -q "no-progress: restart: 1 restart has brought no progress since .*: no line of the output has a number behind 'epoch'" err || { cat err; return 1; }
}

@test "a job that makes progress is not ended, on standard error either; limits are as without it" {
  run_ -n 2 --restart=$now,no-progress=1 sh -c 'echo step $NACRE_TASK_TRY >&2; [ $NACRE_TASK_TRY = 5 ] || exit 3'
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(cat out err | grep -c ': step 5$')" -eq 2 ] || { cat out err; return 1; }
  run_ -n 1 --restart=$now,no-progress=1,max=2 sh -c 'echo step $NACRE_TASK_TRY; exit 3'
  [ "$code" -eq 3 ]
  grep -q "is not started again: the job has used 2 of 2 restarts" err || { cat err; return 1; }
}

@test "what the tasks write to files of their own counts, too" {
  run_ -n 1 --output='own.{{task.rank}}' -o output.stdout.label=0 --restart=$now,no-progress=1 sh -c 'printf "step 40\nhalf"; exit 3'
  stands 1 ": the largest number behind 'step' in the output is still 40"
  [ "$(<own.0)" = $'step 40\nhalf\nstep 40\nhalf' ] || { cat own.0; return 1; }
}

@test "a file, or what a link leads to: it counts when that changes" {
  run_ --local=2 -n 2 --restart=$now,no-progress=2:latest sh -c '[ $FLUX_TASK_RANK = 1 ] || exec sleep 100
    echo >>try; n=$(wc -l <try); [ $n -gt 3 ] || { : >ckpt.$n; ln -sfn ckpt.$n latest; }; exit 3'
  stands 4 "2 restarts have brought" ": latest is as it was (a link to $PWD/ckpt.3, 0 bytes of 20" "all 3 failures were on $(uname -n) (shell 1), so that host or what it runs is suspect: where=spare shows which"
  rm try
  run_ -n 1 --restart=$now,no-progress=1:nothing sh -c 'exit 3'
  stands 1 ": nothing is as it was (not there)"
}

@test "what a command prints; where it fails the restart does not count" {
  run_ -n 1 --restart="$now,no-progress=2:!echo of \$FLUX_JOB_ID >&2; grep -c . counted" sh -c '[ $NACRE_TASK_TRY -gt 2 ] || echo x >>counted; exit 3'
  stands 3 ": 'echo of \$FLUX_JOB_ID >&2; grep -c . counted' prints the same (2)"
  rm counted
  run_ -n 1 --restart="$now,no-progress=1:!cat counted,max=3" sh -c 'exit 3'
  [ "$code" -eq 3 ]
  [ "$(grep -c "restart: no-progress: 'cat counted': exited with code 1: cat: counted: .*: this restart does not count" err)" -eq 4 ] || { cat err; return 1; }
}

@test "scope=job: the numbers of all shells count, and the host that fails each time is named" {
  who=1 run_ --local=2 -n 2 --restart=$now,scope=job,no-progress=2,max=100 sh -c 'echo step $((40 - FLUX_TASK_RANK + (NACRE_TASK_TRY == 2))); '"$together"
  stands 3 "2 restarts have brought" "is still 41; all 3 failures were on $(uname -n) (shell 1), so that host is suspect"
  [ "$(cat tries.* | sort | uniq -c | awk '{ print $1 ":" $2 }' | paste -sd,)" = "2:1,2:2,2:3,2:4" ] || { cat tries.*; return 1; }
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["c/s15","0"],["x3","1"]]' ] || { jq . report; return 1; }
  # A task of the leader's shell fails, one of another shell prints.
  who=0 run_ --local=2 -n 2 --restart=$now,scope=job,no-progress=1 sh -c '[ $FLUX_TASK_RANK = 0 ] || echo step $((NACRE_TASK_TRY < 3 ? NACRE_TASK_TRY : 1)); '"$together"
  stands 2 "is still 2; all 2 failures were on $(uname -n) (shell 0), so that host is suspect"
}

@test "scope=job: where hosts change and the end does not, the program is suspect" {
  all=3 run_ --local=3 -n 3 --restart=$now,scope=job,no-progress=2:ckpt sh -c 'who=$((NACRE_TASK_TRY % 3)); '"$together"
  stands 2 "on $(uname -n) (shell 0-2) it exited with code 3 each time, so the program is suspect, and no host"
}

@test "scope=node: all tasks of the shell are looked at" {
  who=3 all=2 run_ --local=2 -N 2 -n 4 --oversubscribe --restart=$now,scope=node,no-progress=2 sh -c 'case $FLUX_TASK_RANK in 0 | 1) echo step $NACRE_TASK_TRY; exec sleep 100 ;; esac
    echo step $((50 - FLUX_TASK_RANK)); '"$together"
  stands 2 "is still 48; all 3 failures were on $(uname -n) (shell 1)"
}

@test "a restart that somebody has asked for does not count" {
  for scope in task job; do
    rm -f out err tries.*
    start_by_run --local=2 -n 2 --restart=$now,scope=$scope,no-progress=1 sh -c 'echo $NACRE_TASK_TRY >>tries.$FLUX_TASK_RANK; echo step 4; until [ -e fail.$FLUX_TASK_RANK.$NACRE_TASK_TRY ]; do sleep 0.05; done; exit 3'
    for try in 1 2 3; do
      wait_until grep -qsx $try tries.1
      wait_until "$front" restart --ranks=1 "$id"
    done
    wait_until grep -qsx 4 tries.1
    touch fail.1.4
    wait_until grep -qsx 5 tries.1
    wait_until "$front" restart --ranks=1 "$id"
    wait_until grep -qsx 6 tries.1
    touch fail.1.6
    code=0
    wait "$launcher" || code=$?
    [ "$code" -eq 3 ] || { cat err; return 1; }
    grep -q "no-progress: restart: 1 restart has brought no progress since .* is still 4; all 2 failures" err || { cat err; return 1; }
    [ "$(tail -n 1 tries.1)" = 6 ] || { cat tries.1; return 1; }
    rm -f fail.*
  done
}

@test "tasks that succeed and start again all the same: the job has failed" {
  run_ -n 1 --restart=always,backoff=0,no-progress=1:ckpt sh -c '[ $NACRE_TASK_TRY -gt 2 ] || echo $NACRE_TASK_TRY >>ckpt'
  [ "$code" -eq 93 ] || { cat err; return 1; }
  grep -q "no-progress: restart: 1 restart has brought no progress since .*: ckpt is as it was (4 bytes of " err || { cat err; return 1; }
  code=0
  "$front" run --shell="$NACRE_SHELL" --restart=always,backoff=0,no-progress=1:ckpt true 2>err || code=$?
  [ "$code" -eq 1 ] || { cat err; return 1; }
}

# bats test_tags=long
@test "where=spare: a task that fails wherever it is" {
  run_ --oversubscribe -N 2+2 -n 2 --local=4 --restart=$now,where=spare,no-progress=2 sh -c 'echo step 4; [ $FLUX_TASK_RANK = 1 ] || exec sleep 100; exit 3'
  [ "$code" -eq 93 ] || { cat err; return 1; }
  grep -q "is still 4; on $(uname -n) (shell 1-3) it exited with code 3 each time, so the program is suspect, and no host" err || { cat err; return 1; }
}

# bats test_tags=long
@test "a shell that has joined knows what was seen before" {
  rm -f out err fail.* shell.*
  "$front" run --shell="$NACRE_SHELL" --oversubscribe -n 2 --local=2 --exit-class=no-progress:93 --restart=$now,where=spare,no-progress=2 \
    sh -c 'echo step 4; : >shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY; until [ -e fail.$FLUX_TASK_RANK.$NACRE_TASK_TRY ]; do sleep 0.05; done; exit 3' >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  wait_until test -e shell.1.1
  touch fail.1.1
  wait_until test -e shell.1.2
  "$front" grow --quiet --count=1 "$id"
  touch fail.1.2
  wait_until test -e shell.1.3
  [ "$("$front" ps --json | jq -s 'map(select(.rank == 1))[0].shell')" -eq 2 ]
  touch fail.1.3
  code=0
  wait "$launcher" || code=$?
  [ "$code" -eq 93 ] || { cat err; return 1; }
  grep -q "2 restarts have brought no progress since .* is still 4; on $(uname -n) (shell 1-2) it exited with code 3 each time, so the program is suspect" err || { cat err; return 1; }
}

# bats test_tags=long
@test "a lost shell with which all start again counts as one restart" {
  rm -f out err tries.* shell.*
  "$front" run --shell="$NACRE_SHELL" -N 2+1 -n 2 --local=3 --on-lost=replace --exit-class=no-progress:93 --restart=$now,scope=job,no-progress=1:ckpt \
    sh -c 'echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; until [ -e fail.$NACRE_TASK_TRY.$FLUX_TASK_RANK ]; do sleep 0.05; done; exit 3' >out 2>err &
  launcher=$!
  wait_until test -e shell.1.1
  touch fail.1.0
  wait_until test -e shell.0.2
  wait_until test -e shell.1.2
  kill -KILL "$(<shell.1.2)"
  code=0
  wait "$launcher" || code=$?
  [ "$code" -eq 93 ] || { cat err; return 1; }
  grep -q "no-progress: restart: 1 restart has brought no progress since .*: ckpt is as it was (not there); the failures were on $(uname -n) (shell 0-1)" err || { cat err; return 1; }
  [ ! -e shell.0.3 ]
}

# bats test_tags=long
@test "a shell that is lost while all wait to start again does not make it count twice" {
  rm -f out err fail.* shell.* go
  "$front" run --shell="$NACRE_SHELL" -N 2+1 -n 2 --local=3 --on-lost=replace --restart=on-failure,backoff=8s,scope=job,no-progress=1:ckpt \
    sh -c 'echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; until [ -e go ]; do [ ! -e fail.$NACRE_TASK_TRY.$FLUX_TASK_RANK ] || exit 3; sleep 0.05; done' >out 2>err &
  launcher=$!
  wait_until test -e shell.1.1
  touch fail.1.0
  wait_until grep -q "all tasks of the job start again in 8s" err
  kill -KILL "$(<shell.1.1)"
  wait_until test -e shell.1.3
  touch go
  code=0
  wait "$launcher" || code=$?
  [ "$code" -eq 0 ] || { cat err; return 1; }
}

@test "what it cannot be is refused in words" {
  run_ --restart=on-failure,no-progress=x true
  [ "$code" -eq 2 ]
  grep -q -- "--restart: no-progress: expected a number of restarts, 1 to 1000000, and perhaps what is to change meanwhile, as 3:checkpoints/latest, 3:output:step or 3:!COMMAND, got 'x'" err || { cat err; return 1; }
  run_ --restart=on-failure,max=2,no-progress=2 true
  [ "$code" -eq 2 ]
  grep -q -- "no-progress: 2 restarts are not fewer than max (2), which ends the job before: give a larger max, or none" err || { cat err; return 1; }
}
