#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Notices of how tasks end: exit-notify of the shell, --notify of nacre launch.
load nodes.bash

# A job of 4 tasks of the sh script $1, on four shells, with the options behind.
four() {
  write_nodes 4 1
  write_jobspec 4 sh -c "$1"
  launch -R R.json -o cpu-affinity=off --local=4 --arity=2 "${@:2}"
}

# To be called in the background: $! is the launcher itself.
start() { exec "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off "$@"; }

# As above, on one shell, without a launcher.
one() {
  prepare 4 sh -c "$1"
  nacre "${@:2}"
}

# The file $1 has at least $2 lines, which are the notices of a whole job in their order.
whole() {
  [ "$(wc -l <"$1")" -ge "$2" ] || { echo "not $2 lines: $(cat "$1")"; return 1; }
  jq -es 'map(.end) as $ends | ($ends[-1] == 1) and ($ends[:-1] | all(. == 0)) and (.[-1] | .done // .n == .n)
    and ([.[].seq] == [range(1; length + 1)] or .[-1].base == 1)' "$1" >/dev/null || { cat "$1"; return 1; }
}

field() { tail -n 1 "$1" | jq -c "$2"; }

# An agent like ssh: it starts the words here, with a pipe of its own as their standard error.
write_agent() {
  cat >agent <<'END'
#!/bin/bash
set -o pipefail
shift
{ sh -c "$*" 2>&1 >&3 3>&- | cat >&2; } 3>&1
END
  chmod +x agent
}

r='case $FLUX_TASK_RANK in'

@test "all succeed: exactly one line" {
  one true -o exit-notify=notices
  [ "$(cat notices)" = '{"seq":1,"n":4,"d":"x0","x":{},"end":1,"code":0}' ]
  four true --notify=notices
  whole notices 1
  [ "$(wc -l <notices)" -eq 1 ]
}

# bats test_tags=long
@test "a failure on the leader, on an inner shell and on a leaf" {
  for rank in 0 1 3; do
    rm -f notices
    run four "$r $rank) exit 3;; esac; sleep 0.4" --notify=notices
    [ "$status" -eq 3 ]
    whole notices 2
    [ "$(head -n 1 notices | jq -c '[.x.x3, .d, .first, .end]')" = "[\"$rank\",\"r\",$rank,0]" ]
    [ "$(field notices '[.code, .first, .failed, .min, .max, .mean]')" = '[3,null,null,null,null,null]' ]
  done
  rm notices
  run four "$r 1) exit 3;; 2) sleep 0.2; exit 4;; esac" --notify=notices
  [ "$(field notices '[.code, .first, .failed, .min, .max, .mean]')" = '[4,1,2,0,4,1.75]' ]
}

@test "a notice comes within 0.2 s of the failure, after what the task has written" {
  mkfifo fifo
  write_nodes 4 1
  write_jobspec 4 sh -c "$r 3) echo last words >&2; exit 3;; esac; sleep 2"
  start --local=4 --notify=fifo 2>err &
  exec 8<fifo
  read -r line <&8
  grep -q "last words" err
  kill -0 $! # the launcher runs on
  [ "$(jq -c .x <<<"$line")" = '{"x3":"3"}' ]
  wait $! || true
  [ "$(tail -n 1 <&8 | jq -c '[.end, .code]')" = '[1,3]' ]
  exec 8<&-
}

@test "what ends the job, and what it ends" {
  run one "$r 1) sleep 0.1; kill -SEGV \$\$;; esac; exec sleep 30" -o exit-on-error -o exit-notify=notices
  [ "$status" -eq 139 ]
  [ "$(jq -s '[.[] | .x | keys[]] | any(startswith("s11"))' notices)" = true ]
  [ "$(field notices '[.end, .code]')" = '[1,139]' ]
  [ "$(jq -sr 'last.d' notices)" = c/s15 ]
}

# bats test_tags=long
@test "tasks that were not tried any more are in the notices what they are in the report" {
  for shells in 1 4; do
    write_nodes $shells $((40 / shells))
    write_jobspec 40 /no/such # a shell of ten or more does not try them all
    run -127 launch -R R.json -o cpu-affinity=off --local=$shells --notify=notices --report=r.json
    whole notices 1
    [ "$(jq -c '[.classes[] | .record + ":" + .ranks]' r.json)" = '["f127:0-39"]' ]
    jq -es 'all((.x + {(.d): ""}) | keys - ["r", "f127"] == [])' notices || { cat notices; return 1; }
  done
}

# bats test_tags=long
@test "the notices go to a descriptor, which tasks do not get" {
  one 'test ! -e /proc/self/fd/7; exit $?' -o exit-notify=7 7>notices
  whole notices 1
  [ "$(field notices .code)" = 0 ]
  four 'for fd in /proc/$$/fd/*; do case $(readlink $fd) in *notices*) exit 9;; esac; done' --notify=7 7>notices
  whole notices 1
  [ "$(field notices .code)" = 0 ]
  one true -o exit-notify=1 >out
  whole out 1
  four true --notify=1 >out
  whole out 1
  four true --notify=/dev/stdout | cat >out
  whole out 1
}

@test "a descriptor that is not open, or not for writing, is a usage error" {
  run one true -o exit-notify=9
  fails_with 1 "exit-notify: descriptor 9 was not open when the shell was started"
  run one true -o exit-notify=9 9<R.json
  fails_with 1 "exit-notify: descriptor 9 is not open for writing"
  run four true --notify=9
  [ "$status" -eq 2 ]
  [[ $output == *"descriptor 9 is not open"* ]]
  run four true --notify=8 8<R.json
  [ "$status" -eq 2 ]
  [[ $output == *"descriptor 8 is not open for writing"* ]]
}

# bats test_tags=long
@test "a file that cannot be written is one warning, and the job goes on; one that cannot be made is refused" {
  file=/dev/full
  run one "$r 1) exit 3;; esac" -o exit-notify=$file -o exit-report=off
  [ "$status" -eq 3 ]
  [ "$(grep -c "$file" <<<"$output")" -eq 1 ]
  run four "$r 1) exit 3;; esac" --notify=$file -o exit-report=off
  [ "$status" -eq 3 ]
  [ "$(grep -c "$file\|descriptor" <<<"$output")" -eq 1 ]
  for option in -oexit-notify --notify; do
    run four "touch ran" $option=none/notices -o exit-report=off
    [ "$status" -eq 1 ]
    [ "$(grep -c "none/notices: No such file or directory" <<<"$output")" -eq 1 ] || { echo "$output"; return 1; }
    [ ! -e ran ]
  done
}

# bats test_tags=long
@test "a reader that has gone is one warning" {
  mkfifo fifo
  write_nodes 4 1
  write_jobspec 4 sh -c "touch started; until [ -e gone ]; do sleep 0.05; done; $r 1) exit 3;; esac; sleep 0.5"
  exec 7<>fifo
  start --local=4 --notify=fifo -o exit-report=off 2>err 7>&- &
  wait_until test -e started # so the launcher has it open
  exec 7<&-
  touch gone
  code=0
  wait $! || code=$?
  [ "$code" -eq 3 ]
  [ "$(grep -c "Broken pipe" err)" -eq 1 ]
}

# bats test_tags=long
@test "below the threshold only the end is written, in either order of the options" {
  one "$r [01]) exit 3;; esac; sleep 0.4" -o exit-notify.threshold=75% -o exit-notify=notices -o exit-report=off || true
  [ "$(wc -l <notices)" -eq 1 ]
  [ "$(field notices .failed)" = 2 ]
  four "$r [012]) exit 3;; esac; sleep 0.4" --notify=notices -o exit-notify.threshold=3 || true
  whole notices 2
  [ "$(head -n 1 notices | jq -c .x)" = '{"r":"3"}' ]
}

@test "Ctrl-C, twice" {
  write_nodes 4 1
  write_jobspec 4 sh -c 'trap "" INT; touch started.$FLUX_TASK_RANK; sleep 30; sleep 30'
  start --local=4 --notify=notices -o kill-timeout=0.2s 2>err &
  all_started() { [ "$(find . -name 'started.*' | wc -l)" -eq 4 ]; }
  wait_until all_started
  kill -INT $!
  sleep 0.2
  kill -INT $!
  wait $! || true
  [ "$(field notices '[.end, .code, .n, .d[:2], .x]')" = '[1,130,4,"c/",{}]' ]
}

# bats test_tags=long
@test "a shell is lost: its tasks are l" {
  run four "$r 2) kill -KILL \$PPID;; esac; sleep 0.5" -o tolerate-loss -o lost-after=2s --notify=notices
  [ "$status" -eq 1 ]
  [ "$(jq -sc '[.[] | .x.l // empty]' notices)" = '["2"]' ]
  [ "$(field notices '[.end, .code]')" = '[1,1]' ]
}

# bats test_tags=long
@test "a FIFO whose reader stops: the job ends, and what it reads on has all" {
  mkfifo fifo
  write_nodes 1 200
  write_jobspec 200 sh -c 'sleep 0.$((FLUX_TASK_RANK % 10)); exit $((FLUX_TASK_RANK % 256))'
  (exec 8<fifo; sleep 2; cat <&8 >notices) &
  reader=$!
  code=0
  launch -R R.json -o cpu-affinity=off --local=1 --notify=fifo -o exit-report=off || code=$?
  [ "$code" -eq 199 ]
  wait $reader
  [ "$(field notices '[.n, .end, .failed]')" = '[200,1,199]' ]
}

# bats test_tags=long
@test "a leader on another host: notices come back within its standard error, to a file of this host" {
  write_agent
  write_nodes 2 2
  write_jobspec 4 sh -c "$r 2) printf 'no end of line' >&2; exit 3;; esac; sleep 0.4; echo text >&2"
  run -3 launch -R R.json -o cpu-affinity=off --hosts=far,away --agent="$PWD/agent" --notify=notices -o exit-report=off
  whole notices 2
  [ "$(head -n 1 notices | jq -c '[.x.x3, .first]')" = '["2",2]' ]
  [[ $output != *$'\x1e'* && $output != *seq* ]]
  [[ $output == *"no end of line"* ]]
  [ "$(grep -c '^text$\|no end of linetext$' <<<"$output")" -eq 3 ]
  # To a descriptor, and a FIFO.
  launch -R R.json -o cpu-affinity=off --hosts=far,away --agent="$PWD/agent" --notify=7 7>notices 2>/dev/null || true
  [ "$(field notices '[.end, .code]')" = '[1,3]' ]
  mkfifo fifo
  cat fifo >notices &
  launch -R R.json -o cpu-affinity=off --hosts=far,away --agent="$PWD/agent" --notify=fifo 2>/dev/null || true
  wait $!
  [ "$(field notices '[.end, .code]')" = '[1,3]' ]
  # Nobody opens the FIFO: the job's code does not change, and a warning names the FIFO.
  run -3 launch -R R.json -o cpu-affinity=off --hosts=far,away --agent="$PWD/agent" --notify=fifo -o exit-report=off
  [[ $output == *"--notify: fifo: nobody has opened it within 3 s of the job's end"* ]]
}

@test "what else the leader writes to standard error comes unchanged, to a reader that stops, too" {
  write_agent
  write_nodes 1 1
  write_jobspec 1 sh -c 'seq 1 50000 >&2'
  mkfifo err
  (exec 8<err; sleep 1; cat <&8 >text) &
  launch -R R.json -o cpu-affinity=off --hosts=far --agent="$PWD/agent" --notify=notices 2>err
  wait $!
  seq 1 50000 | cmp - text
  [ "$(field notices '[.end, .code]')" = '[1,0]' ]
}

@test "without --notify the standard error of an agent is the launcher's own" {
  write_agent
  cat >agent <<'END'
#!/bin/sh
readlink /proc/self/fd/2 >>agent.stderr
shift
exec sh -c "$*"
END
  write_nodes 2 2
  write_jobspec 4 true
  launch -R R.json -o cpu-affinity=off --hosts=far,away --agent="$PWD/agent" 2>err
  grep -q '/err$' agent.stderr
}

@test "off: nothing is written" {
  one 'exit 3' -o exit-notify=off -o exit-report=off || true
  [ ! -e off ]
}
