#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre top: on a terminal (tmux), and without one.
load pty.bash
load control.bash
eval "control_$(declare -f teardown)"

teardown() {
  tmux -S "$work/tmux" kill-server 2>/dev/null || true
  control_teardown
}

# Starts the job of start_job, and nacre top with the given options on a terminal, whose shell's process id is in
# the file shell.pid.
start_top() {
  printf '#!/bin/sh\necho $$ >shell.pid\nexport NACRE_JOBS_DIR=%q\nexec %q top' "$NACRE_JOBS_DIR" "$front" >job
  printf ' %q' "$@" "$id" >>job
  chmod +x job
  open_terminal
  types ./job
  sees "^nacre top: $id "
}

now() { screen capture-pane -p; }
row() { now | sed -n "$1p"; } # from 1
row_begins() { [[ $(row "$1") == "$2"* ]]; }
row_is() { [ "$(row "$1")" = "$2" ]; }
state_is() { [ "$(ps -o state= -p "$1")" = "$2" ]; }
now_shows() { now | grep -qE -- "$1"; }
now_hides() { ! now_shows "$1"; }
selected() { # the first word of the line that is reversed
  screen capture-pane -p -e | grep -E $'\e\\[(0;)?7m' | sed 's/\x1b\[[0-9;]*m//g' | awk '{ print $1 }'
}
is_selected() { [ "$(selected)" = "$1" ]; }

@test "a row for each node; keys move, show the tasks of a node, go back and leave" {
  start_job 3 2 'exec sleep 600'
  wait_until all_sleep
  start_top
  await now_shows '^node2 +2 '
  [[ $(row 1) =~ ^"nacre top: $id sh  running  ".*"  3 nodes" ]]
  [[ $(row 2) == "tasks 6: 6 running, 0 failed, 0 ended  cpu "* ]]
  [[ $(row 3) =~ ^HOST\ +TASKS\ +CPU%\ +RSS\ +LATE ]]
  await row_begins 24 "enter: tasks  s: by HOST  d: every 2 s  q: quit"
  await is_selected node0
  keys j
  await is_selected node1
  keys Down
  await is_selected node2
  keys k
  await is_selected node1
  keys Up
  await is_selected node0
  keys Down Enter
  await now_shows '^ *RANK +HOST +PID +ST +TIME +CPU% +RSS +CMD'
  [[ $(row 4) =~ ^\ +2\ node1\ +[0-9]+\ S\ .*\ sleep ]]
  [[ $(row 5) =~ ^\ +3\ node1\  ]]
  await row_begins 24 "tasks of node1, q: nodes"
  keys q
  await is_selected node1
  keys q
  await gone "$(<shell.pid)"
  sees 'outer>'
  as_before
  keys 'echo code $?' Enter
  sees 'code 0'
  stop_job
}

# bats test_tags=long
@test "s sorts, d asks for the time, and other keys tell which there are" {
  start_job 2 1 '[ $FLUX_TASK_RANK = 0 ] && exec sleep 600; while :; do :; done'
  start_top -d 0.5
  await now_shows 'd: every 0.5 s'
  [[ $(row 4) == node0* ]]
  keys s
  await now_shows 's: by CPU%'
  await now_shows '^node1 +1 +[1-9]'
  await row_begins 4 node1
  keys x
  await now_shows '^keys: j k arrows'
  keys d 9 9 9 9 Enter
  await now_shows "'9999': expected 0.1 to 3600 seconds"
  keys d 0 . 2 Enter
  await now_shows 'd: every 0.2 s'
  keys d 5 Escape
  await now_shows 'd: every 0.2 s'
  keys C-c
  await gone "$(<shell.pid)"
  as_before
  keys 'echo code $?' Enter
  sees 'code 130'
  stop_job
}

# bats test_tags=long
@test "the terminal may be of any size, and change it" {
  start_job 9 1 'exec sleep 600'
  start_top -d 0.5
  await now_shows '^node8 '
  screen resize-window -x 30 -y 8
  await now_shows '^enter: tasks'
  await now_hides '^node4 '
  keys End
  await is_selected node8
  await now_shows '^node5 '
  screen resize-window -x 10 -y 3
  await row_is 1 "nacre top:"
  screen resize-window -x 2 -y 2
  await row_is 1 na
  screen resize-window -x 120 -y 40
  await is_selected node8
  await now_shows '^node0 '
  await row_begins 40 "enter: tasks"
  keys q
  await gone "$(<shell.pid)"
  stop_job
}

# bats test_tags=long
@test "Ctrl-Z gives the terminal back, and fg goes on" {
  start_job 2 1 'exec sleep 600'
  start_top -d 0.5
  pid=$(<shell.pid)
  await now_shows '^node1 '
  keys C-z
  await state_is "$pid" T
  await as_before
  await now_shows 'outer>'
  keys fg Enter
  await now_shows '^node1 '
  keys q
  await gone "$pid"
  as_before
  stop_job
}

# bats test_tags=long
@test "the end of the job ends it, with the job's code in the last line" {
  start_job 2 1 'while [ ! -e go ]; do sleep 0.2; done; exit 7'
  start_top
  touch go
  sees "^job $id has ended with exit code 7$"
  await gone "$(<shell.pid)"
  as_before
  keys 'echo code $?' Enter
  sees 'code 0'
  ends_with 7
}

# bats test_tags=long
@test "a leader that is killed, and one that stands still" {
  start_job 2 1 'exec sleep 600'
  start_top -d 0.5
  await now_shows '^node1 '
  kill -STOP "$(<leader)"
  await now_shows '^the leader has not answered for'
  keys j
  await is_selected node1
  kill -CONT "$(<leader)"
  await now_hides 'has not answered'
  kill -KILL "$(<leader)"
  sees "^job $id has ended with exit code 137: .*its leader has gone"
  await gone "$(<shell.pid)"
  as_before
  wait "$launcher" || :
}

# bats test_tags=long
@test "a shell that stands still is late, and its tasks stay" {
  start_job 2 1 'exec sleep 600'
  wait_until pgrep -fx "nacre-shell: $id (rank )?1/2 *"
  other=$(pgrep -fx "nacre-shell: $id (rank )?1/2 *")
  start_top -d 0.5
  await now_shows '^node1 +1 .* -$'
  kill -STOP "$other"
  await now_shows '^node1 +1 .*s$'
  [[ $(row 2) == *"  late: node1" ]]
  keys j
  await is_selected node1
  kill -CONT "$other"
  await now_shows '^node1 +1 .* -$'
  keys q
  await gone "$(<shell.pid)"
  stop_job
}

# bats test_tags=long
@test "a terminal that is closed ends it, and not the job" {
  start_job 2 1 'exec sleep 600'
  start_top
  await now_shows '^node1 '
  pid=$(<shell.pid)
  screen kill-server
  wait_until gone "$pid"
  [ "$("$front" jobs -q)" = "$id" ]
  stop_job
}

# bats test_tags=long
@test "a terminal that nobody knows, and one without colours" {
  start_job 1 1 'exec sleep 600'
  start_top
  keys q
  await gone "$(<shell.pid)"
  keys 'clear; TERM=nothing ./job' Enter
  sees 'nacre top: TERM=nothing: no such kind of terminal is known here'
  keys 'clear; TERM=vt100 LANG=C ./job' Enter
  await now_shows '^node0 '
  keys q
  await gone "$(<shell.pid)"
  as_before
  stop_job
}

# bats test_tags=long
@test "without a terminal: one table, or as many as are asked for" {
  start_job 2 2 'exec sleep 600'
  wait_until all_sleep
  run --separate-stderr "$front" top
  [ "$status" -eq 0 ]
  [ -z "$stderr" ]
  [ "${#lines[@]}" -eq 5 ]
  [[ ${lines[0]} == "nacre top: $id sh  running  "* ]]
  [[ ${lines[4]} =~ ^node1\ +2\  ]]
  run "$front" top --tasks --once "$id"
  [ "${#lines[@]}" -eq 7 ]
  [[ ${lines[6]} =~ ^\ +3\ node1\ .*\ sleep$ ]]
  [ "$("$front" top -n 3 -d 0.1 | grep -c '^HOST')" -eq 3 ]
  run "$front" top -d 0
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == *"--delay: '0': expected 0.1 to 3600 seconds" ]]
  run "$front" top -n 0
  [ "$status" -eq 2 ]
  kill -STOP "$(<leader)"
  run "$front" top
  kill -CONT "$(<leader)"
  fails_with 1 "nacre top: job $id: its leader, process $(<leader)" "does not answer within 5 s"
  stop_job
  run "$front" top "$id"
  fails_with 1 "nacre top: job $id has ended; \`nacre report $id\` prints how"
}

# bats test_tags=long
@test "--json: a line for each look, and one for the end" {
  start_job 2 1 'while [ ! -e go ]; do :; done; exit 3'
  [ "$("$front" top --json --once | jq -c '[.id, .ntasks, .running, .failed, [.nodes[].host], .tasks]')" = \
    "[\"$id\",2,2,0,[\"node0\",\"node1\"],null]" ]
  [ "$("$front" top --json --tasks -n 2 -d 0.3 | jq -sc 'map(.tasks | map(.rank))')" = '[[0,1],[0,1]]' ]
  "$front" top --json -d 0.1 >lines &
  waiting=$!
  lines_come lines 3
  touch go
  wait "$waiting"
  [ "$(tail -n 1 lines | jq -c '[.id, .state, .code]')" = "[\"$id\",\"ended\",3]" ]
  ends_with 3
}

# bats test_tags=long
@test "a reader that goes away ends it" {
  start_job 1 1 'exec sleep 600'
  "$front" top --json -d 0.1 2>said | head -n 1
  [ "${PIPESTATUS[0]}" -eq 141 ]
  [ ! -s said ] || { cat said; return 1; }
  stop_job
}

@test "ncurses is loaded only on a terminal" {
  start_job 1 1 'exec sleep 600'
  LD_DEBUG=files run "$front" top
  [ "$status" -eq 0 ]
  [[ $output != *ncurses* ]]
  stop_job
}
