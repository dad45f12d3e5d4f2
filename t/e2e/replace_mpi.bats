#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# on-lost=replace with restart, where tasks use PMI: all tasks of the job start again with those of a lost shell.
load replace.bash

export client=$BATS_TEST_DIRNAME/pmi_client

setup_file() {
  mpicc.mpich -Wall -Wextra -O1 -o "$BATS_FILE_TMPDIR/steady" "$BATS_TEST_DIRNAME/mpi/steady.c"
}

now=on-failure,backoff=0s
# What each task does first.
note='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; '

# Starts a job of MPI programs in which the ranks up to $1 go on until there is the file go.
start_steady() { # LAST, options
  rm -f shell.* in.* go
  start_run "${@:2}" sh -c "$note exec '$BATS_FILE_TMPDIR/steady'"
  all_in "$1" 1
}

timeline() { jq -c '[.timeline[] | select(.event == "lost" or .event == "moved" or .event == "restart") | [.event, .ranks, .to, .try, .restart]]' report; }

@test "MPICH: a shell is killed in the middle of MPI_Allreduce, and all ranks start again, its own on the spare" {
  start_steady 5 -N 3+1 -n 6 --local=4 --report=report --restart=$now
  lose 2 1
  all_in 5 2
  [ "$(places | awk '{ print $1, $3 }' | paste -sd,)" = "0 2,1 2,2 2,3 2,4 2,5 2" ] || { places; return 1; }
  [ "$(shells_of 0 1 2 3 4 5)" = "0:0:2 1:0:2 2:3:2 3:3:2 4:2:2 5:2:2" ] || { shells_of 0 1 2 3 4 5; return 1; }
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 2' out)" -eq 6 ] || { cat out err; return 1; }
  [ "$(grep -c 'done in' out)" -eq 6 ]
  grep -q "shell 1 .* is lost: .*; its task 2-3 starts again on the spare shell 3" err || { cat err; return 1; }
  [ "$(grep -c '(restart 1 of 3)' err)" -ge 1 ] || { cat err; return 1; }
  ! grep -q '(restart 2 of' err || { cat err; return 1; }
  [ "$(jq -c '.exit.code, [.classes[] | [.record, .ranks]]' report | paste -sd' ')" = '0 [["x0","0-5"]]' ] || { jq . report; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "moved") | [.ranks, .from, .to]]' report)" = '[["2-3",1,3]]' ] || { jq .timeline report; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "restart" and .scope == "job")] | length >= 1' report)" = true ] || { jq .timeline report; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "MPICH: two shells one after the other, with two spares; and a second one while all wait to start again" {
  start_steady 2 -N 3+2 -n 3 --local=5 --report=report --restart=$now
  lose 1 1
  all_in 2 2
  lose 2 2
  all_in 2 3
  [ "$(shells_of 0 1 2)" = "0:0:3 1:3:3 2:4:3" ] || { shells_of 0 1 2; return 1; }
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 3' out)" -eq 3 ] || { cat out err; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "moved") | [.ranks, .from, .to]]' report)" = '[["1",1,3],["2",2,4]]' ] || { jq .timeline report; return 1; }
  lose_another_as_all_wait
  [ "$(grep -c 'done in try 3' out)" -eq 4 ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "MPICH: the shell that leads the job is killed in MPI_Allreduce, and then the one that leads it next" {
  start_steady 2 -N 3+2 -n 3 --local=5 --restart=$now
  lose 0 1
  all_in 2 2
  lose 1 2
  all_in 2 3
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 3' out)" -eq 3 ] || { cat out err; return 1; }
  grep -q "shell 1 on .*, which led the job, is lost: shell [2-4] on .* leads now" err || { cat err; return 1; }
  nothing_left "^nacre-shell: $id"
}

# Starts a job of PMI's client with these arguments: a task on each of three shells, and $spares spares (1). The
# clients make the files in.RANK.TRY.
start_clients() { # RESTART, ARGUMENT...
  rm -f shell.* in.* go out err
  write_nodes $((3 + ${spares:-1})) 1
  write_jobspec 3 sh -c "$note"'exec "$@"' sh "$client" "${@:2}"
  launch -R R.json -o cpu-affinity=off --local=$((3 + ${spares:-1})) --spares="${spares:-1}" --on-lost="${on_lost:-replace}" ${1:+"--restart=$1"} >out 2>err &
  launcher=$!
}

@test "a barrier of PMI does not open without the lost, whatever the others would do then; the map has the spare" {
  start_clients $now init barrier touch:in.%r.%t 1:wait:go barrier touch:open.%r.%t \
    "cmd=get kvsname=%k key=PMI_process_mapping" "has:value=(vector,(0,1,1),(2,1,1),(1,1,1))" finalize
  all_in 2 1
  lose 1 1
  all_in 2 2
  touch go
  ends_with 0
  for rank in 0 1 2; do [ -e "open.$rank.2" ] && [ ! -e "open.$rank.1" ]; done
  grep -F "its task 1 starts again on the spare shell 3 on node3, and with it all tasks of the job now (restart 1 of 3)" err || { cat err; return 1; }
}

two_run() { [ "$("$front" ps --json | jq -c 'select(.rank != null)' | wc -l)" -eq 2 ]; }

@test "a loss is final, and the line says why: no spare, no restart left, a task that has ended for good" {
  start_clients $now init barrier touch:in.%r.%t 1:wait:go barrier finalize
  all_in 2 1
  lose 1 1
  all_in 2 2
  lose 1 2
  fails
  grep -q "with it task 1, which is not started again: there is no spare left" err || { cat err; return 1; }
  spares=2 start_clients $now,max=1 init barrier touch:in.%r.%t 1:wait:go barrier finalize
  all_in 2 1
  lose 1 1
  all_in 2 2
  lose 1 2
  fails
  grep -q "with it task 1, which is not started again: the job has used 1 of 1 restarts" err || { cat err; return 1; }
  rm -f shell.* in.*
  start_run -N 3+1 -n 3 --local=4 --restart=$now sh -c "$note"'exec "$client" init barrier finalize touch:in.%r.%t 0,1:wait:go'
  all_in 2 1
  wait_until two_run
  lose 1 1
  fails
  grep -q "with it task 1, which is not started again: all tasks would have to start again, and task 2 has ended for good" err || { cat err; return 1; }
}

@test "a job that goes on without the lost opens the barrier then" {
  spares=0 on_lost=replace,else=go-on start_clients $now init barrier touch:in.%r.%t 1:wait:never barrier finalize touch:out.%r
  all_in 2 1
  lose 1 1
  wait_until grep -q "with it task 1, which is not started again: there is no spare left" err
  for rank in 0 2; do wait_until test -e "out.$rank"; done
  fails
}

@test "a task that calls PMI only after it was started again elsewhere is killed, and all start again" {
  rm -f shell.* go late out err
  write_nodes 4 1
  write_jobspec 3 sh -c "$note"'until [ -e late ]; do sleep 0.1; done; exec "$@"' sh "$client" init barrier barrier finalize
  launch -R R.json -o cpu-affinity=off --local=4 --spares=1 --on-lost=replace --restart=$now >out 2>err &
  launcher=$!
  await_try 1 0 1 2
  lose 1 1
  wait_until test -e shell.1.2
  [ ! -e shell.0.2 ]
  touch late
  ends_with 0
  grep -q "rank 1 on node3 calls PMI, and has been started again on another shell: it is killed, so that all tasks start again together" err || { cat err; return 1; }
  grep -q "all tasks of the job start again now (restart 1 of 3)" err || { cat err; return 1; }
  for rank in 0 1 2; do [ -e "shell.$rank.2" ]; done
}

@test "a task that ends without PMI after it was started again elsewhere ends the job whose others wait for it, and the line says so" {
  rm -f shell.* go late out err
  write_nodes 4 1
  write_jobspec 3 sh -c "$note"'until [ -e late ]; do sleep 0.1; done; [ "$NACRE_TASK_TRY" -eq 1 ] || exec sleep 1; exec "$@"' \
    sh "$client" init barrier barrier finalize
  launch -R R.json -o cpu-affinity=off --local=4 --spares=1 --on-lost=replace --restart=$now >out 2>err &
  launcher=$!
  await_try 1 0 1 2
  lose 1 1
  wait_until test -e shell.1.2
  touch late
  fails
  grep -q "rank 1, started again on another shell, has ended without PMI init, and the others wait for it in a barrier" err ||
    { cat err; return 1; }
}

@test "where=any: a shell that has a task takes the other one over, and all start again" {
  start_steady 2 -N 3 -n 3 --local=3 --oversubscribe --report=report --restart=$now,where=any
  lose 2 1
  all_in 2 2
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 2' out)" -eq 3 ] || { cat out err; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "moved") | [.ranks, .from, .to]]' report)" = '[["2",2,1]]' ] || { jq .timeline report; return 1; }
}

# All three ranks have come to their loops in the present try, whose number depends on the order of events.
all_in_one_try() {
  local try
  try=$("$front" ps --json | jq 'select(.rank != null).try' | sort -u)
  [ -e "in.0.$try" ] && [ -e "in.1.$try" ] && [ -e "in.2.$try" ]
}

@test "nacre restart at the same moment has an answer, and the job goes on" {
  local round
  for round in 1 2 3; do
    start_steady 2 -N 3+1 -n 3 --local=4 --restart=$now
    kill -KILL "$(<shell.1.1)" &
    "$front" restart --quiet "$id" || :
    wait_until grep -q "shell 1 .* is lost" err
    wait_until all_in_one_try || { cat err; return 1; }
    touch go
    ends_with 0
    [ "$(grep -c 'done in' out)" -eq 3 ] || { cat out err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}
