#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# One host is not as the others: another version of nacre, another time, a full disk.
load faults.bash

cluster=(4 --slurm)
other=$NACRE_BUILD_DIR/t/cluster/nacre-shell-other # speaks another protocol, 99

setup_file() {
  [ -x "$other" ] || { echo "no $other: build the target nacre-shell-other"; return 1; }
  start_cluster && build_hold && cc -shared -fPIC -o "$programs/clock.so" "$NACRE_SOURCE_DIR/t/cluster/clock.c" -ldl
}

# The run failed, and says which hosts have which versions, and what to do.
names_versions() {
  # shellcheck disable=SC2053
  [[ $status == ${codes:-1} ]] || { echo "exit code $status: $output"; return 1; }
  local protocol
  protocol=$(sed -n 's/.* kProtocol = \([0-9]*\);.*/\1/p' "$NACRE_SOURCE_DIR/shell/group/first_words.hpp")
  [ -n "$protocol" ]
  for text in "$@" "protocol ($protocol\\b.*99|99\\b.*\\b$protocol\\b)" "the same version"; do
    grep -qE "$text" <<<"$output" || { echo "no '$text': $output"; return 1; }
  done
  [ ! -e ran ]
}

@test "a shell that was launched refuses the record of another protocol" {
  write_job 1 touch "$PWD/ran"
  replace_shell node2 "$other"
  run launch node3
  names_versions "shell 2 on node2 was not started"
  recover
  replace_shell node0 "$other"
  run launch node3
  names_versions "the launch record"
  recover
  nothing_left
}

@test "shells that meet by PMI refuse each other's protocol" {
  write_job 1 touch "$PWD/ran"
  for host in node2 node0; do
    replace_shell "$host" "$other"
    limit=150 run slurm node3 -N4 --ntasks-per-node=1 --mpi=pmi2 --kill-on-bad-exit=0 "$NACRE_SHELL" "${job_options[@]}"
    # Slurm's PMI server kills the other processes when one ends without `finalize`.
    codes='@(1|137)' names_versions
    recover
    nothing_left
  done
}

# Slurm's own secret file and ports: nothing tells the versions but the first words on a link.
@test "shells that meet on a link only say which version is where" {
  write_job 1 touch "$PWD/ran"
  (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >secret)
  replace_shell node2 "$other"
  local rank pids=()
  for rank in 0 1 2 3; do
    on "node$rank" env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID="$rank" SLURM_NODEID="$rank" SLURM_STEP_NUM_TASKS=4 \
      SLURM_STEP_NODELIST="node[0-3]" "$NACRE_SHELL" --secret-file=secret "${job_options[@]}" >"said.$rank" 2>&1 3>&- &
    pids+=($!)
  done
  for rank in 0 1 2 3; do
    status=0
    wait "${pids[rank]}" || status=$?
    [ "$status" -eq 1 ] || { echo "shell $rank: exit code $status: $(cat "said.$rank")"; return 1; }
  done
  for rank in 0 2; do
    status=1 output=$(cat said.$rank)
    names_versions "shell $((2 - rank)) is of nacre"
  done
  [ ! -e ran ]
  recover
  nothing_left
}

# The time of node $1 is $2 hours ahead, and its uptime $3 days more than that of the others.
shift_clocks() {
  local sanitizer=verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
  wrap_shell "$1" "export LD_PRELOAD=$programs/clock.so CLOCK_AHEAD=$(($2 * 3600)) ASAN_OPTIONS=$sanitizer
exec unshare --time --monotonic $(($3 * 86400)) --boottime $(($3 * 86400)) --fork --kill-child \"\$shell\" \"\$@\""
}

# The times of the events $1 in the eventlog, in hours from now on, rounded.
hours_of() { jq -r --arg now "$(date +%s)" --arg name "$1" 'select(.name == $name) | (.timestamp - ($now | tonumber)) / 3600 | round' events; }

@test "hosts whose clocks are hours and days apart" {
  local client=$NACRE_SOURCE_DIR/t/e2e/pmi_client
  shift_clocks node0 7 30
  shift_clocks node1 -20 0
  shift_clocks node2 0 400
  # Longer than T_fence.
  write_job 1 "$client" init barrier "cmd=put kvsname=%k key=k%r value=v%r" barrier "cmd=get kvsname=%k key=k2" has:value=v2 \
    "3:wait:$PWD/go" barrier finalize
  begin node3 -- --eventlog="$PWD/events"
  files_come events
  sleep 35
  touch go
  job_ends_with 0
  [ ! -s said ]
  [ "$(jq -r .name events | paste -sd' ')" = "shell.init shell.start shell.task-exit shell.exit" ]
  [ "$(hours_of shell.exit)" = 7 ] # the time is that of the leader's host
  recover
  nothing_left
}

@test "a loss is noticed by hosts whose clocks are hours and days apart" {
  shift_clocks node0 -9 3
  shift_clocks node1 100 200
  start_sleepers node3
  "$vcluster" cut node2
  job_ends_with "@(1|143)" "node-failure: shell 2 on node2 is lost"
  wait_until 120 no_tasks "${nodes[@]}"
  recover
  nothing_left_after_fence
}

# Mounts the disk $PWD/full, with 1 MiB of room, on the leader's host.
fill_disk() {
  mkdir full
  "$vcluster" exec node0 mount -t tmpfs -o size=1m tmpfs full
}

job_names() { # the job has failed, and one line names $1; no process is left
  [[ $status == @(1|143) ]] || { echo "exit code $status: $output"; return 1; }
  [ "$(grep -c -- "$1: No space left on device" <<<"$output")" -eq 1 ] || { echo "said: $output"; return 1; }
  "$vcluster" exec node0 umount full
  nothing_left
}

@test "a full disk of the leader: the tasks' output" {
  fill_disk
  write_job 1 sh -c 'test $FLUX_TASK_RANK != 0 || head -c 4000000 /dev/zero; exec sleep 76543'
  run launch node3 -o output.stdout.type=file -o output.stdout.path="$PWD/full/out.%"
  job_names "$PWD/full/out.%"
}

@test "a full disk of the leader: the record of the job" {
  fill_disk
  write_job 1 sh -c 'test $FLUX_TASK_RANK != 0 || yes "a line" | head -c 4000000; exec sleep 76543'
  run launch node3 -o output.stdout.type=kvs -- --record-dir="$PWD/full"
  job_names "$PWD/full/guest.output"
}

# $@ fails within seconds, and names node2, on which the job's program cannot be run.
names_at_once() {
  local began
  began=$(uptime_ms)
  run "$@"
  [[ $status != @(0|124) ]] || { echo "exit code $status: $output"; return 1; }
  [[ $(grep -c "node2: .*execve(): $NACRE_SHELL: Permission denied\|node2: task 2: Exited with exit code 13" <<<"$output") -eq 2 ]] || { echo "said: $output"; return 1; }
  # Without --wait it takes 60 s. Half of that allows for a busy machine.
  (($(uptime_ms) - began < 30000)) || { echo "took $(($(uptime_ms) - began)) ms: $output"; return 1; }
}

@test "a host that cannot run the shell is named by srun, which waits no longer for the others" {
  write_job 1 touch "$PWD/ran"
  touch none
  replace_shell node2 "$PWD/none"
  names_at_once on node3 "$NACRE_BUILD_DIR/nacre" launch --srun -n 4 --shell="$NACRE_SHELL" "${job_options[@]}"
  names_at_once slurm node3 -N4 --ntasks-per-node=1 --mpi=pmi2 --wait=4 "$NACRE_SHELL" "${job_options[@]}"
  [ ! -e ran ]
  recover
  nothing_left
}

@test "tasks that fail give their code under srun, whichever shell leaves first" {
  write_job 1 sh -c 'exit $((FLUX_TASK_RANK + 3))'
  run on node3 "$NACRE_BUILD_DIR/nacre" launch --srun -n 4 --shell="$NACRE_SHELL" "${job_options[@]}"
  [ "$status" -eq 6 ] || { echo "exit code $status: $output"; return 1; }
}

@test "scancel of a batch job blames no node" {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; exec sleep 76543' "$PWD"
  local way id
  for way in "" --srun; do
    rm -f started.* said
    printf '#!/bin/sh\nexec %s\n' "$NACRE_BUILD_DIR/nacre launch $way --shell=$NACRE_SHELL ${job_options[*]}" >script
    "$vcluster" exec node0 sbatch --chdir="$PWD" -N4 --time=5 -o "$PWD/said" script >id
    id=$(grep -o '[0-9]*$' id)
    files_come started.0 started.1 started.2 started.3
    "$vcluster" exec node0 scancel "$id"
    wait_until 100 no_tasks "${nodes[@]}"
    wait_until 100 no_strays
    grep -q "CANCELLED AT" said
    run never_said "node-failure\|is lost"
    [ "$status" -eq 0 ] || { cat said; return 1; }
  done
}

@test "a leader that stands still under srun is named after 10 s, with its host, and that it goes on" {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; until test -e $0/go; do sleep 0.1; done' "$PWD"
  local way
  for way in "$NACRE_BUILD_DIR/nacre launch --srun -n 4 --shell=$NACRE_SHELL" "srun -N4 --ntasks-per-node=1 --mpi=pmi2 $NACRE_SHELL"; do
    rm -f started.* said go
    # shellcheck disable=SC2086 # of several words
    limit=100 on node3 $way "${job_options[@]}" >said 2>&1 3>&- &
    job=$!
    files_come started.0 started.1 started.2 started.3
    kill_shell node0 STOP
    wait_until 100 grep -qE "^nacre-shell\[0\]: shell 0 on node0 has been stopped by a signal for 1[0-9] s" said
    kill_shell node0 CONT
    wait_until 100 grep -qE "^nacre-shell\[0\]: shell 0 on node0 goes on, after 1[0-9] s" said
    touch go
    job_ends_with 0
  done
}
