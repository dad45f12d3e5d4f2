#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre doctor: the functions of programs in Python, which the shell reads from their memory.
load control.bash

setup_file() {
  program=$BATS_TEST_DIRNAME/doctor_python.py
  python=$(realpath "$(type -P python3)")
  export program python
  case $("$python" -c 'import sys; print(sys.implementation.name, *sys.version_info[:2])') in
    "cpython 3 11" | "cpython 3 12" | "cpython 3 13") ;;
    *) skip "$python is not Python 3.11, 3.12 or 3.13" ;;
  esac
}

# "(doctor_python.py:LINE\)" for the line whose text is $1.
at() {
  local line
  line=$(grep -nxE " *$1" "$program" | cut -d: -f1)
  [ -n "$line" ] || { echo "no line: $1" >&2; return 1; }
  echo "\\(doctor_python.py:${line/$'\n'*}\\)"
}

# The task $1 is shown with the line $2, an extended regular expression.
shows() {
  "$front" doctor --stacks --ranks --twice=0.3 "$id" >said 2>&1 || return 1
  grep -qE -- "^$1 \([^)]*\) +$2" said
}
comes() { wait_until 60 shows "$@" || { echo "no line of rank $1: $2"; cat said; return 1; }; }

all_sleep_or_run() { [ "$(find . -maxdepth 1 -name 'there.*' | wc -l)" -ge "$1" ]; }

@test "functions, files and lines of what computes, sleeps, waits for a lock and for events" {
  start_job 1 4 "set -- busy sleeps locked asynchronous; shift \$FLUX_TASK_RANK; exec $python $program \$1"
  wait_until 60 all_sleep_or_run 4
  local module
  module="<module> $(at 'globals.*')"
  comes 0 "$module > busy $(at 'Trainer.*') > Trainer.step \(doctor_python.py\) +\(is busy, .*/doctor_python.py:[0-9]+\)$"
  comes 1 "$module > sleeps $(at 'naps..') > sleeps.<locals>.naps $(at 'time.sleep.600.') +\(sleeps "
  comes 2 "$module > locked $(at 'thread.join..') > Thread.join \(threading.py:[0-9]+\)"
  grep -qE "^ +and Thread._bootstrap \(threading.py:[0-9]+\) > .* > locked.<locals>.take $(at 'lock.acquire..  # again')$" said || { cat said; return 1; }
  comes 3 "$module > asynchronous $(at 'asyncio.run.*') > .* > EpollSelector.select \(selectors.py:[0-9]+\) +\(waits for descriptors \(epoll_wait\)"
  [ "$(grep -c '^note:' said)" -eq 0 ] || { cat said; return 1; }
  stop_job
}

@test "the thread that has the interpreter's lock and waits is the one that is shown" {
  start_job 1 1 "exec $python $program holds"
  wait_until 60 all_sleep_or_run 1
  comes 0 "Thread._bootstrap .* > holds.<locals>.pause $(at 'ctypes.*') .*this thread has Python's lock, the GIL, and waits"
  [ "$("$front" doctor --stacks --json "$id" | jq '.groups[0].gil')" = true ]
  stop_job
}

# bats test_tags=long
@test "a program that is no Python but is called so" {
  cp "$(type -P sleep)" python3
  start_job 1 1 "touch there.0; exec ./python3 600"
  comes 0 '.*nanosleep.*sleeps'
  grep -q '^note: node0: the functions of Python are not read: it has no interpreter of Python that exports _PyRuntime$' said || { cat said; return 1; }
  stop_job
}

# bats test_tags=long
@test "hang-watch: the functions of Python are in its report" {
  start_job 1 2 "exec $python $program sleeps" --hang-watch=1s,kill --report=report.json
  ends_with 124
  grep -qE "^2 of 2  0-1 .* > sleeps.<locals>.naps $(at 'time.sleep.600.')" err || { cat err; return 1; }
  jq -r '.timeline[] | select(.event == "hang") | .found.groups[0].stack[-1]' report.json >stack
  grep -qxE "sleeps.<locals>.naps $(at 'time.sleep.600.')" stack || { cat stack; return 1; }
}
