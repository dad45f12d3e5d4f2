#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What frameworks make of the variables of tasks (frameworks.py has their rules): over ssh and in an allocation of
# Slurm, with --torch and without. No framework may be misled by a part of a manager's variables.
load jobs.bash

cluster=(3 --slurm)

# WAY OPTION...: four tasks on two hosts, cyclic, so that a rank does not follow from its place.
run_frameworks() {
  local way=$1 place=(salloc --quiet -N2 -n4 --time=2 --job-name=train)
  shift
  [ "$way" = slurm ] || place=(env)
  [ "$way" = slurm ] || set -- --hosts=node0,node1 "$@"
  on node0 "${place[@]}" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -n 4 --tasks-per-node=2 --taskmap=cyclic "$@" \
    sh -c 'python3 "$0" | sed "s/^/$NACRE_TASK_RANK: /"' "$NACRE_SOURCE_DIR/t/cluster/frameworks.py" </dev/null
}

# HOST NAME...: by the rules of these frameworks each rank sees its real place; with HOST none: no rank sees a
# place.
all_see() {
  local name
  for name in "${@:2}"; do sees "$name" "$1" || return; done
}
sees() {
  local rank expected
  for rank in 0 1 2 3; do
    expected="$rank: $1 rank=$rank size=4 local=$((rank / 2)) at=$2"
    [ "$2" != none ] || expected="$rank: $1 none"
    [ "$1 $2" != "tensorflow -" ] || expected="$rank: $1 rank=$rank size=4 local=None at=None"
    grep -qxF "$expected" <<<"$output" || { echo "expected $expected: $output"; return 1; }
  done
}

# bats test_tags=long
@test "with --torch, over ssh: what goes by torchrun's variables finds its group, what goes by Slurm's finds none" {
  run run_frameworks ssh --torch
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  all_see node0 lightning accelerate deepspeed
  all_see none jax tensorflow submitit
}

@test "with --torch, in an allocation of Slurm: all of them do" {
  run run_frameworks slurm --torch
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  all_see node0 lightning accelerate deepspeed jax submitit
  sees tensorflow -
}

# bats test_tags=long
@test "without --torch, in an allocation of Slurm: as under srun" {
  run run_frameworks slurm
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  all_see node0 lightning jax submitit
  all_see none deepspeed
  all_see None accelerate
  sees tensorflow -
}

# bats test_tags=long
@test "without --torch, over ssh: only MPI's variables are there" {
  run run_frameworks ssh
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  all_see none lightning jax submitit deepspeed
  all_see None accelerate
}
