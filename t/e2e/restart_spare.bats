#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# restart=...,where=spare: tasks that fail start again on a spare shell, or where they were if no spare can take
# them.
load replace.bash

setup_file() {
  mpicc.mpich -Wall -Wextra -O1 -o "$BATS_FILE_TMPDIR/steady" "$BATS_TEST_DIRNAME/mpi/steady.c"
}

now=on-failure,backoff=0,where=spare
# Fails with 3 once there is the file fail.RANK.TRY, and runs until there is the file go.
until_fail='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"
  echo "try $NACRE_TASK_TRY, restarts $NACRE_JOB_RESTARTS, local $FLUX_TASK_LOCAL_ID"
  until [ -e go ]; do [ ! -e "fail.$FLUX_TASK_RANK.$NACRE_TASK_TRY" ] || exit 3; sleep 0.05; done
  echo "done in try $NACRE_TASK_TRY"'

start_spare() {
  rm -f shell.* fail.* in.* go report
  on_lost=${on_lost:-end} start_run --oversubscribe --report=report "$@"
}
runs() { # RANK TRY ...
  while (($#)); do
    wait_until test -e "shell.$1.$2" || { cat err; return 1; }
    shift 2
  done
}
moved() { jq -c '[.timeline[] | select(.event == "moved") | [.ranks, .from, .to, .try]]' report; }
classes() { jq -c '[.classes[] | [.record, .ranks]]' report; }
host=$(uname -n)

@test "a rank that fails goes to a spare, to the next one, and stays where it is once there is none" {
  start_spare --arity=2 -N 3+2 -n 3 --local=5 --restart=$now,max=4 sh -c "$until_fail"
  runs 0 1 1 1 2 1
  touch fail.1.1
  runs 1 2
  [ "$(shells_of 0 1 2)" = "0:0:1 1:3:2 2:2:1" ] || { "$front" ps --json; return 1; }
  [ "$("$front" ps --json | jq -s 'map(select(.rank == 1)) | length')" -eq 1 ]
  touch fail.1.2
  runs 1 3
  [ "$(shells_of 1)" = "1:4:3" ] || { shells_of 1; return 1; }
  touch fail.1.3
  runs 1 4
  [ "$(shells_of 1)" = "1:4:4" ] || { shells_of 1; return 1; }
  # The shells that the task has left have nothing to lose.
  lose 1 1
  lose 1 2
  wait_until grep -q "shell 3 on $host is lost" err
  touch go
  ends_with 0
  grep -qF "rank 1 on $host exited with code 3: try 2 of it starts now (restart 1 of 4)" err || { cat err; return 1; }
  grep -qF "rank 1 on $host starts again on the spare shell 3 on $host" err || { cat err; return 1; }
  grep -qF "rank 1 on $host starts again on the spare shell 4 on $host" err || { cat err; return 1; }
  grep -qF "rank 1 on $host starts again where it was: there is no spare left" err || { cat err; return 1; }
  grep -qx "1: try 2, restarts 1, local 0" out || { cat out; return 1; }
  grep -qx "1: done in try 4" out || { cat out; return 1; }
  [ "$(classes)" = '[["x0","0-2"]]' ] || { jq . report; return 1; }
  [ "$(moved)" = '[["1",1,3,2],["1",3,4,3]]' ] || { moved; return 1; }
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "the leader's rank, several of a shell at once, and those that follow go to the spare that the first has gone to" {
  local place
  for place in "" --output=common.out; do
    rm -f common.out
    start_spare -N 2+2 --tasks-per-node=3 --local=4 ${place:+"$place"} --restart=$now,max=6 sh -c "$until_fail"
    runs 0 1 1 1 2 1 3 1 4 1 5 1
    touch fail.0.1
    runs 0 2
    touch fail.1.1 fail.3.1 fail.4.1
    runs 1 2 3 2 4 2
    [ "$(shells_of 2 5)" = "2:0:1 5:1:1" ] || { shells_of 2 5; return 1; }
    [ "$(shells_of 0 1 3 4)" = "0:2:2 1:2:2 3:3:2 4:3:2" ] || { shells_of 0 1 3 4; return 1; }
    touch go
    ends_with 0
    cat out common.out 2>/dev/null >all || :
    [ "$(grep -c 'done in try 2$' all)" -eq 4 ] || { cat all; return 1; }
    [ "$(grep -c 'done in try 1$' all)" -eq 2 ] || { cat all; return 1; }
    [ "$(classes)" = '[["x0","0-5"]]' ] || { jq . report; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "scope=node: all tasks of the shell go; scope=job: all start again, and those of the shell that failed on a spare" {
  start_spare -N 2+1 --tasks-per-node=2 --local=3 --restart=$now,scope=node sh -c "$until_fail"
  runs 0 1 1 1 2 1 3 1
  touch fail.3.1
  runs 2 2 3 2
  [ "$(shells_of 0 1 2 3)" = "0:0:1 1:0:1 2:2:2 3:2:2" ] || { shells_of 0 1 2 3; return 1; }
  touch fail.2.2
  runs 2 3 3 3
  [ "$(shells_of 2 3)" = "2:2:3 3:2:3" ] || { shells_of 2 3; return 1; }
  touch go
  ends_with 0
  grep -qF "rank 2-3 on $host start again on the spare shell 2 on $host" err || { cat err; return 1; }
  grep -qF "rank 2-3 on $host start again where it was: there is no spare left" err || { cat err; return 1; }
  [ "$(classes)" = '[["x0","0-3"]]' ] || { jq . report; return 1; }
  start_spare -N 2+1 --tasks-per-node=2 --local=3 --restart=$now,scope=job sh -c "$until_fail"
  runs 0 1 1 1 2 1 3 1
  touch fail.1.1
  runs 0 2 1 2 2 2 3 2
  [ "$(shells_of 0 1 2 3)" = "0:2:2 1:2:2 2:1:2 3:1:2" ] || { shells_of 0 1 2 3; return 1; }
  touch fail.2.2
  runs 0 3 1 3 2 3 3 3
  [ "$(shells_of 0 1 2 3)" = "0:2:3 1:2:3 2:1:3 3:1:3" ] || { shells_of 0 1 2 3; return 1; }
  touch go
  ends_with 0
  grep -qF "all tasks of the job start again now, those of shell 0 on the spare shell 2 on $host (restart 1 of 3)" err || { cat err; return 1; }
  grep -qF "all tasks of the job start again now, where they were: there is no spare left (restart 2 of 3)" err || { cat err; return 1; }
  [ "$(classes)" = '[["x0","0-3"]]' ] || { jq . report; return 1; }
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "MPICH: a rank is killed, and all start again, those of its shell on the spare; then a shell is lost" {
  on_lost=replace start_spare -N 3+2 -n 6 --local=5 --restart=$now sh -c 'echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; exec "$0"' "$BATS_FILE_TMPDIR/steady"
  for rank in 0 1 2 3 4 5; do wait_until test -e in.$rank.1; done
  kill -KILL "$("$front" ps --json | jq 'select(.rank == 3).pid')"
  for rank in 0 1 2 3 4 5; do wait_until test -e in.$rank.2 || { cat err; return 1; }; done
  [ "$(shells_of 0 1 2 3 4 5)" = "0:0:2 1:0:2 2:3:2 3:3:2 4:2:2 5:2:2" ] || { shells_of 0 1 2 3 4 5; return 1; }
  lose 4 2
  for rank in 0 1 2 3 4 5; do wait_until test -e in.$rank.3 || { cat err; return 1; }; done
  [ "$(shells_of 0 1 2 3 4 5)" = "0:0:3 1:0:3 2:3:3 3:3:3 4:4:3 5:4:3" ] || { shells_of 0 1 2 3 4 5; return 1; }
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 3' out)" -eq 6 ] || { cat out err; return 1; }
  [ "$(moved)" = '[["2-3",1,3,2],["4-5",2,4,3]]' ] || { moved; return 1; }
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "a signal that comes while a rank waits, or on the spare, ends it for good; one budget; on-lost=replace takes the next spare" {
  start_spare -N 2+1 -n 2 --local=3 --restart=on-failure,backoff=1h,where=spare sh -c "$until_fail"
  runs 0 1 1 1
  touch fail.1.1
  wait_until grep -q "try 2 of it starts in" err
  "$front" kill --quiet --signal=TERM --ranks=1 "$id"
  touch go
  ends_with 3
  [ ! -e shell.1.2 ]
  start_spare -N 2+1 -n 2 --local=3 --restart=$now sh -c "$until_fail"
  runs 0 1 1 1
  touch fail.1.1
  runs 1 2
  "$front" kill --quiet --signal=TERM --ranks=1 "$id"
  touch go
  ends_with 143
  [ ! -e shell.1.3 ] || { cat err; return 1; }
  on_lost=replace start_spare -N 2+2 -n 2 --local=4 --restart=$now,max=1 sh -c "$until_fail"
  runs 0 1 1 1
  touch fail.1.1
  runs 1 2
  lose 1 2
  runs 1 3
  [ "$(shells_of 0 1)" = "0:0:1 1:3:3" ] || { shells_of 0 1; return 1; }
  touch fail.1.3
  ends_with 3
  grep -qF "rank 1 on $host exited with code 3, and is not started again: the job has used 1 of 1 restarts" err || { cat err; return 1; }
  [ "$(moved)" = '[["1",1,2,2],["1",2,3,3]]' ] || { moved; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "a spare without room is said in words; one that nacre grow brings is taken; nacre restart keeps to the place" {
  start_spare -N 1 -n 2 --local=2 --restart=$now,max=4 sh -c "$until_fail"
  runs 0 1 1 1
  touch fail.1.1
  runs 1 2
  [ "$(shells_of 1)" = "1:0:2" ] || { shells_of 1; return 1; }
  "$front" grow --quiet --count=1 "$id"
  touch fail.1.2
  runs 1 3
  [ "$(shells_of 0 1)" = "0:0:1 1:$("$front" jobs --json | jq '.shells - 1'):3" ] || { shells_of 0 1; return 1; }
  before=$(shells_of 0)
  "$front" restart --quiet --ranks=0 "$id"
  runs 0 2
  [ "$(shells_of 0)" = "${before%1}2" ] || { shells_of 0; return 1; }
  touch go
  ends_with 0
  jq -n '{version: 1, execution: {R_lite: [{rank: "0-1", children: {core: "0-1"}}, {rank: "2", children: {core: "0"}}],
    nodelist: ["node[0-2]"], starttime: 0, expiration: 0}}' >R.json
  rm -f shell.* fail.* go
  write_jobspec 4 sh -c "$until_fail"
  launch -R R.json -o cpu-affinity=off --local=3 --spares=1 --restart=$now,scope=node >out 2>err &
  launcher=$!
  runs 0 1 1 1 2 1 3 1
  touch fail.3.1
  runs 2 2 3 2
  touch go
  ends_with 0
  grep -qF "rank 2-3 on node1 start again where it was: the spare shell 2 has 1 core, and they need 2 cores" err || { cat err; return 1; }
  run run_ --restart=on-request,where=spare true
  [ "$status" -eq 2 ] || { echo "$output"; return 1; }
  [[ $output == *"restart: on-request starts tasks where they were: where=spare is for on-failure and always"* ]] || { echo "$output"; return 1; }
}
