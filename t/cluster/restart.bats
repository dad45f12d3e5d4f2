#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# restart over hosts: a task that fails starts again where it was, or all tasks do. nacre restart from another host
# than the leader's.
load jobs.bash

cluster=(4 --slurm)

# OPTION...: runs nacre run from node0, with a task on each host; the task on node2 fails once.
restarted() {
  code=0
  limit=150 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N 4 --report="$work/report" --timeout=100 "$@" \
    sh -c 'echo start $FLUX_TASK_RANK $NACRE_TASK_TRY $(uname -n); [ $FLUX_TASK_RANK$NACRE_TASK_TRY != 21 ] || { sleep 1; exit 3; }; sleep 2' >said 2>&1 || code=$?
  [ "$code" -eq 0 ] || { cat said; return 1; }
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-3"]]' ] || { jq . report; return 1; }
}

# bats test_tags=long
@test "over ssh: a task that fails starts again on its host" {
  restarted --hosts="node[0-3]" --restart=on-failure,backoff=100ms
  grep -q "restart: rank 2 on node2 exited with code 3: try 2 of it starts in 100ms (restart 1 of 3)" said || { cat said; return 1; }
  [ "$(grep '^start' said | sort)" = $'start 0 1 node0\nstart 1 1 node1\nstart 2 1 node2\nstart 2 2 node2\nstart 3 1 node3' ] || { cat said; return 1; }
}

@test "by srun: all tasks start again together, each on its host" {
  restarted --srun --restart=on-failure,backoff=100ms,scope=job
  grep -q "restart: rank 2 on node2 exited with code 3: all tasks of the job start again in 100ms (restart 1 of 3)" said || { cat said; return 1; }
  [ "$(grep '^start' said | sort | paste -sd,)" = "start 0 1 node0,start 0 2 node0,start 1 1 node1,start 1 2 node1,start 2 1 node2,start 2 2 node2,start 3 1 node3,start 3 2 node3" ] || { cat said; return 1; }
}

# A job over all hosts that can be restarted: its tasks note their tries, and end once there is the file go.
write_restartable() {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK $0/try.$FLUX_TASK_RANK.$NACRE_TASK_TRY; until test -e $0/go; do sleep 0.2; done
    echo done $FLUX_TASK_RANK $NACRE_TASK_TRY $(uname -n)' "$work"
  job_options+=(-o restart=on-request)
}

# One task of the job, then all, from node3; they are where they were.
restart_from_node3() {
  [ "$(nacre node3 restart --ranks=2)" = 2 ]
  wait_until test -e try.2.2
  [ "$(nacre node3 restart)" = 0-3 ]
  for try in 0.2 1.2 2.3 3.2; do wait_until test -e "try.$try"; done
  touch go
  ends_with 0
  [ "$(grep -o 'done .*' said | sort)" = $'done 0 2 node0\ndone 1 2 node1\ndone 2 3 node2\ndone 3 2 node3' ] || { cat said; return 1; }
  nothing_left
}

@test "nacre restart of a job over ssh" {
  write_restartable
  limit=150 launch node1 --arity=2 >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node1
  restart_from_node3
}

# bats test_tags=long
@test "nacre restart of a job that srun has started" {
  write_restartable
  start_by_srun
  restart_from_node3
}
