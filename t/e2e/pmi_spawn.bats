#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Processes that clients of PMI spawn: they are a group, and share the output, the signals and the end of the job.
# Clients that speak PMI themselves (pmi_client): see pmi_client for the words.
load plugins.bash

client=$BATS_TEST_DIRNAME/pmi_client

# A job of $1 clients that carry out the other arguments; its processes can be told by their environment.
clients() {
  prepare_marked "$1" "$client" "${@:2}"
}

# $1 clients that carry out the other arguments, as one program of `spawn:`.
children() {
  jq -cn --argjson count "$1" '[$count, $ARGS.positional]' --args -- "$client" "${@:2}"
}

# $1 processes of the command that follows, as one program of `spawn:`.
program() {
  jq -cn --argjson count "$1" '[$count, $ARGS.positional]' --args -- "${@:2}"
}

passes() {
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ -z "$output" ] || { echo "said: $output"; return 1; }
  no_trace_left
}

# The job ended with exit code $1, and its output has each of the other arguments.
ends_with() {
  local text
  [ "$status" -eq "$1" ] || { echo "exit code $status, not $1: $output"; return 1; }
  for text in "${@:2}"; do
    [[ $output == *"$text"* ]] || { echo "no '$text' in: $output"; return 1; }
  done
  no_trace_left
}

has_children() { [ "$(pgrep -cP "$2")" -eq "$1" ]; } # number, process

@test "they are a group: ranks, keys of whoever asked for them, a barrier of their own" {
  clients 2 init "1:spawn:[$(children 3 init 'cmd=get kvsname=%k key=from' 'has:value=rank 1' \
    'cmd=get kvsname=%k key=PMI_process_mapping' 'has:value=(vector,(0,1,3))' \
    'cmd=put kvsname=%k key=c%r value=of %r' barrier 'cmd=get kvsname=%k key=c2' 'has:value=of 2' finalize)]" \
    1:has:rc=0 '1:has:errcodes=0,0,0' barrier 'cmd=get kvsname=%k key=c2' has:rc=4 finalize
  run nacre
  passes
}

@test "their environment says who they are, and that they were spawned" {
  clients 1 init "spawn:[$(program 2 sh -c 'cd /proc/self/fd; echo "$PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS, $PMI_SPAWNED ${FLUX_TASK_RANK-no task} $(readlink 0)"')]" has:rc=0 finalize
  run nacre
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0 of 2, 0 of 2, 1 no task /dev/null\n1 of 2, 1 of 2, 1 no task /dev/null' ]
}

@test "several programs in one group: each with its arguments and its application number" {
  clients 1 init "spawn:[$(children 1 init cmd=get_appnum has:appnum=0 barrier finalize),
    $(children 2 init cmd=get_appnum has:appnum=1 barrier finalize),
    $(program 1 sh -c 'echo "$PMI_RANK of $PMI_SIZE: $1"' sh 'a  word = "of" blanks')]" has:rc=0 has:errcodes=0,0,0,0 finalize
  # The last one takes no part in the barrier that the others wait in.
  run nacre -o fault-tolerance
  ends_with 0 '3 of 4: a  word = "of" blanks'
}

# bats test_tags=long
@test "info: wdir, path, host; what is unknown is passed over" {
  mkdir bin other
  printf '#!/bin/sh\necho "tool in $PWD"\n' >bin/tool
  chmod +x bin/tool
  spawn="spawn:[$(program 1 tool | jq -c --arg dir "$work" '. + [{path: "/nowhere:\($dir)/bin", wdir: "\($dir)/other", host: "node0", soft: "1", color: "red"}]')]"
  clients 1 init "$spawn" has:rc=0 finalize
  run nacre
  ends_with 0 "tool in $work/other"
  clients 1 init "${spawn/node0/node7}" has:rc=-1 finalize
  run nacre
  ends_with 0 "rank 0 on node0: spawn of tool: info key host: 'node7' is no host of the job, which has node0"
}

@test "a program that is not there is an error for whoever asked, and the job goes on" {
  clients 2 init "0:spawn:[$(program 2 /no/such/program)]" 0:has:rc=-1 0:has:No_such_file barrier finalize
  run nacre
  ends_with 0 "rank 0 on node0: spawn of /no/such/program: /no/such/program: No such file or directory"
}

# bats test_tags=long
@test "all processes or none: those that have started are ended when another cannot" {
  clients 1 init "spawn:[$(program 3 sleep 1000),$(program 1 /no/such/program)]" has:rc=-1 \
    "spawn:[$(program 1 echo later)]" has:rc=0 finalize
  run nacre
  ends_with 0 "No such file or directory" later
}

# bats test_tags=long
@test "no process, and more than there may be, are refused" {
  clients 1 init "spawn:[$(program 0 true)]" has:rc=-1 "spawn:[$(program 5000 true)]" has:rc=-1 finalize
  run nacre
  ends_with 0 "expected one process or more"
}

# bats test_tags=long
@test "six hundred: error codes that would be too long for a client's line are left out" {
  clients 1 init "spawn:[$(program 600 true)]" has:rc=0 lacks:errcodes finalize
  run nacre
  passes
}

@test "those that are spawned spawn others" {
  grandchild=$(children 2 init 'cmd=get kvsname=%k key=from' 'has:value=rank 0' barrier finalize)
  clients 1 init "spawn:[$(children 1 init "spawn:[$grandchild]" has:rc=0 has:errcodes=0,0 finalize)]" has:rc=0 finalize
  run nacre
  passes
}

# bats test_tags=long
@test "names are shared by all groups of the job" {
  clients 1 init 'cmd=publish_name service=ocean port=p1' has:rc=0 \
    "spawn:[$(children 1 init 'cmd=lookup_name service=ocean' has:port=p1 'touch:seen' finalize)]" has:rc=0 wait:seen finalize
  run nacre
  passes
}

# bats test_tags=long
@test "the job waits for those that outlive its tasks" {
  mkfifo go
  clients 1 init "spawn:[$(program 1 sh -c 'touch runs; read line <go; echo "late: $line"')]" has:rc=0 wait:runs finalize
  "${nacre[@]}" >out 2>&1 &
  wait_until test -e runs
  # The task is over once the shell has no child but the spawned process.
  wait_until has_children 1 $!
  echo now >go
  wait $!
  [ "$(cat out)" = "late: now" ]
  no_trace_left
}

# ---- output ------------------------------------------------------------------

# bats test_tags=long
@test "what they write is output of the task that asked for them" {
  clients 2 init "1:spawn:[$(program 2 sh -c 'echo out; echo err >&2')]" 1:has:rc=0 finalize
  run nacre -o label-io
  [ "$(sort <<<"$output")" = $'1: err\n1: err\n1: out\n1: out' ]
  run nacre -o output.stdout.type=file -o 'output.stdout.path=out.{{task.rank}}'
  [ "$output" = "" ]
  [ "$(sort out.1)" = $'err\nerr\nout\nout' ]
  [ ! -s out.0 ]
  no_trace_left
}

# bats test_tags=long
@test "an eventlog tells the end of a task's stream once nobody writes as the task does" {
  mkfifo go
  clients 1 init "spawn:[$(program 1 sh -c 'touch runs; read line <go; echo late')]" has:rc=0 wait:runs finalize
  "${nacre[@]}" -o output.stdout.type=kvs --record-dir="$work/record" &
  wait_until test -e runs
  wait_until has_children 1 $!
  echo now >go
  wait $!
  said=$(jq -r 'select(.name == "data" and .context.stream == "stdout") | .context | .data // "eof \(.eof)"' record/guest.output)
  [ "$said" = $'late\n\neof true' ]
}

# ---- the end -----------------------------------------------------------------

@test "one that is killed ends the job" {
  clients 2 init "0:spawn:[$(children 2 init 1:kill barrier finalize)]" 0:has:rc=0 barrier read
  run nacre
  ends_with 137 "rank 1 of spawn 1 on node0 killed by SIGKILL" "without PMI finalize; the job ends"
}

# bats test_tags=long
@test "one that leaves without a farewell ends the job" {
  clients 1 init "spawn:[$(children 2 init 0:exit:0 barrier finalize)]" has:rc=0 read
  run nacre
  ends_with 1 "rank 0 of spawn 1 on node0 exited with code 0 without PMI finalize; the job ends"
}

# bats test_tags=long
@test "one that exits with a code of its own after finalize is named, and the job's code stays" {
  clients 1 init "spawn:[$(children 1 init finalize exit:5)]" has:rc=0 finalize
  run nacre
  ends_with 0 "rank 0 of spawn 1 on node0 exited with code 5"
}

# bats test_tags=long
@test "abort by one of them ends the job" {
  clients 2 init "0:spawn:[$(children 2 init '1:send:cmd=abort exitcode=7 message=enough\n' end)]" 0:has:rc=0 end
  run nacre
  ends_with 7 "rank 1 of spawn 1 on node0 called PMI_Abort with code 7: enough"
}

# bats test_tags=long
@test "an abort by one of them does not make the job succeed" {
  local case
  for case in "0 1" "256 255" "-1 255"; do
    clients 1 init "spawn:[$(children 1 init "send:cmd=abort exitcode=${case% *}\\n" end)]" has:rc=0 end
    run nacre
    ends_with "${case#* }" "rank 0 of spawn 1 on node0 called PMI_Abort with code ${case% *}" || return
  done
}

# bats test_tags=long
@test "fault-tolerance: the others of one that is killed go on, in their group" {
  clients 2 init "0:spawn:[$(children 3 init 1:kill 0,2:barrier '0,2:cmd=get kvsname=%k key=PMI_dead_processes' \
    0,2:has:value=1 0,2:finalize)]" 0:has:rc=0 barrier 'cmd=get kvsname=%k key=PMI_dead_processes' has:value= lacks:value=1 finalize
  run nacre -o fault-tolerance
  ends_with 0 "rank 1 of spawn 1 on node0 is lost; the others go on"
}

# bats test_tags=long
@test "they end with the job, whatever they do about SIGTERM" {
  clients 1 init "spawn:[$(program 2 sh -c 'trap "" TERM; touch runs.$PMI_RANK; while :; do sleep 1; done')]" has:rc=0 \
    wait:runs.0 wait:runs.1 'send:cmd=abort exitcode=3\n' end
  run nacre -o kill-timeout=0.5
  ends_with 3 "rank 0 on node0 called PMI_Abort with code 3"
}

# bats test_tags=long
@test "they end with the job also when its tasks have gone before" {
  clients 1 init "spawn:[$(children 1 init wait:go kill),$(program 1 sh -c 'trap "" TERM; touch runs; while :; do sleep 1; done')]" \
    has:rc=0 wait:runs finalize
  "${nacre[@]}" -o kill-timeout=0.5 >out 2>&1 &
  wait_until test -e runs
  wait_until has_children 2 $!
  touch go
  wait $! || status=$?
  [ "$status" -eq 137 ]
  grep -F "rank 0 of spawn 1 on node0 killed by SIGKILL" out
  no_trace_left
}

# bats test_tags=long
@test "a signal for the tasks is one for them" {
  clients 1 init "spawn:[$(program 1 sh -c 'trap "echo usr1 >said; exit 0" USR1; touch runs; while :; do sleep 0.1; done')]" \
    has:rc=0 signal finalize
  "${nacre[@]}" &
  wait_until test -e runs
  kill -USR1 $!
  wait $!
  [ "$(cat said)" = usr1 ]
  no_trace_left
}

# bats test_tags=long
@test "a plugin pmi that is replaced lets the job end, and gets no signal that comes after" {
  # Rank 0 is done with PMI before rank 1 ends, with which pmi is replaced.
  clients 2 init 0:finalize 0:touch:finalized 1:wait:finalized \
    "1:spawn:[$(program 1 sh -c 'touch spawned; sleep 1000')]" 1:has:rc=0 1:wait:spawned 1:finalize 1:exit:0 wait:replaced touch:after wait:never
  cat >rc.lua <<'END'
plugin.register { name = "replaces", handlers = { { topic = "task.exit", fn = function ()
  plugin.register { name = "pmi", handlers = { { topic = "shell.exit", fn = function () end } } }
  io.open ("replaced", "w"):close ()
end } } }
END
  "$NACRE_SHELL" --standalone -j jobspec.json -R R.json -o cpu-affinity=off --initrc=rc.lua >out 2>&1 &
  wait_until test -e after
  kill -TERM $!
  status=0
  wait $! || status=$?
  output=$(<out)
  ends_with 143
}
