#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Tasks with terminals, viewers that have joined these, and commands beside the tasks, when the shell that leads the
# job is lost.
load terminals.bash
load replace.bash

places=(--local=5 -N 4+1 -n 4 -o cpu-affinity=off)

# Each task says which terminal it has, answers lines with the size, and exits with 5 at "finish".
answers='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}"; echo "up $FLUX_TASK_RANK $(tty | cut -c-9)"
  while read -r line; do [ "$line" = finish ] && exit 5; echo "got $line $(stty size)"; done'

attach_there() { verb_there attach "$@"; }
lose_leader() {
  lose 0 1
  wait_until grep -q "leads it now" err
}
answers_in() { # SIZE: the terminal that is joined
  keys "at $1" Enter
  sees "^got at $1 $1"
}

@test "tasks go on with their terminals, and that of the lost shell gets a new one; all have input and sizes by nacre attach" {
  local rank
  start_run "${places[@]}" -o exit-timeout=none --pty=all sh -c "$answers"
  await_try 1 0 1 2 3
  lose_leader
  await_try 2 0
  for rank in 0 3; do
    attach_there "--pty=$rank"
    sees "^up $rank /dev/pts/"
    await raw
    answers_in "24 80"
    screen resize-window -x 100 -y 30
    keys 'until stty size | grep -q "^30 100"; do sleep 0.1; done' Enter
    answers_in "30 100"
    keys finish Enter
    sees "^nacre attach: task $rank has ended: exited with code 5"
    keys C-c
    exits_with 0
    close_terminal
  done
  for rank in 1 2; do
    attach_there "--pty=$rank"
    await raw
    keys finish Enter
    sees "^nacre attach: task $rank has ended: exited with code 5"
    close_terminal
  done
  ends_with 5
  [ "$(tr -d '\r' <out | grep -c '^0: up 0 /dev/pts/')" -eq 2 ] || { cat out; return 1; }
  for rank in 0 3; do [ "$(tr -d '\r' <out | grep -c "^$rank: got at 24 80 24 80")" -eq 1 ] || { cat out; return 1; }; done
  nothing_left "^nacre-shell: $id"
}

@test "who has joined a terminal joins it again under the next leader, and nobody else is there" {
  start_run "${places[@]}" -o exit-timeout=none --pty=2-3 sh -c "$answers"
  await_try 1 2 3
  attach_there --pty
  sees "^up 2 /dev/pts/"
  await raw
  answers_in "24 80"
  lose_leader
  sees "^nacre attach: job $id: the link to its leader has ended"
  await raw
  screen resize-window -x 100 -y 30 # the size is the smallest of all that have joined it
  keys 'wider' Enter
  sees '^got wider 30 100'
  keys finish Enter
  sees "^nacre attach: task 2 has ended: exited with code 5"
  keys C-c
  exits_with 0
  "$front" kill last
  ends_with 143
}

@test "what nacre exec has started elsewhere ends with the leader, and what goes on alone does not" {
  start_run "${places[@]}" sh -c "$until_go"
  await_try 1 0 1 2 3
  "$front" exec --shells=2 sh -c 'echo $$ >watched; exec sleep 600' 2>said &
  exec=$!
  wait_until test -s watched
  "$front" exec --detach --shells=2 sh -c 'echo $$ >alone; exec sleep 600'
  wait_until test -s alone
  "$front" exec --shells=2 true # comes after all earlier messages to the shell
  lose_leader
  wait "$exec" && code=0 || code=$?
  [ "$code" -ne 0 ]
  has_ended() { ! kill -0 "$(<watched)"; }
  wait_until has_ended
  kill -0 "$(<alone)"
  touch go
  ends_with 0
  nothing_left "^nacre-shell: $id"
}
