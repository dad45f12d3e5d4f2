#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# on-leader-lost=take-over over hosts: the host whose shell leads the job is lost, and nacre run, on another one, follows.
load jobs.bash

cluster=(5)

# Starts nacre run on node4, with a task on each of three other hosts and one spare, until there is the file go. Its
# process is $job. No host sees another one's list of jobs. $1: what on-lost is.
start_run() {
  export NACRE_JOBS_DIR=/tmp/jobs.$BATS_TEST_NUMBER
  limit=150 on node4 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --hosts="node[0-3]" --timeout=100 -N 3+1 \
    --on-lost="${1:-replace}" -o lost-after=2s \
    sh -c 'touch $0/started.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}; echo began $FLUX_TASK_RANK $NACRE_TASK_TRY; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK $NACRE_TASK_TRY $(uname -n)' "$work" >said 2>&1 &
  job=$!
  wait_until have_started_three
  wait_until has_begun 3
}
have_started_three() { test -e started.0.1 -a -e started.1.1 -a -e started.2.1; }
has_begun() { [ "$(grep -c ^began said)" -ge "$1" ]; }

# Rank 0, which was on node0, runs on node3 now, and the job ends well.
goes_on() {
  wait_until test -e started.0.2
  wait_until grep -q "is lost: the one on node[1-3] leads it now" said
  wait_until has_begun 4
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 0 2 node3\ndone 1 1 node1\ndone 2 1 node2' ] || { cat said; return 1; }
  [ "$(grep -c ^began said)" -eq 4 ] || { cat said; return 1; }
  grep -q "leader-lost: shell 0 on node0, which led the job, is lost: shell [1-3] on node[1-3] leads now" said || { cat said; return 1; }
  grep -q "shell 0 on node0 is lost: .*; its task 0 starts again on the spare shell 3 on node3" said || { cat said; return 1; }
}

@test "the leader is killed: its rank goes to the spare, and nacre run follows" {
  start_run
  "$vcluster" exec node0 pkill -KILL -x nacre-shell
  goes_on
  nothing_left
}

@test "the leader's host loses its power" {
  start_run
  "$vcluster" kill node0 --power
  goes_on
  "$vcluster" boot node0
}

# Without another option: the next leader ends the job, and nacre run has its report.
ends_with_report() {
  ends_with 1
  grep -q "shell 0 on node0 is lost: it has ended, or cannot be reached; with it task 0" said || { cat said; return 1; }
  grep -q "lost: 0 | ended because of it: 1-2" said || { cat said; return 1; }
}

@test "the job is to end with any host: the leader is killed, and the next one ends it with a report" {
  start_run end
  "$vcluster" exec node0 pkill -KILL -x nacre-shell
  ends_with_report
  nothing_left
}

@test "the leader stands still for good: nacre run follows once its guard has said so, and it ends" {
  start_run
  "$vcluster" exec node0 pkill -STOP -x nacre-shell
  goes_on
  nothing_left
}

# bats test_tags=long
@test "the job is to end with any host: the leader's host loses its power, and the next one ends it with a report" {
  start_run end
  "$vcluster" kill node0 --power
  ends_with_report
  "$vcluster" boot node0
}

# bats test_tags=long
@test "the leader's host is cut off: its shell and tasks there end, too" {
  start_run
  "$vcluster" cut node0
  goes_on
  wait_until 60 none_on node0 "^nacre-shell: "
  "$vcluster" heal node0
}

# bats test_tags=long
@test "the leader stands still, and goes on when another one leads" {
  start_run
  "$vcluster" exec node0 pkill -STOP -x nacre-shell
  wait_until test -e started.0.2
  "$vcluster" exec node0 pkill -CONT -x nacre-shell
  goes_on
  nothing_left
}

# Writes a program whose ranks make steps together, from the last step that each rank has written down.
write_train() {
  cat >train.py <<'END'
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, path = dist.get_rank(), f"{sys.argv[1]}/checkpoint.{dist.get_rank()}"
step = torch.tensor([int(open(path).read()) if os.path.exists(path) else 0])
dist.all_reduce(step, op=dist.ReduceOp.MIN)
for step in range(int(step) + 1, 41):
    sum = torch.ones(1)
    dist.all_reduce(sum)
    with open(path + ".new", "w") as out:
        out.write(str(step))
    os.rename(path + ".new", path)
    if rank == 0:
        print("step", step, "of", int(sum), "in try", os.environ["NACRE_TASK_TRY"], f"{time.time():.2f}", flush=True)
    time.sleep(0.2)
END
}

# bats test_tags=long
@test "PyTorch: the host of rank 0, which leads the job, loses its power; training goes on from its checkpoint on the spare" {
  /usr/bin/python3 -c 'import torch' || { echo "python3-torch is needed"; return 1; }
  export NACRE_JOBS_DIR=/tmp/jobs.$BATS_TEST_NUMBER
  write_train
  limit=200 on node4 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --hosts="node[0-3]" --timeout=100 -N 3+1 -n 6 --on-lost=replace \
    --restart=on-failure,scope=job,backoff=0s -o lost-after=2s --torch /usr/bin/python3 "$work/train.py" "$work" >said 2>&1 &
  job=$!
  wait_until grep -q "^step 8 of 6 in try 1" said
  "$vcluster" kill node0 --power
  ends_with 0
  [ "$(grep -oE '^step [0-9]+ of 6' said | sort -u | wc -l)" -eq 40 ] || { cat said; return 1; }
  grep -q "^step 40 of 6 in try 2" said || { cat said; return 1; }
  "$vcluster" boot node0
}
