#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre exec over hosts: it is run on another host than the leader's, reaches that by ssh or srun, and the other hosts by the shells' links.
load jobs.bash

cluster=(4 --slurm)

everywhere=$'node0: node0\nnode1: node1\nnode2: node2\nnode3: node3'

@test "over ssh: once on each host, from another one; what fails is named" {
  start_sleepers node1
  wait_until listed node1
  [ "$(nacre node3 exec uname -n | sort)" = "$everywhere" ]
  [ "$(nacre node3 exec -b echo a)" = $'---------------\nnode[0-3] (4)\n---------------\na' ]
  [ "$(nacre node3 exec -w node2 uname -n)" = node2 ]
  run nacre node3 exec -r 2,3 sh -c '[ $FLUX_TASK_RANK = 3 ] || exit 6'
  [ "$status" -eq 6 ]
  [ "$output" = "nacre exec: 2: exited with code 6" ]
  run -127 nacre node3 exec -x node0 no-such-command
  [ "$status" -eq 127 ]
  [[ $output == *"nacre exec: node[1-3]: no-such-command: No such file or directory"* ]]
  [ "$(echo text | nacre node3 exec -i cat | sort | uniq -c | wc -l)" -eq 4 ]
  nacre node3 kill last
  ends_with 143
  nothing_left
}

@test "a host that is lost is refused and named, and the command never runs elsewhere" {
  start_sleepers node1 -o tolerate-loss
  wait_until listed node1
  nacre node1 exec sh -c 'echo up; exec sleep 76543' >up 2>others &
  waiting=$!
  up() { [ "$(wc -l <up)" -eq 4 ]; }
  wait_until up
  "$vcluster" exec node2 pkill -KILL -f '^nacre-shell: '
  lost_said() { nacre node1 exec true 2>&1 | grep -x "nacre exec: not on node2, which the job has lost"; }
  wait_until lost_said
  for hosts in node2 'node[2-3]'; do
    run nacre node1 exec -w "$hosts" touch "$work/ran"
    [ "$status" -eq 1 ]
    [ "$output" = "nacre exec: nothing is started, as node2 is lost: leave it out with -x" ]
  done
  [ ! -e ran ]
  nacre node1 kill last
  wait "$waiting" || :
  grep -x "nacre exec: node2: lost" others
  wait "$job" || :
  nothing_left
}

@test "a job that srun has started" {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; exec sleep 76543' "$work"
  start_by_srun
  step=$(nacre node0 jobs --json | jq -r '"\(.manager.job).\(.manager.step)"')
  [ "$(nacre node3 exec "slurm:$step" uname -n | sort)" = "$everywhere" ]
  run nacre node3 exec "slurm:$step" sh -c 'exit 9'
  [ "$status" -eq 9 ]
  nacre node3 cancel "slurm:$step"
  ends_with 143
  nothing_left
}
