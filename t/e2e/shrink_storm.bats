#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Many shrinks of one job, and shrinks while other things happen to it: each gets exactly one answer, and the rest
# of the job is not disturbed.
load control.bash

stay='while [ ! -e go ]; do sleep 0.1; done; echo done $FLUX_TASK_RANK'
shell_of() { pgrep -f "^nacre-shell: $id.* $1/" || pgrep -f "^nacre-shell: $id rank $1/"; }
no_shell() { ! shell_of "$1" >/dev/null; }

@test "shells leave one by one, some at once, in a deep tree: each is answered for, and its process goes" {
  local shells=20 each pids=()
  start_job "$shells" 1 "touch up.\$FLUX_TASK_RANK; $stay" --arity=2
  for ((each = 0; each < shells; ++each)); do wait_until test -e "up.$each"; done
  for ((each = 1; each < shells; each += 2)); do
    "$front" shrink --shells="$each" --json >"answer.$each" 2>"said.$each" &
    pids+=("$!")
    # The first shrinks come one after the other, all others at once.
    [ "$each" -gt 5 ] || wait "$!"
  done
  for each in "${pids[@]}"; do wait "$each" || { cat said.*; return 1; }; done
  for ((each = 1; each < shells; each += 2)); do
    [ "$(jq -c '[.gone, .unconfirmed]' "answer.$each")" = "[\"$each\",\"\"]" ] || { cat "answer.$each" "said.$each"; return 1; }
    # A shell that has started others keeps its process, for their connections.
    [ "$each" -lt $((shells / 2)) ] || wait_until no_shell "$each"
  done
  [ "$("$front" ps -q | wc -l)" -eq $((shells / 2)) ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' out)" -eq $((shells / 2)) ]
  [ ! -s err ] || { cat err; return 1; }
}

@test "commands beside the tasks across a shrink: each runs on all shells that are there, and ends" {
  start_job 6 1 "touch up.\$FLUX_TASK_RANK; $stay" --arity=2
  for each in 0 1 2 3 4 5; do wait_until test -e "up.$each"; done
  for ((each = 0; each < 20; ++each)); do "$front" exec true >"exec.$each" 2>&1 || echo "exit code $?" >>"exec.$each"; done &
  clients=$!
  wait_until test -e exec.3
  [ "$("$front" shrink --shells=1,4)" = "node[1,4]" ]
  wait "$clients"
  # A command may lose its process on a shell that leaves, and reports that; no command hangs, or fails on other
  # shells.
  for ((each = 0; each < 20; ++each)); do
    ! grep -vE 'node\[?[14]|shells? \[?[14]|exit code 1$' "exec.$each" || { cat "exec.$each"; return 1; }
  done
  [ ! -s exec.19 ] || { cat exec.19; return 1; }
  run -1 --separate-stderr "$front" exec -w node[0-1,4] true
  [ "$stderr" = "nacre exec: nothing is started, as node1, node4 have left the job: leave them out with -x" ] || { echo "$stderr"; return 1; }
  touch go
  ends_with 0
}

@test "output flows while shells leave: the lines of those that stay are all there, and whole" {
  local many=60000
  start_job 6 1 "seq -f \"\$FLUX_TASK_RANK:%.0f:$(printf 'x%.0s' {1..200})\" $many & touch up.\$FLUX_TASK_RANK; wait; $stay" --arity=2
  for each in 0 1 2 3 4 5; do wait_until test -e "up.$each"; done
  for each in 1 3 5; do "$front" shrink --shells="$each" --grace=0.1s >/dev/null; done
  touch go
  ends_with 0
  for each in 0 2 4; do
    [ "$(grep -c "^$each:[0-9]*:x\{200\}$" out)" -eq "$many" ]
    grep -qx "done $each" out
  done
  ! grep -vE '^[0-5]:[0-9]*:x{200}$|^done [024]$' out | grep -vE '^[135]:' || return 1
}

@test "all that are to leave are killed meanwhile: one answer says that they have left, and the others go on" {
  start_job 5 1 'trap "touch leaves.\$FLUX_TASK_RANK" TERM; '"touch up.\$FLUX_TASK_RANK; $stay"
  for each in 0 1 2 3 4; do wait_until test -e "up.$each"; done
  "$front" shrink --shells=2-4 --grace=100s --json >answer 2>said &
  clients=$!
  for each in 2 3 4; do wait_until test -e "leaves.$each"; done
  for each in 2 3 4; do kill -KILL "$(shell_of "$each")"; done
  code=0
  wait "$clients" || code=$?
  [ "$code" -eq 0 ] || { cat answer said; return 1; }
  [ "$(jq -c '[.gone, .unconfirmed]' answer)" = '["2-4",""]' ] || { cat answer; return 1; }
  touch go
  ends_with 0
}

@test "one that is to leave stands still: it is removed and named, and the others go on" {
  start_job 4 1 "touch up.\$FLUX_TASK_RANK; $stay" -o lost-after=10s # a busy machine may hold up the other shells
  for each in 0 1 2 3; do wait_until test -e "up.$each"; done
  frozen=$(shell_of 2)
  kill -STOP "$frozen"
  run -1 --separate-stderr "$front" shrink --shells=2-3 --grace=0.5s --json
  kill -CONT "$frozen"
  [ "$(jq -c '[.gone, .unconfirmed]' <<<"$output")" = '["3","2"]' ] || { echo "$output $stderr"; return 1; }
  wait_until no_shell 2
  [ "$("$front" ps -q | wc -l)" -eq 2 ]
  touch go
  ends_with 0
}

@test "runs that end in a storm of shrinks: none hangs, and each gives its code" {
  for ((round = 0; round < 8; ++round)); do
    pids=()
    rm -f go
    start_job 5 1 "until [ -e go ]; do sleep 0.1; done; exit \$((FLUX_TASK_RANK == 0 ? 3 : 0))"
    for each in 1 2 3 4; do "$front" shrink --shells="$each" >/dev/null 2>&1 & pids+=("$!"); done
    sleep "0.$round"
    touch go
    ends_with 3
    for each in "${pids[@]}"; do wait "$each" || :; done # the job may have ended before
  done
}
