#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre attach: the output of a job that runs, from before and from now.
load pty.bash
load control.bash

eval "control_$(declare -f teardown)"
teardown() {
  tmux -S "$work/tmux" kill-server 2>/dev/null || true
  for each in "${viewers[@]}"; do kill -KILL "$each" 2>/dev/null || :; done
  control_teardown
}

viewers=()

# Starts a viewer with these options, and waits until the leader serves it. Its output is in $name.out and
# $name.err.
watch() { # name options...
  local name=$1
  shift
  "$front" attach "$@" >"$name.out" 2>"$name.err" &
  viewers+=("$!")
}
viewer_ends_with() { # number code
  local code=0
  wait "${viewers[$1]}" || code=$?
  [ "$code" -eq "$2" ] || { echo "viewer $1: exit code $code, not $2"; tail ./*.err; return 1; }
}
has() { grep -qxF -- "$2" "$1"; }

# Each task writes a line, waits for the file go, writes another one, and exits with $code.
two_lines='echo "early $FLUX_TASK_RANK"; echo "bad $FLUX_TASK_RANK" >&2; until test -e go; do sleep 0.2; done
echo "late $FLUX_TASK_RANK"; exit $FLUX_TASK_RANK'

@test "a viewer gets what was before and what comes, and the job's exit code" {
  for shells in 1 2; do
    rm -f go
    start_job "$shells" $((4 / shells)) "$two_lines"
    wait_until lines_come out 4
    viewers=()
    watch all
    watch none --tail=none
    watch some --ranks=1,3 -l "$id"
    for each in "early 0" "early 1" "early 2" "early 3"; do wait_until has all.out "$each"; done
    wait_until has some.out "3: early 3"
    wait_until [ -n "$("$front" ps -q)" ] # by then the leader has served earlier requests
    touch go
    ends_with 3
    for each in 0 1 2; do viewer_ends_with "$each" 3; done
    [ "$(sort all.out)" = "$(printf '%s\n' "early "{0..3} "late "{0..3})" ]
    [ "$(sort all.err)" = "$(printf '%s\n' "bad "{0..3})" ]
    [ "$(sort some.out)" = "$(printf '%s\n' "1: early 1" "1: late 1" "3: early 3" "3: late 3")" ]
    [ "$(sort some.err)" = "$(printf '%s\n' "1: bad 1" "3: bad 3")" ]
    run grep -c early none.out
    [ "$output" = 0 ]
  done
}

# bats test_tags=long
@test "the last lines, a time, and what came before" {
  start_job 1 1 'seq 100; printf part; exec sleep 600'
  wait_until grep -q part out
  watch last --tail=3
  watch since --since=0s
  watch long --since=1h
  wait_until grep -q part last.out
  wait_until grep -q part long.out
  [ "$(<last.out)" = $'99\n100\npart' ]
  [ "$(<long.out)" = "$(seq 100; printf part)" ]
  [ ! -s since.out ]
  "$front" kill last
  ends_with 143
  for each in 0 1 2; do viewer_ends_with "$each" 143; done
  [ ! -s last.err ]
}

# bats test_tags=long
@test "only the last megabyte is kept, or what attach.scrollback says" {
  start_job 1 1 'seq 300000; echo over; exec sleep 600' -o attach.scrollback=64k
  wait_until has out over
  watch all
  wait_until has all.out over
  [ "$(stat -c %s all.out)" -le 65536 ]
  [ "$(stat -c %s all.out)" -gt 60000 ]
  [ "$(<all.err)" = "nacre attach: $(($(stat -c %s out) - $(stat -c %s all.out))) bytes of output came before" ]
  [ "$(head -1 all.out)" -eq $((300002 - $(wc -l <all.out))) ] # the first line is whole
  "$front" kill last
  ends_with 143
  start_job 1 1 'echo early; until test -e go; do sleep 0.2; done; echo late' -o attach.scrollback=none
  wait_until has out early
  viewers=()
  watch none --json
  wait_until grep -q before none.out
  touch go
  ends_with 0
  viewer_ends_with 0 0
  [ "$(jq -c '[.name, .context.bytes, .context.code, .data]' none.out)" = '["before",6,null,null]
[null,null,null,"late"]
["end",null,0,null]' ]
}

@test "where the output is, if it goes to files" {
  start_job 1 1 "$two_lines" -o 'output.stdout.path=o.{{task.rank}}'
  watch text
  watch json --json
  watch quiet -q
  wait_until has text.err "nacre attach: the tasks' output goes to $work/o.{{task.rank}}"
  wait_until grep -q files json.out
  touch go
  ends_with 0
  for each in 0 1 2; do viewer_ends_with "$each" 0; done
  [ ! -s text.out ]
  [ ! -s quiet.err ]
  [ "$(jq -c 'select(.name == "files").context' json.out)" = "{\"stderr\":\"$work/o.{{task.rank}}\",\"stdout\":\"$work/o.{{task.rank}}\"}" ] || { cat json.out; return 1; }
  rm go
  viewers=()
  start_job 1 1 "$two_lines" -o 'output.stderr.path=e'
  watch text
  wait_until has text.err "nacre attach: the tasks' stderr goes to $work/e"
  touch go
  ends_with 0
  viewer_ends_with 0 0
}

# bats test_tags=long
@test "all as lines of JSON" {
  start_job 2 1 "$two_lines"
  lines_come out 2
  watch json --json --ranks=1
  wait_until grep -q early json.out
  touch go
  ends_with 1
  viewer_ends_with 0 1
  [ "$(jq -sc 'map(select(.rank)) | map([.rank, .stream, .data, .time > 1e9]) | sort' json.out)" = \
    '[[1,"stderr","bad 1",true],[1,"stdout","early 1",true],[1,"stdout","late 1",true]]' ]
  [ "$(tail -1 json.out | jq -c --arg id "$id" '[.name, .context.code, .context.id == $id]')" = '["end",1,true]' ]
  [ ! -s json.err ]
}

# bats test_tags=long
@test "a viewer that takes nothing does not hold up the job, and misses whole lines" {
  start_job 1 1 'echo early; until test -e go; do sleep 0.2; done; seq 3000000; echo over; until test -e end; do sleep 0.2; done'
  wait_until has out early
  watch slow
  watch quick
  wait_until has slow.out early
  wait_until has quick.out early
  kill -STOP "${viewers[0]}"
  touch go
  wait_until has quick.out over
  wait_until has out over
  kill -CONT "${viewers[0]}"
  wait_until has slow.out over
  touch end
  ends_with 0
  viewer_ends_with 0 0
  viewer_ends_with 1 0
  cmp out quick.out || grep -q 'are missing here' quick.err
  missed=$(sed -n 's/^nacre attach: \([0-9]*\) lines, .* are missing here.*/\1/p' slow.err | paste -sd+ | bc)
  [ "$missed" -gt 1000000 ]
  times=$(grep -c 'are missing here' slow.err)
  # Only whole lines are missing, except one of which the viewer already had the beginning.
  [ "$(grep -cvxFf out slow.out)" -le "$times" ]
  [ $((missed + $(wc -l <slow.out))) -ge "$(wc -l <out)" ]
  [ $((missed + $(wc -l <slow.out))) -le $(($(wc -l <out) + times)) ]
}

@test "a viewer that is killed, or leaves, does not touch the job" {
  start_job 2 1 'echo early; exec sleep 600'
  lines_come out 2
  watch killed
  watch left
  lines_come killed.out 2
  lines_come left.out 2
  kill -KILL "${viewers[0]}"
  kill -INT "${viewers[1]}"
  viewer_ends_with 1 0
  [ "$(<left.err)" = "nacre attach: left job $id, which goes on" ]
  [ "$("$front" jobs -q)" = "$id" ]
  "$front" kill last
  ends_with 143
}

# bats test_tags=long
@test "Ctrl-C leaves, and the job goes on" {
  start_job 1 1 'echo early; exec sleep 600'
  wait_until has out early
  printf '#!/bin/sh\nNACRE_JOBS_DIR=%q exec %q attach\n' "$NACRE_JOBS_DIR" "$front" >view
  chmod +x view
  open_terminal
  types ./view
  sees early
  keys C-c
  sees "left job $id, which goes on"
  keys 'echo code $?' Enter
  sees 'code 0'
  [ "$("$front" jobs -q)" = "$id" ]
  "$front" kill last
  ends_with 143
}

@test "after the end, what the list has of it; an unknown job; wrong options" {
  start_job 1 1 'echo early; until test -e go; do sleep 0.2; done; exit 7'
  touch go
  ends_with 7
  run --separate-stderr "$front" attach "$id"
  [ "$status" -eq 7 ]
  [ -z "$output" ]
  run --separate-stderr "$front" attach last --json
  [ "$status" -eq 7 ]
  [ "$(jq -c .context.code <<<"$output")" = 7 ]
  run "$front" attach
  [ "$status" -eq 1 ]
  run "$front" attach none-such
  [ "$status" -eq 1 ]
  run "$front" attach --tail=x
  [ "$status" -eq 2 ]
  run "$front" attach --format=yaml
  [ "$status" -eq 2 ]
  start_job 1 2 'exec sleep 600'
  run "$front" attach --ranks=2
  [ "$status" -eq 1 ]
  [ "$output" = "nacre attach: no rank 2: the job has ranks 0-1" ]
  "$front" kill last
  ends_with 143
  run -1 launch -R R.json --local=1 -o attach.scrollback=1T
  [[ $output == *"attach.scrollback: expected none, or at most 268435456 bytes"* ]]
}

# bats test_tags=long
@test "a job that ends while viewers come: each gets its code" {
  for round in 1 2 3 4 5; do
    rm -f go
    start_job 1 1 'echo early; until test -e go; do sleep 0.1; done; echo late; exit 5'
    viewers=()
    for each in {1..8}; do
      [ "$each" != 4 ] || touch go
      watch "v$each" "$id"
      sleep 0.0$((RANDOM % 90 + 10))
    done
    ends_with 5
    for each in {0..7}; do viewer_ends_with "$each" 5; done
  done
}

# bats test_tags=long
@test "a viewer does not wait for an epilog, if the tasks decide the code" {
  start_job 1 1 'echo early; until test -e go; do sleep 0.2; done; exit 4' -o epilog='sh -c "until test -e $PWD/end; do sleep 0.2; done"'
  wait_until has out early
  watch one
  wait_until has one.out early
  touch go
  viewer_ends_with 0 4
  kill -0 "$launcher"
  touch end
  ends_with 4
}

# bats test_tags=long
@test "a leader that is killed: its viewers end" {
  start_job 1 1 'echo early; exec sleep 600'
  wait_until has out early
  watch one
  wait_until has one.out early
  kill -KILL "$(<leader)"
  ends_with 137
  viewer_ends_with 0 137
  grep -q "some of its output may be missing here" one.err
}

# bats test_tags=long
@test "viewers that keep to no protocol cost only their own link" {
  start_job 1 1 'echo early; until test -e go; do sleep 0.2; done; seq 200000; echo over; until test -e end; do sleep 0.2; done'
  wait_until has out early
  watch good
  wait_until has good.out early
  socket=$("$front" jobs --json | jq -r .address)
  python3 - "${socket#unix:}" <<'END'
import json, socket, sys
def link():
    out = socket.socket(socket.AF_UNIX)
    out.connect(sys.argv[1])
    out.sendall(b'{"nacre":"1","control":1}\n')
    return out
def ends(lines):
    s = link()
    try:
        s.sendall(lines)
        while s.recv(65536):
            pass
    except (BrokenPipeError, ConnectionResetError):
        pass
attach = b'{"id":1,"do":"attach","credit":1000}\n'
ends(attach + b'{"id":1,"stream":"stdin","data":"x"}\n')  # without credit
ends(attach + b'{"id":1,"credit":-1}\n')
ends(attach + attach)
ends(attach + b'\xff\n')
refused = link()
refused.sendall(b'{"id":1,"do":"attach","tail":{}}\n{"id":2,"do":"attach","ranks":[]}\n')
text = b''
while text.count(b'"error"') < 2:
    text += refused.recv(65536)
idle = [link() for _ in range(20)]
for s in idle:
    s.sendall(b'{"id":1,"do":"attach"}\n' * 1 + b'{"id":2,"do":"attach","credit":9007199254740992}\n')
open("go", "w").close()
import time
while "over" not in open("out").read()[-10:]:  # no viewer holds the job up
    time.sleep(0.05)
END
  wait_until has good.out over
  touch end
  ends_with 0
  viewer_ends_with 0 0
}
