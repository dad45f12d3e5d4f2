#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What needs an MPICH that can spawn and go on without a rank: that of mpich_ch3, in MPICH_CH3.
load ../e2e/lib.bash
load ../e2e/nodes.bash
load ../e2e/plugins.bash

setup_file() {
  : "${MPICH_CH3:?folder that mpich_ch3 has installed to}"
  export programs=$BATS_FILE_TMPDIR
  for name in hello allreduce alltoall abort die spawn spawned publish survive; do
    "$MPICH_CH3/bin/mpicc" -Wall -Wextra -O1 -o "$programs/$name" "$NACRE_SOURCE_DIR/t/e2e/mpi/$name.c"
  done
}

# A job of $1 tasks of the program $2 of t/e2e/mpi with the other arguments.
mpi() {
  environment='{"PATH": "/usr/bin:/bin", "MARK": "'$work'", "MPIR_CVAR_ENABLE_FT": "1", "MPIR_CVAR_NOLOCAL": "'${nolocal:-0}'"}' \
    prepare "$1" "$programs/$2" "${@:3}"
  run timeout 120 "${nacre[@]}" "${flags[@]}"
}

# The run ended with code $1, and said just $2.
says() {
  [ "$status" -eq "$1" ] || { echo "exit code $status, not $1: $output"; return 1; }
  [ "$output" = "$2" ] || { echo "said: $output"; return 1; }
  nothing_left
}

# Four ranks got over the loss of rank $1.
survives() {
  output=$(sort <<<"$output")
  says 137 "nacre-shell[0]: warn: pmi: rank $1 on node0 is lost; the others go on
survive ok, 3 of 4 ranks"
}

@test "collective operations, in shared memory and over TCP" {
  for nolocal in 0 1; do
    mpi 8 allreduce
    says 0 "allreduce ok, 8 ranks"
    mpi 16 alltoall
    says 0 "alltoall ok, 16 ranks"
  done
}

@test "MPI_Comm_spawn" {
  mpi 3 spawn "$programs/spawned" 4
  says 0 "spawn ok, 3 ranks spawned 4"
}

@test "MPI_Comm_spawn_multiple" {
  mpi 2 spawn "$programs/spawned" 3 2
  says 0 "spawn ok, 2 ranks spawned 5"
}

# A job of $1 tasks on $2 nodes of two cores each of the program `spawn` with the other arguments; `spares` may have some more.
spawns_over() {
  write_nodes $(($2 + ${spares:-0})) 2
  environment='{"PATH": "/usr/bin:/bin", "MARK": "'$work'"}' write_jobspec "$1" "$programs/spawn" "${@:3}"
  run timeout 120 "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off \
    --local=$(($2 + ${spares:-0})) --spares="${spares:-0}"
}

@test "MPI_Comm_spawn over several nodes, onto free cores, spares and nodes without tasks" {
  spawns_over 3 3 "$programs/spawned" 3
  says 0 "spawn ok, 3 ranks spawned 3"
  spares=2 spawns_over 2 1 "$programs/spawned" 3 2
  says 0 "spawn ok, 2 ranks spawned 5"
  spawns_over 1 4 "$programs/spawned" 7
  says 0 "spawn ok, 1 ranks spawned 7"
  spawns_over 4 2 "$programs/spawned" 8
  says 0 "spawn ok, 4 ranks spawned 8"
  spawns_over 2 2 /no/such/program 2
  [ "$status" -ne 0 ]
  [[ $output == *"rank 0 on node0: spawn of /no/such/program: /no/such/program: No such file or directory"* ]] || { echo "$output"; return 1; }
  nothing_left
}

@test "MPI_Comm_spawn of a program that is not there" {
  mpi 2 spawn /no/such/program 2
  [ "$status" -ne 0 ]
  [[ $output == *"spawn of /no/such/program: /no/such/program: No such file or directory"* ]]
  nothing_left
}

@test "names are published, and ports connected to" {
  mpi 2 publish
  says 0 "publish ok, 2 ranks"
  mpi 3 publish connect
  says 0 "publish ok, 3 ranks"
}

@test "MPI_Abort ends the job with its code" {
  mpi 4 abort 2 7
  [ "$status" -eq 7 ]
  [[ $output == *"error: rank 2 on node0 called PMI_Abort with code 7"* ]]
  nothing_left
}

@test "a rank that dies ends the job, wherever it was" {
  for place in before-init in-barrier before-finalize in-finalize; do
    mpi 3 die 1 "$place"
    [ "$status" -eq 137 ] || { echo "$place: $status: $output"; return 1; }
    [[ $output == *"error: rank 1 on node0 killed by SIGKILL "* ]] || { echo "$place: $output"; return 1; }
    nothing_left
  done
}

@test "fault-tolerance: over TCP the others see the loss by themselves, and go on" {
  for lost in 0 1 3 0 1 3 0 1 3; do
    flags=(-o fault-tolerance -o exit-report=off)
    nolocal=1 mpi 4 survive "$lost"
    survives "$lost"
  done
}

@test "fault-tolerance: in shared memory they are told by a signal" {
  for lost in 0 1 3; do
    flags=(-o fault-tolerance -o fault-tolerance.signal=SIGUSR1 -o exit-report=off)
    mpi 4 survive "$lost"
    survives "$lost"
  done
}
