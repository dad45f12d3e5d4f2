#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Half of the shells goes on if nacre run, which has started the job, says so: jobs of two shells whose leader is lost, or the other one.
load replace.bash
load detached.bash

# shellcheck disable=SC2034 # start_run's
on_lost=go-on
pair=(-o on-leader-lost=take-over --local=2)

@test "the leader of two shells is lost: the other one goes on under nacre run, which has its code and output" {
  start_run "${pair[@]}" -n 2 sh -c "$begun_until_go; exit \$((FLUX_TASK_RANK + 3))"
  await_try 1 0 1
  wait_until lines_come out 2
  lose 0 1
  wait_until grep -q "leads it now" err
  wait_until listed
  [ "$("$front" jobs --json | jq -c '[.shells, .gone]')" = "[2,1]" ] || { "$front" jobs --json; return 1; }
  touch go
  ends_with 4
  [ "$(sort out | paste -sd,)" = "0: begun,1: begun,1: done" ] || { cat out err; return 1; }
  grep -q "lost: 0 | exit code 4: 1" err || { cat err; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "a host and a spare: the spare leads the job and starts the tasks again, without another option" {
  on_lost=replace start_run --local=2 -N 1+1 -n 2 sh -c "$until_go"
  await_try 1 0 1
  lose 0 1
  wait_until test -e shell.0.2 -a -e shell.1.2
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 2' out)" -eq 2 ] || { cat out err; return 1; }
  grep -q "shell 0 .* is lost: .*; its task 0-1 starts again on the spare shell 1" err || { cat err; return 1; }
}

@test "the other shell is lost: the leader goes on" {
  start_run "${pair[@]}" -n 2 sh -c "$begun_until_go"
  await_try 1 0 1
  lose 1 1
  wait_until grep -q "node-failure: shell 1" err
  touch go
  ends_with 1
  [ "$(grep -c "done" out)" -eq 1 ] || { cat out err; return 1; }
}

@test "a leader that stands still: the other shell ends, as nacre run still has it, and the job goes on with it" {
  start_run "${pair[@]}" -o lost-after=2s -n 2 sh -c "$begun_until_go"
  await_try 1 0 1
  local leader other
  leader=$(cat shell.0.1) other=$(cat shell.1.1)
  kill -STOP "$leader"
  wait_until has_ended "$other"
  kill -CONT "$leader"
  wait_until grep -q "node-failure: shell 1" err
  touch go
  ends_with 1
  [ "$(grep -c "done" out)" -eq 1 ] || { cat out err; return 1; }
  ! grep -q "leads it now" err || { cat err; return 1; }
}

@test "half of four shells, the leader among them, is lost at once: the others go on" {
  start_run -o on-leader-lost=take-over --local=4 -n 4 sh -c "$begun_until_go"
  await_try 1 0 1 2 3
  kill -KILL "$(cat shell.0.1)" "$(cat shell.1.1)"
  wait_until grep -q "shell 2 on .* leads now" err
  touch go
  ends_with 1
  [ "$(grep -c "done" out)" -eq 2 ] || { cat out err; return 1; }
  grep -q "lost: 0-1 | exit code 0: 2-3" err || { cat err; return 1; }
}

@test "nobody says which half goes on: the one that is left ends, in words" {
  start_run "${pair[@]}" -o lost-after=2s -o on-launcher-lost=go-on -n 2 sh -c "$begun_until_go"
  await_try 1 0 1
  lose 0 1
  ends_with 1
  grep -q "the shell that led the job is lost: the job has ended with it" err || { cat err; return 1; }
  nothing_left "^nacre-shell: $id"
}
