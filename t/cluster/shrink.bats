#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre shrink over hosts: of jobs over ssh and of those that srun has started, from another host than the leader's.
load lib.bash
load jobs.bash

cluster=(4 --slurm)

# A shell's process ends a moment after the shell has reported that it leaves.
no_shell_on() { none_on "$1" '^nacre-shell: ' && none_on "$1" '^sh -c touch'; }

@test "over ssh: hosts leave, nothing is left on them, and the others end well" {
  write_waiters
  limit=150 launch node1 >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node1
  [ "$(nacre node3 shrink --hosts=node2)" = node2 ]
  wait_until no_shell_on node2
  [ "$(nacre node1 shrink --count=1 --json | jq -r .hosts)" = node3 ]
  wait_until no_shell_on node3
  [ "$(nacre node1 ps -q | wc -l)" -eq 2 ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 2 ]
  nothing_left
}

@test "a deep tree: an inner shell leaves, those below it go on" {
  write_waiters
  limit=150 launch node1 --arity=2 >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node1
  [ "$(nacre node3 shrink --shells=1)" = node1 ]
  wait_until none_on node1 '^sh -c touch'
  [ "$(nacre node3 exec uname -n | sort | tr '\n' ' ')" = "node0: node0 node2: node2 node3: node3 " ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 3 ]
  nothing_left
}

@test "a job that srun has started" {
  write_waiters
  start_by_srun
  [ "$(nacre node3 shrink --hosts='node[1-2]')" = "node[1-2]" ]
  wait_until no_shell_on node1
  wait_until no_shell_on node2
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 2 ]
  nothing_left
}

@test "a job that nacre has started by srun goes on however long a shell has been gone" {
  write_waiters
  limit=150 on node3 "$NACRE_BUILD_DIR/nacre" launch --srun -n 4 --shell="$NACRE_SHELL" "${job_options[@]}" >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node0
  [ "$(nacre node3 shrink --hosts=node2)" = node2 ]
  wait_until no_shell_on node2
  # Longer than the 4 s that srun once gave the others: that an end does not come has no other sign than time.
  sleep 6
  [ "$(nacre node3 ps -q | wc -l)" -eq 3 ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 3 ]
  nothing_left
}
