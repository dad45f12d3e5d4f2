#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre attach --input: the standard input of a job has one owner, after its launcher has left it or the owner has
# taken it.
load pty.bash
load detached.bash

eval "detached_$(declare -f teardown)"
teardown() {
  for each in "${owners[@]}"; do kill -KILL "$each" 2>/dev/null || :; done
  detached_teardown
}

owners=()
ways=(here local agent)

# A job without a launcher, whose input is open: its id is $id.
left_open() { # way, then options and a command
  places_of "$1"
  id=$(timeout 60 "$front" run "${places[@]}" -d -o input.when-left=open "${@:2}" 2>err)
}

# Starts an owner whose input is the FIFO $name.in; its output is in $name.out and $name.err, its process the last
# of $owners.
owner() { # name options...
  local name=$1
  shift
  rm -f "$name.out" "$name.err"
  [ -p "$name.in" ] || mkfifo "$name.in"
  "$front" attach "$@" "$id" <"$name.in" >"$name.out" 2>"$name.err" &
  owners+=("$!")
}
ends() { # process code
  local code=0
  wait "$1" || code=$?
  [ "$code" -eq "$2" ] || { echo "exit code $code, not $2"; tail ./*.err; return 1; }
}
has() { grep -qxF -- "$2" "$1"; }
refused() { # text, then options of attach
  run -1 --separate-stderr "$front" attach "${@:2}" "$id" </dev/null
  [ "${#stderr_lines[@]}" -eq 1 ]
  [[ $stderr == *"$1"* ]] || { echo "no '$1' in: $stderr"; return 1; }
}
reading='while read -r line; do echo "$NACRE_TASK_RANK got $line"; done; echo "$NACRE_TASK_RANK over"; exit $NACRE_TASK_RANK'

@test "what an owner types goes to all tasks, and its end is the input's end" {
  for way in "${ways[@]}"; do
    left_open "$way" -n 4 sh -c "$reading"
    [ ! -s err ] || { cat err; return 1; }
    owner a --input
    exec {to}>a.in
    echo one >&"$to"
    for rank in 0 1 2 3; do wait_until has a.out "$rank got one"; done
    echo two >&"$to"
    for rank in 0 1 2 3; do wait_until has a.out "$rank got two"; done
    exec {to}>&-
    ends "${owners[-1]}" 3
    [ "$(sort a.out)" = "$(for rank in 0 1 2 3; do printf "$rank %s\n" 'got one' 'got two' over; done | sort)" ]
    wait_until is_over
  done
}

# bats test_tags=long
@test "one owner at a time; whoever leaves only leaves, in the middle of a line too, and the job goes on" {
  for way in here local; do
    left_open "$way" -n 2 sh -c "$reading"
    owner a --input
    local me="the job's standard input is that of nacre attach (pid"
    exec {first}>a.in
    echo one >&"$first"
    wait_until has a.out '1 got one'
    refused "$me ${owners[-1]} on $(hostname)): --input=take takes it" --input
    owner b --input=take
    exec {second}>b.in
    wait_until grep -qF "$me ${owners[-1]} on $(hostname)) from now on; this only watches" a.err
    echo lost >&"$first"
    printf 'two\nha' >&"$second"
    wait_until has b.out '1 got two'
    kill -KILL "${owners[-1]}"
    ends "${owners[-1]}" 137
    owner c --input
    exec {third}>c.in
    echo lf >&"$third"
    wait_until has c.out '1 got half'
    kill -INT "${owners[-3]}" # this one only watches: it leaves
    ends "${owners[-3]}" 0
    kill -TERM "${owners[-1]}" # the owner leaves as well
    ends "${owners[-1]}" 0
    owner d --input
    exec {fourth}>d.in
    exec {fourth}>&- {first}>&- {second}>&- {third}>&-
    ends "${owners[-1]}" 1
    has d.out '0 got half'
    run -1 grep -q lost d.out
    wait_until is_over
  done
}

@test "only the ranks of input.ranks get it, and the others nothing" {
  for way in "${ways[@]}"; do
    left_open "$way" -n 4 -o input.ranks=2 sh -c "$reading"
    echo one >in
    run -3 --separate-stderr "$front" attach --input "$id" <in
    [ "$(sort <<<"$output")" = "$(printf '%s\n' '0 over' '1 over' '2 got one' '2 over' '3 over')" ]
    wait_until is_over
  done
}

# bats test_tags=long
@test "100 MB come as they were sent, and tasks that do not read stop the owner, not the job" {
  head -c 100000000 /dev/urandom >large
  for way in "${ways[@]}"; do
    rm -f go
    left_open "$way" -n 2 sh -c 'until test -e go; do sleep 0.2; done; exec sha256sum'
    "$front" attach --input "$id" <large >sums 2>sums.err &
    owners+=("$!")
    wait_until listed
    [ "$("$front" ps -q "$id" | wc -l)" -eq 2 ]
    touch go
    ends "${owners[-1]}" 0
    [ "$(sort -u sums)" = "$(sha256sum <large)" ] || { cat sums sums.err; return 1; }
    [ "$(wc -l <sums)" -eq 2 ]
    wait_until is_over
  done
}

# How much of its input the owner has read.
position() { sed -n 's/^pos:[[:space:]]*//p' "/proc/${owners[-1]}/fdinfo/0"; }
is_at() { [ "$(position)" -ge "$1" ]; }

# bats test_tags=long
@test "what waits for a task that does not read is bounded" {
  head -c 20000000 /dev/zero >large
  left_open here sh -c 'until test -e go; do sleep 0.2; done; exec wc -c'
  "$front" attach --input "$id" <large >count 2>count.err &
  owners+=("$!")
  wait_until is_at 1048576 # what the leader holds at the least
  for _ in 1 2 3 4 5; do "$front" exec "$id" true; done
  [ "$(position)" -le 1572864 ] # that, a pipe, and what is on its way: 64 KiB each
  touch go
  ends "${owners[-1]}" 0
  [ "$(<count)" = 20000000 ]
}

# bats test_tags=long
@test "a job that has no input for others, and input that has ended: refused with the reason" {
  places_of here
  id=$("$front" run "${places[@]}" -d sleep 76571)
  refused 'without standard input' --input
  refused 'without standard input' --input=take
  "$front" kill "$id"
  wait_until is_over
  echo typed >typed
  mkfifo feed
  "$front" run --local=2 "${places[@]}" -n 2 sleep 76572 <feed >out 2>err &
  launcher=$!
  exec {feed}>feed
  wait_until listed
  id=$("$front" jobs -q)
  refused 'the process that has started the job: --input=take takes it' --input
  "$front" kill "$id"
  ends_with 143
  exec {feed}>&-
  "$front" run "${places[@]}" sleep 76575 <typed >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  refused 'read the standard input with which shell 0 was started' --input=take
  "$front" kill "$id"
  ends_with 143
  id=$("$front" run "${places[@]}" -d -o input.when-left=open -o input.stdin.path=typed sleep 76573)
  refused 'read a file (input.stdin.path)' --input
  "$front" kill "$id"
  wait_until is_over
  left_open here sh -c 'cat; exec sleep 76574'
  "$front" attach --input "$id" </dev/null >out 2>err &
  owners+=("$!")
  wait_until pgrep -xf 'sleep 76574' >/dev/null # cat has come to the input's end
  refused 'the job'"'"'s standard input has ended' --input
  "$front" kill "$id"
  ends "${owners[-1]}" 143
  run -2 "$front" attach --input=mine "$id"
  [[ $output == *"'mine': expected take, or nothing"* ]]
  run -2 "$front" attach --input --pty "$id"
  run -1 "$front" run "${places[@]}" -o input.when-left=maybe true
  [[ $output == *"input.when-left: expected open or end"* ]]
}

# bats test_tags=long
@test "the input is taken from a launcher that runs, which gets a line, and goes on" {
  for way in local agent; do
    places_of "$way"
    mkfifo "feed.$way"
    "$front" run "${places[@]}" -n 2 sh -c "$reading" <"feed.$way" >out 2>err &
    launcher=$!
    exec {feed}>"feed.$way"
    echo one >&"$feed" || { cat out err; return 1; }
    wait_until has out '1 got one'
    wait_until listed
    id=$("$front" jobs -q)
    owner a --input=take
    exec {to}>a.in
    wait_until grep -q "is that of nacre attach (pid ${owners[-1]} on .*) from now on: what is typed here goes nowhere" err
    echo lost >&"$feed"
    exec {feed}>&- # the end of this input does not end the job's
    echo two >&"$to"
    wait_until has a.out '1 got two'
    exec {to}>&-
    ends "${owners[-1]}" 1
    ends_with 1
    run -1 grep -q lost out
  done
}

# bats test_tags=long
@test "input.when-left=end: the input ends with its owner; by default a job that is left waits for the next one" {
  for way in here local agent; do
    for left in end open; do
      places_of "$way"
      mkfifo "feed.$way.$left"
      "$front" run "${places[@]}" -o on-launcher-lost=go-on -o input.when-left="$left" -n 2 sh -c "$reading" <"feed.$way.$left" >out 2>err &
      launcher=$!
      exec {feed}>"feed.$way.$left"
      echo one >&"$feed"
      wait_until has out '1 got one'
      wait_until listed
      id=$("$front" jobs -q)
      kill -KILL "$launcher"
      wait "$launcher" || :
      exec {feed}>&-
      if [ "$left" = open ]; then
        echo two >in
        run -1 --separate-stderr "$front" attach --input "$id" <in
        [[ $output == *"1 got two"* ]]
      fi
      run -1 "$front" wait "$id"
    done
  done
  id=$("$front" run "${places[@]}" -d -o input.when-left=end -n 2 cat)
  run -0 "$front" wait "$id"
}

# bats test_tags=root
@test "another user cannot have it" {
  needs_root "to become another user"
  front=$(copy_for_all "$NACRE_BUILD_DIR/nacre")
  left_open here sh -c "$reading"
  run -1 as_nobody "$front" attach --input=take "$id" <<<stolen
  [[ $output == *"no such job"* ]]
  socket=$("$front" jobs --json | jq -r .address)
  nobody_is_refused "$socket" '{"id":1,"do":"input","take":true}'
  echo mine >in
  run -0 --separate-stderr "$front" attach --input "$id" <in
  [ "$output" = $'0 got mine\n0 over' ]
}

# Starts, on a terminal, a job that notes SIGINT, and its owner, whose process id is in shell.pid.
own_at_terminal() {
  printf '#!/bin/bash\ntrap "echo noted" INT\nwhile :; do read -r line; code=$?; [ -z "$line" ] || echo "got $line"; [ $code -ne 1 ] || break; done\necho over\n' >task
  chmod +x task
  left_open here ./task
  printf '#!/bin/sh\necho $$ >shell.pid\nexec env NACRE_JOBS_DIR=%q %q attach --input %q\n' "$NACRE_JOBS_DIR" "$front" "$id" >job
  chmod +x job
  open_terminal
  types ./job
  keys 'hello' Enter
  sees '^got hello'
}

# bats test_tags=long
@test "on a terminal: Ctrl-C is passed on, Ctrl-Z then leaves, Ctrl-Z alone stops, Ctrl-D is the end" {
  own_at_terminal
  keys C-c C-z
  sees "left job $id, which goes on"
  await gone "$(<shell.pid)"
  types ./job
  sees '^noted'
  keys again Enter
  sees '^got again'
  keys C-z
  await state_is_stopped "$(<shell.pid)"
  keys fg Enter
  await in_front "$(<shell.pid)"
  keys more Enter
  sees '^got more'
  keys C-d
  await gone "$(<shell.pid)"
  keys 'echo code $?' Enter
  sees 'code 0'
  as_before
}

state_is_stopped() { [ "$(ps -o state= -p "$1")" = T ]; }
interrupted() { keys C-c; gone "$(<shell.pid)"; } # a third one kills

# bats test_tags=long
@test "on a terminal: Ctrl-C twice ends the job" {
  own_at_terminal
  keys C-c
  sees 'interrupt: passed on to the task that runs; a second one within'
  await interrupted
  run -143 "$front" wait "$id"
}
