#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Spares over hosts: of jobs over ssh, and of those that srun has started.
load jobs.bash

cluster=(4 --slurm)

# HOST OPTION...: nacre run there, with three tasks on as many hosts and one spare, until there is the file go. It is $job.
start_run() {
  limit=150 on "$1" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N 3+1 "${@:2}" \
    sh -c 'touch $0/started.$FLUX_TASK_RANK; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK $FLUX_JOB_NNODES $(uname -n)' "$work" >said 2>&1 &
  job=$!
  wait_until have_started_three
  wait_until listed "$leader"
}
have_started_three() { test -e started.0 -a -e started.1 -a -e started.2; }

all_done() {
  [ "$(grep '^done' said | sort)" = $'done 0 3 node0\ndone 1 3 node1\ndone 2 3 node2' ] || { cat said; return 1; }
}

spare_is() { # HOST, or none
  [ "$(nacre "$leader" ps --json | jq -r 'select(.spare).host')" = "$1" ]
}

# What a spare does over hosts: it has no tasks, is reached, and is lost without an end of the job.
spare_serves() {
  spare_is node3
  [ "$(nacre "$leader" jobs --json | jq -c '[.tasks, .shells, .spares]')" = "[3,4,1]" ]
  [ "$(nacre "$leader" exec -w node3 uname -n)" = node3 ]
}

spare_is_killed() {
  "$vcluster" exec node3 pkill -KILL -x nacre-shell
  wait_until grep -q "shell 3 on node3, a spare, is lost" said
  spare_is ""
}

@test "over ssh: the last host is the spare; it may be lost" {
  leader=node0
  start_run node0 --hosts="node[0-3]" --timeout=100
  spare_serves
  spare_is_killed
  touch go
  ends_with 0
  all_done
  nothing_left
}

@test "over ssh: a shrink takes the spare first, and gives the last host up at once" {
  leader=node0
  start_run node0 --hosts="node[0-3]" --timeout=100
  [ "$(nacre node2 shrink --count=1 --tasks=refuse)" = node3 ]
  wait_until none_on node3 '^nacre-shell: '
  spare_is ""
  touch go
  ends_with 0
  all_done
  nothing_left
}

@test "by srun: nacre run -N 3+1 --srun; the spare leaves, and later the job ends well" {
  leader=node0
  start_run node0 --srun
  spare_serves
  [ "$(nacre node2 shrink --count=1)" = node3 ]
  wait_until none_on node3 '^nacre-shell: '
  # Longer than srun's --wait is without spares.
  sleep 5
  touch go
  ends_with 0
  all_done
}

@test "by an srun of one's own: -o spares=1, and the spare is killed" {
  leader=node0
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK $FLUX_JOB_NNODES $(uname -n)' "$work"
  jq '.resources[0].count = 3' jobspec.json >three.json
  mv three.json jobspec.json
  limit=150 slurm node0 -N4 --ntasks-per-node=1 --mpi=pmi2 --kill-on-bad-exit=0 --wait=0 "$NACRE_SHELL" "${job_options[@]}" -o spares=1 >said 2>&1 &
  job=$!
  wait_until have_started_three
  wait_until listed node0
  spare_serves
  spare_is_killed
  touch go
  code=0
  wait "$job" || code=$?
  all_done
}

@test "over ssh: the spare's host loses its power, and the job goes on" {
  leader=node0
  start_run node0 --hosts="node[0-3]" --timeout=100 -o lost-after=2s
  "$vcluster" kill node3 --power
  wait_until grep -q "shell 3 on node3, a spare, is lost" said
  touch go
  ends_with 0
  all_done
  "$vcluster" boot node3
}

@test "over ssh and by srun: a bad host is left out before tasks start, and remembered; one that goes bad is replaced" {
  leader=node0
  local way
  for way in "--hosts=node[0-3] --timeout=100" --srun; do
    rm -f go started.* bad
    # shellcheck disable=SC2086
    start_run node0 $way -o health.timeout=60s -o health.command='[ $NACRE_HEALTH_HOST != node1 ] || { echo worn; exit 1; }'
    grep -q "health: node1 is bad: command: worn; its tasks start on the spare shell 3 on node3" said || { cat said; return 1; }
    touch go
    ends_with 0
    [ "$(grep '^done' said | sort)" = $'done 0 3 node0\ndone 1 3 node3\ndone 2 3 node2' ] || { cat said; return 1; }
    rm -f go started.*
    # shellcheck disable=SC2086
    limit=150 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N 3+1 $way --on-lost=replace --restart=on-failure,backoff=0 -o health.timeout=60s \
      -o health.command="[ \$NACRE_HEALTH_HOST != node2 ] || [ ! -e $work/bad ]" \
      sh -c 'touch $0/started.$FLUX_TASK_RANK; [ $FLUX_TASK_RANK != 2 ] || [ -e $0/bad ] || { touch $0/bad; exit 1; }; echo done $FLUX_TASK_RANK $(uname -n)' "$work" >said 2>&1 &
    job=$!
    ends_with 0
    [ "$(grep '^done' said | sort)" = $'done 0 node0\ndone 1 node1\ndone 2 node3' ] || { cat said; return 1; }
    grep -q "health: node2 is bad: .*; its shell counts as lost, so that its tasks start elsewhere" said || { cat said; return 1; }
    grep -q "found bad by earlier jobs: node1 0 min ago (command: worn)" said || { cat said; return 1; }
  done
  [ "$(nacre node0 report --hosts --json | jq -r .host | sort | uniq -c | awk '{ print $2, $1 }')" = $'node1 2\nnode2 2' ]
  nothing_left
}
