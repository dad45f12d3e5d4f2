#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Input that is wrong gets one line that says what, where and what to do, and exit code 1; wrong usage gets 2.
load lib.bash

# The jobspec of one task of `true`, changed by the jq filter $1.
spoiled_jobspec() {
  prepare 1 true
  jq "$1" jobspec.json >spoiled.json
  mv spoiled.json jobspec.json
}

spoiled_R() {
  prepare 1 true
  jq "$1" R.json >spoiled.json
  mv spoiled.json R.json
}

usage_error() {
  [ "$status" -eq 2 ] || { echo "exit code $status: $output"; return 1; }
  [[ ${lines[0]} == "nacre-shell: "*"$1"* ]] || { echo "no '$1' in: $output"; return 1; }
  [ "${lines[1]}" = "Try 'nacre-shell --help'." ]
}

@test "usage: no mode" {
  run "$NACRE_SHELL"
  usage_error "give --standalone"
}

@test "usage: standalone without files" {
  run "$NACRE_SHELL" -s -j x
  usage_error "--standalone needs --resources=FILE"
}

@test "usage: unknown option" {
  run "$NACRE_SHELL" -s -j x -R y --no-such-option
  usage_error "--no-such-option"
}

@test "usage: a rank that is none, a job id that is none, stdin twice" {
  run "$NACRE_SHELL" -s -j x -R y -r -1
  usage_error "--rank"
  run "$NACRE_SHELL" -s -j x -R y 'no id!'
  usage_error "JOBID"
  run "$NACRE_SHELL" -s -j - -R -
  usage_error "cannot both be standard input"
}

@test "what controls a terminal is escaped in every message, wherever it comes from" {
  local bad=$'a\e]0;x\a\xe2\x80\xaeb' shown='a\x1b]0;x\x07\xe2\x80\xaeb' command
  for command in "'$NACRE_SHELL' -s -j x -R y '--$bad'" "'$NACRE_SHELL' -s -j '/nonexistent/$bad' -R y" "'$NACRE_BUILD_DIR/nacre' '$bad'" \
    "'$NACRE_BUILD_DIR/nacre' run '--$bad'" "'$NACRE_BUILD_DIR/nacre' run --file='/nonexistent/$bad'" \
    "'$NACRE_BUILD_DIR/nacre' run -D '/nonexistent/$bad' true" "'$NACRE_BUILD_DIR/nacre' run -o 'output.stdout.path=/nonexistent/$bad/x' true" \
    "'$NACRE_BUILD_DIR/nacre' report '$bad'" "'$NACRE_BUILD_DIR/nacre' run '/nonexistent/$bad'"; do
    ! output=$(bash -c "$command" 2>&1) || { echo "$command: exit code 0"; return 1; }
    [[ $output == *"$shown"* ]] || { echo "$command: $output"; return 1; }
    [[ $output != *[$'\e\a\r']* && $output != *$'\xe2\x80\xae'* ]] || { echo "$command: not escaped: $output"; return 1; }
  done
}

@test "help and version are no errors" {
  run "$NACRE_SHELL" --help
  [ "$status" -eq 0 ]
  [[ $output == *"--jobspec"* ]]
  run "$NACRE_SHELL" -V
  [ "$status" -eq 0 ]
  [[ $output == "nacre-shell "[0-9]* ]]
}

@test "nacre version: the commit, the compiler, and what is loaded where it is needed" {
  run "$NACRE_BUILD_DIR/nacre" version
  echo "$output"
  [ "$status" -eq 0 ]
  [[ ${lines[0]} =~ ^nacre\ [0-9]+\.[0-9]+ ]]
  [[ ${lines[1]} =~ ^built\ with\ [A-Za-z]+\ [0-9]+ ]]
  [[ $output == *"yes libssl.so.3 "*"links between hosts"* ]]
  [ "$(grep -cE '^(yes|no ) lib[a-z]+\.so\.[0-9]+ ' <<<"$output")" -eq $((${#lines[@]} - 2)) ]
}

@test "files that are missing" {
  prepare 1 true
  rm jobspec.json
  run nacre
  fails_with 1 "jobspec.json: No such file or directory"
  prepare 1 true
  rm R.json
  run nacre
  fails_with 1 "R.json: No such file or directory"
}

@test "no JSON" {
  prepare 1 true
  echo '{"version": 1,' >jobspec.json
  run nacre
  fails_with 1 "jobspec.json: not JSON: line 2, column 1"
  prepare 1 true
  echo 'hello' >R.json
  run nacre
  fails_with 1 "R.json: not JSON: line 1, column 1"
}

@test "counts: negative, huge, of a wrong type" {
  spoiled_jobspec '.resources[0].count = -1'
  run nacre
  fails_with 1 "jobspec.json: resources[0].count: expected a positive integer, got -1"
  spoiled_jobspec '.resources[0].count = 99999999999999999999'
  run nacre
  fails_with 1 "resources[0].count"
  spoiled_jobspec '.resources[0].with[0].count = "four"'
  run nacre
  fails_with 1 'resources[0].with[0].count: expected' '"four"'
  spoiled_jobspec '.tasks[0].count = {total: 0}'
  run nacre
  fails_with 1 "tasks[0].count.total"
}

@test "an unknown version of the jobspec" {
  spoiled_jobspec '.version = 2'
  run nacre
  fails_with 1 "jobspec.json: version" "2"
}

@test "a slot that nobody names, a command that is empty" {
  spoiled_jobspec '.tasks[0].slot = "other"'
  run nacre
  fails_with 1 "tasks[0].slot"
  spoiled_jobspec '.tasks[0].command = []'
  run nacre
  fails_with 1 "tasks[0].command"
}

@test "R without the rank" {
  prepare 1 true
  run nacre -r 5
  fails_with 1 "R.json: no rank 5: it has rank 0"
}

# bats test_tags=long
@test "idsets and hostlists: malformed, or too large to expand" {
  spoiled_R '.execution.R_lite[0].children.core = "3-1"'
  run nacre
  fails_with 1 "R.json: execution.R_lite[0].children.core" "3-1"
  spoiled_R '.execution.R_lite[0].rank = "0-99999999999"'
  run nacre
  fails_with 1 "execution.R_lite[0].rank" "99999999999"
  spoiled_R '.execution.nodelist = ["node[0-99999999999]"]'
  run nacre
  fails_with 1 "execution.nodelist[0]"
  spoiled_R '.execution.nodelist = ["node[0"]'
  run nacre
  fails_with 1 "execution.nodelist[0]" "'[' without ']'"
  spoiled_R '.execution.nodelist = ["a", "b"]'
  run nacre
  fails_with 1 "execution.nodelist"
}

@test "which plugin has refused an option, and in which topic, is shown with -v" {
  prepare 1 true
  run nacre -o output.fold=maybe
  fails_with 1 "nacre-shell: output.fold: "
  run nacre -v -o output.fold=maybe
  [[ $status -eq 1 && $output == *"nacre-shell: plugin 'output': shell.init: output.fold: "* ]]
}

@test "options of the wrong type" {
  prepare 1 true
  run nacre -o rlimit=5
  fails_with 1 "rlimit: expected an object"
  run nacre -o rlimit.nofile=many
  fails_with 1 "rlimit.nofile: expected"
  run nacre -o rlimit.wings=3
  fails_with 1 "rlimit.wings: unknown limit"
  run nacre -o oom.adjust=5000
  fails_with 1 "oom.adjust: expected an integer from -1000 to 1000, got 5000"
  run nacre -o exit-timeout=soon
  fails_with 1 "exit-timeout" "soon"
  run nacre -o exit-on-error=maybe
  fails_with 1 "exit-on-error"
  run nacre -o label-io=[]
  fails_with 1 "label-io: expected on or off"
  run nacre -o verbose=much
  fails_with 1 "verbose"
  run nacre -o kill-timeout=[]
  fails_with 1 "kill-timeout"
  run nacre -o =1
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == "nacre-shell: -o =1: expected OPT or OPT=VAL"* ]]
}

@test "a limit above the hard limit" {
  prepare 1 true
  run prlimit --nofile=64:100 "${nacre[@]}" -o rlimit.nofile=101
  fails_with 1 "rlimit.nofile: 101 is above the hard limit" "100"
}

@test "an initrc that is missing, or no Lua" {
  prepare 1 true
  run nacre --initrc=none.lua
  fails_with 1 "none.lua"
  printf 'x = 1\nif then\n' >bad.lua
  run nacre --initrc=bad.lua
  fails_with 1 "bad.lua:2:"
}

@test "an initrc that fails names its line" {
  prepare 1 true
  printf 'local t = nil\nt.x = 1\n' >bad.lua
  run nacre --initrc=bad.lua
  fails_with 1 "bad.lua:2:" "attempt to index"
}

@test "plugins: missing, no ELF file, without flux_plugin_init, failing, crashing" {
  prepare 1 true
  plugin() { printf 'plugin.load { file = "%s" }\n' "$1" >load.lua; }
  plugin "$work/none.so"
  run nacre --initrc=load.lua
  fails_with 1 "none.so"
  echo text >no-elf.so
  plugin "$work/no-elf.so"
  run nacre --initrc=load.lua
  fails_with 1 "no-elf.so"
  echo 'int x;' | cc -shared -fPIC -xc - -o empty.so
  plugin "$work/empty.so"
  run nacre --initrc=load.lua
  fails_with 1 "empty.so" "flux_plugin_init"
  echo 'int flux_plugin_init(void *p) { return p ? -1 : 0; }' | cc -shared -fPIC -xc - -o fails.so
  plugin "$work/fails.so"
  run nacre --initrc=load.lua
  fails_with 1 "fails.so" "flux_plugin_init"
  echo 'int flux_plugin_init(void *p) { (void)p; return *(volatile int *)8; }' | cc -shared -fPIC -xc - -o crashes.so
  plugin "$work/crashes.so"
  run nacre --initrc=load.lua
  fails_with 1 "crashes" "flux_plugin_init" "SIGSEGV"
}

@test "task maps: unknown, that leave out or repeat a task, or name another node" {
  prepare 4 true
  run nacre -o taskmap=spiral
  fails_with 1 "no plugin offers the scheme 'spiral'"
  run nacre -o 'taskmap={"scheme":"manual","value":"[[0,1,3,1]]"}'
  fails_with 1 "taskmap.manual"
  run nacre -o 'taskmap={"scheme":"manual","value":"0-1,3"}'
  fails_with 1 "taskmap.manual"
  run nacre -o 'taskmap={"scheme":"manual","value":"[[0,2,2,1]]"}'
  fails_with 1 "the map has a node 1, the job has nodes 0-0"
  run nacre -o 'taskmap={"scheme":"cyclic","value":"0"}'
  fails_with 1 "taskmap.cyclic"
  run nacre -o 'taskmap={"scheme":"hostfile","value":"/no/such/file"}'
  fails_with 1 "/no/such/file"
}

# bats test_tags=long
@test "cpus that do not exist" {
  prepare 1 true
  nacre=("$NACRE_SHELL" --standalone -j jobspec.json -R R.json)
  run nacre -o cpu-affinity=map:100000
  fails_with 1 "cpu-affinity" "100000"
  spoiled_R '.execution.R_lite[0].children.core = "60000"'
  run nacre -o cpu-affinity=per-task
  fails_with 1 "cpu-affinity" "60000"
  run nacre -o cpu-affinity=sideways
  fails_with 1 "cpu-affinity" "sideways"
}

@test "no folder for the tmpdir" {
  prepare 1 true
  touch file
  TMPDIR=$work/file run nacre
  fails_with 1 "tmpdir: cannot make a directory in $work/file " "Not a directory"
}

# bats test_tags=long,root
@test "no room for the tmpdir" {
  needs_root "to mount a full file system"
  prepare 1 true
  mkdir full
  mount -t tmpfs -o nr_inodes=1 tmpfs full
  TMPDIR=$work/full run nacre
  umount full
  fails_with 1 "tmpdir: cannot make" "No space left on device"
}

# bats test_tags=long
@test "100,000 environment variables" {
  prepare 1 sh -c 'env | grep -c ^VARIABLE_'
  jq '.attributes.system.environment += ([range(100000) | {key: "VARIABLE_\(.)", value: "x"}] | from_entries)' \
    jobspec.json >big.json
  mv big.json jobspec.json
  run prlimit --stack=67108864 "${nacre[@]}"
  [ "$status" -eq 0 ]
  [ "$output" = 100000 ]
  # With the usual stack the kernel takes no more than 2 MiB.
  run prlimit --stack=8388608 "${nacre[@]}"
  fails_with 126 "Argument list too long" "the environment"
}

# bats test_tags=long
@test "an argument of 2 MB" {
  prepare 1 true
  jq --rawfile big <(head -c 2000000 /dev/zero | tr '\0' x) '.tasks[0].command += [$big]' jobspec.json >big.json
  mv big.json jobspec.json
  run nacre
  fails_with 1 "jobspec.json: tasks[0].command[1]: 2000000 bytes; at most 131071"
}

# bats test_tags=long,root
@test "running out of processes half way ends what was started, and is named" {
  needs_root "to run as another user"
  prepare 200 sleep 1000
  nacre[0]=$(copy_for_all "$NACRE_SHELL")
  chmod 777 . "$TMPDIR"
  run setpriv --reuid=64999 --clear-groups prlimit --nproc=40:40 "${nacre[@]}"
  fails_with 1 "cannot start more processes" "Resource temporarily unavailable"
  run pgrep -u 64999
  [ "$status" -eq 1 ]
}

# bats test_tags=long
@test "too few descriptors, at whatever number, are an error that says so" {
  prepare 1 true
  local limit
  for limit in {4..24}; do
    run prlimit --nofile="$limit:$limit" "${nacre[@]}"
    [[ "$status" != 127 || "$output" != *"error while loading shared libraries"* ]] || continue  # it never ran
    [ "$status" -eq 0 ] || fails_with 1 "Too many open files" || { echo "with $limit"; return 1; }
  done
  [ "$status" -eq 0 ]
}

# How much is too little differs by machine and build: from what the loader needs to what a job needs, and all between.
@test "too little address space, however little, is one line and exit code 1" {
  prepare 1 true
  local limit=10000000 answers=0
  # Below, the kernel or the loader cannot even start the program.
  until prlimit --as="$limit" "$NACRE_SHELL" --version >/dev/null 2>&1 || [ "$?" -eq 1 ]; do
    ((limit += 100000))
  done
  ((limit += 300000)) # the loader does not need the same in each run
  for (( ; limit < 100000000; limit += 100000)); do
    run timeout 20 prlimit --as="$limit" "${nacre[@]}"
    [ "$status" -ne 0 ] || break
    [[ "$status" -eq 1 && "$output" =~ memory|Cannot\ allocate ]] || { echo "$limit: $status, $output"; return 1; }
    answers=$((answers + 1))
  done
  [ "$answers" -gt 0 ]
  [ "$status" -eq 0 ]
}

# bats test_tags=long
@test "an eventlog that cannot be written" {
  prepare 1 true
  run nacre --eventlog=/no/such/folder/log
  fails_with 1 "--eventlog: /no/such/folder/log: No such file or directory"
}

# Runs the command behind $1 while the kernel's file systems in $1 are hidden.
hidden() { run unshare -m sh -c 'for each in $0; do mount -t tmpfs none "$each" || exit 77; done; exec "$@"' "$@"; }

# bats test_tags=root
@test "without /proc a job runs, of one shell and of several" {
  needs_root "to mount a file system"
  local shells
  for shells in 1 3; do
    hidden /proc "$NACRE_BUILD_DIR/nacre" run --local="$shells" -n 3 --oversubscribe sh -c 'echo hi; exit 3'
    [[ "$status" -eq 3 && $(grep -cx hi <<<"$output") -eq 3 ]] || { echo "$shells shells: exit code $status: $output"; return 1; }
  done
}

# bats test_tags=root
@test "ps and doctor say that /proc is missing, and the job is not taken for gone" {
  needs_root "to mount a file system"
  cat >looks.sh <<'END'
"$NACRE_BUILD_DIR/nacre" run --job-name=blind -n 1 sh -c 'echo up; sleep 1000' >out &
for i in $(seq 200); do grep -q up out && break; sleep 0.1; done
"$NACRE_BUILD_DIR/nacre" ps last; echo "ps $?"
"$NACRE_BUILD_DIR/nacre" doctor last; echo "doctor $?"
"$NACRE_BUILD_DIR/nacre" jobs; "$NACRE_BUILD_DIR/nacre" kill last; wait "$!"
END
  hidden /proc sh looks.sh
  [[ "$output" =~ 0\ +[^\ ]+\ +[0-9]+\ +'?' ]] || { echo "$output"; return 1; }
  [[ "$output" == *"nacre ps: "*": /proc is not mounted: what processes do and use is not known"*"ps 0"* &&
    "$output" == *": /proc is not mounted: what tasks do"*"doctor "* && "$output" =~ blind ]] ||
    { echo "$output"; return 1; }
  [[ "$output" != *"has gone without a report"* && "$status" -eq 143 ]] || { echo "exit code $status: $output"; return 1; }
}

# bats test_tags=root
@test "without /sys a job runs on the cpus that it may use" {
  needs_root "to mount a file system"
  local shells cpu
  cpu=$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')
  for shells in 1 3; do
    hidden /sys "$NACRE_BUILD_DIR/nacre" run --local="$shells" -n 3 --oversubscribe sh -c 'echo hi; exit 3'
    [[ "$status" -eq 3 && $(grep -cx hi <<<"$output") -eq 3 ]] || { echo "$shells shells: exit code $status: $output"; return 1; }
  done
  hidden /sys taskset -c "$cpu" "$NACRE_BUILD_DIR/nacre" run -n 1 -o cpu-affinity=per-task sh -c 'taskset -pc $$'
  [[ "$status" -eq 0 && "$output" == *": $cpu" ]] || { echo "exit code $status: $output"; return 1; }
}
