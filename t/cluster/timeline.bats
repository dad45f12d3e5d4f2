#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The timeline of a job on four hosts, over ssh: the files are written on the launcher's host, which is not the leader's.
load jobs.bash

cluster=(4)

is() { # FILTER: it is true of the trace
  jq -e "def named(\$ph; \$name): [.traceEvents[] | select(.ph == \$ph and .name == \$name)]; $1" t.json >/dev/null ||
    { echo "not so: $1"; jq -c .otherData t.json; return 1; }
}

slow='case $(hostname) in node2) sleep 0.8;; esac'

@test "a host whose prolog is slow is named as the last, at the launcher" {
  write_job 2 true
  launch node3 --timeline -o prolog="$slow" >said 2>&1
  grep -qE '^nacre: launch [0-9.]+ (ms|s): ssh [0-9.]+ \(slowest node[1-3] [0-9]+\), join ' said
  grep -qE 'prolog [0-9]+ \(slowest node2 [0-9]+\), ready barrier [0-9.]+ \(last: node2, its prolog took [0-9]+\), spawn' said
}

@test "the trace comes to the launcher's host and keeps the rules of its format; arrows come from the slow host" {
  write_job 2 sh -c 'echo x'
  launch node3 --timeline="$work/t.json" -o prolog="$slow"
  python3 "$NACRE_SOURCE_DIR/t/kit/trace_check.py" t.json
  is 'named("M"; "process_name") | map(.args.name) == [range(4) | "node\(.) (shell \(.))"]'
  is 'named("X"; "run") | map(.pid) | sort == [1, 1, 2, 2, 3, 3, 4, 4]'
  is 'named("s"; "ready barrier") | length == 3 and all(.pid == 3)'
  is '[.traceEvents[] | select(.ph == "b" and (.name | startswith("ssh node")))] | length == 3'
  is '.otherData.clocks | length == 3 and all((.measured_offset_us | fabs) <= .measured_uncertainty_us)'
}

@test "nacre timeline from another host, and a host that is lost is named" {
  write_job 1 sh -c "case \$FLUX_TASK_RANK in 2) touch \$0/started; until test -e \$0/asked; do sleep 0.2; done; kill -KILL \$PPID; sleep 100;;
    *) until test -e \$0/go; do sleep 0.2; done;; esac" "$work"
  limit=150 launch node3 --timeline="$work/t.json" -o tolerate-loss >said 2>&1 &
  job=$!
  wait_until test -e started
  wait_until eval 'nacre node2 timeline >now'
  grep -q '^launch ' now
  touch asked
  wait_until grep -q lost said
  touch go
  wait "$job" || :
  python3 "$NACRE_SOURCE_DIR/t/kit/trace_check.py" t.json
  is '.otherData.lost == [{"shell": 2, "host": "node2"}]'
}
