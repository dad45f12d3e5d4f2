# SPDX-License-Identifier: Apache-2.0
#
# Faults done to jobs over four hosts, and their expected effects.
# shellcheck disable=SC2154

declare -F write_job >/dev/null || load jobs.bash

# For setup_file: the plugin that holds one shell of a job at a topic (hold.c), $programs/hold.so.
build_hold() {
  export programs=$VCLUSTER_STATE/$VCLUSTER_NAME/programs
  mkdir -p "$programs"
  cc -shared -fPIC -I"$NACRE_SOURCE_DIR/shell/plugin/include" -o "$programs/hold.so" "$NACRE_SOURCE_DIR/t/cluster/hold.c" || return
  echo "plugin.load { file = '$programs/hold.so' }" >"$programs/hold.lua"
}

# Starts the job of this folder on the launcher's host $1, with more options; its process is $job, and its output
# goes to `said`.
begin() {
  began=$(uptime_ms)
  limit=${limit:-240} launch "$@" >said 2>&1 3>&- &
  job=$!
}

# As above, with the shell of rank $3 held at the topic $2 until there is the file `go`. Each shell that comes there
# makes TOPIC.RANK.
begin_held() {
  begin "$1" -o hold.at="$2" -o hold.rank="$3" -o hold.marks="$PWD" "${@:4}" -- --initrc="$programs/hold.lua"
}

files_come() { # waits for the files, or prints what is there instead
  local file
  for file; do
    wait_until test -e "$file" || { echo "no $file; said: $(tail -c 3000 said)"; return 1; }
  done
}

shell_of() { "$vcluster" exec "$1" pgrep -o -x nacre-shell; } # without its forked children

waits() { # whether the shell of this host waits for events
  local pid
  pid=$(shell_of "$1") && [ "$("$vcluster" exec "$1" ps -o state= -p "$pid")" = S ]
}

kill_shell() { # HOST [SIGNAL]
  local pid
  pid=$(shell_of "$1") || { echo "no shell on $1; said: $(tail -c 3000 said)"; return 1; }
  faulted=$(uptime_ms)
  "$vcluster" exec "$1" kill -s "${2:-KILL}" "$pid"
}

no_shells() { # on the hosts named
  local host
  for host; do none_on "$host" '(^|/)nacre-shell(:| |$)' || return 1; done
}

says() { # comes to be in `said`
  wait_until 120 grep -q -- "$1" said || { echo "said: $(tail -c 3000 said)"; return 1; }
}

# The job ends by itself, with the exit code $1, or one that matches the pattern, and has printed each of the other
# arguments.
job_ends_with() {
  local code=0 ended text
  wait "$job" || code=$?
  ended=$(uptime_ms)
  # The time is printed, but not checked: the machine may be busy.
  echo "# $BATS_TEST_DESCRIPTION: ended${began:+ $((ended - began)) ms after its start,}${faulted:+ $((ended - faulted)) ms after the fault}" >&3
  # shellcheck disable=SC2053
  [[ $code == $1 ]] || { echo "exit code $code, not $1: $(tail -c 3000 said)"; return 1; }
  for text in "${@:2}"; do
    grep -q -- "$text" said || { echo "no '$text' in: $(tail -c 3000 said)"; return 1; }
  done
}

never_said() {
  ! grep -- "$1" said
}

# As nothing_left, after the longest of the shells' own bounds (T_fence, shell/overlay/options.hpp).
nothing_left_after_fence() {
  wait_until 120 no_strays || nothing_left
}

# Until `recover`, nacre-shell on HOST is the given script, which finds the program in $shell.
wrap_shell() {
  # A signal ends this sh at once, like a program that has just started; bash ignores SIGQUIT.
  printf '#!/bin/sh\nshell=/run/nacre-shell\n%s\n' "$2" >"wrapper.$1"
  chmod +x "wrapper.$1"
  replace_shell "$1" "$PWD/wrapper.$1"
}

replace_shell() { # on HOST, by PROGRAM; the right one is /run/nacre-shell
  "$vcluster" exec "$1" sh -ec '
    touch /run/nacre-shell
    mount --bind "$1" /run/nacre-shell
    mount --bind "$2" "$1"' - "$NACRE_SHELL" "$2"
}

# All hosts are as they were: up, linked, in time, and with the right nacre-shell. 
recover() {
  local host state
  while read -r host _ state _; do
    if [ "$state" = down ]; then
      "$vcluster" boot "$host"
      continue
    fi
    "$vcluster" heal "$host"
    [ ! -e "$VCLUSTER_STATE/$VCLUSTER_NAME/host/$host/relay" ] || "$vcluster" delay "$host" 0
    "$vcluster" exec "$host" sh -c 'test ! -e /run/nacre-shell || { umount "$1" /run/nacre-shell; rm /run/nacre-shell; }' - "$NACRE_SHELL"
  done < <("$vcluster" status)
}

# Nothing of a failed test may disturb the next one.
teardown() {
  local host
  jobs -p | xargs -r kill -KILL 2>/dev/null || : # as in lib.bash
  recover
  for host in "${nodes[@]}"; do
    strays_on "$host" | awk '{print $1}' | xargs -r "$vcluster" exec "$host" kill -KILL 2>/dev/null || :
  done
}
