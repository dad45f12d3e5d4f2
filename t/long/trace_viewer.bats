#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Traces of nacre run --timeline in a real viewer: all that is in the file is drawn, where the file has it.
load ../e2e/lib.bash
load ../e2e/nodes.bash
load ../e2e/control.bash

is_drawn() { # FILE PROCESSES THREADS
  run "$NACRE_SOURCE_DIR/t/long/trace_viewer" "$1"
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [[ $output == *"draws $2 processes, $3 threads, "* ]]
}

@test "each shell, rank and slice of a job of four shells is drawn" {
  job 4 2 'case $FLUX_TASK_RANK in 5) sleep 0.3;; 6) exit 3;; esac; echo $FLUX_TASK_RANK' --timeline=t.json
  [ "$code" -eq 3 ]
  is_drawn t.json 4 12
}

@test "PMI within the run of its rank, counters and spans disturb nothing" {
  write_nodes 2 1
  write_jobspec 2 "$NACRE_SOURCE_DIR/t/e2e/pmi_client" init barrier finalize
  launch -R R.json -o cpu-affinity=off --local=2 --usage -o 'prolog=exit 0' --timeline=t.json
  [ "$(jq '[.traceEvents[] | select(.name == "PMI")] | length' t.json)" -eq 2 ]
  is_drawn t.json 2 4
}

@test "a trace of 512 ranks is drawn, and that of a job which still runs" {
  write_nodes 4 128
  write_jobspec 512 true
  launch -R R.json -o cpu-affinity=off --local=4 --timeline=t.json
  is_drawn t.json 4 516
  start_job 3 1 'until [ -e go ]; do sleep 0.02; done' --timeline=t.json
  "$front" timeline "$id" -o now.json
  touch go
  ends_with 0
  is_drawn now.json 3 6
}

@test "a slice that overlaps with the next one by a rounding is found: the viewer leaves the next one out" {
  job 1 2 true --timeline=t.json
  jq '(first(.traceEvents[] | select(.name == "spawn" and .cat == "task")).dur) += 0.001' t.json >broken.json
  run "$NACRE_SOURCE_DIR/t/long/trace_viewer" broken.json
  [ "$status" -eq 1 ]
  [[ $output == *"not drawn: "*"'run')"* ]]
  run python3 "$NACRE_SOURCE_DIR/t/kit/trace_check.py" broken.json
  [ "$status" -eq 1 ]
  [[ $output == *"a slice that ends after the one around it"* ]]
}

@test "without a browser, and of what is no trace, it says so" {
  job 1 1 true --timeline=t.json
  run env PATH=/nowhere "$(python3 -c 'import sys; print(sys.executable)')" "$NACRE_SOURCE_DIR/t/long/trace_viewer" t.json
  fails_with 1 "trace_viewer: no browser: expected one of chromium, " "\`etc/deps.sh long\` installs it"
  run "$NACRE_SOURCE_DIR/t/long/trace_viewer" /no/such/file
  fails_with 1 "trace_viewer: " "No such file or directory"
}
