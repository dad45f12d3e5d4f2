#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Programs of Open MPI on 16 ranks of four hosts, without mpirun: the shells serve them PMIx, and they find each
# other over TCP with Open MPI's own defaults. And a program of PMIx alone, which e2e.pmix_groups has on one host.
load jobs.bash

cluster=(4 --slurm)

setup_file() {
  start_cluster || return
  # As at a site: the plugin is found, and only jobs that need it load it.
  site=$VCLUSTER_STATE/$VCLUSTER_NAME/site
  mkdir -p "$site/pmi"
  cp "$NACRE_BUILD_DIR"/plugins/pmix/{pmix.so,pmix-stand-in} "$site/pmi/"
  cat >"$site/init.lua" <<END
plugin.searchpath = "$site"
source ("$NACRE_SOURCE_DIR/etc/lua.d/mpi/openmpi.lua")
END
  # For a shell with sanitizers: see t/e2e/pmix.bash.
  cat >"$site/nacre-shell" <<END
#!/bin/sh
export ASAN_OPTIONS=malloc_context_size=2:intercept_tls_get_addr=0
export LSAN_OPTIONS=suppressions=$NACRE_SOURCE_DIR/t/e2e/pmix/lsan.supp:print_suppressions=0
exec $NACRE_SHELL "\$@"
END
  chmod +x "$site/nacre-shell"
  export site NACRE_SHELL=$site/nacre-shell
}

# No rank knows that the hosts share the machine's cpus: so they have to yield when idle.
environment='{"OMPI_MCA_mpi_yield_when_idle": "1"}'

by_ssh() { launch node0 -- --initrc="$site/init.lua"; }
by_pmi2() {
  shells_by_srun --initrc="$site/init.lua"
}

# Runs the program $1, which prints at its end that it is ok.
runs_everywhere() {
  build_mpi_programs openmpi "$1"
  write_job 4 "$programs/$1.openmpi"
  for way in by_ssh by_pmi2; do
    run "$way"
    said_lines "$1 ok, 16 ranks"
  done
  nothing_left
}

@test "Open MPI on 16 ranks: a collective operation, over ssh and under srun" {
  runs_everywhere allreduce
}

# bats test_tags=long
@test "Open MPI on 16 ranks: each talks to each, over ssh and under srun" {
  runs_everywhere alltoall
}

# bats test_tags=long
@test "Open MPI on 16 ranks: a name that is published, and a port to connect to" {
  build_mpi_programs openmpi publish
  write_job 4 "$programs/publish.openmpi" connect
  run by_ssh
  said_lines "publish ok, 16 ranks"
  nothing_left
}

# bats test_tags=long
@test "Open MPI on 16 ranks: MPI_Abort ends all hosts, with its code and the rank's name" {
  build_mpi_programs openmpi abort
  write_job 4 "$programs/abort.openmpi" 9 5
  for way in by_ssh by_pmi2; do
    run "$way"
    run_said 5 "rank 9 (process " ") on node2 called PMIx_Abort with code 5"
  done
  nothing_left
}

# bats test_tags=long
@test "Open MPI on 16 ranks: one that dies ends all hosts, and is named" {
  build_mpi_programs openmpi die
  write_job 4 "$programs/die.openmpi" 13 in-barrier
  run by_ssh
  run_said 137 "rank 13 (process " ") on node3 was killed by signal 9 (Killed) after PMIx_Init"
  nothing_left
}

# bats test_tags=long
@test "PMIx: groups over four hosts, with what a task spawns there, over ssh and under srun" {
  # shellcheck disable=SC2046 # several options
  cc -o groups "$NACRE_SOURCE_DIR"/t/e2e/pmix/{groups,client}.c $(pkg-config --cflags --libs pmix) -lpthread
  for way in by_ssh by_pmi2; do
    write_job 2 "$work/groups" orders
    run "$way"
    [ "$status" -eq 0 ] || { echo "$way: $status: $output"; return 1; }
    [ "$(grep -c '^rank ' <<<"$output")" -eq 80 ] || { echo "$way: $output"; return 1; }
    [ "$(cut -d' ' -f4 <<<"$output" | sort -u | wc -l)" -eq 15 ] || { echo "$way: $output"; return 1; }
    write_job 1 "$work/groups" spawned
    run "$way"
    said_lines "$(for rank in 0 1 2 3; do echo "task $rank: SUCCESS, id yes, 200"; done)" \
      "$(for rank in 0 1 2; do echo "child $rank: SUCCESS, id yes, 100"; done)"
  done
  nothing_left
}
