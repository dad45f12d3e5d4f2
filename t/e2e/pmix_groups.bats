#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Process groups of PMIx in a job of several shells, all on this host, and the processes of all shells as PMIx has them. The
# programs are in pmix/.
load control.bash
load pmix.bash

setup_file() { build_clients groups table; }

more=()

# Runs a job of $1 tasks of $program on $2 nodes, with the arguments from the third on. A task makes a file when its
# program has ended.
program=groups
tasks() {
  write_nodes "$2" $((($1 + $2 - 1) / $2))
  # shellcheck disable=SC2016 # for the tasks
  environment='{"PATH": "/usr/bin:/bin", "MARK": "'$work'"}' write_jobspec "$1" sh -c \
    '"$0" "$@"; code=$?; : >"$MARK/ended.$PMIX_RANK"; exit $code' "$BATS_FILE_TMPDIR/$program" "${@:3}" "$work"
  echo 'plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }' >rc.lua
  rm -f "$work"/*.[0-9]
  args=(--shell="$NACRE_SHELL" -j jobspec.json -R R.json --local="$2" -o cpu-affinity=off -o pmi=pmix "${more[@]}")
}

run_tasks() {
  tasks "$@"
  run_with_pmix "$front" launch "${args[@]}" -- --initrc=rc.lua
}

# As above, in the background, as $launcher, with `out` and `err`.
launch_tasks() {
  tasks "$@"
  "$front" launch "${args[@]}" -- --initrc=rc.lua >out 2>err &
  launcher=$!
  wait_until listed
}

# A line for each of the ranks below $1.
ranks() {
  local rank
  for ((rank = 0; rank < $1; ++rank)); do echo "rank $rank: $2"; done
}

# The tasks' output, without the shells' messages.
said() {
  [ "$(grep '^rank ' <<<"$output")" = "$(printf '%s\n' "$@" | sort)" ] || { echo "$status: $output"; return 1; }
}

@test "all construct a group again and again: what they have put is there, with an id that none had" {
  run_tasks 4 4 all
  says 0 "$(ranks 4 all)"
  # The server shares no memory with the tasks: through shared memory libpmix 4.2.2 may give them a wrong value of a
  # rank of their node.
  more=(-o fault-tolerance)
  run_tasks 4 2 all
  says 0 "$(ranks 4 all)"
}

# There are $1 lines "rank R: GROUP ID", and all of a group have one id, which no other group has.
ids_are_right() { # lines groups
  [ "$status" -eq 0 ] || { echo "$status: $output"; return 1; }
  [ "$(grep -c '^rank ' <<<"$output")" -eq "$1" ] || { echo "$output"; return 1; }
  [ "$(cut -d' ' -f3,4 <<<"$output" | sort -u | wc -l)" -eq "$2" ] || { echo "$output"; return 1; }
  [ "$(cut -d' ' -f4 <<<"$output" | sort -u | wc -l)" -eq "$2" ] || { echo "$output"; return 1; }
}

# bats test_tags=long
@test "groups at once, in different orders on different nodes: each has one id, which no other has" {
  run_tasks 4 2 orders
  ids_are_right 40 15
  run_tasks 8 4 orders
  ids_are_right 80 15
}

@test "a namespace stands for its ranks; groups of one node have ids of their own" {
  run_tasks 4 2 wildcard
  [ "$(grep -c ": wild: SUCCESS" <<<"$output")" -eq 4 ] || { echo "$output"; return 1; }
  [ "$(grep -c ": gone: SUCCESS" <<<"$output")" -eq 4 ] || { echo "$output"; return 1; }
  output=$(grep near <<<"$output")
  ids_are_right 4 2
}

# bats test_tags=long
@test "a time-out ends it for all, also for who comes later; then it is constructed" {
  run_tasks 3 3 timeout
  says 0 "$(ranks 3 "first: ERR_TIMEOUT")" "$(ranks 3 "then: SUCCESS")"
}

# bats test_tags=long
@test "a time-out that several of a node give, and that runs out later, harms nobody" {
  run_tasks 4 2 in-time
  says 0 "$(ranks 4 "in time")"
}

# bats test_tags=long
@test "a time-out of a node whose members have not all come begins when they have" {
  run_tasks 4 2 late
  says 0 "$(ranks 4 "construct: ERR_TIMEOUT")"
}

# bats test_tags=long
@test "a member that has ended properly is an error for all" {
  run_tasks 4 4 before-ended
  says 0 "$(ranks 3 "construct: GROUP_CONSTRUCT_ABORT")"
}

# bats test_tags=long
@test "fault-tolerance: a member that was killed before the others came is an error for all, or is left out if they want that" {
  more=(-o fault-tolerance)
  run_tasks 4 2 before-killed
  said "$(ranks 3 "construct: GROUP_CONSTRUCT_ABORT")"
  run_tasks 4 4 before-optional
  said "$(ranks 3 "construct: SUCCESS")" "$(ranks 3 "destruct: SUCCESS")"
}

# bats test_tags=long
@test "fault-tolerance: the same while the others wait" {
  more=(-o fault-tolerance)
  run_tasks 4 4 amid
  said "$(ranks 3 "construct: GROUP_CONSTRUCT_ABORT")"
  run_tasks 2 2 amid-optional
  said "$(ranks 1 "construct: SUCCESS")" "$(ranks 1 "destruct: SUCCESS")"
}

# bats test_tags=long
@test "without fault-tolerance a member that is killed ends the job" {
  run_tasks 4 4 amid
  [ "$status" -eq 137 ] || { echo "$status: $output"; return 1; }
  no_trace_left
}

# bats test_tags=long
@test "a member that ends: the others are notified if they want that, and destruct the group without it" {
  run_tasks 4 4 after
  says 0 "$(ranks 3 "destruct: ERR_PARTIAL_SUCCESS")" "$(ranks 3 "rank 3 has gone")"
  run_tasks 4 2 notified
  says 0 "$(ranks 3 "rank 3 has gone")"
}

# bats test_tags=long
@test "fault-tolerance: a shell that is killed while others wait is an error for all" {
  more=(-o fault-tolerance -o tolerate-loss)
  launch_tasks 4 4 lost
  wait_until test -e waits.0 -a -e waits.1 -a -e waits.2 -a -e waits.3
  kill -KILL "$(pid_of_shell 3)"
  : >end.3
  wait "$launcher" || true
  [ "$(sort out)" = "$(ranks 3 "construct: GROUP_CONSTRUCT_ABORT")" ] || { cat out err; return 1; }
}

# bats test_tags=long
@test "a shell that leaves the job while others wait for its member is an error for all" {
  launch_tasks 4 4 lost
  wait_until test -e waits.0 -a -e waits.1 -a -e waits.2 -a -e waits.3
  run "$front" shrink --shells=3 --force
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  : >end.3
  ends_with 0
  [ "$(sort out)" = "$(ranks 3 "construct: GROUP_CONSTRUCT_ABORT")" ] || { cat out err; return 1; }
}

# bats test_tags=long
@test "tasks and what they have spawned, on all nodes" {
  run_tasks 4 2 spawned
  says 0 "task 0: SUCCESS, id yes, 200" "task 1: SUCCESS, id yes, 200" "task 2: SUCCESS, id yes, 200" \
    "task 3: SUCCESS, id yes, 200" "child 0: SUCCESS, id yes, 100" "child 1: SUCCESS, id yes, 100" \
    "child 2: SUCCESS, id yes, 100"
}

@test "a group by invitation" {
  run_tasks 3 3 invite
  says 0 "rank 0: invite: SUCCESS" "rank 1: join: SUCCESS" "rank 2: join: SUCCESS"
}

# ---- the processes of all shells ----------------------------------------------------------------

# bats test_tags=long
@test "the process table of the job and of one shell, with one that has ended" {
  program=table
  run_tasks 4 2 tasks
  [ "$status" -eq 5 ] || { echo "$status: $output"; return 1; }
  [ "$(grep -E "^(job|shell): " <<<"$output")" = "job: 0@node0 connected
job: 1@node0 connected
job: 2@node1 connected
job: 3@node1 failed
shell: 0@node0 connected
shell: 1@node0 connected" ] || { echo "$output"; return 1; }
}

# bats test_tags=long
@test "the table of what a task has spawned, on all nodes" {
  program=table
  launch_tasks 2 2 spawned
  wait_until test -e asked.0
  : >go.0
  ends_with 0
  [ "$(sort out | sed 's/@node[01]//')" = "child: 0 running
child: 1 running
child: 2 running" ] || { cat out err; return 1; }
  grep -q @node0 out && grep -q @node1 out
}

# bats test_tags=long
@test "fault-tolerance: of a shell that is killed the table has what is known" {
  program=table
  more=(-o fault-tolerance -o tolerate-loss)
  launch_tasks 3 3 lost
  wait_until test -e waits.0 -a -e waits.1 -a -e waits.2
  kill -KILL "$(pid_of_shell 2)"
  wait "$launcher" || true
  [ "$(sort out)" = $'job: 0@node0 connected\njob: 1@node1 connected\njob: 2@node2 lost' ] || { cat out err; return 1; }
}
