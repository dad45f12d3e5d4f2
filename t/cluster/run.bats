#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre run over several hosts: by ssh, by srun outside of an allocation and within one.
load jobs.bash

cluster=(4 --slurm)

run_job() { on "$1" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --timeout=100 "${@:2}"; }

@test "over ssh: the environment and the directory are the caller's, on all hosts" {
  run run_job node0 --hosts=node[0-3] -n 4 --env=MINE='a b' sh -c 'echo $NACRE_TASK_RANK on $(uname -n): $MINE, $PWD'
  said_lines "0 on node0: a b, $PWD" "1 on node1: a b, $PWD" "2 on node2: a b, $PWD" "3 on node3: a b, $PWD"
  nothing_left
}

# bats test_tags=long
@test "over ssh: a variable of the caller, and none that an outer launcher has left" {
  # shellcheck disable=SC2016 # for the shells on the hosts
  run on node0 env OUTER=x OMPI_COMM_WORLD_RANK=9 SLURM_PROCID=9 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --timeout=100 \
    --hosts=node1,node2 -N 2 sh -c 'echo $(uname -n) $OUTER ${OMPI_COMM_WORLD_RANK-none} ${SLURM_PROCID-none}'
  said_lines "node1 x none none" "node2 x none none"
}

@test "one host that is another one" {
  run run_job node0 --hosts=node2 -n 2 uname -n
  said_lines node2 node2
  run run_job node0 --hosts=node2 sh -c 'exit 9'
  [ "$status" -eq 9 ]
}

# bats test_tags=long
@test "the host that this is one needs no ssh" {
  run run_job node0 --hosts=node0 --agent=/no/such/agent uname -n
  said_lines node0
}

# bats test_tags=long
@test "launch: a jobspec without directory and environment gets the caller's on all hosts" {
  jq -n '{version: 1, resources: [{type: "slot", count: 4, label: "t", with: [{type: "core", count: 1}]}],
    tasks: [{command: ["sh", "-c", "echo $(uname -n) $PWD ${MINE-none}"], slot: "t", count: {per_slot: 1}}],
    attributes: {system: {shell: {options: {"cpu-affinity": "off", "oversubscribe": true}}}}}' >bare.json
  MINE=y run on node0 "$NACRE_BUILD_DIR/nacre" launch --hosts="node[0-1]" --shell="$NACRE_SHELL" --timeout=100 -j bare.json
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(grep -c "^node[01] $PWD " <<<"$output")" -eq 4 ] || { echo "$output"; return 1; }
}

@test "a host that cannot be reached is named, and nothing is left" {
  run run_job node0 --hosts=node1,nowhere -n 2 true
  [ "$status" -eq 1 ] || { echo "exit code $status: $output"; return 1; }
  [[ $output == *nowhere* ]]
  nothing_left
}

# bats test_tags=long
@test "what hosts lack is refused with their names" {
  run run_job node0 --hosts=node[1-2] -n 2 -c 4000 true
  [ "$status" -eq 1 ] || { echo "exit code $status: $output"; return 1; }
  [[ $output == *"node1 has "*" core"*"node2 has "*"or --oversubscribe"* ]] || { echo "$output"; return 1; }
  nothing_left
}

@test "in an allocation of Slurm srun starts the shells" {
  run on node0 salloc --quiet -N3 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N 3 \
    sh -c 'echo $NACRE_TASK_RANK on $(uname -n) ${SLURM_PROCID-none} ${SLURM_STEP_ID-none} ${SLURM_JOB_ID:+has a job}'
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  for rank in 0 1 2; do
    [ "$(grep -c "^$rank on node[0-3] $rank none has a job" <<<"$output")" -eq 1 ] || { echo "$output"; return 1; }
  done
  nothing_left
}

@test "in an allocation of Slurm hosts that are given are reached by ssh" {
  run on node0 salloc --quiet -N2 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --timeout=100 --hosts=node3 uname -n
  [[ $output == *node3* ]] || { echo "exit code $status: $output"; return 1; }
}

@test "--srun outside of an allocation asks for as many nodes as -N" {
  run run_job node0 --srun -N 2 uname -n
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$(grep -c "^node[0-3]$" <<<"$output")" -eq 2 ]
  nothing_left
}

@test "the first interrupt goes to the tasks of all hosts, with their number; a second one ends the job" {
  # shellcheck disable=SC2016 # for the tasks
  run_job node0 --hosts=node[0-3] -n 4 \
    sh -c 'trap "touch got.$NACRE_TASK_RANK" INT; touch ready.$NACRE_TASK_RANK; while :; do sleep 0.1; done' >said 2>&1 &
  job=$!
  wait_until test -e ready.0 -a -e ready.1 -a -e ready.2 -a -e ready.3
  pid=$(pgrep -n -f "^$NACRE_BUILD_DIR/nacre run --shell.*touch got[.][$]NACRE_TASK_RANK") # not another suite's
  kill -INT "$pid"
  wait_until test -e got.0 -a -e got.1 -a -e got.2 -a -e got.3
  kill -INT "$pid"
  code=0
  wait "$job" || code=$?
  [ "$code" -eq 130 ] || { echo "exit code $code"; cat said; return 1; }
  [ "$(grep -c "passed on to the 4 tasks that run; a second one within 2 s ends the job" said)" -eq 1 ] || { cat said; return 1; }
  nothing_left
}
