#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Jobs that grow and shrink after their leader was lost: the next one starts the new shells, and these may come to
# lead. All jobs have enough shells that more than half of those of the start are left, whatever the others know by
# then.
load replace.bash
load detached.bash
load grow.bash
load pmix.bash

setup_file() { build_ways; }

note='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}"; '
until_go="${note}"'until [ -e go ]; do sleep 0.2; done; echo "done in try ${NACRE_TASK_TRY:-1}"'

# Sets `places` of $2 shells, in the way $1: here, or by an agent, which gives a command line to a shell, as ssh
# does.
places() {
  write_agent
  case $1 in
    local) places=("--local=$2") ;;
    agent) places=("--hosts=node[1-$2]" --agent="$PWD/agent") ;;
  esac
  places+=(-o on-leader-lost=take-over -o cpu-affinity=off)
}

# grow_by NUMBER FIRST: prints which have joined, and whether any is missing.
grow_by() {
  local more="--count=$1"
  [[ ${places[0]} == --local* ]] || more="--hosts=node[$2-$(($2 + $1 - 1))]"
  grow "$more" --json | jq -r '.joined + (.missing | tostring)'
}

pid_of_leader() { "$front" jobs --json | jq .pid; }
leads_another() { [[ "$(pid_of_leader)" != @(""|"$before") ]]; }
follows_another() { (($(grep -c "is lost: the one on" err) > followed)); }
# Loses it, and waits until another leads and the launcher follows that one: what a leader has logged is lost with it
# if nobody has read it.
lose_leader() {
  before=$(pid_of_leader)
  followed=$(grep -c "is lost: the one on" err || true)
  kill -KILL "$before"
  wait_until leads_another
  wait_until follows_another
}
leader() { tr '\0' ' ' <"/proc/$(pid_of_leader)/cmdline" | sed -E 's/.* rank ([0-9]+).*/\1/'; }
shells() { "$front" jobs --json | jq -c '[.shells, .gone, .spares]'; }

@test "the next leader takes in new shells, which take over tasks and lead, and take in others" {
  local way
  for way in local agent; do
    rm -f shell.* go
    places "$way" 7
    start_run "${places[@]}" -n 7 --report="$PWD/report" sh -c "$until_go"
    await_try 1 0 1 2 3 4 5 6
    [ "$(grow_by 1 8)" = "7[]" ]
    lose_leader
    await_try 2 0 # on the shell that has joined
    [ "$(grow_by 2 9)" = "8-9[]" ]
    [ "$(spares)" = "8,9" ]
    lose_leader
    await_try 2 1
    [ "$(leader)" = 7 ] # the last one has the place of the one that leads now
    [ "$(grow_by 1 11)" = "10[]" ]
    lose_leader
    await_try 3 0
    [ "$(leader)" -gt 7 ]
    [ "$(shells)" = "[11,3,1]" ] || { "$front" jobs --json; return 1; }
    [ "$("$front" exec --shells=2-6,8-10 sh -c 'echo $NACRE_SHELL_ID' | sed 's/.*\.//' | sort -n | paste -sd,)" = "2,3,4,5,6,8,9,10" ]
    [ "$("$front" shrink --shells=10 --json | jq -r .gone)" = 10 ]
    touch go
    ends_with 0 || { cat out err; return 1; }
    [ "$(grep -c "done in" out)" -eq 7 ]
    [ "$(sort out | uniq -d)" = "" ]
    # Each loss is logged once, by the leader of that time.
    [ "$(grep -c "node-failure: " err),$(grep -c "leader-lost: " err)" = "3,3" ] || { cat err; return 1; }
    [ "$(jq -c '[.exit.code, (.classes[] | .record, .ranks)]' report)" = '[0,"x0","0-6"]' ] || { jq -c . report; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "the leader is lost while a new shell is waited for: one line says so, and the next order is carried out" {
  places agent 5
  on_lost=go-on start_run "${places[@]}" -n 5 sh -c "$until_go"
  await_try 1 0 1 2 3 4
  grow --hosts=node6,late >grown 2>&1 &
  grower=$!
  wait_until test -e asked
  lose_leader
  wait "$grower" && code=0 || code=$?
  [ "$code,$(wc -l <grown)" = "1,1" ] || { cat grown; return 1; }
  grep -q "nacre grow: the link to the shell that led job $id has ended, .*: hosts that had not joined by then do not join any more" grown || { cat grown; return 1; }
  touch gate
  [ "$(grow --hosts=late,node6 --json | jq -r '.joined + (.missing | tostring)')" = "5-6[]" ]
  [ "$(shells)" = "[7,1,2]" ]
  touch go
  ends_with 1 # 1 is the code of the lost task
  [ "$(grep -c "done in" out)" -eq 4 ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "the leader is lost while a new shell gets ready: it leaves, and the next order is carried out" {
  places local 5
  cat >rc.lua <<'END'
plugin.register { name = "waits", handlers = { { topic = "shell.init", fn = function ()
  if shell.info.rank == 5 then os.execute ("touch ready; until [ -e gate ]; do sleep 0.1; done") end
end } } }
END
  on_lost=go-on start_run "${places[@]}" -n 5 --initrc="$PWD/rc.lua" sh -c "$until_go"
  await_try 1 0 1 2 3 4
  grow --count=2 >grown 2>&1 &
  grower=$!
  wait_until test -e ready
  lose_leader
  touch gate
  wait "$grower" && code=0 || code=$?
  [ "$code,$(wc -l <grown)" = "1,1" ] || { cat grown; return 1; }
  has_left() { [ "$(shells)" = "[7,3,null]" ]; }
  wait_until has_left || { shells; cat err; return 1; }
  [ "$(grow_by 1)" = "7[]" ]
  touch go
  ends_with 1 # 1 is the code of the lost task
  [ "$(grep -c "done in" out)" -eq 4 ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "-N MIN:MAX: the tasks start again with more of them once the next leader has taken in new shells" {
  places local 5
  start_run "${places[@]}" -N 2:7 --restart=on-failure,scope=job,backoff=0s sh -c "$until_go"
  await_try 1 0 1 2 3 4
  lose_leader
  await_try 2 0 1 2 3
  grow --quiet --count=2
  await_try 3 0 1 2 3 4 5
  lose_leader
  await_try 4 0 1 2 3 4
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 4' out)" -eq 5 ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "what the next leader has taken in has ranks in PMI-1, PMI-2 and PMIx once all start again; it shrinks, too" {
  local way pmi
  for way in "${ways[@]}"; do
    pmi=simple,pmi2
    [ "$way" != PMIx ] || pmi=pmix
    rm -f shell.* in.* go
    places local 5
    start_run "${places[@]}" -N 3+2 -n 3 -o pmi=$pmi --restart=on-failure,scope=job,backoff=0s sh -c "$note exec '$BATS_FILE_TMPDIR/$way' go 0"
    all_in 2 1
    lose_leader
    all_in 2 2
    [ "$("$front" shrink --count=1 --json | jq -r .gone)" = 4 ] # the spare that is left
    [ "$(grow_by 1)" = "5[]" ]
    lose 2 2
    all_in 2 3
    [ "$(shells_of 2)" = "2:5:3" ] || { "$front" ps; return 1; }
    touch go
    ends_with 0 || { echo "$way"; cat out err; return 1; }
    [ "$(sort out)" = "$(printf '%s went on\n' "0: 0" "1: 1" "2: 2")" ] || { echo "$way"; cat out err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}
