#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the tasks of four hosts use, over ssh: the files are written on the launcher's host, which is not the leader's.
load lib.bash
load jobs.bash

cluster=(4)

r='case $FLUX_TASK_RANK in'

@test "rows of all hosts, a joblog and, from another host, a report: one task touches memory, one is killed" {
  write_job 2 sh -c "$r 3) exec python3 -c 'b = bytearray(300 << 20)';; 6) kill -KILL \$\$;; *) echo x;; esac"
  run launch node3 --usage="$work/u.jsonl" --joblog="$work/j"
  [ "$status" -eq 137 ]
  jq -se '(map(select(.type == "task")) | map([.rank, .host])) == [range(8) | [., "node\(. / 2 | floor)"]]' u.jsonl
  jq -se 'map(select(.type == "node")) | map([.host, .tasks]) == [range(4) | ["node\(.)", 2]]' u.jsonl
  jq -se '.[-1] | .type == "summary" and .ended == 8 and .measures.maxrss.max.rank == 3 and .measures.maxrss.max.host == "node1"
    and .measures.output.sum == 12 and (has("missing") | not)' u.jsonl
  [ "$(tail -n +2 j | sort -n | cut -f1,2,7,8 | sed -n '4p;7p')" = "$(printf '4\tnode1\t0\t0\n7\tnode3\t0\t9')" ]
  nacre node2 report --usage --json last >after
  jq -se '.[0].ended == 8 and (.[0].nodes | length) == 4' after
}

@test "the summary comes out at the launcher, and a host that is lost is named" {
  write_job 1 sh -c "touch \$0/started.\$FLUX_TASK_RANK; $r 2) kill -KILL \$PPID; sleep 100;; *) until test -e \$0/go; do sleep 0.05; done;; esac" "$work"
  limit=150 launch node3 --usage -o tolerate-loss >said 2>&1 &
  job=$!
  wait_until grep -q lost said
  touch go
  wait "$job" || :
  grep -q '^nacre: usage: 3 of 4 tasks ended, .*; not known, as their shell is lost or late: 2$' said
  grep -qE '^nacre: node3 +1 ' said
  run ! grep -qE '^nacre: node2 ' said
}
