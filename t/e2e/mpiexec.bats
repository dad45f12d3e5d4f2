#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# mpiexec, as users of MPICH and Open MPI type it: nothing else of nacre is named here.
load lib.bash

setup_file() {
  local name
  for name in hello allreduce; do
    mpicc.mpich -Wall -Wextra -O1 -o "$BATS_FILE_TMPDIR/$name.mpich" "$BATS_TEST_DIRNAME/mpi/$name.c"
    mpicc.openmpi -Wall -Wextra -O1 -o "$BATS_FILE_TMPDIR/$name.openmpi" "$BATS_TEST_DIRNAME/mpi/$name.c"
  done
}

setup() {
  . "${BATS_TEST_DIRNAME}/lib.bash"
  work=$(mktemp -d)
  cd "$work" || return
  export TMPDIR=$work/tmp NACRE_JOBS_DIR=$work/jobs HOME=$work
  mkdir "$TMPDIR"
  PATH=$NACRE_BUILD_DIR/mpi:$PATH
  programs=$BATS_FILE_TMPDIR
}

# The run had this exit code, and its output is $2.
says() {
  [ "$status" -eq "$1" ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "$2" ] || { echo "said: $output"; return 1; }
}

@test "MPICH's and Open MPI's programs run without an option, with one mpiexec and one mpirun" {
  local launcher program
  for launcher in mpiexec mpirun; do
    for program in allreduce.mpich allreduce.openmpi; do
      run $launcher -n 4 "$programs/$program"
      says 0 "allreduce ok, 4 ranks" || { echo "$launcher $program"; return 1; }
    done
  done
}

@test "two shells of one host, too" {
  local program
  for program in allreduce.mpich allreduce.openmpi; do
    run "$NACRE_BUILD_DIR/nacre" run --local=2 -n 4 "$programs/$program"
    [ "$status" -eq 0 ] && [[ $output == *"allreduce ok, 4 ranks"* ]] || { echo "$program: $output"; return 1; }
  done
}

@test "-ppn goes round, as with Hydra; -usize is MPI_UNIVERSE_SIZE" {
  run mpiexec -n 5 -ppn 2 sh -c 'echo $FLUX_TASK_RANK'
  [ "$(sort <<<"$output")" = $'0\n1\n2\n3\n4' ]
  run "$NACRE_BUILD_DIR/nacre" run --local=2 -n 5 --tasks-per-node=2:round sh -c 'echo $FLUX_TASK_RANK on ${NACRE_SHELL_ID#*.}'
  [ "$(sort <<<"$output")" = $'0 on 0\n1 on 0\n2 on 1\n3 on 1\n4 on 0' ]
  run "$NACRE_BUILD_DIR/nacre" run --local=2 -n 5 --tasks-per-node=2 true
  [ "$status" -eq 1 ]
  [[ $output == *"-n 5, but 2 nodes of 2 tasks are 4"* ]]
  cat >universe.c <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int *size, is_set;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &size, &is_set);
  printf("%d\n", is_set ? *size : -1);
  return MPI_Finalize();
}
END
  mpicc.mpich -o universe universe.c
  mpicc.openmpi -o universe.openmpi universe.c
  run mpiexec -usize 7 ./universe
  says 0 7
  run mpiexec -usize INFINITE ./universe
  says 0 -1
  run mpiexec -usize 7 ./universe.openmpi
  says 0 7
}

# bats test_tags=long
@test "mpi4py, on one shell and on two" {
  cat >ranks.py <<'END'
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = comm.allreduce(comm.Get_rank(), op=MPI.SUM)
if comm.Get_rank() == 0:
    print("sum", total, "of", comm.Get_size())
    port = MPI.Open_port() # which Open MPI can by PMIx only
    MPI.Publish_name("ranks", port)
    print("found" if MPI.Lookup_name("ranks") == port else "not found", comm.Get_attr(MPI.UNIVERSE_SIZE))
    MPI.Unpublish_name("ranks", port)
    MPI.Close_port(port)
END
  run mpiexec -n 4 /usr/bin/python3 ranks.py
  says 0 $'sum 6 of 4\nfound 4'
  run mpiexec -n 1 /usr/bin/python3 -c 'from mpi4py import MPI; import os; print(MPI.COMM_WORLD.size, "PMIX_RANK" in os.environ)'
  says 0 "1 True"
  run mpiexec -n 1 /usr/bin/python3 -c 'import os; print("PMIX_RANK" in os.environ)'
  says 0 False
  # A script that does not name mpi4py is not recognised, so Open MPI takes PMI-1.
  cat >other.py <<'END'
MPI = __import__("mpi" "4py.MPI").MPI
if MPI.COMM_WORLD.Get_rank() == 0:
    print(MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD.Get_attr(MPI.UNIVERSE_SIZE))
END
  run mpiexec -n 2 /usr/bin/python3 other.py
  says 0 "2 2"
  run "$NACRE_BUILD_DIR/nacre" run --local=2 -n 4 /usr/bin/python3 ranks.py
  [ "$status" -eq 0 ] && [[ $output == *"sum 6 of 4"* ]] || { echo "exit code $status: $output"; return 1; }
}

@test "several programs have one MPI_COMM_WORLD, each with its own directory and variables" {
  run mpiexec -n 1 -env A 1 sh -c 'echo "one $A $PWD $PMI_SIZE %t"' : -n 2 -wdir /usr -x A=2 sh -c 'echo "two $A $PWD $PMI_SIZE"'
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = "one 1 $work 3 %t"$'\n'"two 2 /usr 3"$'\n'"two 2 /usr 3" ] || { echo "$output"; return 1; }
  run mpiexec -n 1 "$programs/allreduce.mpich" : -n 2 "$programs/allreduce.mpich"
  says 0 "allreduce ok, 3 ranks"
  printf -- '-n 1 echo a\n# no more of it\n-n 2 echo b "c d"\n' >programs
  run mpiexec -configfile programs
  [ "$(sort <<<"$output")" = $'a\nb c d\nb c d' ]
}

@test "standard input is rank 0's; the first failure ends the job, and its code is the job's" {
  run mpiexec -n 2 sh -c 'echo "$PMI_RANK $(cat)"' <<<hello
  [ "$(sort <<<"$output")" = $'0 hello\n1 ' ] || { echo "$output"; return 1; }
  local begun=$SECONDS
  run mpiexec -n 2 sh -c '[ "$PMI_RANK" = 1 ] && exit 7; sleep 60'
  [ "$status" -eq 7 ]
  ((SECONDS - begun < 30))
  run mpiexec -n 1 sh -c 'kill -SEGV $$'
  [ "$status" -eq 139 ]
  run mpiexec -timeout 1 -n 1 sleep 60
  [ "$status" -eq 124 ]
}

@test "output goes to files whose directories are made; what has no meaning is named once" {
  run mpiexec -iface lo -demux poll -n 2 -outfile-pattern out/%r echo hi
  says 0 "mpiexec: passed over, as nacre has no use for them: -iface -demux"
  [ "$(cat out/0 out/1)" = $'hi\nhi' ]
  run --separate-stderr mpirun --output-filename all -n 2 sh -c 'echo to-out; echo to-err >&2'
  [ "$output/$stderr" = $'to-out\nto-out/to-err\nto-err' ] # here, too, as with Open MPI
  [ "$(cat all/1/rank.1/stdout)" = to-out ]
  [ "$(cat all/1/rank.0/stderr)" = to-err ]
  run mpirun --output-filename quiet:nocopy -n 1 echo to-out
  says 0 ""
  [ "$(cat quiet/1/rank.0/stdout)" = to-out ]
  run mpiexec -n 2 -prepend-pattern '%r> ' sh -c '[ $PMI_RANK = 0 ] && echo a || echo b >&2'
  [ "$(sort <<<"$output")" = $'0> a\n1> b' ]
  run mpirun -H 127.0.0.1:2 echo hi # an address of this host needs no ssh
  says 0 $'hi\nhi'
  run mpirun -n 2 --bind-to core --report-bindings true
  [ "$status" -eq 0 ] && [[ $output == *"task 1: cpus: "* ]] || { echo "$output"; return 1; }
}

@test "tasks that start MPI themselves: by nacre's mpirun, and by the others: one of several without PMI or with PMIx, a script alone as it is" {
  # Jobs of Open MPI that begin at once meet where they make one directory, as under its own mpirun.
  local mpi apart='TMPDIR=$(mktemp -d) exec'
  for mpi in mpich openmpi; do
    run mpirun -n 2 sh -c "mpirun -n 2 $programs/hello.$mpi"
    [ "$status" -eq 0 ] && [ "$(grep -c "of 2" <<<"$output")" -eq 4 ] || { echo "$mpi: $status: $output"; return 1; }
    run "$NACRE_BUILD_DIR/nacre" run -n 2 -o pmi=off sh -c "$apart $programs/hello.$mpi"
    [ "$status" -eq 0 ] && [ "$(grep -c "0 of 1" <<<"$output")" -eq 2 ] || { echo "$mpi: $status: $output"; return 1; }
  done
  run "$NACRE_BUILD_DIR/nacre" run -n 2 -o pmi=off sh -c "$apart mpirun.openmpi --oversubscribe -n 2 $programs/hello.openmpi"
  [ "$status" -eq 0 ] && [ "$(grep -c "of 2" <<<"$output")" -eq 4 ] || { echo "$status: $output"; return 1; }
  run "$NACRE_BUILD_DIR/nacre" run -n 2 -o pmi=off sh -c "mpirun -n 2 $programs/hello.openmpi"
  [ "$status" -eq 0 ] && [ "$(grep -c "of 2" <<<"$output")" -eq 4 ] || { echo "$status: $output"; return 1; }
  local of_one
  for of_one in "sh -c 'mpirun.openmpi --oversubscribe -n 2 $programs/hello.openmpi; true'" "mpirun.openmpi --oversubscribe -n 2 $programs/hello.openmpi" \
    "-o pmi=pmix sh -c 'mpirun.openmpi --oversubscribe -n 2 $programs/hello.openmpi; true'" "sh -c 'mpiexec.hydra -n 2 $programs/hello.mpich; true'" \
    "sh -c '$programs/hello.openmpi | sed s/^/of.2/; $programs/hello.openmpi | sed s/^/of.2/'"; do
    run eval "'$NACRE_BUILD_DIR/nacre' run -n 1 $of_one"
    [ "$status" -eq 0 ] && [ "$(grep -c "of.2" <<<"$output")" -eq 2 ] && [ ${#lines[@]} -eq 2 ] || { echo "$of_one: $status: $output"; return 1; }
  done
  run "$NACRE_BUILD_DIR/nacre" run -n 2 -o pmi=pmix sh -c "$apart sh -c 'mpirun.openmpi --oversubscribe -n 2 $programs/hello.openmpi; true'"
  [ "$status" -eq 0 ] && [ "$(grep -c "of 2" <<<"$output")" -eq 4 ] || { echo "$status: $output"; return 1; }
  run mpirun -n 2 sh -c "mpiexec.hydra -n 2 $programs/hello.mpich"
  [ "$status" -eq 0 ] && [ "$(grep -c "of 2" <<<"$output")" -eq 4 ] || { echo "$status: $output"; return 1; }
}

@test "usage errors name the option and what may be meant; help and version" {
  run mpiexec -machinfile hosts ./app
  [ "$status" -eq 2 ]
  [ "${lines[0]}" = "mpiexec: '-machinfile' is not known; did you mean --machinefile?" ]
  [ "${lines[1]}" = "Try 'mpiexec --help'." ]
  run "$NACRE_BUILD_DIR/nacre" mpiexec -rankfile f ./app
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == "nacre mpiexec: -rankfile: it is not taken: "* ]]
  run mpirun --help
  [ "$status" -eq 0 ]
  [[ $output == *"Usage: mpirun [OPTIONS] PROGRAM"* ]]
  run mpirun --version
  [[ $output == "mpirun (nacre) "* ]]
  run -127 mpiexec -n 2 ./no-such-program
}

# takes OPTION VALUE...: what stands behind these words is read; or the option is refused, by its name.
takes() {
  run mpiexec "$@" --version
  [[ $output == "mpiexec (nacre) "* ]] || [[ $status -eq 2 && $output == "mpiexec: $1: "* ]] ||
    { echo "$*: exit code $status: $output"; return 1; }
}

# bats test_tags=long
@test "each option of Open MPI's mpirun is known, with as many words behind it" {
  local names count name values seen=0
  mpirun.openmpi --help full | sed -nE 's/^ *(-[^ ]+)(( <arg[0-9]>)*)( .*)?$/\1\2/p' >options
  while read -r names values; do
    values=${values//<arg?>/1}
    for name in ${names//|/ }; do
      [[ $name != -h && $name != --help && $name != -V && $name != *-version ]] || continue
      # shellcheck disable=SC2086 # words
      takes "$name" $values
      seen=$((seen + 1))
    done
  done <options
  ((seen > 100)) || { echo "$seen options"; return 1; }
}

# Hydra does not say how many words an option has; it is asked.
# bats test_tags=long
@test "each option of Hydra's mpiexec is known, with as many words behind it" {
  local name values seen=0
  echo localhost >hosts
  local -A values_of=([-genv]="A 1" [-env]="A 1" [-f]=hosts [-hosts]=localhost [-wdir]=. [-launcher]=fork [-rmk]=user [-topolib]=hwloc
    [-bind-to]=core [-map-by]=core [-demux]=poll [-iface]=lo [-order-nodes]=UP [-prepend-pattern]=%r [-outfile-pattern]=o.%r [-errfile-pattern]=e.%r)
  goes() { timeout 10 mpiexec.hydra "$@" -n 1 sh -c 'echo ok >ran' </dev/null >/dev/null 2>&1 && rm ran 2>/dev/null; }
  while read -r name; do
    values=${values_of[$name]-1}
    # shellcheck disable=SC2086 # words
    if goes "$name"; then values=''; elif ! goes "$name" $values; then continue; fi
    # shellcheck disable=SC2086
    takes "$name" $values
    seen=$((seen + 1))
  done < <(mpiexec.hydra --help | sed -nE 's/^ +(-[^ {/]+)(\/-| |$).*/\1/p; s/^ +-[^ ]+\/(-[^ ]+) .*/\1/p')
  ((seen > 25)) || { echo "$seen options"; return 1; }
}

@test "a program that PATH does not have is found in the directory, as by Open MPI; arguments are what they are" {
  printf '#!/bin/sh\necho "$*"\n' >a.out
  chmod +x a.out
  run mpirun -n 1 a.out ::: x :::: {}
  says 0 "::: x :::: {}"
  run mpirun -n 1 a.out ::: x : -n 1 -wdir "$work" a.out :::
  [ "$(sort <<<"$output")" = $':::\n::: x' ]
  run mpiexec -genv A 1 -genvlist B,PATH -n 1 /usr/bin/env
  [[ $output == *A=1* && $output != *HOME=* ]]
}

# A project with find_package(MPI), and tests with these numbers of ranks.
make_project() {
  cp "$BATS_TEST_DIRNAME/mpi/allreduce.c" "$BATS_TEST_DIRNAME/mpi/check.h" .
  cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.20)
project(uses_mpi C)
find_package(MPI REQUIRED)
enable_testing()
add_executable(app allreduce.c)
target_link_libraries(app MPI::MPI_C)
foreach(ranks $*)
  add_test(NAME app.\${ranks} COMMAND \${MPIEXEC_EXECUTABLE} \${MPIEXEC_NUMPROC_FLAG} \${ranks} \${MPIEXEC_PREFLAGS} \$<TARGET_FILE:app> \${MPIEXEC_POSTFLAGS})
endforeach()
END
}

@test "CMake's FindMPI takes it, and so does the ctest of a project" {
  make_project 3
  cmake -B build . >log || { cat log; return 1; }
  grep -qx "MPIEXEC_EXECUTABLE:FILEPATH=$NACRE_BUILD_DIR/mpi/mpiexec" build/CMakeCache.txt || { grep MPIEXEC build/CMakeCache.txt; return 1; }
  cmake --build build >log || { cat log; return 1; }
  run ctest --test-dir build --verbose
  [ "$status" -eq 0 ] && [[ $output == *"allreduce ok, 3 ranks"* ]] || { echo "$output"; return 1; }
}

# bats test_tags=long
@test "ctest of a project with find_package(MPI), of MPICH and of Open MPI, with 64 ranks on fewer cores" {
  make_project 1 3 64
  local mpi
  for mpi in mpich openmpi; do
    cmake -B "$mpi" -DMPI_C_COMPILER=mpicc.$mpi . >log || { cat log; return 1; }
    grep -qx "MPIEXEC_EXECUTABLE:FILEPATH=$NACRE_BUILD_DIR/mpi/mpiexec" "$mpi/CMakeCache.txt" || { grep MPIEXEC "$mpi/CMakeCache.txt"; return 1; }
    cmake --build "$mpi" >log || { cat log; return 1; }
    ldd "$mpi/app" | grep -q "lib${mpi/openmpi/mpi}.so"
    run ctest --test-dir "$mpi" --verbose
    [ "$status" -eq 0 ] && [[ $output == *"allreduce ok, 64 ranks"* ]] || { echo "$mpi: $output"; return 1; }
  done
}
