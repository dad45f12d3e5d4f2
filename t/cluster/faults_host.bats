#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Hosts and shells that fall silent while tasks run, the leader's too, and what becomes of the job.
load faults.bash

cluster=(4)

@test "a host that loses its power ends the job, which names it" {
  start_sleepers node0
  "$vcluster" kill node3 --power
  job_fails_with "node3"
  wait_until no_tasks node0 node1 node2
  "$vcluster" boot node3
  nothing_left
}

@test "a host that is cut off for good ends the job, and its own tasks end too" {
  start_sleepers node0
  "$vcluster" cut node1
  job_fails_with "node1"
  wait_until 120 no_tasks "${nodes[@]}" # no packet reaches node1
  "$vcluster" heal node1
  nothing_left_after_fence
}

@test "a handler that takes longer than lost-after is waited for, but not on a host that loses its power" {
  write_job 1 sh -c 'touch started.$FLUX_TASK_RANK'
  cat >slow.lua <<'END'
plugin.register { name = "slow", handlers = { { topic = "shell.start", fn = function ()
  if shell.info.rank == 2 then os.execute ("touch begun; sleep 8; touch over") end
end } } }
END
  begin node3 -- --initrc="$PWD/slow.lua"
  job_ends_with 0
  [ -e over ]
  rm begun over
  begin node3 -- --initrc="$PWD/slow.lua"
  files_come begun
  "$vcluster" kill node2 --power
  job_ends_with 1 "node-failure: shell 2 on node2 is lost"
  [ ! -e over ]
  "$vcluster" boot node2
  nothing_left_after_fence
}

@test "a shell that is stopped is lost, and named" {
  start_sleepers node0
  "$vcluster" exec node1 pkill -STOP -x nacre-shell
  job_fails_with "node1"
  wait_until no_tasks node0 node2 node3
  "$vcluster" exec node1 pkill -CONT -x nacre-shell || :
  wait_until no_tasks node1
  nothing_left
}

@test "tolerate-loss: the others run on, whatever becomes of a host" {
  for fault in kill "kill --power" cut; do
    mkdir "$work/${fault// /}" && cd "$work/${fault// /}"
    write_job 1 sh -c 'touch started.$FLUX_TASK_RANK; test $FLUX_TASK_RANK != 2 || exec sleep 76543; until test -e go; do sleep 0.2; done; echo $FLUX_TASK_RANK is done'
    begin node3 -o tolerate-loss
    files_come started.{0,1,2,3}
    read -r verb option <<<"$fault"
    faulted=$(uptime_ms)
    "$vcluster" "$verb" node2 ${option:+"$option"}
    says "node-failure: shell 2 on node2 is lost"
    touch go
    job_ends_with 1 "^0 is done" "^1 is done" "^3 is done"
    [ "$fault" != cut ] || wait_until 120 no_tasks node2 # no packet reaches the host
    recover
    nothing_left_after_fence
  done
}

@test "the leader's host is killed" {
  start_sleepers node3
  "$vcluster" kill node0
  job_ends_with 1 node0
  wait_until 120 no_tasks node1 node2 node3
  "$vcluster" boot node0
  nothing_left_after_fence
}

@test "the leader's host loses its power" {
  start_sleepers node3
  "$vcluster" kill node0 --power
  job_ends_with 1 node0
  wait_until 120 no_tasks node1 node2 node3
  "$vcluster" boot node0
  nothing_left_after_fence
}

@test "the leader's host is cut off for good" {
  start_sleepers node3
  "$vcluster" cut node0
  job_ends_with 1 node0
  wait_until 120 no_tasks "${nodes[@]}"
  "$vcluster" heal node0
  nothing_left_after_fence
}

# The launcher still has its connection to the leader's host, and waits until the leader can say how the job has
# ended.
@test "the leader's shell is stopped" {
  start_sleepers node3
  kill_shell node0 STOP
  wait_until 30 grep -qxE "nacre-shell\[0\]: (fatal: )?shell 0 on node0 has been stopped by a signal for 1[0-9] s" said
  wait_until 120 no_tasks node1 node2 node3
  kill -0 "$job"
  "$vcluster" exec node0 pkill -CONT -x nacre-shell
  job_ends_with "!(0|124|137)"
  nothing_left_after_fence
}
