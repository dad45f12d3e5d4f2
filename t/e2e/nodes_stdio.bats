#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What tasks write and read, where their job has several shells: all of it goes by way of shell 0.
load nodes.bash

job() { launch -R R.json -o cpu-affinity=off "$@"; }

@test "lines of all shells stay whole and in each task's order" {
  write_nodes 4 2
  write_jobspec 8 awk 'BEGIN {
    r = ENVIRON["FLUX_TASK_RANK"]
    for (i = 0; i < 300; i++) { s = ""; for (k = 0; k < (i * 7) % 90; k++) s = s "0123456789"; print r, i, s r }
  }'
  job --local=4 --arity=2 >out
  [ "$(wc -l <out)" -eq 2400 ]
  for rank in 0 1 2 3 4 5 6 7; do
    grep "^$rank " out >own
    FLUX_TASK_RANK=$rank awk 'BEGIN {
      r = ENVIRON["FLUX_TASK_RANK"]
      for (i = 0; i < 300; i++) { s = ""; for (k = 0; k < (i * 7) % 90; k++) s = s "0123456789"; print r, i, s r }
    }' | cmp - own
  done
}

# bats test_tags=long
@test "a line of a megabyte from each shell stays one" {
  write_nodes 4 1
  write_jobspec 4 sh -c 'head -c 1000000 /dev/zero | tr "\0" "$FLUX_TASK_RANK"; echo'
  job --local=4 >out
  [ "$(wc -lc <out | xargs)" = "4 4000004" ]
  [ "$(cut -c1 out | sort | paste -sd' ')" = "0 1 2 3" ]
  [ "$(tr -s 0123 <out | sort | paste -sd' ')" = "0 1 2 3" ]
}

@test "only shell 0 writes, and both streams come out where they belong" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo "out $FLUX_TASK_RANK"; echo "err $FLUX_TASK_RANK" >&2'
  printf '#!/bin/sh\nexec "$@" >out.$PMI_RANK 2>err.$PMI_RANK\n' >each
  chmod +x each
  mpiexec.hydra -n 3 ./each "$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off
  [ "$(sort out.0)" = $'out 0\nout 1\nout 2' ]
  [ "$(sort err.0)" = $'err 0\nerr 1\nerr 2' ]
  for rank in 1 2; do [ ! -s out.$rank ] && [ ! -s err.$rank ]; done
}

@test "labels, and folding of what all say" {
  write_nodes 4 2
  write_jobspec 8 sh -c 'echo same; echo "mine $FLUX_TASK_RANK" >&2'
  job --local=4 -o label-io -o output.fold >out 2>err
  # Each rank is there once. A line waits for 0.1 s, so on a slow machine there may be more than one line, but not
  # one for each rank.
  [ "$(wc -l <out)" -lt 8 ]
  [ "$(sed -n 's/^\[\{0,1\}\([0-9,-]*\)\]\{0,1\}: same$/\1/p' out | tr , '\n' | awk -F- '{ for (r = $1; r <= $NF; ++r) print r }' | sort)" = "$(seq 0 7)" ]
  [ "$(sort err)" = "$(for r in 0 1 2 3 4 5 6 7; do echo "$r: mine $r"; done)" ]
}

@test "output.limit counts what all shells write" {
  write_nodes 4 1
  write_jobspec 4 sh -c 'seq 1000'
  run job --local=4 -o output.limit=100
  [ "$status" -eq 0 ]
  [ "$(grep -cx '[0-9]*' <<<"$output")" -le 50 ]
  [ "$(grep -c 'stdout is cut here: output.limit is 100 bytes' <<<"$output")" -eq 1 ]
  [[ $output == *"bytes over output.limit were cut"* ]]
}

# bats test_tags=long
@test "a reader that is gone ends the tasks of all shells" {
  write_nodes 4 1
  write_jobspec 4 yes 987651
  job --local=4 -o exit-timeout=none 2>log | head -n 2 >out
  [ "$(cat out)" = $'987651\n987651' ]
  nothing_left 'yes 987651'
  run grep -v 'error: task .*: killed by SIGPIPE$' log
  [ -z "$output" ]
}

# bats test_tags=long
@test "a reader that has gone before the leader has started ends the tasks of all shells" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'touch "wrote.$FLUX_TASK_RANK"; exec yes 987652'
  # An event log that takes nothing holds up the leader between the init barrier and shell.post-init.
  mkfifo events out
  exec 9<>events 8<>out
  head -c 65536 /dev/zero >&9
  job --local=3 -o exit-timeout=none -- --eventlog=events >out 2>log 8>&- 9>&- &
  job=$!
  wait_until test -e wrote.1 -a -e wrote.2
  sleep 0.2 # their output fills all buffers up to the leader
  exec 8>&-
  cat <&9 >/dev/null 3>&- &
  code=0
  wait "$job" || code=$?
  kill $!
  [ "$code" -eq 141 ] || { echo "exit code $code"; cat log; return 1; }
  nothing_left 'yes 987652'
}

# bats test_tags=long
@test "a reader that waits holds the tasks up, and nothing is lost" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'seq -f "$FLUX_TASK_RANK %020g" 600000; touch "done.$FLUX_TASK_RANK"'
  mkfifo out
  job --local=3 >out &
  exec 5<out
  read -r first <&5
  [ ! -e done.0 ]
  [ ! -e done.1 ]
  [ ! -e done.2 ]
  cat <&5 >rest
  exec 5<&-
  wait $!
  for rank in 0 1 2; do
    { echo "$first"; cat rest; } | grep "^$rank " | cmp - <(seq -f "$rank %020g" 600000)
  done
  [ -e done.0 ] && [ -e done.1 ] && [ -e done.2 ]
}

# bats test_tags=long
@test "the record says of all tasks what they wrote, and where each stream ends" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo "from $FLUX_TASK_RANK"'
  job --local=3 -o output.stdout.type=kvs -- --record-dir="$work/record"
  [ "$(jq -r 'select(.name == "header").context.count.stdout' record/guest.output)" = 3 ]
  [ "$(head -1 record/guest.output | jq -r .name)" = header ]
  for rank in 0 1 2; do
    [ "$(jq -rj "select(.name == \"data\" and .context.rank == \"$rank\" and .context.stream == \"stdout\").context.data // empty" record/guest.output)" = "from $rank" ]
    for stream in stdout stderr; do
      [ "$(jq -c "select(.name == \"data\" and .context.rank == \"$rank\" and .context.stream == \"$stream\" and .context.eof)" record/guest.output | wc -l)" -eq 1 ]
    done
  done
}

@test "a file of each task's own is named in the record, by all shells" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo "from $FLUX_TASK_RANK"'
  job --local=3 -o output.stdout.type=file -o 'output.stdout.path=out.{{task.rank}}' -- --record-dir="$work/record"
  for rank in 0 1 2; do [ "$(cat out.$rank)" = "from $rank" ]; done
  [ "$(jq -r 'select(.name == "redirect" and .context.stream == "stdout") | "\(.context.rank) \(.context.path)"' record/guest.output | sort)" = \
    "$(for rank in 0 1 2; do echo "$rank out.$rank"; done)" ]
}

@test "the messages of all shells are in the job's file of standard error" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo "from $FLUX_TASK_RANK" >&2'
  echo 'if shell.info.rank > 0 then shell.log ("here is " .. shell.info.rank) end' >rc.lua
  job --local=3 -o output.stderr.path=err -- --record-dir="$work/record" --initrc="$work/rc.lua"
  [ "$(sort err)" = "from 0
from 1
from 2
nacre-shell[1]: initrc: here is 1
nacre-shell[2]: initrc: here is 2" ]
  [ "$(jq -c 'select (.name == "log") | .context | [.rank, .message]' record/guest.output | sort)" = '[1,"here is 1"]
[2,"here is 2"]' ]
  job --local=3 -o output.stderr.path='err.{{node.id}}' -- --initrc="$work/rc.lua"
  [ "$(<err.0)" = "from 0" ]
  for rank in 1 2; do
    [ "$(sort err."$rank")" = "from $rank
nacre-shell[$rank]: initrc: here is $rank" ] || { cat err."$rank"; return 1; }
  done
}

# bats test_tags=long
@test "shells of one host share its file, which is emptied once" {
  write_nodes 4 1
  jq '.execution.nodelist = ["a,a,b,a"]' R.json >R2.json && mv R2.json R.json
  write_jobspec 4 sh -c 'seq 500; echo "from $FLUX_TASK_RANK"'
  echo old | tee out.a >out.b
  job --local=4 -o output.stdout.type=file -o 'output.stdout.path=out.{{node.name}}'
  [ "$(grep from out.a | sort | paste -sd' ')" = "from 0 from 1 from 3" ]
  [ "$(wc -l <out.a)" -eq 1503 ]
  [ "$(tail -n 1 out.b)" = "from 2" ]
  run grep old out.a out.b
  [ "$status" -eq 1 ]
}

# bats test_tags=long
@test "what a lost shell has sent comes out, and the others go on" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo $PPID >shell.$FLUX_TASK_RANK; echo "first $FLUX_TASK_RANK"; while [ ! -e go ]; do sleep 0.1; done; seq 10000; echo "last $FLUX_TASK_RANK"'
  job --local=3 -o tolerate-loss -o exit-timeout=none >out 2>log &
  lines_come out 3
  kill -9 "$(cat shell.2)"
  for ((i = 0; i < 3000; ++i)); do grep -q "is lost" log && break; sleep 0.02; done
  touch go
  wait $! || true
  [ "$(grep first out | sort | paste -sd' ')" = "first 0 first 1 first 2" ]
  [ "$(grep last out | sort | paste -sd' ')" = "last 0 last 1" ]
  [ "$(wc -l <out)" -eq 20005 ]
}

@test "all tasks get all of the launcher's input" {
  write_nodes 4 2
  write_jobspec 8 sh -c 'echo "$FLUX_TASK_RANK $(md5sum)"'
  head -c 5000000 /dev/urandom >in
  sum=$(md5sum <in)
  expected=$(for rank in 0 1 2 3 4 5 6 7; do echo "$rank $sum"; done)
  [ "$(job --local=4 <in | sort)" = "$expected" ]
  [ "$(tail -c +1 in | job --local=4 --arity=2 | sort)" = "$expected" ]
}

# bats test_tags=long
@test "who does not read keeps nobody from reading" {
  write_nodes 3 2
  write_jobspec 6 sh -c '[ $FLUX_TASK_RANK -ne 4 ] || md5sum; while [ ! -e read ]; do sleep 0.1; done'
  head -c 20000000 /dev/urandom >in
  job --local=3 <in >out &
  lines_come out 1
  [ "$(cat out)" = "$(md5sum <in)" ]
  touch read
  wait $!
}

# bats test_tags=long
@test "input.ranks says who reads, and input.limit how much" {
  write_nodes 3 2
  write_jobspec 6 sh -c 'echo "$FLUX_TASK_RANK $(wc -c)"'
  [ "$(seq 10000 | job --local=3 -o input.ranks=1,4 | sort | paste -sd,)" = "0 0,1 48894,2 0,3 0,4 48894,5 0" ]
  [ "$(seq 10000 | job --local=3 -o input.ranks=0-1 | sort | paste -sd,)" = "0 48894,1 48894,2 0,3 0,4 0,5 0" ]
  run job --local=3 -o input.limit=1000 < <(seq 10000)
  [ "$(grep -c ' 1000$' <<<"$output")" -eq 6 ]
  [ "$(grep -c 'stdin is cut here' <<<"$output")" -eq 1 ]
}

@test "a line that is typed comes to all at once, and without input there is /dev/null" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'while read -r line; do echo "$FLUX_TASK_RANK $line"; done; echo "$FLUX_TASK_RANK ends"'
  mkfifo in
  job --local=3 <in >out &
  exec 5>in
  echo one >&5
  lines_come out 3
  [ "$(sort out)" = $'0 one\n1 one\n2 one' ]
  exec 5>&-
  wait $!
  [ "$(grep -c ends out)" -eq 3 ]
  write_jobspec 3 sh -c 'readlink /proc/self/fd/0'
  [ "$(job --local=3 </dev/null | sort -u)" = /dev/null ]
}

# bats test_tags=long
@test "Hydra gives its input to shell 0, which has it for all" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo "$FLUX_TASK_RANK $(wc -c)"'
  [ "$(seq 10000 | mpiexec.hydra -n 3 "$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off | sort | paste -sd,)" = \
    "0 48894,1 48894,2 48894" ]
}

# bats test_tags=long
@test "a job of one shell gets the launcher's input too" {
  write_nodes 1 2
  write_jobspec 2 sh -c 'echo "$FLUX_TASK_RANK $(wc -c)"'
  [ "$(seq 10000 | job --local=1 | sort | paste -sd,)" = "0 48894,1 48894" ]
  write_jobspec 1 wc -c
  [ "$(seq 10000 | job --local=1)" = 48894 ]
}

# Runs the leader of a job that task 1 ends; $1: options of nacre-shell.
ends_by_task_1() {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo "out $FLUX_TASK_RANK"; touch wrote.$FLUX_TASK_RANK; [ "$FLUX_TASK_RANK" -ne 1 ] || exit 3; sleep 30'
  job --local=3 -o exit-on-error -- "$@" >out 2>err && status=0 || status=$?
  if [ "$(grep -v ' 0$' out | sort)" != $'out 1\nout 2' ]; then
    echo "$*: exit code $status, and: $(cat out err)"
    return 1
  fi
}

# bats test_tags=long
@test "what a task of another shell has written comes out where the job ends before the leader has started its own" {
  # An event log that takes nothing until they have written holds up the leader between the init barrier and shell.post-init.
  mkfifo events
  exec 9<>events
  head -c 65536 /dev/zero >&9
  { until [ -e wrote.1 ] && [ -e wrote.2 ]; do sleep 0.01; done; sleep 0.2; timeout 10 cat events >/dev/null; } 3>&- &
  ends_by_task_1 --eventlog=events
  kill $! || :
  [ "$status" -eq 3 ]
}

# bats test_tags=long
@test "what a task of another shell has written comes out where a handler of the leader is slow, or ends the job" {
  for topic in shell.post-init task.init task.fork shell.start; do
    for end in '' 'shell.die("no more")'; do
      rm -f wrote.*
      cat >rc.lua <<LUA
if shell.info.rank == 0 then
  plugin.register { name = "slow", handlers = { { topic = "$topic", fn = function()
    os.execute("until [ -e wrote.1 ] && [ -e wrote.2 ]; do sleep 0.01; done; sleep 0.1")
    $end
  end } } }
end
LUA
      ends_by_task_1 --initrc=rc.lua
      [ "$status" -eq 3 ] || { [ -n "$end" ] && [ "$status" -eq 1 ]; }
    done
  done
}
