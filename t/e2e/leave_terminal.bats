#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Ctrl-C and then Ctrl-Z leave a job, which goes on.
load pty.bash
load detached.bash

# Each terminal has a server of its own, as one that ends still has its socket.
screen() { tmux -S "$work/tmux.$way" "$@"; }

# On a terminal: a job of two tasks that note each SIGINT and go on.
start_job_at_terminal() { # way, options
  places_of "$1"
  nacre=("$front" run "${places[@]}" -n 2 "${@:2}")
  printf '#!/bin/bash\ntrap "echo noted" INT\necho "early $FLUX_TASK_RANK"\nuntil test -e go; do sleep 0.2; done\necho "late $FLUX_TASK_RANK"\nexit 5\n' >task
  chmod +x task
  write_job ./task
  sed -i "1a export NACRE_JOBS_DIR=$NACRE_JOBS_DIR" job
  open_terminal
  types ./job
  sees 'early 0'
  sees 'early 1'
  await listed
  id=$("$front" jobs -q)
}

@test "Ctrl-C and Ctrl-Z: the line, the prompt, and a job that goes on without the terminal" {
  for way in here local agent; do
    rm -f go
    start_job_at_terminal "$way"
    keys C-c C-z # at once: Ctrl-Z leaves the job for 2 s only
    sees 'ends the job, and Ctrl-Z leaves it'
    sees "left job $id, which goes on"
    await gone "$(<shell.pid)"
    keys 'echo code $?' Enter
    sees 'code 0'
    as_before
    [ "$("$front" jobs -q)" = "$id" ]
    screen kill-server
    touch go
    run -5 "$front" wait "$id"
    run -5 --separate-stderr "$front" attach "$id"
    [ "$(grep late <<<"$output" | sort)" = $'late 0\nlate 1' ] || { echo "$output"; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

state_is_stopped() { [ "$(ps -o state= -p "$1")" = T ]; }

# bats test_tags=long
@test "Ctrl-Z alone stops, as ever" {
  for way in here local; do
    rm -f go
    start_job_at_terminal "$way"
    keys C-z
    await state_is_stopped "$(<shell.pid)"
    keys fg Enter
    await in_front "$(<shell.pid)"
    touch go
    await gone "$(<shell.pid)"
    screen kill-server
  done
}

twice() { [ "$(shown | grep -c -- "$1")" -ge 2 ]; }

@test "a job in the background goes on while others have the terminal, and has its input in the foreground" {
  for way in here local; do
    places_of "$way"
    nacre=("$front" run "${places[@]}")
    write_job cat
    sed -i "1a export NACRE_JOBS_DIR=$NACRE_JOBS_DIR" job
    open_terminal
    keys './job &' Enter
    await listed
    id=$("$front" jobs -q)
    keys 'sleep 2' Enter # which leaves the input to other readers of the terminal
    keys 'echo no$((1 + 1)) input' Enter
    sees 'no2 input'
    run state_is_stopped "$(<shell.pid)"
    [ "$status" -ne 0 ]
    keys fg Enter
    await in_front "$(<shell.pid)"
    keys 'for the task' Enter
    await twice '^for the task' # once as it is typed, once from the task
    keys C-d
    await gone "$(<shell.pid)"
    keys 'echo code $?' Enter
    sees 'code 0'
    screen kill-server
    nothing_left "^nacre-shell: $id"
  done
}
