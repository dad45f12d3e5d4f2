#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Barriers of some tasks, by PMI 1.2: on one node and over several. Clients that speak PMI themselves (pmi_client).
load pmi.bash
load nodes.bash

# A job of $2 clients on each of $1 nodes; the rest is what they carry out.
clients_on() {
  write_nodes "$1" "$2"
  write_jobspec $(($1 * $2)) "$client" "${@:3}"
}

run_nodes() { # number, options
  run launch --local="$1" -R R.json -o cpu-affinity=off "${@:2}"
}

@test "a client that asks for 1.1 is answered with 1.2, Flux's programs, also of a script, and pmi.groups=off are not" {
  clients 1 join has:pmi_subversion=2 barrier 'has:rc=0 tag=0' finalize
  run nacre
  passes
  clients 1 join has:pmi_subversion=1 barrier lacks:tag finalize
  run nacre -o pmi.groups=off
  passes
  ln -s "$(readlink -f /usr/bin/python3)" flux-broker
  prepare 1 "$work/flux-broker" "$client" join has:pmi_subversion=1 barrier lacks:tag finalize
  run nacre
  passes
  [ -e "/proc/$$/task/$$/children" ] || skip "the rest needs /proc/PID/task/TID/children"
  prepare 1 sh -c '(:; "$@"); exit' - "$work/flux-broker" "$client" join has:pmi_subversion=1 barrier lacks:tag finalize
  run nacre
  passes
}

@test "several groups at a time, and in any order" {
  clients 3 init '0:send:cmd=barrier_in group=0,1:7\ncmd=barrier_in group=2,0:8\n' \
    '2:cmd=barrier_in group=0,2:8' 2:has:tag=8 0:read 0:has:tag=8 '2:touch:both' 1:wait:both '1:cmd=barrier_in group=0,1:7' 1:has:tag=7 \
    0:read 0:has:tag=7 'cmd=barrier_in group=WORLD:3' has:tag=3 'cmd=barrier_in group=NODE:4' has:tag=4 barrier has:tag=0 \
    '0:cmd=barrier_in group=1,2:5' '0:has:rc=-1 msg=rank_0_is_not_in_its_own_group tag=5' finalize
  run nacre
  passes
}

@test "over several nodes: only the group waits, and has what its tasks have put" {
  clients_on 3 2 init '3,4:cmd=put kvsname=%k key=a%r value=v%r' '0,3,5:cmd=barrier_in group=5,3,0:9' '0,3,5:has:rc=0 tag=9' \
    '0,5:cmd=get kvsname=%k key=a3' 0,5:has:value=v3 \
    '0,2:cmd=barrier_in group=0,2:9' 0,2:has:tag=9 '1:cmd=barrier_in group=NODE:2' '0:cmd=barrier_in group=NODE:2' 0,1:has:tag=2 \
    'cmd=barrier_in group=WORLD:2' has:tag=2 'cmd=get kvsname=%k key=a4' has:value=v4 barrier 'cmd=get kvsname=%k key=a3' has:value=v3 finalize
  run_nodes 3
  passes
}

@test "many at a time over nodes, each its own" {
  local words=() tag
  for tag in 1 2 3 4 5 6 7 8; do words+=("0:send:cmd=barrier_in group=0,3:$tag\\n" "3:send:cmd=barrier_in group=0,3:$((9 - tag))\\n"); done
  for tag in 1 2 3 4 5 6 7 8; do words+=("0,3:read" "0,3:has:rc=0"); done
  clients_on 2 2 init "${words[@]}" barrier finalize
  run_nodes 2
  passes
}

@test "who has finalized on another node is not waited for, also where all of a node have" {
  clients_on 2 2 init '1,2:finalize' '0,3:cmd=barrier_in group=0-3:1' 0,3:has:rc=0 3:finalize '0:cmd=barrier_in group=0,3:2' 0:has:rc=0 \
    '0:cmd=barrier_in group=0,2,3:2' 0:has:rc=0 0:finalize
  run_nodes 2
  passes
}

@test "a lost task ends the job, or with fault-tolerance the others of its groups go on" {
  clients_on 2 2 init '3:kill' '0,1:cmd=barrier_in group=0,1,3:1' finalize
  run_nodes 2
  ends_with 137 "rank 3 on node1"
  clients_on 2 2 init '3:kill' '0,1:cmd=barrier_in group=0,1,3:1' 0,1:has:rc=0 '0,1:cmd=get kvsname=%k key=PMI_dead_processes' \
    '0,2:cmd=barrier_in group=0,2,3:2' 0,2:has:rc=0 '0,2:cmd=get kvsname=%k key=PMI_dead_processes' 0,2:has:value=3 finalize
  run_nodes 2 -o fault-tolerance -o exit-report=off
  [ "$status" -eq 137 ] || { echo "$status $output"; return 1; }
  [ "$output" = "nacre-shell[1]: warn: pmi: rank 3 on node1 is lost; the others go on" ] || { echo "$output"; return 1; }
}

# Rank 1 is not in the group, and may end without init while others are in the group's barrier.
@test "who is not in the group and has ended without init does not matter" {
  clients_on 2 1 '1:exit:0' init '0:cmd=barrier_in group=0:1' 0:has:rc=0 finalize
  run_nodes 2
  [ "$status" -eq 0 ] || { echo "$status $output"; return 1; }
  clients 3 '1:exit:0' init '0,2:cmd=barrier_in group=0,2:1' 0,2:has:rc=0 finalize
  run nacre
  [ "$status" -eq 0 ] || { echo "$status $output"; return 1; }
}

@test "a lost node: the others of its groups go on" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo $PPID >"shell.$PMI_RANK"; exec "$@"' sh "$client" init barrier 2:touch:ready '0:wait:killed' '1:wait:killed' \
    '2:wait:never' '0,1:cmd=barrier_in group=0,1,2:1' 0,1:has:rc=0 finalize
  (until test -e ready; do sleep 0.02; done; kill -KILL "$(cat shell.2)"; touch killed) 3>&- &
  run_nodes 3 -o on-lost=go-on -o exit-report=off
  [[ $output != *"rank 0"* && $output != *"rank 1:"* ]] || { echo "$status $output"; return 1; }
  wait_for_jobs
}

@test "tasks that start again together begin anew with their groups" {
  clients_on 2 1 init '0,1:cmd=barrier_in group=0,1:1' has:rc=0 '1:touch:try.%t' '1:wait:try.2' 0:wait:try.2 '0,1:cmd=barrier_in group=0,1:1' \
    has:rc=0 finalize
  write_jobspec 2 sh -c '[ "$PMI_RANK:$NACRE_TASK_TRY" != 1:1 ] || { "$0" init "cmd=barrier_in group=0,1:1" exit:3; exit 3; }; exec "$0" "$@"' "$client" \
    init 'cmd=barrier_in group=0,1:1' has:rc=0 'cmd=barrier_in group=0,1:1' has:rc=0 finalize
  run_nodes 2 -o restart=on-failure -o exit-report=off
  [ "$status" -eq 0 ] || { echo "$status $output"; return 1; }
}

@test "a group that hangs is reported" {
  clients 3 init '0:cmd=barrier_in group=0,1:1' 1:wait:go '1:cmd=barrier_in group=0,1:1' barrier finalize
  (until grep -q "in a PMI barrier of some tasks" log 2>/dev/null; do sleep 0.05; done; touch go) 3>&- &
  nacre -o pmi.hang-report=0.3s >log 2>&1
  wait_for_jobs
  grep -q 'a barrier has lasted' log
}
