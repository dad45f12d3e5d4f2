#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The client's side of PMI, by which shells find each other, with servers of others and our own.
load lib.bash

probe=$NACRE_BUILD_DIR/t/e2e/pmi_probe

# The run was fine, and $1 ranks have seen all cards.
all_found() {
  local rank expected=""
  for ((rank = 0; rank < $1; ++rank)); do expected+="rank $rank of $1: $1 cards"$'\n'; done
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$(sort -V <<<"$output")"$'\n' = "$expected" ] || { echo "said: $output"; return 1; }
}

# bats test_tags=long
@test "under nacre-shell itself" {
  for bytes in 0 1 100 5000; do
    prepare 8 "$probe" "$bytes"
    run nacre
    all_found 8
  done
}

@test "under MPICH's Hydra" {
  for bytes in 0 1 100 5000; do
    run timeout 100 mpiexec.mpich -n 8 "$probe" "$bytes"
    all_found 8
  done
}

@test "without a PMI server it is told what is missing" {
  run -1 "$probe"
  [ "$output" = "pmi_probe: PMI_FD is not set: is this a process of a PMI server?" ]
  PMI_FD=0 run -1 "$probe"
  [ "$output" = "pmi_probe: PMI_SIZE is not set: is this a process of a PMI server?" ]
  PMI_FD=0 PMI_SIZE=2 PMI_RANK=2 run -1 "$probe"
  [ "$output" = "pmi_probe: PMI_RANK: 2 is not below PMI_SIZE, 2" ]
  PMI_FD=x PMI_SIZE=2 PMI_RANK=0 run -1 "$probe"
  [ "$output" = "pmi_probe: PMI_FD: expected a number up to 1073741824, got 'x'" ]
  PMI_FD=77 PMI_SIZE=2 PMI_RANK=0 run -1 "$probe"
  [ "$output" = "pmi_probe: PMI_FD=77: Bad file descriptor" ]
}
