#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# on-leader-lost=take-over: the shell that leads the job is lost, and another one leads from then on.
load replace.bash
load detached.bash

# shellcheck disable=SC2034 # start_run's
on_lost=go-on
take_over=(-o on-leader-lost=take-over --local=4)

@test "the others go on under the next shell: no line is lost, and the job's code and report are theirs" {
  start_run "${take_over[@]}" -n 4 sh -c "$begun_until_go; exit \$FLUX_TASK_RANK"
  await_try 1 0 1 2 3
  wait_until lines_come out 4
  lose 0 1
  wait_until grep -q "leads it now" err
  wait_until listed
  [ "$("$front" jobs --json | jq -c '[.shells, .gone]')" = "[4,1]" ] || { "$front" jobs --json; return 1; }
  "$front" ps --json >rows 2>said
  [ "$(jq -r 'select(.rank != null) | .rank' rows | paste -sd,)" = "1,2,3" ]
  [ ! -s said ] || { cat said; return 1; } # all shells that are left have answered, with the new leader
  "$front" doctor --twice=0.1s >said
  ! grep -q "has not answered\|no-answer" said || { cat said; return 1; }
  [ "$("$front" doctor --twice=0.1s --json | jq -c '[.groups[].count] | add')" -eq 3 ] || { cat said; return 1; }
  touch go
  ends_with 3
  [ "$(grep -c "done" out)" -eq 3 ] || { cat out err; return 1; }
  [ "$(sort out | uniq -d)" = "" ]
  grep -q "leader-lost: shell 0 on .*, which led the job, is lost: shell 1 on .* leads now" err
  grep -q "node-failure: shell 0 on .* is lost.*; with it task 0" err
  grep -q "lost: 0 | exit code 1: 1 | exit code 2: 2 | exit code 3: 3" err
  [ "$("$front" jobs -a --json | jq -c '.end.code, [.end.exits[] | [.record, .ranks]]' | paste -sd' ')" = '3 [["l","0"],["x1","1"],["x2","2"],["x3","3"]]' ]
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "all shells are lost: nacre ps and the like wait for another leader, and say that none comes; the exit code is that of a lost host" {
  start_run "${take_over[@]}" -n 4 --exit-class=host:75 sh -c "$begun_until_go"
  await_try 1 0 1 2 3
  kill -KILL "$(<shell.0.1)" "$(<shell.1.1)" "$(<shell.2.1)" "$(<shell.3.1)"
  is_lost() { [ "$("$front" jobs --json | jq -c '[.status, .end]')" = '["L",null]' ]; }
  wait_until is_lost
  "$front" jobs >rows
  grep -q "its leader is lost, and no other one leads so far" rows || { cat rows; return 1; }
  local verb words
  for verb in ps "kill --signal=CONT $id"; do
    read -ra words <<<"$verb"
    run "$front" "${words[@]}"
    [ "$status,${#lines[@]}" = 1,1 ] && [[ $output == *"job $id has no leader at the moment: the shell that led it is lost, and no other one leads so far; try again" ]] || { echo "$output"; return 1; }
  done
  ends_with 75
  grep -q "the shell that led the job is lost: the job has ended with it" err
}

@test "with on-leader-lost=end, and of two shells by default, the job ends with its first shell" {
  on_lost=end start_run --local=2 -n 2 sh -c "$begun_until_go"
  await_try 1 0 1
  lose 0 1
  ends_with 137
  start_run --local=4 -n 4 -o on-leader-lost=end sh -c "$begun_until_go"
  await_try 1 0 1 2 3
  lose 0 1
  ends_with 137
  nothing_left "^nacre-shell: $id"
}

@test "a spare starts the tasks of the lost leader again" {
  on_lost=replace start_run "${take_over[@]}" -N 3+1 sh -c "$until_go"
  await_try 1 0 1 2
  lose 0 1
  wait_until test -e shell.0.2
  touch go
  ends_with 0
  grep -q "shell 0 .* is lost: .*; its task 0 starts again on the spare shell 3" err || { cat err; return 1; }
  [ "$(grep -c 'done in try 1' out)" -eq 2 ]
  [ "$(grep -c '^0: done in try 2' out)" -eq 1 ]
}

@test "all tasks start again with those of the lost leader, and it is lost once more" {
  on_lost=replace start_run -o on-leader-lost=take-over --local=6 -N 3+3 --restart=on-failure,scope=job,backoff=0s sh -c "$until_go"
  await_try 1 0 1 2
  lose 0 1
  await_try 2 0 1 2
  lose 1 2
  await_try 3 0 1 2
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 3' out)" -eq 3 ] || { cat out err; return 1; }
  grep -q "leader-lost: shell 1 .*, which led the job, is lost: shell [2-5] .* leads now" err || { cat err; return 1; }
}

@test "the leader is lost when all tasks are over: how its own have ended is known, and none starts again" {
  local lost code
  for lost in replace go-on; do
    for code in 0 3; do
      rm -f ./*.over
      on_lost=$lost start_run -o on-leader-lost=take-over --local=3 -N 2+1 -n 2 -o epilog='touch $PPID.over; until [ -e go ]; do sleep 0.1; done' --report=report sh -c '
        echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}"; sleep 0.5; [ $FLUX_TASK_RANK = 1 ] || exit '$code
      wait_until test -e shell.0.1
      wait_until test -e "$(<shell.0.1).over"
      wait_until test -e "$(<shell.1.1).over"
      pause 0.3
      lose 0 1
      wait_until grep -q "leads it now" err
      touch go
      ends_with "$code"
      ! grep -q "starts again" err || { cat err; return 1; }
      [ "$(jq -r '[.classes[].record] | sort | join(",")' report)" = "$( ((code == 0)) && echo x0 || echo x0,x3)" ] || { jq . report; cat err; return 1; }
      rm -f go shell.* report
    done
  done
}

@test "a job with on-lost=end ends in order, with the loss as its cause, without an option from three shells on" {
  on_lost=end start_run --local=3 -n 3 sh -c "$begun_until_go"
  await_try 1 0 1 2
  lose 0 1
  ends_with 1
  grep -q "lost: 0 | ended because of it: 1-2" err
  [ "$("$front" jobs -a --json | jq -r .end.cause)" != null ]
  "$front" jobs -a --json | jq -r .end.cause | grep -q "shell 0 on .* is lost"
  nothing_left "^nacre-shell: $id"
}

@test "a leader that stands still is replaced, and nacre run follows and ends it" {
  start_run "${take_over[@]}" -o lost-after=2s -n 4 sh -c "$begun_until_go"
  await_try 1 0 1 2 3
  kill -STOP "$(<shell.0.1)"
  wait_until grep -q "leads it now" err
  wait_until has_ended "$(<shell.0.1)"
  touch go
  ends_with 1  # 1 is the code of the lost task
  [ "$(grep -c "done" out)" -ge 3 ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "signals of the launcher reach the tasks under the next leader, too" {
  start_run "${take_over[@]}" -n 4 sh -c "trap 'echo got; exit 9' TERM; echo \$PPID >pid.\$\$; mv pid.\$\$ shell.\$FLUX_TASK_RANK.1; while :; do sleep 0.1; done"
  await_try 1 0 1 2 3
  lose 0 1
  wait_until grep -q "leads it now" err
  kill -TERM "$(pgrep -P "$launcher")"
  ends_with 9
  [ "$(grep -c got out)" -eq 3 ] || { cat out err; return 1; }
}

@test "a signal of the launcher that comes while no shell leads reaches the tasks under the next one; a second one leaves the job" {
  # Handlers that do not return keep the shells from choosing another leader; guards that stand still do not end them for that.
  cat >rc.lua <<'END'
plugin.register { name = "blocks", handlers = { { topic = "task.exit", fn = function ()
  local shell = shell.info.rank
  if shell ~= 0 then os.execute ("touch blocked." .. shell .. "; until [ -e free ]; do sleep 0.1; done") end
end } } }
END
  local again rank guards
  for again in "" again; do
    rm -f shell.* blocked.* free end
    start_run "${take_over[@]}" -n 8 -o exit-timeout=none --initrc="$PWD/rc.lua" sh -c "trap 'echo got; exit 9' INT; echo \$PPID >pid.\$\$; mv pid.\$\$ shell.\$FLUX_TASK_RANK.1
      while [ \$((FLUX_TASK_RANK % 2)) = 0 ] || [ ! -e end ]; do sleep 0.1; done"
    await_try 1 0 1 2 3 4 5 6 7
    touch end
    wait_until test -e blocked.1 -a -e blocked.2 -a -e blocked.3
    mapfile -t guards < <(for rank in 2 4 6; do pgrep -x nacre-guard -P "$(<shell.$rank.1)"; done)
    [ "${#guards[@]}" -eq 3 ]
    kill -STOP "${guards[@]}"
    lose 0 1
    wait_until grep -q "looking for the one that leads it now" err
    kill -INT "$(pgrep -P "$launcher")"
    wait_until grep -q "interrupted: the tasks get it once another shell leads the job; once more leaves the job" err
    [ -z "$again" ] || kill -INT "$(pgrep -P "$launcher")"
    [ -z "$again" ] || ends_with 130
    touch free
    kill -CONT "${guards[@]}"
    [ -n "$again" ] || ends_with 9
    [ -n "$again" ] || [ "$(grep -c got out)" -eq 3 ] || { cat out err; return 1; }
  done
  "$front" cancel --quiet "$id" || :
}

@test "who has started the job is killed while another shell leads: the job ends" {
  start_run "${take_over[@]}" -n 4 sh -c "$begun_until_go"
  await_try 1 0 1 2 3
  lose 0 1
  wait_until grep -q "leads it now" err
  kill -KILL "$(pgrep -P "$launcher")"
  nothing_left "^nacre-shell: $id"
  wait_until is_over
}

@test "output to a file of all goes on behind what it has" {
  start_run "${take_over[@]}" -n 4 --output=all.txt sh -c "$begun_until_go"
  await_try 1 0 1 2 3
  wait_until lines_come all.txt 4
  lose 0 1
  wait_until grep -q "leads it now" err
  touch go
  ends_with 1  # 1 is the code of the lost task
  [ "$(grep -c begun all.txt)" -eq 4 ] || { cat all.txt; return 1; }
  [ "$(grep -c "done" all.txt)" -eq 3 ]
}

@test "the leader is killed in each phase of the job: the others go on, and nacre run has its end" {
  local lost topic code
  for lost in replace go-on; do
    for topic in initrc shell.init shell.post-init task.init task.fork shell.start task.exit shell.finish shell.tasks-complete shell.exit; do
      cat >rc.lua <<END
local topic = "$topic"
local function die () if shell.info.rank == 0 then os.execute ("kill -KILL \$PPID; sleep 10") end end
if topic == "initrc" then die () else plugin.register { name = "dies", handlers = { { topic = topic, fn = die } } } end
END
      code=0
      run_ --local=4 -N 3+1 --on-lost="$lost" -o on-leader-lost=take-over --initrc="$PWD/rc.lua" sh -c 'sleep 0.3; echo ran $FLUX_TASK_RANK' >out 2>err || code=$?
      # Who has not agreed on that yet ends with its leader.
      [[ $topic != initrc && $topic != shell.init || $code -eq 0 ]] || { grep -q "the job has ended with it\|node-failure: shell [1-3] " err && continue; }
      # Once all tasks are over the next leader may know how those of the lost one have ended.
      [[ $lost,$code == replace,0 || $lost,$code == go-on,1 || $lost,$topic,$code == go-on,shell.@(tasks-complete|exit),0 ]] || { echo "$lost, $topic: $code"; cat out err; return 1; }
      [ "$(grep -v 'ran 0' out | sort | paste -sd,)" = "ran 1,ran 2" ] || { echo "$lost, $topic"; cat out err; return 1; }
      grep -q "leader-lost: shell 0 on .*, which led the job, is lost: shell 1 on .* leads now" err || { echo "$lost, $topic"; cat err; return 1; }
    done
  done
  local ids
  ids=$("$front" jobs -aq | paste -sd'|')
  [ -n "$ids" ]
  nothing_left "^nacre-shell: ($ids) "
}
