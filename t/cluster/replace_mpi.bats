#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# on-lost=replace with restart over hosts, of MPI programs: a host is lost in the middle of MPI_Allreduce, and all ranks start again, its own on a
# spare; twice in one job.
load jobs.bash

cluster=(4)

setup_file() {
  start_cluster && build_mpi_programs mpich steady && build_mpi_programs openmpi steady
}

# Starts nacre run on node0 with the MPI library $1: two ranks on each of node0 and node1, and two spares, until
# there is the file go. Its process is $job.
start_steady() { # LIBRARY, options
  local library=$1
  shift
  leader=node0
  limit=200 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --hosts="node[0-3]" -N 2+2 -n 4 --oversubscribe --on-lost=replace --restart=on-failure,backoff=200ms \
    --report="$work/report" --timeout=150 -o lost-after=2s "$@" \
    sh -c 'cd $0 && LD_PRELOAD=$1/ucx_leave.so OMPI_MCA_mpi_yield_when_idle=1 exec $1/steady.$2' "$work" "$programs" "$library" >said 2>&1 &
  job=$!
  all_in 1
  wait_until listed "$leader"
}

all_in() { # TRY
  local rank
  for rank in 0 1 2 3; do wait_until 60 test -e "in.$rank.$1" || { cat said; return 1; }; done
}

places() { nacre "$leader" ps --json | jq -r 'select(.rank != null) | "\(.rank) \(.host) \(.try)"' | sort | paste -sd,; }

# The ranks of node1 have gone to node2, and then to node3; the job ends well.
replaced_twice() {
  all_in 3
  [ "$(places)" = "0 node0 3,1 node0 3,2 node3 3,3 node3 3" ] || { places; cat said; return 1; }
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 3' said)" -eq 4 ] || { cat said; return 1; }
  grep -q "shell 1 on node1 is lost: it has ended, or cannot be reached; its task 2-3 starts again on the spare shell 2 on node2, and with it all tasks of the job" said || { cat said; return 1; }
  grep -q "shell 2 on node2 is lost: it has ended, or cannot be reached; its task 2-3 starts again on the spare shell 3 on node3, and with it all tasks of the job" said || { cat said; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "moved") | [.ranks, .from, .host]]' report)" = '[["2-3",1,"node2"],["2-3",2,"node3"]]' ] || { jq .timeline report; return 1; }
  [ "$(jq -c '[.exit.code, [.classes[] | [.record, .ranks]]]' report)" = '[0,[["x0","0-3"]]]' ] || { jq . report; return 1; }
  nothing_left
}

# As start_steady: then the shell of node1 is killed, and later the spare that has taken its ranks.
shells_are_killed() {
  start_steady "$@"
  "$vcluster" exec node1 pkill -KILL -x nacre-shell
  all_in 2
  "$vcluster" exec node2 pkill -KILL -x nacre-shell
  replaced_twice
}
hosts_lose_power() {
  start_steady "$@"
  "$vcluster" kill node1 --power
  all_in 2
  "$vcluster" kill node2 --power
  replaced_twice
  "$vcluster" boot node1
  "$vcluster" boot node2
}

@test "MPICH over ssh: a shell is killed, then that of the spare" { shells_are_killed mpich; }

@test "MPICH over ssh: a host loses its power, then that of the spare" { hosts_lose_power mpich; }

@test "Open MPI over ssh: a shell is killed, then that of the spare" { shells_are_killed openmpi -o pmi=pmix; }

@test "Open MPI over ssh: a host loses its power, then that of the spare" { hosts_lose_power openmpi -o pmi=pmix; }
