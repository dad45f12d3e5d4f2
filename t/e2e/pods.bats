#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Pods that become one job by --boot=index, on one host: several `nacre run` with an index each, and one port of
# this host. in t/cluster/pods.bats they are on several hosts.
load lib.bash
load pods.bash

# run_pods COMMAND...: three pods, the first one last.
run_pods() {
  local index
  for index in 2 1 0; do in_pod "$index" "$@" & done
  wait_for_jobs || :
}

run_nacre() { run_pods "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" "$@"; }

codes() { cat said.[012].code | tr '\n' ' '; }

# said INDEX CODE TEXT...: that pod ended with that code, and its standard error is one line with the texts.
said() {
  local index=$1 code=$2 text
  shift 2
  [ "$(cat "said.$index.code")" -eq "$code" ] || { echo "pod $index: code $(cat "said.$index.code"): $(cat "said.$index.err")"; return 1; }
  [ "$(wc -l <"said.$index.err")" -eq 1 ] || { echo "pod $index: not one line: $(cat "said.$index.err")"; return 1; }
  for text; do
    [[ $(cat "said.$index.err") == *"$text"* ]] || { echo "pod $index: no '$text' in: $(cat "said.$index.err")"; return 1; }
  done
}

@test "three pods are one job: its output and its exit code come out at pod 0, the others have its code too" {
  make_group
  run_nacre sh -c 'echo "$FLUX_TASK_RANK of $FLUX_JOB_SIZE on $FLUX_JOB_NNODES"; [ $FLUX_TASK_RANK != 1 ] || exit 7'
  [ "$(sort said.0)" = $'0 of 3 on 3\n1 of 3 on 3\n2 of 3 on 3' ]
  [ -z "$(cat said.1 said.2)" ]
  [ "$(codes)" = "7 7 7 " ]
}

@test "the sizes that are asked for: tasks, tasks for each pod, and more nodes than there are pods" {
  make_group
  run_nacre -n 2 sh -c 'echo $FLUX_TASK_RANK'
  [ "$(sort said.0)" = $'0\n1' ]
  [ "$(codes)" = "0 0 0 " ]
  run_nacre --tasks-per-node=2 sh -c 'echo $FLUX_TASK_RANK'
  [ "$(sort said.0)" = $'0\n1\n2\n3\n4\n5' ]
  [ "$(codes)" = "0 0 0 " ]
  run_nacre -N 2 --tasks-per-node=1 sh -c 'echo $FLUX_TASK_RANK'
  [ "$(sort said.0)" = $'0\n1' ]
  [ "$(codes)" = "0 0 0 " ]
  run_nacre -N 4 true
  [ "$(codes)" = "1 1 1 " ]
  said 2 1 "-N 4, but there are 3 nodes"
}

@test "what those of kubectl and the MPI Operator have in their pods: doc/coming-from.md" {
  make_group
  mpicc.mpich -o app "$NACRE_SOURCE_DIR/t/e2e/mpi/hello.c"
  printf 'import os\nprint("hello from rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])\n' >train.py
  "$NACRE_SOURCE_DIR/t/kit/coming_from" "kubectl, MPI Operator" >lines
  [ "$(wc -l <lines)" -ge 3 ]
  local line
  while read -r line; do
    PATH=$NACRE_BUILD_DIR:$PATH run_pods sh -c "$line"
    [ "$(codes)" = "0 0 0 " ] && [ "$(grep -c '^hello from rank' said.0)" -ge 3 ] || { echo "$line: $(codes)"; cat said.*; return 1; }
  done <lines
}

@test "the variables of a LeaderWorkerSet and of a PyTorchJob" {
  make_group
  local index
  for index in 1 0; do
    as=lws in_pod $index env -u JOB_COMPLETION_INDEX -u NACRE_SIZE -u NACRE_LEADER LWS_WORKER_INDEX=$index LWS_GROUP_SIZE=2 LWS_LEADER_ADDRESS=localhost \
      "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" sh -c 'echo $FLUX_TASK_RANK' &
  done
  wait_for_jobs || :
  [ "$(sort lws.0)" = $'0\n1' ]
  for index in 1 0; do
    as=pet in_pod $index env -u JOB_COMPLETION_INDEX -u NACRE_SIZE -u NACRE_LEADER -u NACRE_PORT PET_NODE_RANK=$index PET_NNODES=2 PET_MASTER_ADDR=localhost \
      PET_MASTER_PORT="$NACRE_PORT" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" sh -c 'echo $FLUX_TASK_RANK' &
  done
  wait_for_jobs || :
  [ "$(sort pet.0)" = $'0\n1' ]
}

@test "nacre-shell takes the way by itself, behind those of managers, and the plan says so" {
  make_group
  write_jobspec 3 sh -c 'echo $FLUX_TASK_RANK'
  run_pods "$NACRE_SHELL" -j jobspec.json
  [ "$(sort said.0)" = $'0\n1\n2' ]
  run_pods "$NACRE_SHELL" --boot=index --secret-file=secret -j jobspec.json
  [ "$(sort said.0)" = $'0\n1\n2' ]
  run_pods "$NACRE_SHELL" -j jobspec.json --explain
  grep "boot: index: JOB_COMPLETION_INDEX and NACRE_SIZE are set, and shell 0 is at 127.0.0.1:$NACRE_PORT by NACRE_LEADER: shell 0 of 3; not pmi: PMI_FD is not set" said.0
  run_nacre --explain true
  grep "boot: index: JOB_COMPLETION_INDEX and NACRE_SIZE are set" said.0
  PMI_FD=0 JOB_COMPLETION_INDEX=0 NACRE_SIZE=3 run "$NACRE_SHELL" -j jobspec.json
  [ "$status" -eq 1 ] && [[ $output == *"--boot=pmi: PMI_SIZE is not set"* ]]
}

@test "what is named counts before the pods: --local, hosts of an allocation; and a task is no pod" {
  make_group
  export JOB_COMPLETION_INDEX=0 NACRE_SIZE=3
  run timeout 60 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --local=1 echo alone
  [ "$status" -eq 0 ]
  [ "$output" = alone ]
  echo localhost >hosts
  PBS_NODEFILE=$work/hosts run timeout 60 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" echo alone
  [ "$status" -eq 0 ]
  [ "$output" = alone ]
  run timeout 60 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --local=1 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" echo within
  [ "$status" -eq 0 ]
  [ "$output" = within ]
  NACRE_SIZE=1 run timeout 60 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -n 2 echo one
  [ "$status" -eq 0 ] && [ "$output" = $'one\none' ]
}

@test "wrong variables, and no secret: one line that names them, at once" {
  make_group
  JOB_COMPLETION_INDEX=3 NACRE_SIZE=3 run "$NACRE_BUILD_DIR/nacre" run true
  fails_with 1 "JOB_COMPLETION_INDEX: 3 is not below 3, which NACRE_SIZE has"
  NACRE_SIZE=3 run "$NACRE_BUILD_DIR/nacre" run true
  fails_with 1 "JOB_COMPLETION_INDEX is not set" "completionMode: Indexed"
  JOB_COMPLETION_INDEX=1 NACRE_SIZE=3 NACRE_SECRET_FILE=$work/none run "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  fails_with 1 "--boot=index: the secret of the pods: $work/none: No such file" "NACRE_SECRET_FILE" "--local=1"
  chmod 644 secret
  JOB_COMPLETION_INDEX=1 NACRE_SIZE=3 run "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  fails_with 1 "secret: has mode 0644"
  write_jobspec 1 true
  run "$NACRE_SHELL" --boot=index -j jobspec.json
  fails_with 1 "--boot=index: the variables speak of no group of pods" "NACRE_SIZE"
  for option in --detach --pty; do
    JOB_COMPLETION_INDEX=1 NACRE_SIZE=3 run "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" $option true
    fails_with 1 "$option: "
  done
}

@test "an index twice, another size, another secret: that pod is turned away with a line, and the job begins without it" {
  make_group
  in_pod 0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" sh -c 'echo $FLUX_TASK_RANK' &
  # The second of these two to come gets the message.
  in_pod 1 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true &
  as=again in_pod 1 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true &
  one_has_ended() { [ -e said.1.code ] || [ -e again.1.code ]; }
  wait_until one_has_ended
  [ "$(cat said.1.code again.1.code 2>/dev/null)" = 1 ]
  [ "$(cat said.1.err again.1.err | grep -c "index 1 is there twice: 127.0.0.1:.* has it already; each pod needs an index of its own by JOB_COMPLETION_INDEX")" -eq 1 ]
  size=4 as=other in_pod 2 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  grep "this shell is one of 4, and shell 0 of 3 by NACRE_SIZE: all pods have to be given the same number" other.2.err
  [ "$(cat other.2.code)" -eq 1 ]
  make_secret another
  as=wrong in_pod 2 env NACRE_SECRET_FILE="$work/another" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  grep "has another secret than this shell; give all shells of a job one file (the secret of this one is that of $work/another)" wrong.2.err
  [ "$(cat wrong.2.code)" -eq 1 ]
  in_pod 2 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  wait_for_jobs || :
  [ "$(sort said.0)" = $'0\n1\n2' ]
  [ "$(cat said.0.code said.2.code | tr -d '\n')" = 00 ]
  [ "$(cat said.1.code again.1.code | sort | tr -d '\n')" = 01 ]
  [ "$(grep -c "nacre-shell\[0\]: turned away: 127.0.0.1:" said.0.err)" -eq 3 ]
}

@test "a port that is taken, also by a second index 0: one line with the remedy" {
  make_group
  python3 -c 'import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("", int(sys.argv[1]))); s.listen(); print("ready", flush=True); time.sleep(60)' "$NACRE_PORT" >ready &
  local other=$!
  wait_until grep -q ready ready
  in_pod 0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  kill $other
  said 0 1 "--boot=index: port $NACRE_PORT is taken on this host" "index 0" "NACRE_PORT gives"
}

@test "what speaks no TLS at the port is told once, and no hindrance" {
  make_group
  in_pod 0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" echo ok &
  talks() { { echo "GET / HTTP/1.0" >"/dev/tcp/127.0.0.1/$NACRE_PORT"; } 2>/dev/null && grep -q "turned away" said.0.err; }
  wait_until talks
  in_pod 2 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" echo ok &
  in_pod 1 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" echo ok
  wait_for_jobs || :
  [ "$(codes)" = "0 0 0 " ]
  [ "$(cat said.0)" = $'ok\nok\nok' ]
  grep "nacre-shell\[0\]: turned away: 127.0.0.1:[0-9]*: does not speak TLS: is it a shell of this job?$" said.0.err
}

@test "pods that never come: after the time a line at each of those that wait" {
  make_group
  export NACRE_TIMEOUT=2
  in_pod 0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true &
  in_pod 1 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  wait_for_jobs || :
  said 0 1 "--boot=index: shell 2 of 3 did not come to port $NACRE_PORT within 2 s" "NACRE_TIMEOUT"
  said 1 1 "--boot=index: "
  in_pod 1 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  said 1 1 "shell 0 at 127.0.0.1:$NACRE_PORT (by NACRE_LEADER) did not begin the job within 2 s: connection refused"
  NACRE_LEADER=nobody.invalid in_pod 1 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --timeout=1 true
  said 1 1 "shell 0 at nobody.invalid:$NACRE_PORT (by NACRE_LEADER) did not begin the job within 1 s: name not known"
}

@test "a pod that waits ends by SIGTERM, and a job of pods too" {
  make_group
  (JOB_COMPLETION_INDEX=1 NACRE_SIZE=3 exec "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" sleep 100 2>said) &
  local pid=$! code=0
  catches_signals() { [[ $(sed -n 's/^SigCgt:.*\(....\)$/\1/p' "/proc/$pid/status") == 4??? ]]; } # the process now catches SIGTERM
  wait_until catches_signals
  kill -TERM $pid
  wait $pid || code=$?
  [ $code -eq 143 ]
  grep "ended by SIGTERM while it waited for shell 0 at 127.0.0.1:$NACRE_PORT (by NACRE_LEADER)" said
  local index
  for index in 0 2; do in_pod $index "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" sh -c "touch run.\$FLUX_TASK_RANK; sleep 100" & done
  (JOB_COMPLETION_INDEX=1 NACRE_SIZE=3 exec "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" sleep 100 2>said) &
  pid=$!
  begun() { [ -e run.0 ] && [ -e run.1 ] && [ -e run.2 ]; }
  wait_until begun
  kill -TERM $pid # Kubernetes evicts this one
  code=0
  wait $pid || code=$?
  wait_for_jobs || :
  echo "codes: $code $(cat said.0.code said.2.code)"
  [ $code -eq 143 ]
  [ "$(cat said.0.code said.2.code | tr '\n' ' ')" = "143 143 " ]
}

@test "a pod that comes again while the job runs is turned away with a line" {
  make_group
  local index
  for index in 0 1 2; do in_pod $index "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" sh -c "touch run.\$FLUX_TASK_RANK; while [ ! -e stop ]; do sleep 0.05; done" & done
  begun() { [ -e run.0 ] && [ -e run.1 ] && [ -e run.2 ]; }
  wait_until begun
  as=again in_pod 1 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  touch stop
  wait_for_jobs || :
  [ "$(codes)" = "0 0 0 " ]
  [ "$(cat again.1.code)" -eq 1 ]
  grep "the job has begun, and goes on or ends without a shell that comes again: index 1 was there before" again.1.err
  grep "the pod with index 1 has come again" said.0.err
}

@test "with on-lost=replace a pod that comes again takes the lost one's place, as often as it does" {
  make_group
  local index
  task='echo $NACRE_SHELL_ID >>run.$FLUX_TASK_RANK; while [ ! -e stop ]; do sleep 0.05; done; echo $FLUX_TASK_RANK ends in try $NACRE_TASK_TRY'
  run_again() { in_pod "$1" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --on-lost=replace sh -c "$task"; }
  for index in 0 1 2; do run_again $index & done
  begun() { [ "$(cat run.0 run.1 run.2 2>/dev/null | wc -l)" -eq "$1" ]; }
  wait_until begun 3
  for try in 1 2; do
    kill_shell "$(tail -1 run.1)"
    waits() { [ "$(grep -c "is lost: its task 1 waits up to 60 s for a pod to come again: there is no spare left" said.0.err)" -eq "$try" ]; }
    wait_until waits
    run_again 1 &
    wait_until begun $((3 + try))
  done
  touch stop
  wait_for_jobs || :
  [ "$(codes)" = "0 0 0 " ] || { tail said.*; return 1; }
  [ "$(sort said.0)" = $'0 ends in try 1\n1 ends in try 3\n2 ends in try 1' ]
  grep "shell 1 .*task 1 starts again on the spare shell 3" said.0.err
  grep "shell 3 .*task 1 starts again on the spare shell 4" said.0.err
}

@test "MPI starts again with the pod that comes again; one that does not come in time ends the job with a line" {
  make_group
  mpicc.mpich -O1 -o steady "$NACRE_SOURCE_DIR/t/e2e/mpi/steady.c"
  export NACRE_TIMEOUT=8
  local index
  run_mpi() { in_pod "$1" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --on-lost=replace --restart=on-failure,backoff=0s \
    sh -c 'echo $NACRE_SHELL_ID >shell.$FLUX_TASK_RANK; exec ./steady'; }
  for index in 0 1 2; do run_mpi $index & done
  wait_until test -e in.2.1
  kill_shell "$(cat shell.2)"
  waits() { grep -q "shell 2 .*is lost: its task 2 waits up to 8 s" said.0.err; }
  wait_until waits
  run_mpi 2 &
  wait_until test -e in.2.2
  kill_shell "$(cat shell.2)"
  wait_for_jobs || :
  [ "$(codes)" = "1 1 137 " ] || { tail said.*; return 1; }
  grep "shell 3 .* is lost.*task 2, which is not started again: there is no spare left, and no pod has come again within 8 s" said.0.err
}

@test "exit classes, as a podFailurePolicy reads them, and the termination log" {
  here() { timeout 60 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --exit-class=host:75,user:cause,no-progress:93 "$@" 2>said; }
  export NACRE_TERMINATION_LOG=$work/log
  run here --local=1 sh -c 'exit 7'
  [ "$status" -eq 7 ]
  [ "$(wc -l <log)" -eq 2 ]
  head -1 log | grep "sh: rank 0 on .* exited with code 7"
  tail -1 log | grep "^nacre: exit code 7 (policy max: the cause)"
  run timeout 60 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --local=1 --exit-class=user:3 sh -c 'exit 7'
  [ "$status" -eq 3 ]
  [[ $output == *"nacre: exit code 3 (policy max: exit-class user)"* ]]
  run here --local=1 -t 0.5s sleep 60
  [ "$status" -eq 93 ]
  run here --local=2 sh -c '[ $FLUX_TASK_RANK = 0 ] || kill -KILL $PPID; sleep 60'
  [ "$status" -eq 75 ]
  tail -1 log | grep "^nacre: exit code 75 (policy max: exit-class host)"
  echo before >log
  run here --local=1 true
  [ "$status" -eq 0 ]
  [ "$(cat log)" = before ]
  NACRE_TERMINATION_LOG=$work/none/log run here --local=1 sh -c 'exit 7'
  [ "$status" -eq 7 ]
  run timeout 60 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --local=1 -o exit-class=disk:7 true
  [ "$status" -eq 1 ]
  [[ $output == *"exit-class: expected host, user or no-progress, each with :CODE (1 to 255) or :cause, got 'disk:7'"* ]]
}

@test "the manifests are YAML, and have what the pods need" {
  python3 - "$NACRE_SOURCE_DIR"/etc/kubernetes/*.yaml <<'END'
import sys, yaml
for path in sys.argv[1:]:
    documents = list(yaml.safe_load_all(open(path)))
    assert all(d["apiVersion"] and d["kind"] and d["metadata"]["name"] for d in documents), path
    text = open(path).read()
    pods, todo = [], list(documents)
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            if "containers" in each:
                pods.append(each)
            todo.extend(each.values())
        elif isinstance(each, list):
            todo.extend(each)
    assert pods, path
    for pod in pods:
        container = pod["containers"][0]
        assert container["command"][:2] == ["nacre", "run"], path
        assert {"name": "secret", "mountPath": "/etc/nacre", "readOnly": True} in container["volumeMounts"], path
        assert {"name": "secret", "secret": {"secretName": "nacre"}} in pod["volumes"], path
END
}
