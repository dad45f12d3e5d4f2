#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The end of a job is known and reported even if something else goes wrong: the leader's disk is full; a task fails
# at the moment of Ctrl-C, or of the loss of a shell.
load nodes.bash

start() { exec "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off "$@"; }
all_started() { [ "$(find . -name 'started.*' | wc -l)" -eq 4 ]; }

# The report r.json has each of 4 tasks in one class, and at most one cause.
each_once() {
  jq -e 'def ids: split(",") | map(split("-") | map(tonumber) | if length == 2 then range(.[0]; .[1] + 1) else .[0] end);
    ([.classes[].ranks | ids[]] | sort) == [0, 1, 2, 3] and (.cause | type) == "object"' r.json >/dev/null || { cat r.json; return 1; }
}

# bats test_tags=long,root
@test "the leader's disk is full: warnings, the job goes on, and its exit code is right" {
  needs_root "to mount a file system"
  write_nodes 2 2
  mkdir full
  write_jobspec 4 sh -c 'case $FLUX_TASK_RANK in 1) sleep 0.2; echo no disk >&2; exit 3;; 3) echo other >&2; exit 4;; esac; sleep 0.6; echo $FLUX_TASK_RANK >>ran'
  run unshare -m sh -c 'mount -t tmpfs -o size=4k none full && head -c 4096 /dev/zero >full/fill
    code=0
    "$0" launch --shell="$NACRE_SHELL" --local=2 -j jobspec.json -R R.json -o cpu-affinity=off --report=full/r.json --notify=full/notices || code=$?
    ls full >left
    exit $code' "$NACRE_BUILD_DIR/nacre"
  [[ $output != *"unshare failed"* ]] || skip "no mount namespaces"
  [ "$status" -eq 4 ] || { echo "$status: $output"; return 1; }
  [ "$(sort ran | tr -d '\n')" = 02 ]
  [ "$(grep -c "warn.*full/r.json: No space left on device: the report is not written" <<<"$output")" -eq 1 ] || { echo "$output"; return 1; }
  [ "$(grep -c "warn: exit-notify: cannot write descriptor [0-9]* ($PWD/full/notices): No space left on device" <<<"$output")" -eq 1 ] || { echo "$output"; return 1; }
  [[ $output == *"nacre: exit code 4 (policy max: task 3"* || $output == *"nacre: exit code 4 (policy max: the cause)"* ]] || { echo "$output"; return 1; }
  [ "$(grep -v '^notices$' left)" = fill ] # no half of a report
}

# bats test_tags=root
@test "where the job keeps its own files there is no room either: it ends with its own code" {
  needs_root "to mount a file system"
  write_nodes 1 2
  mkdir full
  write_jobspec 2 sh -c 'if [ $FLUX_TASK_RANK = 1 ]; then echo "{\"message\": \"why\"}" >"$NACRE_ERROR_FILE"; echo it is full >&2; exit 3; fi; sleep 0.3'
  run unshare -m sh -c 'mount -t tmpfs -o size=16k none full && { head -c 16384 /dev/zero >full/fill || :; }
    TMPDIR=$PWD/full exec "$0" launch --shell="$NACRE_SHELL" --local=1 -j jobspec.json -R R.json -o cpu-affinity=off -o exit-timeout=none' "$NACRE_BUILD_DIR/nacre"
  [[ $output != *"unshare failed"* ]] || skip "no mount namespaces"
  [ "$status" -eq 3 ] || { echo "$status: $output"; return 1; }
  [[ $output == *"| it is full"* ]] || { echo "$output"; return 1; }
}

# bats test_tags=long
@test "a task fails at the moment of Ctrl-C: one record a rank, and the code is that of the records" {
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    for round in 1 2 3 4 5 6 7 8; do
      rm -f started.* go
      write_jobspec 4 sh -c 'touch started.$FLUX_TASK_RANK; if [ $FLUX_TASK_RANK = 2 ]; then until [ -e go ]; do sleep 0.1; done; exit 3; fi; exec sleep 30'
      start --local=$shells --arity=2 -o exit-policy=first -o exit-on-error --report=r.json --notify=notices 2>err &
      wait_until all_started
      touch go
      sleep 0.00$((round * 2 % 10))
      kill -INT $! 2>/dev/null || true
      code=0
      wait $! || code=$?
      each_once
      # Task 2 may have failed by itself, or by the signal.
      case $(jq -r '.cause.record // "none"' r.json):$code in
        x3:3 | none:130 | s2:130) ;;
        *) echo "$shells $round: exit code $code: $(cat err r.json)"; return 1 ;;
      esac
      [ "$(tail -n 1 notices | jq -c '[.end, .code]')" = "[1,$code]" ] || { cat notices; return 1; }
    done
  done
}

# bats test_tags=long
@test "a task fails while a shell is lost: one record a rank, one cause" {
  write_nodes 4 1
  for rank in 0 1 3; do
    rm -f started.*
    write_jobspec 4 sh -c "touch started.\$FLUX_TASK_RANK; until [ \$(ls started.* | wc -l) = 4 ]; do sleep 0.02; done
      case \$FLUX_TASK_RANK in 2) kill -KILL \$PPID;; $rank) exit 3;; esac; exec sleep 30"
    code=0
    (start --local=4 --arity=2 -o lost-after=2s -o exit-on-error --report=r.json --notify=notices 2>err) || code=$?
    each_once
    # Either may be first: a shell that is lost later has been ended.
    jq -e 'if .cause.record == "l" then .cause.rank == 2 else .cause.record == "x3" end' r.json || { cat r.json; return 1; }
    # A task that has failed by itself counts even if the loss was first.
    case $(jq -r '.cause.record + ":" + (any(.classes[]; .record == "x3") | tostring)' r.json):$code in
      x3:*:3 | l:false:1 | l:true:3 | x3:*:1) ;;
      *) echo "$rank: exit code $code: $(cat err r.json)"; return 1 ;;
    esac
    [ "$(tail -n 1 notices | jq -c '[.end, .code]')" = "[1,$code]" ] || { cat notices; return 1; }
  done
}
