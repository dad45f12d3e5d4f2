#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# When the answer of a shrink comes no process of the shells is left, not even one that is yet to be reaped.
load control.bash

idle='echo $PPID >new.$FLUX_TASK_RANK; mv new.$FLUX_TASK_RANK shell.$FLUX_TASK_RANK; while [ ! -e go ]; do sleep 0.2; done'

# The Lua code $1 is what all shells but the leader's do last, when they have left the others.
write_last_act() {
  cat >rc.lua <<LUA
rank = shell.info.rank
last = setmetatable ({}, { __gc = function () if rank > 0 then $1 end end })
LUA
}

# SHELLS: a job of SHELLS shells, with a task each, whose processes are all known.
start_known() {
  local rank
  rm -f go shell.*
  start_job "$1" 1 "$idle" "${@:2}"
  for ((rank = 0; rank < $1; ++rank)); do wait_until test -s "shell.$rank"; done
}

# SHELL...: prints the processes of these shells, and those that they have started: tasks, guards, prologs.
processes_of() {
  local rank pid
  for rank; do
    pid=$(<"shell.$rank")
    echo "$pid"
    pgrep -P "$pid"
  done
}

none_there() { # PID...
  local pid
  for pid; do
    [ ! -e "/proc/$pid" ] || { echo "still there:"; cat "/proc/$pid/stat"; return 1; }
  done
}

leave() { # SHELLS AS-A-LIST
  local pids
  # shellcheck disable=SC2086
  mapfile -t pids < <(processes_of $2)
  [ "${#pids[@]}" -gt 2 ] || return 1
  "$front" shrink --quiet --shells="$1" || return 1
  none_there "${pids[@]}"
}

# bats test_tags=long
@test "20 times: a leaf that shell 0 has started" {
  local rank
  start_known 21 --arity=32
  for ((rank = 20; rank > 0; --rank)); do leave "$rank" "$rank" || return; done
  touch go
  ends_with 0
}

# bats test_tags=long
@test "also where the end of a shell takes long, below another shell, for several at once, and for a whole branch" {
  write_last_act 'os.execute ("sleep 0.3")'
  start_known 15 --arity=2 -- --initrc="$PWD/rc.lua"
  leave 14 14
  leave "11-13" "11 12 13"
  leave "1,3-4,7-10" "1 3 4 7 8 9 10"
  touch go
  ends_with 0
}

# bats test_tags=long
@test "a shell whose children stay keeps its process for them, and the answer does not wait for it" {
  start_known 7 --arity=2
  mapfile -t pids < <(pgrep -P "$(<shell.1)" -x sh)
  "$front" shrink --quiet --shells=1
  none_there "${pids[@]}"
  kill -0 "$(<shell.1)"
  leave "3-4" "3 4"
  none_there_soon() { none_there "$(<shell.1)" >/dev/null; }
  wait_until none_there_soon
  touch go
  ends_with 0
}

@test "a Lua plugin that asks sees none either" {
  write_last_act 'os.execute ("sleep 0.3")'
  cat >>rc.lua <<'LUA'
plugin.register { name = "asks", handlers = { { topic = "task.exit", fn = function ()
  if shell.info.rank ~= 0 then return end
  shell.shrink ({ shells = "1-2" }, function (answer)
    local there = os.execute ("kill -0 $(cat shell.1) 2>/dev/null") or os.execute ("kill -0 $(cat shell.2) 2>/dev/null")
    local file = io.open ("answer", "w")
    file:write (answer.gone, " ", tostring (there), "\n")
    file:close ()
  end)
end } } }
LUA
  rm -f ask answer
  idle="[ \$FLUX_TASK_RANK != 0 ] || while [ ! -e ask ]; do sleep 0.2; done; [ \$FLUX_TASK_RANK != 0 ] || exit 0; $idle"
  start_job 4 1 "$idle" --arity=32 -- --initrc="$PWD/rc.lua"
  for rank in 1 2 3; do wait_until test -s "shell.$rank"; done
  touch ask
  wait_until test -s answer
  [ "$(<answer)" = "1-2 nil" ] || { cat answer err; return 1; }
  touch go
  ends_with 0
}

# bats test_tags=long
@test "a shell that stands still at its very end is not confirmed, and the others go on" {
  local code=0
  write_last_act 'os.execute ("touch stands; kill -STOP $PPID")'
  start_known 3 -- --initrc="$PWD/rc.lua"
  "$front" shrink --shells=2 --json >answer 2>said &
  clients=$!
  wait_until test -e stands
  stands_still() { grep -q '^State:.T' "/proc/$(<shell.2)/status"; }
  wait_until stands_still
  wait "$clients" || code=$?
  [ "$code" -eq 1 ]
  [ "$(jq -c '[.gone, .unconfirmed]' answer)" = '["","2"]' ] || { cat answer said; return 1; }
  grep -F "shell 2 on node2 is out of the job, but has not confirmed it" said
  kill -CONT "$(<shell.2)"
  touch go
  ends_with 0
}
