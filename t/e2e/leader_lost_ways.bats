#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The shell that leads the job is lost, and another one leads: by each way of tasks to their ranks (PMI-1, PMI-2, PMIx), and with
# what the launcher brings: input, a terminal.
load lib.bash
load nodes.bash
load control.bash
load replace.bash
load detached.bash
load pmix.bash

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_MCA_mpi_yield_when_idle=1
ways=(PMI-1 PMI-2 PMIx)
library=$NACRE_BUILD_DIR/plugins/pmi/library

setup_file() {
  local source=$BATS_TEST_DIRNAME/mpi/ways.c
  cc -Wall -Wextra -DWAY=1 -o "$BATS_FILE_TMPDIR/PMI-1" "$source" "$library/libpmi.so" -Wl,-rpath,"$library"
  cc -Wall -Wextra -DWAY=2 -o "$BATS_FILE_TMPDIR/PMI-2" "$source" -lpmi2
  # shellcheck disable=SC2046 # several options
  cc -Wall -Wextra -DWAY=3 -o "$BATS_FILE_TMPDIR/PMIx" "$source" $(pkg-config --cflags --libs pmix)
  mpicc.openmpi -Wall -Wextra -O1 -o "$BATS_FILE_TMPDIR/steady" "$BATS_TEST_DIRNAME/mpi/steady.c"
}

# What each task does first.
note='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}"; '

# By the way $1 a job on three shells and with so many spares as $2, of a task on each.
start_way() { # WAY SPARES, options
  local pmi=simple,pmi2
  [ "$1" != PMIx ] || pmi=pmix
  rm -f shell.* in.* go
  start_run -o on-leader-lost=take-over -N 3+"$2" -n 3 --local=$((3 + $2)) -o pmi=$pmi "${@:3}" sh -c "$note exec '$BATS_FILE_TMPDIR/$1' go 0"
  all_in 2 1
}

@test "all start again with the ranks of a lost leader, and of the next one; they meet in a barrier" {
  local way
  for way in "${ways[@]}"; do
    start_way "$way" 2 --restart=on-failure,scope=job,backoff=0s
    lose 0 1
    all_in 2 2
    lose 1 2
    all_in 2 3
    touch go
    ends_with 0 || { echo "$way"; return 1; }
    [ "$(sort out)" = "$(printf '%s went on\n' "0: 0" "1: 1" "2: 2")" ] || { echo "$way"; cat out err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "a job that goes on without the leader's ranks: the others' barrier opens" {
  local way
  for way in "${ways[@]}"; do
    on_lost=go-on start_way "$way" 0
    lose 0 1
    wait_until grep -q "leads it now" err
    touch go
    ends_with 1 || { echo "$way"; return 1; } # of the task that is lost
    [ "$(sort out)" = "$(printf '%s went on\n' "1: 1" "2: 2")" ] || { echo "$way"; cat out err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "Open MPI: the leader is lost in MPI_Allreduce, and the next one; all start again" {
  rm -f shell.* in.* go
  start_run -N 3+2 -n 3 --local=5 -o pmi=pmix --restart=on-failure,backoff=0s sh -c "$note exec '$BATS_FILE_TMPDIR/steady'"
  all_in 2 1
  lose 0 1
  all_in 2 2
  lose 1 2
  all_in 2 3
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 3' out)" -eq 3 ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
}
