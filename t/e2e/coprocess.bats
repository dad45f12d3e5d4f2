#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Programs beside the tasks, and the measurement of what a job uses.
load lib.bash

# Tasks that end once the file $1 has a line.
prepare_waiting() { prepare 2 sh -c 'until [ -s "$0" ]; do sleep 0.1; done' "$1"; }

# The process that wrote its id into the file $1, and all below it, are gone.
gone() { [ ! -e "/proc/$(head -n 1 "$1")" ]; }

@test "a coprocess runs beside the tasks, and what it says last is kept too" {
  prepare 2 sh -c 'until grep -q err coproc-mon-ƒ2Ct.log; do sleep 0.01; done'
  run nacre ƒ2Ct -o coprocess.mon.command='trap "echo bye; exit" TERM; echo out; echo err >&2; while :; do :; done'
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  [ "$(cat coproc-mon-ƒ2Ct.log)" = $'out\nerr\nbye' ]
}

@test "a job does not wait for a coprocess that would go on" {
  prepare_waiting mon.log
  SECONDS=0
  run nacre -v -o coprocess.mon='{"command": ["sh", "-c", "echo $$; exec sleep 300"], "output": "mon.log"}'
  [ "$status" -eq 0 ]
  ((SECONDS < 100))
  [[ $output == *"coprocess: mon (process "*"): launched, its output goes to mon.log"* ]]
  [[ $output == *"coprocess: SIGTERM to mon (process "*"); waiting up to 10s before SIGKILL"* ]]
  gone mon.log
}

@test "a coprocess has the job's directory, environment and templates" {
  mkdir there
  cwd=$work/there environment='{"PATH": "/usr/bin:/bin", "GIVEN": "a b"}' prepare_waiting env-node0-0
  run nacre ƒ2Ct -o coprocess.env='{"command": ["sh", "-c", "echo \"$1 $GIVEN $FLUX_JOB_ID $PWD\"", "sh", "{{id}} {{ntasks}}"],
    "output": "env-{{node.name}}-{{node.id}}"}'
  [ "$status" -eq 0 ]
  [ "$(cat there/env-node0-0)" = "ƒ2Ct 2 a b ƒ2Ct $work/there" ]
}

@test "a coprocess that ignores SIGTERM is killed after coprocess-kill-timeout" {
  prepare_waiting mon.log
  run nacre -o coprocess.mon.output=mon.log -o coprocess-kill-timeout=0.2s \
    -o coprocess.mon.command='trap "" TERM; echo $$; while :; do sleep 300; done'
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ $output == *"warn: coprocess: mon (process "*") still runs 200ms after SIGTERM: sending SIGKILL" ]]
  gone mon.log
}

@test "a coprocess that ends early does not matter to the job; one that fails is named" {
  prepare_waiting bad.log
  run nacre -o coprocess.good.command=/bin/true -o coprocess.bad='{"command": "echo ready; exit 3", "output": "bad.log"}'
  [ "$status" -eq 0 ]
  # The task may see the line before the shell sees the end.
  [[ -z $output || $output == *"warn: coprocess: bad (process "*") exited with code 3 before the tasks ended" ]]
}

@test "a coprocess that cannot be started fails the job before its tasks, and those that run are ended" {
  prepare 1 touch ran
  run nacre -o coprocess.a='{"command": "echo $$; exec sleep 300", "output": "a.log"}' -o coprocess.b.command='["no-such-program"]'
  fails_with 1 "coprocess.b.command: no-such-program: No such file or directory"
  [ ! -e ran ]
  [ ! -s a.log ] || gone a.log
}

@test "a file that cannot be written fails the job before its tasks" {
  prepare 1 touch ran
  run nacre -o coprocess.mon='{"command": "true", "output": "missing/mon.log"}'
  fails_with 1 "coprocess.mon.output: cannot write missing/mon.log: No such file or directory"
  [ ! -e ran ]
}

@test "several coprocesses run at once, each on the shells of its ranks" {
  prepare 2 sh -c 'until [ -s a.log ] && [ -s b.log ]; do sleep 0.01; done'
  run nacre -o coprocess.a='{"command": "echo A; exec sleep 300", "output": "a.log", "ranks": "0"}' \
    -o coprocess.b='{"command": "echo B; exec sleep 300", "output": "b.log", "ranks": "all"}'
  [ "$status" -eq 0 ]
  [ "$(cat a.log b.log)" = $'A\nB' ]
}

@test "ranks choose the shells" {
  prepare 2 true
  jq '.execution.R_lite = [{rank: "0-1", children: {core: "0"}}] | .execution.nodelist = ["node[0-1]"]' R.json >two.json
  mv two.json R.json
  coprocess='{"command": "echo here", "output": "ranks-{{node.id}}.log", "ranks": "1"}'
  nacre -r 0 -o coprocess.mon="$coprocess"
  [ ! -e ranks-0.log ]
  nacre -r 1 -o coprocess.mon="$coprocess"
  [ -e ranks-1.log ]
  run nacre -o coprocess.mon.command=/bin/true -o coprocess.mon.ranks=2
  fails_with 1 "coprocess.mon.ranks: the job has no shell 2, but 0-1"
}

@test "a plan starts no coprocess, but finds its mistakes" {
  prepare 1 true
  run nacre --explain -o coprocess.mon='{"command": "true", "output": "mon.log"}'
  [ "$status" -eq 0 ]
  [ ! -e mon.log ]
  run nacre --explain -o coprocess.mon.comand=true
  fails_with 1 "coprocess.mon.comand: unknown key; known: command, output, ranks"
}

@test "the job's signals are not passed on to its coprocesses" {
  prepare 1 sh -c 'trap "exit 7" USR1; until [ -s mon.log ]; do sleep 0.1; done; kill -USR1 $PPID; while :; do sleep 0.01; done'
  run nacre -o coprocess.mon='{"command": "trap \"echo USR1\" USR1; trap exit TERM; echo ready; while :; do :; done",
    "output": "mon.log"}'
  [ "$status" -eq 7 ]
  [ "$(cat mon.log)" = ready ]
}

@test "a job that is ended early ends its coprocesses" {
  prepare 2 sh -c 'until [ -s mon.log ]; do sleep 0.1; done; [ $FLUX_TASK_RANK = 1 ] && exit 5; exec sleep 300'
  run nacre -o exit-on-error -o coprocess.mon='{"command": "echo $$; exec sleep 300", "output": "mon.log"}'
  [ "$status" -eq 5 ]
  gone mon.log
}

@test "an initrc sets the option, and refuses what is no idset" {
  prepare_waiting mon.log
  cat >rc.lua <<'END'
shell.options["coprocess"] = { mon = { command = {"sh", "-c", "echo HELLO; exec sleep 300"}, output = "mon.log" } }
END
  run nacre --initrc rc.lua
  [ "$status" -eq 0 ]
  [ "$(cat mon.log)" = HELLO ]
  run nacre --initrc rc.lua -o coprocess-kill-timeout=notfsd
  fails_with 1 "coprocess-kill-timeout: duration 'notfsd'"
  echo 'shell.options["coprocess"] = { mon = { command = {"true"}, ranks = "notanidset" } }' >rc.lua
  run nacre --initrc rc.lua
  fails_with 1 "coprocess.mon.ranks: idset 'notanidset'"
}

@test "coprocess.define: nothing by itself, -o NAME enables it, -o NAME.KEY=VALUE changes it" {
  cat >rc.lua <<'END'
coprocess.define {
    name = "mon",
    command = {"sh", "-c", "echo DEFINED; exec sleep 300"},
    output = "def-{{id}}.log",
}
END
  prepare 1 true
  run nacre --initrc rc.lua -v ƒ2Ct
  [[ $output != *launched* ]]
  [ ! -e def-ƒ2Ct.log ]
  prepare_waiting def-ƒ2Ct.log
  run nacre --initrc rc.lua ƒ2Ct -o mon
  [ "$status" -eq 0 ]
  [ "$(cat def-ƒ2Ct.log)" = DEFINED ]
  prepare_waiting other.log
  run nacre --initrc rc.lua ƒ2Ct -o mon.output=other.log
  [ "$status" -eq 0 ]
  [ "$(cat other.log)" = DEFINED ]
  run nacre --initrc rc.lua -o mon.rank=0
  fails_with 1 "rc.lua:1: coprocess.define: mon.rank: unknown key"
  echo 'coprocess.define { command = {"true"} }' >rc.lua
  run nacre --initrc rc.lua -o mon
  fails_with 1 "rc.lua:1: coprocess.define: spec: missing key 'name'"
}

@test "the installed initrc has vmstat" {
  mkdir bin
  printf '#!/bin/sh\necho "$@"\nexec sleep 300\n' >bin/vmstat
  chmod +x bin/vmstat
  environment=$(jq -n --arg path "$work/bin:/usr/bin:/bin" '{PATH: $path}') prepare_waiting vmstat-ƒ2Ct-0.log
  run nacre --initrc "$NACRE_SOURCE_DIR/etc/initrc.lua" ƒ2Ct -o vmstat
  [ "$status" -eq 0 ]
  [ "$(cat vmstat-ƒ2Ct-0.log)" = "-t 5" ]
}

@test "sysmon logs the job's peak of memory and its mean load; with -vv, what it samples" {
  prepare 1 sleep 0.2
  run nacre -o sysmon
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 2 ]
  [[ ${lines[0]} =~ ^"nacre-shell[0]: sysmon: memory.peak="[0-9.]+[KMG]\ \(.+\)$ ]]
  [[ ${lines[1]} =~ ^"nacre-shell[0]: sysmon: loadavg-overall="[0-9]+\.[0-9][0-9]$ ]]
  run nacre -vv -o sysmon.period=10ms
  [[ $output == *"trace: sysmon: memory.current="* ]]
  [[ $output == *"trace: sysmon: loadavg="* ]]
  run nacre -o sysmon.badopt
  fails_with 1 "sysmon.badopt: unknown key"
}

# bats test_tags=root
@test "sysmon counts by the cgroup that the shell has for itself" {
  needs_root "to make a cgroup"
  root=/sys/fs/cgroup/memory # version 1; in version 2 a cgroup with processes may not have others below
  [ -e $root/cgroup.procs ] || root=/sys/fs/cgroup
  own=$root/nacre-test-$$
  mkdir "$own" 2>/dev/null || skip "no cgroup can be made here"
  [ -e "$own/memory.current" ] || [ -e "$own/memory.usage_in_bytes" ] || { rmdir "$own"; skip "no memory controller"; }
  prepare 1 true
  run sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$own" "${nacre[@]}" -o sysmon
  rmdir "$own"
  [ "$status" -eq 0 ]
  [[ ${lines[0]} == "nacre-shell[0]: sysmon: memory.peak="*"(cgroup"* ]]
}
