#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The first pod of a job is lost, whose shell leads the job, and comes again. All pods are on this host, with one port, which the leader has
# then; t/cluster/pods.bats has them apart.
load lib.bash
load pods.bash

# What each task does: its shell's mark is the last line of run.RANK.
task='echo $NACRE_SHELL_ID >>run.$FLUX_TASK_RANK; echo "$FLUX_TASK_RANK begins"; while [ ! -e stop ]; do sleep 0.1; done; echo "$FLUX_TASK_RANK ends in try $NACRE_TASK_TRY"'

# start_pod AS INDEX OPTION...: the pod INDEX, in the background. What it says is in AS.INDEX, its code in AS.INDEX.code.
start_pod() { as=$1 in_pod "$2" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" "${@:3}" sh -c "$task" 3>&- & }

begun() { [ "$(cat run.? 2>/dev/null | wc -l)" -eq "$1" ]; }
shell_of() { tail -n 1 "run.$1" | sed 's/.*\.//'; }
all_said() { cat ./*.err; }
# lose_pod INDEX: kills the shell that its task is on.
lose_pod() { kill_shell "$(tail -n 1 "run.$1")"; }
leads() { grep -q "shell $1 on .*, which led the job, is lost: shell .* leads now" ./*.err; }
waits() { grep -q "shell $1 on .* is lost: its task .* waits up to .* for a pod to come again" ./*.err; }
# Whoever leads says what all tasks write.
ends() { cat ./*.[0-9] | grep -o '.* ends in try .*' | sort | paste -sd,; }
# ends_with CODES WHO...: the exit codes of these pods, AS.INDEX.
ends_with() { wait_for_jobs || :; [ "$(cat "${@/%/.code}" | paste -sd,)" = "$1" ] || { tail -n 20 ./*.[0-9] ./*.err; return 1; }; }

@test "the first pod is lost, and comes again; then the next leader's, which comes again, too" {
  make_group
  local index
  for index in 0 1 2; do start_pod said $index --on-lost=replace; done
  wait_until begun 3
  lose_pod 0
  wait_until waits 0
  grep -q "leader-lost: shell 0 on .*, which led the job, is lost: shell 1 on .* leads now" said.1.err
  start_pod again 0 --on-lost=replace
  wait_until begun 4
  [ "$(shell_of 0)" = 3 ]
  lose_pod 1
  wait_until waits 1
  start_pod again 1 --on-lost=replace
  wait_until begun 5
  [ "$(shell_of 1)" = 4 ]
  touch stop
  ends_with 137,137,0,0,0 said.{0,1,2} again.{0,1}
  [ "$(ends)" = "0 ends in try 2,1 ends in try 2,2 ends in try 1" ] || { tail -n 20 said.* again.*; return 1; }
}

# bats test_tags=long
@test "five pods: the leader is lost twice and nobody comes in time, then another one does" {
  make_group
  export NACRE_TIMEOUT=15
  local index
  for index in 0 1 2 3 4; do size=5 start_pod said $index --on-lost=replace,else=go-on -o exit-report=off; done
  wait_until begun 5
  lose_pod 0
  wait_until waits 0
  lose_pod 1
  wait_until waits 1
  wait_until leads 1
  given_up() { [ "$(grep -l "task $1, which is not started again: there is no spare left, and no pod has come again within 15 s" said.[234].err | wc -l)" = 1 ]; }
  wait_until given_up 0
  wait_until given_up 1
  lose_pod 4
  wait_until waits 4
  size=5 start_pod again 4 --on-lost=replace,else=go-on
  wait_until begun 6
  touch stop
  ends_with 137,137,1,1,137,1 said.{0,1,2,3,4} again.4
  [ "$(ends)" = "2 ends in try 1,3 ends in try 1,4 ends in try 2" ] || { tail -n 20 said.* again.*; return 1; }
}

# bats test_tags=long
@test "the first pod is killed at each step of the job, and comes again as Kubernetes has it come" {
  make_group
  task='echo "ran $FLUX_TASK_RANK"; sleep 0.2'
  local topic index code
  # Before the first pod comes again the next leader has the port, or the others have ended.
  is_led_or_over() { grep -q "leader-lost: " "$topic".?.[12].err || { [ -e "$topic.$1.1.code" ] && [ -e "$topic.$1.2.code" ]; }; }
  # A pod that is killed, or has failed, comes again.
  keep_pod() {
    local try
    for try in 1 2 3; do
      ((try == 1 || $1 != 0)) || wait_until is_led_or_over $((try - 1))
      as=$topic.$try in_pod "$1" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --on-lost=replace --initrc="$PWD/rc.lua" sh -c "$task"
      [ "$(cat "$topic.$try.$1.code")" != 0 ] || { : >"$topic.over.$1"; return; }
    done
  }
  for topic in initrc shell.init shell.post-init task.init task.fork shell.start task.exit; do
    cat >rc.lua <<EOF
local topic = "$topic"
local function die () if shell.info.rank == 0 and os.execute ("mkdir $topic.lost 2>/dev/null") then os.execute ("kill -KILL \$PPID; sleep 10") end end
if topic == "initrc" then die () else plugin.register { name = "dies", handlers = { { topic = topic, fn = die } } } end
EOF
    for index in 2 1 0; do keep_pod $index 3>&- & done
    wait_for_jobs || :
    [ -d $topic.lost ]
    [ -e $topic.over.0 ] && [ -e $topic.over.1 ] && [ -e $topic.over.2 ] || { tail -n 20 $topic.[1-3].*; return 1; }
    for index in 0 1 2; do cat $topic.[1-3].[012] | grep -q "ran $index" || { tail -n 20 $topic.[1-3].*; return 1; }; done
  done
}

# bats test_tags=long
@test "the first pod is killed once all tasks have ended: the others end with the job's code" {
  make_group
  export NACRE_TIMEOUT=10 # for so long they wait for it, as it may not have told how its own task has ended
  local topic index
  for topic in shell.finish shell.tasks-complete shell.exit; do
    rm -f ./*.[0-9] ./*.err ./*.code
    cat >rc.lua <<EOF
plugin.register { name = "dies", handlers = { { topic = "$topic", fn = function () if shell.info.rank == 0 then os.execute ("kill -KILL \$PPID; sleep 10") end end } } }
EOF
    task='echo "$FLUX_TASK_RANK ends in try 1"; exit 3'
    for index in 2 1 0; do start_pod $topic $index --on-lost=replace --initrc="$PWD/rc.lua"; done
    ends_with 137,3,3 $topic.{0,1,2}
    grep -q "leader-lost: shell 0 on .*, which led the job, is lost" $topic.[12].err
  done
}

@test "reports, and the termination log, are written where the next leader is; input ends with the first pod" {
  make_group
  local index
  task="$task; cat >in.\$FLUX_TASK_RANK; exit \$FLUX_TASK_RANK"
  for index in 0 1 2; do
    mkdir pod.$index
    NACRE_TERMINATION_LOG=$PWD/pod.$index/termination start_pod said $index --on-lost=go-on -o on-leader-lost=take-over --report="pod.$index/report" --joblog="pod.$index/log"
  done
  wait_until begun 3
  lose_pod 0
  wait_until leads 0
  touch stop
  ends_with 137,2,2 said.{0,1,2}
  # The options are those of the first pod, as all have the same command line elsewhere.
  [ "$(jq -c '[.exit.code, (.classes[] | [.record, .ranks])]' pod.0/report)" = '[2,["l","0"],["x1","1"],["x2","2"]]' ] || { ls pod.*; cat pod.0/report; return 1; }
  [ "$(tail -n +2 pod.0/log | cut -f1 | sort | paste -sd,)" = 2,3 ] || { cat pod.0/log; return 1; }
  tail -n 1 pod.1/termination | grep "^nacre: exit code 2 (policy max: task 2"
  [ ! -e pod.2/termination ] && [ ! -e pod.0/termination ]
}

@test "a pod that comes again as another leads, and the job takes none back, is turned away with a line" {
  make_group
  local index
  for index in 0 1 2; do start_pod said $index --on-lost=go-on -o on-leader-lost=take-over; done
  wait_until begun 3
  lose_pod 0
  wait_until leads 0
  as=again in_pod 0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" true
  [ "$(cat again.0.code),$(wc -l <again.0.err)" = 1,1 ] || { cat again.0.err; return 1; }
  grep -q "the job has begun, and goes on or ends without a shell that comes again: index 0 was there before" again.0.err
  touch stop
  ends_with 137,1,1 said.{0,1,2}
}
