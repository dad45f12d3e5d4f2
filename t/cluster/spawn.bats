#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Processes that clients of PMI spawn in a job over four hosts, started over ssh and by srun. What they may do is tested on one host, by
# e2e.pmi_spawn_nodes; the client is that of the tests there.
load jobs.bash

cluster=(4 --slurm)
client=$NACRE_SOURCE_DIR/t/e2e/pmi_client

# A client on each of four hosts with two cores each; they carry out the arguments.
write_clients() {
  write_job 1 "$client" "$@"
  jq '.execution.R_lite[0].children.core = "0-1"' R.json >R
  mv R R.json
}

# $1 times the command that follows, as a program of `spawn:`; clients that carry it out.
program() { jq -cn --argjson count "$1" '[$count, $ARGS.positional]' --args -- "${@:2}"; }
children() { program "$1" "$client" "${@:2}"; }

over_ssh() { launch node3 "$@"; }

# shellcheck disable=SC2016 # for the spawned ones
where='echo "$(hostname): $PMI_RANK of $PMI_SIZE"'

# Rank 1 spawns as many as there are free cores, then a group whose two keep each a value for the other.
spawns_go_to_all_hosts() { # the way to start
  write_clients init "1:spawn:[$(program 4 sh -c "$where")]" 1:has:rc=0 \
    "1:spawn:[$(children 2 init 'cmd=put kvsname=%k key=c%r value=of-%r' barrier 0:'cmd=get kvsname=%k key=c1' 0:has:value=of-1 \
      1:'cmd=get kvsname=%k key=c0' 1:has:value=of-0 barrier finalize)]" 1:has:rc=0 barrier finalize
  run "$1"
  said_lines "node1: 0 of 4" "node2: 1 of 4" "node3: 2 of 4" "node0: 3 of 4"
  nothing_left
}

@test "over ssh they go to all hosts, and meet there" { spawns_go_to_all_hosts over_ssh; }

@test "under srun they go to all hosts, and meet there" { spawns_go_to_all_hosts shells_by_srun; }

# One that fails ends the job with its code, on all hosts.
one_that_fails_ends_all() {
  write_clients init "0:spawn:[$(children 4 init 2:kill barrier finalize)]" 0:has:rc=0 barrier read
  run "$1"
  [ "$status" -eq 137 ] || { echo "exit code $status: $output"; return 1; }
  [[ $output == *"rank 2 of spawn 1 on node2 killed by SIGKILL"* ]] || { echo "$output"; return 1; }
  nothing_left
}

@test "over ssh one that is killed ends the job" { one_that_fails_ends_all over_ssh; }

@test "under srun one that is killed ends the job" { one_that_fails_ends_all shells_by_srun; }

# `nacre ps` on another host than the leader's shows them on theirs, until they have ended.
another_host_sees_them() { # the way to start, where it starts
  write_clients init touch:in.%r "0:spawn:[$(children 4 init touch:child.%r wait:go finalize)]" 0:has:rc=0 wait:go wait:end finalize
  limit=150 "$1" >said 2>&1 &
  job=$!
  for rank in 0 1 2 3; do wait_until test -e "child.$rank"; done
  wait_until listed "$2"
  spawned() { nacre node2 ps -q | awk '$1 ~ /[.]/ { print $1, $2 }'; }
  [ "$(spawned)" = "1.0 node0
1.1 node1
1.2 node2
1.3 node3" ] || { nacre node2 ps; return 1; }
  touch go
  are_gone() { [ -z "$(spawned)" ]; }
  wait_until are_gone
  [ "$(nacre node2 ps -q | wc -l)" -eq 4 ]
  touch end
  ends_with 0
  nothing_left
}

@test "over ssh another host sees them, and where they run" { another_host_sees_them over_ssh node3; }

@test "under srun another host sees them, and where they run" { another_host_sees_them shells_by_srun node0; }

@test "over ssh a host is lost: the others of the group of those that ran there go on" {
  write_clients init touch:in.%r "0:spawn:[$(children 4 init barrier touch:child.%r wait:go 0,1,3:barrier \
    "0,1,3:cmd=get kvsname=%k key=PMI_dead_processes" 0,1,3:has:value=2 0,1,3:finalize 0,1,3:touch:out.%r)]" 0:has:rc=0 0,1,3:wait:go 2:wait:never finalize
  limit=150 over_ssh -o fault-tolerance -o tolerate-loss -o lost-after=2s >said 2>&1 &
  job=$!
  for rank in 0 1 2 3; do wait_until test -e "child.$rank"; done
  "$vcluster" kill node2 --power
  wait_until grep -q "on node2 is lost" said
  touch go
  code=0
  wait "$job" || code=$?
  [ "$code" -eq 1 ] || { echo "exit code $code"; cat said; return 1; }
  [ -e out.0 ]
  [ -e out.1 ]
  [ -e out.3 ]
  "$vcluster" boot node2
}
