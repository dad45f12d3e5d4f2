#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# restart=...,where=any with on-lost=replace: other shells start the tasks of a lost shell again, if no spare can.
load replace.bash

@test "a torch-like program whose host is lost twice, with one spare: the spare takes over, then the others" {
  write_train
  start_run -N 4+1 --tasks-per-node=2 --local=5 --oversubscribe --torch --report=report --restart=on-failure,where=any ./train
  for rank in 2 3; do wait_until grep -qsx 5 "checkpoint.$rank"; done
  lose 2 1
  await_try 2 2 3
  [ "$(shells_of 2 3)" = "2:4:2 3:4:2" ] || { shells_of 2 3; return 1; }
  touch go.5
  for rank in 2 3; do wait_until grep -qsx 10 "checkpoint.$rank"; done
  lose 2 2
  await_try 3 2 3
  [ "$(shells_of 2 3)" = "2:2:3 3:3:3" ] || { shells_of 2 3; return 1; }
  touch go.10 go.15
  ends_with 0
  for rank in 0 1 2 3 4 5 6 7; do
    [ "$(sed -n "s/^$rank: step \([0-9]*\) of 8$/\1/p" out | sort -nu | wc -l)" -eq 40 ] || { echo "rank $rank"; cat out; return 1; }
  done
  host=$(uname -n)
  grep -qF "shell 1 on $host is lost: it has ended, or cannot be reached; its task 2-3 starts again on the spare shell 4 on $host" err || { cat err; return 1; }
  grep -qF "shell 4 on $host is lost: it has ended, or cannot be reached; its task 2 starts again on shell 2 on $host, task 3 starts again on shell 3 on $host" err || { cat err; return 1; }
  [ "$(jq -c '[.exit.code, [.classes[] | [.record, .ranks]]]' report)" = '[0,[["x0","0-7"]]]' ] || { jq . report; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "lost" or .event == "moved") | [.event, .ranks, .to, .try]]' report)" = '[["lost",null,null,null],["moved","2-3",4,2],["lost",null,null,null],["moved","2",2,3],["moved","3",3,3]]' ] || { jq .timeline report; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "a shell whose tasks have ended takes tasks over, and the leader does; output goes on where it went" {
  for place in "" --output=common.out '--output=own.{{task.rank}}'; do
    rm -f shell.* go common.out own.*
    start_run -N 3 -n 3 --local=3 --oversubscribe --report=report ${place:+"$place"} --restart=on-failure,where=any sh -c '[ $FLUX_TASK_RANK != 2 ] || exit 0; '"$until_go"
    await_try 1 0 1
    wait_until sh -c "[ \"\$('$front' ps -q | wc -l)\" -eq 2 ]"
    lose 1 1
    wait_until test -e shell.1.2
    [ "$(shells_of 0 1)" = "0:0:1 1:2:2" ] || { shells_of 0 1; return 1; }
    lose 1 2
    wait_until test -e shell.1.3
    [ "$(shells_of 0 1)" = "0:0:1 1:0:3" ] || { shells_of 0 1; return 1; }
    touch go
    ends_with 0
    cat out common.out own.1 2>/dev/null >all || :
    for line in "try 1, restarts 0, local 0 of 3 on 3" "try 2, restarts 1, local 1 of 3 on 3" "try 3, restarts 2, local 1 of 3 on 3" "done in try 3"; do
      [ "$(sed 's/^1: //' all | grep -cx "$line")" -ge 1 ] || { echo "$place: $line"; cat all; return 1; }
    done
    [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-2"]]' ] || { jq . report; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "no room is said in words; hooks, restarts, signals and commands find the tasks on a shell that has others" {
  write_nodes 2 1
  write_jobspec 2 sh -c "$until_go"
  launch -R R.json -o cpu-affinity=off --local=2 --on-lost=replace --restart=on-failure,where=any >out 2>err &
  launcher=$!
  await_try 1 0 1
  lose 1 1
  fails
  grep -qF "with it task 1, which is not started again: there is no spare left, and the other shells have room for 0 of 1 task" err || { cat err; return 1; }
  rm -f shell.*
  start_run -N 2 -n 4 --local=2 --oversubscribe --report=report --restart=on-failure,backoff=0,where=any -o 'task-prolog=echo prolog $FLUX_TASK_RANK >>hooks; echo export SEEN=$FLUX_TASK_RANK' \
    -o 'task-epilog=echo epilog $FLUX_TASK_RANK >>hooks' -o cpu-affinity=per-task:thread sh -c 'trap "echo caught in try $NACRE_TASK_TRY; exit 0" USR1; echo "seen $SEEN"; [ "$NACRE_TASK_TRY" != 2 ] || [ "$FLUX_TASK_RANK" != 2 ] || exit 3; '"$until_go"
  await_try 1 0 1 2 3
  lose 2 1
  wait_until test -e shell.2.3
  wait_until test -e shell.3.2
  [ "$(shells_of 0 1 2 3)" = "0:0:1 1:0:1 2:0:3 3:0:2" ] || { shells_of 0 1 2 3; return 1; }
  [ "$("$front" exec --ranks=3 -q sh -c 'echo $PPID' | tail -n 1 | grep -o '[0-9]*$')" = "$(<shell.3.2)" ]
  "$front" kill -s USR1 --ranks=3 last
  wait_until grep -qx "3: caught in try 2" out
  touch go
  ends_with 0
  [ "$(sort hooks | uniq -c | awk '{ print $1, $2, $3 }' | paste -sd,)" = "1 epilog 0,1 epilog 1,2 epilog 2,1 epilog 3,1 prolog 0,1 prolog 1,3 prolog 2,2 prolog 3" ] || { cat hooks; return 1; }
  [ "$(grep -c '^2: seen 2' out)" -eq 3 ] || { cat out; return 1; }
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-3"]]' ] || { jq . report; return 1; }
}

@test "without a restart by itself a task that has come and calls PMI ends the job, in words" {
  write_nodes 2 2
  write_jobspec 2 sh -c 'echo $PPID >"shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; exec "$@"' sh "$BATS_TEST_DIRNAME/pmi_client" init barrier finalize touch:in.%r wait:go
  launch -R R.json -o cpu-affinity=off --local=2 --on-lost=replace --restart=on-request,where=any >out 2>err &
  launcher=$!
  for rank in 0 1; do wait_until test -e "in.$rank"; done
  lose 1 1
  fails
  grep -F "its task 1 starts again on shell 0 on node0" err || { cat err; return 1; }
  grep -F "rank 1 on node0 calls PMI, and has been started again on another shell" err || { cat err; return 1; }
}

@test "shells that die at any moment of jobs leave no rank without an end, and no shell" {
  local round
  write_nodes 6 1
  write_jobspec 6 sh -c 'sleep 0.3; echo $FLUX_TASK_RANK'
  cat >rc.lua <<'LUA'
if shell.info.rank >= 1 and shell.info.rank < 5 then
  os.execute (string.format ("(sleep 0.%02d; kill -KILL $PPID) >/dev/null 2>&1 &", 25 + (tonumber (os.getenv ("ROUND")) * 13 + shell.info.rank * 17) % 70))
end
LUA
  for ((round = 0; round < 10; ++round)); do
    ROUND=$round run --separate-stderr launch -R R.json -o cpu-affinity=off --local=6 --arity=2 --oversubscribe --on-lost=replace --restart=on-failure,where=any -- --initrc="$PWD/rc.lua"
    [[ $status == 0 && $(sort -u <<<"$output" | paste -sd,) == 0,1,2,3,4,5 ]] || { echo "round $round: $status $output $stderr"; return 1; }
    wait_until none_here # the jobs of other tests may have as many shells
  done
}

@test "where=any without on-lost=replace is refused in words" {
  run run_ --local=2 --on-lost=go-on --restart=on-failure,where=any true
  [ "$status" -eq 1 ]
  [[ $output == *"restart: where=any is for the tasks of a lost shell, which start again with on-lost=replace only: give that, too"* ]] || { echo "$output"; return 1; }
}
