#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre run --pretend: jobs on a made-up machine.
load lib.bash

front=$NACRE_BUILD_DIR/nacre
run_job() { "$front" run --shell="$NACRE_SHELL" "$@"; }

# bats test_tags=long
@test "tasks on made-up nodes: taskmap, hosts of R, gpus as they would be; not bound" {
  run_job --pretend=4x2c2g -N4 -n8 -g1 -o gpu-affinity=per-task -o cpu-affinity=per-task -l \
    sh -c 'echo "$FLUX_TASK_LOCAL_ID $CUDA_VISIBLE_DEVICES $(grep Cpus_allowed_list /proc/self/status)"' >out 2>err
  [ "$(head -n1 err)" = "nacre run: made-up nodes on this host: 4 of 4, each of 2 cores and 2 gpus; tasks are not bound" ]
  own=$(grep Cpus_allowed_list /proc/self/status)
  for rank in 0 1 2 3 4 5 6 7; do
    grep -qxF "$rank: $((rank % 2)) $((rank % 2)) $own" out || { cat out err; return 1; }
  done
  [ "$("$front" jobs -a --json | jq -c '[.shells, .tasks, .notes]')" = '[4,8,["on a made-up machine: 4x2c2g"]]' ]
  "$front" report last | grep -qx 'on a made-up machine: 4x2c2g'
}

@test "the job's nodes have made-up names, for templates and for plugins" {
  run_job --pretend=3x1c -N3 --output='o.{{node.name}}' true 2>err || { cat err; return 1; }
  run_job --pretend=3x1c -N2 -o verbose=0 --explain=all true >plan
  grep -qx 'shells    2 of 2: pretend\[0-1\]' plan
}

@test "the plan is the made-up machine's: cores, threads, NUMA nodes, gpus near them" {
  run_job --pretend=2x2p4c2t2g -N2 -n4 -c4 -g1 --explain=all -o cpu-affinity=per-task -o mem-affinity=bind -o gpu-affinity=closest true >plan 2>err
  # Each of two tasks of a node has a package: 4 cores of 2 threads, its NUMA node and its gpu.
  for rank in 0 2; do
    sed -n "/^task $rank /,/^\$/p" plan >task
    grep -q 'cpus    0-7$' task
    grep -qE 'memory  .*0' task
    grep -q "CUDA_VISIBLE_DEVICES='0'" task
  done
  for rank in 1 3; do
    sed -n "/^task $rank /,/^\$/p" plan >task
    grep -q 'cpus    8-15$' task
    grep -q "CUDA_VISIBLE_DEVICES='1'" task
  done
  # The job also runs, though this host has no such cores.
  run_job --pretend=2x2p4c2t2g -N2 -n4 -c4 -g1 -o cpu-affinity=per-task -o mem-affinity=bind -o gpu-affinity=closest -q \
    sh -c 'echo $CUDA_VISIBLE_DEVICES' >out 2>err
  [ "$(sort out | xargs)" = "0 0 1 1" ]
  [ ! -s err ]
}

@test "-c and -g: each task gets just so many, of its part of the node and near each other; R has no more" {
  # "R's cores; each task's cpus", and the same of gpus, of a node of two packages of 4 cores and 2 gpus.
  cpus() {
    run_job --pretend=1x2p4c4g "$@" --explain=all true >plan 2>err || { cat err; return 1; }
    echo "$(sed -n 's/^cores  *//p' plan); $(sed -nE 's/^ +cpus +([0-9,-]+)$/\1/p' plan | xargs)"
  }
  gpus() { echo "$(sed -n 's/^gpus  *//p' plan); $(sed -nE "s/^ +env .*CUDA_VISIBLE_DEVICES='(.*)'/\1/p" plan | xargs)"; }
  [ "$(cpus -n 1 -c 1 -g 1)" = "0; 0" ]
  [ "$(gpus | cut -d';' -f1)" = 0 ]
  [ "$(cpus -n 3 -c 1 -g 1)" = "0,2,4; 0 2 4" ]
  [ "$(gpus)" = "0-2; 0 1 2" ]
  [ "$(cpus -n 2 -c 3 -g 1 -o gpu-affinity=closest)" = "0-2,4-6; 0-2 4-6" ]
  [ "$(gpus)" = "0,2; 0 2" ]
  [ "$(cpus -n 2 -c 1 -g 1)" = "0,4; 0 4" ]
  [ "$(gpus)" = "0,2; 0 2" ]
  # Of five gpus three are on the first package: the second task has one of its own package. Each task's cpus and
  # gpu are equally near.
  run_job --pretend=1x2p4c5g -n 2 -c 1 -g 1 --explain=all true >plan 2>err
  [ "$(gpus)" = "0,3; 0 3" ]
  run_job --pretend=1x2p4c5g -n 2 -g 1 --explain=all true >plan 2>err
  [ "$(gpus)" = "0,2; 0 2" ]
  grep -q 'gpu 2 by number: all are equally near' plan
  # With --oversubscribe the job keeps the node; tasks that do not fit share it.
  [ "$(cpus -n 2 -c 1 --oversubscribe)" = "0-7; 0 4" ]
  [ "$(cpus -n 5 -c 2 --oversubscribe)" = "0-7; 0 1 2-3 4-5 6-7" ]
  # Without -c the tasks share the node, even if each could have its own part.
  [ "$(cpus -n 2)" = "0-7; " ]
  [ "$(cpus -n 2 -o cpu-affinity=per-task)" = "0-7; 0-3 4-7" ]
  for with in per-task closest; do
    run_job --pretend=1x2p4c4g -n 3 -g 1 -o gpu-affinity=$with -q sh -c 'echo $CUDA_VISIBLE_DEVICES' >out 2>err
    [ "$(sort out | xargs)" = "0 1 2" ]
    run_job --pretend=1x2p4c4g -n 1 -g 1 -o gpu-affinity=$with -q sh -c 'echo $CUDA_VISIBLE_DEVICES' >out 2>err
    [ "$(cat out)" = 0 ]
  done
}

@test "hwloc's file for the tasks is of the made-up machine, and marked as another one's" {
  run_job --pretend=1x2p3c2t -o hwloc.xmlfile sh -c 'echo $HWLOC_THISSYSTEM; grep -c "type=\"PU\"" $HWLOC_XMLFILE; grep -c "type=\"Package\"" $HWLOC_XMLFILE' >out 2>err
  [ "$(xargs <out)" = "0 12 2" ]
}

# bats test_tags=long
@test "many nodes, each a shell of its own: ranks in their order, one exit code" {
  run_job --pretend=16x4c2g -N16 --ntasks-per-node=1 sh -c 'exit $FLUX_TASK_RANK' 2>err || code=$?
  [ "$code" -eq 15 ]
}

@test "what does not fit the made-up machine is refused as on a real one" {
  run run_job -q --pretend=2x2c -n3 -c2 true
  fails_with 1 "jobspec asks for 3 slots of 2 cores; R has room for 2; pretend0 has 2 cores, pretend1 has 2 cores"
  run run_job --pretend=2x2c -N3 true
  fails_with 1 "-N 3, but there are 2 nodes"
}

@test "places elsewhere exclude it; shapes that are none, and the most nodes" {
  for option in --hosts=a --hostfile=h --local=2 --srun --agent=ssh --srun-arg=x; do
    run run_job --pretend=2x2c $option true
    [ "$status" -eq 2 ]
    [[ $output == *"--pretend and ${option%%=*} exclude each other: a made-up machine is on this host"* ]] || { echo "$output"; return 1; }
  done
  run run_job --pretend=64x true
  [ "$status" -eq 2 ]
  [[ $output == *"'64x': at character 4: expected the number of cores of a package; the form is"* ]]
  run run_job --pretend=1025x1c true
  [ "$status" -eq 2 ]
  [[ $output == *"expected 1 to 1024 nodes"* ]]
  run_job --pretend=1024x1c -N1 --explain=all true >plan
  grep -q 'host pretend0' plan
  run run_job --pretend=2x2c -o pretend=3x3c true
  [ "$status" -eq 2 ]
}
