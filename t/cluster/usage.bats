#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the tasks of four hosts use: over ssh the files are written on the launcher's host, which is not the leader's.
load jobs.bash

cluster=(4 --slurm)

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
  write_job 1 sh -c "touch \$0/started.\$FLUX_TASK_RANK; $r 2) kill -KILL \$PPID; sleep 100;; *) until test -e \$0/go; do sleep 0.2; done;; esac" "$work"
  limit=150 launch node3 --usage -o tolerate-loss >said 2>&1 &
  job=$!
  wait_until grep -q lost said
  touch go
  wait "$job" || :
  grep -q '^nacre: usage: 3 of 4 tasks ended, .*; not known, as their shell is lost or late: 2$' said
  grep -qE '^nacre: node3 +1 ' said
  run ! grep -qE '^nacre: node2 ' said
}

# A shell that finds a stand-in for nvidia-smi first, which lists the task of its host, as that has told, with so many MiB as the task's rank
# and one.
write_stand_in() {
  mkdir tools
  cat >tools/nvidia-smi <<END
#!/bin/sh
cd "$work"
echo "\$1" >>"calls.\$(hostname)"
case \$1 in
  --query-gpu=*) echo '0, GPU-8a1c5a6e-2b1f-7c0d-9a51-6f1f0a1b2c3d, 80, 1000, 4000';;
  *) cat "gpu.\$(hostname)" 2>/dev/null || :;;
esac
END
  printf '#!/bin/sh\nPATH=%s/tools:$PATH exec %s "$@"\n' "$work" "$NACRE_SHELL" >shell
  chmod +x tools/nvidia-smi shell
}

# Each host has been asked three times since its task has told.
are_asked() {
  local host
  for host in node0 node1 node2 node3; do
    [ "$(wc -l <"calls.$host")" -ge 6 ] || return 1
  done 2>/dev/null
}

uses_gpus='cd $0; n=$(hostname); echo "$$, GPU-8a1c5a6e-2b1f-7c0d-9a51-6f1f0a1b2c3d, $((FLUX_TASK_RANK + 1))" >new.$n; mv new.$n gpu.$n
  until [ -e go ]; do sleep 0.2; done'

gpus_are_seen() {
  wait_until are_asked
  touch go
  ends_with 0
  jq -se 'map(select(.type == "task")) | map([.rank, .host, .gpu_memory, .gpu_device_use]) == [range(4) | [., "node\(.)", (. + 1) * 1048576, 0.8]]' u.jsonl ||
    { cat u.jsonl said; return 1; }
  jq -se 'map(select(.type == "node") | [.host, .gpus[0].memory_peak]) == [range(4) | ["node\(.)", 1000 * 1048576]]' u.jsonl || { cat u.jsonl; return 1; }
}

@test "what tasks use of GPUs on each host, over ssh" {
  write_stand_in
  write_job 1 sh -c "$uses_gpus" "$work"
  NACRE_SHELL=$work/shell limit=150 launch node3 --usage-gpu --usage="$work/u.jsonl" >said 2>&1 &
  job=$!
  gpus_are_seen
}

@test "what tasks use of GPUs on each host, under srun" {
  write_stand_in
  write_job 1 sh -c "$uses_gpus" "$work"
  NACRE_SHELL=$work/shell limit=150 shells_by_srun -o usage-gpu -o usage="$work/u.jsonl" >said 2>&1 &
  job=$!
  gpus_are_seen
}
