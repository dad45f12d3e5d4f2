#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Programs of MPICH, as Debian builds it: by PMI-1, and by PMI-2 if the build has it.
load nodes.bash

setup_file() {
  export programs=$BATS_FILE_TMPDIR
  for name in hello allreduce alltoall romio abort die; do
    mpicc.mpich -Wall -Wextra -O1 -o "$programs/$name" "$BATS_TEST_DIRNAME/mpi/$name.c"
  done
}

# A job of $1 tasks of the program $2 of t/e2e/mpi with the other arguments.
mpi() {
  prepare "$1" "$programs/$2" "${@:3}"
  run nacre
}

# The run succeeded, and printed exactly $1.
says() {
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "$1" ] || { echo "said: $output"; return 1; }
}

# bats test_tags=long
@test "the ranks of a job find each other" {
  mpi 4 hello
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 4 ]
  for rank in 0 1 2 3; do [[ $output == *"hello from rank $rank of 4 on "* ]]; done
}

@test "a collective operation" {
  mpi 8 allreduce
  says "allreduce ok, 8 ranks"
}

@test "a collective operation by PMI-2, which MPICH 4.2 and later can use, too" {
  [[ ! $(mpichversion) =~ Version:[[:space:]]+4\.[01]\. ]] || skip "this MPICH uses PMI-1 alone"
  environment='{"PATH": "/usr/bin:/bin", "MPIR_CVAR_PMI_VERSION": "2"}' prepare 8 "$programs/allreduce"
  run nacre -o pmi=pmi2
  says "allreduce ok, 8 ranks"
}

# bats test_tags=long
@test "each of 64 ranks talks to each" {
  mpi 64 alltoall
  says "alltoall ok, 64 ranks"
}

@test "ranks write a file together, and read it back" {
  mpi 4 romio "$work/data"
  says "file ok, 4 ranks"
}

@test "MPI_Abort ends the job with its code" {
  mpi 4 abort 2 7
  [ "$status" -eq 7 ]
  [[ $output == *"error: rank 2 on node0 called PMI_Abort with code 7"* ]]
}

# bats test_tags=long
@test "the report names the rank that has called MPI_Abort, on one shell and on four" {
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    write_jobspec 4 "$programs/abort" 2 7
    run launch -R R.json -o cpu-affinity=off --local=$shells --report=r.json -o exit-policy=main
    [ "$status" -eq 7 ] || { echo "$output"; return 1; }
    [[ $output == *"nacre: "*" abort: rank 2 on node$((2 * (shells / 4))) (pid "*") called PMI_Abort with code 7"*"exit code 7 (policy main: the cause)"* ]] || { echo "$output"; return 1; }
    jq -e --arg host node$((2 * (shells / 4))) '.cause | .rank == 2 and .host == $host and .pid > 0 and .kind == "c" and .certain and .pmi.last == "abort" and (.stderr | contains("called MPI_Abort"))' r.json || { cat r.json; return 1; }
    jq -e '.exit.code == 7 and ([.classes[].record | startswith("c")] | all)' r.json
  done
}

# bats test_tags=long
@test "a rank that dies ends the job, wherever it was" {
  for place in before-init in-barrier before-finalize in-finalize; do
    mpi 3 die 1 "$place"
    [ "$status" -eq 137 ] || { echo "$place: $status: $output"; return 1; }
    [[ $output == *"error: rank 1 on node0 killed by SIGKILL "* ]] || { echo "$place: $output"; return 1; }
  done
}

@test "a rank that leaves without MPI_Finalize ends the job" {
  mpi 3 die 1 exit-without-finalize 0
  [ "$status" -eq 1 ]
  [[ $output == *"rank 1 on node0 exited with code 0 without PMI finalize; the job ends"* ]]
  mpi 3 die 1 exit-without-finalize 5
  [ "$status" -eq 5 ]
}

# bats test_tags=long
@test "NetPIPE between two ranks" {
  prepare 2 NPmpich2 -n 20 -u 1024 -o "$work/np.out"
  run nacre
  [ "$status" -eq 0 ]
  [ -s "$work/np.out" ]
}

# bats test_tags=long
@test "ranks that find no PMI are told what they lack" {
  prepare 2 sh -c 'unset PMI_FD PMI_RANK PMI_SIZE; exec "$0"' "$programs/lonely"
  cat >lonely.c <<'END'
#include <mpi.h>
#include <unistd.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  sleep(3);
  return MPI_Finalize();
}
END
  mpicc.mpich -o "$programs/lonely" lonely.c
  run nacre -o exit-timeout=none
  [ "$status" -eq 0 ]
  [[ $output == *"warn: pmi: rank 0 has libmpi"*" and has not called PMI init: each task is a job of its own; MPICH starts by PMI-1"* ]]
}

# bats test_tags=long
@test "ScaLAPACK's LU factorization on two ranks" {
  cat >LU.dat <<'END'
'LU factorization'
'two ranks'
'LU.out' file
6 to the standard output
2 sizes
10 17 rows
12 17 columns
1 block size
3
1 right hand sides
3
1 block size of them
2
2 grids
1 2 rows
2 1 columns
1.0 threshold
T condition and refinement
END
  tests=$(dpkg -L scalapack-mpi-test | grep '/mpich-tests/xdlu$')
  prepare 2 "$tests"
  run nacre
  [ "$status" -eq 0 ]
  [[ $output == *"4 tests completed and passed residual checks."*"0 tests completed and failed residual checks."* ]]
}
