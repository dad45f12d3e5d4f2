#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# PMI in a job of several shells, all on this host: a task that is lost on one node is known on all. Clients that
# speak PMI themselves (pmi_client): see pmi_client for the words.
load nodes.bash

client=$BATS_TEST_DIRNAME/pmi_client

# A job of $2 clients on each of $1 nodes; the rest is what they carry out. Each first prints its shell's process
# id.
clients() {
  write_nodes "$1" "$2"
  write_jobspec $(($1 * $2)) sh -c 'echo $PPID >"shell.$PMI_RANK"; exec "$@"' sh "$client" "${@:3}"
}

run_nodes() { # number, options
  run launch --local="$1" -R R.json -o cpu-affinity=off "${@:2}"
}

get_dead='cmd=get kvsname=%k key=PMI_dead_processes'

@test "fault-tolerance: who is lost on one node is known on all after the next barrier" {
  clients 3 2 init barrier 3:kill barrier "$get_dead" has:value=3 barrier 2:kill barrier "$get_dead" has:value=3,2 \
    barrier 5:exit:0 barrier "$get_dead" has:value=3,2,5 barrier finalize
  run_nodes 3 -o fault-tolerance -o exit-report=off
  [ "$status" -eq 137 ]
  [ "$(sort <<<"$output")" = "nacre-shell[1]: warn: pmi: rank 2 on node1 is lost; the others go on
nacre-shell[1]: warn: pmi: rank 3 on node1 is lost; the others go on
nacre-shell[2]: warn: pmi: rank 5 on node2 is lost; the others go on" ]
}

# bats test_tags=long
@test "fault-tolerance: who asked for a signal gets it, on each node once, when its list has the lost one" {
  clients 3 1 init barrier 1:kill signal "$get_dead" has:value=1 barrier finalize
  run_nodes 3 -o fault-tolerance.signal=SIGUSR1 -o exit-report=off
  [ "$status" -eq 137 ]
  [ "$output" = "nacre-shell[1]: warn: pmi: rank 1 on node1 is lost; the others go on" ]
}

# bats test_tags=long
@test "fault-tolerance: the ranks of a lost node are lost" {
  clients 3 2 init barrier touch:ready.%r 0,1,4,5:wait:go 0,1,4,5:barrier 0,1,4,5:"$get_dead" 0,1,4,5:has:value=2,3 \
    0,1,4,5:barrier 0,1,4,5:finalize 2,3:wait:never
  launch --local=3 -R R.json -o cpu-affinity=off -o fault-tolerance -o tolerate-loss >out 2>&1 &
  for rank in 0 1 2 3 4 5; do wait_until test -e ready.$rank; done
  kill -KILL "$(cat shell.2)"
  touch go
  wait $! || status=$?
  [ "$status" -eq 1 ] || { cat out; return 1; }
  grep -q "shell 1 on node1 is lost" out
}

# bats test_tags=long
@test "an abort on any shell ends the job on all, with a code that is never 0" {
  local case rank
  for case in "0 1" "256 255" "300 44" "-1 255"; do
    for rank in 0 1; do
      clients 2 1 init "$rank:send:cmd=abort exitcode=${case% *}\\n" barrier
      run_nodes 2
      [ "$status" -eq "${case#* }" ] || { echo "$case of rank $rank: exit code $status: $output"; return 1; }
      [[ $output == *"error: rank $rank on node$rank called PMI_Abort with code ${case% *}"* ]]
    done
  done
}

# bats test_tags=long
@test "one that never comes, on a node of its own, is missed in a barrier of the others" {
  local shells
  for shells in 2 4; do
    clients "$shells" 1 1:exit:0 init barrier touch:through.%r wait:never
    run_nodes "$shells"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"rank 1 on node1 exited with code 0 without PMI init, and the others wait for it in a barrier; the job ends"* ]]
    run ls through.*
    [ "$status" -eq 2 ]
  done
}

# bats test_tags=long
@test "fault-tolerance: one that never comes, on a node of its own, is in the list before the first barrier of the others opens" {
  local shells
  for shells in 2 4; do
    clients "$shells" 1 1:exit:3 init barrier "$get_dead" has:value=1 barrier finalize
    run_nodes "$shells" -o fault-tolerance -o exit-report=off
    [ "$status" -eq 3 ]
    [ "$output" = "nacre-shell[1]: warn: pmi: rank 1 on node1 is lost; the others go on" ]
  done
}

@test "one that is killed before init, on a node of its own, lets no barrier of the others through" {
  clients 2 1 1:wait:go 1:kill init touch:go barrier touch:through.%r wait:never
  run_nodes 2
  [ "$status" -eq 137 ]
  run ls through.*
  [ "$status" -eq 2 ]
}

@test "tasks that have finalized are not missed by those of other nodes that go on" {
  clients 2 1 init barrier 1:finalize 1:exit:0 barrier barrier "$get_dead" has:value= lacks:value=1 finalize
  run_nodes 2 -o fault-tolerance
  [ "$status" -eq 0 ]
  [ -z "$output" ]
}

@test "a name that is published on one node is known on all after the next barrier, and gone when another takes it back" {
  clients 3 1 init 'cmd=lookup_name service=s' has:rc=-1 barrier '1:cmd=publish_name service=s port=p#1' 1:has:rc=0 barrier \
    'cmd=lookup_name service=s' has:port=p#1 '2:cmd=publish_name service=s port=q' 2:has:published_already barrier \
    '0:cmd=unpublish_name service=s' 0:has:rc=0 barrier 'cmd=lookup_name service=s' has:rc=-1 finalize
  run_nodes 3
  [ "$status" -eq 0 ]
  [ -z "$output" ]
}

# bats test_tags=long
@test "groups that are spawned on several nodes have names of their own" {
  local group
  group=$(jq -cn '[1, $ARGS.positional]' --args -- "$client" init cmd=get_my_kvsname say finalize)
  clients 2 1 init "spawn:[$group]" has:rc=0 barrier finalize
  run_nodes 2
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 2 ]
  [ "${lines[0]}" != "${lines[1]}" ]
}

# bats test_tags=long
@test "SIGUSR2 of the launcher, or of any shell, asks for a roll call of all tasks, which shell 0 says" {
  clients 2 2 init touch:ready.%r 0,1,3:send:cmd=barrier_in\\n 2:wait:go 2:send:cmd=barrier_in\\n read finalize
  "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json --local=2 -R R.json -o cpu-affinity=off >>out 2>&1 &
  local launcher=$!
  for rank in 0 1 2 3; do wait_until test -e ready.$rank; done
  wait_until asked_for "$launcher" "0-1,3: in PMI barrier 1"
  : >out
  wait_until asked_for "$(cat shell.2)" "0-1,3: in PMI barrier 1"
  touch go
  wait "$launcher"
  [[ $(sort -u out) == *"nacre-shell[0]: pmi: roll call of 4 tasks (SIGUSR2):"* ]]
  grep -Eq "^nacre-shell\[0\]: pmi:   2: after PMI get_my_kvsname: (python3|pmi_client) (sleeps|runs)" out
  run ! grep -v '^nacre-shell\[0\]: pmi: ' out
}

@test "a roll call is said also where the tasks of the shell that is asked have ended" {
  clients 2 1 init 0:finalize 0:exit:0 touch:ready.%r wait:go finalize
  "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json --local=2 -R R.json -o cpu-affinity=off >>out 2>&1 &
  local launcher=$!
  wait_until test -e ready.1
  wait_until asked_for "$launcher" "0: ended: exited with code 0"
  touch go
  wait "$launcher"
}

asked_for() { # process, text
  kill -USR2 "$1"
  sleep 0.1
  grep -q "$2" out
}

# bats test_tags=long
@test "a barrier that lasts is reported once for all nodes that wait in it" {
  clients 3 1 init 0,1:barrier 2:wait:go 2:barrier finalize
  launch --local=3 -R R.json -o cpu-affinity=off -o pmi.hang-report=0.5s >out 2>&1 &
  wait_until grep -q "  2: " out
  touch go
  wait $!
  [ "$(grep -c "^nacre-shell\[0\]: pmi: roll call of 3 tasks (a barrier has lasted 500ms):" out)" -eq "$(grep -c "  0-1: in PMI barrier 1" out)" ]
  [ "$(grep -c "roll call" out)" -le 2 ] || { cat out; return 1; }
}

# bats test_tags=long
@test "of a shell that is killed no process goes on that it or PMI has started, nor what these have started" {
  local leave='sleep 987661 & echo $! >>started; exec sleep 987662'
  clients 1 1 init "spawn:$(jq -cn --arg it "$leave" '[[2, ["sh", "-c", $it]]]')" has:rc=0 wait:never
  touch started
  launch --local=1 -R R.json -o cpu-affinity=off -o "coprocess={\"beside\": {\"command\": [\"sh\", \"-c\", $(jq -cn --arg it "$leave" '$it')], \"output\": \"$work/beside\"}}" 2>log &
  lines_come started 3
  kill -9 "$(cat shell.0)"
  nothing_left 'sleep 98766[12]'
  wait $! || true
}

@test "a plugin pmi that is replaced while the nodes share a barrier is not called any more" {
  cat >initrc.lua <<'END'
if shell.info.rank == 0 then
  plugin.register { name = "replaces", handlers = { { topic = "task.exit", fn = function ()
    plugin.register { name = "pmi", handlers = { { topic = "shell.exit", fn = function () end } } }
    io.open ("replaced", "w"):close ()
  end } } }
end
END
  # Shell 0 takes part in the barrier without a task when its plugin pmi goes, and hears of the barrier's end, and
  # of the lost task, after that.
  clients 2 1 init barrier 0:finalize 1:wait:replaced 1:barrier 1:kill
  run_nodes 2 -o fault-tolerance -o exit-report=off -- --initrc="$work/initrc.lua"
  [ "$status" -eq 137 ] || { echo "$output"; return 1; }
  [ "$output" = "nacre-shell[1]: warn: pmi: rank 1 on node1 is lost; the others go on" ]
}

@test "pmi.max-size: a barrier that brings more keys fails on all nodes, and is named once with them" {
  long=$(printf %01000d 1)
  clients 2 1 init "cmd=put kvsname=%k key=a%r value=$long" has:rc=0 barrier 'has:cmd=barrier_out rc=0' \
    "cmd=put kvsname=%k key=b%r value=$long" has:rc=0 barrier 'has:cmd=barrier_out rc=-1' \
    'cmd=get kvsname=%k key=a0' "has:value=$long" 'cmd=get kvsname=%k key=b%r' has:rc=0 0:'cmd=get kvsname=%k key=b1' 0:has:rc=4 finalize
  run_nodes 2 -o pmi.max-size=4000
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(sed -E 's/[0-9]+ bytes/N bytes/' <<<"$output")" = \
    "nacre-shell[0-1]: warn: pmi: a barrier fails: with those of the other nodes the keys of the job would have N bytes, and they may have 4000 (-o pmi.max-size=SIZE)" ] ||
    { echo "$output"; return 1; }
}

# bats test_tags=long
@test "an exchange of more than the log takes brings all keys to all nodes" {
  cat >put.py <<'END'
import os, socket
s = socket.socket(fileno=int(os.environ["PMI_FD"]))
answers = s.makefile("r")
def ask(text):
    s.sendall(text.encode() + b"\n")
    return answers.readline()
ask("cmd=init pmi_version=1 pmi_subversion=1")
space = ask("cmd=get_my_kvsname").split("kvsname=")[1].split()[0]
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
for i in range(1000):
    assert "rc=0" in ask(f"cmd=put kvsname={space} key=k{rank}.{i} value={rank}.{i}.{'x' * 1000}")
ask("cmd=barrier_in")
print(sum(f"value={r}.{i}.x" in ask(f"cmd=get kvsname={space} key=k{r}.{i}") for r in range(size) for i in range(1000)))
ask("cmd=finalize")
END
  write_nodes 3 1
  write_jobspec 3 python3 put.py
  run_nodes 3
  [ "$status" -eq 0 ] && [ "$output" = $'3000\n3000\n3000' ] || { echo "$output"; return 1; }
}
