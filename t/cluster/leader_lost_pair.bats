#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A job of one host and a spare, over ssh and by srun: of the two shells that one goes on which nacre run, on a third host, lets go on.
load jobs.bash

cluster=(3 --slurm)

ssh=(--hosts="node[0-1]")
srun=(--srun --srun-arg=--nodelist='node[0-1]')

# nacre run on node2, with two tasks on node0, until there is the file go. It is $job. No host sees another one's list of jobs.
start_run() { # HOW...
  export NACRE_JOBS_DIR=/tmp/jobs.$BATS_TEST_NUMBER
  limit=150 on node2 "$NACRE_BUILD_DIR/nacre" run "$@" --shell="$NACRE_SHELL" --timeout=100 -N 1+1 -n 2 --on-lost=replace -o lost-after=2s \
    sh -c 'echo began $FLUX_TASK_RANK $NACRE_TASK_TRY; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK $NACRE_TASK_TRY $(uname -n)' "$work" >said 2>&1 &
  job=$!
  wait_until 100 has_begun 2 || { cat said; return 1; }
}
has_begun() { [ "$(grep -c ^began said)" -ge "$1" ]; }

# Both tasks end on the host, in this try.
ends_on() { # HOST TRY
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = "$(printf 'done %s %s %s\n' 0 "$2" "$1" 1 "$2" "$1")" ] || { cat said; return 1; }
}

# The spare leads, and has started the tasks again.
goes_on() {
  wait_until 60 grep -q "is lost: the one on node1 leads it now" said || { cat said; return 1; }
  wait_until 60 has_begun 4 || { cat said; return 1; }
  grep -q "shell 0 on node0 is lost: .*; its task 0-1 starts again on the spare shell 1 on node1" said || { cat said; return 1; }
  ends_on node1 2
}

@test "the leader is killed" {
  local how
  for how in ssh srun; do
    rm -f go
    local -n words=$how
    start_run "${words[@]}"
    "$vcluster" exec node0 pkill -KILL -x nacre-shell
    goes_on
    nothing_left
  done
}

@test "the leader's host loses its power" {
  start_run "${ssh[@]}"
  "$vcluster" kill node0 --power
  goes_on
  "$vcluster" boot node0
}

@test "the leader stands still: by srun the spare leads, and what wakes ends; over ssh the leader goes on" {
  start_run "${srun[@]}"
  "$vcluster" exec node0 pkill -STOP -x nacre-shell
  goes_on
  "$vcluster" exec node0 pkill -CONT -x nacre-shell || :
  nothing_left
  rm -f go
  start_run "${ssh[@]}"
  "$vcluster" exec node0 pkill -STOP -x nacre-shell
  wait_until 60 none_on node1 "^nacre-shell: "
  "$vcluster" exec node0 pkill -CONT -x nacre-shell
  ends_on node0 1
  nothing_left
}

# bats test_tags=long
@test "the two hosts are cut off from each other: the leader goes on, and the spare ends" {
  local how
  for how in ssh srun; do
    rm -f go
    local -n words=$how
    start_run "${words[@]}"
    "$vcluster" cut node0 node1
    wait_until 60 none_on node1 "^nacre-shell: "
    ends_on node0 1
    "$vcluster" heal node0 node1
    nothing_left
  done
}

# bats test_tags=long
@test "the leader's host is cut off from all: the spare goes on, and what is left there ends" {
  start_run "${ssh[@]}"
  "$vcluster" cut node0
  goes_on
  wait_until 60 none_on node0 "^nacre-shell: "
  "$vcluster" heal node0
}
