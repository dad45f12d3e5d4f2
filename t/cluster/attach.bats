#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre attach from other hosts than the leader's: through a bridge, by ssh and by srun.
load lib.bash
load jobs.bash

cluster=(4 --slurm)

has() { grep -qxF -- "$2" "$1"; }

ends_with() { # process code
  local code=0
  wait "$1" || code=$?
  [ "$code" -eq "$2" ] || { echo "exit code $code, not $2: $(cat said)"; return 1; }
}

script='echo "early $FLUX_TASK_RANK"; until test -e $0/go; do sleep 0.1; done; echo "late $FLUX_TASK_RANK"; exit $FLUX_TASK_RANK'

# The output of two viewers on other hosts, by what $1 says, of a job that runs and whose launcher is $job.
view_from_others() {
  wait_until listed node0
  leader=$(nacre node0 jobs --json | jq -r .place.host)
  viewers=()
  for other in node0 node1 node2 node3; do
    [ "$other" != "$leader" ] || continue
    nacre "$other" attach -v -l last >"$other.out" 2>"$other.err" &
    viewers+=("$!")
    wait_until has "$other.out" "3: early 3"
    grep -q "reached by $1" "$other.err"
  done
  touch go
  for each in "${viewers[@]}"; do ends_with "$each" 3; done
  ends_with "$job" 3
  for other in node0 node1 node2 node3; do
    [ "$other" != "$leader" ] || continue
    [ "$(sort "$other.out")" = "$(printf '%s\n' 0:\ {early,late}\ 0 1:\ {early,late}\ 1 2:\ {early,late}\ 2 3:\ {early,late}\ 3)" ]
  done
}

@test "a job over ssh is watched from three other hosts" {
  write_job 1 sh -c "$script" "$work"
  on node1 "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --hosts=node[0-3] "${job_options[@]}" >said 2>&1 &
  job=$!
  view_from_others ssh
}

@test "a job that srun has started is watched from three other hosts" {
  write_job 1 sh -c "$script" "$work"
  limit=150 slurm node0 -N4 --ntasks-per-node=1 --mpi=pmi2 "$NACRE_SHELL" "${job_options[@]}" >said 2>&1 &
  job=$!
  view_from_others srun
}

@test "a bridge that is killed: the viewer ends with an error, and can come again" {
  write_job 1 sh -c "$script" "$work"
  on node1 "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --hosts=node[0-3] "${job_options[@]}" >said 2>&1 &
  job=$!
  wait_until listed node0
  nacre node2 attach last >first.out 2>first.err &
  viewer=$!
  wait_until has first.out "early 3"
  bridge=$(pgrep -f "control --bridge $(nacre node0 jobs -q)") # with the agent that has started it: one ends with the other
  for each in $bridge; do kill -KILL "$each" 2>/dev/null || :; done
  ends_with "$viewer" 1
  grep -q "the link to its leader has ended" first.err
  nacre node2 attach last >second.out 2>second.err &
  viewer=$!
  wait_until has second.out "early 3"
  touch go
  ends_with "$viewer" 3
  ends_with "$job" 3
}
