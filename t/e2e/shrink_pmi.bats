#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Shells whose tasks are connected to PMI do not leave, unless that is forced, or the others are to go on without them.
load control.bash
load pmix.bash

client=$BATS_TEST_DIRNAME/pmi_client

setup_file() {
  build_clients stay
  cc -Wall -Wextra -o "$BATS_FILE_TMPDIR/pmi2_stay" "$BATS_TEST_DIRNAME/mpi/pmi2_stay.c" -lpmi2
}

is_in() { for ((rank = 0; rank < $1; ++rank)); do test -e "in.$rank" || return 1; done; }

refused() { # SHELLS, their ranks, the word for them
  run "$front" shrink --shells="$1"
  fails_with 1 "nacre shrink: rank $2 called PMI init and not finalize, and the other ranks would wait for $3: give --force, or start the job with -o fault-tolerance"
}

@test "PMI-1: refused while connected, on a leaf and on an inner shell; after finalize, and forced, they leave, and the others go on" {
  steps="'$client' init touch:in.%r wait:fin.%r finalize touch:out.%r wait:go"
  start_job 4 2 "exec $steps" --arity=2
  wait_until is_in 8
  refused 2 "4-5 on node2 have" them
  refused 1-3 "2-7 on node[1-3] have" them
  touch fin.4
  wait_until test -e out.4
  refused 2 "5 on node2 has" it
  touch fin.5
  wait_until test -e out.5
  [ "$("$front" shrink --shells=2)" = node2 ]
  [ "$("$front" shrink --shells=1 --force)" = node1 ]
  touch fin.0 fin.1 fin.6 fin.7 go
  ends_with 0
  [ -e out.0 ]
  [ -e out.7 ]
  ! grep -F nacre err || return 1
}

# Shell 2 of 4 is killed while 1 and 2 are asked whether they may leave; rank 1 must not. The arguments are options
# of the job.
lost_when_refused() {
  local shell code=0
  rm -f in.* go report
  start_job 4 1 "echo \$PPID >shell.\$FLUX_TASK_RANK; exec '$client' init touch:in.%r wait:go finalize" -o report="$PWD/report" "$@"
  wait_until is_in 4
  shell=$(<shell.2)
  kill -STOP "$shell"
  "$front" shrink --shells=1-2 2>said &
  clients=$!
  sleep 0.5 # less than the order waits
  kill -KILL "$shell"
  wait "$clients" || code=$?
  [ "$code" -eq 1 ] || { cat said err; return 1; }
  grep -qE '^nacre shrink: rank 1(-2)? ' said || { cat said; return 1; }
}

records() { jq -c '[.classes[] | [.record[:1], .ranks]] | sort' report; }

@test "a shell that is lost while an order is refused that would have taken it out is lost as any other" {
  lost_when_refused
  ends_with 1
  grep -F "shell 2 on node2 is lost: it has ended, or cannot be reached; with it task 2" err || { cat err; return 1; }
  [[ $(records) == *'["l","2"]'* ]] || { cat report; return 1; }
  lost_when_refused -o on-lost=go-on
  touch go
  code=0
  wait "$launcher" || code=$?
  [ "$(records)" = '[["l","2"],["x","0-1,3"]]' ] || { cat report err; return 1; }
  ! grep -F "left by nacre shrink" err || return 1
}

@test "a shell that two orders ask for: that one is refused is not decided for the other, under which it leaves when it is lost" {
  start_job 4 1 "echo \$PPID >shell.\$FLUX_TASK_RANK; exec '$client' init touch:in.%r wait:go finalize" -o report="$PWD/report"
  wait_until is_in 4
  kill -STOP "$(<shell.2)"
  "$front" shrink --shells=1-2 2>said &
  clients=$!
  sleep 1 # so that the second order waits for longer
  "$front" shrink --shells=2 --json >answer &
  local second=$! code=0
  wait "$clients" || code=$?
  [ "$code" -eq 1 ] || { cat said err; return 1; }
  kill -KILL "$(<shell.2)"
  wait "$second"
  [ "$(jq -c '[.gone, .unconfirmed]' answer)" = '["2",""]' ] || { cat answer; return 1; }
  touch go
  ends_with 0
  [ "$(records)" = '[["g","2"],["x","0-1,3"]]' ] || { cat report err; return 1; }
}

# Shell 2 of 3 with two tasks each leaves, with the option $1 of shrink, if any; the others pass a barrier and find 4 and 5 dead. More
# options are those of the job.
shell_2_of_3_leaves() {
  steps="'$client' init touch:in.%r wait:go barrier 'cmd=get kvsname=%k key=PMI_dead_processes' has:value=4,5 barrier finalize touch:out.%r"
  start_job 3 2 "exec $steps" "${@:2}"
  wait_until is_in 6
  [ "$("$front" shrink --shells=2 ${1:+"$1"})" = node2 ]
  touch go
  ends_with 0
  for rank in 0 1 2 3; do [ -e out.$rank ]; done
}

# bats test_tags=long
@test "PMI-1: barriers of those that stay go on without those that have been taken out by force, which are in the list of the dead" {
  shell_2_of_3_leaves --force
}

# bats test_tags=long
@test "PMI-1: with fault-tolerance nothing is refused" {
  shell_2_of_3_leaves "" -o fault-tolerance
}

# bats test_tags=long
@test "PMI-2: refused while connected; forced, the others go on" {
  start_job 3 1 "exec '$BATS_FILE_TMPDIR/pmi2_stay'"
  wait_until is_in 3
  refused 1-2 "1-2 on node[1-2] have" them
  [ "$("$front" shrink --shells=2 --force)" = node2 ]
  touch go
  ends_with 0
  [ -e out.0 ] && [ -e out.1 ] && [ ! -e out.2 ]
}

# bats test_tags=long
@test "PMIx: refused while connected; forced, the others go on" {
  cat >rc.lua <<'END'
plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }
END
  start_job 3 1 "exec '$BATS_FILE_TMPDIR/stay' 2" -o pmi=pmix -- --initrc="$PWD/rc.lua"
  wait_until is_in 3
  refused 2 "2 on node2 has" it
  [ "$("$front" shrink --shells=2 --force)" = node2 ]
  touch go
  ends_with 0
  [ -e out.0 ] && [ -e out.1 ] && [ ! -e out.2 ]
}
