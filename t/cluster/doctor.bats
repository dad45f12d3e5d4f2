#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre doctor over hosts: it is run on another host than the leader's, and names the hosts of tasks that hang.
load jobs.bash

cluster=(4)

doctor() { run nacre node3 doctor --twice=0.3 "$@"; }
kinds() { nacre node3 doctor --json --twice=0.3 | jq -r '.verdicts[] | "\(.kind) \(.ranks)"'; }
concludes() { kinds | grep -qx -- "$1"; }
shows() { grep -qE -- "$1" <<<"$output" || { echo "no line: $1"; echo "$output"; return 1; }; }

@test "a task on one of four hosts is stopped, and the shell of another host stands still" {
  start_sleepers node1 -o lost-after=100s
  wait_until listed node1
  wait_until concludes "alike 0-3"
  nacre node3 kill -s STOP --ranks=2 last
  wait_until concludes "stopped 2"
  doctor --stacks
  [ "$status" -eq 0 ]
  shows '^3 of 4  0-1,3 +.*nanosleep'
  shows '^1 of 4  2 \(node2\) .*is stopped'
  shows '^=> rank 2 \(node2\) is stopped: nacre kill -s CONT JOB lets them go on$'
  shows '^=> rank 2 \(node2\) is not where the others are: 3 of 4'
  nacre node3 kill -s CONT --ranks=2 last
  "$vcluster" exec node2 pkill -STOP -f '^nacre-shell: '
  doctor
  "$vcluster" exec node2 pkill -CONT -f '^nacre-shell: '
  [ "$status" -eq 1 ]
  shows '^3 of 4  0-1,3 +sleep waits in a call that has been interrupted before'
  shows '^=> shell 2 on node2 has not answered in time: .* it has 1 task, 2$'
  wait_until concludes "alike 0-3"
  nacre node3 kill last
  ends_with 143
  nothing_left
}
