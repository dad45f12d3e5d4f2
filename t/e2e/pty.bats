#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Tasks on terminals of their own.
load pty.bash

# ---- captured --------------------------------------------------------------------

@test "each task has a terminal, and what it writes there comes out as its stdout would" {
  prepare 4 sh -c '[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && : >/dev/tty && echo "out $FLUX_TASK_RANK"; echo err >&2'
  nacre -o pty -o label-io >out 2>err </dev/null
  [ ! -s err ]
  for rank in 0 1 2 3; do
    [ "$(grep "^$rank: " out | tr -d '\r')" = "$rank: out $rank"$'\n'"$rank: err" ]
  done
  [ "$(wc -l <out)" -eq 8 ]
}

@test "pty.ranks says which tasks" {
  prepare 4 sh -c '[ -t 1 ] && echo "$FLUX_TASK_RANK"'
  run --separate-stderr nacre -o pty.ranks=1-2 </dev/null
  [ "$(tr -d '\r' <<<"$output" | sort | tr -d '\n')" = 12 ]
}

@test "much output of several terminals comes out whole" {
  prepare 4 sh -c 'for i in $(seq 3000); do echo "$FLUX_TASK_RANK $i"; done'
  nacre -o pty.ranks=0-3 >out </dev/null
  for rank in 0 1 2 3; do
    [ "$(tr -d '\r' <out | grep "^$rank " | cut -d' ' -f2)" = "$(seq 3000)" ]
  done
}

@test "what is not captured is not seen, and stops no task" {
  prepare 2 sh -c 'seq 20000; touch done.$FLUX_TASK_RANK'
  run nacre -o pty.capture=false </dev/null
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  [ -e done.0 ] && [ -e done.1 ]
}

@test "interactive is refused where there is no terminal" {
  prepare 1 touch ran
  run nacre -o pty.interactive </dev/null
  fails_with 1 "pty.interactive: standard input or output is not a terminal"
  [ ! -e ran ]
}

# ---- interactive: programs -------------------------------------------------------

@test "bash has job control: stop, continue, interrupt" {
  start bash --norc --noprofile -i
  sees '^inner>'
  keys 'echo $$ >bash.pid' Enter
  await test -s bash.pid
  controls_jobs "$(cat bash.pid)"
  keys 'exit 7' Enter
  sees '^outer>$'
  as_before
  keys 'echo code=$((1000 + $?))' Enter
  sees '^code=1007'
}

# bats test_tags=long
@test "python's prompt edits lines, has a history, and takes interrupts" {
  start python3 -q
  sees '^>>>'
  keys 'print(6*77)' BSpace BSpace ')' Enter
  sees '^42$'
  keys Up Enter
  await bash -c '[ "$(tmux -S tmux capture-pane -p | grep -c "^42$")" = 2 ]'
  keys C-c
  sees '^KeyboardInterrupt'
  keys C-d
  sees '^outer>$'
  as_before
}

# Compares the screens of one program with the same keys: on the terminal itself, and as a task.
# bats test_tags=long
@test "vi edits a file, and its screens are those of vi without a job" {
  vi_session() { # COMMAND NAME
    keys "$1; echo $2=\$((1 + 1))" Enter
    sees '^~'
    keys 'ione' Enter 'two' Enter 'three'
    sees 'three'
    sees 'INSERT'
    screen capture-pane -p -e >"$2.insert"
    keys Escape
    await hides INSERT
    keys 'kddGp:set nu' Enter
    sees '^ +3 two'
    keys '0'
    screen capture-pane -p -e >"$2.end"
    keys ':wq' Enter
    sees "$2=2"
  }
  mkdir direct
  cwd=$work prepare 1 vi -u NONE -N -n -i NONE text
  write_job -o pty.interactive
  open_terminal
  keys "cd direct; clear" Enter
  vi_session "vi -u NONE -N -n -i NONE text" direct
  keys "cd ..; clear" Enter
  vi_session ./job job
  as_before
  [ "$(cat text)" = $'one\nthree\ntwo' ]
  cmp text direct/text
  for screen in insert end; do
    diff "direct.$screen" "job.$screen"
  done
}

# bats test_tags=long
@test "top runs until q" {
  start top -d 0.2
  sees 'load average'
  sees 'PID +USER'
  keys q
  sees 'outer>$'
  as_before
}

# bats test_tags=long
@test "all that a task writes comes out before the end" {
  start seq 5000
  sees '^outer>$'
  [ "$(shown | grep -E '^[0-9]+$')" = "$(seq 5000)" ]
  as_before
}

# bats test_tags=long
@test "a change of the window's size reaches the task" {
  start sh -c 'stty size; trap "stty size" WINCH; echo up; while :; do sleep 0.1; done'
  sees '^up'
  sees '^24 80'
  screen resize-window -x 100 -y 30
  sees '^30 100'
  keys C-c
  sees 'outer>$'
}

# bats test_tags=long
@test "erase is the key that it is on the terminal outside" {
  open_terminal
  keys 'stty erase ^G' Enter
  environment='{"PATH": "/usr/bin:/bin"}' prepare 1 sh -c 'read -r line; echo "got $line"; echo $TERM'
  write_job -o pty.interactive
  types ./job
  await raw
  keys abd C-g c Enter
  sees '^got abc'
  sees '^screen'
}

# bats test_tags=long
@test "log lines begin at the left" {
  environment='{"PATH": "/usr/bin:/bin"}' prepare 1 sh -c 'echo first; exit 3'
  write_job -o pty.interactive -v
  open_terminal
  types ./job
  sees '^nacre-shell.0.: debug: task 0 exited with code 3$'
  sees '^outer>$'
}

# ---- interactive: ends -----------------------------------------------------------

@test "SIGTERM and SIGHUP to the shell: the task ends, and the terminal is as before" {
  start sleep 1000
  for signal in TERM HUP; do
    await raw
    kill "-$signal" "$(cat shell.pid)"
    await as_before
    await gone "$(cat shell.pid)"
    rm shell.pid
    types ./job
    await test -s shell.pid
  done
  await raw
  keys C-c
  await as_before
}

# bats test_tags=long
@test "SIGKILL to the shell: the terminal is as before, the task is hung up, and nothing is left" {
  start sh -c 'trap "echo hup >hup; exit" HUP; echo $$ >task.pid; while :; do sleep 0.1; done'
  await raw
  await test -s task.pid
  await guard
  guard=$(guard)
  kill -KILL "$(cat shell.pid)"
  await as_before
  await test -s hup
  await gone "$(cat task.pid)"
  await gone "$guard"
}

# bats test_tags=long
@test "settings that somebody else has made after a SIGKILL stay" {
  start sleep 1000
  await raw
  await guard
  guard=$(guard)
  kill -STOP "$guard"
  kill -KILL "$(cat shell.pid)"
  await gone "$(cat shell.pid)"
  stty -F "$tty" sane -echo
  stty -a -F "$tty" >modes
  kill -CONT "$guard"
  await gone "$guard"
  as_before
}

# bats test_tags=long
@test "a job that is ended for an error gives the terminal back" {
  environment='{"PATH": "/usr/bin:/bin"}' prepare 2 sh -c '[ $FLUX_TASK_RANK = 1 ] && { until [ -e go ]; do sleep 0.2; done; exit 9; }; sleep 1000'
  write_job -o pty.interactive -o exit-on-error
  open_terminal
  types ./job
  await raw
  touch go
  sees 'task 1 on node0 exited with code 9'
  await as_before
  sees '^outer>$'
}

@test "a task that does not exist leaves the terminal alone" {
  start no-such-program
  sees 'no-such-program: No such file or directory'
  sees '^outer>$'
  as_before
}

@test "a terminal that goes away ends the task and the job" {
  start sh -c 'trap "echo hup >hup; exit" HUP; touch ready; while :; do sleep 0.1; done'
  await raw
  await test -e ready
  await guard
  guard=$(guard)
  screen kill-session
  await test -s hup
  await gone "$(cat shell.pid)"
  await gone "$guard"
}

# bats test_tags=long
@test "a stopped shell gives the terminal back, and takes it again" {
  start sh -c 'while read -r line; do echo "got $line"; done'
  await raw
  kill -TSTP "$(cat shell.pid)"
  await as_before
  sees 'outer>$'
  keys fg Enter
  await raw
  keys again Enter
  sees '^got again'
  kill -STOP "$(cat shell.pid)" # the shell cannot notice this before
  sees 'Stopped .signal.*'
  stty -F "$tty" sane
  keys fg Enter
  await raw
  keys once more Enter
  sees '^got once'
  keys C-d
  await as_before
}

# bats test_tags=long
@test "what is on the screen goes to a file as well with pty.capture" {
  environment='{"PATH": "/usr/bin:/bin"}' prepare 1 sh -c 'read -r line; echo "got $line"'
  write_job -o pty.interactive -o pty.capture -o output.stdout.type=file -o output.stdout.path=typescript
  open_terminal
  types ./job
  await raw
  keys hello Enter
  sees '^got hello'
  sees '^outer>$'
  [ "$(tr -d '\r' <typescript)" = $'hello\ngot hello' ]
}

# bats test_tags=long
@test "a process that is left behind on the terminal does not hold it" {
  start bash --norc --noprofile -i
  sees '^inner>'
  keys 'sleep 1000 & echo $! >left.pid' Enter
  await test -s left.pid
  keys exit Enter
  await gone "$(cat shell.pid)"
  as_before
  gone "$(cat left.pid)"
}

# bats test_tags=long
@test "much that is pasted arrives whole at a task that is slow to read" {
  start sh -c 'stty raw -echo; until [ -e go ]; do sleep 0.1; done; head -c 300000 >pasted; stty sane; echo all of it'
  seq -w 0 59999 | tr -d '\n' >text
  await raw
  screen load-buffer text
  screen paste-buffer -r
  touch go
  sees '^all of it'
  cmp text pasted
}

@test "a plan can be printed where there is no terminal" {
  prepare 1 true
  run nacre --explain -o pty.interactive </dev/null
  [ "$status" -eq 0 ]
  [[ $output == *pty* ]]
}
