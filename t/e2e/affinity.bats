#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Placements as users see them: cpus, memory, gpus and network cards of each task, in the plan and for real. Machines that are not
# at hand are files that t/kit/topology_xml.py makes, in FLUX_HWLOC_XMLFILE.
load lib.bash

# machine TASKS CORES GPUS ARGUMENT...: a job of TASKS tasks on all cores (0-CORES) and gpus (0-GPUS, none if empty)
# of that machine.
machine() {
  local tasks=$1 cores=$2 gpus=$3
  shift 3
  python3 "$NACRE_SOURCE_DIR/t/kit/topology_xml.py" "$@" >machine.xml
  environment=$(jq -n --arg file "$work/machine.xml" '{PATH: "/usr/bin:/bin", FLUX_HWLOC_XMLFILE: $file}') write_jobspec "$tasks" true
  write_R "$((cores + 1))"
  [ -z "$gpus" ] || { jq --arg gpus "0-$gpus" '.execution.R_lite[0].children.gpu = $gpus' R.json >gpus.json && mv gpus.json R.json; }
  nacre=("$NACRE_SHELL" --standalone -j jobspec.json -R R.json)
}

# Those lines of the plan about task $1 that begin with $2.
of_task() { sed -n "/^task $1 /,/^\$/p" <<<"$output" | sed -n "s/^  \($2.*\)/\1/p" | tr -s ' '; }

explain() { run --separate-stderr "${nacre[@]}" --explain "$@"; [ "$status" -eq 0 ] || { echo "$output$stderr"; return 1; }; }

@test "the plan has each task's cpus with the reason, at each level" {
  machine 4 15 "" --packages 2 --numas 2 --l3s 2 --cores 2 --threads 2
  explain -o cpu-affinity=dry-run,per-task
  [ "$(of_task 1 plan)" = "plan cpus core 4-7, 2 threads each over l3 2-3, in numa 1, package 0: 4 of the job's 16 cores" ] || { echo "$output"; return 1; }
  explain -o cpu-affinity=dry-run,per-task:package
  [ "$(of_task 3 plan)" = "plan cpus core 8-15, 2 threads each over l3 4-7, numa 2-3, in package 1: 1 of the job's 2 packages, shared with 1 other task" ] || { echo "$output"; return 1; }
  explain -o cpu-affinity=dry-run,per-task:l3
  [ "$(of_task 0 plan)" = "plan cpus core 0-3, 2 threads each over l3 0-1, in numa 0, package 0: 2 of the job's 8 l3" ] || { echo "$output"; return 1; }
  explain -o cpu-affinity=dry-run,per-task:thread
  [[ $(of_task 2 plan) == *"8 of the job's 32 threads" ]]
  [[ $stderr == *"cpu-affinity: task 2: cpus: 8-11,24-27"* ]]
}

@test "cores without a task are named" {
  machine 3 7 "" --packages 4 --cores 2
  explain -o cpu-affinity=dry-run,per-task
  grep -qF "plan    cpus    6-7 of the job have no task, as its share would span several sets" <<<"$output" || { echo "$output"; return 1; }
  [[ $stderr == *"cpus of no task: 6-7"* ]]
}

# bats test_tags=long
@test "gpus, cards and memory are those near the cpus, with the reasons" {
  machine 4 15 3 --packages 2 --numas 2 --cores 4 --gpus 1 --far-memory
  explain -o cpu-affinity=dry-run,per-task -o gpu-affinity=closest -o nic-affinity=closest -o mem-affinity=bind
  [ "$(of_task 2 plan)" = "plan cpus core 8-11 in l3 2, numa 2, package 1: 4 of the job's 16 cores
plan memory numa 2, where its cpus are
plan gpus gpu 2 (0000:0b:00.0) at numa 2, where its cpus are
plan nics mlx5_2:1 (0000:0c:00.0) at numa 2, where its cpus are, behind a PCI switch with gpu 2" ] || { echo "$output"; return 1; }
  [ "$(of_task 2 'env *.CUDA_VIS')" = "env +CUDA_VISIBLE_DEVICES='2'" ] || { echo "$output"; return 1; }
  [ "$(of_task 2 'env *.NACRE_NICS')" = "env +NACRE_NICS='mlx5_2:1'" ]
}

# bats test_tags=long
@test "the installed initrc gives the libraries of a task its cards; what the user has set stays" {
  machine 2 7 "" --packages 2 --cores 4 --gpus 1
  jq '.attributes.system.environment.NCCL_IB_HCA = "mine"' jobspec.json >j && mv j jobspec.json
  near() { explain --initrc="$NACRE_SOURCE_DIR/etc/lua.d/nic-affinity.lua" -o cpu-affinity=dry-run,per-task "$@"; }
  near -o nic-affinity=closest
  [ "$(of_task 1 'env' | grep -E 'UCX|NCCL|FI_|NICS')" = "env +FI_VERBS_DEVICE_NAME='mlx5_1'
env +NACRE_NICS='mlx5_1:1'
env +UCX_NET_DEVICES='mlx5_1:1'" ] || { echo "$output"; return 1; }
  [[ $output != *NCCL_IB_HCA=* ]]
  near -o nic-affinity=off
  [[ $output != *UCX_NET* && $output != *NACRE_NICS* ]]
  near
  [[ $output != *UCX_NET* && $output != *NACRE_NICS* ]]
  machine 1 7 "" --packages 2 --cores 4 --gpus 1 --network eth
  near -o nic-affinity=closest
  [ "$(of_task 0 'env' | grep -E 'UCX|NCCL|FI_|NICS')" = "env +NACRE_NICS='eth0,eth1'
env +NCCL_SOCKET_IFNAME='=eth0,eth1'
env +UCX_NET_DEVICES='eth0,eth1'" ] || { echo "$output"; return 1; }
}

@test "what cannot be is refused in one line, with what the node has and the remedy" {
  machine 2 3 2 --cores 4 --gpus 2 --network none
  dry=(-o "cpu-affinity=dry-run,per-task")
  run nacre --explain "${dry[@]}" -o gpu-affinity=closest
  run_said 1 "gpu-affinity: closest: the job has gpu 2 of this node, of which hwloc sees 2 (0-1); use gpu-affinity=per-task"
  run nacre --explain "${dry[@]}" -o nic-affinity=closest
  run_said 1 "nic-affinity: closest: hwloc sees no network card on this node that is up; use nic-affinity=off"
  run nacre --explain -o cpu-affinity=sideways
  run_said 1 "cpu-affinity: expected on, off, per-task, per-task:LEVEL (thread, core, l3, numa, package) or map:LIST"
  run nacre --explain -o cpu-affinity=per-task:socket
  run_said 1 "per-task:LEVEL (thread, core, l3, numa, package)" 'got "per-task:socket"'
  nacre+=(-o cpu-affinity=off)
  run nacre --explain -o mem-affinity=on
  fails_with 1 'mem-affinity: expected bind, prefer, interleave or off, got "on"'
  run nacre --explain -o nic-affinity=near
  fails_with 1 'nic-affinity: expected closest or off, got "near"'
  run nacre --explain -o gpu-affinity=per-task:numa
  fails_with 1 "gpu-affinity: expected on, off, per-task, closest, prefer-closest or map:LIST"
}

# bats test_tags=long
@test "a topology file that is wrong is one line" {
  machine 1 3 "" --cores 4
  echo '<topology version="2.0"><object type="Machine"' >machine.xml
  run nacre -o cpu-affinity=per-task
  fails_with 1 "FLUX_HWLOC_XMLFILE: $work/machine.xml: no topology of hwloc"
  echo 'no xml' >machine.xml
  run nacre -o cpu-affinity=per-task
  fails_with 1 "FLUX_HWLOC_XMLFILE: $work/machine.xml: no topology of hwloc"
  : >machine.xml
  run nacre -o nic-affinity=closest -o cpu-affinity=off
  fails_with 1 "FLUX_HWLOC_XMLFILE: $work/machine.xml: no topology of hwloc"
  rm machine.xml
  run nacre -o cpu-affinity=per-task
  fails_with 1 "FLUX_HWLOC_XMLFILE: cannot read the topology $work/machine.xml: No such file or directory"
}

# bats test_tags=long
@test "a topology file that crashes hwloc, and one without what is asked for, are one line" {
  machine 1 3 "" --cores 4 --gpus 1
  cp machine.xml good.xml
  sed 's/\(type="Core" cpuset="[^"]*"\) complete_cpuset="[^"]*"/\1/' good.xml >machine.xml
  run nacre -o cpu-affinity=per-task
  fails_with 1 "FLUX_HWLOC_XMLFILE: $work/machine.xml: no topology of hwloc"
  sed 's/\(type="NUMANode".*\) nodeset="[^"]*"/\1/' good.xml >machine.xml
  run nacre -o cpu-affinity=per-task -o mem-affinity=bind
  fails_with 1 "FLUX_HWLOC_XMLFILE: $work/machine.xml: no topology of hwloc"
  sed 's/\(type="OSDev".*\) name="[^"]*"/\1/' good.xml >machine.xml
  run nacre -o cpu-affinity=off -o nic-affinity=closest
  fails_with 1 "hwloc sees no network card on this node that is up"
  sed 's/type="Package" cpuset="[^"]*"/type="Package" cpuset=""/' good.xml >machine.xml
  run nacre -o cpu-affinity=per-task
  fails_with 1 "hwloc.topology: hwloc sees no cores"
}

# bats test_tags=long
@test "mem-affinity is the task's policy, as the kernel has it" {
  [ -r /proc/self/numa_maps ] || skip "a kernel without NUMA"
  prepare 1 sh -c 'grep -oE " (bind|prefer|interleave|default)[^ ]*" /proc/self/numa_maps | sort -u'
  nacre=("$NACRE_SHELL" --standalone -j jobspec.json -R R.json -o cpu-affinity=off)
  nodes=$(cat /sys/devices/system/node/has_memory)
  for policy in bind interleave; do
    run nacre -o mem-affinity=$policy
    [ "$status" -eq 0 ]
    [ "$output" = " $policy:$nodes" ] || { echo "$output"; return 1; }
  done
  run nacre -o mem-affinity=prefer
  [[ $output == " prefer"*":$nodes" ]]
  for off in off false; do
    run nacre -o mem-affinity=$off
    [ "$output" = " default" ]
  done
  run nacre --explain -o mem-affinity=bind
  grep -qx "  memory  bind $nodes" <<<"$output"
}

@test "a kernel that refuses the policy is named, with the policy" {
  [ ! -e /sys/devices/system/node/node7 ] || skip "a machine of eight NUMA nodes"
  machine 1 0 "" --cores 4
  # The topology of another machine: this one lacks its only NUMA node.
  sed -i -E '/NUMANode/s/os_index="0"/os_index="7"/; s/nodeset="0x00000001"/nodeset="0x00000080"/g' machine.xml
  run nacre -o mem-affinity=bind
  fails_with 126 "task 0: cannot set the memory policy to bind 7: Invalid argument (is it one of Mems_allowed_list in /proc/self/status?)"
}

@test "nic-affinity on this machine: the interface that is up" {
  found=$(for each in /sys/class/net/*/device; do name=${each%/device}; name=${name##*/}; [ "$(cat "/sys/class/net/$name/operstate")" = down ] || echo "$name"; done 2>/dev/null | sort | paste -sd,)
  [ -n "$found" ] && [ ! -d /sys/class/infiniband ] || skip "no network card that is up, or RDMA devices"
  prepare 1 sh -c 'echo "$NACRE_NICS" | tr , "\n" | sort | paste -sd,'
  run nacre -o nic-affinity=closest
  [ "$status" -eq 0 ]
  [ "$output" = "$found" ] || { echo "$output, not $found"; return 1; }
}

@test "run --cpu-bind and --mem-bind are short for cpu-affinity and mem-affinity" {
  options_of() { "$NACRE_BUILD_DIR/nacre" run --dry-run "$@" true | jq -c '.attributes.system.shell.options | {"cpu-affinity", "mem-affinity"}'; }
  [ "$(options_of --cpu-bind=l3 --mem-bind=prefer)" = '{"cpu-affinity":"per-task:l3","mem-affinity":"prefer"}' ]
  [ "$(options_of -c 1 --cpu-bind=numa)" = '{"cpu-affinity":"per-task:numa","mem-affinity":null}' ]
  [ "$(options_of -c 1)" = '{"cpu-affinity":"per-task","mem-affinity":null}' ]
  [ "$(options_of -c 1 --cpu-bind=none)" = '{"cpu-affinity":"off","mem-affinity":null}' ]
  run "$NACRE_BUILD_DIR/nacre" run --cpu-bind=socket true
  [ "$status" -eq 2 ]
  [[ $output == *"--cpu-bind: expected thread, core, l3, numa, package or none, got 'socket'"* ]]
}

@test "run -c 1: one core, however many there are" {
  threads=$(tr , '\n' </sys/devices/system/cpu/cpu0/topology/thread_siblings_list | wc -l)
  [ "$("$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -n 1 -c 1 nproc)" -le "$threads" ]
}

@test "hwloc is loaded only by what needs it" {
  prepare 1 true
  nacre=("$NACRE_SHELL" --standalone -j jobspec.json -R R.json)
  loads() { LD_DEBUG=files run "${nacre[@]}" "$@"; [ "$status" -eq 0 ]; grep -c 'calling init:.*libhwloc' <<<"$output" || true; }
  [ "$(loads)" = 0 ]
  [ "$(loads -o cpu-affinity=per-task)" = 0 ]
  [ "$(loads -o cpu-affinity=per-task:numa -o mem-affinity=bind)" = 0 ]
  [ "$(loads -o hwloc.xmlfile)" -gt 0 ]
}
