#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre run in batch jobs: of Slurm, by sbatch; of PBS and LSF, as far as their environment goes (there is no such manager here: their
# variables and files are made as they document them). And how it shows a job over ssh and srun: JSON lines, the merged plan.
load jobs.bash

cluster=(4 --slurm)

run_job() { nacre "$1" run --shell="$NACRE_SHELL" --timeout=100 "${@:2}"; }
is_over() { [ -z "$("$vcluster" exec node0 squeue -h -j "$1" 2>/dev/null)" ]; }

# A batch script of Slurm with these options of nacre run, on 3 nodes, whose output goes to said, and its standard error to $errors or
# said too. Its id is $id.
submit() {
  printf '#!/bin/sh\n%s\necho "code $?"\n' "'$NACRE_BUILD_DIR/nacre' run --shell='$NACRE_SHELL' --timeout=100 $*" >script
  "$vcluster" exec node0 sbatch --parsable --chdir="$PWD" -N3 --time=5 -o "$PWD/said" -e "$PWD/${errors:-said}" script >id
  id=$(<id)
}

@test "a batch job of Slurm is listed, watched, signalled, and its report is there after it" {
  for way in "" "--hosts=\$(scontrol show hostnames | paste -sd,)"; do
    rm -rf jobs said viewed ready.* go
    # shellcheck disable=SC2016 # for the tasks
    submit "$way" -N 3 --name=batch sh -c '"echo out \$NACRE_TASK_RANK; touch ready.\$NACRE_TASK_RANK; until test -e go; do sleep 0.1; done; echo why >&2; test \$NACRE_TASK_RANK != 1 || exit 3"'
    wait_until 100 test -e ready.0 -a -e ready.1 -a -e ready.2
    wait_until listed node0
    job=$(nacre node0 jobs -q)
    [ "$(nacre node0 jobs --json | jq -c '[.name, .tasks, .shells]')" = '["batch",3,3]' ]
    # shellcheck disable=SC2016
    if [ -z "$way" ]; then
      [ "$(nacre node0 jobs --json | jq -r '.manager | "\(.kind) \(.job)"')" = "slurm $id" ]
      [ "$(nacre node3 ps -q "slurm:$id" | wc -l)" -eq 3 ]
    fi
    # From a host that is none of the job's.
    nacre node3 attach --tail=all -l last >viewed 2>&1 &
    viewer=$!
    wait_until grep -q 'out 2' viewed
    touch go
    code=0
    wait "$viewer" || code=$?
    [ "$code" -eq 3 ] || { cat viewed; return 1; }
    wait_until is_over "$id"
    [ "$(sort viewed | grep ' out ')" = $'0: out 0\n1: out 1\n2: out 2' ] || { cat viewed; return 1; }
    grep -qx "code 3" said || { cat said; return 1; }
    grep -q "; see it again: nacre report $job\$" said || { cat said; return 1; }
    run nacre node3 report "$job"
    [ "$status" -eq 0 ]
    [[ $output == *": rank 1 on node"*"exited with code 3"*"| why"* ]] || { echo "$output"; return 1; }
  done
  nothing_left
}

@test "a batch job of Slurm as lines of JSON" {
  # shellcheck disable=SC2016
  errors=err submit --format=json -N 3 sh -c '"echo \$NACRE_TASK_RANK; test \$NACRE_TASK_RANK != 2 || exit 7"'
  wait_until 100 is_over "$id"
  wait_until grep -qx "code 7" said
  sed -i '/^code 7$/d' said
  [ "$(jq -r 'select(.stream) | .data' said | sort | tr -d '\n')" = 012 ] || { cat said; return 1; }
  [ "$(jq -c 'select(.name == "end").context' said)" = '{"by":"the cause","code":7}' ]
  jq -se 'any(.[]; .name == "failure" and .context.cause.rank == 2 and (.context.cause.host | startswith("node")))' said
  nothing_left
}

# This Slurm sets no variable for the time limit.
@test "a batch job of Slurm is warned before its time is over, which squeue tells" {
  # shellcheck disable=SC2016 # for the task
  printf '#!/bin/sh\n%s -n 1 -o signal.timeleft=52s sh -c "%s"\necho "code $?"\n' "'$NACRE_BUILD_DIR/nacre' run --shell='$NACRE_SHELL'" \
    'trap \"echo warned; exit 0\" USR1; sleep 40 & wait; kill \$!; wait; exit 3' >script
  "$vcluster" exec node0 sbatch --parsable --chdir="$PWD" -N2 --time=1 -o "$PWD/said" script >id
  wait_until 100 is_over "$(<id)"
  grep -qx warned said && grep -qx "code 0" said || { cat said script; return 1; }
  grep -q "signal: the job expires in 5[0-3] s: sending SIGUSR1 to the tasks" said || { cat said; return 1; }
  nothing_left
}

# As in srun --pty bash, where the step has the whole node.
@test "nacre run within a step of Slurm; and where srun has to wait, a line says for what" {
  limit=60 run on node0 srun --quiet --time=2 -N1 -n1 --exclusive bash -c "'$NACRE_BUILD_DIR/nacre' run --shell='$NACRE_SHELL' -n 2 hostname </dev/null"
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(grep -c '^node' <<<"$output")" -eq 2 ] || { echo "$output"; return 1; }
  [[ $output != *"waiting for srun"* ]]
  # Another step has the whole allocation: this one starts once that is over.
  printf '#!/bin/sh\nsrun --quiet sleep 6 &\nsleep 1\nunset SLURM_STEP_ID SLURM_STEPID\n%s\nwait\n' \
    "'$NACRE_BUILD_DIR/nacre' run --shell='$NACRE_SHELL' -N2 -n 2 hostname" >script
  "$vcluster" exec node0 sbatch --parsable --chdir="$PWD" -N2 --ntasks-per-node=1 --exclusive --time=2 -o "$PWD/said" script >id
  wait_until 100 is_over "$(<id)"
  [ "$(grep -c '^node' said)" -eq 2 ] || { cat said; return 1; }
  grep -qx "nacre run: waiting for srun, whose shells are not all there after 2 s: squeue --steps --jobs=$(<id) shows which other steps have its nodes" said ||
    { cat said; return 1; }
  nothing_left
}

# Runs nacre on node0 in an allocation that these variables describe.
in_allocation() { # VARIABLE=VALUE... -- options of nacre run
  local variables=()
  while [ "$1" != -- ]; do variables+=("$1") && shift; done
  shift
  run on node0 env "${variables[@]}" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --timeout=100 "$@"
}

@test "in an allocation of PBS or LSF, by its variables and files, the shells are started by ssh on its nodes" {
  printf 'node0\nnode0\nnode1\nnode1\n' >nodes
  # shellcheck disable=SC2016
  tell='echo $NACRE_TASK_RANK on $(uname -n) ${PBS_JOBID-}${LSB_JOBID-}'
  in_allocation PBS_NODEFILE="$PWD/nodes" PBS_JOBID=12.server PBS_ENVIRONMENT=PBS_BATCH -- --tasks-per-node=2 sh -c "$tell"
  said_lines "0 on node0 12.server" "1 on node0 12.server" "2 on node1 12.server" "3 on node1 12.server"
  in_allocation LSB_DJOB_HOSTFILE="$PWD/nodes" LSB_JOBID=77 -- -N 2 sh -c "$tell"
  said_lines "0 on node0 77" "1 on node1 77"
  in_allocation LSB_MCPU_HOSTS="node2 2 node3 1" LSB_JOBID=77 -- -N 2 sh -c "$tell"
  said_lines "0 on node2 77" "1 on node3 77"
  in_allocation LSB_HOSTS="node3 node3 node1" LSB_JOBID=77 -- -N 2 sh -c "$tell"
  said_lines "0 on node3 77" "1 on node1 77"
  # As many tasks as there are slots, each on the host of its slot.
  in_allocation LSB_HOSTS="node3 node1 node1" LSB_JOBID=77 -- sh -c "$tell"
  said_lines "0 on node3 77" "1 on node1 77" "2 on node1 77"
  [ "$(nacre node0 jobs -a --json | jq -c '[.end.code, .shells]' | sort -u)" = '[0,2]' ]
  in_allocation PBS_NODEFILE="$PWD/none" -- true
  [ "$status" -eq 1 ]
  [[ $output == *"PBS_NODEFILE: "*"/none: No such file"* ]]
  nothing_left
}

@test "over ssh and srun: JSON lines, and nothing but them on standard output" {
  for way in --hosts=node[1-3] --srun; do
    # shellcheck disable=SC2016
    code=0
    run_job node0 "$way" -N 3 --format=json --report=r.json sh -c 'echo o; echo e >&2; test $NACRE_TASK_RANK != 1 || exit 4' >out 2>err || code=$?
    [ "$code" -eq 4 ] || { cat out err; return 1; }
    [ "$(jq -r 'select(.stream) | "\(.rank) \(.stream)"' out | sort | tr '\n' ' ')" = "0 stderr 0 stdout 1 stderr 1 stdout 2 stderr 2 stdout " ]
    [ "$(tail -n 1 out | jq -c '[.name, .context.code]')" = '["end",4]' ]
    jq -e '.exit.code == 4' r.json
    grep -q 'task 1 on node' err
    run run_job node0 "$way" -N 3 -q sh -c 'exit 4'
    [ "$status" -eq 4 ]
    [[ $output != *"nacre: "* ]] || { echo "$output"; return 1; }
  done
  nothing_left
}

@test "over ssh and srun: --explain is one plan of all hosts" {
  for way in --hosts=node[1-3] --srun; do
    run --separate-stderr run_job node0 "$way" -N 3 --explain=all -o kill-timeout=7s touch "$PWD/ran"
    [ "$status" -eq 0 ] || { echo "$output$stderr"; return 1; }
    [ "$(grep -c '^job ' <<<"$output")" -eq 1 ]
    grep -qx 'shells    3 of 3: node\[[0-9,-]*\]' <<<"$output"
    grep -qE '^  command line +kill-timeout="7s"' <<<"$output"
    grep -qE '^  nacre run +exit-timeout.after="failure"' <<<"$output"
    [ "$(grep -c '^task [0-2] (local 0) on node' <<<"$output")" -eq 3 ]
    [ ! -e ran ]
  done
  nothing_left
}

@test "over ssh: where a user's files are is the same on all hosts" {
  echo 'shell.setenv ("SEEN", tostring (os.getenv ("XDG_CONFIG_HOME")) .. " " .. tostring (os.getenv ("XDG_DATA_HOME")))' >rc.lua
  # shellcheck disable=SC2016
  run on node0 env XDG_CONFIG_HOME="$PWD/c" XDG_DATA_HOME="$PWD/d" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --timeout=100 \
    --hosts=node[1-3] --arity=2 -N 3 --initrc="$PWD/rc.lua" sh -c 'echo $NACRE_TASK_RANK $SEEN'
  said_lines "0 $PWD/c $PWD/d" "1 $PWD/c $PWD/d" "2 $PWD/c $PWD/d"
}
