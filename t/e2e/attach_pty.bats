#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre attach to the terminals of tasks.
load terminals.bash

attach_there() { verb_there attach "$@"; }

# Each task answers lines, tells a new size, and exits with 5 at "finish". One without a terminal has no input, and does not spin.
answers='trap "stty size" WINCH; echo up $FLUX_TASK_RANK; while :; do read -r line || { sleep 0.1; continue; }; [ "$line" = finish ] && exit 5
  echo "got $line"; stty size; done'

# bats test_tags=long
@test "what was written before, keys, sizes, and the end: on the leader, an inner shell and a leaf" {
  start_job 4 1 "$answers" --arity=2 -o pty -o exit-timeout=none
  for rank in 0 1 3; do
    wait_until grep -q "^up $rank" out
    attach_there "--pty=$rank"
    sees "^up $rank"
    await raw
    keys text Enter
    sees '^got text'
    sees '^24 80'
    screen resize-window -x 100 -y 30
    sees '^30 100'
    keys finish Enter
    sees "^nacre attach: task $rank has ended: exited with code 5"
    keys C-c # which leaves the job
    exits_with 0
    close_terminal
  done
  grep -q '^got text' out # it is also in the job's own output
  attach_there --pty=2
  sees '^up 2'
  keys finish Enter
  sees '^nacre attach: task 2 has ended: exited with code 5'
  exits_with 5
  ends_with 5
}

@test "the only terminal is joined by itself; ~. leaves, and the job goes on" {
  start_job 2 1 "$answers" -o pty.ranks=1
  wait_until grep -q '^up 1' out
  attach_there
  sees '^up 1'
  hides '^up 0'
  await raw
  keys 'a~.' Enter
  sees '^got a~\.'
  keys '~.'
  sees "^nacre attach: left job $id, which goes on"
  exits_with 0
  [ "$("$front" ps -q | wc -l)" -eq 2 ]
  close_terminal
  attach_there --ranks=0
  sees '^up 0'
  run ! raw
  keys C-c
  exits_with 0
  "$front" kill last
  ends_with 143
}

# bats test_tags=long
@test "several viewers type and see alike; the size is the smallest of theirs" {
  start_job 2 1 "$answers" -o pty.ranks=1
  wait_until grep -q '^up 1' out
  on first
  attach_there --pty
  sees '^up 1'
  on second
  attach_there --pty=1
  sees '^up 1'
  screen resize-window -x 60 -y 40
  for each in first second; do
    on "$each"
    sees '^24 60'
    keys "from $each" Enter
    sees "^got from $each" # before the other one types into the same line
  done
  for each in first second; do
    on "$each"
    sees '^got from first'
    sees '^got from second'
  done
  keys '~.' # the second leaves
  exits_with 0
  on first
  sees '^24 80'
  keys finish Enter
  sees '^nacre attach: task 1 has ended: exited with code 5'
  keys C-c
  "$front" kill last
  ends_with 143
}

# bats test_tags=long
@test "the last 64 KiB are kept; a viewer that takes nothing does not hold up the job, and misses some" {
  start_job 2 1 'until [ -e go ]; do sleep 0.2; done; seq 300000; echo all; touch all.$FLUX_TASK_RANK; until [ -e more ]; do sleep 0.2; done; seq 300000; touch done.$FLUX_TASK_RANK
    until [ -e end ]; do sleep 0.2; done' -o pty.ranks=1 -o pty.capture=false
  touch go
  wait_until test -e all.1
  attach_there --pty
  sees '^all$'
  run ! shows '^28[0-9]000$' # each line has 8 bytes; the terminal itself may hold some more of them
  [ "$(shown | grep -cE '^29[0-9]{4}$')" -gt 8000 ]
  kill -STOP "$(<shell.pid)"
  touch more
  wait_until test -e done.1
  into_front
  await bash -c "tmux -S $work/tmux.$terminal capture-pane -p | grep -qx 300000"
  touch end
  sees '^nacre attach: [0-9]+ bytes were missed, as they were taken too slowly'
  sees '^nacre attach: task 1 has ended: exited with code 0'
  exits_with 0
  ends_with 0
}

# bats test_tags=long
@test "a viewer that is stopped does not hold up the job's end" {
  start_job 2 1 'echo up; until [ -e go ]; do sleep 0.2; done; seq 100000' -o pty
  attach_there --pty=1
  sees '^up'
  kill -STOP "$(<shell.pid)"
  touch go
  ends_with 0
  into_front
  exits_with 0
}

# bats test_tags=long
@test "a viewer that is killed leaves its terminal as it was, and the task alone" {
  start_job 2 1 "$answers" -o pty.ranks=1
  attach_there --pty
  await guard
  kill -KILL "$(<shell.pid)"
  await as_before
  close_terminal
  attach_there --pty
  await raw
  keys text Enter
  sees '^got text'
  keys finish Enter
  sees '^nacre attach: task 1 has ended'
  keys C-c
  "$front" kill last
  ends_with 143
}

# bats test_tags=long
@test "the terminal that the job itself was started on, and one more" {
  environment='{"PATH": "/usr/bin:/bin", "PS1": "inner> ", "LANG": "C.UTF-8"}' prepare 1 bash --norc --noprofile -i
  on first
  write_job -o pty.interactive -o control
  sed -i "2i export NACRE_JOBS_DIR=$NACRE_JOBS_DIR" job
  open_terminal
  types ./job
  sees '^inner>'
  keys 'echo be''fore' Enter
  wait_until listed
  on second
  attach_there
  sees '^before'
  keys 'stty size; echo $((6 * 7))' Enter
  sees '^42$'
  screen resize-window -x 70 -y 20
  keys 'until stty size | grep "^20 70"; do sleep 0.1; done' Enter
  sees '^20 70'
  on first
  sees '^42$'
  on second
  keys '~.'
  exits_with 0
  on first
  keys 'until stty size | grep "^24 80"; do sleep 0.1; done; echo larger' Enter
  sees '^larger'
  on third
  attach_there
  sees '^larger'
  on first
  keys 'exit 3' Enter
  sees '^outer>$'
  on third
  sees '^nacre attach: task 0 has ended: exited with code 3'
  exits_with 3
}

# bats test_tags=long
@test "what is wrong is refused" {
  start_job 1 2 'exec sleep 600' -o pty.ranks=1
  run --separate-stderr "$front" attach --pty </dev/null
  [ "$status" -eq 1 ]
  [ "$stderr" = "nacre attach: --pty: standard input or output is not a terminal" ]
  for wrong in --pty=x --pty=-1 "--pty -l" "--pty --json" "--pty --tail=3"; do
    # shellcheck disable=SC2086
    run "$front" attach $wrong </dev/null
    [ "$status" -eq 2 ]
  done
  attach_there --pty=0
  sees '^nacre attach: task 0 has no terminal: run the job with --pty'
  exits_with 1
  close_terminal
  attach_there --pty=7
  sees 'no rank 7'
  exits_with 1
  "$front" kill last
  ends_with 143
  start_job 1 1 'exec sleep 600'
  close_terminal
  attach_there --pty
  sees '^nacre attach: --pty: no task of the job has a terminal'
  exits_with 1
  "$front" kill last
  ends_with 143
}

# bats test_tags=long
@test "a client that sends sizes that are none, and streams that are not there, gets errors, and the job goes on" {
  start_job 2 1 "$answers" -o pty.ranks=1
  wait_until grep -q '^up 1' out
  socket=$("$front" jobs --json | jq -r .address)
  python3 - "${socket#unix:}" >answered <<'END'
import json, socket, sys
def link():
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.settimeout(30)
    f = s.makefile("rwb", buffering=0)
    def send(**frame): f.write(json.dumps(frame).encode() + b"\n")
    send(nacre="1", control=1)
    json.loads(f.readline())
    return f, send
def code_of(f, id):
    while True:
        line = f.readline()
        if not line: return "ended"
        frame = json.loads(line)
        if frame.get("id") == id and ("error" in frame or "ok" in frame and not frame.get("more")):
            return frame.get("error", {}).get("code", 0)
f, send = link()
id = 0
for rows, columns in ((0, 80), (-1, 80), (80, 65536), (1 << 62, 1), ("24", 80), (None, 80)):
    id += 1
    send(id=id, do="attach", pty={"rank": 1, "rows": rows, "columns": columns}, credit=1000)
    assert code_of(f, id) == 22, (rows, columns)
    id += 1
    send(id=id, do="exec", command=["true"], shells="0", pty={"rows": rows, "columns": columns}, credit=1000)
    assert code_of(f, id) == 22, (rows, columns)
send(id=100, do="exec", command=["sleep", "76585"], shells="1", stdin=True, credit=1000)
send(id=101, do="attach", pty={"rank": 1, "rows": 24, "columns": 80}, credit=1000)
send(id=102, do="size", request=100, rows=24, columns=80)
assert code_of(f, 102) == 25  # ENOTTY
send(id=103, do="size", request=7, rows=24, columns=80)
assert code_of(f, 103) == 3  # ESRCH
send(id=104, do="size", request=101, rows=65535, columns=65535)
assert code_of(f, 104) == 0
send(id=105, do="exec-end", exec=101)
assert code_of(f, 105) == 22
send(id=106, do="exec-end", exec=100)
assert code_of(f, 100) == 0
for stream in ("pty", "stdin"):  # the request takes no data, so the link ends
    g, ask = link()
    ask(id=1, do="exec", command=["sleep", "76585"], shells="1", credit=1000)
    ask(id=2, do="size", request=1, rows=24, columns=80)
    assert code_of(g, 2) == 25
    ask(id=1, stream=stream, data="x")
    assert code_of(g, 3) == "ended"
print("good")
END
  [ "$(<answered)" = good ]
  [ "$("$front" ps -q | wc -l)" -eq 2 ]
  nothing_left 'sleep 7658[5]'
  "$front" kill last
  ends_with 143
}
