#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Pods of Kubernetes as virtual hosts: each is process 1 of a PID namespace, with a read-only root and /tmp, 64 MB of /dev/shm, a user that nobody
# knows, no HOME, a mounted secret, and names that come when the test says so. On one host: t/e2e/pods.bats.
load lib.bash

cluster=(5)

setup_file() {
  start_cluster
  hosts=$VCLUSTER_STATE/$VCLUSTER_NAME/etc/hosts
  cp "$hosts" "$hosts.first"
}

setup() {
  exec {lock}>&-
  work=$VCLUSTER_STATE/$VCLUSTER_NAME/work/$BATS_TEST_NUMBER
  hosts=$VCLUSTER_STATE/$VCLUSTER_NAME/etc/hosts
  cat "$hosts.first" >"$hosts" # written in place, as this file is mounted
  mkdir -p "$work"
  cd "$work" || return
  exec </dev/null
  (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >secret)
  cat >pod <<'END'
#!/bin/bash
# NAME COMMAND...: starts the pod NAME, with its own mounts.
set -e
hostname "$1"
index=${1##*-}
shift
mkdir -p /run/secret
mount -t tmpfs tmpfs /run/secret
cp secret /run/secret/secret
chmod 444 /run/secret/secret
mount -o remount,ro /run/secret
mount -t proc proc /proc
mount -t tmpfs -o mode=1777,size=64M tmpfs /dev/shm
mount -o remount,bind,ro /tmp
date +%s%N >"begun.$index"
mount -o remount,bind,ro /
exec setpriv --reuid 12345 --regid 12345 --clear-groups env -i PATH="$PATH" NACRE_SECRET_FILE=/run/secret/secret "$@"
END
  chmod +x pod
}

# know NAME INDEX: from now on all pods can resolve NAME.
know() { echo "10.77.0.$(($2 + 1)) $1" >>"$hosts"; }

# forget NAME: no pod knows it any more.
forget() { sed "/ $1\$/d" "$hosts" >names && cat names >"$hosts"; }

# pod INDEX NAME=VALUE... COMMAND...: the pod INDEX, on the host $host, or of that number, in the background. Its name is $name-INDEX.
pod() {
  local index=$1
  shift
  {
    local code=0
    on "node${host:-$index}" unshare --uts --mount --pid --fork --kill-child ./pod "${name:-pod}-$index" "$@" >"said.$index" 2>"said.$index.err" || code=$?
    echo "$code" >"code.$index"
  } 3>&- &
}

job() { pod "$1" JOB_COMPLETION_INDEX="$1" NACRE_SIZE="${size:-3}" NACRE_TIMEOUT=60 "${@:2}"; }

nacre_run=("$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL")

codes() { cat code.0 code.1 code.2 | tr '\n' ' '; }

show() { tail -n 5 said.* code.*; }

# All pods have ended with this code, and the first one has printed a line for each of three ranks.
all_have_run() {
  wait
  [ "$(codes)" = "0 0 0 " ] || { show; return 1; }
  [ "$(cut -d' ' -f1 said.0 | sort)" = $'0\n1\n2' ] || { show; return 1; }
}

# runs_pod INDEX: its shell already catches signals.
runs_pod() { runs_on "node$1" '^[^ ]*/nacre-shell --launch-record|^nacre-shell: '; }

started() { [ "$(grep -cs begun said.0)" -eq 3 ]; }

say='echo $FLUX_TASK_RANK $(date +%s%N)'

@test "an indexed Job by its pods' own names: names come late, the first pod comes last" {
  name=train
  for index in 1 2; do know "train-$index.train.default.svc.cluster.local train-$index" $index; done
  job 1 "${nacre_run[@]}" sh -c "$say"
  job 2 "${nacre_run[@]}" sh -c "$say"
  wait_until runs_pod 1
  wait_until runs_pod 2
  know "train-0.train.default.svc.cluster.local train-0" 0
  job 0 "${nacre_run[@]}" sh -c "$say"
  all_have_run
  begun=$(cat begun.0)
  last=$(cut -d' ' -f2 said.0 | sort -n | tail -1)
  echo "# from the last pod to the last rank: $(((last - begun) / 1000000)) ms" >&3
  ((last - begun < 20000000000))
}

# bats test_tags=long
@test "NACRE_LEADER, a LeaderWorkerSet, a PyTorchJob: the first pod is there, its name comes last" {
  local index ways=(
    'JOB_COMPLETION_INDEX=$index NACRE_SIZE=3 NACRE_LEADER=first'
    'LWS_WORKER_INDEX=$index LWS_GROUP_SIZE=3 LWS_LEADER_ADDRESS=first'
    'PET_NODE_RANK=$index PET_NNODES=3 PET_MASTER_ADDR=first PET_MASTER_PORT=23456')
  for way in "${ways[@]}"; do
    cat "$hosts.first" >"$hosts"
    rm -f said.* code.*
    for index in 0 1 2; do
      eval "pod $index $way NACRE_TIMEOUT=60 \"\${nacre_run[@]}\" sh -c '$say'"
      wait_until runs_pod $index
    done
    begun=$(date +%s%N)
    know first 0
    all_have_run
    last=$(cut -d' ' -f2 said.0 | sort -n | tail -1)
    echo "# ${way%%=*}: from the name to the last rank: $(((last - begun) / 1000000)) ms" >&3
  done
}

# bats test_tags=long
@test "pods of several Jobs of a JobSet count by their names" {
  local index
  for index in 0 1 2; do know "set-w-$index-0.set.ns.svc set-w-$index-0" $index; done
  for index in 2 0 1; do
    on "node${host:-$index}" unshare --uts --mount --pid --fork --kill-child ./pod "set-w-$index-0" JOB_COMPLETION_INDEX=0 NACRE_SIZE=3 NACRE_JOBS=3 NACRE_TIMEOUT=60 \
      "${nacre_run[@]}" sh -c "$say" >"said.$index" 2>"said.$index.err" 3>&- && echo 0 >"code.$index" &
  done
  all_have_run
}

@test "within a pod: process 1 reaps what tasks leave, an unknown user, no HOME, files in /dev/shm, nacre jobs" {
  know pod-0.pod.ns.svc 0
  export_all='echo $FLUX_TASK_RANK uid $(id -u) home ${HOME-none} parent $PPID in ${FLUX_JOB_TMPDIR%/*} $(touch $FLUX_JOB_TMPDIR/x && echo writes)
    (setsid sleep 0.1 &); sleep 0.5; ps -e -o stat= | grep -c Z || :'
  for index in 0 1 2; do job $index NACRE_LEADER=pod-0.pod.ns.svc "${nacre_run[@]}" -l sh -c "$export_all"; done
  wait
  [ "$(codes)" = "0 0 0 " ] || { show; return 1; }
  for index in 0 1 2; do
    grep -x "$index: $index uid 12345 home none parent 1 in /dev/shm writes" said.0
    grep -x "$index: 0" said.0 # zombies
  done
  [ -z "$(cat said.0.err said.1.err said.2.err)" ] || { show; return 1; }
}

@test "SIGTERM to process 1 of one pod reaches all tasks, and all pods end with their code" {
  know pod-0.pod.ns.svc 0
  for index in 0 1 2; do
    job $index NACRE_LEADER=pod-0.pod.ns.svc "${nacre_run[@]}" -u sh -c 'trap "echo saved; exit 3" TERM; echo begun; while :; do sleep 0.05; done'
  done
  wait_until started
  "$vcluster" exec node1 pkill -TERM -f '^nacre-shell: .* rank 1/3'
  wait
  [ "$(grep -c saved said.0)" -eq 3 ] || { show; return 1; }
  [ "$(codes)" = "3 3 3 " ] || { show; return 1; }
}

# bats test_tags=long
@test "SIGTERM to process 1 that waits for others ends it" {
  know pod-0.pod.ns.svc 0
  job 0 NACRE_LEADER=pod-0.pod.ns.svc "${nacre_run[@]}" true
  job 1 NACRE_LEADER=nobody "${nacre_run[@]}" true
  catches_signals() { "$vcluster" exec "node$1" sh -c 'pid=$(pgrep -f "^[^ ]*/nacre-shell --launch-record") && [ -n "$(sed -n "s/^SigCgt:.*\(4...\)$/\1/p" /proc/$pid/status)" ]'; }
  for index in 0 1; do
    wait_until catches_signals $index
    "$vcluster" exec "node$index" pkill -TERM -f '^[^ ]*/nacre-shell --launch-record'
  done
  wait
  [ "$(cat code.0 code.1 | tr '\n' ' ')" = "143 143 " ] || { show; return 1; }
  grep "ended by SIGTERM while it waited for shells 1-2" said.0.err
  grep "ended by SIGTERM while it waited for shell 0 at nobody:7170" said.1.err
}

@test "a pod that is lost: the job ends, by its class; one that comes again is turned away" {
  know pod-0.pod.ns.svc 0
  for index in 0 1 2; do
    job $index NACRE_LEADER=pod-0.pod.ns.svc "${nacre_run[@]}" -u --on-lost=go-on --exit-class=host:75 sh -c 'echo begun; while [ $FLUX_TASK_RANK = 0 ] && [ ! -e /dev/shm/stop ] || [ $FLUX_TASK_RANK = 2 ]; do sleep 0.05; done; sleep 2'
  done
  wait_until started
  "$vcluster" exec node2 pkill -KILL -f '^nacre-shell: .* rank 2/3'
  is_lost() { grep -q "shell 2.* is lost" said.0.err; }
  wait_until is_lost
  mv code.2 code.lost
  job 2 NACRE_LEADER=pod-0.pod.ns.svc "${nacre_run[@]}" true
  comes_again() { [ -e code.2 ]; }
  wait_until comes_again
  [ "$(cat code.2)" -eq 1 ]
  grep "the job has begun, and goes on or ends without a shell that comes again: index 2 was there before" said.2.err
  pid=$("$vcluster" exec node0 pgrep -f '^nacre-shell: .* rank 0/3')
  "$vcluster" exec node0 touch "/proc/$pid/root/dev/shm/stop"
  wait
  [ "$(cat code.0 code.1 | tr '\n' ' ')" = "75 75 " ] || { show; return 1; }
}

@test "a pod that is lost and comes again gets its task back with on-lost=replace" {
  know pod-0.pod.ns.svc 0
  back() { job "$1" NACRE_LEADER=pod-0.pod.ns.svc "${nacre_run[@]}" -u --on-lost=replace sh -c \
    'echo begun; [ $FLUX_TASK_RANK != 2 ] || [ $NACRE_TASK_TRY = 2 ] || sleep 100; echo $FLUX_TASK_RANK in try $NACRE_TASK_TRY on $(hostname)'; }
  for index in 0 1 2; do back $index; done
  wait_until started
  "$vcluster" exec node2 pkill -KILL -f '^nacre-shell: .* rank 2/3'
  waits() { grep -q "shell 2 .*is lost: its task 2 waits up to 60 s for a pod to come again" said.0.err; }
  wait_until waits
  back 2
  wait
  [ "$(codes)" = "0 0 0 " ] || { show; return 1; }
  [ "$(grep -v begun said.0 | sort)" = $'0 in try 1 on pod-0\n1 in try 1 on pod-1\n2 in try 2 on pod-2' ] || { show; return 1; }
  grep "its task 2 starts again on the spare shell 3 on pod-2" said.0.err
}

@test "the first pod is lost for good, another one comes again; then the first one comes, elsewhere; then the leader's is lost" {
  size=4
  for index in 0 1 2 3; do know "pod-$index.pod.ns.svc" $index; done
  task='echo $NACRE_SHELL_ID begins; [ $FLUX_TASK_RANK = 3 ] && until [ -e /dev/shm/stop ]; do sleep 0.1; done
    [ $FLUX_TASK_RANK = 3 ] || [ $NACRE_TASK_TRY = 2 ] || sleep 100; echo $FLUX_TASK_RANK in try $NACRE_TASK_TRY on $(hostname)'
  back() { job "$1" NACRE_LEADER=pod-0.pod.ns.svc "${nacre_run[@]}" -u --on-lost=replace sh -c "$task"; }
  lose_pod() { "$vcluster" exec "node$1" pkill -KILL -f "^nacre-shell: .* rank $1/4"; }
  # keep INDEX: what the pod has said so far has another name from now on.
  keep() { wait_until test -e "code.$1" && for each in said.$1 said.$1.err code.$1; do mv "$each" "was.$each"; done; }
  says() { cat ./*said.*.err | grep -q "$1"; }
  began() { cat ./*said.[0-3] | grep -q "\.$1 begins"; }
  for index in 0 1 2 3; do back $index; done
  for index in 0 1 2 3; do wait_until began $index; done
  lose_pod 0
  forget pod-0.pod.ns.svc
  wait_until says "shell 0 on pod-0, which led the job, is lost: shell 1 on pod-1 leads now"
  wait_until says "shell 0 on pod-0 is lost: its task 0 waits up to 60 s for a pod to come again"
  lose_pod 2
  keep 2
  wait_until says "shell 2 on pod-2 is lost: its task 2 waits"
  back 2 # which asks pod 3, and hears of pod 1
  wait_until says "its task [02] starts again on the spare shell 4 on pod-2"
  wait_until began 4
  keep 0
  know pod-0.pod.ns.svc 4
  host=4 back 0
  wait_until says "its task [02] starts again on the spare shell 5 on pod-0"
  wait_until began 5
  lose_pod 1
  keep 1
  wait_until says "shell 1 on pod-1, which led the job, is lost: shell [345] on pod-[023] leads now"
  wait_until says "shell 1 on pod-1 is lost: its task 1 waits"
  back 1
  wait_until says "its task 1 starts again on the spare shell 6 on pod-1"
  pid=$("$vcluster" exec node3 pgrep -f '^nacre-shell: .* rank 3/4')
  "$vcluster" exec node3 touch "/proc/$pid/root/dev/shm/stop"
  wait
  [ "$(cat code.[0-3] | paste -sd,)" = 0,0,0,0 ] || { show; return 1; }
  [ "$(cat said.[0-3] was.said.[0-2] | grep "in try" | sort | sed 's/ on .*//' | paste -sd,)" = "0 in try 2,1 in try 2,2 in try 2,3 in try 1" ] || { show; return 1; }
}

# bats test_tags=long
@test "nothing can be written: one line that says so" {
  know pod-0.pod.ns.svc 0
  sed -i 's/mode=1777,size=64M tmpfs/mode=755,ro tmpfs/' pod
  for index in 0 1 2; do job $index NACRE_LEADER=pod-0.pod.ns.svc "${nacre_run[@]}" true; done
  wait
  [ "$(codes)" = "1 1 1 " ] || { show; return 1; }
  grep "tmpdir: cannot make a directory in /tmp (set TMPDIR to a directory with room): Read-only file system" said.0.err
}
