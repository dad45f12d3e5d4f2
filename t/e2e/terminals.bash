# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.bash sets work; tests set them
#
# For the tests of nacre exec and attach on terminals.

declare -F open_terminal >/dev/null || load pty.bash
declare -F start_job >/dev/null || load control.bash

eval "control_$(declare -f teardown)"
teardown() {
  for each in ./tmux.*; do tmux -S "$each" kill-server 2>/dev/null || :; done
  if [[ -f leader ]]; then kill "$(<leader)" 2>/dev/null || :; fi # which ends the job of a test that has failed
  control_teardown
}

# Each terminal has a server of its own, as one that ends still has its socket. `on`: what follows is about this one.
terminal=1
screen() { tmux -S "$work/tmux.$terminal" "$@"; }
on() { terminal=$1; }
close_terminal() {
  screen kill-server
  terminal=$((terminal + 1))
}

# Starts `nacre VERB` with these arguments on a terminal of 80 columns and 24 rows; its process is in shell.pid.
verb_there() { # VERB ARGUMENT...
  printf '#!/bin/sh\necho $$ >shell.pid\nexport NACRE_JOBS_DIR=%q\nexec' "$NACRE_JOBS_DIR" >client
  printf ' %q' "$front" "$@" >>client
  chmod +x client
  open_terminal
  types ./client
}

# Lines that `clear` takes off the screen may go to the history at any time.
cleared() {
  screen clear-history
  hides '^up'
}

as_before_but_size() { diff <(tail -n +2 modes) <(stty -a -F "$tty" | tail -n +2); }

# Continues the program of the terminal, which was stopped from outside.
into_front() {
  sees 'Stopped'
  stty -F "$tty" sane
  keys fg Enter
}

# The program gives the terminal back a moment before it ends, so that the prompt may come behind the typed text.
exits_with() { # code
  await as_before_but_size
  keys 'echo code=$((1000 + $?))' Enter
  sees "^(outer> )?code=$((1000 + $1))\$"
}
