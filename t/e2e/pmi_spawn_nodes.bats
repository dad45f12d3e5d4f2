#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Processes that clients of PMI spawn in a job of several shells, all on this host: where they run, what they know
# of each other, and which ones are lost. Clients that speak PMI themselves (pmi_client): see pmi_client for the
# words.
load control.bash

client=$BATS_TEST_DIRNAME/pmi_client

setup_file() {
  cc -Wall -Wextra -O1 -o "$BATS_FILE_TMPDIR/pmi2" "$BATS_TEST_DIRNAME/mpi/pmi2.c" -lpmi2
}

# A job of $1 clients on $2 nodes with $3 cores each; the rest is what they carry out.
clients() {
  write_nodes "$2" "$3"
  write_jobspec "$1" "$client" "${@:4}"
}

run_nodes() { run launch --local="$1" -R R.json -o cpu-affinity=off "${@:2}"; }

# $1 clients that carry out the other arguments, as one program of `spawn:`.
children() { jq -cn --argjson count "$1" '[$count, $ARGS.positional]' --args -- "$client" "${@:2}"; }

# $1 processes of the command that follows, as one program of `spawn:`.
program() { jq -cn --argjson count "$1" '[$count, $ARGS.positional]' --args -- "${@:2}"; }

passes() {
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ -z "$output" ] || { echo "said: $output"; return 1; }
}

# The job ended with exit code $1, and its output has each of the other arguments.
says() {
  local text
  [ "$status" -eq "$1" ] || { echo "exit code $status, not $1: $output"; return 1; }
  for text in "${@:2}"; do
    [[ $output == *"$text"* ]] || { echo "no '$text' in: $output"; return 1; }
  done
}

# Prints on which shell it runs, and what it was told of the others.
# shellcheck disable=SC2016 # for the spawned one
where='echo "shell ${NACRE_SHELL_ID##*.}: $PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS"'

get_dead='cmd=get kvsname=%k key=PMI_dead_processes'

@test "they go where cores are free, to the node of the task first, and then in turn" {
  clients 3 3 2 init "1:spawn:[$(program 3 sh -c "$where")]" 1:has:rc=0 1:has:errcodes=0,0,0 barrier finalize
  run_nodes 3
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = "shell 0: 2 of 3, 0 of 1
shell 1: 0 of 3, 0 of 1
shell 2: 1 of 3, 0 of 1" ] || { echo "$output"; return 1; }
  # More processes than cores are placed evenly.
  clients 3 3 1 init "0:spawn:[$(program 5 sh -c "$where")]" 0:has:rc=0 barrier finalize
  run_nodes 3
  [ "$(sort <<<"$output" | cut -d: -f1 | uniq -c | awk '{ print $3, $1 }')" = "0 2
1 2
2 1" ] || { echo "$output"; return 1; }
}

@test "nodes without tasks take them, by the universe size, and wait for that as long as there are tasks" {
  clients 1 3 2 init cmd=get_universe_size has:size=6 "spawn:[$(program 5 sh -c "$where")]" has:rc=0 finalize
  run_nodes 3
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output" | cut -d: -f1 | uniq -c | awk '{ print $3, $1 }')" = "0 1
1 2
2 2" ] || { echo "$output"; return 1; }
  clients 1 2 1 init send:cmd=abort\ exitcode=3\\n end
  run_nodes 2
  says 3 "called PMI_Abort with code 3"
}

@test "they are one group: the map, keys and barriers over the nodes, application numbers, the key of whoever asked" {
  clients 2 2 2 init "1:spawn:[$(children 1 init cmd=get_appnum has:appnum=0 'cmd=get kvsname=%k key=from' 'has:value=rank 1' \
    'cmd=put kvsname=%k key=c%r value=of %r' barrier 'cmd=get kvsname=%k key=c1' 'has:value=of 1' 'cmd=get kvsname=%k key=c2' 'has:value=of 2' \
    barrier finalize),$(children 2 init cmd=get_appnum has:appnum=1 'cmd=get kvsname=%k key=from' 'has:value=rank 1' \
    'cmd=get kvsname=%k key=PMI_process_mapping' 'has:value=(vector,(0,1,2),(1,1,1))' 'cmd=put kvsname=%k key=c%r value=of %r' barrier \
    'cmd=get kvsname=%k key=c0' 'has:value=of 0' barrier finalize)]" 1:has:rc=0 barrier 'cmd=get kvsname=%k key=c2' has:rc=4 finalize
  run_nodes 2
  passes
}

@test "PMI-2: two programs of one group" {
  write_nodes 2 2
  write_jobspec 2 "$BATS_FILE_TMPDIR/pmi2" spawn
  run_nodes 2
  says 0 "children ok"
}

@test "info host: only there, also where no core is free; an unknown one is an error for whoever asked" {
  clients 2 3 1 init "0:spawn:[$(program 2 sh -c "$where" | jq -c '. + [{host: "node2"}]')]" 0:has:rc=0 \
    "0:spawn:[$(program 1 true | jq -c '. + [{host: "node2,node7"}]')]" 0:has:rc=-1 barrier finalize
  run_nodes 3
  says 0 "shell 2: 0 of 2, 0 of 2" "shell 2: 1 of 2, 1 of 2" \
    "rank 0 on node0: spawn of true: info key host: 'node7' is no host of the job, which has node[0-2]"
}

@test "what they write is output of the task that asked for them, also on other nodes" {
  clients 2 2 2 init "1:spawn:[$(program 2 sh -c 'echo out; echo err >&2')]" 1:has:rc=0 barrier finalize
  run_nodes 2 -o label-io
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'1: err\n1: err\n1: out\n1: out' ] || { echo "$output"; return 1; }
  for path in 'out.{{task.rank}}' all; do
    run_nodes 2 -o output.stdout.type=file -o "output.stdout.path=$path"
    [ "$output" = "" ] || { echo "$output"; return 1; }
  done
  [ "$(sort out.1)" = $'err\nerr\nout\nout' ]
  [ "$(sort all)" = $'err\nerr\nout\nout' ]
  [ ! -s out.0 ]
}

@test "a program that is not there is an error for whoever asked, with the node, and the job goes on" {
  mkdir bin
  printf '#!/bin/sh\nexec sleep 1000\n' >bin/tool
  chmod +x bin/tool
  clients 2 2 2 init "0:spawn:[$(program 2 /no/such/program)]" 0:has:rc=-1 0:has:No_such_file \
    "0:spawn:[$(program 1 "$work/bin/tool"),$(program 1 /no/such/other)]" 0:has:rc=-1 0:has:on_node1 "0:spawn:[$(program 2 echo later)]" 0:has:rc=0 barrier finalize
  run_nodes 2
  says 0 "rank 0 on node0: spawn of /no/such/program: /no/such/program: No such file or directory" \
    "rank 0 on node0: spawn of $work/bin/tool: /no/such/other: No such file or directory on node1" later
  run ! pgrep -f "$work/bin/tool"
}

@test "spawns at once from different shells, again and again, of processes that spawn others" {
  inner=$(children 3 init barrier finalize)
  group=$(children 3 init "0:spawn:[$inner]" 0:has:rc=0 barrier 'cmd=put kvsname=%k key=c%r value=of' barrier 'cmd=get kvsname=%k key=c1' has:value=of finalize)
  clients 4 4 2 init barrier "spawn:[$group]" has:rc=0 "spawn:[$group]" has:rc=0 "spawn:[$group]" has:rc=0 barrier finalize
  run_nodes 4
  passes
}

@test "groups have names of their own, and names are shared by all groups of the job" {
  group=$(children 2 init cmd=get_my_kvsname 0:say 0:'cmd=publish_name service=s%k port=p' barrier '1:cmd=lookup_name service=s%k' 1:has:port=p finalize)
  clients 2 2 2 init "spawn:[$group]" has:rc=0 barrier finalize
  run_nodes 2
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(sort -u <<<"$output" | grep -c kvsname=)" -eq 2 ]
}

@test "the job waits for those that outlive its tasks, on other nodes too, and they get signals" {
  clients 2 2 2 init "0:spawn:[$(program 2 sh -c 'exec 2>/dev/null; trap "echo got >got.$PMI_RANK; exit 0" USR1; : >runs.$PMI_RANK; while :; do sleep 0.2; done')]" \
    0:has:rc=0 wait:runs.0 wait:runs.1 finalize touch:over.%r
  "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json --local=2 -R R.json -o cpu-affinity=off >out 2>&1 &
  launcher=$!
  wait_until test -e over.0 -a -e over.1
  wait_until listed
  only_spawned() { [ "$("$front" ps --json | jq -c '[.spawn, .rank, .task, .shell, .host]')" = '[1,0,0,0,"node0"]
[1,1,0,1,"node1"]' ]; }
  wait_until only_spawned || { "$front" ps; return 1; }
  [ "$("$front" ps -q | awk '{ print $1, $2, $5 }')" = "1.0 node0 -
1.1 node1 -" ] || { "$front" ps; return 1; }
  kill -USR1 "$launcher"
  wait "$launcher"
  [ -e got.0 ]
  [ -e got.1 ]
  [ ! -s out ] || { cat out; return 1; }
}

@test "nodes whose tasks have ended take none any more" {
  clients 2 2 2 init 1:finalize 1:exit:0 0:wait:ended "0:spawn:[$(program 3 sh -c "$where")]" 0:has:rc=0 \
    "0:spawn:[$(program 1 true | jq -c '. + [{host: "node1"}]')]" 0:has:rc=-1 finalize
  launch --local=2 -R R.json -o cpu-affinity=off >out 2>err &
  launcher=$!
  wait_until listed
  has_ended() { [ "$("$front" ps --json --no-fold | jq -s 'map(.rank) == [0]')" = true ]; }
  wait_until has_ended || { cat err; return 1; }
  touch ended
  ends_with 0
  [ "$(cut -d: -f1 out | sort -u)" = "shell 0" ]
  grep -qF "rank 0 on node0: spawn of true: 'true': no shell that may run it takes processes any more" err
}

# ---- who is lost -------------------------------------------------------------------

@test "one that is killed ends the job" {
  clients 2 2 2 init "0:spawn:[$(children 2 init 1:kill barrier finalize)]" 0:has:rc=0 barrier read
  run_nodes 2
  says 137 "rank 1 of spawn 1 on node1 killed by SIGKILL" "without PMI finalize; the job ends"
}

@test "one that never comes, on a node of its own, is missed in a barrier of the others" {
  clients 2 2 2 init "0:spawn:[$(children 2 1:exit:0 init barrier touch:through finalize)]" 0:has:rc=0 barrier read
  run_nodes 2
  says 1 "rank 1 of spawn 1 on node1 exited with code 0 without PMI init, and the others wait for it in a barrier; the job ends"
  [ ! -e through ]
}

@test "abort by one of them ends the job" {
  clients 2 2 2 init "0:spawn:[$(children 2 init '1:send:cmd=abort exitcode=7 message=enough\n' barrier)]" 0:has:rc=0 barrier read
  run_nodes 2
  says 7 "rank 1 of spawn 1 on node1 called PMI_Abort with code 7: enough"
}

@test "fault-tolerance: the others of one that is killed go on, in their group, on all nodes" {
  clients 3 3 2 init "0:spawn:[$(children 3 init barrier 1:kill 0,2:barrier "0,2:$get_dead" 0,2:has:value=1 0,2:finalize)]" 0:has:rc=0 \
    barrier "$get_dead" has:value= lacks:value=1 finalize
  run_nodes 3 -o fault-tolerance
  says 0 "rank 1 of spawn 1 on node1 is lost; the others go on"
  [ "${#lines[@]}" -eq 1 ]
}

# Kills shell $1 of 3, on which rank 1 of the spawned processes runs.
kill_shell() {
  local pid
  pid=$(pid_of_shell "$1")
  touch begin
  wait_until test -e in.0 -a -e in.1
  kill -KILL "$pid"
  wait_until grep -qE "shell $1 on node$1(, a spare,)? is lost" err
  touch go
}

@test "fault-tolerance: those of a shell that is killed are lost, and the others of their group go on" {
  clients 3 3 2 init "2:spawn:[$(children 3 init barrier touch:in.%r wait:go 0,1:barrier "0,1:$get_dead" 0,1:has:value=2 0,1:finalize 0,1:touch:out.%r)]" \
    2:has:rc=0 0,2:wait:go 1:wait:never 0,2:barrier "0,2:$get_dead" 0,2:has:value=1 0,2:finalize
  launch --local=3 -R R.json -o cpu-affinity=off -o fault-tolerance -o tolerate-loss >out 2>err &
  launcher=$!
  wait_until listed
  kill_shell 1
  ends_with 1
  [ -e out.0 ] && [ -e out.1 ]
}

@test "fault-tolerance: a shell that is killed while all spawn leaves nobody waiting" {
  group=$(children 4 init "0:spawn:[$(children 3 init barrier finalize)]" barrier 'cmd=put kvsname=%k key=c%r value=of' barrier finalize)
  clients 4 4 2 init wait:begin touch:in.%r "spawn:[$group]" "spawn:[$group]" "spawn:[$group]" "spawn:[$group]" "spawn:[$group]" finalize
  launch --local=4 -R R.json -o cpu-affinity=off -o fault-tolerance -o tolerate-loss >out 2>err &
  launcher=$!
  wait_until listed
  kill_shell 2
  code=0
  wait "$launcher" || code=$?
  [ "$code" -le 1 ] || { cat err; return 1; } # 0: its task had ended
}

@test "spares get some, and a spare that is lost with them ends the job" {
  clients 1 2 1 init "spawn:[$(program 2 sh -c "$where; echo cores \$(ulimit -Sc)" | jq -c '. + [{host: "node1"}]')]" has:rc=0 finalize
  run_nodes 2 --spares=1 -o 'rlimit={"core": 0}'
  says 0 "shell 1: 0 of 2, 0 of 2" "shell 1: 1 of 2, 1 of 2" "cores 0"
  clients 2 3 1 init "0:spawn:[$(children 2 init barrier touch:in.%r wait:go barrier finalize | jq -c '. + [{host: "node1,node2"}]')]" 0:has:rc=0 barrier wait:over finalize
  launch --local=3 -R R.json -o cpu-affinity=off --spares=1 >out 2>err &
  launcher=$!
  wait_until listed
  kill_shell 2
  ends_with 1
  grep -qF "rank 1 of spawn 1 on node2 is lost with its shell; the job ends (-o fault-tolerance lets the others go on)" err
}

@test "a spare that is lost once its processes have ended is no loss" {
  clients 2 3 1 init "0:spawn:[$(children 1 init "touch:$work/first" finalize | jq -c '. + [{host: "node2"}]')]" 0:has:rc=0 barrier wait:go finalize
  launch --local=3 -R R.json -o cpu-affinity=off --spares=1 >out 2>err &
  launcher=$!
  wait_until listed
  wait_until test -e first
  has_gone() { ! pgrep -f "init touch:$work/first finalize" >left; }
  wait_until has_gone
  touch in.0 in.1
  kill_shell 2
  ends_with 0
}

@test "a spare, or a shell whose tasks have finalized, does not leave while spawned processes there are connected" {
  clients 2 3 2 init "0:spawn:[$(children 2 init barrier touch:in.%r wait:go finalize touch:out.%r wait:over | jq -c '. + [{host: "node1,node2"}]')]" 0:has:rc=0 \
    wait:in.0 wait:in.1 finalize touch:ready.%r wait:over
  launch --local=3 -R R.json -o cpu-affinity=off --spares=1 >out 2>err &
  launcher=$!
  wait_until listed
  wait_until test -e ready.0 -a -e ready.1
  for shells in 1 2 1-2; do
    run "$front" shrink --shells="$shells"
    [ "$status" -eq 1 ]
    [[ $output == "nacre shrink: what tasks have spawned on node"*" has called PMI init and not finalize, and the other ranks would wait for it: give --force, or start the job with -o fault-tolerance" ]] || { echo "$output"; return 1; }
  done
  [[ $output == *"on node[1-2] has"* ]]
  touch go
  wait_until test -e out.0 -a -e out.1
  [ "$("$front" shrink --shells=2)" = node2 ]
  touch over
  ends_with 0
}

@test "a shell that leaves takes its spawned processes with it, and the others of their group go on" {
  clients 3 3 2 init "0:spawn:[$(children 3 init barrier touch:in.%r wait:go 0,2:barrier "0,2:$get_dead" 0,2:has:value=1 0,2:finalize 0,2:touch:out.%r)]" 0:has:rc=0 \
    0,2:wait:go 0,2:barrier 0,2:finalize 1:wait:never
  launch --local=3 -R R.json -o cpu-affinity=off >out 2>err &
  launcher=$!
  wait_until listed
  wait_until test -e in.0 -a -e in.1 -a -e in.2
  [ "$("$front" shrink --shells=1 --force)" = node1 ]
  touch go
  ends_with 0
  [ -e out.0 ] && [ -e out.2 ]
}
