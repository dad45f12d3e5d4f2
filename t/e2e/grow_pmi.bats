#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# PMI on shells that have joined a job that runs (nacre grow): the tasks that have come there are processes of it once
# all tasks start again together.
load replace.bash

export client=$BATS_TEST_DIRNAME/pmi_client

setup_file() {
  for name in hello allreduce; do mpicc.mpich -Wall -Wextra -O1 -o "$BATS_FILE_TMPDIR/$name" "$BATS_TEST_DIRNAME/mpi/$name.c"; done
}

grow() { "$front" grow --quiet "$@"; }

# The script of each task until all start together.
first='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; [ -e together ] || exec sleep 600; '

# A job of three shells with a rank each, of the sh script $3 and with the options behind; $2 shells join it, and the rank $1 is
# moved to one of them. Then all start together.
start_moved() { # RANK, NEWCOMERS, SCRIPT, options
  rm -f shell.* together go in.*
  start_run -N 3 -n 3 --local=3 --oversubscribe "${@:4}" sh -c "$first$3"
  for rank in 0 1 2; do wait_until test -e "shell.$rank.1"; done
  grow --count="$2"
  lose "$1" 1
  wait_until test -e "shell.$1.2"
  touch together
  "$front" restart --quiet "$id"
}

all_in() { for rank in 0 1 2; do wait_until test -e "in.$rank.$1"; done; } # RESTARTS

@test "a rank on a shell that has joined: keys, barriers, names, the map; and once more" {
  start_moved 1 1 'exec "$client" init "cmd=put kvsname=%k key=k%r value=v%r" has:rc=0 barrier \
    "cmd=get kvsname=%k key=k0" has:value=v0 "cmd=get kvsname=%k key=k1" has:value=v1 "cmd=get kvsname=%k key=k2" has:value=v2 \
    "cmd=get kvsname=%k key=PMI_process_mapping" "has:value=(vector,(0,1,1),(2,1,1),(1,1,1))" \
    "cmd=get kvsname=%k key=PMI_dead_processes" has:rc=0 lacks:value=1 "1:cmd=publish_name service=s port=p" 1:has:rc=0 barrier \
    "cmd=lookup_name service=s" has:port=p touch:in.%r.$NACRE_JOB_RESTARTS wait:go barrier finalize' --restart=on-request
  all_in 2
  [ "$(shells_of 0 1 2)" = "0:0:2 1:3:3 2:2:2" ] || { shells_of 0 1 2; return 1; }
  "$front" restart --quiet "$id"
  all_in 3
  touch go
  ends_with 0
  nothing_left "^nacre-shell: $id"
}

@test "shells that have joined before and after a restart of all tasks agree" {
  start_run -N 3 -n 3 --local=3 --oversubscribe --restart=on-request sh -c "$first"'exec "$client" init "cmd=put kvsname=%k key=k%r value=%k" has:rc=0 \
    barrier "cmd=get kvsname=%k key=k0" "has:value=%k" "cmd=get kvsname=%k key=k1" "has:value=%k" "cmd=get kvsname=%k key=k2" "has:value=%k" \
    "cmd=get kvsname=%k key=flux.taskmap" "has:value=[[0,1,1,1],[3,2,1,1]]" touch:in.%r.$NACRE_JOB_RESTARTS wait:go barrier finalize'
  for rank in 0 1 2; do wait_until test -e "shell.$rank.1"; done
  grow --count=1
  lose 1 1
  wait_until test -e shell.1.2
  "$front" restart --quiet "$id"
  wait_until test -e shell.1.3
  wait_until test -e shell.2.2
  grow --count=1
  lose 2 2
  wait_until test -e shell.2.3
  touch together
  "$front" restart --quiet "$id"
  all_in 4
  touch go
  ends_with 0
  nothing_left "^nacre-shell: $id"
}

@test "MPICH: hello, and a collective, of ranks on shells of the start and on one that has joined" {
  for program in hello allreduce; do
    start_moved 2 1 "exec '$BATS_FILE_TMPDIR/$program'" --restart=on-request
    ends_with 0
    if [ $program = hello ]; then
      for rank in 0 1 2; do grep -q "^$rank: hello from rank $rank of 3 on " out || { cat out err; return 1; }; done
    else
      [ "$(grep ' ok,' out)" = "0: allreduce ok, 3 ranks" ] || { cat out err; return 1; }
    fi
    nothing_left "^nacre-shell: $id"
  done
}

@test "a rank there that dies between init and finalize takes all with it; shells without tasks are not waited for" {
  # Shell 4 joins with shell 3, which gets the rank; shell 5 joins later. Both have none.
  start_moved 1 2 'if [ $NACRE_JOB_RESTARTS = 2 ]; then exec "$client" init barrier touch:in.%r.2 1:wait:die 1:exit:3 barrier finalize; fi
    exec "$client" init barrier "cmd=put kvsname=%k key=k%r value=w%r" barrier "cmd=get kvsname=%k key=k1" has:value=w1 touch:in.%r.3 wait:go finalize' \
    --restart=on-failure,backoff=0s
  all_in 2
  grow --count=1
  touch die
  all_in 3
  grep -q "restart: rank 1 on .* exited with code 3: all tasks of the job start again now (restart 1 of 3)" err || { cat err; return 1; }
  # The new task is also in a roll call.
  pid=$(<shell.0.3)
  wait_until rolled "$pid"
  "$front" shrink --quiet --count=2
  touch go
  ends_with 0
  nothing_left "^nacre-shell: $id"
}

rolled() { # PID
  kill -USR2 "$1"
  sleep 0.1
  grep -q "roll call of 3 tasks" err
}

@test "a shell that has joined, and has a rank of PMI, is lost: the others go on, and know who is dead" {
  on_lost=replace,else=go-on
  start_moved 1 1 'exec "$client" init barrier touch:in.%r.2 0,2:wait:go 1:wait:never barrier "cmd=get kvsname=%k key=PMI_dead_processes" has:value=1 finalize touch:out.%r' --restart=on-request
  all_in 2
  lose 1 3
  wait_until grep -q "with it task 1, which is not started again: rank .* called PMI init and not finalize" err
  touch go
  wait "$launcher" || :
  for rank in 0 2; do [ -e "out.$rank" ] || { cat err; return 1; }; done
}
