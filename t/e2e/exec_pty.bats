#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre exec --pty: a command beside a job, on a terminal.
load terminals.bash

on_terminal() { verb_there exec --pty "$@"; }

end_job() {
  "$front" kill last
  ends_with 143
  nothing_left 'sleep 7658[34]'
}

@test "bash has job control, its terminal is the controlling one, and its exit code is that of nacre exec" {
  start_job 1 2 'exec sleep 76583'
  on_terminal --env=PS1='inner> ' bash --norc --noprofile -i
  sees '^inner>'
  await raw
  keys 'tty </dev/tty && ps -o sid= -p $$ | tr -d " " >sid; echo $$ >bash.pid; echo $TERM $FLUX_JOB_SIZE' Enter
  sees '^/dev/tty'
  sees '^screen 2$'
  [ "$(<sid)" = "$(<bash.pid)" ]
  bash=$(<bash.pid)
  controls_jobs "$bash"
  keys cat Enter
  await pgrep -P "$bash" -x cat
  keys C-\\
  sees 'Quit'
  keys 'exit 7' Enter
  sees '^outer>$'
  exits_with 7
  end_job
}

@test "vi and top: keys, screens, and the size of the window" {
  start_job 1 1 'exec sleep 76583'
  on_terminal vi -u NONE -N -n -i NONE edited # a name of its own, as e2e.pty runs beside
  sees '^~'
  keys 'ione' Enter 'two'
  sees 'INSERT'
  keys Escape
  await hides INSERT
  screen resize-window -x 60 -y 12
  there=/proc/$(pgrep -x -f 'vi -u NONE -N -n -i NONE edited')/fd/0
  has_size() { [ "$(stty size <"$there")" = "12 60" ]; }
  await has_size
  sees '^ *$' # it has been redrawn
  keys ':set lines? columns?' Enter
  sees 'lines=12 +columns=60|lines=12'
  keys Enter ':wq' Enter
  sees '^outer>$'
  exits_with 0
  [ "$(<edited)" = $'one\ntwo' ]
  close_terminal
  on_terminal top -d 0.2
  sees 'load average'
  sees 'PID +USER'
  keys q
  sees 'outer>$'
  exits_with 0
  end_job
}

@test "one shell of several: by rank, host and shell; on the leader, an inner shell and a leaf" {
  start_job 4 1 'exec sleep 76583' --arity=2
  for shell in 0 1 3; do
    on_terminal -r "$shell" sh -c 'stty size; trap "stty size" WINCH; echo up $FLUX_TASK_RANK; until read -r line; do :; done; echo "got $line"; exit 5'
    sees "^up $shell"
    sees '^24 80'
    screen resize-window -x 100 -y 30
    sees '^30 100'
    keys "text" Enter
    sees '^got text'
    sees '^outer>$'
    exits_with 5
    close_terminal
  done
  on_terminal -w node2 sh -c 'echo on $FLUX_TASK_RANK.; exit 3'
  sees '^on \.'
  exits_with 3
  keys 'clear' Enter
  end_job
}

@test "much output comes out whole, and all before the end" {
  start_job 2 1 'exec sleep 76583'
  on_terminal -r 1 seq 15000
  sees '^15000$'
  sees '^outer>$'
  [ "$(shown | grep -E '^[0-9]+$')" = "$(seq 15000)" ]
  end_job
}

@test "what is typed before the command has started comes to it" {
  start_job 2 1 'exec sleep 76583'
  shell=$("$front" ps --json | jq -r 'select(.rank == 1).pid' | xargs ps -o ppid= -p | tr -d ' ')
  kill -STOP "$shell"
  on_terminal -r 1 sh -c 'read -r a; echo "got $a"; exit 4'
  await raw
  keys 'early' Enter
  sleep 0.3 # they have been read
  kill -CONT "$shell"
  sees '^got early'
  exits_with 4
  end_job
}

@test "~. at the beginning of a line leaves, and the command is hung up; ~~ is a ~" {
  start_job 2 1 'exec sleep 76583'
  on_terminal -r 1 sh -c 'trap "echo hup >hup; exit" HUP; read -r a; echo "got $a"; read -r b; echo "got $b"; sleep 76584'
  await raw
  keys '~~x' Enter
  sees '^got ~x'
  keys 'y~.' Enter
  sees '^got y~\.'
  await pgrep -x -f 'sleep 76584'
  keys '~.'
  sees '^nacre exec: left; the command is being ended'
  exits_with 129
  await test -s hup
  nothing_left 'sleep 7658[4]'
  end_job
}

@test "~. leaves also where the command takes no keys, and where the leader is stopped" {
  start_job 2 1 'exec sleep 76583'
  on_terminal -r 1 sh -c 'stty raw -echo; echo up; sleep 76584'
  sees '^up'
  head -c 30000 /dev/zero | tr '\0' x >text
  screen load-buffer text
  screen paste-buffer -r
  keys Enter '~.'
  exits_with 129
  nothing_left 'sleep 7658[4]'
  close_terminal
  on_terminal -r 1 sh -c 'echo up; sleep 76584'
  sees '^up'
  kill -STOP "$(<leader)"
  keys Enter '~.'
  exits_with 129
  kill -CONT "$(<leader)"
  nothing_left 'sleep 7658[4]'
  end_job
}

@test "signals to nacre exec: the terminal is as before, and nothing is left" {
  start_job 2 1 'exec sleep 76583'
  on_terminal -r 1 sh -c 'sleep 76584 & echo up; sleep 76584'
  for signal in TERM HUP QUIT INT; do
    await raw
    sees '^up'
    kill "-$signal" "$(<shell.pid)"
    await gone "$(<shell.pid)"
    exits_with $((128 + $(kill -l "$signal")))
    nothing_left 'sleep 7658[4]'
    keys clear Enter
    await cleared
    types ./client
  done
  sees '^up'
  await guard
  guard=$(guard)
  kill -KILL "$(<shell.pid)"
  await as_before
  await gone "$guard"
  nothing_left 'sleep 7658[4]'
  end_job
}

@test "what takes no SIGHUP is killed, after kill-timeout" {
  start_job 2 1 'exec sleep 76583' -o kill-timeout=0.3s
  on_terminal -r 1 sh -c 'trap "" HUP TERM; echo up; sleep 76584; sleep 76584'
  sees '^up'
  kill -KILL "$(<shell.pid)"
  await as_before
  nothing_left 'sleep 7658[4]'
  end_job
}

@test "the terminal goes away: the command is hung up" {
  start_job 2 1 'exec sleep 76583'
  on_terminal -r 1 sh -c 'trap "echo hup >hup; exit" HUP; echo $$ >task.pid; while :; do sleep 0.1; done'
  await raw
  await test -s task.pid
  screen kill-session
  await test -s hup
  await gone "$(<shell.pid)"
  await gone "$(<task.pid)"
  end_job
}

@test "nacre exec stopped from outside gives the terminal back, and takes it again" {
  start_job 1 1 'exec sleep 76583'
  on_terminal sh -c 'while read -r line; do echo "got $line"; done'
  await raw
  kill -TSTP "$(<shell.pid)"
  await as_before
  sees 'outer>$'
  keys fg Enter
  await raw
  keys again Enter
  sees '^got again'
  keys C-d
  exits_with 0
  end_job
}

@test "the job ends: the command is hung up with it, and the terminal is as before" {
  start_job 2 1 'exec sleep 76583'
  on_terminal -r 1 sh -c 'echo up; exec sleep 76584'
  sees '^up'
  "$front" kill last
  ends_with 143
  sees '^nacre exec: node1: killed by SIGHUP'
  exits_with 129
  nothing_left 'sleep 7658[34]'
}

@test "the leader is killed: one line, and the terminal is as before" {
  start_job 2 1 'exec sleep 76583'
  on_terminal -r 1 sleep 76584
  await raw
  kill -KILL "$(<leader)"
  sees '^nacre exec: the leader has gone, and what was started with it'
  exits_with 1
  wait "$launcher" || :
  nothing_left 'sleep 7658[34]'
}

@test "a viewer that takes nothing: the command waits, the job goes on, and little is held" {
  start_job 2 1 'exec sleep 76583'
  on_terminal -r 1 sh -c 'echo up; i=0; while :; do echo line $i; i=$((i + 1)); echo $i >count; done'
  sees '^up'
  await raw
  before=$(awk '/VmRSS/ {print $2}' "/proc/$(<leader)/status")
  kill -STOP "$(<shell.pid)"
  waits() { local had; had=$(<count); sleep 0.5; [ "$had" = "$(<count)" ]; }
  await waits
  after=$(awk '/VmRSS/ {print $2}' "/proc/$(<leader)/status")
  echo "leader: $before kB, then $after kB"
  [ $((after - before)) -lt 40000 ] # of which the sanitizers have most
  [ "$("$front" exec -r 1 echo a)" = a ]
  into_front
  await raw
  keys C-c
  exits_with 130
  end_job
}

@test "what is wrong is refused" {
  start_job 2 2 'exec sleep 76583'
  run --separate-stderr "$front" exec --pty -r 0 true </dev/null
  [ "$status" -eq 1 ]
  [ "$stderr" = "nacre exec: --pty: standard input or output is not a terminal" ]
  for wrong in "-r 0-1 true" "-w node[0-1] true" "--shells=0,1 true" "-i -r 0 true" "-d -r 0 true" "-b -r 0 true" "--json -r 0 true" "-k -r 0 true"; do
    # shellcheck disable=SC2086
    run "$front" exec --pty $wrong </dev/null
    [ "$status" -eq 2 ]
  done
  on_terminal true
  sees '^nacre exec: --pty: a terminal is that of one command: name one rank'
  exits_with 2
  close_terminal
  on_terminal -w node7 true
  sees "the job does not run on 'node7'"
  exits_with 1
  close_terminal
  on_terminal -r 2 no-such-command
  sees '^nacre exec: node1: no-such-command: No such file or directory'
  exits_with 127
  end_job
}
