#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Processes that SIGKILL does not end: they are named, and after unkillable-timeout the job does without them.
load nodes.bash

setup_file() {
  export programs=$BATS_FILE_TMPDIR
  chmod 755 "$programs"
  cc -Wall -Wextra -o "$programs/silent_fs" "$BATS_TEST_DIRNAME/silent_fs.c"
  cc -Wall -Wextra -o "$programs/keeps_zombie" "$BATS_TEST_DIRNAME/keeps_zombie.c"
}

teardown() {
  [ -z "${keeper:-}" ] || kill -KILL "$keeper" || true
  [ -z "${server:-}" ] || kill -KILL "$server" || true # processes that wait for it end
  [ -z "${server:-}" ] || umount -l "$work/mnt" || true
  end_what_is_left
  cd /
  rm -rf "$work"
}

# A file system that does not answer, in the folder mnt.
mount_silent() {
  mkdir mnt
  "$programs/silent_fs" "$work/mnt" 3>&- &
  server=$!
  wait_until test -f mnt/file
}

# Writes rc.lua, which reports processes that do not end, as a site would: a line for each in the file `drained`.
write_drain_rc() {
  cat >rc.lua <<'LUA'
plugin.register { name = "drain", handlers = { { topic = "shell.unkillable", fn = function (topic, args)
  local out = io.open ("drained", "a")
  for _, each in ipairs (args.processes) do
    out:write (string.format ("%s %s %s %s %s\n", args.host, each.rank or "-", each.name, each.state, each.path or "-"))
  end
  out:close ()
end } } }
LUA
}

# Ends the job once its tasks have written to `up`, and sets status and output.
cancelled() { # TASKS ARG...
  local tasks=$1 shell
  shift
  "$@" >out 2>&1 3>&- &
  shell=$!
  lines_come up "$tasks" || { cat out; return 1; }
  # shellcheck disable=SC2086
  [ -z "${before_cancel:-}" ] || $before_cancel
  kill -TERM "$shell"
  SECONDS=0
  status=0
  wait "$shell" || status=$?
  output=$(<out)
  ((SECONDS < 60))
}

says() { # REGEX...
  local each
  for each; do [[ $output =~ $each ]] || { echo "no '$each' in: $output"; return 1; }; done
}

keep_the_second() {
  "$programs/keeps_zombie" kept "$(<pid.1)" 3>&- &
  keeper=$!
  wait_until test -s kept
}

@test "a task whose end does not come: it is named, and the job ends without it" {
  prepare 2 sh -c 'echo >>up; exec "$0" "pid.$FLUX_TASK_RANK"' "$programs/keeps_zombie"
  write_drain_rc
  before_cancel=keep_the_second
  cancelled 2 "${nacre[@]}" --initrc=rc.lua -o exit-timeout=1s -o kill-timeout=0.2s -o unkillable-timeout=4s -o report=report.json
  [ "$status" -eq 143 ]
  says "rank 1 on node0 \(pid $(<pid.1)\) does not end: state Z; waiting \(unkillable-timeout=4s\)" \
    "rank 1 on node0 \(pid $(<pid.1)\) has not ended 4s after SIGKILL: state Z; it is not waited for any more"
  [ "$(<drained)" = "node0 1 keeps_zombie Z -" ]
  jq -e '[.classes[] | select(.record == "l") | .ranks] == ["1"]' report.json
}

@test "with unkillable-timeout=none it is waited for" {
  prepare 2 sh -c 'echo >>up; exec "$0" "pid.$FLUX_TASK_RANK"' "$programs/keeps_zombie"
  release_later() {
    keep_the_second
    (sleep 10; kill -KILL "$keeper") 3>&- &
  }
  before_cancel=release_later
  cancelled 2 "${nacre[@]}" -o exit-timeout=1s -o kill-timeout=0.2s -o unkillable-timeout=none
  [ "$status" -eq 143 ]
  says "rank 1 on node0 .* does not end: state Z; waiting \(unkillable-timeout=infinity\)"
  [[ $output != *"not waited for"* ]]
  keeper=
}

@test "unkillable-timeout: what is no time is refused" {
  prepare 1 true
  run nacre -o unkillable-timeout=soon
  fails_with 1 "unkillable-timeout: duration 'soon'"
}

# Whether the task of rank $1, which has written its number, is in the read.
is_in_read() { [ "$(cat "/proc/$(<"pid.$1")/wchan")" = request_wait_answer ]; }
until_in_read() { wait_until is_in_read "$1"; }

# bats test_tags=root
@test "a task in an uninterruptible read: state, place and path, and the job of all nodes ends, its node named" {
  needs_root "to mount a file system"
  mount_silent
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo $$ >"pid.$FLUX_TASK_RANK"; echo >>up; if [ $FLUX_TASK_RANK = 2 ]; then exec cat mnt/file; fi; exec sleep 1000'
  write_drain_rc
  before_cancel="until_in_read 2"
  cancelled 3 "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json --local=3 -o cpu-affinity=off -o kill-timeout=0.2s \
    -o unkillable-timeout=4s -o report=report.json -- --initrc="$work/rc.lua"
  [ "$status" -eq 143 ]
  says "rank 2 on node2 \(pid [0-9]+\) does not end: state D in request_wait_answer, $work/mnt/file; waiting" \
    "rank 2 on node2 \(pid [0-9]+\) has not ended 4s after SIGKILL: state D in request_wait_answer, $work/mnt/file; it is not waited for"
  [ "$(<drained)" = "node2 2 cat D $work/mnt/file" ]
  jq -e '[.classes[] | select(.record == "l") | .ranks] == ["2"]' report.json
}

# bats test_tags=root
@test "a task that is killed alone and does not end ends the job, with the node's name" {
  needs_root "to mount a file system"
  mount_silent
  write_nodes 2 1
  write_jobspec 2 sh -c 'echo $$ >"pid.$FLUX_TASK_RANK"; echo >>up; if [ $FLUX_TASK_RANK = 1 ]; then exec cat mnt/file; fi; exec sleep 1000'
  launch -R R.json --local=2 -o cpu-affinity=off -o exit-timeout=1s -o kill-timeout=0.2s -o unkillable-timeout=1s >out 2>&1 3>&- &
  shell=$!
  lines_come up 2
  until_in_read 1
  "$NACRE_BUILD_DIR/nacre" kill -s KILL --ranks=1 last
  status=0
  wait "$shell" || status=$?
  output=$(<out)
  [ "$status" -eq 1 ]
  says "rank 1 on node1 \(pid $(<pid.1)\) has not ended 1s after SIGKILL: state D in request_wait_answer, $work/mnt/file"
}

# bats test_tags=root
@test "what a task has left, and an epilog, that do not end keep no job" {
  needs_root "to mount a file system"
  mount_silent
  write_drain_rc
  prepare 1 sh -c 'cat mnt/file & sleep 0.5; echo done'
  status=0 # their output is the shell's own: a pipe would not come to its end
  timeout -k 5 60 "${nacre[@]}" --initrc=rc.lua -o exit-timeout=1s -o kill-timeout=0.2s -o unkillable-timeout=3s -o output.drain-timeout=1s \
    -o 'epilog.command=exec cat mnt/file' -o epilog.timeout=0.2s >out 2>&1 3>&- || status=$?
  output=$(<out)
  [ "$status" -eq 1 ] || { cat out; return 1; }
  says "process [0-9]+ \(cat\) survives SIGKILL: state D in request_wait_answer, $work/mnt/file" \
    "process [0-9]+ \(cat\) on node0 does not end: state D in request_wait_answer, $work/mnt/file; waiting" \
    "process [0-9]+ \(cat\) on node0 has not ended 3s after SIGKILL" "epilog 'exec cat mnt/file': took longer than 200ms"
  [ "$(<drained)" = "node0 - cat D $work/mnt/file"$'\n'"node0 - cat D $work/mnt/file" ] || { cat drained; return 1; }
}
