#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# --explain of several shells: one plan, in which what differs is marked with its hosts.
load nodes.bash

# The lines of the section $1.
section() { sed -n "/^$1\$/,/^\$/p" <<<"$output" | sed '1d; /^$/d'; }

prepare_hosts() {
  write_nodes 4 2
  mkdir node0 node1 node2 node3
  write_jobspec 8 touch "$work/ran"
}

@test "one plan of all shells; equal parts come once" {
  prepare_hosts
  on_hosts --arity=2 --explain -o rlimit.core=0
  [ "$status" -eq 0 ]
  [ -z "$stderr" ]
  [ "$(grep -c '^job ' <<<"$output")" -eq 1 ]
  [ "$(grep '^tasks' <<<"$output")" = "tasks     8 on 4 nodes, taskmap [[0,4,2,1]]" ]
  [ "$(grep '^shells' <<<"$output")" = "shells    4 of 4: node[0-3]" ]
  [ "$(grep '^cores' <<<"$output")" = "cores     0-1" ]
  [ "$(grep -c '^plugins, in order$' <<<"$output")" -eq 1 ]
  [ "$(section 'each task' | grep -c 'limit   core 0')" -eq 1 ]
  [ "$(grep -c 'limit   core 0' <<<"$output")" -eq 1 ]
  for rank in 0 3 7; do
    grep -qx "task $rank (local $((rank % 2))) on node$((rank / 2))" <<<"$output"
    grep -qF "+FLUX_TASK_RANK='$rank'" <<<"$output"
  done
  [ ! -e ran ]
}

# bats test_tags=long
@test "what differs is marked with the hosts: cores, files, options of an initrc, plugins" {
  prepare_hosts
  jq '.execution.R_lite = [{rank: "0-1", children: {core: "0-1"}}, {rank: "2-3", children: {core: "2-3"}}]' R.json >other.json
  mv other.json R.json
  for host in node0 node1 node2 node3; do echo 'shell.options["label-io"] = true' >$host/rc.lua; done
  printf '\nshell.options["exit-timeout"] = "7s"\nsource "more.lua"\n' >>node3/rc.lua
  echo 'plugin.register { name = "extra", handlers = { { topic = "shell.init", fn = function () end } } }' >node3/more.lua
  on_hosts --arity=2 --explain -o initrc=rc.lua -o initrc-check=off
  [ "$status" -eq 0 ]
  [ "$(grep '^cores' <<<"$output")" = $'cores     node[0-1]: 0-1\ncores     node[2-3]: 2-3' ]
  [ "$(section 'options, and where they come from' | grep label-io | tr -s ' ')" = " rc.lua:1 label-io=true" ]
  section 'options, and where they come from' | tr -s ' ' | grep -qxF ' node3: rc.lua:3 exit-timeout.timeout="7s"'
  section 'plugins, in order' | grep -q '^  node3: extra'
  [ "$(sed -n '/^files that were read$/,$p' <<<"$output" | sed 's|[^ ]*/||')" = $'files that were read\n  rc.lua\n  node3: more.lua' ] || { echo "$output"; return 1; }
}

@test "who has set an option: the command line, the front end, the jobspec, an initrc, a plugin" {
  write_nodes 2 1
  options='{"rlimit": {"stack": 2}}' write_jobspec 2 true
  echo 'shell.options.output = { fold = true }; shell.options.output.ranks = "0"' >rc.lua
  run --separate-stderr launch --local=2 -R R.json -o cpu-affinity=off --explain --exit-policy=all --initrc=rc.lua
  [ "$status" -eq 0 ] || { echo "$output$stderr"; return 1; }
  [ "$(section 'options, and where they come from' | tr -s ' ' | sed "s|$PWD/||")" = ' command line cpu-affinity="off"
 command line exit-policy="all"
 nacre launch exit-timeout.after="failure"
 rc.lua:1 output.fold=true
 rc.lua:1 output.ranks="0"
 jobspec rlimit.stack=2' ] || { echo "$output"; return 1; }
  for shells in 1 2; do
    run --separate-stderr "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --local=$shells -n 2 --explain -l --output=o -o kill-timeout=1s true
    [ "$status" -eq 0 ] || { echo "$output$stderr"; return 1; }
    [ "$(section 'options, and where they come from' | tr -s ' ')" = ' nacre run exit-timeout.after="failure"
 command line kill-timeout="1s"
 command line label-io=true
 command line output.stdout.path="o"
 nacre run oversubscribe="share"' ] || { echo "$output"; return 1; }
    run --separate-stderr "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --local=$shells --explain -o cpu-affinity=off -o oversubscribe --file=jobspec.json
    [ "$(section 'options, and where they come from' | tr -s ' ')" = ' command line cpu-affinity="off"
 nacre run exit-timeout.after="failure"
 command line oversubscribe=1
 jobspec rlimit.stack=2' ] || { echo "$output"; return 1; }
  done
}

@test "nacre run --explain is a few lines; variables, plugins and files are asked for" {
  local shells
  explain() { run --separate-stderr "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --local=$shells -n 4 -o kill-timeout=1s "$@" true; }
  for shells in 1 2; do
    explain --explain
    [[ $status -eq 0 && $(wc -l <<<"$output") -le 15 ]] || { echo "$output$stderr"; return 1; }
    grep -qE '^places    tasks? 0(-[13])?( on .*)?: cpus ' <<<"$output" || { echo "$output"; return 1; }
    [[ $output == *'command line     kill-timeout="1s"'* && $output != *NACRE_* && $output != *builtin* ]]
    explain --explain=env
    [[ $output == *"env     +NACRE_TASK_RANK='3'"* && $output != *builtin* ]]
    explain --explain=all
    [[ $output == *"env     +NACRE_TASK_RANK='3'"* && $output == *builtin* && $output == *"files that were read"* ]]
  done
}

# bats test_tags=long
@test "a shell that fails has no plan; the error is the leader's" {
  prepare_hosts
  for host in node0 node1 node2; do echo >$host/rc.lua; done
  echo 'plugin.register { name = "t", handlers = { { topic = "task.init", fn = function () shell.die ("no task here") end } } }' >node3/rc.lua
  on_hosts --arity=2 --explain -o initrc=rc.lua -o initrc-check=off
  [ "$status" -eq 1 ]
  [[ $output != *tasks* ]]
  [[ $stderr == *"no task here"* ]]
}

# bats test_tags=long
@test "the directories of the user's files, and what an initrc reads, are the caller's on all hosts" {
  prepare_hosts
  for host in node0 node1 node2 node3; do
    echo 'shell.setenv ("SEEN", table.concat ({ os.getenv ("XDG_CONFIG_HOME"), os.getenv ("XDG_CACHE_HOME"), os.getenv ("XDG_DATA_HOME") }, " "))
shell.source_rcpath ("*.lua")' >$host/rc.lua
  done
  mkdir more
  echo 'shell.setenv ("MORE", "read")' >more/site.lua
  write_jobspec 4 sh -c 'echo $SEEN $MORE'
  # Like ssh, this agent passes on no variables.
  cat >agent.sh <<END
#!/bin/sh
host=\$1
shift
cd "$work/\$host" && exec env -i PATH="\$PATH" HOME="\$HOME" sh -c "\$*"
END
  chmod +x agent.sh
  export XDG_CONFIG_HOME=$work/c XDG_CACHE_HOME=$work/k XDG_DATA_HOME=$work/d FLUX_SHELL_RC_PATH=$work/more
  run launch --hosts="node[0-3]" --agent="$work/agent.sh" -R R.json -o cpu-affinity=off --arity=2 -o initrc=rc.lua
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(grep -cx "$work/c $work/k $work/d read" <<<"$output")" -eq 4 ] || { echo "$output"; return 1; }
}

@test "a plan whose reader has gone is no error" {
  prepare 1 true
  { until [ -e gone ]; do sleep 0.05; done; code=0; nacre --explain 2>err || code=$?; echo $code >code; } | { exec <&-; touch gone; }
  wait_until 20 test -s code
  [ ! -s err ] || { cat err; return 1; }
  [ "$(<code)" -eq 1 ]
}
