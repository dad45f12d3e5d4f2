#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# restart over hosts: a task that fails starts again where it was; and all of them together.
load lib.bash
load jobs.bash

cluster=(4 --slurm)

# OPTION...: nacre run from node0, with a task on each host, of which that on node2 fails once.
restarted() {
  code=0
  limit=150 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N 4 --report="$work/report" --timeout=100 "$@" \
    sh -c 'echo start $FLUX_TASK_RANK $NACRE_TASK_TRY $(uname -n); [ $FLUX_TASK_RANK$NACRE_TASK_TRY != 21 ] || { sleep 1; exit 3; }; sleep 2' >said 2>&1 || code=$?
  [ "$code" -eq 0 ] || { cat said; return 1; }
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-3"]]' ] || { jq . report; return 1; }
}

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
