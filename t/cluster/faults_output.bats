#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A shell that is lost while tasks write much: MEGABYTES each (64; 1024 in make check-long).
load faults.bash

cluster=(4)
megabytes=${MEGABYTES:-64}

# Each rank writes lines of 1 KiB that begin with its number, the rank on $1 for ever. The shell on $1 is killed
# once some lines have come to the file `out`, or to the launcher's output.
kill_while_written() { # HOST, file or term, OPTION...
  local to=out
  mkdir "$work/$2" && cd "$work/$2" || return
  write_job 1 sh -c 'line="$FLUX_TASK_RANK $(head -c 1021 /dev/zero | tr "\\0" x)"
    if test $FLUX_TASK_RANK = $0; then yes "$line"; else yes "$line" | head -c $(($1 << 20)); fi' "${1#node}" "$megabytes"
  if [ "$2" = file ]; then
    limit=900 begin node3 "${@:3}" -o output.stdout.type=file -o output.stdout.path="$PWD/out"
  else
    limit=900 begin node3 "${@:3}"
    to=said
  fi
  some() { [ "$(stat -c %s "$to" 2>/dev/null || echo 0)" -gt $((megabytes << 18)) ]; }
  wait_until 600 some
  kill_shell "$1"
}

# How many whole lines of rank $1 have come.
lines_of() { cat out said 2>/dev/null | awk -v rank="$1" '$1 == rank && length == 1023 { ++n } END { print n + 0 }'; }

@test "a shell is killed while all tasks write" {
  for to in file term; do
    kill_while_written node1 "$to"
    job_ends_with "@(1|141|143)" "node-failure: shell 1 on node1 is lost"
    nothing_left_after_fence
    rm -f out said
  done
}

@test "the leader is killed while all tasks write" {
  for to in file term; do
    kill_while_written node0 "$to"
    job_ends_with 1 node0
    nothing_left_after_fence
    rm -f out said
  done
}

@test "tolerate-loss: a shell is killed while all tasks write, and no line of the others is lost" {
  for to in file term; do
    kill_while_written node1 "$to" -o tolerate-loss
    job_ends_with 1 "node-failure: shell 1 on node1 is lost"
    for rank in 0 2 3; do [ "$(lines_of "$rank")" -eq $((megabytes << 10)) ] || { echo "rank $rank: $(lines_of "$rank") lines"; return 1; }; done
    [ "$(cat out said 2>/dev/null | grep -v "^nacre" | awk "length != 1023" | wc -l)" -le 1 ] # the line that the lost task was about to write
    nothing_left_after_fence
    rm -f out said
  done
}
