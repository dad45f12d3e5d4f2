#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What managers offer to a shell on each of several hosts: keys and barriers, variables, input, exit codes.
load faults.bash

cluster=(4 --slurm)
probe=$NACRE_BUILD_DIR/t/e2e/pmi_probe

setup_file() {
  start_cluster && build_mpi_programs mpich alltoall && build_mpi_programs openmpi alltoall
}

# The run succeeded, and $1 ranks have seen the cards of all.
all_found() {
  local rank expected=()
  for ((rank = 0; rank < $1; ++rank)); do expected+=("rank $rank of $1: $1 cards"); done
  said_lines "${expected[@]}"
}

# Hydra, on node0, over ssh on all hosts, $1 processes on each.
hydra() {
  local hosts
  hosts=$(IFS=,; echo "${nodes[*]}")
  on node0 mpiexec.hydra -launcher ssh -hosts "$hosts" -ppn "$1" -n $(($1 * ${#nodes[@]})) "${@:2}"
}

@test "srun --mpi=pmi2 has keys and barriers for one process a host" {
  for bytes in 0 1 100 5000; do
    run slurm node0 -N4 --ntasks-per-node=1 --mpi=pmi2 "$probe" "$bytes"
    all_found 4
  done
}

@test "srun --mpi=pmi2 has keys and barriers for several processes a host" {
  run slurm node3 -N4 --ntasks-per-node=4 --mpi=pmi2 "$probe" 3000
  all_found 16
  nothing_left
}

@test "Hydra has keys and barriers over ssh" {
  for bytes in 0 1 100 5000; do
    run hydra 1 "$probe" "$bytes"
    all_found 4
  done
  run hydra 4 "$probe" 3000
  all_found 16
  nothing_left
}

# Rank 1's variables of $1, a line each, sorted.
variables() {
  run slurm node2 "${@:2}" sh -c 'test $SLURM_PROCID != 1 || env' # one process prints them
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  output=$(grep -E "^($1)=" <<<"$output" | sort)
}

@test "srun --mpi=none tells who is where, and has no PMI" {
  variables "PMI.*|SLURM_(PROCID|LOCALID|NODEID|NTASKS|NNODES|STEP_NODELIST|STEP_NUM_(TASKS|NODES)|STEP_TASKS_PER_NODE|STEP_ID|JOB_NODELIST|LAUNCH_NODE_IPADDR)|SLURMD_NODENAME" \
    -N4 --mpi=none
  said_lines SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_NTASKS=4 SLURM_NNODES=4 SLURM_STEP_NUM_TASKS=4 \
    SLURM_STEP_NUM_NODES=4 "SLURM_STEP_NODELIST=node[0-3]" "SLURM_JOB_NODELIST=node[0-3]" SLURM_STEP_ID=0 \
    "SLURM_STEP_TASKS_PER_NODE=1(x4)" SLURM_LAUNCH_NODE_IPADDR=10.77.0.3 SLURMD_NODENAME=node1
  variables "SLURM_JOB_ID" -N4 --mpi=none
  [[ $output =~ ^SLURM_JOB_ID=[0-9]+$ ]]
}

@test "srun fills the first host, if it is not told how many processes each gets" {
  run slurm node0 -N2 -n4 sh -c 'echo $SLURM_PROCID on $SLURMD_NODENAME, "$SLURM_STEP_TASKS_PER_NODE"'
  said_lines "0 on node0, 3,1" "1 on node0, 3,1" "2 on node0, 3,1" "3 on node1, 3,1"
  run slurm node0 -N2 --ntasks-per-node=2 sh -c 'echo $SLURM_PROCID on $SLURMD_NODENAME, "$SLURM_STEP_TASKS_PER_NODE"'
  said_lines "0 on node0, 2(x2)" "1 on node0, 2(x2)" "2 on node1, 2(x2)" "3 on node1, 2(x2)"
}

@test "srun --mpi=pmi2 and --mpi=pmix say so in variables" {
  variables "PMI_(RANK|SIZE)|PMIX_.*" -N4 --mpi=pmi2
  said_lines PMI_RANK=1 PMI_SIZE=4
  variables "PMI_FD" -N4 --mpi=pmi2
  [[ $output =~ ^PMI_FD=[0-9]+$ ]]
  variables "PMI_FD|PMIX_(RANK|HOSTNAME)" -N4 --mpi=pmix
  said_lines PMIX_RANK=1 PMIX_HOSTNAME=node1
  variables "PMIX_NAMESPACE" -N4 --mpi=pmix
  [[ $output =~ ^PMIX_NAMESPACE=slurm\.pmix\.[0-9]+\.0$ ]]
}

# The others' input under Hydra has neither data nor an end: a process that reads it waits for good.
@test "srun copies its input to every process, Hydra hands it to the first" {
  run slurm node0 -N4 sh -c 'echo $SLURM_PROCID $(cat)' <<<"a line"
  said_lines "0 a line" "1 a line" "2 a line" "3 a line"
  run hydra 1 sh -c 'test $PMI_RANK != 0 || cat' <<<"a line"
  said_lines "a line"
  nothing_left
}

@test "srun ends with the largest exit code, and so does a process that it kills" {
  run slurm node0 -N4 --kill-on-bad-exit=0 sh -c 'exit $((SLURM_PROCID * 5))'
  [ "$status" -eq 15 ]
  run slurm node0 -N4 --kill-on-bad-exit=1 sh -c 'test $SLURM_PROCID = 2 && exit 7; exec sleep 1000'
  [ "$status" -ne 0 ]
  nothing_left
}

# The shell that Hydra starts on node2 cannot be run there, or ends before it has found the others.
@test "a host that cannot run the shell ends a job under Hydra at once, and is named" {
  write_job 1 touch "$PWD/ran"
  touch none
  local began=0
  for instead in none ends; do
    case $instead in
      none) replace_shell node2 "$PWD/none" ;;
      ends) wrap_shell node2 'sleep 0.7; exit 3' ;;
    esac
    began=$(uptime_ms)
    run hydra 1 "$NACRE_SHELL" "${job_options[@]}"
    echo "# $instead: $(($(uptime_ms) - began)) ms" >&3
    [[ $status != @(0|124|137) ]] || { echo "exit code $status: $output"; return 1; }
    grep "nacre-shell: --boot=pmi: mpiexec could not start nacre-shell, or it has ended: proxy 2" <<<"$output"
    grep "node2.*Permission denied\|proxy 2 on node2" <<<"$output"
    # It takes 3 s, and 60 s if nobody notices. This allows for a busy machine.
    (($(uptime_ms) - began < 20000)) || { echo "took $(($(uptime_ms) - began)) ms: $output"; return 1; }
    recover
  done
  [ ! -e ran ]
  nothing_left
}

@test "a program of MPICH runs on 16 ranks of four hosts, under srun and Hydra" {
  run slurm node0 -N4 --ntasks-per-node=4 --mpi=pmi2 env LD_PRELOAD="$programs/ucx_leave.so" "$programs/alltoall.mpich"
  said_lines "alltoall ok, 16 ranks"
  run hydra 4 -genv LD_PRELOAD "$programs/ucx_leave.so" "$programs/alltoall.mpich"
  said_lines "alltoall ok, 16 ranks"
  nothing_left
}

@test "a program of Open MPI runs on 16 ranks of four hosts, under its own mpirun" {
  run on node0 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 \
    mpirun.openmpi --oversubscribe --host node0:4,node1:4,node2:4,node3:4 -n 16 "$programs/alltoall.openmpi"
  # mpirun may be late to put an ssh into its own group; then it prints this warning, and goes on.
  output=$(sed '/plm:rsh: Warning: setpgid/d' <<<"$output")
  said_lines "alltoall ok, 16 ranks"
  nothing_left
}
