#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre grow over hosts: new hosts join a job over ssh, on a request from another host than the leader's, and leave
# again.
load jobs.bash

cluster=(4 --slurm)

# OPTION...: nacre run on node0, with two tasks on node0 and node1, until there is the file go. Its process is $job.
# Each task prints its rank, its try and its host.
start_run() {
  limit=150 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --hosts="node[0-1]" -N 2 --timeout=100 "$@" \
    sh -c 'touch $0/started.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK $(uname -n)' "$work" >said 2>&1 &
  job=$!
  wait_until have_started_two
  wait_until listed node0
}
have_started_two() { test -e started.0.1 -a -e started.1.1; }
no_shell_on() { none_on "$1" '^nacre-shell: '; }

@test "hosts join, run commands, and leave again; the tasks do not notice" {
  start_run --arity=2
  [ "$(nacre node3 grow --hosts="node[2-3]")" = "node[2-3]" ]
  [ "$(nacre node1 exec uname -n | sort | tr '\n' ' ')" = "node0: node0 node1: node1 node2: node2 node3: node3 " ]
  [ "$(nacre node2 jobs --json | jq -c '[.tasks, .shells, .spares]')" = "[2,4,2]" ]
  [ "$(nacre node0 shrink --hosts=node2)" = node2 ]
  wait_until no_shell_on node2
  # The same host again, with a new shell.
  [ "$(nacre node0 grow --hosts=node2 --json | jq -r .joined)" = 4 ]
  [ "$(nacre node0 ps --json | jq -r 'select(.spare).host' | sort | paste -sd,)" = "node2,node3" ]
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 0 node0\ndone 1 node1' ] || { cat said; return 1; }
  nothing_left
}

# bats test_tags=long
@test "a host that joins takes over the tasks of one that dies" {
  start_run --on-lost=replace -o lost-after=2s
  nacre node0 grow --hosts=node3
  "$vcluster" kill node1 --power
  wait_until test -e started.1.2
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 0 node0\ndone 1 node3' ] || { cat said; return 1; }
  "$vcluster" boot node1
}

# bats test_tags=long
@test "a host that cannot be reached is named, and one that is cut off while it joins; the job goes on" {
  start_run
  "$vcluster" kill node3 --power
  code=0
  nacre node0 grow --hosts="node[2-3]" --wait=20s >grown 2>&1 || code=$?
  "$vcluster" boot node3
  [ "$code" -eq 1 ]
  grep -q '^node2$' grown || { cat grown; return 1; }
  grep -q '^nacre grow: shell 3 on node3 has not joined: ' grown || { cat grown; return 1; }
  touch go
  ends_with 0
  nothing_left
}

# bats test_tags=long
@test "a job that srun has started cannot grow, and says so" {
  write_waiters
  start_by_srun
  code=0
  nacre node0 grow --hosts=node3 >grown 2>&1 || code=$?
  [ "$code" -eq 1 ]
  grep -q 'nacre has not started the shells of this job, so it cannot start more' grown || { cat grown; return 1; }
  touch go
  ends_with 0
  nothing_left
}
