#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The list of jobs, and what reaches a job that runs: nacre jobs, ps, kill, cancel, wait, report, control.
load control.bash

@test "a job that runs is listed, with its columns, and its end is kept" {
  start_job 2 2 'exec sleep 600'
  run "$front" jobs
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 2 ]
  read -r -a header <<<"${lines[0]}"
  read -r -a cells <<<"${lines[1]}"
  [ "${header[*]}" = "ID NAME ST NTASKS NNODES TIME HOST INFO" ]
  [ "${cells[0]} ${cells[1]} ${cells[2]} ${cells[3]} ${cells[4]} ${cells[6]}" = "$id sh R 4 2 $(hostname)" ]
  [ "$("$front" jobs --json | jq -c '[.status, .tasks, .shells, .command[2], .manager.kind]')" = '["R",4,2,"exec sleep 600","none"]' ]
  "$front" kill last
  ends_with 143
  count=0 listed
  [ "$("$front" jobs -a --json | jq -c '[.id, .status, .end.code, .end.exits]')" = \
    "$(jq -nc --arg id "$id" '[$id, "F", 143, [{count: 4, ranks: "0-3", record: "s15"}]]')" ]
}

@test "nothing on disk is for others, or secret" {
  start_job 1 1 'exec sleep 600'
  [ "$(stat -c '%a %n' "$NACRE_JOBS_DIR")" = "700 $NACRE_JOBS_DIR" ]
  [ "$(stat -c %a "$NACRE_JOBS_DIR/$id.json")" = 600 ]
  wait_until test -e "$NACRE_JOBS_DIR/$id.details"
  [ "$(stat -c %a "$NACRE_JOBS_DIR/$id.details")" = 600 ]
  [ "$(find "$NACRE_JOBS_DIR" -mindepth 1 | wc -l)" -eq 2 ]
  socket=$("$front" jobs --json | jq -r .address)
  [ "$(stat -c %a "$(dirname "${socket#unix:}")")" = 700 ]
  run ! grep -iE 'secret|[0-9a-f]{64}' "$NACRE_JOBS_DIR/$id.json" "$NACRE_JOBS_DIR/$id.details"
  "$front" kill last
  ends_with 143
  [ ! -e "${socket#unix:}" ]
}

# bats test_tags=long
@test "process titles tell job and rank" {
  start_job 2 1 'exec sleep 600'
  wait_until pgrep -fx "nacre-shell: $id (rank )?1/2 *"
  [ "$(pgrep -fx "nacre-shell: $id (rank )?0/2 *")" = "$(<leader)" ]
  "$front" kill last
  ends_with 143
}

@test "ps shows each task with its process, of all shells" {
  start_job 3 2 'exec sleep 600'
  wait_until all_sleep
  run --separate-stderr "$front" ps
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 7 ]
  read -r -a header <<<"${lines[0]}"
  [ "${header[*]}" = "RANK HOST PID ST TRY TIME CPU% RSS CMD" ]
  for rank in 0 1 2 3 4 5; do
    read -r -a cells <<<"${lines[rank + 1]}"
    [ "${cells[0]}" = "$rank" ]
    [ "${cells[1]}" = "node$((rank / 2))" ]
    [ "${cells[3]} ${cells[4]} ${cells[8]}" = "S 1 sleep" ]
    tr '\0' '\n' <"/proc/${cells[2]}/environ" | grep -x "FLUX_TASK_RANK=$rank"
  done
  [ "$("$front" ps --json | jq -sc 'map(.rank)')" = '[0,1,2,3,4,5]' ]
  "$front" kill last
  ends_with 143
}

# bats test_tags=long
@test "ps counts the cpu time of what a task has started, also once that has ended" {
  start_job 1 1 'sh -c "i=0; while [ \$i -lt 300000 ]; do i=\$((i+1)); done"; touch ready; exec sleep 600'
  wait_until test -e ready
  "$front" ps --json | jq -e '.cpu * .time > 0.03'
  "$front" kill last
  ends_with 143
}

# bats test_tags=long
@test "ps counts what a task has started, and folds many tasks" {
  start_job 2 33 'sleep 600 & exec sleep 601'
  wait_until eval '[ "$("$front" ps -q | wc -l)" -eq 2 ]' # the tasks of a node are folded once each has become its program
  run "$front" ps
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 3 ]
  read -r -a cells <<<"${lines[2]}"
  [ "${cells[0]} ${cells[1]} ${cells[2]}" = "33-65 node1 (33)" ]
  [ "$("$front" ps --no-fold -q | wc -l)" -eq 66 ]
  "$front" kill -s KILL last
  ends_with 137
}

# bats test_tags=long
@test "a shell that stands still does not hold up ps, and is named" {
  start_job 2 1 'exec sleep 600' -o lost-after=60s
  wait_until pgrep -fx "nacre-shell: $id (rank )?1/2 *"
  other=$(pgrep -fx "nacre-shell: $id (rank )?1/2 *")
  kill -STOP "$other"
  run --separate-stderr "$front" ps
  kill -CONT "$other"
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 2 ]
  [[ $stderr == *"no answer in time from the shells on node1"* ]]
  "$front" kill last
  ends_with 143
}

@test "kill sends a signal to some tasks, on whichever shell, and says what is wrong" {
  start_job 2 2 'trap "echo got USR1 \$FLUX_TASK_RANK" USR1; echo ready; while :; do sleep 0.1; done' -o exit-timeout=0.5s
  lines_come out 4
  [ "$("$front" kill -s USR1 --ranks=1-2 --json "$id" | jq -c '[.sent, .signal]')" = '["1-2",10]' ]
  lines_come out 6
  [ "$(grep got out | sort)" = "got USR1 1
got USR1 2" ]
  run "$front" kill --ranks=3-4 "$id"
  fails_with 1 "nacre kill: no rank 4: the job has ranks 0-3"
  run "$front" kill -s FOO "$id"
  [ "$status" -eq 2 ]
  [[ $output == *"--signal: 'FOO': expected the name or the number of a signal"* ]]
  run "$front" kill --ranks= "$id"
  [ "$status" -eq 2 ]
  "$front" kill -s 9 --ranks=0 "$id"
  ends_with 137
}

@test "cancel ends a job in order, and wait exits with its code" {
  start_job 2 1 'trap "echo cleaned; exit 0" TERM; echo ready; while :; do sleep 0.1; done'
  lines_come out 2
  "$front" wait "$id" &
  waiting=$!
  "$front" cancel "$id"
  ends_with 143
  code=0
  wait "$waiting" || code=$?
  [ "$code" -eq 143 ]
  [ "$(grep -c cleaned out)" -eq 2 ]
  grep -F "ended by nacre cancel" err
  run "$front" cancel "$id"
  fails_with 1 "nacre cancel: job $id has ended"
  run "$front" wait "$id"
  [ "$status" -eq 143 ]
}

is_connected() { [[ $(ls -l "/proc/$1/fd") == *socket:* && $(cut -d' ' -f3 "/proc/$1/stat") == S ]]; }

# bats test_tags=long
@test "wait gives the code of a job that ends by itself, or has ended" {
  start_job 2 1 'while [ ! -e go ]; do sleep 0.2; done; exit $FLUX_TASK_RANK'
  "$front" wait --json >waited &
  waiting=$!
  wait_until is_connected "$waiting"
  touch go
  code=0
  wait "$waiting" || code=$?
  [ "$code" -eq 1 ]
  [ "$(jq -c . waited)" = "{\"code\":1,\"id\":\"$id\"}" ]
  ends_with 1
  run "$front" wait last
  [ "$status" -eq 1 ]
  [ -z "$output" ]
}

@test "report tells how a job does, and how it has ended" {
  start_job 2 2 '[ "$FLUX_TASK_RANK" != 3 ] || { while [ ! -e go ]; do sleep 0.2; done; echo out of luck >&2; exit 7; }'
  wait_until bash -c "'$front' report --json | jq -e '.running == \"3\"'"
  [ "$("$front" report --json | jq -c .exits)" = '[{"count":3,"ranks":"0-2","record":"x0"}]' ]
  "$front" report | grep -F "ranks 3"
  touch go
  ends_with 7
  run "$front" report last
  [ "$status" -eq 0 ]
  [[ $output == *"ended with exit code 7"* ]]
  [[ $output == *"x7"*"1 3"* ]]
  [[ $output == *"out of luck"* ]]
  [ "$("$front" report "$id" --json | jq -c '[.end.code, .end.report.cause.rank]')" = '[7,3]' ]
  for policy in max:7 main:0 all:1 main+all:1 first:7; do
    "$front" report --policy="${policy%:*}" last | grep -x "policy ${policy%:*}: exit code ${policy#*:}"
  done
  [ "$("$front" report --policy=main --json last | jq -c .policy)" = '{"code":0,"name":"main"}' ]
  run "$front" report --policy=mean last
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == *"--policy: expected max, main, all, main+all or first, got 'mean'"* ]]
}

@test "a job that is over at once leaves only its end" {
  write_nodes 1 1
  write_jobspec 1 true
  launch -R R.json -o cpu-affinity=off --local=1
  [ "$("$front" jobs -a --json | jq -c '[.status, .end.code]')" = '["CD",0]' ]
  run "$front" report last
  [ "$status" -eq 0 ]
}

@test "control=off: no entry, no socket, nothing to reach" {
  prepare 1 true
  write_nodes 1 1
  write_jobspec 1 sh -c "find $TMPDIR -name s -type s | wc -l; sleep 0.2; find $TMPDIR -name s -type s | wc -l"
  run launch -R R.json -o cpu-affinity=off --local=1 -o control=off
  [ "$status" -eq 0 ]
  [ "${lines[0]}" = "${lines[1]}" ]
  [ ! -e "$NACRE_JOBS_DIR" ]
  run launch -R R.json -o cpu-affinity=off --local=1 -o control=7.5x
  fails_with 1 "control: expected on or off"
}

@test "a standalone shell is listed only where that is asked for" {
  prepare 1 true
  "$NACRE_SHELL" --standalone -j jobspec.json -R R.json -o cpu-affinity=off
  [ ! -e "$NACRE_JOBS_DIR" ]
  "$NACRE_SHELL" --standalone -j jobspec.json -R R.json -o cpu-affinity=off -o control
  [ "$("$front" jobs -a -q | wc -l)" -eq 1 ]
}

# bats test_tags=long
@test "a leader that is killed is told at once, and its socket goes" {
  start_job 2 1 'exec sleep 600'
  socket=$("$front" jobs --json | jq -r .address)
  "$front" wait "$id" 2>waited &
  waiting=$!
  wait_until is_connected "$waiting"
  half=$NACRE_JOBS_DIR/.$id.json.$(<leader) # as if the leader was killed while it wrote
  touch "$half"
  kill -KILL "$(<leader)"
  code=0
  wait "$waiting" || code=$?
  [ "$code" -eq 137 ]
  grep -F "its leader has gone" waited
  wait "$launcher" || :
  wait_until grep -q '"vanished":true' "$NACRE_JOBS_DIR/$id.json" # its guard has written this: no other process has looked at the list
  [ ! -e "$half" ]
  wait_until test ! -e "$(dirname "${socket#unix:}")"
  [ "$("$front" jobs -a --json | jq -r .status)" = V ]
  run "$front" kill "$id"
  fails_with 1 "nacre kill: job $id has ended"
}

@test "a leader that stands still is given up with the remedy" {
  start_job 1 1 'exec sleep 600'
  kill -STOP "$(<leader)"
  run "$front" kill "$id"
  kill -CONT "$(<leader)"
  fails_with 1 "nacre kill: job $id: its leader, process $(<leader) on $(hostname): it does not answer within 5 s" \
    "kill -CONT $(<leader)"
  "$front" kill "$id"
  ends_with 143
}

# bats test_tags=long
@test "without JOB the only one that runs is meant by verbs that look, kill and cancel ask for one; names have to be clear" {
  run "$front" ps
  fails_with 1 "nacre ps: no job runs"
  for verb in kill cancel; do
    run "$front" $verb
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == "nacre $verb: expected a job: its id, its name, or last for the one that has begun last"* ]]
  done
  run "$front" report nothing
  fails_with 1 "nacre report: 'nothing': no such job"
  start_job 1 1 'exec sleep 600'
  first=$id
  launch -R R.json -o cpu-affinity=off --local=1 >out2 2>err2 &
  second=$!
  count=2 wait_until listed
  run "$front" ps
  fails_with 1 "nacre ps: 2 jobs run: name one of $first (sh), "
  run "$front" kill sh
  fails_with 1 "'sh' may be any of 2 jobs"
  [ "$("$front" kill "$first")" = "job $first (sh): SIGTERM to rank 0" ]
  ends_with 143
  [[ $("$front" cancel sh) == "job "*" (sh): is being ended" ]]
  wait "$second" || [ $? -eq 143 ]
}
