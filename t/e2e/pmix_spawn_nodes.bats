#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# PMIx_Spawn in a job of several shells, all on this host: where the processes run, what they and the tasks know of
# each other, and which ones are lost. The programs are in pmix/.
load control.bash
load pmix.bash

setup_file() {
  build_clients spawns
  mpicc.openmpi -Wall -Wextra -o "$BATS_FILE_TMPDIR/mpi" "$NACRE_SOURCE_DIR/t/e2e/pmix/mpi.c"
}

more=()

# A job of $1 tasks of `spawns` with the arguments from the fourth on, on $2 nodes with $3 cores each.
tasks() {
  write_nodes "$2" "$3"
  environment='{"PATH": "/usr/bin:/bin", "MARK": "'$work'"}' write_jobspec "$1" "$BATS_FILE_TMPDIR/spawns" "${@:4}"
  echo 'plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }' >rc.lua
}

arguments() {
  args=(--shell="$NACRE_SHELL" -j jobspec.json -R R.json --local="$1" -o cpu-affinity=off -o pmi=pmix "${more[@]}")
}

run_nodes() {
  local args
  arguments "$1"
  run_with_pmix "$front" launch "${args[@]}" -- --initrc=rc.lua
}

# As above, in the background, as $launcher, with `out` and `err`.
launch_nodes() {
  local args
  arguments "$1"
  "$front" launch "${args[@]}" -- --initrc=rc.lua >out 2>err &
  launcher=$!
  wait_until listed
}

# Prints on which shell it runs.
# shellcheck disable=SC2016 # for the spawned one
where='echo "shell ${NACRE_SHELL_ID##*.}: $PMIX_RANK"'

@test "they go where cores are free, to the node of the task first; all know where all are" {
  tasks 3 3 2 1 "" 3 places
  run_nodes 3
  says 0 "child 0 of 3 of rank 1: 0@node1/0 1@node2/0 2@node0/0; peers 0, 3 nodes, app 0, universe 3" \
    "child 1 of 3 of rank 1: 0@node1/0 1@node2/0 2@node0/0; peers 1, 3 nodes, app 0, universe 3" \
    "child 2 of 3 of rank 1: 0@node1/0 1@node2/0 2@node0/0; peers 2, 3 nodes, app 0, universe 3"
}

@test "nodes without tasks, and spares, take them; more than there are cores are spread evenly" {
  tasks 1 3 1 0 "" 2 places
  run_nodes 3
  says 0 "child 0 of 2 of rank 0: 0@node1/0 1@node2/0; peers 0, 2 nodes, app 0, universe 2" \
    "child 1 of 2 of rank 0: 0@node1/0 1@node2/0; peers 1, 2 nodes, app 0, universe 2"
  tasks 1 2 1 0 "" 5 run sh -c "$where"
  more=(--spares=1)
  run_nodes 2
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(grep ^shell <<<"$output" | cut -d: -f1 | uniq -c | awk '{ print $3, $1 }')" = $'0 2\n1 3' ] || { echo "$output"; return 1; }
}

@test "info host: only there; an unknown one is an error for whoever asked" {
  tasks 2 3 1 1 node2 2 run sh -c "$where"
  run_nodes 3
  says 0 "shell 2: 0" "shell 2: 1" "spawn: SUCCESS"
  tasks 2 2 1 1 node7 2 run sh -c "$where"
  run_nodes 2
  says 0 "spawn: ERR_JOB_FAILED_TO_LAUNCH" \
    "nacre-shell[1]: error: pmix: rank 1: PMIx_Spawn: info key host: 'node7' is no host of the job, which has node[0-1]"
}

@test "data of each other by fences, and from who has it; fences again and again" {
  tasks 2 3 2 0 "" 4 exchange
  run_nodes 3
  says 0 "child 0: 10101" "child 1: 10102" "child 2: 10103" "child 3: 10100"
}

@test "tasks and children connect, know each other, meet in a fence of both, and disconnect" {
  tasks 4 3 2 2 "" 3 connect
  run_nodes 3
  says 0 "child 0: 100 of 4 others" "child 1: 101 of 4 others" "child 2: 102 of 4 others" \
    "task 0: 200 of 3 others" "task 1: 201 of 3 others" "task 2: 202 of 3 others" "task 3: 200 of 3 others"
}

@test "names that tasks publish, and signals by job control" {
  tasks 2 2 2 1 "" 2 names
  run_nodes 2
  says 0 "child 0: port 7 of rank 1" "child 1: port 7 of rank 1"
  tasks 2 3 2 0 "" 4 control
  run_nodes 3
  says 0 "child 3 got signal 10"
}

@test "what they write is output of the task that asked for them, also on other nodes" {
  tasks 2 2 2 1 "" 2 run sh -c 'echo out; echo err >&2'
  more=(-o label-io)
  run_nodes 2
  says 0 "1: err" "1: err" "1: out" "1: out" "1: spawn: SUCCESS"
}

@test "a program that is not there, on all nodes or on one, is an error for whoever asked, and the job goes on" {
  tasks 2 2 2 0 "" 2 run /no/such/program
  run_nodes 2
  says 0 "spawn: ERR_JOB_EXE_NOT_FOUND" \
    "nacre-shell[0]: error: pmix: rank 0: PMIx_Spawn: /no/such/program: No such file or directory"
  # The first node has the tool, which hangs.
  printf '#!/bin/sh\nexec sleep 1000\n' >tool
  chmod +x tool
  tasks 2 2 2 0 "" 1 run "$work/tool" : /no/such/other
  run_nodes 2
  says 0 "spawn: ERR_JOB_EXE_NOT_FOUND" \
    "nacre-shell[0]: error: pmix: rank 0: PMIx_Spawn: /no/such/other: No such file or directory on node1"
}

@test "the job waits for those that outlive its tasks, on other nodes too, and they get signals" {
  # shellcheck disable=SC2016 # for the spawned ones
  tasks 2 2 2 0 "" 2 run sh -c \
    'exec 2>/dev/null; trap "echo got >got.$PMIX_RANK; exit 0" USR1; : >runs.$PMIX_RANK; while :; do sleep 0.2; done'
  launch_nodes 2
  wait_until test -e runs.0 -a -e runs.1
  tasks_have_ended() { [ -z "$(pgrep -f "^$BATS_FILE_TMPDIR/spawns")" ]; }
  wait_until tasks_have_ended
  kill -USR1 "$launcher"
  ends_with 0
  [ -e got.0 ]
  [ -e got.1 ]
  [ "$(cat out)" = "spawn: SUCCESS" ]
}

@test "an exit code of theirs is named, and does not count; one that is killed ends the job" {
  tasks 2 2 2 0 "" 2 code
  run_nodes 2
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [[ $output == *"nacre-shell[1]: warn: pmix: rank 1 of nacre-"*"-spawn-1 (process "*") on node1, which was spawned, exited with code 5" ]] ||
    { echo "$output"; return 1; }
  tasks 2 2 2 0 "" 2 die
  run_nodes 2
  ended_saying 137 "rank 1 of nacre-" "-spawn-1 (process " ") on node1 was killed by signal 9 (Killed) after PMIx_Init"
}

@test "fault-tolerance: the others of one that is killed are told, on all nodes, and go on" {
  tasks 2 3 2 0 "" 4 die
  more=(-o fault-tolerance)
  run_nodes 3
  [ "$status" -eq 0 ] || { echo "$status: $output"; return 1; }
  for rank in 0 1 2; do
    grep -qx "child $rank: child 3 has gone, and the others go on" <<<"$output" || { echo "$rank: $output"; return 1; }
  done
  no_trace_left
}

@test "fault-tolerance: those of a shell that is killed are lost, and the others of their namespace go on" {
  tasks 1 3 2 0 "" 5 wait "$work/in"
  more=(-o fault-tolerance -o tolerate-loss)
  launch_nodes 3
  wait_until test -e in.0 -a -e in.1 -a -e in.2 -a -e in.3 -a -e in.4
  kill -KILL "$(pid_of_shell 2)"
  others_say() { [ "$(grep -c "one has gone, and the others go on" out)" -ge 3 ]; }
  wait_until others_say || { cat out err; return 1; }
  touch in.go
  code=0
  wait "$launcher" || code=$?
  [ "$code" -le 1 ] || { cat err; return 1; }
}

@test "fault-tolerance: a shell that is killed while all spawn leaves nobody waiting" {
  tasks 4 4 2 0 "" 4 storm "$work/in"
  more=(-o fault-tolerance -o tolerate-loss)
  launch_nodes 4
  wait_until test -e in.0 -a -e in.1 -a -e in.2 -a -e in.3
  local pid
  pid=$(pid_of_shell 2)
  touch in.go
  more_than_tasks() { [ "$(pgrep -c -f "^$BATS_FILE_TMPDIR/spawns")" -gt 4 ]; }
  wait_until more_than_tasks
  kill -KILL "$pid"
  touch in.stop
  code=0
  wait "$launcher" || code=$?
  # 9: a process has asked for data of the lost process of its spawn
  [ "$code" -eq 1 ] || [ "$code" -eq 9 ] || { echo "$code"; cat out err; return 1; }
}

@test "a shell does not leave while spawned processes there are connected; forced, it ends them" {
  tasks 2 3 2 0 node2 2 wait "$work/in"
  more=(--spares=1)
  launch_nodes 3
  wait_until test -e in.0 -a -e in.1
  [ "$("$front" ps --json | jq -c '[.spawn, .rank, .task, .shell]')" = '[null,0,null,0]
[null,1,null,1]
[1,0,0,2]
[1,1,0,2]
[null,null,null,2]' ] || { "$front" ps; return 1; }
  run "$front" shrink --shells=2
  [ "$status" -eq 1 ]
  [[ $output == "nacre shrink: what tasks have spawned on node2 has called PMI init and not finalize, and the other ranks would wait for it: "* ]] ||
    { echo "$output"; return 1; }
  [ "$("$front" shrink --shells=2 --force)" = node2 ]
  touch in.go
  ends_with 0
}

@test "a spare that is lost with them ends the job" {
  tasks 1 2 3 0 "" 4 wait "$work/in"
  more=(--spares=1)
  launch_nodes 2
  wait_until test -e in.0 -a -e in.1 -a -e in.2 -a -e in.3
  kill -KILL "$(pid_of_shell 1)"
  ends_with 1
  grep -qF " of spawn 1 on node1 is lost with its shell; the job ends (-o fault-tolerance lets the others go on)" err || { cat err; return 1; }
}

@test "spawns at once from different tasks, of programs that spawn others" {
  tasks 4 4 2 0
  # shellcheck disable=SC2016 # for the tasks
  jq --arg spawns "$BATS_FILE_TMPDIR/spawns" '.tasks[0].command = ["sh", "-c",
    "exec \"$0\" $PMIX_RANK \"\" 3 run \"$0\" 0 \"\" 2 run \"$0\" 0 \"\" 2 exchange", $spawns]' jobspec.json >many.json
  mv many.json jobspec.json
  run_nodes 4
  local each=$'spawn: SUCCESS\nspawn: SUCCESS\nchild 0: 3101\nchild 1: 3100'
  says 0 "$each" "$each" "$each" "$each"
}

@test "Open MPI: MPI_Comm_spawn over several nodes" {
  tasks 4 3 2 0
  environment="${usual_environment%\}}, \"MARK\": \"$work\"}" write_jobspec 4 "$BATS_FILE_TMPDIR/mpi" spawn
  echo 'source (os.getenv ("NACRE_SOURCE_DIR") .. "/etc/lua.d/mpi/openmpi.lua")' >>rc.lua
  run_nodes 3
  says 0 "child 0 of 2 got 42" "child 1 of 2 got 42" "parent 0" "parent 1" "parent 2" "parent 3"
}
