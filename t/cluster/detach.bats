#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Jobs over ssh that go on without the process that has started them.
load jobs.bash

cluster=(4)

teardown_detached() {
  for each in $(on node0 "$NACRE_BUILD_DIR/nacre" jobs -q 2>/dev/null); do
    on node0 "$NACRE_BUILD_DIR/nacre" kill -s KILL "$each" 2>/dev/null || :
  done
}
eval "cluster_$(declare -f teardown)"
teardown() {
  teardown_detached
  cluster_teardown
}

listed() { [ "$(nacre node0 jobs -q | wc -l)" -eq "${1:-1}" ]; }
hosts="node[1-3],node0" # the leader is not on the host where the job is started
run_options=("--hosts=$hosts" --shell="$NACRE_SHELL" --timeout=100 -o cpu-affinity=off --tasks-per-node=1)
slow='echo "early $NACRE_TASK_RANK"; until test -e $0/go; do sleep 0.1; done; echo "late $NACRE_TASK_RANK"; exit 5'

# Checks that the job $id has its leader on node1, and that no ssh of node0 is left; then the job's end, and that
# nothing is left. $1: the tasks' lines.
goes_on() {
  [ "$(nacre node0 jobs -q)" = "$id" ]
  [ "$(nacre node0 jobs --json | jq -r .place.host)" = node1 ]
  wait_until none_on node0 '^ssh .* node1 '
  touch go
  local code=0
  nacre node2 wait "$id" || code=$?
  [ "$code" -eq 5 ]
  code=0
  nacre node3 attach "$id" >kept 2>kept.err || code=$?
  [ "$code" -eq 5 ]
  [ "$(grep -E '^(early|late)' kept | sort)" = "$1" ] || { cat kept kept.err; return 1; }
  for each in node0 node1 node2 node3; do wait_until none_on "$each" "^nacre-shell: $id"; done
}
all_lines=$(printf '%s\n' 'early '{0..3} 'late '{0..3})

@test "nacre run -d over ssh: the id, and a job that goes on when the session ends" {
  id=$(nacre node0 run "${run_options[@]}" -d sh -c "$slow" "$work" 2>err)
  [ ! -s err ] || { cat err; return 1; }
  goes_on "$all_lines"
}

@test "a job over ssh that does not start: the error and its code" {
  run -127 nacre node0 run "${run_options[@]}" -d ./no-such-program
  [[ $output == *no-such-program* ]]
  run nacre node0 run --hosts=node1,nowhere9 --shell="$NACRE_SHELL" -N 2 -d true
  [ "$status" -eq 1 ]
  [[ $output == *nowhere9* ]]
  wait_until listed 0
}

@test "on-launcher-lost=go-on: the launcher is killed, or only its ssh" {
  for victim in launcher ssh; do
    rm -f go out # the former job's files could be taken for this job's
    nacre node0 run "${run_options[@]}" -o on-launcher-lost=go-on sh -c "$slow" "$work" >out 2>err &
    job=$!
    for rank in 0 1 2 3; do wait_until grep -q "early $rank" out; done
    wait_until listed
    id=$(nacre node0 jobs -q)
    case $victim in
      launcher) pid=$(processes_on node0 "^$NACRE_BUILD_DIR/nacre run" | head -1) ;;
      ssh) pid=$(processes_on node0 '^ssh .* node1 ' | head -1) ;;
    esac
    "$vcluster" exec node0 kill -KILL "${pid%% *}"
    wait "$job" || :
    wait_until test -e "$NACRE_JOBS_DIR/$id.out"
    [ "$victim" = ssh ] || "$vcluster" exec node0 pkill -KILL -x ssh || :
    goes_on "$(printf '%s\n' 'late '{0..3})"
  done
}

@test "Ctrl-C and Ctrl-Z over ssh" {
  cat >keys.py <<'END'
import os, pty, sys, time
pid, master = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
def until(text):
    global seen
    while text not in seen:
        piece = os.read(master, 4096)
        seen += piece
        print(piece.decode(), end="", flush=True)
for rank in range(4):
    until(b"early %d" % rank)
while not os.popen(f"{sys.argv[1]} jobs -q").read():
    time.sleep(0.1)
os.write(master, b"\x03\x1a")  # at once: Ctrl-Z leaves the job for 2 s only
until(b"Ctrl-Z leaves it")
until(b"which goes on")
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(code)
END
  limit=100 on node0 python3 keys.py "$NACRE_BUILD_DIR/nacre" run "${run_options[@]}" sh -c "trap : INT; $slow" "$work" >said 2>&1 || { cat said; return 1; }
  id=$(nacre node0 jobs -q)
  grep -q "left job $id, which goes on" said
  goes_on "$(printf '%s\n' 'late '{0..3})"
}
