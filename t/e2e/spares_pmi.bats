#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What programs of PMI and PMIx see of a job with spares: only the nodes that have tasks; and they go on when a spare is lost or leaves.
load control.bash
load pmix.bash

client=$BATS_TEST_DIRNAME/pmi_client

setup_file() {
  build_clients across stay
  mpicc.mpich -Wall -Wextra -O1 -o "$BATS_FILE_TMPDIR/allreduce" "$BATS_TEST_DIRNAME/mpi/allreduce.c"
}

# Commands of PMI-1 for four ranks on two nodes, whose answers show no spares.
looks=('cmd=get_universe_size' has:size=-1 'cmd=get kvsname=%k key=PMI_process_mapping' 'has:value=(vector,(0,2,2))')

@test "PMI-1: the map and the universe have only nodes with tasks; barriers go through" {
  write_nodes 4 2
  write_jobspec 4 "$client" init "${looks[@]}" barrier barrier finalize
  run launch -R R.json -o cpu-affinity=off --local=4 --spares=2
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ -z "$output" ] || { echo "$output"; return 1; }
}

is_in() { for rank in 0 1 2 3; do test -e "in.$rank" || return 1; done; }

# Starts four ranks on two nodes, with two spares, which wait for the file go between two barriers.
start_clients() {
  write_nodes 4 2
  steps="'$client' init ${looks[*]@Q} barrier touch:in.%r wait:go barrier 'cmd=put kvsname=%k key=k%r value=v' barrier finalize touch:out.%r"
  write_jobspec 4 sh -c "exec $steps"
  launch -R R.json -o cpu-affinity=off --local=4 --spares=2 >out 2>err &
  launcher=$!
  wait_until listed
  wait_until is_in
}

# bats test_tags=long
@test "PMI-1: a spare is lost and another leaves between barriers" {
  start_clients
  kill -KILL "$(pid_of_shell 2)"
  wait_until grep -qF "shell 2 on node2, a spare, is lost" err
  [ "$("$front" shrink --count=1)" = node3 ]
  touch go
  ends_with 0
  for rank in 0 1 2 3; do [ -e "out.$rank" ]; done
}

# bats test_tags=long
@test "PMI-1: a spare is lost while the others are in a barrier" {
  write_nodes 3 1
  write_jobspec 2 sh -c "exec '$client' init barrier touch:in.%r 1:wait:go barrier finalize"
  launch -R R.json -o cpu-affinity=off --local=3 --spares=1 >out 2>err &
  launcher=$!
  wait_until listed
  wait_until test -e in.0 -a -e in.1
  kill -KILL "$(pid_of_shell 2)"
  wait_until grep -qF "shell 2 on node2, a spare, is lost" err
  touch go
  ends_with 0
}

# bats test_tags=long
@test "PMIx: nodes, their number and the universe are those with tasks" {
  write_nodes 3 2
  environment='{"PATH": "/usr/bin:/bin", "MARK": "'$work'"}' write_jobspec 4 "$BATS_FILE_TMPDIR/across" places
  echo 'plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }' >rc.lua
  run_with_pmix "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json --local=3 --spares=1 \
    -o cpu-affinity=off -o pmi=pmix -- --initrc=rc.lua
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(grep -c "nodes node0,node1, 2 of them, universe 4" <<<"$output")" -eq 4 ] || { echo "$output"; return 1; }
}

# bats test_tags=long
@test "PMIx: a spare that is lost, and one that leaves, take nobody with them" {
  echo 'plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }' >rc.lua
  write_nodes 4 2
  write_jobspec 2 sh -c "exec '$BATS_FILE_TMPDIR/stay' 2"
  launch -R R.json -o cpu-affinity=off --local=4 --spares=2 -o pmi=pmix -o per-resource.type=node -- --initrc="$PWD/rc.lua" >out 2>err &
  launcher=$!
  wait_until listed
  wait_until test -e in.0 -a -e in.1
  kill -KILL "$(pid_of_shell 2)"
  wait_until grep -qF "shell 2 on node2, a spare, is lost" err
  [ "$("$front" shrink --count=1)" = node3 ]
  touch go
  ends_with 0
  [ -e out.0 ] && [ -e out.1 ]
}

# bats test_tags=long
@test "MPICH: a collective of MPI beside spares" {
  write_nodes 4 2
  write_jobspec 4 "$BATS_FILE_TMPDIR/allreduce"
  run launch -R R.json -o cpu-affinity=off --local=4 --spares=2
  [ "$status" -eq 0 ]
  [ "$output" = "allreduce ok, 4 ranks" ] || { echo "$output"; return 1; }
}
