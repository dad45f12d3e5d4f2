#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# All shells of a job read the same initrc, or the job ends; a site's mandatory one; nacre initrc check; where the installed one lies.
load nodes.bash

prepare_hosts() {
  write_nodes 4 1
  for host in node0 node1 node2 node3; do
    mkdir -p "$host/lua.d"
    echo 'shell.source_rcpath ("*.lua")' >"$host/rc.lua"
    echo 'shell.setenv ("SEEN", "yes")' >"$host/lua.d/seen.lua"
  done
  write_jobspec 4 sh -c 'echo ran $SEEN'
}

# bats test_tags=long
@test "a job whose hosts have the same initrc runs" {
  prepare_hosts
  on_hosts -o initrc=rc.lua
  [ "$status" -eq 0 ]
  [ "$(grep -c '^ran yes$' <<<"$output")" -eq 4 ]
}

@test "hosts with another initrc are named, and no task runs" {
  prepare_hosts
  echo '-- older' >>node1/rc.lua
  echo '-- older' >>node3/rc.lua
  on_hosts -o initrc=rc.lua
  [ "$status" -eq 1 ]
  [ -z "$output" ]
  [[ $stderr == *"initrc: shell 1,3 on node[1,3] has another than shell 0: install the same on all hosts, or run with -o initrc-check=off"* ]]
  [ "$(grep -c 'initrc:' <<<"$stderr")" -eq 1 ]
}

@test "a host with other files in lua.d is named" {
  prepare_hosts
  rm node2/lua.d/seen.lua
  on_hosts -o initrc=rc.lua
  [ "$status" -eq 1 ]
  [[ $stderr == *"initrc: shell 2 on node2 has other files in lua.d than shell 0"* ]]
}

# bats test_tags=long
@test "with initrc-check=off each host may have its own" {
  prepare_hosts
  echo '-- older' >>node1/rc.lua
  on_hosts -o initrc=rc.lua -o initrc-check=off
  [ "$status" -eq 0 ]
  [ "$(grep -c '^ran yes$' <<<"$output")" -eq 4 ]
}

@test "initrc-check of another value is refused" {
  prepare_hosts
  on_hosts -o initrc=rc.lua -o initrc-check=perhaps
  [ "$status" -eq 1 ]
  [[ $stderr == *"initrc-check: expected on or off"* ]]
}

# Programs, library and configuration below $1, as a package of another prefix would have them.
install_below() {
  installable "$work/build"
  env -u DESTDIR cmake --install "$work/build" --prefix "$1" >/dev/null
}

@test "below a prefix of its own the program finds its initrc and its library" {
  install_below "$work/here"
  echo 'shell.log ("read " .. shell.rcpath .. " " .. require "nacre".idset "0-1")' >>here/etc/nacre/shell/initrc.lua
  write_jobspec 1 true
  NACRE_SHELL=$work/here/bin/nacre-shell run "$work/here/bin/nacre" launch --local=1 -j jobspec.json
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[0]: initrc: read $work/here/etc/nacre/shell 0-1" ]
}

# Each host has an installed tree of its own in the same place, by its PATH.
by_own_path() {
  cat >agent <<'END'
#!/bin/sh
host=$1
shift
cd "$WORK/$host" && PATH=$PWD/here/bin:/usr/bin:/bin exec sh -c "$*"
END
  chmod +x agent
  export WORK=$work
  NACRE_SHELL=nacre-shell run ${by_code:+"-$by_code"} --separate-stderr launch --hosts="node[0-3]" --agent="$work/agent" -R "$work/R.json" -o cpu-affinity=off "$@"
  echo "$output$stderr"
}

@test "a host that lacks the installed initrc is named with the file, and so is one that lacks the program" {
  prepare_hosts
  install_below "$work/node0/here"
  for host in node1 node2 node3; do cp -a node0/here "$host"; done
  rm node1/here/etc/nacre/shell/initrc.lua node3/here/etc/nacre/shell/initrc.lua
  by_own_path
  [ "$status" -eq 1 ]
  [ -z "$output" ]
  [[ $stderr == *"initrc: shell 1,3 on node[1,3] has read none, and shell 0 has read $work/node0/here/etc/nacre/shell/initrc.lua: install the same on all hosts, or run with -o initrc-check=off"* ]]
  [ "$(wc -l <<<"$stderr")" -eq 1 ]
  rm node0/here/etc/nacre/shell/initrc.lua
  by_own_path
  [ "$status" -eq 1 ]
  [[ $stderr == *"initrc: shell 2 on node2 has read one, and shell 0 has no "*"/initrc.lua: install the same"* ]]
  by_own_path -o initrc-check=off
  [ "$status" -eq 0 ]
  # A task's exit codes 126 and 127 do not mean that.
  local code
  for code in 126 127; do
    write_jobspec 4 sh -c "exit $code"
    by_code=$code by_own_path -o initrc-check=off
    [[ $stderr == *"exit code $code: 0-3"* && $stderr != *"nacre-shell there"* ]] || { echo "$stderr"; return 1; }
  done
  write_jobspec 4 true
  rm node2/here/bin/nacre-shell
  by_own_path
  [ "$status" -eq 1 ]
  [[ $stderr == *"shell 2 on node2 was not started: "*"nacre-shell: not found"*"; if node2 has no nacre-shell there, install nacre at the same path on all hosts, or give its path by --shell=PATH"* ]]
  rm node0/here/bin/nacre-shell
  by_code=127 by_own_path
  [[ $stderr == *"nacre-shell: not found"*"nacre launch: node0: exit code 127 by $work/agent; if node0 has no nacre-shell there, install nacre "* ]]
}

@test "a site's mandatory.lua is run before any other, and without one" {
  install_below "$work/here"
  echo 'shell.setenv ("SITE", (shell.getenv ("SITE") or "") .. "site")' >here/etc/nacre/shell/mandatory.lua
  echo 'shell.setenv ("SITE", shell.getenv ("SITE") .. " mine")' >rc.lua
  prepare 1 sh -c 'echo $SITE'
  nacre=("$work/here/bin/nacre-shell" --standalone -j jobspec.json -R R.json -o cpu-affinity=off)
  run nacre
  [ "$output" = site ]
  run nacre --initrc=rc.lua
  [ "$output" = "site mine" ]
  run nacre -o initrc=rc.lua
  [ "$output" = "site mine" ]
}

check() { run "$NACRE_BUILD_DIR/nacre" initrc check "$@"; }

@test "nacre initrc check passes one that is fine, with what it reads" {
  mkdir lua.d
  echo 'shell.source_rcpath ("*.lua")' >rc.lua
  echo 'plugin.register { name = "mine", handlers = { { topic = "task.init", fn = function () end } } }' >lua.d/mine.lua
  check rc.lua
  echo "$output"
  [ "$status" -eq 0 ]
  [ "${lines[0]}" = "reads rc.lua" ]
  [ "${lines[1]}" = "reads $PWD/lua.d/mine.lua" ]
  [ "${lines[2]}" = "rc.lua: fine: plugins mine" ]
}

@test "nacre initrc check names mistakes, unknown options and unknown topics with what they are near to" {
  echo 'shell.options.x = = 1' >rc.lua
  check rc.lua
  [ "$status" -eq 1 ]
  [[ ${lines[0]} == *"rc.lua:1: unexpected symbol near '='"* ]]
  cat >rc.lua <<'END'
if shell.options["exit-timout"] then return end
local own = shell.options.greeting
plugin.register { name = "mine", handlers = { { topic = "task.intit", fn = function () return own end } } }
END
  check rc.lua
  echo "$output"
  [ "$status" -eq 1 ]
  [ "${lines[0]}" = "rc.lua:1: names the option 'exit-timout', which nobody knows: did you mean 'exit-timeout'?" ]
  [[ ${lines[1]} == *"plugin 'mine' listens to 'task.intit', which no shell ever calls: did you mean 'task.init'?" ]]
  [ "${lines[2]}" = "rc.lua:2: note: the option 'greeting' is this file's own" ]
}

@test "nacre initrc check: a file that is not there, and one that does not end" {
  check nowhere.lua
  fails_with 1 "nacre initrc check: nowhere.lua: No such file or directory"
  echo 'while true do end' >rc.lua
  check rc.lua -o lua-timeout=0.2s
  [ "$status" -eq 1 ]
  [[ ${lines[0]} == *"rc.lua:1: this file takes longer than 200ms"* ]]
}

@test "the installed initrc, with all that it reads, is fine" {
  check "$NACRE_SOURCE_DIR/etc/initrc.lua" -o omp-threads=per-task -o failure-summary -o scratch -o node-health -o vmstat -o nic-affinity=closest -o mpi=openmpi@5
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(grep -c '^reads .*/lua.d/' <<<"$output")" -eq 8 ]
  [ "$(grep -c note: <<<"$output")" -eq 0 ]
}
