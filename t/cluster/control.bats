#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Jobs that are seen and signalled from other hosts than their leader's: over ssh, and by srun in a job of Slurm. All hosts have the same
# list of jobs, as with a home directory that they share.
load jobs.bash

cluster=(4 --slurm)

@test "a job is seen, signalled and waited for from another host, over ssh" {
  start_sleepers node1 -o exit-timeout=2s
  wait_until listed node1
  leader=node0 # the first of the job's hosts; the launcher's is another
  [ "$(nacre "$leader" jobs --json | jq -c '[.status, .shells, .place.host]')" = '["R",4,"node0"]' ]
  other=node3
  [ "$(nacre "$other" jobs --json | jq -r .status)" = U ]
  run nacre "$other" ps -v -q
  [ "$status" -eq 0 ]
  [[ ${lines[0]} == *"reached by ssh"* ]]
  for rank in 0 1 2 3; do
    read -r -a cells <<<"${lines[rank + 1]}"
    [ "${cells[0]} ${cells[1]} ${cells[8]}" = "$rank node$rank sleep" ]
  done
  [ "$(nacre "$other" top --json -n 2 -d 0.3 | jq -sc 'map([.nnodes, (.nodes | map(.host)), (.nodes | map(.tasks))])')" = \
    '[[4,["node0","node1","node2","node3"],[1,1,1,1]],[4,["node0","node1","node2","node3"],[1,1,1,1]]]' ]
  nacre "$other" wait last &
  waiting=$!
  nacre "$other" kill --ranks=2 last
  ends_with 143
  code=0
  wait "$waiting" || code=$?
  [ "$code" -eq 143 ]
  run -0 nacre "$other" report last --json
  [ "$(jq -c '[.end.code, .place.host]' <<<"$output")" = "[143,\"$leader\"]" ]
  nothing_left
}

@test "a job that srun has started is reached by srun, and known by its step" {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; exec sleep 76543' "$work"
  start_by_srun
  step=$(nacre node0 jobs --json | jq -r '"\(.manager.job).\(.manager.step)"')
  leader=$(nacre node0 jobs --json | jq -r .place.host)
  other=node3
  [ "$other" != "$leader" ]
  run nacre "$other" ps -v -q "slurm:$step"
  [ "$status" -eq 0 ]
  [[ ${lines[0]} == *"reached by srun"* ]]
  [ "${#lines[@]}" -eq 5 ]
  [ "$(nacre "$other" top --once "slurm:$step" | wc -l)" -eq 7 ]
  nacre "$other" cancel "slurm:$step"
  ends_with 143
  [ "$(nacre "$other" jobs -a --json | jq -c '[.status, .end.code]')" = '["F",143]' ]
  nothing_left
}

# bats test_tags=long
@test "a host that goes leaves a job that others do not judge" {
  start_sleepers node1
  wait_until listed node1
  id=$(nacre node1 jobs -q)
  leader=$(nacre node1 jobs --json | jq -r .place.host)
  pid=$(nacre node1 jobs --json | jq .pid)
  "$vcluster" exec "$leader" kill -KILL "$pid"
  wait "$job" || :
  # The leader's guard has written this.
  wait_until bash -c "grep -q '\"vanished\":true' '$NACRE_JOBS_DIR/$id.json'"
  [ "$(nacre node3 jobs -a --json | jq -r .status)" = V ]
  nothing_left
}
