#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre shrink: shells leave a running job.
load control.bash

# Each task writes a line when it gets SIGTERM, and ends with 3; when there is the file `go` it ends with 0.
obey='trap "echo bye \$FLUX_TASK_RANK; exit 3" TERM; echo here $FLUX_TASK_RANK; while [ ! -e go ]; do sleep 0.2; done; echo done $FLUX_TASK_RANK'

# bats test_tags=long
@test "a leaf, an inner shell, several: their tasks end and are no failures, the others go on" {
  local row set hosts gone # SHELLS HOSTS TASKS
  for row in "4 node4 2" "1 node1 2" "1,3-4 node[1,3-4] 6" "2-6 node[2-6] 10"; do
    read -r set hosts gone <<<"$row"
    rm -f go out
    start_job 7 2 "$obey" --arity=2
    lines_come out 14
    run --separate-stderr "$front" shrink --shells="$set"
    [ "$status" -eq 0 ] || { echo "$stderr"; cat err; return 1; }
    [ "$output" = "$hosts" ] || { echo "answer: $output"; return 1; }
    [ "$(grep -c '^bye' out)" -eq "$gone" ] || { cat out err; return 1; }
    [ "$("$front" ps -q | wc -l)" -eq $((14 - gone)) ]
    [ "$("$front" jobs --json | jq -c '[.shells, .gone]')" = "[7,$((gone / 2))]" ]
    [[ "$("$front" jobs)" == *" 14 "*" $((7 - gone / 2)) "* ]] || { "$front" jobs; return 1; }
    touch go
    ends_with 0
    [ "$(grep -c '^done' out)" -eq $((14 - gone)) ]
    ! grep -F nacre err || return 1
  done
}

@test "hosts by name and by number; what cannot leave is refused, and nothing happens" {
  start_job 4 1 "$obey"
  lines_come out 4
  for each in "--shells=0|shell 0 on node0 leads the job, and cannot leave it" "--shells=0-2|shell 0 on node0 leads the job, and cannot leave it" \
    "--shells=7|shell 7: the job has shells 0 to 3" "--hosts=nowhere|nowhere is no host of this job" \
    "--count=4|3 shells can leave this job, not 4; shell 0, which leads it, stays" \
    "--hosts=node2 --tasks=refuse|shell 2 on node2 has tasks 2; tasks=end ends them"; do
    # shellcheck disable=SC2086
    run "$front" shrink ${each%%|*}
    fails_with 1 "nacre shrink: ${each#*|}"
  done
  for each in "" "--shells=1 --count=1" "--shells=" "--count=0" "--count=-1" "--count=x" "--shells=1 --grace=x" "--shells=1 --signal=FOO" "--shells=1 --tasks=x"; do
    # shellcheck disable=SC2086
    run "$front" shrink $each
    [ "$status" -eq 2 ] || { echo "$each: $status $output"; return 1; }
    [[ $each != --count=* || $output == *"--count: expected a"* ]] || { echo "$each: $output"; return 1; }
  done
  [ "$("$front" ps -q | wc -l)" -eq 4 ]
  [ "$("$front" shrink --hosts=node1)" = node1 ]
  [ "$("$front" shrink --count=1)" = node3 ]
  run "$front" shrink --hosts=node1
  fails_with 1 "nacre shrink: node1 is not of the job any more"
  run "$front" shrink --shells=3
  fails_with 1 "nacre shrink: shell 3 is not of the job any more"
  [ "$("$front" shrink --count=1 --json | jq -c '[.gone, .unconfirmed, .hosts]')" = '["2","","node2"]' ]
  run "$front" shrink --count=1
  fails_with 1 "nacre shrink: 0 shells can leave this job, not 1; shell 0, which leads it, stays"
  touch go
  ends_with 0
}

# The exit code by policy $1 of a job of four shells of which 1 and 3 leave. Rank 1 is the main rank; rank 2 fails
# $2: never, before, after.
code_of_shrunk() {
  rm -f go fail ready out
  start_job 4 1 'trap "exit 3" TERM; echo >>ready
    while [ ! -e go ]; do [ $FLUX_TASK_RANK != 2 ] || [ ! -e fail ] || exit 5; sleep 0.1; done' \
    -o exit-policy="$1" -o exit-main=1 -o kill-timeout=100s -o report="$PWD/report"
  lines_come ready 4
  [ "$2" != before ] || { touch fail && wait_until has_tasks 3; } || return
  "$front" shrink --shells=1,3 || return
  [ "$2" != after ] || { touch fail && wait_until has_tasks 1; } || return
  touch go
  code=0
  wait "$launcher" || code=$?
}
gone() { ! grep -q "^State:.[^Z]" "/proc/$1/status" 2>kill.err; }
has_tasks() { [ "$("$front" ps -q | wc -l)" -eq "$1" ]; }

@test "tasks that have left with their shell are no failure to --require-all-success; one that fails is" {
  code_of_shrunk all never
  [ "$code" -eq 0 ] || { cat out err; return 1; }
  code_of_shrunk all after
  [ "$code" -eq 1 ] || { cat out err; return 1; }
  grep -Fx "nacre: exit code 5: 2 | left by nacre shrink: 1,3 | exit code 0: 0" err || { cat err; return 1; }
  [ "$(jq -c '[.classes[] | [.record, .ranks]] | sort' report)" = '[["g/x3","1,3"],["x0","0"],["x5","2"]]' ] || { cat report; return 1; }
}

# bats test_tags=long
@test "what each policy says of a job that has shrunk: before a failure, after it, without one" {
  for row in "max 0 5 5" "main 0 0 0" "all 0 1 1" "main+all 0 1 1" "first 0 5 5"; do
    read -r policy never before after <<<"$row"
    for when in never before after; do
      code_of_shrunk "$policy" "$when"
      [ "$code" -eq "${!when}" ] || { echo "$policy, $when: $code"; cat out err; return 1; }
    done
  done
}

@test "tasks that ignore the signal are killed after the grace; all that was written comes" {
  start_job 3 1 'trap "" TERM; [ $FLUX_TASK_RANK = 0 ] || { seq -f "line $FLUX_TASK_RANK %.0f" 100000; echo up >>ready; exec sleep 600; }
    echo up >>ready; while [ ! -e go ]; do sleep 0.2; done'
  lines_come ready 3
  began=$(date +%s%N)
  [ "$("$front" shrink --shells=1-2 --grace=0.5s)" = "node[1-2]" ]
  [ $((($(date +%s%N) - began) / 1000000)) -ge 450 ]
  for rank in 1 2; do [ "$(grep -c "^line $rank " out)" -eq 100000 ]; done
  touch go
  ends_with 0
}

@test "a task that its shell has ended to leave is not what went wrong, though it ended first" {
  start_job 2 1 '[ $FLUX_TASK_RANK = 0 ] || exec sleep 600; while [ ! -e go ]; do sleep 0.1; done; exit 5' -o exit-on-error=1 \
    -o report="$PWD/report" -o 'epilog.command=touch epilog; while [ ! -e leave ]; do sleep 0.1; done'
  "$front" shrink --shells=1 >answer 2>said &
  wait_until test -e epilog
  touch go
  wait_until 20 grep -q "exited with code 5" err || { cat err answer said; return 1; }
  pause 1
  touch leave
  ends_with 5
  [ "$(jq -c '[.cause.rank, .cause.after]' report)" = '[0,null]' ] || { cat report err; return 1; }
}

# bats test_tags=long
@test "what does not come as the job's reader does not read is not waited for, and the job says so" {
  mkfifo pipe
  "$front" run --local=2 -n 2 --name=unread sh -c '[ $NACRE_TASK_RANK = 0 ] || { trap "" TERM; seq -f "line %.0f" 2000000; }
    echo up >>ready; while [ ! -e go ]; do sleep 0.2; done' >pipe 2>err &
  launcher=$!
  exec 9<pipe
  wait_until listed
  [ "$("$front" shrink --shells=1 --grace=0.1s --json unread | jq -r .gone)" = 1 ]
  cat <&9 >out &
  reader=$!
  exec 9<&-
  touch go
  ends_with 0
  wait "$reader"
  [ "$(wc -l <out)" -lt 2000000 ]
  grep -q "output: shell 1 on .* has left before all had come that its tasks have written: the end of it may be missing" err || { cat err; return 1; }
}

# bats test_tags=long
@test "a shell that is killed while it leaves has left, and its guard ends its tasks; the job goes on" {
  start_job 4 1 'trap "touch leaves.$FLUX_TASK_RANK" TERM; echo $PPID $$ >"shell.$FLUX_TASK_RANK"; while [ ! -e go ]; do sleep 0.2; done' -o report="$PWD/report"
  for rank in 0 1 2 3; do wait_until test -s "shell.$rank"; done
  "$front" shrink --shells=2-3 --grace=100s --json >answer 2>said &
  clients=$!
  wait_until test -e leaves.2 -a -e leaves.3
  read -r shell task <shell.2
  kill -KILL "$shell"
  read -r shell task <shell.3
  kill -KILL "$task"
  code=0
  wait "$clients" || code=$?
  [ "$code" -eq 0 ] || { cat answer said err; return 1; }
  [ "$(jq -c '[.gone, .unconfirmed]' answer)" = '["2-3",""]' ]
  read -r shell task <shell.2
  wait_until gone "$task"
  touch go
  ends_with 0
  [ "$(jq -c '[.classes[] | [.record[:1], .ranks]] | sort' report)" = '[["g","2"],["g","3"],["x","0-1"]]' ] || { cat report; return 1; }
}

# Shell 1 of $1 is killed as it leaves, at the moment $2: while it is asked whether it may leave, before its tasks
# get the signal, during their grace, or once they have ended. The other arguments are options of the job.
killed_as_it_leaves() {
  local many=$1 when=$2 rank task shell code=0
  shift 2
  rm -rf go leaves.* shell.* held answer report rc.lua
  local -A held_at=([signal]=job.shrinking [ended]=shell.finish)
  cat >rc.lua <<END
plugin.register { name = "hold", handlers = { { topic = "${held_at[$when]:-none}", fn = function ()
  if shell.info.rank == 1 then os.execute ("touch held; while ! [ -e go ]; do sleep 0.1; done") end
end } } }
END
  start_job "$many" 1 'trap "touch leaves.$FLUX_TASK_RANK; [ -e stay ] || exit 3" TERM; echo $PPID $$ >"shell.$FLUX_TASK_RANK"; while [ ! -e go ]; do sleep 0.2; done' \
    -o report="$PWD/report" "$@" -- --initrc="$PWD/rc.lua"
  for ((rank = 0; rank < many; ++rank)); do wait_until test -s "shell.$rank"; done
  read -r shell task <shell.1
  rm -f stay
  [ "$when" != grace ] || touch stay
  [ "$when" != asked ] || kill -STOP "$shell"
  "$front" shrink --shells=1 --grace=100s --json >answer 2>said &
  clients=$!
  case $when in
  asked) sleep 0.5 ;; # less than the order waits
  grace) wait_until test -e leaves.1 ;;
  *) wait_until test -e held ;;
  esac
  kill -KILL "$shell"
  wait "$clients" || code=$?
  [ "$code" -eq 0 ] || { echo "$when: nacre shrink: $code"; cat answer said err; return 1; }
  [ "$(jq -c '[.gone, .unconfirmed]' answer)" = '["1",""]' ] || { echo "$when: $(<answer)"; return 1; }
  wait_until gone "$task" || { echo "$when: its task is left"; return 1; }
  touch go
  code=0
  wait "$launcher" || code=$?
  [ "$code" -eq 0 ] || { echo "$when: the job: $code"; cat err; return 1; }
  ! grep -F "is lost" err || return 1
  [ "$(jq -r '.classes[] | select(.record[:1] == "g") | .ranks' report)" = 1 ] || { echo "$when"; cat report; return 1; }
}

@test "one that is killed in the time of its tasks has left" {
  killed_as_it_leaves 2 grace
  killed_as_it_leaves 4 asked
}

# bats test_tags=long
@test "the same at any time of its leave, with any on-lost, of two shells and of more" {
  local many when
  for many in 2 4; do
    for when in asked signal grace ended; do
      killed_as_it_leaves $many $when
      killed_as_it_leaves $many $when -o on-lost=go-on
    done
  done
}

# bats test_tags=long
@test "two shrinks at once, and one while the job ends" {
  start_job 5 1 'trap "touch leaves.\$FLUX_TASK_RANK; until [ -e leave ]; do sleep 0.2; done; exit 1" TERM
    touch "up.$FLUX_TASK_RANK"; while [ ! -e go ]; do sleep 0.2; done' -o kill-timeout=100s
  for rank in 1 2 3 4; do wait_until test -e "up.$rank"; done
  "$front" shrink --shells=1-2 --json >one &
  clients=$!
  wait_until test -e leaves.1 -a -e leaves.2
  "$front" shrink --shells=2-3 --json >two &
  second=$!
  wait_until test -e leaves.3
  touch leave
  wait "$clients"
  wait "$second"
  [ "$(jq -r .gone one)" = "1-2" ]
  [ "$(jq -r .gone two)" = "2-3" ]
  touch go
  "$front" shrink --shells=4 || :
  ends_with 0
}

@test "plugins on the shells that stay and that leave are told, with R as it is then" {
  cat >rc.lua <<'LUA'
for _, topic in ipairs { "job.shrinking", "shell.left", "shell.resource-update", "shell.lost", "shell.finish" } do
  plugin.register { name = "see-" .. topic, handlers = { { topic = topic, fn = function(name)
    local file = io.open("seen." .. shell.info.rank, "a")
    file:write(name, "\n")
    file:close()
  end } } }
end
LUA
  start_job 4 1 'while [ ! -e go ]; do sleep 0.2; done' -- --initrc="$PWD/rc.lua"
  "$front" shrink --shells=2-3
  touch go
  ends_with 0
  for rank in 0 1; do
    [ "$(sort "seen.$rank" | uniq -c | awk '{ print $1, $2 }')" = "1 job.shrinking
1 shell.finish
2 shell.left
1 shell.resource-update" ] || { cat "seen.$rank"; return 1; }
  done
  for rank in 2 3; do [ "$(cat "seen.$rank")" = "job.shrinking
shell.finish" ]; done
}

# bats test_tags=long
@test "an epilog without end, and a command beside the tasks, do not keep a shell in the job" {
  start_job 4 1 'while [ ! -e go ]; do sleep 0.2; done' -o 'epilog.command=test -e go || exec sleep 76577'
  "$front" exec -w node3 sh -c 'trap "" TERM; echo up; sleep 76576; sleep 76576' >up 2>others &
  clients=$!
  lines_come up 1
  [ "$("$front" shrink --shells=2-3 --grace=0.2s --json | jq -c '[.gone, .unconfirmed]')" = '["2-3",""]' ]
  code=0
  wait "$clients" || code=$?
  [ "$code" -ne 0 ]
  nothing_left "^sleep 7657[67]"
  touch go
  ends_with 0
}

# bats test_tags=long
@test "elastic.manager: a command gets the hosts once; what it fails with is said; off; what it cannot be" {
  start_job 4 1 'while [ ! -e go ]; do sleep 0.2; done' -o 'elastic.manager=echo "$@ $NACRE_RELEASED_HOSTS" >>called; [ $1 != node1 ] || { echo no way >&2; exit 3; }'
  [ "$("$front" shrink --shells=2-3 --json | jq -c '.manager[0] | [.hosts, .released]')" = '["node[2-3]",true]' ]
  [ "$(<called)" = "node2 node3 node[2-3]" ]
  run --separate-stderr "$front" shrink --shells=1
  [ "$status" -eq 0 ]
  [ "$output" = node1 ]
  [[ $stderr == "nacre shrink: node1 not given back to "*": exited with code 3: no way" ]] || { echo "$stderr"; return 1; }
  touch go
  ends_with 0
  rm go
  start_job 2 1 'while [ ! -e go ]; do sleep 0.2; done' -o elastic.manager=off
  [ "$("$front" shrink --shells=1 --json | jq -c .manager)" = null ]
  touch go
  ends_with 0
  run launch -R R.json -o cpu-affinity=off --local=2 -o elastic.manager=true
  [ "$status" -eq 1 ]
  [[ $output == *"elastic.manager: expected auto, off or a command, got true"* ]] || { echo "$output"; return 1; }
}
