#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The ways in which shells find each other, on one host: stand-ins set what real managers set.
load lib.bash

# Variables of a manager under which the tests run must not count.
unset "${!SLURM_@}" "${!PMI_@}" "${!PMIX_@}" FLUX_JOB_ID

# step N COMMAND...: as N tasks of a step of Slurm.
step() { timeout 100 "$NACRE_SOURCE_DIR/t/e2e/srun.py" -N"$1" "${@:2}"; }

secret() {
  (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >secret)
}

@test "slurm: shells with a common secret meet at the ports that follow from it" {
  secret
  write_jobspec 2 sh -c 'echo "$FLUX_TASK_RANK of $FLUX_JOB_NNODES"'
  run step 2 "$NACRE_SHELL" --secret-file=secret -j jobspec.json -o cpu-affinity=off </dev/null
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0 of 2\n1 of 2' ]
}

@test "slurm: without a secret, or with one that others may read, each shell says what to do" {
  write_jobspec 2 true
  run step 2 "$NACRE_SHELL" -j jobspec.json </dev/null
  [ "$status" -eq 1 ]
  [[ $output == *"has no secret in common with the others: start it by \`nacre launch --srun\`"* ]]
  secret
  chmod 640 secret
  run step 2 "$NACRE_SHELL" --secret-file=secret -j jobspec.json </dev/null
  [ "$status" -eq 1 ]
  [[ $output == *"--boot=slurm: --secret-file: secret: has mode 0640"* ]]
}

@test "nacre launch --srun: secret and jobspec come to all shells by srun's input" {
  mkdir bin
  ln -s "$NACRE_SOURCE_DIR/t/e2e/srun.py" bin/srun
  write_jobspec 3 sh -c 'echo "$FLUX_TASK_RANK of $FLUX_JOB_NNODES"'
  PATH=$PWD/bin:$PATH run timeout 100 "$NACRE_BUILD_DIR/nacre" launch --srun -n 3 --shell="$NACRE_SHELL" -j jobspec.json \
    -o cpu-affinity=off </dev/null
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0 of 3\n1 of 3\n2 of 3' ]
}

@test "pmix: under Open MPI's mpirun" {
  write_jobspec 3 sh -c 'echo "$FLUX_TASK_RANK of $FLUX_JOB_NNODES"'
  # libpmix keeps some bytes of its own until it ends.
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LSAN_OPTIONS=detect_leaks=0 ASAN_OPTIONS=detect_leaks=0 \
    run timeout 100 mpirun.openmpi --oversubscribe -n 3 "$NACRE_SHELL" -j jobspec.json -o cpu-affinity=off
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0 of 3\n1 of 3\n2 of 3' ]
}

@test "pmi: under MPICH's Hydra; the plan says which way was taken" {
  write_jobspec 2 sh -c 'echo "$FLUX_TASK_RANK of $FLUX_JOB_NNODES"'
  run timeout 100 mpiexec.mpich -n 2 "$NACRE_SHELL" -j jobspec.json -o cpu-affinity=off
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0 of 2\n1 of 2' ]
  run timeout 100 mpiexec.mpich -n 2 "$NACRE_SHELL" -j jobspec.json --explain
  [ "$status" -eq 0 ]
  [[ $output == *"boot: pmi: PMI_FD is set: shell 0 of 2"* ]]
}

@test "a way that is not there is refused, with what there is" {
  write_jobspec 1 true
  SLURM_PROCID=3 run "$NACRE_SHELL" --boot=pmi -j jobspec.json
  fails_with 1 "nacre-shell: --boot=pmi: PMI_FD is not set" "(seen: SLURM_PROCID='3')" "srun --mpi=pmi2"
  PMIX_RANK=0 run "$NACRE_SHELL" --boot=pmix -j jobspec.json
  fails_with 1 "nacre-shell: --boot=pmix: PMIX_NAMESPACE is not set (seen: PMIX_RANK='0')"
  run "$NACRE_SHELL" --boot=slurm -j jobspec.json
  fails_with 1 "nacre-shell: --boot=slurm: SLURM_JOB_ID is not set"
  run "$NACRE_SHELL" --boot=hosts </dev/null
  fails_with 1 "nacre-shell: --boot=hosts: standard input: a secret has 64 hexadecimal digits"
  run "$NACRE_SHELL" -j jobspec.json
  [ "$status" -eq 2 ]
  [[ $output == *"not pmi: PMI_FD is not set; not pmix: PMIX_NAMESPACE is not set; not slurm: SLURM_PROCID is not set"* ]]
  # Variables that an earlier start has left choose no way.
  for left in 77 x; do
    PMI_FD=$left run "$NACRE_SHELL" -j jobspec.json
    [ "$status" -eq 2 ]
    [[ $output == *"not pmi: PMI_FD is no open descriptor; not pmix"* ]]
  done
}

@test "no directory of a socket is left behind" {
  write_jobspec 3 true
  run timeout 100 "$NACRE_BUILD_DIR/nacre" launch --local=3 --shell="$NACRE_SHELL" -j jobspec.json -o cpu-affinity=off </dev/null
  [ "$status" -eq 0 ]
  [ -z "$(find "$TMPDIR" -name 'nacre-*' -print)" ]
}
