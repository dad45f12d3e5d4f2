#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Maps, bindings, plugins, the plan and the eventlog.
load lib.bash

# R of two nodes with two cores each, and a jobspec of 4 tasks.
two_nodes() {
  prepare 4 "$@"
  jq '.execution.R_lite = [{rank: "3", children: {core: "0-1"}}, {rank: "7", children: {core: "0-1"}}]
    | .execution.nodelist = ["left", "right"]' R.json >two.json
  mv two.json R.json
}

ranks() { nacre -o taskmap="$1" "${@:2}" | sort | tr '\n' ' '; }

@test "tasks are distributed in blocks, each shell has its share" {
  two_nodes sh -c 'echo $FLUX_TASK_RANK:$FLUX_TASK_LOCAL_ID:$FLUX_JOB_NNODES'
  run nacre -r 3
  [ "$(sort <<<"$output")" = $'0:0:2\n1:1:2' ]
  run nacre -r 7
  [ "$(sort <<<"$output")" = $'2:0:2\n3:1:2' ]
}

@test "taskmap schemes: block, cyclic, manual, hostfile" {
  two_nodes sh -c 'echo $FLUX_TASK_RANK'
  [ "$(ranks block -r 3)" = "0 1 " ]
  [ "$(ranks cyclic -r 3)" = "0 2 " ]
  [ "$(ranks cyclic:2 -r 3)" = "0 1 " ]
  [ "$(ranks '{"scheme":"manual","value":"[[1,1,2,1],[0,1,2,1]]"}' -r 3)" = "2 3 " ]
  printf '%s\n' right left left right >hosts
  [ "$(ranks "hostfile:$work/hosts" -r 3)" = "1 2 " ]
}

@test "a map may move tasks to another node, which may be left with none" {
  two_nodes sh -c 'echo $FLUX_TASK_RANK'
  run nacre -o taskmap=manual:'[[0,1,1,1],[1,1,3,1]]' -r 7
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output" | tr '\n' ' ')" = "1 2 3 nacre-shell[1]: taskmap.manual: 3 tasks on node 1, where R has room for 2 " ]
  run nacre -o taskmap=manual:'[[1,1,4,1]]' -r 3
  [ "$status" -eq 0 ]
  [ "$output" = "" ]
}

@test "per-resource: tasks by core and by node" {
  prepare 2 sh -c 'echo $FLUX_TASK_RANK of $FLUX_JOB_SIZE'
  run nacre -o per-resource.type=core -o per-resource.count=2
  [ "$(sort <<<"$output")" = $'0 of 4\n1 of 4\n2 of 4\n3 of 4' ]
  run nacre -o per-resource.type=node
  [ "$output" = "0 of 1" ]
}

@test "each task is bound to its own cpu with per-task, seen from inside" {
  [ "$(nproc)" -ge 2 ]
  prepare 2 sh -c 'sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status'
  nacre=("$NACRE_SHELL" --standalone -j jobspec.json -R R.json)
  run nacre -o cpu-affinity=per-task
  [ "$status" -eq 0 ]
  [ "$(sort -u <<<"$output" | wc -l)" -eq 2 ]
  run nacre -o 'cpu-affinity=map:1;0' -o label-io
  [ "$(sort <<<"$output")" = $'0: 1\n1: 0' ]
}

@test "gpus are shared out" {
  prepare 2 sh -c 'echo $CUDA_VISIBLE_DEVICES'
  jq '.execution.R_lite[0].children.gpu = "0-3"' R.json >gpus.json
  mv gpus.json R.json
  run nacre -o gpu-affinity=per-task -o label-io
  [ "$(sort <<<"$output")" = $'0: 0,1\n1: 2,3' ]
}

@test "a jobspec in YAML" {
  prepare 2 true
  cat >jobspec.json <<'EOF'
version: 1
resources:
  - {type: node, count: 1, with: [{type: slot, label: s, count: 2, with: [{type: core, count: 1}]}]}
tasks:
  - {command: [echo, "007", hello], slot: s, count: {per_slot: 1}}
attributes: {system: {duration: 1.5, environment: {PATH: /usr/bin:/bin}}}
EOF
  run nacre
  [ "$output" = $'007 hello\n007 hello' ]
}

@test "an initrc sets options and the environment, and adds a plugin" {
  prepare 2 sh -c 'echo $A $B'
  cat >init.lua <<'EOF'
shell.options["label-io"] = true
shell.setenv("A", "all")
plugin.register { name = "t", handlers = {
  { topic = "task.init", fn = function () task.setenv("B", "b" .. task.info.rank) end },
  { topic = "task.exit", fn = function () shell.log("code " .. task.info.exitcode) end } } }
EOF
  run --separate-stderr nacre --initrc=init.lua
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0: all b0\n1: all b1' ]
  [[ $stderr == *"t: code 0"* ]]
}

@test "a plugin of the same name replaces a builtin" {
  prepare 1 sh -c 'ulimit -Sn'
  echo 'plugin.register { name = "rlimit", handlers = {} }' >init.lua
  run nacre -o rlimit.nofile=77
  [ "$output" = 77 ]
  run nacre -o rlimit.nofile=77 --initrc=init.lua
  [ "$output" != 77 ]
}

@test "task.exec runs in the task's own process" {
  prepare 2 sh -c 'echo $$'
  cat >init.lua <<'EOF'
plugin.register { name = "x", handlers = {
  { topic = "task.exec", fn = function ()
      local f = io.open("exec." .. task.info.rank, "w")
      f:write(io.open("/proc/self/stat"):read("n"))
      f:close()
    end } } }
EOF
  run nacre --initrc=init.lua -o label-io
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = "$(printf '0: %s\n1: %s' "$(cat exec.0)" "$(cat exec.1)")" ]
}

@test "the topics of a job, in order" {
  prepare 1 true
  cat >init.lua <<'EOF'
plugin.register { name = "x", handlers = { { topic = "*", fn = function (topic)
  local f = io.open("topics", "a"); f:write(topic, "\n"); f:close() end } } }
EOF
  run nacre --initrc=init.lua -o taskmap=block
  [ "$status" -eq 0 ]
  [ "$(grep -v shell.log topics | tr '\n' ' ')" = "taskmap.block shell.init shell.post-init task.init task.exec task.fork shell.start task.exit job.tasks-exited shell.finish shell.tasks-complete shell.exit " ]
}

@test "shell.die in an initrc ends the job before it starts" {
  prepare 1 echo ran
  echo 'shell.die("not today")' >init.lua
  run nacre --initrc=init.lua
  fails_with 1 "not today"
}

@test "--explain prints the whole plan and starts nothing" {
  prepare 2 touch ran
  run nacre --explain -o rlimit.core=0 -o taskmap=cyclic
  [ "$status" -eq 0 ]
  [[ $output == *"tasks     2 on 1 node"* ]]
  [[ $output == *"task 1 (local 1)"* ]]
  [[ $output == *"limit   core 0"* ]]
  [[ $output == *"+FLUX_TASK_RANK='1'"* ]]
  [[ $output == *"plugins, in order"*"taskmap"*"output"* ]]
  [ ! -e ran ]
  [ -z "$(ls "$TMPDIR")" ]
}

@test "--explain tells which options there are, where each comes from, and which files were read" {
  options='{"exit-timeout": "5s", "rlimit": {"core": 1, "stack": 2}}' prepare 1 true
  echo 'shell.options["label-io"] = true; source "more.lua"' >rc.lua
  echo 'shell.options.verbose = 1' >more.lua
  run nacre --explain -o rlimit.core=0 --initrc=rc.lua
  [ "$status" -eq 0 ]
  plan=$(sed -n '/^options, and where they come from$/,/^$/p' <<<"$output")
  [ "$(grep -E 'rlimit|exit-timeout|label-io|verbose' <<<"$plan" | tr -s ' ')" = " jobspec exit-timeout=\"5s\"
 rc.lua:1 label-io=true
 command line rlimit.core=0
 jobspec rlimit.stack=2
 more.lua:1 verbose=1" ]
  [ "$(sed -n '/^files that were read$/,$p' <<<"$output" | tail -n +2 | xargs -n 1 basename | tr '\n' ' ')" = "rc.lua more.lua " ]
}

@test "the eventlog has the job's events, in order" {
  prepare 2 sh -c 'exit 3'
  run nacre --eventlog=log
  [ "$status" -eq 3 ]
  [ "$(jq -r .name log | tr '\n' ' ')" = "shell.init shell.start shell.task-exit shell.exit " ]
  [ "$(jq -c 'select(.name == "shell.task-exit").context | .rank -= .localid | del(.pid, .localid)' log)" = \
    '{"exitcode":3,"rank":0,"signaled":0,"state":"Exited","wait_status":768}' ]
  [ "$(jq -c 'select(.name == "shell.exit").context' log)" = '{"exitcode":3}' ]
  [ "$(jq -s 'map(.timestamp) == (map(.timestamp) | sort)' log)" = true ]
  [ "$(jq -c 'select(.name == "shell.start").context.taskmap.map' log)" = '[[0,1,2,1]]' ]
}

@test "an exception is in the eventlog" {
  prepare 1 false
  run nacre --eventlog=log -o exit-on-error
  [ "$status" -eq 1 ]
  [ "$(jq -c 'select(.name == "exception").context | [.type, .severity]' log)" = '["exec",0]' ]
}
