#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# How nacre run and nacre launch show a job: as lines of JSON, or quietly; and how to see it again.
load control.bash

no_manager=(env -u SLURM_JOB_ID -u SLURM_JOB_NODELIST -u SLURM_NODELIST -u PBS_NODEFILE -u LSB_DJOB_HOSTFILE -u LSB_MCPU_HOSTS
  -u LSB_HOSTS -u OAR_NODEFILE -u PE_HOSTFILE -u COBALT_NODEFILE)

run_job() { "${no_manager[@]}" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" "$@"; }

# The lines of `out` of this kind, all of which are JSON.
events() { # NAME
  jq -c --arg name "$1" 'select(.name == $name) | .context' out
}
output_of() { # STREAM
  jq -r --arg stream "$1" 'select(.stream == $stream) | "\(.rank) \(.data)"' out | sort
}
names() { jq -r '.name // "output"' out | uniq; }

@test "json: output in its form, all else events, all on standard output; the last one is the end" {
  for shells in 1 2; do
    code=0
    run_job --format=json --local=$shells -n 4 sh -c 'echo "to out \"x\""; echo to err >&2; test $NACRE_TASK_RANK != 2 || exit 3' >out 2>err || code=$?
    [ "$code" -eq 3 ]
    [ "$(output_of stdout)" = "$(printf '%s to out "x"\n' 0 1 2 3)" ]
    [ "$(output_of stderr)" = "$(printf '%s to err\n' 0 1 2 3)" ]
    [ "$(events end)" = '{"by":"the cause","code":3}' ]
    [ "$(tail -n 1 out | jq -r .name)" = end ]
    [ "$(events failure | jq -c '[.cause.rank, .cause.record, .exit.code, .cause.stderr]')" = '[2,"x3",3,"to err\n"]' ]
    # The notices have each rank once; the last one is the end.
    [ "$(events exits | jq -s -c '[.[0].seq, .[-1].end, .[-1].code, .[0].n]')" = '[1,1,3,4]' ]
    [ "$(events exits | jq -r 'select(.x.x3) | .x.x3')" = 2 ]
    # Output comes before events that it causes; nacre's only line on standard error names the task.
    [ "$(names | tail -n 1)" = end ]
    [ "$(grep -c '^nacre: ' err)" = 0 ]
    grep -q 'task 2 on .*: exit code 3' err
    [ "$(jq -s 'all(.[]; has("timestamp") and has("name") and has("context") or has("rank"))' out)" = true ]
  done
}

@test "json: a job that succeeds has the end, and the notices' last" {
  run_job --format=json -n 2 true >out
  [ "$(names)" = $'exits\nend' ]
  [ "$(events end)" = '{"by":"success","code":0}' ]
}

@test "json: an end that cannot be written is a line" {
  for shells in 1 2; do
    run_job --format=json --local=$shells -n 2 true 2>err >/dev/full
    grep -q 'warn: output: cannot write stdout: No space left on device' err
  done
}

# bats test_tags=long
@test "json: bytes that are no UTF-8, a line without an end, much output to a slow reader" {
  run_job --format=json printf 'a\377b\nrest' >out
  [ "$(jq -c 'select(.rank == 0) | [.encoding, .data, .eol]' out)" = $'["base64","Yf9i",null]\n[null,"rest",false]' ]
  run_job --format=json -n 2 --local=2 sh -c 'seq 100000' | { sleep 1; cat >out; }
  [ "$(jq -r 'select(.rank == 1) | .data' out | tail -n 1)" = 100000 ]
  [ "$(jq -r .name out | grep -c .)" -ge 200000 ]
  [ "$(tail -n 1 out | jq -r .name)" = end ]
}

# bats test_tags=long
@test "json: what ends the job is an exception, with a signal, a limit of time, a command that is not there" {
  code=0
  run_job --format=json -t 0.3s -n 2 sleep 60 >out 2>err || code=$?
  [ "$code" -eq 124 ]
  [ "$(events exception | jq -r '[.type, .severity] | join(" ")')" = "timeout 0" ]
  [ "$(events end | jq .code)" = 124 ]
  code=0
  run_job --format=json -n 2 no-such-program >out 2>err || code=$?
  [ "$code" -eq 127 ]
  events exception | jq -e '.severity == 0 and (.note | contains("no-such-program"))'
  [ "$(events end | jq .code)" = 127 ]
}

@test "json: a job that fails before its output is opened has its exception and its end" {
  code=0
  run_job --format=json -o strict -o exit-timout=5s true >out 2>err || code=$?
  [ "$code" -eq 1 ]
  [ "$(events end | jq .code)" = 1 ]
  events exception | jq -e '.note | contains("exit-timeout")'
}

# bats test_tags=long
@test "json: a shell that is lost" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'if test $FLUX_TASK_RANK = 1; then kill -KILL $PPID; fi; sleep 2'
  launch -R R.json -o cpu-affinity=off --local=3 -o tolerate-loss --format=json >out 2>err || true
  [ "$(events lost)" = '{"host":"node1","ranks":"1","shell":1}' ]
  [ "$(events end | jq .code)" = 1 ]
}

# bats test_tags=long
@test "json: who attaches is an event" {
  start_job 2 1 'until test -e go; do sleep 0.2; done' --format=json
  "$front" attach "$id" >viewer.out 2>&1 &
  waiting=$!
  wait_until grep -q '"name":"attach"' out
  touch go
  ends_with 0
  wait "$waiting"
  [ "$(events attach | jq 'has("client")')" = true ]
}

@test "json with a file of its own: the file is as it would be, what has none is JSON" {
  run_job --format=json -n 2 --output='o.{{task.rank}}' --error=e sh -c 'echo out; echo err >&2' >out
  [ "$(cat o.0 o.1)" = $'out\nout' ]
  [ "$(cat e)" = $'err\nerr' ]
  [ "$(names)" = $'exits\nend' ]
  run_job --format=json --output=o -o output.stderr.type=term sh -c 'echo out; echo err >&2' >out
  [ "$(cat o)" = out ]
  [ "$(output_of stderr)" = "0 err" ]
}

# bats test_tags=long
@test "json: what it cannot be had with is wrong usage, and says so" {
  for options in "-l" "--pty" "--explain" "-o output.events=off"; do
    # shellcheck disable=SC2086 # several words
    run run_job --format=json $options true
    [ "$status" -eq 2 ] || { echo "$options: $status $output"; return 1; }
    [[ ${lines[0]} == "nacre run: --format=json "* ]]
  done
  run run_job --format=text -o output.events true
  [ "$status" -eq 2 ]
  [ "${lines[0]}" = "nacre run: --format=text and -o output.events contradict each other: give one of them" ]
  run run_job --format=xml true
  [ "$status" -eq 2 ]
  for option in output.fold output.stdout.label output.stdout.timestamps output.stdout.format=text; do
    run run_job --format=json -o $option true
    [ "$status" -eq 1 ] || { echo "$option: $status $output"; return 1; }
    [[ $output == *"nacre-shell: output"*json* ]] || { echo "$option: $output"; return 1; }
  done
}

# bats test_tags=long
@test "quiet: no report and no information; warnings, errors and the line that names the task stay" {
  for shells in 1 2; do
    run run_job -q --local=$shells -n 2 -o exit-timout=5s sh -c 'test $NACRE_TASK_RANK = 0 || exit 3'
    [ "$status" -eq 3 ]
    [[ $output == *"no plugin reads the option exit-timout"*"error: task 1 on "*": exit code 3"* ]]
    [[ $output != *"nacre: "* ]]
    run run_job -q --local=$shells -o initrc="$PWD/log.lua" true
  done
  echo 'shell.log ("information")' >log.lua
  for shells in 1 2; do
    run run_job --local=$shells -n 2 --initrc="$PWD/log.lua" true
    [[ $output == *information* ]]
    run run_job -q --local=$shells -n 2 --initrc="$PWD/log.lua" true
    [ "$status" -eq 0 ]
    [ -z "$output" ]
  done
  # The list of jobs has the report nevertheless.
  run_job -q sh -c 'echo why >&2; exit 4' 2>/dev/null || true
  "$front" report last | grep -qF '| why'
  run run_job -q -v true
  [ "$status" -eq 2 ]
}

@test "quiet: Ctrl-C is passed on without a word" {
  "${no_manager[@]}" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -q -n 2 sh -c 'trap "exit 5" INT; touch up.$NACRE_TASK_RANK; while :; do sleep 0.2; done' >out 2>err &
  launcher=$!
  wait_until test -e up.0 -a -e up.1
  kill -INT "$launcher"
  code=0
  wait "$launcher" || code=$?
  [ "$code" -eq 5 ]
  [ "$(grep -c interrupt err)" = 0 ]
}

@test "the report ends with how to see it again, where the list of jobs has the job" {
  for shells in 1 2; do
    run run_job --local=$shells -n 2 sh -c 'exit 3'
    line=$(grep '^nacre: exit code.*policy' <<<"$output")
    id=$("$front" jobs -a -q | tail -n 1)
    [ "$line" = "nacre: exit code 3 (policy max: the cause); see it again: nacre report $id" ] || { echo "$output"; "$front" jobs -a; return 1; }
    again=$("$front" report "$id")
    [[ $again == *"nacre: exit code 3 (policy max: the cause)" ]]
    run run_job --local=$shells -n 2 -o control=off sh -c 'exit 3'
    [ "$(grep '^nacre: exit code.*policy' <<<"$output")" = "nacre: exit code 3 (policy max: the cause)" ]
  done
  run run_job --report=r.json sh -c 'exit 3'
  [[ $output == *"; the report: $PWD/r.json; see it again: nacre report "* ]]
}
