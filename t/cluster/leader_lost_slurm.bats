#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# on-leader-lost=take-over where srun has started the shells: the next leader tells nacre run, over srun, that it leads, and nacre
# run joins it.
load jobs.bash

cluster=(5 --slurm)

places=(--srun-arg=--nodelist='node[0-3]' -N 3+1 --on-lost=replace)

# Starts nacre run on node4: three tasks on node[0-2], and node3 as a spare, until there is the file go. Its process
# is $job. No host sees another one's list of jobs.
start_run() { # OPTION...
  export NACRE_JOBS_DIR=/tmp/jobs.$BATS_TEST_NUMBER
  limit=150 on node4 ${allocation[@]+"${allocation[@]}"} "$NACRE_BUILD_DIR/nacre" run --srun "${places[@]}" --shell="$NACRE_SHELL" --timeout=100 -o lost-after=2s "$@" \
    sh -c 'echo began $FLUX_TASK_RANK $NACRE_TASK_TRY; until test -e $0/go; do sleep 0.2; done; [ $FLUX_TASK_RANK = 0 ] || read -r line; echo done $FLUX_TASK_RANK $NACRE_TASK_TRY $(uname -n) $line' "$work" >said 2>&1 <words &
  job=$!
  wait_until 100 has_begun 3 || { cat said; return 1; }
}
has_begun() { [ "$(grep -c ^began said)" -ge "$1" ]; }

# Rank 0, which was on node0, runs on node3 now, and the job ends well; no shell is left.
goes_on() {
  wait_until 60 grep -q "is lost: the one on node[1-3] leads it now" said
  wait_until 60 has_begun 4
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 0 2 node3\ndone 1 1 node1 hello\ndone 2 1 node2 hello' ] || { cat said; return 1; }
  [ "$(grep -c ^began said)" -eq 4 ] || { cat said; return 1; }
  grep -q "leader-lost: shell 0 on node0, which led the job, is lost: shell [1-3] on node[1-3] leads now" said || { cat said; return 1; }
  grep -q "shell 0 on node0 is lost: .*; its task 0 starts again on the spare shell 3 on node3" said || { cat said; return 1; }
  ! grep -E '^srun: error: .*task|a part was lost' said || { cat said; return 1; }
}

@test "the leader is killed: its rank goes to the spare, and nacre run follows" {
  echo hello >words
  start_run
  "$vcluster" exec node0 pkill -KILL -x nacre-shell
  goes_on
  nothing_left
}

@test "the leader stands still" {
  echo hello >words
  start_run
  "$vcluster" exec node0 pkill -STOP -x nacre-shell
  goes_on
  "$vcluster" exec node0 pkill -CONT -x nacre-shell || :
  nothing_left
}

@test "the job is to end with any host: the next leader ends it with a report, also where the first one only stands still" {
  local signal
  : >words
  places=(--srun-arg=--nodelist='node[0-3]' -N 3+1)
  for signal in KILL STOP; do
    start_run
    "$vcluster" exec node0 pkill "-$signal" -x nacre-shell
    ends_with 1
    grep -q "shell 0 on node0 is lost: it has ended, or cannot be reached; with it task 0" said || { cat said; return 1; }
    grep -q "lost: 0 | ended because of it: 1-2" said || { cat said; return 1; }
    "$vcluster" exec node0 pkill -CONT -x nacre-shell || :
    nothing_left
  done
}

@test "a report's file goes on, and so do signals" {
  echo hello >words
  start_run --report="$work/report"
  "$vcluster" exec node0 pkill -KILL -x nacre-shell
  wait_until 60 has_begun 4 || { cat said; return 1; }
  "$vcluster" exec node4 pkill -INT -x nacre
  ends_with 130
  jq -e '.exit.code == 130 and any(.timeline[]; .event == "lost" and .shell == 0)' report || { cat report; return 1; }
  nothing_left
}

@test "the next leader is lost, too, and with it a task" {
  echo hello >words
  places=(--srun-arg=--nodelist='node[0-4]' -N 4+1 '--on-lost=replace,else=go-on')
  start_run
  "$vcluster" exec node0 pkill -KILL -x nacre-shell
  wait_until 60 grep -q "the one on node1 leads it now" said
  wait_until 60 has_begun 5 || { cat said; return 1; }
  "$vcluster" exec node1 pkill -KILL -x nacre-shell
  wait_until 60 grep -q "the one on node[234] leads it now" said || { cat said; return 1; }
  touch go
  ends_with 1
  [ "$(grep '^done' said | sort)" = $'done 0 2 node4\ndone 2 1 node2 hello\ndone 3 1 node3 hello' ] || { cat said; return 1; }
  grep -q "rank 1 on node1 lost with shell 1" said || { cat said; return 1; }
  nothing_left
}

# The two that are left are not more than half of four, so they end. If the first loss was known in time, the second
# one ends the job.
@test "too many are lost at once: the job ends in words" {
  echo hello >words
  start_run
  "$vcluster" exec node0 pkill -KILL -x nacre-shell &
  "$vcluster" exec node1 pkill -KILL -x nacre-shell
  wait $!
  ends_with 1
  grep -Eq "cut off from the job's other shells|with it task [01], which is not started again: there is no spare left" said || { cat said; return 1; }
  nothing_left
}

@test "the next leader gets nodes from Slurm, and keeps those of the first one; a new shell leads; all are given back" {
  echo hello >words
  places=(--srun-arg=--nodelist='node[0-2]' -N 3 --on-lost=replace)
  start_run
  id=$(nacre node0 jobs -q)
  others() { on node4 squeue -h -n "nacre-$id" -o %N | sort | paste -sd,; }
  lose_leader() { "$vcluster" exec "$1" pkill -KILL -f '^nacre-shell: '; }
  run --separate-stderr nacre node0 grow --hosts=node3 --wait=60s
  [ "$output" = node3 ] || { echo "$output $stderr"; cat said; return 1; }
  lose_leader node0
  wait_until 60 grep -q "the one on node1 leads it now" said || { cat said; return 1; }
  wait_until 60 has_begun 4 || { cat said; return 1; }
  [ "$(others)" = node3 ]
  run --separate-stderr nacre node1 grow --hosts=node4 --wait=60s
  [ "$output" = node4 ] || { echo "$output $stderr"; cat said; return 1; }
  [ "$(others)" = node3,node4 ]
  lose_leader node1
  wait_until 60 grep -q "the one on node3 leads it now" said || { cat said; return 1; }
  wait_until 60 has_begun 5 || { cat said; return 1; }
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 0 2 node3\ndone 1 2 node4\ndone 2 1 node2 hello' ] || { cat said; return 1; }
  are_back() { [ -z "$(others)" ]; }
  wait_until are_back
  nothing_left
}

@test "all shells are lost: the exit code is that of a lost host" {
  echo hello >words
  start_run --exit-class=host:75
  local host
  for host in 0 1 2 3; do "$vcluster" exec node$host pkill -KILL -x nacre-shell & done
  wait %?vcluster || :
  ends_with 75
  grep -q "the shell that led the job is lost: the job has ended with it" said || { cat said; return 1; }
  nothing_left
}

@test "in an allocation of salloc --no-kill: the leader's host loses its power" {
  echo hello >words
  allocation=(salloc --quiet --no-kill -N4 --nodelist='node[0-3]')
  start_run
  "$vcluster" kill node0 --power
  goes_on
  "$vcluster" boot node0
}
