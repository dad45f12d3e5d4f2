#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre launch on a terminal: Ctrl-Z, and a terminal that is closed.
load pty.bash
load nodes.bash

# The job on the terminal: two shells on this host, each with a task that leaves its process id in pid.RANK.
start_two() {
  write_jobspec 2 sh -c 'echo $$ >pid.$FLUX_TASK_RANK; exec sleep 76541'
  nacre=("$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --local=2 -o cpu-affinity=off -j "$PWD/jobspec.json")
  write_job
  open_terminal
  types ./job
  await test -s pid.0 -a -s pid.1
}

state_is() { # the letter of /proc/PID/stat, of all processes named
  local letter=$1 pid
  shift
  for pid; do [ "$(ps -o state= -p "$pid")" = "$letter" ] || return 1; done
}

none_is_stopped() { # of the processes named, some of which may have ended
  local pid
  for pid; do [ "$(ps -o state= -p "$pid")" != T ] || return 1; done
}

@test "Ctrl-Z stops the launcher and the tasks of all shells, and fg has them go on" {
  start_two
  launcher=$(<shell.pid)
  mapfile -t shells < <(pgrep -f "^$NACRE_SHELL .*--boot=hosts")
  [ "${#shells[@]}" -ge 2 ]
  for round in 1 2; do
    keys C-z
    await state_is T "$launcher" "$(<pid.0)" "$(<pid.1)"
    none_is_stopped "${shells[@]}"
    keys fg Enter
    await state_is S "$launcher" "$(<pid.0)" "$(<pid.1)"
    await in_front "$launcher"
  done
  keys C-c
  await gone "$launcher"
  keys 'echo code $?' Enter
  sees 'code 130'
}

# Runs the other arguments on a terminal of their own, which is closed once $1 is seen there; $status is the exit
# code, as in a shell.
on_closed_terminal() {
  status=0
  timeout -s KILL 100 python3 -c 'import os, pty, sys
pid, master = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen = b""
while sys.argv[1].encode() not in seen:
    seen += os.read(master, 4096)
os.close(master)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(code if code >= 0 else 128 - code)' "$@" || status=$?
}

@test "a terminal that is closed ends the job, with 129" {
  # Nothing is written once the terminal is closed: that would be another error.
  write_jobspec 2 sh -c 'test $FLUX_TASK_RANK = 0 || echo a task; exec sleep 76542'
  on_closed_terminal "a task" "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --local=2 -o cpu-affinity=off -j jobspec.json
  [ "$status" -eq 129 ] || { echo "exit code $status"; return 1; }
  nothing_left '^sleep 76542'
}

# The progress line is written while others join; the terminal may be gone then.
@test "a terminal that is closed while shells join breaks nothing" {
  write_jobspec 2 true
  printf '#!/bin/sh\nexec sleep 76543\n' >agent
  chmod +x agent
  on_closed_terminal "waiting for" "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --hosts="$(hostname),no-such-host" \
    --agent="$PWD/agent" --timeout=4 -j jobspec.json
  [[ $status == @(1|129) ]] || { echo "exit code $status"; return 1; }
  nothing_left '^sleep 76543'
}
