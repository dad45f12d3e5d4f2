#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The plugin pmix in a job of several shells, all on this host: what one node's server has to ask from another's,
# and what happens to the job when a process ends too early. The programs are in pmix/.
load pmix.bash

setup_file() { build_clients across calls ends; }

more=()

# A job of two ranks on each of $1 nodes, of the program $2 of pmix/ with arguments; options of the launcher in `more`.
run_nodes() {
  local nodes=$1 program=$2
  shift 2
  jq -n --argjson nodes "$nodes" '{version: 1, execution: {
    R_lite: [{rank: "0-\($nodes - 1)", children: {core: "0-1"}}], nodelist: ["node[0-\($nodes - 1)]"],
    starttime: 0, expiration: 0}}' >R.json
  environment='{"PATH": "/usr/bin:/bin", "MARK": "'$work'"}' \
    write_jobspec $((nodes * 2)) "$BATS_FILE_TMPDIR/$program" "$@"
  echo 'plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }' >rc.lua
  run_with_pmix "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json --local="$nodes" \
    -o cpu-affinity=off -o pmi=pmix "${more[@]}" -- --initrc=rc.lua
}

# A line for each of $1 ranks.
ranks() {
  local rank
  for ((rank = 0; rank < $1; ++rank)); do echo "rank ${2//RANK/$rank}"; done
}

@test "who is where; data of other nodes: by fences of all and of some, and from who has it; names, signals, connections" {
  run_nodes 3 across modex places some names control connect long long-modex
  says 0 "$(ranks 6 'RANK: 10 names')" "$(ranks 6 'RANK: connected, disconnected')" \
    "$(ranks 6 'RANK: 0 wrong of long')" "$(ranks 6 'RANK: 0 wrong of long-modex')" "rank 5 got signal 10" \
    "rank 0: 102" "rank 1: 103" "rank 2: 104" "rank 3: 105" "rank 4: 100" "rank 5: 101" \
    "rank 0: 1140" "rank 1: 1710" "rank 2: 1140" "rank 3: 1710" "rank 4: 1140" "rank 5: 1710" \
    "$(for rank in 0 1 2 3 4 5; do
      node=$((rank / 2))
      echo "rank $rank on $node: 0@node0/0 1@node0/1 2@node1/0 3@node1/1 4@node2/0 5@node2/1;" \
        "peers $((node * 2)),$((node * 2 + 1)), the last one's 4,5 of 2, nodes node0,node1,node2, 3 of them, universe 6"
    done)"
}

@test "data that never comes is not waited for longer than asked, nor when who has it has gone" {
  run_nodes 2 across alone never
  says 0 "rank 0 alone: ERR_TIMEOUT" "rank 0: ERR_TIMEOUT" "rank 0: ERR_NOT_FOUND"
}

@test "a key that is committed after the fence is waited for, on one node as on several" {
  run_nodes 1 across later absent
  local one=$output
  says 0 "rank 0: later 2" "rank 0: absent ERR_TIMEOUT" "rank 0: not without a timeout"
  run_nodes 2 across later absent
  [ "$(grep -v "^rank 1: early 1$" <<<"$output")" = "$one" ] || { echo "not as on one node: $output"; return 1; }
  says 0 "rank 0: later 2" "rank 1: early 1" "rank 0: absent ERR_TIMEOUT" "rank 0: not without a timeout"
}

@test "a key is waited for as long as asked, whatever else is committed, but not of one that has gone" {
  run_nodes 2 across much-later left
  says 0 "rank 0: much-later SUCCESS" "rank 0: not-left ERR_NOT_FOUND"
}

@test "a name lasts as long as it should, and an event reaches all" {
  run_nodes 2 calls names
  says 0 "again: ERR_DUPLICATE_KEY" "mine: secret from 0" "mine, by another: ERR_NOT_FOUND" "never: ERR_TIMEOUT" \
    "once: cake from 0" "twice: ERR_NOT_FOUND" "taken back: ERR_NOT_FOUND" "rank 1: waited: tcp:1 from 0" \
    "rank 2: waited: tcp:1 from 0" "rank 3: waited: tcp:1 from 0"
  run_nodes 2 calls event
  says 0 "$(ranks 4 'RANK: event from 0')"
}

@test "abort ends the job on all nodes, with the client's code and words" {
  run_nodes 2 ends abort 3 7
  ended_saying 7 "rank 3 (process " " on node1 called PMIx_Abort with code 7: cannot go on"
}

@test "abort: the report and the notices name the rank as the cause, on any node" {
  local rank
  for rank in 0 3; do
    more=(--report=r.json --notify=notices)
    run_nodes 2 ends abort $rank 7
    [ "$status" -eq 7 ]
    jq -e --argjson rank $rank --arg host node$((rank / 2)) '.cause | .rank == $rank and .host == $host and .pid > 0 and .certain' r.json || { cat r.json; return 1; }
    tail -n 1 notices | jq -e '.code == 7 and .end == 1' || { cat notices; return 1; }
  done
}

@test "abort on any node: a failure never becomes 0" {
  local case rank
  for case in "0 1" "256 255" "300 44" "-1 255"; do
    for rank in 0 3; do
      run_nodes 2 ends abort $rank "${case% *}"
      ended_saying "${case#* }" "rank $rank (process " " on node$((rank / 2)) called PMIx_Abort with code ${case% *}: cannot go on" || return
    done
  done
}

@test "PMIx_Job_control: the job's end, of one rank's and what is not supported; on one node, and from any of several" {
  local nodes rank
  for nodes in 1 2; do
    for rank in 0 $((nodes * 2 - 1)); do
      run_nodes $nodes ends end-kill $rank -1
      ended_saying 137 "rank $rank (process " ") on node$((rank / 2)) called PMIx_Job_control to kill the job" || return
      [[ $output != *"without PMIx_Finalize"* ]] || { echo "$output"; return 1; }
      run_nodes $nodes ends end-terminate $rank -1
      ended_saying 143 "rank $rank (process " ") on node$((rank / 2)) called PMIx_Job_control to terminate the job" || return
    done
    run_nodes $nodes ends end-kill 0 1
    ended_saying 137 "rank 0 (process " ") on node0 called PMIx_Job_control to kill rank 1" || return
    run_nodes $nodes ends end-restart 0 1
    says 0 "rank 0: restart: ERR_NOT_SUPPORTED"
    run_nodes $nodes ends end-pause 0 $((nodes * 2 - 1))
    says 0 "rank 0: pause: SUCCESS" "rank 0: resume: SUCCESS"
  done
}

@test "PMIx_Job_control gives processes a name: all are told, and find the set by queries, on one node and on several" {
  local nodes last
  for nodes in 1 2; do
    last=$((nodes * 2 - 1))
    run_nodes $nodes calls sets
    says 0 "rank $last: 7: ERR_BAD_PARAM" "rank $last: ends: SUCCESS" "$(ranks $((last + 1)) "RANK: 1 set: ends")" \
      "$(ranks $((last + 1)) "RANK: 2 members: $last 0")"
  done
}

@test "fault-tolerance: one that is killed by PMIx_Job_control on another node, and the others go on" {
  more=(-o fault-tolerance)
  run_nodes 2 ends end-kill 0 3
  [ "$status" -eq 137 ] || { echo "exit code $status: $output"; return 1; }
  [[ $output == *"rank 0 (process "*") on node0 called PMIx_Job_control to kill rank 3"* ]] || { echo "$output"; return 1; }
}

@test "one that is killed ends the job on all nodes" {
  run_nodes 2 ends kill-in-fence 3
  ended_saying 137 "rank 3 (process " ") on node1 was killed by signal 9 (Killed) after PMIx_Init, without PMIx_Finalize; -o f"
}

@test "fault-tolerance: the others are told on all nodes, and go on" {
  more=(-o fault-tolerance)
  for how in kill-before-fence kill-before-init; do
    run_nodes 2 ends $how 3
    [ "$status" -eq 137 ] || { echo "$how: exit code $status: $output"; return 1; }
    for rank in 0 1 2; do
      grep -qx "rank $rank of 4 went on" <<<"$output" || { echo "$how: rank $rank did not: $output"; return 1; }
    done
    [[ $output == *"rank 3 (process "*") on node1 was killed by signal 9 (Killed) "*"; the others go on"* ]] || return 1
    no_trace_left
  done
}

@test "Open MPI by itself, from the build folder: several shells of one host, each with several ranks" {
  mpicc.openmpi -o allreduce "$BATS_TEST_DIRNAME/mpi/allreduce.c"
  local shells # which are not installed, and find the plugin in the build folder
  for shells in 2 3; do
    OMPI_ALLOW_RUN_AS_ROOT=1 run_with_pmix "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --local=$shells -n 7 ./allreduce
    says 0 "allreduce ok, 7 ranks"
  done
}
