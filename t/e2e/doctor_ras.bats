#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre doctor: what NCCL's RAS says, by a stand-in.
load control.bash

all_there() { [ "$(find . -maxdepth 1 -name 'there.*' | wc -l)" -eq 3 ]; }

# Starts three ranks, of which the first answers as NCCL's RAS, with the case $1.
start_ranks() {
  local port
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  start_job 1 3 "export NCCL_RAS_ADDR=127.0.0.1:$port; exec python3 $BATS_TEST_DIRNAME/doctor_ras.py $1" "${@:2}"
  wait_until 60 all_there
}

# The output of the doctor has a line that matches.
shows() { grep -qE -- "$1" <<<"$output" || { echo "no line: $1"; echo "$output"; return 1; }; }

behind="^=> rank 1 \\(node0\\), rank 1 of NCCL's communicator 0xae94423cfbb2ef4a( of 3 ranks)?, may keep others waiting: by NCCL's RAS, twice, 41 AllReduce have been launched there, and 42 by 2 others\$"

@test "a rank that has launched fewer operations is named, by JSON and by text" {
  for how in lags text; do
    start_ranks $how
    run "$front" doctor --twice=0.3 "$id"
    [ "$status" -eq 0 ]
    shows "$behind"
    [[ $output != *note:* ]] || { echo "$output"; return 1; }
    stop_job
    rm -f there.* pid.*
  done
}

@test "ranks in good health, and those that get on, have no such finding" {
  for how in healthy on; do
    start_ranks $how
    run "$front" doctor --json --twice=0.3 "$id"
    [ "$status" -eq 0 ]
    [ "$(jq '[.verdicts[] | select(.kind == "collective")] | length' <<<"$output")" -eq 0 ] || { echo "$output"; return 1; }
    [ "$(jq '.notes | length' <<<"$output")" -eq 0 ] || { echo "$output"; return 1; }
    stop_job
    rm -f there.* pid.*
  done
}

# bats test_tags=long
@test "a server that says nothing, or something else, and one that is not there" {
  start_ranks mute
  run "$front" doctor --twice=0.3 "$id"
  [ "$status" -eq 0 ]
  shows "^note: node0: NCCL's RAS has not answered within 8 s$"
  stop_job
  rm -f there.* pid.*
  start_ranks nonsense
  run "$front" doctor --twice=0.3 "$id"
  shows "^note: node0: the answer of NCCL's RAS is not read: it does not begin with its protocol$"
  stop_job
  start_job 1 1 'export NCCL_RAS_ADDR=127.0.0.1:1; exec sleep 600'
  wait_until all_sleep
  run "$front" doctor --twice=0.3 "$id"
  [ "$status" -eq 0 ]
  [[ $output != *note:* ]] || { echo "$output"; return 1; }
  stop_job
}

# bats test_tags=long
@test "hang-watch: what NCCL's RAS says is in its report" {
  start_ranks lags --hang-watch=2s,kill --report=report.json
  ends_with 124
  grep -qE "$behind" err || { cat err; return 1; }
  jq -e '[.timeline[] | select(.event == "hang") | .found.verdicts[] | select(.kind == "collective") | .ranks] == ["1"]' report.json
}
