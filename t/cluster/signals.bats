#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A signal while a job over four hosts starts: each signal, each moment and each way at least once. All of them together:
# signals_all.bats.
load faults.bash
load signals.bash

cluster=(4 --slurm)

setup_file() { start_cluster && build_hold; }

@test "ssh: a signal while a shell has not joined" { not_joined_at TERM; }

@test "ssh: a signal while a shell is in shell.init, shell.post-init or task.init" {
  held_at ssh INT shell.init '*'
  held_at ssh HUP shell.post-init 2
  held_at ssh QUIT task.init 2
}

@test "srun: a signal while a shell is in shell.init, shell.post-init or task.init" {
  held_at srun QUIT shell.init '*'
  held_at srun TERM shell.post-init 2
  held_at srun INT task.init 2
}

@test "srun: a signal to one shell while another, or that one, has not joined" {
  one_gets INT node0 node2
  one_gets TERM node2 node0
  one_gets HUP node3 node1
  one_gets QUIT node1 node1
}
