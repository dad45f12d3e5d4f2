#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A signal while a job over four hosts starts: each of four at each of the moments, and at random ones, by ssh and by srun.
load faults.bash
load signals.bash

cluster=(4 --slurm)

setup_file() { start_cluster && build_hold; }

@test "ssh: a signal while a shell has not joined" {
  for signal in "${signals[@]}"; do not_joined_at "$signal"; done
}

# The way $1.
held_at_each_topic() {
  for signal in "${signals[@]}"; do
    held_at "$1" "$signal" shell.init '*'
    held_at "$1" "$signal" shell.post-init 2
    held_at "$1" "$signal" task.init 2
  done
}

@test "ssh: a signal while a shell is in shell.init, shell.post-init or task.init" { held_at_each_topic ssh; }
@test "srun: a signal while a shell is in shell.init, shell.post-init or task.init" { held_at_each_topic srun; }

@test "srun: a signal to one shell while another, or that one, has not joined" {
  for signal in "${signals[@]}"; do
    for host in node0 node1 node3; do
      for late in node0 node2 node3; do one_gets "$signal" "$host" "$late"; done
    done
  done
}

@test "ssh: a signal at any moment of a start" { at_random ssh 3; }
@test "srun: a signal at any moment of a start" { at_random srun 3; }
