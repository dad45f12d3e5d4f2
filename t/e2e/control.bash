# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # bats sets status, output, lines
#
# Jobs that the list of jobs has, for the tests of what sees and reaches them.

declare -F write_nodes >/dev/null || load nodes.bash

front=$NACRE_BUILD_DIR/nacre

teardown() {
  end_what_is_left
  cd /
  umount "$work/home" 2>/dev/null || :
  rm -rf --one-file-system "$work"
}

listed() { [ "$("$front" jobs -q "$@" | wc -l)" -eq "${count:-1}" ]; }

# Starts a job of $1 shells with $2 tasks each of the sh script $3, with the options behind, and waits until it is listed.
# Its launcher is $launcher, its id $id, its leader's process is in the file leader.
start_job() {
  local shells=$1 tasks=$2 script=$3
  shift 3
  write_nodes "$shells" "$tasks"
  write_jobspec $((shells * tasks)) sh -c "$script"
  launch -R R.json -o cpu-affinity=off --local="$shells" "$@" >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  "$front" jobs --json | jq .pid >leader
}

# Starts a job by nacre run with these words, and waits until it is listed; $launcher, $id, out and err are set as
# above.
start_by_run() {
  "$front" run --shell="$NACRE_SHELL" -l "$@" >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
}

# All tasks have become the sleep that they run: a task is listed before that, once it has started.
all_sleep() { [ "$("$front" ps --json --no-fold "$id" | jq -s 'length > 0 and all(.state == "S" and .command == "sleep")')" = true ]; }

run_job() { "$front" run --shell="$NACRE_SHELL" "$@"; }

# A job of $1 shells with $2 tasks each of the sh script $3, with the options behind. Its exit code is in code, its output in out and err.
job() {
  write_nodes "$1" "$2"
  write_jobspec $(($1 * $2)) sh -c "$3"
  code=0
  launch -R R.json -o cpu-affinity=off --local="$1" "${@:4}" >out 2>err || code=$?
}

ends_with() { # code
  local code=0
  wait "$launcher" || code=$?
  [ "$code" -eq "$1" ] || { echo "exit code $code, not $1; it said:"; cat err; return 1; }
}

stop_job() {
  "$front" kill -s KILL "$id"
  ends_with 137
}

# As above, with any code but 0, which is $code then.
fails() {
  code=0
  wait "$launcher" || code=$?
  [ "$code" -ne 0 ] || { echo "exit code 0; it said:"; cat err; return 1; }
}

# A command as another user, who has this user's list of jobs in the environment.
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups env PATH=/usr/bin:/bin NACRE_JOBS_DIR="$NACRE_JOBS_DIR" HOME=/ "$@"; }

# Another user sends the request $2 to the socket $1, whose folders are opened to all: the leader refuses, as it
# asks the kernel for the other side's user.
nobody_is_refused() {
  local socket=${1#unix:}
  chmod 755 "$TMPDIR" "$(dirname "$socket")"
  chmod 777 "$socket"
  run as_nobody python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.settimeout(10)
received = b""
try:
    s.sendall(b"{\"nacre\":\"1\",\"control\":1}\n" + sys.argv[2].encode() + b"\n")
    while (part := s.recv(1000)):
        received += part
except (BrokenPipeError, ConnectionResetError):
    pass
print(received.decode())
' "$socket" "$2"
  [[ -z $output || $output == *'"error":"'*'another user'* ]] || return 1
  [[ $output != *'"id"'* ]] || return 1
}
