#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Jobs whose size may change (-N MIN:MAX) over hosts: when hosts are lost the tasks start again on fewer, by ssh and
# by srun.
load jobs.bash

cluster=(5 --slurm)

# Starts nacre run on node4, with a task on each of node[0-3], until there is the file go. Its process is $job. No
# host sees another one's list of jobs.
start_sized() { # OPTION...
  export NACRE_JOBS_DIR=/tmp/jobs.$BATS_TEST_NUMBER
  rm -f said go
  limit=150 on node4 "$NACRE_BUILD_DIR/nacre" run "$@" -N 2:4 --restart=on-failure,scope=job,backoff=0s --shell="$NACRE_SHELL" --timeout=120 -o lost-after=2s --report="$work/report" \
    sh -c 'echo began $FLUX_TASK_RANK in try $NACRE_TASK_TRY; until test -e $0/go; do sleep 0.2; done; echo done $NACRE_TASK_TRY: $FLUX_TASK_RANK of $NACRE_JOB_SIZE on $NACRE_JOB_NNODES, $(uname -n)' "$work" >said 2>&1 </dev/null &
  job=$!
  all_have_begun 4 1
}

all_have_begun() { wait_until 90 have_begun "$@" || { cat said; return 1; }; } # TASKS TRY
have_begun() { [ "$(grep -c "^began .* in try $2\$" said)" -ge "$1" ]; }

goes_on_with() { wait_until 60 grep -q "the job goes on with $1 tasks on $1 nodes (-N 2:4), in place of $(($1 + 1)) on $(($1 + 1)): all start again now" said || { cat said; return 1; }; }

@test "under srun: the shells of two hosts are killed, the leader's the second; two are left, and the job ends well" {
  start_sized --srun --srun-arg=--nodelist='node[0-3]'
  "$vcluster" exec node2 pkill -KILL -x nacre-shell
  goes_on_with 3
  all_have_begun 3 2
  "$vcluster" exec node0 pkill -KILL -x nacre-shell
  goes_on_with 2
  wait_until 60 grep -q "the one on node[13] leads it now" said || { cat said; return 1; }
  all_have_begun 2 3
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 3: 0 of 2 on 2, node1\ndone 3: 1 of 2 on 2, node3' ] || { cat said; return 1; }
  nothing_left
}

@test "a third loss, below MIN, ends the job with one clear line" {
  start_sized --hosts='node[0-3]'
  for host in 3 1; do
    "$vcluster" exec "node$host" pkill -KILL -x nacre-shell
    goes_on_with $((2 + host / 3))
    all_have_begun $((2 + host / 3)) $((3 - host / 3))
  done
  "$vcluster" exec node2 pkill -KILL -x nacre-shell
  ends_with 1
  grep -q "which is not started again: there is no spare left, and 1 node is left, and the job needs at least 2 (-N 2:4)" said || { cat said; return 1; }
  nothing_left
}

@test "over ssh: a host loses its power, then the one whose shell leads; two are left, and the job ends well" {
  start_sized --hosts='node[0-3]'
  "$vcluster" kill node2 --power
  goes_on_with 3
  all_have_begun 3 2
  "$vcluster" kill node0 --power
  goes_on_with 2
  wait_until 60 grep -q "the one on node[13] leads it now" said || { cat said; return 1; }
  all_have_begun 2 3
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 3: 0 of 2 on 2, node1\ndone 3: 1 of 2 on 2, node3' ] || { cat said; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "resized") | [.cause, .shell, .tasks]]' report)" = '[["lost",2,3],["lost",0,2]]' ] || { cat report; return 1; }
}
