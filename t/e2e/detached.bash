# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # bats sets status, output, lines
#
# Jobs that go on without the process that has started them.

declare -F start_job >/dev/null || load control.bash

eval "control_$(declare -f teardown)"
teardown() {
  for each in $("$front" jobs -q 2>/dev/null); do "$front" kill -s KILL "$each" 2>/dev/null || :; done
  for each in "$work"/tmux "$work"/tmux.*; do tmux -S "$each" kill-server 2>/dev/null || :; done
  control_teardown
}

# Sets `places`, options of nacre run: one shell here, several, or several that an agent starts, which gives a command
# line to a shell, as ssh does.
places_of() { # here, local or agent
  printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >agent
  chmod +x agent
  case $1 in
    here) places=() ;;
    local) places=(--local=2) ;;
    agent) places=("--hosts=nowhere1,nowhere2" --agent="$PWD/agent") ;;
  esac
  places+=(--shell="$NACRE_SHELL" -o cpu-affinity=off)
}

# Finds the leaders of this test's jobs by their working directory, as other tests run at the same time.
no_leader() {
  local pid
  for pid in $(pgrep -f '^nacre-shell: [^ ]+ (rank )?0/'); do
    [ "$(readlink "/proc/$pid/cwd")" != "$PWD" ] || return 1
  done
}

is_over() { [ -z "$("$front" jobs -q)" ]; }
