#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# on-lost=replace: a spare starts the tasks of a lost shell again.
load replace.bash

@test "a lost shell's tasks start again on the spare, with their ranks, and the job ends well" {
  start_run -N 3+1 -n 6 --local=4 --report=report sh -c "$until_go"
  await_try 1 0 1 2 3 4 5
  lose 2 1
  wait_until test -e shell.2.2
  wait_until test -e shell.3.2
  host=$(uname -n)
  [ "$(places | awk '{ print $1, $3 }' | paste -sd,)" = "0 1,1 1,2 2,3 2,4 1,5 1" ] || { places; return 1; }
  [ "$("$front" ps --json | jq -c 'select(.rank == 2 or .rank == 3).shell' | paste -sd' ')" = "3 3" ]
  [ -z "$("$front" ps --json | jq -c 'select(.spare)')" ]
  touch go
  ends_with 0
  sort out >sorted
  [ "$(grep -c 'try 1, restarts 0' out)" -eq 6 ] || { cat out; return 1; }
  [ "$(grep 'try 2' sorted)" = "2: done in try 2
2: try 2, restarts 1, local 0 of 6 on 3
3: done in try 2
3: try 2, restarts 1, local 1 of 6 on 3" ] || { cat out; return 1; }
  [ "$(grep -c 'done in try 1' out)" -eq 4 ]
  [ "$(grep -c . err)" -eq 1 ] || { cat err; return 1; }
  grep -F "shell 1 on $host is lost: it has ended, or cannot be reached; its task 2-3 starts again on the spare shell 3 on $host" err
  [ "$(jq -c '.exit.code, [.classes[] | [.record, .ranks]]' report | paste -sd' ')" = '0 [["x0","0-5"]]' ] || { jq . report; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "lost" or .event == "moved") | [.event, .ranks, .to, .try]]' report)" = '[["lost",null,null,null],["moved","2-3",3,2]]' ] || { jq . report; return 1; }
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "two losses and two spares: the same ranks move twice, and the second one stays where it is" {
  start_run -N 2+2 --local=4 sh -c "$until_go"
  await_try 1 0 1
  lose 1 1
  lose 1 2
  wait_until test -e shell.1.3
  [ "$(places | awk '{ print $1, $3 }' | paste -sd,)" = "0 1,1 3" ] || { places; return 1; }
  [ "$("$front" ps --json | jq -c 'select(.rank == 1).shell')" = 3 ]
  touch go
  ends_with 0
  grep -qx "1: try 3, restarts 2, local 0 of 2 on 2" out || { cat out; return 1; }
  [ "$(grep -c '^1: done' out)" -eq 1 ]
  grep -q "shell 1 .*; its task 1 starts again on the spare shell 2" err
  grep -q "shell 2 .*; its task 1 starts again on the spare shell 3" err
}

# bats test_tags=long
@test "two shells and their spares, all lost at once where they are, leave each rank with one record" {
  start_run -N 3+2 --local=5 --report=report sh -c "$until_go"
  await_try 1 0 1 2
  kill -KILL "$(<shell.1.1)" "$(<shell.2.1)"
  await_try 2 1 2
  touch go
  ends_with 0
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-2"]]' ] || { jq . report; return 1; }
  [ "$(grep -c 'done in try 2' out)" -eq 2 ]
}

# bats test_tags=long
@test "a spare that is lost before it takes over, at it, or together with the shell: the next one does it" {
  local row
  cat >rc.lua <<'LUA'
plugin.register { name = "die", handlers = { { topic = "shell.take-over", fn = function()
  if os.getenv ("HOW") == "at" and shell.info.rank == 2 then os.execute ("kill -KILL $PPID") end
end } } }
LUA
  export HOW
  for HOW in at stopped together; do
    rm -f shell.* go
    start_run -N 2+2 --local=4 --initrc="$PWD/rc.lua" -o lost-after=5s sh -c "$until_go"
    await_try 1 0 1
    spare=$(pid_of_shell 2)
    [ "$HOW" != stopped ] || kill -STOP "$spare"
    if [ "$HOW" = together ]; then kill -KILL "$spare" "$(<shell.1.1)"; else kill -KILL "$(<shell.1.1)"; fi
    wait_until grep -q "its task 1 starts again on the spare shell 3" err
    touch go
    ends_with 0
    [ "$(grep -c '^1: done' out)" -eq 1 ] || { echo "$HOW"; cat out err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

# bats test_tags=long
@test "without a spare that can do it the line says so, and the job does as else= has it" {
  local row otherwise
  for otherwise in "" ",else=end" ",else=go-on"; do
    rm -f shell.* go
    on_lost=replace$otherwise start_run -N 2 --local=2 sh -c "$until_go"
    await_try 1 0 1
    lose 1 1
    wait_until grep -qF "; with it task 1, which is not started again: there is no spare left" err
    touch go
    fails
    case $otherwise in
    *go-on) grep -qx "0: done in try 1" out || { cat out err; return 1; } ;;
    *) ! grep -q "done in" out || { cat out err; return 1; } ;;
    esac
    nothing_left "^nacre-shell: $id"
  done
}

# R of three nodes, the last of which has fewer cores.
small_spare() {
  jq -n '{version: 1, execution: {R_lite: [{rank: "0-1", children: {core: "0-3"}}, {rank: "2", children: {core: "0"}}],
    nodelist: ["node[0-2]"], starttime: 0, expiration: 0}}' >R.json
}

# bats test_tags=long
@test "a spare with fewer cores than the tasks need does not take them over, unless they may share" {
  small_spare
  write_jobspec 4 sh -c "$until_go"
  launch -R R.json -o cpu-affinity=off --local=3 --spares=1 --on-lost=replace -o taskmap=cyclic >out 2>err &
  launcher=$!
  wait_until listed
  await_try 1 0 1 2 3
  lose 1 1
  fails
  grep -F "shell 1 on node1 is lost: it has ended, or cannot be reached; with it task 1,3, which are not started again: the spare shell 2 has 1 core, and they need 2 cores" err || { cat err; return 1; }
  rm -f shell.*
  launch -R R.json -o cpu-affinity=off --local=3 --spares=1 --on-lost=replace -o taskmap=cyclic --oversubscribe >out 2>err &
  launcher=$!
  wait_until listed
  await_try 1 0 1 2 3
  lose 1 1
  await_try 2 1 3
  touch go
  ends_with 0
}

# bats test_tags=long
@test "tasks that have ended are not started again, and keep their record" {
  start_run -N 2+1 -n 4 --local=3 --report=report -o exit-on-error=off sh -c '[ $FLUX_TASK_RANK != 2 ] || exit 3; '"$until_go"
  await_try 1 0 1 3
  wait_until sh -c "'$front' ps --json | jq -e 'select(.rank == 2) | length == 0' || ! '$front' ps -q | grep -q '^2 '"
  lose 3 1
  wait_until test -e shell.3.2
  touch go
  ends_with 3
  [ ! -e shell.2.2 ]
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-1,3"],["x3","2"]]' ] || { jq . report; return 1; }
}

# bats test_tags=long
@test "output goes on where it went: a common file, and files of the tasks, behind what is there" {
  start_run -N 2+1 --local=3 --output=common.out sh -c "$until_go"
  await_try 1 0 1
  wait_until grep -q "try 1, restarts 0, local 0 of 2 on 2" common.out
  lose 1 1
  wait_until test -e shell.1.2
  touch go
  ends_with 0
  [ "$(grep -c "done" common.out)" -eq 2 ] || { cat common.out; return 1; }
  rm -f shell.* go
  start_run -N 2+1 --local=3 --output='own.{{task.rank}}' sh -c "$until_go"
  for rank in 0 1; do wait_until test -s "own.$rank"; done
  lose 1 1
  wait_until test -e shell.1.2
  touch go
  ends_with 0
  sed 's/^1: //' own.1 >lines
  [ "$(<lines)" = "try 1, restarts 0, local 0 of 2 on 2
try 2, restarts 1, local 0 of 2 on 2
done in try 2" ] || { cat own.1; return 1; }
}

# bats test_tags=long
@test "hooks, bindings, torch and plugins do for these tasks what they do for all" {
  cat >rc.lua <<'LUA'
plugin.register { name = "see", handlers = {
  { topic = "job.tasks-moved", fn = function() io.open ("moved." .. shell.info.rank, "w"):write ("x"):close () end },
  { topic = "shell.resource-update", fn = function() io.open ("update." .. shell.info.rank, "w"):write ("x"):close () end } } }
LUA
  start_run -N 2+1 -n 4 --local=3 --torch --initrc="$PWD/rc.lua" -o 'task-prolog=echo prolog $FLUX_TASK_RANK >>hooks; echo export SEEN=$FLUX_TASK_RANK' -o 'task-epilog=echo epilog $FLUX_TASK_RANK >>hooks' \
    -o cpu-affinity=per-task:thread sh -c 'echo "$SEEN $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $NODE_RANK" >"env.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; '"$until_go"
  await_try 1 0 1 2 3
  lose 2 1
  await_try 2 2 3
  for rank in 2 3; do diff "env.$rank.1" "env.$rank.2"; done
  [ "$(<env.3.2)" = "3 3 1 4 2 1 1" ]
  touch go
  ends_with 0
  [ "$(sort hooks | uniq -c | awk '{ print $1, $2, $3 }' | paste -sd,)" = "1 epilog 0,1 epilog 1,1 epilog 2,1 epilog 3,1 prolog 0,1 prolog 1,2 prolog 2,2 prolog 3" ] || { cat hooks; return 1; }
  for shell in 0 2; do [ -e moved.$shell ] && [ -e update.$shell ]; done
}

# A job of two tasks of PMI's client with these arguments, on two shells, loses the second shell when each task has
# made the file in.RANK, and fails.
fails_without_rank_1() {
  rm -f shell.* in.*
  write_nodes 3 1
  write_jobspec 2 sh -c 'echo $PPID >"shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; exec "$@"' sh "$BATS_TEST_DIRNAME/pmi_client" "$@"
  launch -R R.json -o cpu-affinity=off --local=3 --spares=1 --on-lost=replace >out 2>err &
  launcher=$!
  for rank in 0 1; do wait_until test -e "in.$rank"; done
  lose 1 1
  fails
}

# bats test_tags=long
@test "tasks that are connected to PMI are not started again; one that calls PMI then ends the job" {
  fails_without_rank_1 init barrier touch:in.%r wait:go barrier finalize
  grep -F "with it task 1, which is not started again: rank 0 has called PMI init and not finalize, and PMI does not take a rank that starts again" err || { cat err; return 1; }
  fails_without_rank_1 init barrier finalize touch:in.%r wait:go
  grep -F "its task 1 starts again on the spare shell 2 on node2" err || { cat err; return 1; }
  grep -F "rank 1 on node2 calls PMI, and has been started again on another shell" err || { cat err; return 1; }
}

# bats test_tags=long
@test "as lines of JSON: lost, and moved" {
  write_nodes 3 1
  write_jobspec 2 sh -c "$until_go"
  launch -R R.json -o cpu-affinity=off --local=3 --spares=1 --on-lost=replace --format=json -- --eventlog="$PWD/events" >out 2>err &
  launcher=$!
  await_try 1 0 1
  lose 1 1
  wait_until test -e shell.1.2
  touch go
  ends_with 0
  [ "$(jq -c 'select(.name == "moved").context' out)" = '{"from":1,"host":"node2","ranks":"1","to":2,"try":2}' ] || { cat out; return 1; }
  [ "$(jq -c 'select(.name == "exception").context | [.type, .severity]' events)" = '["node-failure",2]' ] || { cat events; return 1; }
}

# bats test_tags=long
@test "a spare that a shrink has taken is none; a shell that leaves is not replaced" {
  start_run -N 3+1 --local=4 sh -c "$until_go"
  await_try 1 0 1 2
  "$front" shrink --shells=2 >/dev/null
  "$front" shrink --shells=3 >/dev/null
  lose 1 1
  wait_until grep -qF "there is no spare left" err
  ! grep -q "starts again" err || { cat err; return 1; }
  fails
}

@test "what on-lost cannot be is refused in words, and tolerate-loss is on-lost=go-on" {
  run run_ --local=2 --on-lost=restart true
  [ "$status" -eq 2 ]
  [[ $output == *"--on-lost"*"restart"* ]] || { echo "$output"; return 1; }
  run run_ --local=2 -o on-lost=replace,else=x true
  [ "$status" -eq 1 ]
  [[ $output == *'on-lost: expected end, go-on, replace, replace,else=end or replace,else=go-on, got "replace,else=x"'* ]] || { echo "$output"; return 1; }
  run run_ --local=2 -o tolerate-loss --on-lost=replace true
  [ "$status" -eq 1 ]
  [[ $output == *"on-lost: tolerate-loss is on-lost=go-on, and contradicts it"* ]] || { echo "$output"; return 1; }
  run run_ --local=2 -o on-lost=end --on-lost=replace true
  [ "$status" -eq 2 ]
  [[ $output == *"--on-lost=replace and -o on-lost=end contradict each other"* ]] || { echo "$output"; return 1; }
  on_lost=go-on start_run -N 2 --local=2 sh -c 'NACRE_TASK_TRY=${NACRE_TASK_TRY:-1}; '"$until_go"
  await_try 1 0 1
  lose 1 1
  wait_until grep -q "shell 1 .* is lost" err
  touch go
  code=0
  wait "$launcher" || code=$?
  grep -q "^0: done in try 1" out || { cat out err; return 1; }
}

# bats test_tags=long
@test "spares and shells that die at any moment of jobs leave no rank without an end, and no shell" {
  local round
  write_nodes 6 1
  write_jobspec 2 sh -c 'sleep 0.2; echo $FLUX_TASK_RANK'
  cat >rc.lua <<'LUA'
if shell.info.rank >= 1 and shell.info.rank < 5 then
  os.execute (string.format ("(sleep 0.%02d; kill -KILL $PPID) >/dev/null 2>&1 &", (tonumber (os.getenv ("ROUND")) * 13 + shell.info.rank * 17) % 80))
end
LUA
  for ((round = 0; round < 12; ++round)); do
    ROUND=$round run --separate-stderr launch -R R.json -o cpu-affinity=off --local=6 --spares=4 --arity=2 --on-lost=replace -- --initrc="$PWD/rc.lua"
    if [ "$status" -eq 0 ]; then
      [ "$(sort -u <<<"$output")" = $'0\n1' ] || { echo "round $round: $output $stderr"; return 1; }
    else
      [[ $stderr == *"there is no spare left"* ]] || { echo "round $round: $status $output $stderr"; return 1; }
    fi
    wait_until none_here # the jobs of other tests may have as many shells
  done
}

# bats test_tags=long
@test "a shell that is lost while the job is being started, at each moment: its tasks begin on the spare" {
  local rank topic
  write_nodes 5 1
  write_jobspec 4 sh -c 'echo "$FLUX_TASK_RANK in try $NACRE_TASK_TRY"'
  # Of four shells with --arity=2, 1 is between 0 and 3.
  for rank in 1 3; do
    for topic in initrc initrc-of-a-slow-leader shell.init task.init task.fork shell.start; do
      cat >rc.lua <<END
local topic, rank = "$topic", shell.info.rank
local function die () if rank == $rank then os.execute ("kill -KILL \$PPID; sleep 10") end end
if topic == "initrc-of-a-slow-leader" and rank == 0 then os.execute ("sleep 0.5") end
if topic:find ("initrc") then die () else plugin.register { name = "dies", handlers = { { topic = topic, fn = die } } } end
END
      run --separate-stderr launch -R R.json -o cpu-affinity=off --local=5 --spares=1 --arity=2 --on-lost=replace -- --initrc="$PWD/rc.lua"
      [ "$status" -eq 0 ] || { echo "$rank, $topic: $status $output $stderr"; return 1; }
      [[ $stderr == *"shell $rank on node$rank is lost: it has ended, or cannot be reached; its task $rank starts again on the spare shell 4 on node4"* ]] ||
        { echo "$rank, $topic: $stderr"; return 1; }
      [[ $(grep -o '^[0-9]*' <<<"$output" | sort -u | paste -sd,) == 0,1,2,3 && $'\n'$output$'\n' == *$'\n'"$rank in try 2"$'\n'* ]] || { echo "$rank, $topic: $output"; return 1; }
      wait_until none_here
    done
  done
}

# bats test_tags=long
@test "a shell that is lost while the job is being started, without a spare, and with another shell in error: the job ends and says why" {
  write_nodes 4 1
  write_jobspec 4 sleep 600
  cat >rc.lua <<'END'
plugin.register { name = "dies", handlers = { { topic = "shell.init", fn = function ()
  if shell.info.rank == 2 then os.execute ("kill -KILL $PPID; sleep 10") end
end } } }
END
  run --separate-stderr launch -R R.json -o cpu-affinity=off --local=4 --on-lost=replace -- --initrc="$PWD/rc.lua"
  [ "$status" -eq 1 ]
  [[ $stderr == *"shell 2 on node2 is lost: it has ended, or cannot be reached; with it task 2, which is not started again: "* ]] || { echo "$stderr"; return 1; }
  wait_until none_here
  sed -i 's/^end } } }$/  if shell.info.rank == 3 then os.execute ("sleep 1"); error ("no luck") end\n&/' rc.lua
  run --separate-stderr launch -R R.json -o cpu-affinity=off --local=4 --on-lost=replace -- --initrc="$PWD/rc.lua"
  [ "$status" -eq 1 ]
  [[ $stderr == *"no luck"* ]] || { echo "$stderr"; return 1; }
  wait_until none_here
}

# bats test_tags=long
@test "commands, signals, doctor and usage find the tasks where they are now, in a deep tree too" {
  start_run -N 6+3 --local=9 --arity=2 --report=report -o joblog="$PWD/joblog" --usage=usage sh -c 'trap "echo caught in try $NACRE_TASK_TRY; exit 0" USR1; '"$until_go"
  await_try 1 0 1 2 3 4 5
  lose 1 1 # an inner shell
  lose 5 1 # a leaf
  await_try 2 1 5
  [ "$("$front" exec --ranks=1 -q sh -c 'echo $PPID' | tail -n 1 | grep -o '[0-9]*$')" = "$(<shell.1.2)" ]
  "$front" doctor --json >looked
  grep -q . looked
  "$front" kill -s USR1 --ranks=5 last
  wait_until grep -qx "5: caught in try 2" out
  lose 1 2
  wait_until test -e shell.1.3
  touch go
  ends_with 0
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-5"]]' ] || { jq . report; return 1; }
  [ "$(wc -l <joblog)" -eq 7 ] || { cat joblog; return 1; }
  [ "$(jq -r 'select(.rank != null).rank' usage | sort -n | paste -sd,)" = 0,1,2,3,4,5 ] || { cat usage; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "moved") | [.ranks, .try]] | sort' report)" = '[["1",2],["1",3],["5",2]]' ] || { jq .timeline report; return 1; }
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "a job that its launcher has left: tasks start again all the same" {
  run_ -d -N 2+1 --local=3 --on-lost=replace sh -c "$until_go" >id 2>err
  await_try 1 0 1
  lose 1 1
  wait_until test -e shell.1.2
  touch go
  "$front" wait "$(<id)"
  [ "$("$front" report --json "$(<id)" | jq -c '[.end.report.timeline[] | select(.event == "moved") | .ranks]')" = '["1"]' ]
}

# bats test_tags=long
@test "a torch-like program of eight ranks on four hosts loses a host twice, and goes on from its checkpoint" {
  write_train
  start_run -N 4+2 --tasks-per-node=2 --local=6 --torch --report=report ./train
  for rank in 2 3; do wait_until grep -qsx 5 "checkpoint.$rank"; done
  lose 2 1
  await_try 2 2 3
  touch go.5
  for rank in 6 7; do wait_until grep -qsx 10 "checkpoint.$rank"; done
  lose 6 1
  await_try 2 6 7
  touch go.10 go.15
  ends_with 0
  for rank in 0 1 2 3 4 5 6 7; do
    [ "$(sed -n "s/^$rank: step \([0-9]*\) of 8$/\1/p" out | sort -nu | wc -l)" -eq 40 ] || { echo "rank $rank"; cat out; return 1; }
  done
  [ "$(jq -c '[.timeline[] | select(.event == "lost" or .event == "moved") | .event]' report)" = '["lost","moved","lost","moved"]' ] || { jq .timeline report; return 1; }
}

# bats test_tags=long
@test "a task that fails after it has moved is reported once, with its try, its host and its last lines, and as a notice" {
  start_run -N 2+1 --local=3 --report=report --notify=notices sh -c "$until_go"'; [ $FLUX_TASK_RANK != 1 ] || { echo "my last line" >&2; exit 9; }'
  await_try 1 0 1
  lose 1 1
  wait_until test -e shell.1.2
  touch go
  ends_with 9
  [ "$(jq -c '.cause | [.rank, .record, .try, .shell, .stderr]' report)" = '[1,"x9",2,2,"my last line\n"]' ] || { jq . report; return 1; }
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0"],["x9","1"]]' ] || { jq . report; return 1; }
  grep -q '"x":{[^}]*"x9":"1"\|"d":"x9"' notices || { cat notices; return 1; }
  ! grep -q '"l"' notices || { cat notices; return 1; }
  [ "$(grep -n "my last line" err | head -n 1 | cut -d: -f1)" -lt "$(grep -n "exit code 9" err | head -n 1 | cut -d: -f1)" ] || { cat err; return 1; }
}

