#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre grow: shells join a running job, and then are spares.
load grow.bash

# Each task writes its shell's pid to shell.RANK.TRY, and runs until there is the file `go`.
until_go='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}"
  until [ -e go ]; do sleep 0.2; done; echo "done $FLUX_TASK_RANK on $NACRE_SHELL_ID"'

# A job by nacre run, whose options and command are the arguments; all its tasks, of which there are $tasks, run.
start_run() {
  rm -f out err go shell.*
  run_ "$@" >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  "$front" jobs --json | jq .pid >leader
  for ((rank = 0; rank < tasks; ++rank)); do wait_until test -e "shell.$rank.1"; done
}

@test "shells join a job of this host: they are spares that run commands, and the job ends as it would have" {
  tasks=2
  start_run --local=2 -n 2 sh -c "$until_go"
  [ "$(grow --count=2 --json | jq -r '.joined + " " + (.missing | tostring)')" = "2-3 []" ]
  [ "$(spares)" = "2,3" ]
  [ "$("$front" jobs --json | jq -c '[.shells, .spares]')" = "[4,2]" ]
  [ "$("$front" exec --shells=0-3 sh -c 'echo $NACRE_SHELL_ID' | sed 's/.*\.//' | sort | paste -sd,)" = "0,1,2,3" ]
  touch go
  ends_with 0
  [ "$(sed 's/ on .*//' out | sort | paste -sd,)" = "done 0,done 1" ] || { cat out; return 1; }
  [ ! -s err ] || { cat err; return 1; }
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "a job over hosts, in a deep tree: grows and shrinks by turns, with new numbers each time" {
  write_agent
  tasks=4
  start_run --hosts="node[0-3]" --agent="$PWD/agent" --arity=2 -N 4 -n 4 -o cpu-affinity=off sh -c "$until_go"
  host=$(uname -n)
  [ "$(grow --hosts="node[4-6]" --json | jq -r .joined)" = "4-6" ]
  [ "$("$front" shrink --shells=5 --json | jq -r .gone)" = 5 ]
  [ "$("$front" jobs --json | jq -c '[.shells, .gone, .spares]')" = "[7,1,2]" ]
  for expected in 7 8 9 10 11; do
    [ "$(grow --hosts=node5 --json | jq -r .joined)" = "$expected" ] || { "$front" ps; return 1; }
    [ "$("$front" shrink --count=1 --json | jq -r .gone)" = "$expected" ] || { "$front" ps; return 1; }
  done
  # One shell joins below shells that have gone, and one takes the place of a shell with tasks.
  [ "$("$front" shrink --shells=1 --json | jq -r .gone)" = 1 ]
  [ "$(grow --hosts=node1)" = "$host" ]
  [ "$(spares)" = "4,6,12" ] || { spares; return 1; }
  [ "$("$front" exec --shells=0,2-4,6,12 sh -c 'echo $NACRE_SHELL_ID' | wc -l)" -eq 6 ]
  touch go
  ends_with 0
  [ "$(sed 's/ on .*//' out | sort | paste -sd,)" = "done 0,done 2,done 3" ] || { cat out; return 1; }
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "a shell that has joined takes over the tasks of a lost one, and another one those of it" {
  tasks=4
  start_run --local=2 -n 4 -l --on-lost=replace sh -c "$until_go"
  grow --count=1
  kill -KILL "$(<shell.2.1)"
  wait_until test -e shell.2.2
  wait_until test -e shell.3.2
  [ "$("$front" ps --json | jq -c '[.rank, .shell, .try] | select(.[0] != null)' | paste -sd,)" = "[0,0,1],[1,0,1],[2,2,2],[3,2,2]" ]
  grow --count=1
  kill -KILL "$(<shell.2.2)"
  wait_until test -e shell.2.3
  wait_until test -e shell.3.3
  touch go
  ends_with 0
  [ "$(grep -c ': done' out)" -eq 4 ] || { cat out; return 1; }
  [ "$(grep -c 'done [23] on .*\.3$' out)" -eq 2 ] || { cat out; return 1; }
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "as events of the eventlog: shells that join, leave and are lost, tasks that move and start again" {
  tasks=3
  start_run --local=3 -n 3 --on-lost=replace --restart=on-request --eventlog="$PWD/events" sh -c "$until_go"
  grow --count=2
  "$front" shrink --shells=4 >/dev/null
  kill -KILL "$(<shell.1.1)"
  wait_until test -e shell.1.2
  "$front" restart --ranks=2
  wait_until test -e shell.2.2
  touch go
  ends_with 0
  host=$(uname -n)
  [ "$(jq -c 'select(.name | test("^shell.(joined|left|lost)$")) | [.name, .context.shell_rank, .context.host]' events)" = \
    "[\"shell.joined\",3,\"$host\"]
[\"shell.joined\",4,\"$host\"]
[\"shell.left\",4,\"$host\"]
[\"shell.lost\",1,\"$host\"]" ] || { cat events; return 1; }
  [ "$(jq -c 'select(.name == "job.tasks-moved").context | [.ranks, .from, .to, .try]' events)" = '["1",1,3,2]' ] || { cat events; return 1; }
  [ "$(jq -c 'select(.name == "job.tasks-restart").context | [.ranks, .ordered, .try]' events)" = '["2",true,2]' ] || { cat events; return 1; }
  # The event comes after the beginning of the log, and before its end.
  [ "$(jq -r .name events | sed -n '1p;2p;$p' | paste -sd,)" = "shell.init,shell.start,shell.exit" ] || { cat events; return 1; }
}

# bats test_tags=long
@test "the leader is killed: a shell of this host that has joined ends with its tasks, and nothing is left" {
  local marked="# tasks of $work"
  tasks=2
  start_run --local=2 -n 2 --on-lost=replace sh -c "$until_go
    $marked"
  grow --count=1
  kill -KILL "$(<shell.1.1)"
  wait_until test -e shell.1.2
  kill -KILL "$(<leader)"
  wait "$launcher" || code=$?
  [ "$code" -eq 137 ]
  nothing_left "^nacre-shell: $id"
  nothing_left "$marked"
  wait_until sh -c '[ -z "$(ls "$TMPDIR")" ]'
}

# bats test_tags=long
@test "who does not come is named, and the others join; with --all they leave again" {
  write_agent
  echo node5 >dead
  tasks=2
  start_run --hosts="node[0-1]" --agent="$PWD/agent" -N 2 -n 2 -o cpu-affinity=off sh -c "$until_go"
  run --separate-stderr grow --hosts="node[4-6]" --json
  [ "$status" -eq 1 ]
  [ "$(jq -c '[.joined, .missing]' <<<"$output")" = '["2,4",[{"error":"agent: node5: no route to host (agent exited with code 255)","host":"node5","shell":3}]]' ] || { echo "$output"; return 1; }
  [ "$stderr" = "nacre grow: shell 3 on node5 has not joined: agent: node5: no route to host (agent exited with code 255)" ] || { echo "$stderr"; return 1; }
  run --separate-stderr grow --hosts="node[5,7]" --all
  [ "$status" -eq 1 ]
  [[ $stderr == *"shell 5 on node5: agent: node5: no route to host"*"those that had joined have left again (--all)" ]] || { echo "$stderr"; return 1; }
  [ "$(spares)" = "2,4" ]
  run --separate-stderr grow --hosts=node5
  [ "$status" -eq 1 ]
  [[ $stderr == "nacre grow: "*"shell 7 on node5: agent: node5: no route to host (agent exited with code 255)" ]] || { echo "$stderr"; return 1; }
  # A name that no host can have is refused before anything is started.
  run --separate-stderr grow --hosts=-x
  [ "$status" -eq 1 ]
  [[ $stderr == "nacre grow: "*"shell 8 on -x: '-x' is no name of a host" ]] || { echo "$stderr"; return 1; }
  echo node8 >slow
  run --separate-stderr grow --hosts="node[8-9]" --wait=5s
  [ "$status" -eq 1 ]
  [[ $stderr == *"shell 9 on node8 has not joined: it has not joined the job in time" ]] || { echo "$stderr"; return 1; }
  [ "$(spares)" = "2,4,10" ]
  touch go
  ends_with 0
  [ ! -s err ] || { cat err; return 1; }
  nothing_left "^nacre-shell: $id"
  nothing_left '^sleep 600$'
}

# bats test_tags=long
@test "a shell whose initrc, shell.init or prolog fails stays out, and the job goes on" {
  write_agent
  cat >rc.lua <<'END'
if os.getenv ("BAD_INITRC") then error ("no such device") end
plugin.register { name = "picky", handlers = { { topic = "shell.init", fn = function()
  if os.getenv ("BAD_INIT") then shell.die ("shell.init fails here") end
end } } }
END
  cat >agent <<'END'
#!/bin/sh
case $1 in node4) export BAD_INITRC=1 ;; node5) export BAD_INIT=1 ;; esac
shift
exec sh -c "$*"
END
  tasks=2
  start_run --hosts="node[0-1]" --agent="$PWD/agent" -N 2 -n 2 -o cpu-affinity=off -o initrc="$PWD/rc.lua" \
    -o prolog="if [ -e $PWD/bad ]; then exit 3; fi" sh -c "$until_go"
  run --separate-stderr grow --hosts="node[4-6]" --json
  [ "$status" -eq 1 ]
  [ "$(jq -r .joined <<<"$output")" = 4 ] || { echo "$output"; return 1; }
  [ "$(jq -c '[.missing[].shell]' <<<"$output")" = "[2,3]" ] || { echo "$output"; return 1; }
  [[ "$(jq -r '.missing[0].error' <<<"$output")" == *"no such device"* ]] || { echo "$output"; return 1; }
  [[ "$(jq -r '.missing[1].error' <<<"$output")" == *"shell.init fails here"* ]] || { echo "$output"; return 1; }
  touch bad
  run --separate-stderr grow --hosts=node7
  [ "$status" -eq 1 ]
  [[ $stderr == "nacre grow: shell 5 on node7: "*prolog*"code 3"* ]] || { echo "$stderr"; return 1; }
  wait_until no_spare_but 4
  touch go
  ends_with 0
  nothing_left "^nacre-shell: $id"
}

no_spare_but() { [ "$(spares)" = "$1" ]; }

# bats test_tags=long
@test "a relative --shell is of the directory of nacre run, wherever the tasks are" {
  tasks=2
  mkdir elsewhere bin
  cp "$NACRE_SHELL" bin/nacre-shell
  for where in "-n 1" "-n 2 --local=2"; do
    rm -f elsewhere/go
    # shellcheck disable=SC2086
    "$front" run --shell=bin/nacre-shell --cwd="$PWD/elsewhere" $where sh -c 'until [ -e go ]; do sleep 0.2; done' >out 2>err &
    launcher=$!
    wait_until listed
    grow --count=1 -q
    touch elsewhere/go
    ends_with 0
  done
}

# bats test_tags=long
@test "what cannot grow is refused in words" {
  local row
  tasks=2
  start_run --local=2 -n 2 sh -c "$until_go"
  for row in "--count=0|2|--count: expected 1 to 4096" "--count=x|2|--count: expected a number, got 'x'" "|2|expected one of --hosts and --count" "--count=1 --hosts=a|2|" \
    "--hosts=elsewhere|1|elsewhere is another host, and all shells of this job are on this one: give --count, or start it with --hosts" "--count=1 --wait=0s|2|--wait: expected a time that ends" \
    "--hosts=a[|2|--hosts: "; do
    IFS='|' read -r given code words <<<"$row"
    # shellcheck disable=SC2086
    run --separate-stderr grow $given
    [ "$status" -eq "$code" ] || { echo "$row: $status $output $stderr"; return 1; }
    [[ $stderr == *"$words"* ]] || { echo "$row: $stderr"; return 1; }
  done
  touch go
  ends_with 0
  # A shell that the user has started by hand.
  rm -f go out err
  write_nodes 1 1
  write_jobspec 1 sh -c 'until [ -e go ]; do sleep 0.2; done'
  "$NACRE_SHELL" --standalone -j jobspec.json -R R.json -o control -o cpu-affinity=off >out 2>err &
  launcher=$!
  wait_until listed
  run --separate-stderr grow --count=1
  [ "$status" -eq 1 ]
  [[ $stderr == *"nacre has not started the shells of this job, so it cannot start more"* ]] || { echo "$stderr"; return 1; }
  touch go
  ends_with 0
  write_agent
  tasks=2
  start_run --hosts="node[0-1]" --agent="$PWD/agent" -N 2 -n 2 -o cpu-affinity=off sh -c "$until_go"
  run --separate-stderr grow --count=1
  [ "$status" -eq 1 ]
  [[ $stderr == *"--count names no hosts"*"give --hosts" ]] || { echo "$stderr"; return 1; }
  touch go
  ends_with 0
}

# bats test_tags=long
@test "the job ends while hosts are waited for: at once, and nothing is left of them" {
  write_agent
  echo node4 >slow
  tasks=2
  start_run --hosts="node[0-1]" --agent="$PWD/agent" -N 2 -n 2 -o cpu-affinity=off sh -c "$until_go"
  ends_while_it_waits
}

# Task 1 fails once there is the file `fail`. Task 0 is ended with it, which makes the file `ends`, and has to be killed.
fails_late='trap "touch ends" TERM
  echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.1"
  until [ -e fail ]; do sleep 0.2; done; [ $FLUX_TASK_RANK != 1 ] || exit 3; while :; do sleep 0.2; done'

# Shells join these hosts, of which one is `late`, once the job of start_run has failed, and before its last task is killed.
joins_too_late() {
  local code=0
  grow --hosts="$1" --wait=60s >grown 2>&1 3>&- &
  asker=$!
  wait_until test -e asked
  touch fail
  wait_until test -e ends
  touch gate
  begin=$SECONDS
  ends_with 3
  ((SECONDS - begin < 10)) || { cat err grown; return 1; }
  wait "$asker" || code=$?
  [ "$code" -eq 1 ] || { cat grown; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "a job that fails while a shell joins ends, and the shell with it" {
  write_agent
  tasks=2
  start_run --hosts="node[0-1]" --agent="$PWD/agent" -N 2 -n 2 -o cpu-affinity=off -o exit-on-error -o kill-timeout=3s sh -c "$fails_late"
  joins_too_late late
}

# bats test_tags=long
@test "a job that fails while shells join, of which one fails: the others do not wait for it" {
  write_agent
  cat >rc.lua <<'END'
plugin.register { name = "picky", handlers = { { topic = "shell.init", fn = function()
  if shell.info.rank == 3 then shell.die ("shell.init fails here") end
end } } }
END
  tasks=2
  start_run --hosts="node[0-1]" --agent="$PWD/agent" -N 2 -n 2 -o cpu-affinity=off -o initrc="$PWD/rc.lua" -o exit-on-error -o kill-timeout=3s \
    sh -c "$fails_late"
  joins_too_late late,node5
}

# bats test_tags=long
@test "a shrink, and a shell that is lost, while a grow waits: each ends once" {
  write_agent
  echo node5 >slow
  tasks=4
  start_run --hosts="node[0-3]" --agent="$PWD/agent" --arity=2 --on-lost=go-on -N 4 -n 4 -o cpu-affinity=off sh -c "$until_go"
  grow --hosts="node[4-5]" --wait=5s --json >grown 2>why &
  grower=$!
  wait_until pgrep -f '^sleep 600$'
  [ "$("$front" shrink --shells=2 --json | jq -r .gone)" = 2 ]
  kill -KILL "$(<shell.3.1)"
  code=0
  wait "$grower" || code=$?
  [ "$code" -eq 1 ]
  [ "$(jq -c '[.joined, [.missing[].shell]]' grown)" = '["4",[5]]' ] || { cat grown why; return 1; }
  touch go
  wait "$launcher" || :
  [ "$(sed 's/ on .*//' out | sort | paste -sd,)" = "done 0,done 1" ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
  nothing_left '^sleep 600$'
}

# bats test_tags=long
@test "a shell that is killed while it joins, or once it has, does not end the job" {
  cat >rc.lua <<'END'
plugin.register { name = "slow", handlers = { { topic = "shell.init", fn = function()
  if shell.info.rank == 2 then
    os.execute ("echo $PPID >joining; until [ -e joined ]; do sleep 0.2; done")
  end
end } } }
END
  tasks=2
  start_run --local=2 -n 2 -o initrc="$PWD/rc.lua" sh -c "$until_go"
  grow --count=2 --json >grown 2>why &
  grower=$!
  wait_until test -s joining
  kill -KILL "$(<joining)"
  code=0
  wait "$grower" || code=$?
  [ "$code" -eq 1 ]
  [ "$(jq -c '[.joined, .missing[0].shell]' grown)" = '["3",2]' ] || { cat grown why; return 1; }
  "$front" exec --shells=3 sh -c 'kill -KILL $PPID' || :
  wait_until no_spare_but ""
  touch go
  ends_with 0
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "several operators grow and shrink the same job at once" {
  tasks=2
  start_run --local=2 -n 2 sh -c "$until_go"
  for i in 1 2 3; do
    grow --count=2 -q >"grown.$i" 2>&1 &
    growers+=($!)
    "$front" shrink --count=1 -q >"shrunk.$i" 2>&1 &
    shrinkers+=($!)
  done
  for pid in "${growers[@]}"; do wait "$pid" || { cat grown.*; return 1; }; done
  for pid in "${shrinkers[@]}"; do wait "$pid" || :; done
  # Six have joined; a shrink may have taken shell 1 before any had, or one of the six.
  "$front" ps --json >listed
  [ "$(jq -s '[.[] | select(.spare)] | length' listed)" -ge 3 ] || { cat listed; return 1; }
  touch go
  ends_with 0
  nothing_left "^nacre-shell: $id"
}
