#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre restart: tasks of a job that runs are ended, and start again, because a user asks for it.
load control.bash

# Starts a job by nacre run, with the options in front of `--`, and the sh script behind: its tasks note their
# tries.
start_run() {
  local options=()
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  rm -f out err try.* go
  "$front" run --shell="$NACRE_SHELL" "${options[@]}" sh -c "$2" >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
}
stays='try=${NACRE_TASK_TRY:-1}; echo $$ >pid.$FLUX_TASK_RANK.$try; : >try.$FLUX_TASK_RANK.$try
  until [ -e go ]; do sleep 0.1; done; echo "rank $FLUX_TASK_RANK try $NACRE_TASK_TRY restarts $NACRE_JOB_RESTARTS"'
are_in() { # try, ranks...
  local try=$1 rank
  shift
  for rank; do [ -e "try.$rank.$try" ] || return 1; done
}
has_ended() { [ "$("$front" report --json "$id" | jq -r '.report.classes[0].ranks')" = "$1" ]; } # rank
prints() { # text
  [ "$output" = "$1" ] || { echo "it printed: $output, not: $1"; cat err; return 1; }
}

@test "one task, of the leader, of an inner shell, of a leaf: it starts again, the others go on, no restart is used" {
  start_run --local=7 --arity=2 -n 7 --report=report --restart=on-failure,max=1 -- "$stays"
  wait_until are_in 1 {0..6}
  for rank in 0 1 6; do
    run --separate-stderr "$front" restart --ranks=$rank "$id"
    [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
    prints "$rank"
    wait_until are_in 2 $rank
  done
  for rank in 2 3 4 5; do kill -0 "$(<pid.$rank.1)"; done
  for rank in 0 1 6; do ! kill -0 "$(<pid.$rank.1)" 2>/dev/null || false; done
  wait_until grep -qF "restart: rank 6 on $(uname -n) is started again: try 2 starts now, as nacre restart has asked" err
  touch go
  ends_with 0
  [ "$(sort out)" = "$(for rank in {0..6}; do
    case $rank in 0) echo "rank 0 try 2 restarts 1" ;; 1) echo "rank 1 try 2 restarts 2" ;; 6) echo "rank 6 try 2 restarts 3" ;;
    *) echo "rank $rank try 1 restarts 0" ;; esac
  done)" ] || { cat out; return 1; }
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-6"]]' ]
  [ "$(jq -c '[.timeline[] | select(.event == "restart") | [.ranks, .record, .try, .ordered, .max]]' report)" = '[["0","c/s15",2,true,null],["1","c/s15",2,true,null],["6","c/s15",2,true,null]]' ] || { jq . report; return 1; }
  [ "$("$front" jobs -a --json | jq .restarts)" -eq 3 ]
}

# bats test_tags=long
@test "all tasks, together, again and again; as JSON" {
  start_run --local=4 --arity=2 -n 8 --oversubscribe --restart=on-request -- "$stays"
  wait_until are_in 1 {0..7}
  for try in 2 3 4; do
    run --separate-stderr "$front" restart --json "$id"
    [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
    [ "$(jq -c 'del(.id)' <<<"$output")" = '{"ranks":"0-7","refused":[]}' ]
    wait_until are_in $try {0..7}
  done
  wait_until grep -qF "restart: all tasks of the job start again, as nacre restart has asked" err
  touch go
  ends_with 0
  [ "$(sort out | uniq | wc -l)" -eq 8 ]
  [ "$(grep -c "try 4 restarts 3" out)" -eq 8 ]
}

# bats test_tags=long
@test "a task that ignores SIGTERM gets SIGKILL; how it ends is no failure; two orders for one task are one restart" {
  start_run -n 2 --oversubscribe -o kill-timeout=1s -o exit-on-error --restart=on-request -- "trap '' TERM; trap ': >hup' HUP; $stays"
  wait_until are_in 1 0 1
  "$front" kill -s HUP --ranks=1 "$id" # the task handles this signal, which has nothing to do with the restart
  wait_until test -e hup
  "$front" restart --ranks=1 "$id" >first &
  first=$!
  run "$front" restart --ranks=1 "$id"
  [ "$status" -eq 0 ]
  wait $first
  [ "$(<first)" = 1 ]
  wait_until are_in 2 1
  [ "$("$front" jobs --json | jq .restarts)" -eq 1 ]
  touch go
  ends_with 0
}

# bats test_tags=long
@test "what cannot be: without the option, ended tasks, unknown ranks, wrong usage, a job that has ended" {
  start_run -n 2 --oversubscribe -- "$stays"
  wait_until are_in 1 0 1
  run "$front" restart "$id"
  [ "$status" -eq 1 ]
  prints "nacre restart: the job was started without --restart: --restart=on-request lets its tasks be started again"
  touch go
  ends_with 0
  run "$front" restart "$id"
  [ "$status" -eq 1 ]
  prints "nacre restart: job $id has ended"
  start_run --local=3 -n 3 --restart=on-request -- '[ $FLUX_TASK_RANK != 1 ] || { : >ended; exit 0; }; '"$stays"
  wait_until are_in 1 0 2
  wait_until has_ended 1
  run --separate-stderr "$front" restart --ranks=1-2 "$id"
  [ "$status" -eq 1 ]
  prints 2
  [ "$stderr" = "nacre restart: rank 1 is not started again: it has ended" ]
  wait_until are_in 2 2
  run "$front" restart "$id"
  [ "$status" -eq 1 ]
  prints "nacre restart: rank 0,2 is not started again: all tasks would have to start again, and task 1 has ended for good"
  run "$front" restart --ranks=2-4 "$id"
  [ "$status" -eq 1 ]
  prints "nacre restart: there is no rank 3-4: the job has ranks 0-2"
  run "$front" restart --ranks=x "$id"
  [ "$status" -eq 2 ]
  touch go
  ends_with 0
  run "$front" run -n 1 --restart=on-request,max=3 true
  [ "$status" -eq 2 ]
  [[ $output == *"on-request has no limits, as only nacre restart starts tasks again: it has scope and where only"* ]]
}

# bats test_tags=long
@test "on-request starts nothing by itself, and scope=job makes any restart one of all" {
  start_run --local=2 -n 2 --restart=on-request,scope=job -- "$stays"
  wait_until are_in 1 0 1
  run "$front" restart --ranks=1 "$id"
  [ "$status" -eq 0 ]
  prints 1
  wait_until are_in 2 0 1
  kill -KILL "$(<pid.1.2)"
  wait_until grep -q "SIGKILL" err
  touch go
  ends_with 137
  [ ! -e try.1.3 ]
}

# bats test_tags=long
@test "while all tasks start again anyway, and end or wait for that, an order is answered at once, and changes nothing" {
  for step in ends waits; do
    rm -f fail
    # In the first try rank 1 fails. The others still run then, as they ignore SIGTERM; or all have ended, and wait for the backoff.
    options=("--restart=on-failure,scope=job,backoff=3s")
    [ "$step" = waits ] || options=("--restart=on-failure,scope=job,backoff=100ms" -o kill-timeout=3s)
    start_run --local=3 --arity=2 -n 3 "${options[@]}" -- '[ '"$step"' = waits ] || [ "$NACRE_TASK_TRY" != 1 ] || trap "" TERM
      [ "$FLUX_TASK_RANK.$NACRE_TASK_TRY" != 1.1 ] || { : >try.1.1; until [ -e fail ]; do sleep 0.1; done; exit 3; }
      '"$stays"
    wait_until are_in 1 0 1 2
    touch fail
    wait_until grep -q 'all tasks of the job start again in' err
    code=0
    timeout 60 "$front" restart "$id" >said 2>&1 || code=$?
    # On a busy machine the tasks may have started again by now.
    [ "$code" -eq 0 ] || [ "$(<said)" = "nacre restart: rank 0-2 is not started again: it waits for its next start" ] || { echo "$code: $(<said)"; return 1; }
    wait_until are_in $((code == 0 ? 3 : 2)) 0 1 2
    touch go
    ends_with 0
    [ "$(grep -c "try $((code == 0 ? 3 : 2))" out)" -eq 3 ] || { cat out; return 1; }
  done
}

# bats test_tags=long
@test "scope=node: an order for a task is one for all of its shell, which uses no restart" {
  start_run --local=2 -N 2 -n 4 --oversubscribe --restart=on-request,scope=node -- "$stays"
  wait_until are_in 1 0 1 2 3
  run --separate-stderr "$front" restart --ranks=2 "$id"
  [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
  prints 2
  wait_until are_in 2 2 3
  run --separate-stderr "$front" restart --ranks=0-3 "$id"
  [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
  prints 0-3
  wait_until are_in 2 0 1
  wait_until are_in 3 2 3
  grep -qF "restart: all tasks of shell 1 (rank 2-3) on $(uname -n) start again, as nacre restart has asked" err || { cat err; return 1; }
  touch go
  ends_with 0
  [ ! -e try.0.3 ]
  [ ! -e try.3.4 ]
  start_run --local=2 -N 2 -n 4 --oversubscribe --restart=on-request,scope=node -- '[ $FLUX_TASK_RANK != 1 ] || { : >ended; exit 0; }; '"$stays"
  wait_until are_in 1 0 2 3
  wait_until has_ended 1
  run --separate-stderr "$front" restart --ranks=0 "$id"
  [ "$status" -eq 1 ]
  [ "$stderr" = "nacre restart: rank 0 is not started again: all tasks of its shell would have to start again, and task 1 has ended for good" ] || { echo "$stderr"; return 1; }
  kill -0 "$(<pid.0.1)"
  touch go
  ends_with 0
}

# bats test_tags=long
@test "tasks connected to PMI all start again with one of them; PMI begins anew" {
  export client=$BATS_TEST_DIRNAME/pmi_client
  start_run --local=2 -n 4 --oversubscribe --restart=on-request -- 'exec "$client" init barrier touch:in.%r.$NACRE_TASK_TRY wait:go barrier finalize'
  for rank in 0 1 2 3; do wait_until test -e in.$rank.1; done
  run --separate-stderr "$front" restart --ranks=2 "$id"
  [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
  prints 2
  for rank in 0 1 2 3; do wait_until test -e in.$rank.2; done
  run "$front" restart "$id"
  [ "$status" -eq 0 ]
  for rank in 0 1 2 3; do wait_until test -e in.$rank.3; done
  touch go
  ends_with 0
}

# bats test_tags=long
@test "a task whose shell is about to leave by a shrink is not started again, nor are all tasks together" {
  start_run --local=3 -n 3 -o kill-timeout=60s --restart=on-request -- "trap ': >term.\$FLUX_TASK_RANK' TERM; $stays"
  wait_until are_in 1 0 1 2
  "$front" shrink --shells=2 "$id" >shrunk &
  shrunk=$!
  wait_until test -e term.2
  run --separate-stderr "$front" restart --ranks=2 "$id"
  [ "$status" -eq 1 ]
  [ "$stderr" = "nacre restart: rank 2 is not started again: its shell is about to leave the job" ] || { echo "$stderr"; return 1; }
  run --separate-stderr "$front" restart "$id"
  [ "$status" -eq 1 ]
  [ "$stderr" = "nacre restart: rank 0-2 is not started again: all tasks would have to start again, and shell 2 on $(uname -n) is about to leave the job with task 2" ] || { echo "$stderr"; return 1; }
  for rank in 0 1 2; do [ ! -e try.$rank.2 ]; done
  "$front" kill -s KILL --ranks=2 "$id"
  wait $shrunk || { cat err; return 1; }
  touch go
  ends_with 0
}

# bats test_tags=long
@test "the job's end meanwhile: whoever waits gets a line, and nothing starts" {
  start_run --local=2 -n 2 -o kill-timeout=60s --restart=on-request -- "trap ': >term.\$FLUX_TASK_RANK' TERM; $stays"
  wait_until are_in 1 0 1
  "$front" restart --ranks=1 "$id" 2>asked &
  asked=$!
  wait_until test -e term.1
  "$front" kill -s KILL "$id"
  code=0
  wait $asked || code=$?
  [ "$code" -eq 1 ]
  grep -qF "nacre restart: " asked || { cat asked; return 1; }
  ends_with 137
  [ ! -e try.1.2 ]
}
