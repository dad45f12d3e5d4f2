#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Spares: shells without tasks, which are of the job from its start to its end.
load control.bash

run_() { "$front" run --shell="$NACRE_SHELL" "$@"; }

# Each task runs until there is the file `go`.
until_go='echo here $FLUX_TASK_RANK; while [ ! -e go ]; do sleep 0.2; done; echo done $FLUX_TASK_RANK'

# As start_job, by nacre run, whose options and command are all arguments.
start_run() {
  run_ "$@" >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  "$front" jobs --json | jq .pid >leader
}

@test "-N 4+1, --spares and -o spares=1 are the same: four nodes have tasks, the last has none" {
  local each
  for each in "-N 4+1 --local=5" "-N 4 --spares=1 --local=5" "--local=5 --spares=1" "--local=5 -o spares=1" "-N 4 -o spares=1 --local=6" \
    "-N 4+1 --spares=1 -o spares=1 --local=5" "-n 4 --spares=1 --local=5" "-n 4 --hosts=node[0-4] --agent=$PWD/agent --spares=1"; do
    printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >agent
    chmod +x agent
    # shellcheck disable=SC2086
    run --separate-stderr run_ $each -l sh -c 'echo $FLUX_JOB_SIZE $FLUX_JOB_NNODES $NACRE_JOB_NNODES $NACRE_SHELL_ID'
    [ "$status" -eq 0 ] || { echo "$each: $status $output $stderr"; return 1; }
    [ "$(sort <<<"$output" | sed -E 's/ [^ ]*\.([0-9])$/ \1/')" = "0: 4 4 4 0
1: 4 4 4 1
2: 4 4 4 2
3: 4 4 4 3" ] || { echo "$each: $output"; return 1; }
  done
}

# bats test_tags=long
@test "a jobspec's nodes: those for tasks if R has them beside the spares, else with the spares" {
  local row nodes counts
  write_nodes 5 4
  for row in "5|2 2 2 2" "4|2 2 2 2" "3|2 2 2"; do
    nodes=${row%|*} counts=${row#*|}
    jq -n --argjson nodes "$nodes" '{version: 1, resources: [{type: "node", count: $nodes, with: [{type: "slot", count: 2, label: "t", with: [{type: "core", count: 1}]}]}],
      tasks: [{command: ["sh", "-c", "echo $NACRE_SHELL_ID"], slot: "t", count: {per_slot: 1}}], attributes: {system: {duration: 0}}}' >jobspec.json
    run --separate-stderr launch -R R.json -o cpu-affinity=off --local=5 --spares=1
    [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
    [ "$(sort <<<"$output" | uniq -c | awk '{ printf "%s%s", sep, $1; sep = " " }')" = "$counts" ] || { echo "$row: $output"; return 1; }
  done
  # The number of nodes for which a manager is asked includes the spares.
  [ "$(run_ --dry-run -N 4+1 --local=5 true | jq -c '[.resources[0].count, .attributes.system.shell.options.spares]')" = "[5,1]" ]
  run_ --dry-run -N 3+1 --local=4 -n 6 sh -c 'echo $FLUX_JOB_SIZE $FLUX_JOB_NNODES' >spec.json
  [ "$(run_ --local=4 --file=spec.json | sort | uniq -c | awk '{ print $1, $2, $3 }')" = "6 6 3" ]
  jq 'del(.attributes.system.shell.options.spares)' spec.json >plain.json
  [ "$(run_ --local=4 --file=plain.json --spares=2 | sort | uniq -c | awk '{ print $1, $2, $3 }')" = "4 4 2" ]
}

@test "what spares cannot be is refused in words" {
  local row code given words
  for row in "2|-N 4+|expected a number of nodes, NODES+SPARES as in 4+1, or MIN:MAX as in 2:8, got '4+'" "2|-N 4+x|expected a number of nodes, NODES+SPARES as in 4+1, or MIN:MAX as in 2:8, got '4+x'" \
    "2|-N +1|expected a number of nodes, NODES+SPARES as in 4+1, or MIN:MAX as in 2:8, got '+1'" "2|-N 4+1+1|expected a number of nodes, NODES+SPARES as in 4+1, or MIN:MAX as in 2:8, got '4+1+1'" \
    "2|-N 0+1|at least 1 node" "2|-N 1+18446744073709551615|nodes in all" "2|-N 4+1 --spares=2|-N 4+1 and --spares=2 contradict each other: give one of them" \
    "2|-N 4+1 -o spares=2|-N 4+1 and -o spares=2 contradict each other: give one of them" "2|--spares=1 -o spares=2|--spares=1 and -o spares=2 contradict each other" \
    "2|--spares=x|--spares" "2|--spares=-1|--spares" "1|-N 4+1 --local=4|-N 4+1, but there are 4 nodes" "1|-N 2+1|-N 2+1, but there is 1 node" \
    "1|--local=3 --spares=3|--spares=3, but there are 3 nodes: at least one has to be left for tasks" "1|--spares=1|--spares=1, but there is 1 node: at least one has to be left for tasks" \
    "1|--local=3 -o spares=x|spares: expected an integer" "1|--local=3 -o spares=-1|spares: "; do
    IFS='|' read -r code given words <<<"$row"
    # shellcheck disable=SC2086
    run run_ $given true
    [ "$status" -eq "$code" ] || { echo "$given: $status $output"; return 1; }
    [[ $output == *"$words"* ]] || { echo "$given: $output"; return 1; }
  done
  write_nodes 3 1
  write_jobspec 2 true
  run launch -R R.json --local=3 --spares=3
  [ "$status" -eq 1 ]
  [[ $output == *"spares: 3, but R has 3 nodes: at least one has to be left for tasks"* ]] || { echo "$output"; return 1; }
  run launch -R R.json --local=3 --spares=2
  [ "$status" -eq 1 ]
  [[ $output == *"jobspec asks for 2 slots of 1 core; R has room for 1; node0 has 1 core: "*" (and 2 spares)"* ]] || { echo "$output"; return 1; }
  run launch -R R.json --local=3 --spares=1 -o spares=2
  [ "$status" -eq 2 ]
  [[ $output == *"--spares=1 and -o spares=2 contradict each other"* ]]
  write_nodes 1 1
  write_jobspec 1 true
  run "$NACRE_SHELL" --standalone -R R.json -j jobspec.json -o spares=1
  [ "$status" -eq 1 ]
  [[ $output == *"spares: 1, but R has 1 node: at least one has to be left for tasks"* ]] || { echo "$output"; return 1; }
}

# bats test_tags=long
@test "a taskmap gives spares no tasks" {
  write_nodes 4 2
  write_jobspec 6 sh -c 'echo $NACRE_SHELL_ID'
  [ "$(launch -R R.json -o cpu-affinity=off --local=4 --spares=1 -o taskmap=cyclic | sort | uniq -c | awk '{ print $1 }' | paste -sd' ')" = "2 2 2" ]
  [ "$(launch -R R.json -o cpu-affinity=off --local=4 --spares=1 -o 'per-resource={"type":"node","count":1}' | wc -l)" -eq 3 ]
  run launch -R R.json -o cpu-affinity=off --local=4 --spares=1 -o 'taskmap=manual:[[0,2,2,1],[3,1,2,1]]'
  [ "$status" -eq 1 ]
  [[ $output == *"taskmap.manual: the map has tasks on node 3, which is a spare"* ]] || { echo "$output"; return 1; }
}

@test "spares read the initrc, run shell.init, the prolog and the epilog, take part in barriers, and end with the others" {
  cat >rc.lua <<'LUA'
for _, topic in ipairs { "shell.init", "shell.post-init", "shell.start", "task.init", "shell.finish", "shell.exit" } do
  plugin.register { name = "see-" .. topic, handlers = { { topic = topic, fn = function()
    local file = io.open ("seen." .. shell.info.rank, "a")
    local go = io.open ("go")
    file:write (topic, go and " late" or "", "\n")
    file:close ()
  end } } }
end
LUA
  start_run -N 2+1 --local=3 --initrc="$PWD/rc.lua" -o 'prolog=echo prolog >>hooks' -o 'epilog=test -e go && echo epilog >>hooks' sh -c "$until_go"
  lines_come out 2
  [ "$(<hooks)" = $'prolog\nprolog\nprolog' ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' out)" -eq 2 ]
  [ "$(sort hooks | uniq -c | awk '{ print $1, $2 }')" = $'3 epilog\n3 prolog' ] || { cat hooks; return 1; }
  for rank in 0 1; do [ "$(<seen.$rank)" = $'shell.init\nshell.post-init\ntask.init\nshell.start\nshell.finish late\nshell.exit late' ] || { cat seen.$rank; return 1; }; done
  [ "$(<seen.2)" = $'shell.init\nshell.post-init\nshell.start\nshell.finish late\nshell.exit late' ] || { cat seen.2; return 1; }
  [ ! -s err ] || { cat err; return 1; }
}

# bats test_tags=long
@test "nacre ps, nacre jobs and --explain name the spares" {
  start_job 5 1 "$until_go" --spares=2 -o oversubscribe
  lines_come out 5
  [ "$("$front" jobs | awk 'NR == 2 { print $4, $5 }')" = "5 3+2" ]
  [ "$("$front" jobs --json | jq -c '[.tasks, .shells, .spares]')" = "[5,5,2]" ]
  "$front" ps >rows
  [ "$(awk 'NR > 1 { print $1, $2 }' rows | paste -sd' ')" = "0 node0 1 node0 2 node1 3 node1 4 node2 - node3 - node4" ] || { cat rows; return 1; }
  [ "$(tail -n 1 rows | awk '{ print $NF }')" = "(spare)" ]
  [ "$("$front" ps --json | jq -c 'select(.spare) | [.host, .shell]' | paste -sd' ')" = '["node3",3] ["node4",4]' ]
  touch go
  ends_with 0
  rm go
  [ "$("$front" jobs -a | awk 'NR == 2 { print $4, $5 }')" = "5 3+2" ]
  run --separate-stderr launch -R R.json -o oversubscribe --local=5 --spares=2 --explain
  [ "$status" -eq 0 ]
  [[ $output == *"tasks     5 on 3 nodes, taskmap [[0,2,2,1],[2,1,1,1]]"*"shells    5 of 5: node[0-4]"*"spares    2 of them: node[3-4]"* ]] || { echo "$output"; return 1; }
  run --separate-stderr launch -R R.json -o cpu-affinity=off --local=5 --explain
  [[ $output != *spare* ]]
}

# bats test_tags=long
@test "commands run beside a spare, and on it if all nodes are meant" {
  start_job 3 1 "$until_go" --spares=1 -o oversubscribe
  lines_come out 3
  [ "$("$front" exec -w node2 sh -c 'echo $FLUX_JOB_SIZE')" = 3 ]
  [ "$("$front" exec uname | sort)" = $'node0: Linux\nnode1: Linux\nnode2: Linux' ]
  touch go
  ends_with 0
}

# bats test_tags=long
@test "spares get no input and hold neither input nor output nor the end" {
  write_nodes 3 2
  write_jobspec 4 sh -c 'wc -c'
  seq 100000 >in
  [ "$(launch -R R.json -o cpu-affinity=off --local=3 --spares=1 <in | sort -u)" = "$(wc -c <in)" ]
  write_jobspec 4 sh -c 'exit $((FLUX_TASK_RANK * 3))'
  run launch -R R.json -o cpu-affinity=off -o exit-report=off --local=3 --spares=1
  [ "$status" -eq 9 ]
  # Nothing but spares: shell 0 has the only task.
  write_jobspec 1 true
  for ((round = 0; round < 10; ++round)); do launch -R R.json -o cpu-affinity=off --local=3 --spares=2; done
}

# bats test_tags=long
@test "a spare that is lost is named, and the job goes on; one with tasks that is lost ends it" {
  start_job 4 1 'echo here; while [ ! -e go ]; do sleep 0.2; done' --spares=2 -o oversubscribe
  lines_come out 4
  kill -KILL "$(pid_of_shell 3)"
  wait_until grep -qF "shell 3 on node3, a spare, is lost: it has ended, or cannot be reached" err
  "$front" ps >rows
  [ "$(tail -n 1 rows | awk '{ print $1, $2 }')" = "- node2" ] || { cat rows err; return 1; }
  kill -STOP "$(pid_of_shell 2)"
  wait_until grep -qF "shell 2 on node2, a spare, is lost" err
  touch go
  ends_with 0
  rm go
  start_job 4 1 'echo $PPID >"shell.$FLUX_TASK_RANK"; while [ ! -e go ]; do sleep 0.2; done' --spares=1 -o oversubscribe
  for rank in 0 1 2 3; do wait_until test -s "shell.$rank"; done
  kill -KILL "$(<shell.3)"
  fails
  grep -F "shell 2 on node2 is lost" err
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "a spare that is lost at any phase of the start does not keep the job from running" {
  local topic
  write_nodes 3 1
  write_jobspec 2 sh -c 'echo ran $FLUX_TASK_RANK'
  for topic in shell.init shell.post-init shell.start shell.finish shell.exit; do
    cat >rc.lua <<LUA
plugin.register { name = "die", handlers = { { topic = "$topic", fn = function()
  if shell.info.rank == 2 then os.execute ("kill -KILL \$PPID") end
end } } }
LUA
    run --separate-stderr launch -R R.json -o cpu-affinity=off --local=3 --spares=1 -- --initrc="$PWD/rc.lua"
    [ "$status" -eq 0 ] || { echo "$topic: $status $stderr"; return 1; }
    [ "$(sort <<<"$output")" = $'ran 0\nran 1' ] || { echo "$topic: $output"; return 1; }
    [[ $stderr == *"shell 2 on node2, a spare, is lost"* ]] || { echo "$topic: $stderr"; return 1; }
  done
}

@test "a prolog that fails on a spare ends the job, as on any node" {
  write_nodes 3 1
  write_jobspec 2 sh -c 'echo ran'
  cat >rc.lua <<'LUA'
plugin.register { name = "rank", handlers = { { topic = "shell.init", fn = function() shell.setenv ("RANK", shell.info.rank) end } } }
LUA
  run launch -R R.json -o cpu-affinity=off --local=3 --spares=1 -o 'prolog=test $RANK != 2 || exit 3' -o 'exit-report=line' -- --initrc="$PWD/rc.lua"
  [ "$status" -eq 1 ]
  [[ $output == *"exited with code 3 on node2"* && $output != *ran* ]] || { echo "$output"; return 1; }
}

# bats test_tags=long
@test "shrinks take spares first, and all of them" {
  start_job 5 1 "$until_go" --spares=2 -o oversubscribe
  lines_come out 5
  [ "$("$front" shrink --count=1)" = node4 ]
  [ "$("$front" ps --json | jq -c 'select(.spare).host')" = '"node3"' ]
  [ "$("$front" shrink --count=2)" = "node[2-3]" ]
  [ -z "$("$front" ps --json | jq -c 'select(.spare).host')" ]
  [ "$("$front" ps -q | wc -l)" -eq 4 ]
  touch go
  ends_with 0
  ! grep -vF "share 1 core" err || return 1
  rm go
  start_job 4 2 "$until_go" --spares=3 -o oversubscribe
  lines_come out 8
  [ "$("$front" shrink --hosts='node[1-3]' --tasks=refuse)" = "node[1-3]" ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' out)" -eq 8 ]
}

# bats test_tags=long
@test "many spares, in a deep tree" {
  start_job 24 1 "$until_go" --spares=20 -o oversubscribe --arity=2
  lines_come out 24
  [ "$("$front" ps -q --no-fold | grep -c '(spare)')" -eq 20 ]
  [ "$("$front" shrink --count=10)" = "node[14-23]" ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' out)" -eq 24 ]
}

# Starts a job with options: the command $2 ends it with code $1, and also its spares; all 4 epilogs run.
ends_by() {
  local code=$1 how=$2
  shift 2
  rm -f fail out err hooks
  run_ -N 2+2 --local=4 -K -o kill-timeout=2s -o 'epilog=echo epilog >>hooks' "$@" \
    sh -c 'echo here; until [ -e fail ]; do sleep 0.2; done; exit 3' >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  lines_come out 2
  $how
  ends_with "$code"
  [ "$(wc -l <hooks)" -eq 4 ] || { cat hooks err; return 1; }
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "a job that fails, is cancelled, gets SIGTERM or is out of time ends its spares too, whose epilogs run" {
  ends_by 143 "$front cancel last"
  ends_by 3 "touch fail"
  ends_by 124 true -o time-limit=3s
  terminate() { kill -TERM "$(pgrep -P "$launcher" -x nacre)"; } # $launcher is a subshell
  ends_by 143 terminate
}

# bats test_tags=long
@test "as lines of JSON, and in a record, a lost spare is one without ranks" {
  write_nodes 3 1
  write_jobspec 2 sh -c 'while [ ! -e go ]; do sleep 0.2; done'
  launch -R R.json -o cpu-affinity=off --local=3 --spares=1 --format=json --report=report --notify=notices -- --eventlog="$PWD/events" >out 2>err &
  launcher=$!
  wait_until listed
  kill -KILL "$(pid_of_shell 2)"
  wait_until grep -q '"name":"lost"' out
  touch go
  ends_with 0
  [ "$(jq -c 'select(.name == "lost").context' out)" = '{"host":"node2","ranks":"","shell":2}' ] || { cat out; return 1; }
  [ "$(jq -c 'select(.name == "exception").context | [.type, .severity]' events)" = '["node-failure",2]' ] || { cat events; return 1; }
  [ "$(jq -s 'last.context.code' out)" -eq 0 ]
  [ "$(jq -r '.exit.code' report)" -eq 0 ]
  ! grep -q lost notices || { cat notices; return 1; }
}

# bats test_tags=long
@test "spares that die at any moment of short jobs hold none of them" {
  local round
  write_nodes 6 1
  write_jobspec 2 true
  cat >rc.lua <<'LUA'
if shell.info.rank >= 2 then
  os.execute (string.format ("(sleep 0.%02d; kill -KILL $PPID) >/dev/null 2>&1 &", (tonumber (os.getenv ("ROUND")) * 7 + shell.info.rank * 3) % 30))
end
LUA
  for ((round = 0; round < 20; ++round)); do
    ROUND=$round run launch -R R.json -o cpu-affinity=off --local=6 --spares=4 --arity=2 -- --initrc="$PWD/rc.lua"
    [ "$status" -eq 0 ] || { echo "round $round: $status $output"; return 1; }
  done
}

# bats test_tags=long
@test "a spare that stands still at any phase is lost, and the job goes on without it" {
  local topic
  write_nodes 3 1
  write_jobspec 2 sh -c 'echo ran $FLUX_TASK_RANK'
  for topic in shell.init shell.post-init shell.start shell.finish shell.exit; do
    cat >rc.lua <<LUA
plugin.register { name = "stand", handlers = { { topic = "$topic", fn = function()
  if shell.info.rank == 2 then os.execute ("kill -STOP \$PPID") end
end } } }
LUA
    run --separate-stderr launch -R R.json -o cpu-affinity=off -o lost-after=2s --local=3 --spares=1 -- --initrc="$PWD/rc.lua"
    [ "$status" -eq 0 ] || { echo "$topic: $status $stderr"; return 1; }
    [ "$(sort <<<"$output")" = $'ran 0\nran 1' ] || { echo "$topic: $output"; return 1; }
    [[ $stderr == *"shell 2 on node2, a spare, is lost"* ]] || { echo "$topic: $stderr"; return 1; }
    nothing_left "^nacre-shell: .* 2/3"
  done
}

# bats test_tags=long
@test "spares end with the leader, and do not outlive it" {
  start_job 4 1 'echo here; exec sleep 76583' --spares=2 -o oversubscribe
  lines_come out 4
  kill -KILL "$(<leader)"
  fails
  nothing_left "^nacre-shell: $id"
  nothing_left "^sleep 76583"
}

@test "a hostfile may name a spare's host, which gets no task" {
  write_nodes 3 1
  write_jobspec 2 sh -c 'echo $FLUX_TASK_RANK $NACRE_SHELL_ID'
  printf 'node2\nnode1\nnode0\n' >hosts
  [ "$(launch -R R.json -o cpu-affinity=off --local=3 --spares=1 -o "taskmap=hostfile:$PWD/hosts" | sed -E 's/ .*\./ /' | sort)" = $'0 1\n1 0' ]
}
