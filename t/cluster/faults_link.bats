#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Links that fail or are slow: before all shells have joined, when the tasks have just started, and while they run.
load faults.bash

cluster=(4)

setup_file() { start_cluster && build_hold; }

@test "the leader's host is cut off for a second, and nothing is lost" {
  write_job 1 sh -c 'touch started.$FLUX_TASK_RANK; until test -e go; do sleep 0.2; done; echo $FLUX_TASK_RANK is done'
  begin node3
  files_come started.{0,1,2,3}
  "$vcluster" cut node0
  sleep 1
  "$vcluster" heal node0
  touch go
  job_ends_with 0
  [ "$(sort said)" = "0 is done"$'\n'"1 is done"$'\n'"2 is done"$'\n'"3 is done" ] || { cat said; return 1; }
  nothing_left
}

# Runs jobs while the host $1 answers 200 ms late: one whose tasks run longer than any bound for a silent shell, and
# some whose times are printed.
run_delayed() {
  local kind begun rounds=10 client=$NACRE_SOURCE_DIR/t/e2e/pmi_client
  "$vcluster" delay "$1" 200
  write_job 1 sh -c 'sleep 8; echo $FLUX_TASK_RANK is done'
  begin node3
  job_ends_with 0
  [ "$(sort said)" = "0 is done"$'\n'"1 is done"$'\n'"2 is done"$'\n'"3 is done" ] || { cat said; return 1; }
  for kind in launch barriers; do
    write_job 1 true
    # shellcheck disable=SC2046
    [ $kind = launch ] || write_job 1 "$client" init $(yes barrier | head -$rounds) finalize
    begun=$(uptime_ms)
    run launch node3
    said_lines ''
    echo "# with $1 200 ms late, $kind: $(($(uptime_ms) - begun)) ms" >&3
  done
  nothing_left
}

@test "a host that answers 200 ms late is not taken for lost" { run_delayed node2; }
@test "the leader's host answers 200 ms late, and nobody is lost" { run_delayed node0; }

# Whether the shell on $1 waits to begin.
hold_shell() {
  wrap_shell "$1" 'touch '"$PWD"'/begins.$(uname -n); until test -e '"$PWD"'/go; do sleep 0.2; done; exec "$shell" "$@"'
}

@test "a host is cut off before its shell has joined" {
  write_job 1 sh -c 'touch ran.$FLUX_TASK_RANK'
  hold_shell node2
  join_timeout=30 begin node3
  files_come begins.node2
  faulted=$(uptime_ms)
  "$vcluster" cut node2
  touch go
  job_ends_with 1 "shell 2 on node2 "
  wait_until 120 no_shells node2 # no packet reaches it
  recover
  nothing_left_after_fence
  [ -z "$(compgen -G 'ran.*')" ]
}

@test "a host is cut off when its shell has joined, and others have not" {
  write_job 1 sh -c 'touch ran.$FLUX_TASK_RANK; exec sleep 76543'
  hold_shell node1
  begin node3
  files_come begins.node1
  linked() { "$vcluster" exec node2 ss -Htn state established | grep -qv ':22 '; }
  wait_until linked
  faulted=$(uptime_ms)
  "$vcluster" cut node2
  touch go
  job_ends_with "@(1|143)" "shell 2 on node2 "
  wait_until 120 no_shells node2
  recover
  nothing_left_after_fence
  [ ! -e ran.2 ]
}

@test "the leader's host is cut off while the others join" {
  write_job 1 sh -c 'touch ran.$FLUX_TASK_RANK'
  hold_shell node1
  begin node3
  files_come begins.node1
  faulted=$(uptime_ms)
  "$vcluster" cut node0
  touch go
  job_ends_with 1 node0
  wait_until 120 no_shells "${nodes[@]}"
  recover
  nothing_left_after_fence
  [ -z "$(compgen -G 'ran.*')" ]
}

# node1 is cut off when its tasks have started, and perhaps not those of other hosts.
cut_at_start() {
  write_job 1 sh -c 'touch started.$FLUX_TASK_RANK; test $FLUX_TASK_RANK != 1 || exec sleep 76543; until test -e go; do sleep 0.2; done; echo $FLUX_TASK_RANK is done'
  begin_held node3 shell.start 3 "$@"
  files_come started.1
  faulted=$(uptime_ms)
  "$vcluster" cut node1
  says "node-failure: shell 1 on node1 is lost"
  touch go
}

@test "a host is cut off when its tasks have just started" {
  cut_at_start
  job_ends_with "@(1|143)"
  wait_until 120 no_tasks node1
  recover
  nothing_left_after_fence
}

@test "tolerate-loss: a host is cut off when its tasks have just started, and the others run on" {
  cut_at_start -o tolerate-loss
  job_ends_with 1 "^0 is done" "^2 is done" "^3 is done"
  wait_until 120 no_tasks node1
  recover
  nothing_left_after_fence
}
