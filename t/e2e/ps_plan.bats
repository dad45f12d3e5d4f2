#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre ps --plan: where the tasks of a job that runs are, and why.
load control.bash

# The cells of row $1 of the table in $output, from 0, with one blank between two columns; row 0 has the titles.
row() { tr -s ' ' <<<"${lines[$1]}" | sed 's/^ //'; }

@test "each task's cpus with the reason, as the kernel has them; tasks that are placed alike are together" {
  own=$(python3 -c 'import os; print(len(os.sched_getaffinity(0)))')
  [ "$own" -ge 2 ] || skip "one cpu"
  write_nodes 2 2
  write_jobspec 4 sleep 600
  launch -R R.json -o cpu-affinity=per-task --local=2 >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  wait_until all_sleep
  "$front" ps --plan --json >plan
  [ "$(jq -sc 'map(.rank)' plan)" = '[0,1,2,3]' ] || { cat plan; return 1; }
  while read -r rank pid cpus; do
    [ "$(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$pid/status")" = "$cpus" ] || { cat plan; return 1; }
    grep -zqx "FLUX_TASK_RANK=$rank" "/proc/$pid/environ"
  done < <(jq -r '"\(.rank) \(.pid) \(.cpus)"' plan)
  [ "$(jq -s '[.[] | select(.cpus_now == .cpus and .unset == "" and (.why.cpus | test("1 of the job.s 2 cores$")))] | length' plan)" -eq 4 ] || { cat plan; return 1; }
  run "$front" ps --plan
  [ "$status" -eq 0 ]
  [ "$(row 0)" = "RANK HOST WHAT WHERE WHY" ]
  [[ $(row 1) == "0,2 node[0-1] cpus "*": 1 of the job's 2 cores" ]] || { echo "$output"; return 1; }
  [[ $(row 2) == "1,3 node[0-1] cpus "* ]]
  [ "$("$front" ps --plan --no-fold -q | wc -l)" -eq 4 ]
  # A task that binds itself is shown where it is now.
  pid=$(jq -s '.[] | select(.rank == 1).pid' plan)
  cpus=$(jq -sr '.[] | select(.rank == 0).cpus' plan)
  taskset -pc "$cpus" "$pid" >moved
  run "$front" ps --plan
  grep -q "^1 .*; its process may use $cpus now$" <<<"$output" || { echo "$output"; return 1; }
  "$front" kill last
  ends_with 143
}

# bats test_tags=long
@test "memory, gpus and cards of a machine that is planned for, and that nothing of it is set" {
  python3 "$NACRE_SOURCE_DIR/t/kit/topology_xml.py" --packages 2 --numas 2 --cores 4 --gpus 1 --far-memory >machine.xml
  environment=$(jq -n --arg file "$work/machine.xml" '{PATH: "/usr/bin:/bin", FLUX_HWLOC_XMLFILE: $file}') write_jobspec 4 sleep 600
  write_R 16
  jq '.execution.R_lite[0].children.gpu = "0-3"' R.json >gpus.json
  launch -R gpus.json --local=1 -o cpu-affinity=dry-run,per-task -o gpu-affinity=closest -o nic-affinity=closest -o mem-affinity=bind >out 2>err &
  launcher=$!
  wait_until listed
  run "$front" ps --plan
  [ "$status" -eq 0 ]
  [ "$(row 9)" = "2 node0 cpus 8-11 core 8-11 in l3 2, numa 2, package 1: 4 of the job's 16 cores; not set: dry-run" ] || { echo "$output"; return 1; }
  [ "$(row 10)" = "memory 2 numa 2, where its cpus are" ] || { echo "$output"; return 1; }
  [ "$(row 11)" = "gpus 2 gpu 2 (0000:0b:00.0) at numa 2, where its cpus are" ] || { echo "$output"; return 1; }
  [ "$(row 12)" = "nics mlx5_2:1 mlx5_2:1 (0000:0c:00.0) at numa 2, where its cpus are, behind a PCI switch with gpu 2" ] || { echo "$output"; return 1; }
  "$front" kill last
  ends_with 143
}

# bats test_tags=long
@test "without any option: the cpus that all tasks share, and the job's gpus" {
  write_nodes 1 1
  jq '.execution.R_lite[0].children.gpu = "0-1"' R.json >gpus.json
  write_jobspec 1 sleep 600
  launch -R gpus.json --local=1 >out 2>err &
  launcher=$!
  wait_until listed
  run "$front" ps --plan
  [ "$status" -eq 0 ]
  [[ $(row 1) == "0 node0 cpus "*": all that the job has" ]] || { echo "$output"; return 1; }
  [ "$(row 2)" = "gpus 0,1 all 2 that the job has on the node" ] || { echo "$output"; return 1; }
  "$front" kill last
  ends_with 143
  run "$front" ps --plan "$("$front" jobs -aq --json | jq -r .id)"
  [ "$status" -eq 1 ]
  [[ $output == *"has ended"* ]]
}
