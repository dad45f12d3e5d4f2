#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# mpiexec and mpirun on several hosts: over ssh, and in an allocation of Slurm, for MPICH (PMI-1), Open MPI (PMIx)
# and a program of PMI-2; each also with a failure some time after all have started.
load jobs.bash

cluster=(4 --slurm)

setup_file() {
  start_cluster && build_mpi_programs mpich allreduce abort && build_mpi_programs openmpi allreduce abort || return
  cc -Wall -Wextra -o "$programs/pmi2" "$NACRE_SOURCE_DIR/t/e2e/mpi/pmi2.c" -lpmi2
}

# WAY COMMAND...: runs the command on node0, or in an allocation of four hosts.
within() {
  local way=$1 place=(salloc --quiet -N4 -n8 --time=2)
  shift
  [ "$way" = srun ] || place=()
  on node0 "${place[@]}" env LD_PRELOAD="$preload" "$@" </dev/null
}

# WAY LAUNCHER ARGUMENT...: runs the launcher for all four hosts, with two ranks on each.
launch_mpi() {
  local way=$1 launcher=$2 hosts=()
  shift 2
  [ "$way" = srun ] || hosts=(-hosts "node0,node1,node2,node3" -ppn 2)
  within "$way" "$NACRE_BUILD_DIR/mpi/$launcher" "${hosts[@]}" "$@"
}

# Each program with the arguments that it needs.
@test "mpiexec and mpirun on four hosts, over ssh and in an allocation of Slurm, with MPICH, Open MPI and PMI-2" {
  local way case
  for way in ssh srun; do
    for case in "mpiexec allreduce.mpich $programs/ucx_leave.so" "mpirun allreduce.openmpi" "mpiexec pmi2"; do
      # shellcheck disable=SC2086 # words
      set -- $case
      preload=${3:-} run launch_mpi $way "$1" "$programs/$2"
      [ "$status" -eq 0 ] && [[ $output == *"${2%.*} ok, 8 ranks"* ]] || { echo "$way $case: exit code $status: $output"; return 1; }
    done
  done
  nothing_left
}

# bats test_tags=long
@test "a rank that fails or aborts two seconds after the start, on another host: its code, and none is left" {
  local way program
  for way in ssh srun; do
    # shellcheck disable=SC2016 # for the tasks
    preload='' run launch_mpi $way mpiexec sh -c 'sleep 2; [ "$PMI_RANK" = 5 ] && exit 7; sleep 60'
    [ "$status" -eq 7 ] && [[ $output == *"rank 5 on node"*"exited with code 7"* ]] || { echo "$way: $status: $output"; return 1; }
    for program in abort.mpich abort.openmpi; do
      preload='' run launch_mpi $way mpiexec "$programs/$program" 5 3
      [ "$status" -ne 0 ] && [ "$status" -ne 124 ] || { echo "$way $program: $status: $output"; return 1; }
    done
    nothing_left
  done
}

# bats test_tags=long
@test "SIGINT twice to mpiexec two seconds after the start ends all ranks, on all hosts" {
  local way hosts
  for way in ssh srun; do
    hosts=''
    [ "$way" = srun ] || hosts="-hosts node0,node1,node2,node3 -ppn 2"
    preload='' run within $way bash -c "'$NACRE_BUILD_DIR/mpi/mpiexec' $hosts sleep 60 & sleep 3; kill -INT \$!; sleep 0.5; kill -INT \$!; wait \$!"
    [ "$status" -eq 130 ] || { echo "$status: $output"; return 1; }
    nothing_left
  done
}

# OTHER LAUNCHER ARGUMENT...: nacre's launcher of that name puts its ranks where the other one does, in the same allocation.
places_as() {
  # shellcheck disable=SC2016 # for the tasks
  local other=$1 launcher=$2 show='echo ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} $(uname -n)'
  shift 2
  on node0 "${allocation[@]}" bash -c '"${@:3}" 2>other.err >other; "$2/mpi/$1" "${@:4}" 2>nacre.err >nacre' bash \
    "$launcher" "$NACRE_BUILD_DIR" "$other" "$@" sh -c "$show"
  [ -s other ]
  diff <(sort -n other) <(sort -n nacre) || { echo "$other ${allocation[*]} $*"; cat other.err nacre.err; return 1; }
}

@test "ranks are where Open MPI and Hydra put them: on one host after the other, by slots" {
  local n allocation=()
  printf 'node0 slots=2\nnode1 slots=1\nnode2 slots=3\n' >hosts
  for n in 1 2 3 5 6; do
    places_as mpirun.openmpi mpirun --allow-run-as-root --hostfile hosts -np $n
    places_as mpiexec.hydra mpiexec -hosts node0:2,node1:1,node2:3 -n $n
  done
  places_as mpirun.openmpi mpirun --allow-run-as-root -H node1:2,node2:2 -np 2
  places_as mpirun.openmpi mpirun --allow-run-as-root -H node1:2,node2:2 --map-by node -np 2
  allocation=(salloc --quiet -N2 -n4 --ntasks-per-node=2 --time=2)
  for n in 2 3; do places_as mpirun.openmpi mpirun --allow-run-as-root -np $n; done
  nothing_left
}

@test "an agent that is named starts the shells, in an allocation of Slurm too, and ssh as it is without" {
  mkdir bin
  printf '#!/bin/sh\necho "$*" >>%s/asked\nexec /usr/bin/ssh "$@"\n' "$PWD" | tee bin/ssh >agent
  chmod +x bin/ssh agent
  preload='' run --separate-stderr within srun env PATH="$PWD/bin:$PATH" "$NACRE_BUILD_DIR/mpi/mpiexec" -launcher ssh --mca plm_rsh_args -oConnectTimeout=77 hostname
  [ "$status" -eq 0 ] && [ "$(sort -u <<<"$output" | wc -l)" -eq 4 ] || { echo "$status: $output"; return 1; }
  [ "$(grep -c '^-oConnectTimeout=77 .*-oBatchMode=yes .*-oConnectTimeout=10 .* node[123] ' asked)" -eq 3 ] || { cat asked; return 1; }
  rm asked
  preload='' run within srun "$NACRE_BUILD_DIR/nacre" run --agent="$PWD/agent" hostname
  [ "$status" -eq 0 ] && [ "$(wc -l <asked)" -eq 3 ] || { echo "$status: $output"; return 1; }
  nothing_left
}

# The variables that frameworks read, as srun itself gives them to a step of the same size.
@test "in an allocation of Slurm tasks have srun's variables, each as srun has it" {
  local names='SLURM_(PROCID|LOCALID|NODEID|NTASKS|NPROCS|GTIDS|JOB_ID|JOB_NODELIST|STEP_NODELIST|STEP_NUM_NODES|STEP_NUM_TASKS|STEP_TASKS_PER_NODE)='
  local show="env | grep -E '^$names' | sort | paste -sd' '"
  printf '#!/bin/sh\nsrun --quiet -N3 -n6 --ntasks-per-node=2 sh -c "%s" | sort >srun\n%s -N3 -n6 sh -c "%s" 2>err | sort >nacre\n' \
    "$show" "'$NACRE_BUILD_DIR/nacre' run --shell='$NACRE_SHELL'" "$show" >script
  on node0 salloc --quiet -N3 --ntasks-per-node=2 --time=2 sh script
  [ "$(wc -l <srun)" -eq 6 ]
  diff srun nacre || { cat err; return 1; }
}
