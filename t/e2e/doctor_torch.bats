#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre doctor: the collectives that tasks have called, by dumps of torch's Flight Recorder.
load control.bash

all_listen() { [ "$(find . -maxdepth 1 -name 'there.*' | wc -l)" -eq 4 ]; }

# Starts four ranks on two shells that behave like the case $1, with the options behind.
start_ranks() {
  local how=$1
  shift
  start_job 2 2 "export RANK=\$FLUX_TASK_RANK TORCH_NCCL_TRACE_BUFFER_SIZE=2000
    export TORCH_NCCL_DEBUG_INFO_PIPE_FILE=$work/pipe_ TORCH_NCCL_DEBUG_INFO_TEMP_FILE=$work/dump_
    exec python3 $BATS_TEST_DIRNAME/doctor_torch.py $how" "$@"
  wait_until 60 all_listen
}

# The output of the doctor has a line that matches.
shows() { grep -qE -- "$1" <<<"$output" || { echo "no line: $1"; echo "$output"; return 1; }; }

@test "a rank that lags behind is named, with the collective in which the others wait" {
  start_ranks lags
  for round in 1 2; do # the earlier dump is not taken for a new one
    run "$front" doctor --twice=0.3 "$id"
    [ "$status" -eq 0 ]
    shows '^=> rank 3 \(node1\) is at collective 41 in process group 0 \(default_pg\), and 3 others are at 42: 41 is all_reduce, completed; these wait in all_reduce for 6[5-9] s at least$'
    [[ $output != *note:* ]] || { echo "$output"; return 1; }
  done
  [ "$("$front" doctor --json --twice=0.3 "$id" | jq -r '.verdicts[] | select(.kind == "collective") | .ranks')" = 3 ]
  stop_job
}

@test "a rank that calls another collective is named" {
  start_ranks differs
  run "$front" doctor --twice=0.3 "$id"
  shows '^=> rank 2 \(node1\) is at another collective than others in process group 0 \(default_pg\): number 42 is broadcast of \[\[1024\]\] there, and all_reduce of \[\[1024\]\] in 3 others$'
  stop_job
}

@test "ranks in good health have no such finding" {
  start_ranks healthy
  run "$front" doctor --json --twice=0.3 "$id"
  [ "$status" -eq 0 ]
  [ "$(jq '[.verdicts[] | select(.kind == "collective")] | length' <<<"$output")" -eq 0 ]
  [ "$(jq '.notes | length' <<<"$output")" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(find . -name 'dump_*' | wc -l)" -eq 4 ]
  stop_job
}

# bats test_tags=long
@test "a dump that would run something is refused, and one that does not come is not waited for" {
  start_ranks runs
  run "$front" doctor --twice=0.3 "$id"
  shows "^note: node0: the dump of torch's Flight Recorder is not read: byte [0-9]+: it would run a function of Python, and is refused$"
  [ ! -e it-was-run ]
  stop_job
  rm -f there.* pipe_* dump_*
  start_ranks silent
  run "$front" doctor --twice=0.3 "$id"
  [ "$status" -eq 0 ]
  shows "^note: node0: torch's Flight Recorder has written no dump within 5 s$"
  stop_job
}

# bats test_tags=long
@test "tasks whose pipe nobody reads, or that is none, are not asked" {
  touch "$work/pipe_0.pipe"
  mkfifo "$work/pipe_1.pipe"
  start_job 1 3 "export RANK=\$FLUX_TASK_RANK TORCH_NCCL_DEBUG_INFO_PIPE_FILE=$work/pipe_; exec sleep 600"
  wait_until all_sleep
  run "$front" doctor --twice=0.3 "$id"
  [ "$status" -eq 0 ]
  [[ $output != *note:* ]] || { echo "$output"; return 1; }
  [ ! -s "$work/pipe_0.pipe" ]
  stop_job
}

@test "hang-watch: the rank that lags behind is in its report" {
  start_ranks lags --hang-watch=2s,kill --report=report.json
  ends_with 124
  grep -q '^=> rank 3 (node1) is at collective 41 in process group 0 (default_pg)' err || { cat err; return 1; }
  jq -e '[.timeline[] | select(.event == "hang") | .found.verdicts[] | select(.kind == "collective") | .ranks] == ["3"]' report.json
}
