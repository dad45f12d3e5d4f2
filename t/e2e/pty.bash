# SPDX-License-Identifier: Apache-2.0
#
# A terminal for tests: tmux with one pane, in which sh -i prompts with "outer> ". That shell has no line editing,
# so the terminal keeps the settings of the last program.
# shellcheck disable=SC2154 # lib.bash sets work, nacre

load lib.bash
eval "nacre_$(declare -f setup)"
eval "nacre_$(declare -f teardown)"

patience=60 # seconds

setup() {
  nacre_setup
  for program in tmux vi top python3; do
    command -v "$program" >/dev/null || { echo "$program is needed: etc/deps.sh"; return 1; }
  done
}

teardown() {
  tmux -S "$work/tmux" kill-server 2>/dev/null || true
  nacre_teardown
}

screen() { tmux -S "$work/tmux" "$@"; }

# One of 80 columns and 24 rows. `tty` is its device.
open_terminal() {
  printf 'set -g history-limit 20000\nset -g status off\nset -g escape-time 0\nset -g default-terminal screen\n' >tmux.conf
  screen -f tmux.conf new-session -d -x 80 -y 24 \
    env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 TERM=screen TMPDIR="$TMPDIR" PS1='outer> ' sh -i
  tty=$(screen display -p '#{pane_tty}')
  sees 'outer>'
  stty -a -F "$tty" >modes
}

# The file `job` runs the job with these arguments, and leaves the shell's process id in shell.pid.
write_job() {
  printf '#!/bin/sh\necho $$ >shell.pid\nexec' >job
  printf ' %q' "${nacre[@]}" "$@" >>job
  chmod +x job
}

# Starts a job of one task of the command that follows, on the terminal.
start() {
  environment='{"PATH": "/usr/bin:/bin", "PS1": "inner> ", "LANG": "C.UTF-8"}' prepare 1 "$@"
  write_job -o pty.interactive
  open_terminal
  types ./job
}

keys() { screen send-keys "$@"; }
# Types a line at the prompt, and Enter once it is shown, so that the next line with only the prompt is a new
# prompt.
types() {
  keys "$1"
  sees "^outer> $1\$"
  keys Enter
}
shown() { screen capture-pane -p -S -; }

# Waits until the command succeeds.
await() {
  local end=$((SECONDS + patience))
  until "$@"; do
    ((SECONDS < end)) || { echo "waited in vain for: $*"; shown | tail -n 30; return 1; }
    sleep 0.05
  done
}

shows() { shown | grep -qE -- "$1"; }
hides() { ! shows "$1"; }
gone() { ! kill -0 "$1" 2>/dev/null; }
sees() { await shows "$1"; } # a line that matches this extended regular expression

# The settings of the terminal.
raw() { stty -a -F "$tty" | grep -q -- '-icanon'; }
as_before() { diff modes <(stty -a -F "$tty"); }

# Whether the process is in the foreground of its terminal, and not stopped.
in_front() {
  local stat
  stat=$(cat "/proc/$1/stat") || return
  # shellcheck disable=SC2086 # fields
  set -- ${stat##*) }
  [ "$1" = S ] && [ "$3" = "$6" ]
}

# The process id of the terminal's guard.
guard() { pgrep -P "$(cat shell.pid)" -x nacre-terminal; }

# A bash on the terminal stops a command, continues it, and interrupts it.
controls_jobs() {
  local sleep
  keys 'sleep 1000' Enter
  await pgrep -P "$1" -x sleep
  sleep=$(pgrep -P "$1" -x sleep)
  await in_front "$sleep"
  keys C-z
  sees 'Stopped +sleep 1000'
  keys fg Enter
  await in_front "$sleep"
  keys C-c
  await gone "$sleep"
  keys 'echo code=$((1000 + $?))' Enter
  sees '^code=1130'
}
