#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A shell that is killed at a certain point of its job: what the other shells do, and that nothing of the job is
# left.
load faults.bash

cluster=(4)

setup_file() { start_cluster && build_hold; }

# Shell 3 is held at the topic $1. Once the others have gone as far as they can without it, the shell on $2 is
# killed. The job is launched on node3, with the other arguments as options.
kill_at() {
  mkdir "$work/$1-$2" && cd "$work/$1-$2" || return
  # The end of a task that ends sooner may or may not be known by then.
  local first="until test -e go; do sleep 0.2; done; "
  [ "$1" != shell.finish ] || first=
  write_job 1 sh -c "$first"'echo $FLUX_TASK_RANK is done'
  begin_held node3 "$1" 3 "${@:3}"
  files_come "$1".{0,1,2,3}
  for host in node0 node1 node2; do wait_until waits "$host"; done
  kill_shell "$2"
}

barriers=(shell.init shell.start shell.finish) # the topics before the init, the start and the exit barrier

@test "a shell is killed while it waits at a barrier" {
  for topic in "${barriers[@]}"; do
    kill_at "$topic" node1
    says "node-failure: shell 1 on node1 is lost"
    touch go
    job_ends_with 1
    nothing_left_after_fence
  done
}

@test "a shell is killed while the others wait for it at a barrier" {
  for topic in "${barriers[@]}"; do
    kill_at "$topic" node3
    job_ends_with 1 "node-failure: shell 3 on node3 is lost"
    nothing_left_after_fence
  done
}

@test "the leader is killed while it waits at a barrier" {
  for topic in "${barriers[@]}"; do
    kill_at "$topic" node0
    touch go
    job_ends_with 1 node0
    nothing_left_after_fence
  done
}

@test "tolerate-loss: a shell is killed at a barrier, and the others go through" {
  local topic victim code
  for topic in "${barriers[@]}"; do
    for victim in node1 node3; do
      kill_at "$topic" "$victim" -o tolerate-loss
      says "node-failure: shell ${victim#node} on $victim is lost"
      touch go
      # At shell.finish the leader knows that all tasks have ended well, so nothing of them is lost.
      [ "$topic" = shell.finish ] && code=0 || code=1
      job_ends_with "$code" "^0 is done" "^2 is done"
      [ $victim = node3 ] || grep "^3 is done" said
      nothing_left_after_fence
    done
  done
}

# The shell on node1 is killed while its task has been forked, and has not executed its program.
kill_between_fork_and_exec() {
  write_job 1 sh -c 'touch started.$FLUX_TASK_RANK; until test -e go; do sleep 0.2; done; echo $FLUX_TASK_RANK is done'
  begin_held node3 task.exec 1 "$@"
  files_come task.exec.1
  kill_shell node1
  says "node-failure: shell 1 on node1 is lost"
  touch go
}

@test "a shell is killed between fork and exec of a task" {
  kill_between_fork_and_exec
  job_ends_with "@(1|143)"
  nothing_left_after_fence
  [ ! -e started.1 ]
}

@test "tolerate-loss: a shell is killed between fork and exec of a task" {
  kill_between_fork_and_exec -o tolerate-loss
  job_ends_with 1 "^0 is done" "^2 is done" "^3 is done"
  nothing_left_after_fence
  [ ! -e started.1 ]
}

@test "the tasks of a shell that is killed end too" {
  start_sleepers node3
  kill_shell node1
  job_fails_with "node-failure: shell 1 on node1 is lost"
  wait_until 120 no_tasks "${nodes[@]}"
  nothing_left_after_fence
}

@test "the leader is killed while tasks run" {
  start_sleepers node3
  kill_shell node0
  job_fails_with node0
  wait_until 120 no_tasks "${nodes[@]}"
  nothing_left_after_fence
}

@test "tolerate-loss: the tasks of a shell that is lost give the others no exit-timeout" {
  write_job 1 sh -c 'touch started.$FLUX_TASK_RANK; test $FLUX_TASK_RANK != 1 || exec sleep 76543; until test -e go; do sleep 0.2; done; echo $FLUX_TASK_RANK is done'
  begin node3 -o tolerate-loss -o exit-timeout=1s -o exit-timeout.after=exit
  files_come started.{0,1,2,3}
  kill_shell node1
  says "node-failure: shell 1 on node1 is lost"
  sleep 3
  touch go
  job_ends_with 1 "^0 is done" "^2 is done" "^3 is done"
  never_said exit-timeout
  nothing_left_after_fence
}

# Ranks 0 to 2 are in a PMI barrier, and rank 3 is not there yet; then the shell on $1 is killed.
kill_in_exchange() {
  local client=$NACRE_SOURCE_DIR/t/e2e/pmi_client rank came=()
  for rank in 0 1 2; do came+=("$rank:touch:$PWD/at.$rank"); done
  write_job 1 "$client" init "cmd=put kvsname=%k key=k%r value=v%r" "${came[@]}" "3:wait:$PWD/go" barrier \
    "cmd=get kvsname=%k key=k3" has:value=v3 "cmd=get kvsname=%k key=k0" has:value=v0 finalize
  began=$(uptime_ms)
  begin node3 "${@:2}"
  files_come at.{0,1,2}
  for host in node0 node1 node2; do wait_until waits "$host"; done
  kill_shell "$1"
}

@test "a shell is killed while PMI keys are exchanged" {
  kill_in_exchange node1
  job_ends_with "@(1|137|143)" "node-failure: shell 1 on node1 is lost"
  nothing_left_after_fence
}

@test "the leader is killed while PMI keys are exchanged" {
  kill_in_exchange node0
  job_ends_with 1 node0
  nothing_left_after_fence
}

@test "tolerate-loss: a shell is killed while PMI keys are exchanged, and the others get theirs" {
  kill_in_exchange node1 -o tolerate-loss
  says "node-failure: shell 1 on node1 is lost"
  touch go
  job_ends_with 1
  never_said "^rank [023]:"
  nothing_left_after_fence
}

# The moment may be before or after the shell has joined, while it starts its task, in a barrier, or at the end.
@test "a shell is killed at any moment" {
  local client=$NACRE_SOURCE_DIR/t/e2e/pmi_client round victim moment code killer killed kills=0 whole
  write_job 1 "$client" init "cmd=put kvsname=%k key=k%r value=v%r" barrier "cmd=get kvsname=%k key=k2" has:value=v2 barrier \
    barrier barrier finalize
  begin node0
  job_ends_with 0
  whole=$(($(uptime_ms) - began))
  for ((round = 0; round < 20; ++round)); do
    victim=node$((RANDOM % 3 + 1)) moment=$((RANDOM % (whole / 2))) code=0 killed=''
    limit=150 on "$victim" sh -c 'until pid=$(pgrep -o -x nacre-shell); do sleep 0.01; done; sleep $0; kill -KILL "$pid" 2>/dev/null' \
      "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))" 3>&- &
    killer=$!
    begin node0
    ! wait "$killer" || killed=$((++kills))
    wait "$job" || code=$?
    # 124 and 137: the job had to be killed.
    if [[ $code == @(124|137) ]] || { [[ $killed && $code != 0 ]] && ! grep -q "on $victim" said; } || { [[ ! $killed ]] && [ $code -ne 0 ]; }; then
      echo "$victim, ${killed:-not} killed $moment ms after its beginning: exit code $code: $(tail -c 3000 said)"
      return 1
    fi
    nothing_left_after_fence
  done
  echo "# $kills of $round jobs of $whole ms had a shell that was killed" >&3
}
