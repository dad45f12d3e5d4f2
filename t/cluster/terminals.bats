#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Terminals over hosts: nacre exec --pty and nacre attach --pty, run on another host than the leader's, through a bridge by ssh or srun, and
# on from there by the shells' links.
load jobs.bash

cluster=(4 --slurm)

eval "host_$(declare -f teardown)"
teardown() {
  for each in ./tmux.*; do tmux -S "$each" kill-server 2>/dev/null || :; done
  host_teardown
}

terminal=1
screen() { tmux -S "$work/tmux.$terminal" "$@"; }
keys() { screen send-keys "$@"; }
shows() { screen capture-pane -p -S - | grep -qE -- "$1"; }
sees() { wait_until shows "$1" || { screen capture-pane -p | tail -n 20; return 1; }; }

# HOST VERB ARGUMENT...: on a terminal of 80 columns and 24 rows, there.
terminal_on() {
  printf '#!/bin/sh\nexec' >client
  printf ' %q' "$vcluster" exec "$1" "$NACRE_BUILD_DIR/nacre" "${@:2}" >>client
  chmod +x client
  screen kill-server 2>/dev/null || :
  terminal=$((terminal + 1)) # with a server of its own, as one that ends still has its socket
  printf 'set -g status off\nset -g default-terminal screen\n' >tmux.conf
  PS1='outer> ' screen -f tmux.conf new-session -d -x 80 -y 24 sh -i
  sees 'outer>'
  keys ./client Enter
}

at_prompt() { screen capture-pane -p | grep -v '^$' | tail -n 1 | grep -q 'outer>$'; }

exits_with() { # code
  wait_until at_prompt
  keys 'echo code=$((1000 + $?))' Enter
  sees "^code=$((1000 + $1))\$"
}

left_nothing() { none_on node0 "$1" && none_on node1 "$1" && none_on node2 "$1" && none_on node3 "$1"; }

# A command on each host, seen from node3; a viewer that is killed.
commands_from_node3() { # job
  for rank in 0 2; do
    terminal_on node3 exec --pty -r "$rank" "$1" -- \
      sh -c 'trap "stty size" WINCH; uname -n; stty size; until read -r line; do :; done; echo "got $line"; sleep 76544'
    sees "^node$rank\$"
    sees '^24 80'
    screen resize-window -x 90 -y 30
    sees '^30 90'
    keys text Enter
    sees '^got text'
    keys C-c
    exits_with 130
  done
  terminal_on node3 exec --pty -w node1 "$1" -- sh -c 'echo up; sleep 76544 & sleep 76544'
  sees '^up'
  kill -KILL "$(pgrep -o -f "^$NACRE_BUILD_DIR/nacre exec --pty -w node1 .*sleep 76544")"
  wait_until left_nothing '^sleep 76544'
}

@test "over ssh: a command on a terminal of another host" {
  start_sleepers node1
  wait_until listed node1
  commands_from_node3 last
  nacre node3 kill last
  ends_with 143
  wait_until left_nothing 'sleep 7654[34]'
}

# bats test_tags=long
@test "a job that srun has started: a command on a terminal, through a step of Slurm" {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; exec sleep 76543' "$work"
  start_by_srun
  commands_from_node3 "$(nacre node0 jobs -q)"
  nacre node3 kill last
  ends_with 143
  wait_until left_nothing 'sleep 7654[34]'
}

# bats test_tags=long
@test "the terminals of tasks, from another host; the bridge ends, and the task goes on" {
  write_job 1 sh -c 'trap "stty size" WINCH; echo "up $FLUX_TASK_RANK"; while :; do read -r line || continue; [ "$line" = finish ] && exit 5; echo "got $line"; done'
  limit=150 launch node1 -o pty -o exit-timeout=none >said 2>&1 &
  job=$!
  wait_until listed node1
  for rank in 0 3; do
    terminal_on node2 attach "--pty=$rank"
    sees "^up $rank"
    screen resize-window -x 90 -y 30
    sees '^30 90'
    keys text Enter
    sees '^got text'
  done
  for each in $(pgrep -f "control --bridge $(nacre node0 jobs -q)"); do kill -KILL "$each" 2>/dev/null || :; done
  sees 'the link to its leader has ended'
  terminal_on node2 attach --pty=3
  sees '^got text'
  keys Enter '~.'
  sees '^nacre attach: left job'
  for rank in 0 1 2; do
    terminal_on node2 attach "--pty=$rank"
    sees "^up $rank"
    keys finish Enter
    sees "^nacre attach: task $rank has ended: exited with code 5"
  done
  terminal_on node3 attach --pty=3
  sees '^up 3'
  keys finish Enter
  sees '^nacre attach: task 3 has ended: exited with code 5'
  exits_with 5
  ends_with 5
}
