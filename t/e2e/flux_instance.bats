#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre-shell as the job shell of an instance of Flux. Each row runs in brokers of the tests' own
# (t/kit/flux_broker); if PATH has a program flux, all rows also run in a real instance. JOB_SHELL is another shell
# to be tested: that of Flux shows what the rows expect.
load lib.bash

setup_file() {
  export JOB_SHELL=${JOB_SHELL:-$NACRE_SHELL}
  "$NACRE_SOURCE_DIR/t/kit/topology_xml.py" --cores 4 >"$BATS_FILE_TMPDIR/topology.xml"
}

# The members of the job's eventlogs: files with one entry a line.
logs=(eventlog guest.exec.eventlog guest.output guest.input)

# job SIZE [OPTION...] -- COMMAND...: runs a job in an instance of SIZE brokers. Leaves out, err, the eventlogs, and $code. $then is
# WHEN:ACTION, $faults are options, as flux_broker has them; $archives are names of archives, and what is in them.
job() {
  local size=$1
  shift
  code=0
  set -- -o cpu-affinity=off "$@"
  if [[ ${instance-} == real ]]; then
    real_job "$size" "$@"
  else
    timeout 120 "$NACRE_SOURCE_DIR/t/kit/flux_broker" --size="$size" --dir="$work/brokers" --shell="$JOB_SHELL" \
      --topology="$BATS_FILE_TMPDIR/topology.xml" ${then:+--then="$then"} "${faults[@]}" "${archives[@]/#/--archive=}" "$@" >out 2>err || code=$?
    local log
    for log in "${logs[@]}"; do jq -c ".eventlogs[\"$log\"][]" brokers/record.json >"$log"; done
  fi
}

real_job() {
  local size=$1 attach=() options=() each
  shift
  while [[ $1 != -- ]]; do
    case $1 in
      -l) attach+=(-l) ;;
      --input=[0-9]*) attach+=(--stdin-ranks="${1#*=}") ;;
      *) options+=("$1") ;;
    esac
    shift
  done
  printf '%q ' "${options[@]}" --setattr=system.exec.job_shell="$JOB_SHELL" "$@" >arguments
  : >script
  for each in "${archives[@]}"; do echo "flux archive create --name=$each $each" >>script; done
  cat >>script <<'END'
eval "flux submit $(<arguments)" >id || exit
read -r id <id
when=${1%%:*} action=${1#*:}
if [[ -n $1 ]]; then
  until grep -qF -- "$when" out; do sleep 0.05; done 2>/dev/null && case $action in
    kill=*) flux job kill -s "${action#*=}" "$id" ;;
    cancel*) flux cancel "$id" ;;
    expire=*) flux update "$id" duration="${action#*=}s" ;;
  esac &
fi
code=0
flux job attach "${@:2}" "$id" >out 2>err || code=$?
flux job wait-event -t 20 "$id" clean >/dev/null
for log in eventlog guest.exec.eventlog guest.output guest.input; do flux job info "$id" "$log" >"$log"; done
exit "$code"
END
  : >out
  timeout 120 flux start -s "$size" bash script "${then-}" "${attach[@]}" || code=$?
}

# ended CODE: the job has ended with this code.
ended() { [ "$code" -eq "$1" ] || { echo "exit code $code, not $1:" && head -c 3000 out err; return 1; }; }

# entry LOG NAME FILTER: the filter's result for the context of the first such entry.
entry() { jq -sr "[.[] | select(.name == \"$2\")][0].context | $3" "$1"; }

# has LOG NAME FILTER TEXT: TEXT is the filter's result.
has() { [ "$(entry "$1" "$2" "$3")" = "$4" ] || { echo "$1: $2: $3: $(entry "$1" "$2" "$3"), not $4" && cat "$1"; return 1; }; }

# sorted TEXT FILE...: that is what the files have, in the order of sort.
sorted() { [ "$(sort "${@:2}")" = "$1" ] || { echo "not '$1':" && head -c 3000 out err; return 1; }; }

printed() { [ "$(cat out)" = "$1" ] || { echo "not '$1':" && head -c 3000 out err; return 1; }; }

row_output() {
  job 1 -n2 -- hostname
  ended 0 && printed "$HOSTNAME"$'\n'"$HOSTNAME" || return
  job 1 -n2 -l -- sh -c 'echo here; echo there >&2'
  ended 0 && sorted $'0: here\n0: there\n1: here\n1: there' out err || return
  job 1 -l -- printf 'a\nb\n\nc'
  ended 0 && printed $'0: a\n0: b\n0: \n0: c' || return
  job 1 -- printf 'a\377\000b'
  ended 0 && [ "$(od -An -tx1 out)" = " 61 ff 00 62" ]
}

row_exit() {
  local exception='[.type, .severity] | @csv'
  job 1 -n2 -- sh -c 'exit 4'
  ended 4 && has eventlog finish .status 1024 || return
  # shellcheck disable=SC2016 # for the task
  job 1 -- sh -c 'kill -SEGV $$'
  ended 139 && has eventlog finish .status 35584 && has eventlog exception . null || return
  job 1 -- ./no-such-program
  ended 127 && has eventlog exception "$exception" '"exec",0' && grep -q 'job.exception .*no-such-program' err || return
  job 1 -o output.client.hwm=1 -- echo never
  ended 1 && printed '' || return
  : >no-program
  job 1 -- ./no-program
  ended 126 && has eventlog exception "$exception" '"exec",0'
}

row_environment() {
  mkdir -p bin
  printf '#!/bin/sh\necho found\n' >bin/only-here
  chmod +x bin/only-here
  # shellcheck disable=SC2016 # for the task
  job 1 -n2 --env=A="b c" --env=-HOME -- sh -c 'echo "$FLUX_TASK_RANK $FLUX_TASK_LOCAL_ID $FLUX_JOB_SIZE $FLUX_JOB_NNODES $A ${HOME-no home}"'
  ended 0 && sorted $'0 0 2 1 b c no home\n1 1 2 1 b c no home' out || return
  job 1 --env=PATH="$PWD/bin:/usr/bin:/bin" -- only-here
  ended 0 && printed found || return
  job 1 --cwd=/usr -- pwd
  ended 0 && printed /usr
}

row_directory() {
  # shellcheck disable=SC2016 # for the task
  job 1 -- sh -c 'echo "$FLUX_JOB_TMPDIR"; [ -w "$FLUX_JOB_TMPDIR" ] && echo "$FLUX_JOB_ID" >"$FLUX_JOB_TMPDIR/id" && cat "$FLUX_JOB_TMPDIR/id"'
  ended 0 && { read -r path && read -r id; } <out || return
  [[ $path == */jobtmp-0-$id && ! -e $path ]] || { cat out; ls -d "$path"; return 1; }
}

row_input() {
  job 1 -n2 -- cat <<<hi
  ended 0 && printed $'hi\nhi' || return
  seq 1 100000 >numbers
  job 1 -- md5sum <numbers
  ended 0 && printed "$(md5sum <numbers)" || return
  job 1 -n2 -l --input=1 -- cat <<<hi
  ended 0 && printed '1: hi' || return
  job 1 -n2 --input=numbers -- md5sum </dev/null
  ended 0 && printed "$(md5sum <numbers)"$'\n'"$(md5sum <numbers)" && has guest.input redirect '[.stream, .rank, .path] | @csv' '"stdin","all","numbers"' || return
}

row_signal() {
  # shellcheck disable=SC2016 # for the task
  then=ready:kill=USR1 job 1 -n2 -- sh -c 'trap "echo got it; exit 0" USR1; : >"ready.$FLUX_TASK_RANK"
    until [ -e ready.0 ] && [ -e ready.1 ]; do sleep 0.05; done
    [ "$FLUX_TASK_RANK" -eq 1 ] || echo ready
    while :; do sleep 0.1; done'
  ended 0 && sorted $'got it\ngot it\nready' out || return
  then=ready:kill=USR1 job 1 -- sh -c 'echo ready; exec sleep 60'
  ended 138
}

row_cancel() {
  then=ready:cancel job 2 -N2 -n2 -- sh -c 'echo ready; exec sleep 60'
  ended 143 && has eventlog exception '[.type, .severity] | @csv' '"cancel",0' || return
  then=ready:cancel job 1 -- sh -c 'trap "exit 143" TERM; echo ready; while :; do sleep 0.1; done'
  ended 143 || return
  [[ $(grep -c '"name":"log"' guest.output) = 0 ]] || { cat err; return 1; }
}

row_time() {
  job 1 -n2 -t 1s -- sleep 60
  ended 142 && has eventlog exception '[.type, .severity, .note] | @csv' '"timeout",0,"resource allocation expired"' || return
  then=ready:expire=60 job 1 -t 4s -- sh -c 'echo ready; sleep 5; echo still here'
  ended 0 && printed $'ready\nstill here' && has eventlog exception . null && has eventlog resource-update '.expiration > 0' true
}

row_eventlogs() {
  job 1 -n2 -- sh -c 'echo there'
  ended 0 || return
  [ "$(jq -sc '[.[].name]' guest.exec.eventlog)" = '["init","starting","shell.init","shell.start","shell.task-exit","shell-exit","complete","done"]' ] ||
    { cat guest.exec.eventlog; return 1; }
  has guest.exec.eventlog shell.init '.service | test("^[0-9]+-shell-f[1-9A-HJ-NP-Za-km-z]+$")' true || return
  has guest.exec.eventlog shell.init '[."leader-rank", .size] | @csv' 0,1 && has guest.exec.eventlog shell.start '.taskmap | [.version, .map] | tojson' '[1,[[0,1,2,1]]]' || return
  has guest.exec.eventlog shell.task-exit '[.state, .wait_status, .signaled, .exitcode, (.pid > 1), .localid == .rank] | @csv' '"Exited",0,0,0,true,true' || return
  [ "$(jq -sc '[.[] | select(.name != "header") | .context | [.stream, .rank, .data // "", .eof // false]] | sort' guest.output)" = \
    '[["stderr","0","",true],["stderr","1","",true],["stdout","0","",true],["stdout","0","there\n",false],["stdout","1","",true],["stdout","1","there\n",false]]' ] ||
    { cat guest.output; return 1; }
  job 1 -n2 --output=file -- true
  ended 0 && has guest.output redirect '[.rank, .path] | @csv' '"[0-1]","file"' || return
  [ "$(jq -sr '.[0].name' guest.output)" = header ] && has guest.output header '[.version, .count.stdout, .encoding.stdout] | @csv' '1,2,"UTF-8"' || return
  job 2 -N2 -n4 --output='{{name}}.{{node.id}}.{{task.id}}' -- true
  ended 0 || return
  [ "$(jq -sc '[.[] | select(.name == "redirect") | .context | [.stream, .rank, .path]]' guest.output)" = \
    '[["stdout","[0-3]","true.{{node.id}}.{{task.id}}"],["stderr","[0-3]","true.{{node.id}}.{{task.id}}"]]' ] || { cat guest.output; return 1; }
  [ "$(echo true.*)" = "true.0.0 true.0.1 true.1.2 true.1.3" ] || { ls; return 1; }
}

row_brokers() {
  # shellcheck disable=SC2016 # for the task
  job 2 -N2 -n4 -l -- sh -c 'read -r line; echo "$line $FLUX_TASK_LOCAL_ID ${FLUX_URI##*-}"' <<<in
  ended 0 && sorted $'0: in 0 0\n1: in 1 0\n2: in 0 1\n3: in 1 1' out || return
  has guest.exec.eventlog shell.init '[."leader-rank", .size] | @csv' 0,2 && has guest.exec.eventlog shell.start '.taskmap.map | tojson' '[[0,2,2,1]]'
}

# What a broker of Flux needs as a task of a job to become an instance within an instance, as `flux alloc` and `flux
# batch` start it.
row_pmi() {
  # shellcheck disable=SC2016 # for the task
  job 1 -- bash -c 'ask() { echo "$1" >&"$PMI_FD" && read -ru "$PMI_FD" line && echo "$line"; }
    ask "cmd=init pmi_version=1 pmi_subversion=1" | grep -o "pmi_[a-z]*=1\>"
    ask cmd=get_my_kvsname | grep -oF "kvsname=$FLUX_JOB_ID" | sed "s/=.*//"
    ask cmd=finalize >/dev/null'
  ended 0 && printed $'pmi_version=1\npmi_subversion=1\nkvsname'
}

row_archives() {
  mkdir -p red/dir blue/a main
  seq 2000 >red/numbers
  truncate --size 8192 red/hole
  printf 'a\377' >red/bytes
  echo start >red/tool && chmod 750 red/tool
  ln -s dir red/link && : >red/empty
  echo blue >blue/a/b && echo hello >main/hello
  local archives=(red blue main)
  cat >check <<'END'
for each; do diff -r --no-dereference "$FLUX_JOB_TMPDIR/$each" "$each" || exit; done
stat -c '%A %n' "$FLUX_JOB_TMPDIR"/*/tool 2>/dev/null | cut -d" " -f1
cd "$FLUX_JOB_TMPDIR" && echo *
END
  job 2 -N2 -n2 -o stage-in -- sh check main
  ended 0 && printed $'main\nmain' || return
  job 1 -o stage-in.names=red,blue -- sh check red blue
  ended 0 && printed $'-rwxr-x---\nblue red' || return
  job 1 -o stage-in.names=red,blue -o stage-in.pattern='*/numbers' -o verbose=2 -- sh -c 'cd "$FLUX_JOB_TMPDIR" && echo */*'
  if ! { ended 0 && printed red/numbers && grep -q 'red/numbers$' err; } || grep -q 'blue/a$' err; then
    cat out err
    return 1
  fi
  rm -rf there
  job 2 -N2 -o stage-in.destination=global:"$PWD/there" -- true
  ended 0 && diff -r main there/main || return
  job 1 -o stage-in.names=none -- echo never
  ended 1 && printed '' && grep -q "the Flux instance has no archive 'none'" err
}

# says_in_output TEXT [EXCEPTIONS]: a message that ends the job is in its output, behind the header, and nowhere
# else; and there are EXCEPTIONS exceptions, by default 1.
says_in_output() {
  ended 1 && has guest.output header .version 1 && has guest.output log .level 0 && has guest.output log '.message | contains("'"$1"'")' true || return
  [[ $(grep -c '"name":"exception"' eventlog) = "${2-1}" && $(head -n 1 guest.output | jq -r .name) = header && $(grep -c 'FATAL: ' err) = 1 && $(<err) != *"stderr: "* ]] || { cat guest.output err; return 1; }
}

row_early() {
  echo 'no_such_function ()' >bad.lua
  job 1 -o initrc="$PWD/bad.lua" -- echo never
  says_in_output no_such_function || return
  job 2 -N2 -o initrc="$PWD/bad.lua" -- echo never
  says_in_output no_such_function || return
  job 1 --cwd="$PWD/none" -- echo never
  says_in_output "cannot change to directory" || return
  job 1 -o oom.wrong=1 -- echo never
  says_in_output "oom.wrong: unknown key"
}

row_lost() {
  # shellcheck disable=SC2016 # for the task
  job 2 -N2 -n2 -- sh -c '[ "$FLUX_TASK_RANK" -eq 1 ] || kill -KILL "$PPID"; exec sleep 30'
  [ "$code" -ne 0 ] && has eventlog exception '[.type, .severity] | @csv' '"exec",0' && has eventlog exception '.note | test("^shell rank 0 .*: Killed$")' true
}

row_large() {
  seq -f '%0999.0f' 20000 >large
  local faults=(--fault=kvs.commit:slow=20000000)
  job 1 -- cat large
  ended 0 && cmp out large
}

@test "output of the tasks is printed, with its rank if that is asked for, whatever bytes it has" { row_output; }
@test "the job ends with the tasks' exit code; what cannot be started is an exception" { row_exit; }
@test "the tasks have the job's environment, directory and PATH, and what Flux adds" { row_environment; }
@test "the job's directory is below the broker's, and gone in the end" { row_directory; }
@test "the tasks have what flux run reads, or a file, as standard input" { row_input; }
@test "a signal to the job reaches the tasks" { row_signal; }
@test "a job is canceled" { row_cancel; }
@test "a job ends when its time is over, which can become longer" { row_time; }
@test "the eventlogs say what flux job wait-event, eventlog and attach rely on" { row_eventlogs; }
@test "a job of two brokers has a shell at each" { row_brokers; }
@test "a task that is a broker finds its instance by PMI" { row_pmi; }
@test "stage-in extracts the archives of the instance" { row_archives; }
@test "what ends a job before its tasks start is in its output" { row_early; }
@test "a job whose leader is killed ends" { row_lost; }
# bats test_tags=long
@test "much output is intact, also where the store is slow" { row_large; }

@test "with two shells there are two barriers, and all commits go to the job's namespace" {
  job 2 -N2 -- true
  ended 0
  [ "$(jq -c '[.barriers[] | sort]' brokers/record.json)" = '[[0,1],[0,1]]' ] || { jq -c .barriers brokers/record.json; return 1; }
}

@test "an archive of the instance that is not as it was, or beyond the limit, ends the job, and leaves nothing" {
  local archives=(data) destination
  mkdir data && seq 5000 >data/numbers
  destination=$work/there
  local faults=(--fault=content.load:refuse=EINVAL)
  job 1 -o stage-in.names=data -o stage-in.destination="$destination" -- echo never
  ended 1 && printed '' && grep -q "archive.data\[1\]: 'data/numbers': sha1-[0-9a-f]*: content.load: refused, as a fault of the test" err || { cat err; return 1; }
  [ -z "$(ls there)" ]
  faults=()
  job 1 -o stage-in.names=data -o stage-in.max-size=10K -o stage-in.destination="$destination" -- echo never
  ended 1 && grep -q "'data/numbers': more content than 10240 bytes (stage-in.max-size)" err && [ -z "$(ls there)" ] || { cat err; return 1; }
  rmdir there
  "$NACRE_SOURCE_DIR/t/kit/flux_broker" --archive=data --dir="$work/brokers" --shell="$JOB_SHELL" --fault=content.load:late=200 \
    -o stage-in.names=data -o stage-in.destination="$destination" -- echo never >out 2>err &
  wait_until 20 test -e there/data/numbers || { cat err; return 1; }
  kill "$!"  # which cancels the job
  code=0
  wait "$!" || code=$?
  ended 143 && printed '' && [ ! -e there/data/numbers ]
}

@test "a jobspec that is none is named in the job's output" {
  echo '{"version": 1, "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
    "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}], "attributes": {"system": {"duration": 0, "environment": 1}}}' >bad.json
  job 1 --jobspec=bad.json
  says_in_output "attributes.system.environment: expected an object, got 1" 0
  local faults=(--fault=kvs.commit:refuse=ENOSPC)
  job 1 --jobspec=bad.json
  ended 1 && grep -q 'attributes.system.environment: expected an object, got 1' err || { cat err; return 1; }
}

@test "where the broker's directory takes none, the job's is in the tasks' TMPDIR, or the job does not start" {
  mkdir own
  # shellcheck disable=SC2016 # for the task
  job 1 --attribute=rundir="$work/none" --env=TMPDIR="$work/own" -- sh -c 'echo "$FLUX_JOB_TMPDIR"'
  ended 0 && [[ $(<out) == "$work"/own/nacre-* && -z $(ls own) ]] || { cat out; return 1; }
  : >file
  job 1 --attribute=rundir="$work/none" --env=TMPDIR="$work/file" -- echo never
  ended 1 && [[ ! -s out && $(<err) == *job.exception*"cannot make a directory in $work/file"* ]] || { cat out err; return 1; }
}

@test "of tasks that stand still at their start shell.start says so" {
  then=1:kill=CONT job 1 -n2 -o stop-tasks-in-exec -- echo here
  ended 0 && printed $'here\nhere' && has guest.exec.eventlog shell.start .sync true
}

@test "what plugins of any shell say at its end is in the job's output" {
  cat >late.lua <<'END'
plugin.register { name = "late", handlers = { { topic = "shell.exit", fn = function ()
  for i = 1, 3 do shell.log ("late " .. i .. " of " .. shell.info.rank) end
end } } }
END
  job 2 -N2 -o userrc=late.lua -o initrc="$NACRE_SOURCE_DIR/etc/initrc.lua" -- true
  ended 0 && [ "$(grep -o 'late . of .' err | sort)" = $'late 1 of 0\nlate 1 of 1\nlate 2 of 0\nlate 2 of 1\nlate 3 of 0\nlate 3 of 1' ] || { cat err; return 1; }
}

@test "an event to signal the tasks without a signal is passed over with a warning" {
  local client=$NACRE_SOURCE_DIR/t/kit/flux_client
  cat >task <<END
event=shell-\${FLUX_KVS_NAMESPACE#job-}.kill
for each in '' '{}' '{"signum":"KILL"}' '{"signum":0}' '{"signum":10000}'; do "$client" publish "\$event" \$each; done
trap 'echo signalled; exit 0' USR1
"$client" publish "\$event" '{"signum":10}'
while :; do sleep 0.05; done
END
  job 1 -- bash task
  ended 0 && printed signalled
  [ "$(jq -s '[.[] | select(.context.message // "" | test("shell-[0-9]+.kill: (expected a number, signum|signal [0-9]+: Invalid argument)$"))] | length' guest.output)" = 5 ] || { cat guest.output; return 1; }
}

@test "the initrc is the instance's, and its plugin path comes first" {
  mkdir -p site/lua.d site/more
  echo 'shell.setenv ("MORE", "more")' >site/more/more.lua
  cat >site/initrc.lua <<'END'
shell.setenv ("FOUND", plugin.searchpath .. " " .. shell.rcpath)
shell.source_rcpath ("*.lua")
END
  echo 'shell.setenv ("ALSO", "lua.d")' >site/lua.d/site.lua
  local site=(--attribute=conf.shell_initrc="$work/site/initrc.lua" --attribute=conf.shell_pluginpath=/of/site:/more)
  # shellcheck disable=SC2016 # for the task
  job 1 "${site[@]}" -- sh -c 'echo "$FOUND $ALSO"'
  ended 0 && [[ $(<out) == /of/site:/more:*" $work/site lua.d"* ]] || { cat out; return 1; }
  echo 'shell.setenv ("FOUND", "own")' >own.lua
  # shellcheck disable=SC2016 # for the task
  job 1 "${site[@]}" -o initrc="$work/own.lua" -- sh -c 'echo "$FOUND"'
  ended 0 && printed own
  # shellcheck disable=SC2016 # for the task
  job 1 "${site[@]}" --cwd="$work/site" --env=FLUX_SHELL_RC_PATH=more -o initrc=initrc.lua -- sh -c 'echo "${FOUND##* } $ALSO $MORE"'
  ended 0 && printed "$work/site lua.d more"
  # shellcheck disable=SC2016 # for the task
  job 1 --attribute=conf.shell_initrc="$work/none.lua" -- sh -c 'echo "${FOUND-nacre}"'
  ended 0 && printed nacre
}

# left_nothing: no process that has the folder's name in its arguments or environment.
left_nothing() {
  local left
  none_left() { left=$(grep -lsz "$work" /proc/[0-9]*/environ /proc/[0-9]*/cmdline | grep -v "/proc/$BASHPID/\|/proc/$$/" | cut -d/ -f3 | sort -u | xargs -r ps -o pid=,args= -p); [ -z "$left" ]; }
  wait_until 20 none_left || { echo "$left"; return 1; }
}

@test "a broker that goes away ends the job, which says so, and leaves no process" {
  then=ready:die=0 job 1 -n2 --env=MARK="$work" -- sh -c 'echo ready; exec sleep 300'
  [ "$code" -ne 0 ] && grep -i broker err | grep -qv '^flux_broker: ' || { cat out err; return 1; }
  left_nothing
  then=ready:die=1 job 2 -N2 -n2 --env=MARK="$work" -- sh -c 'echo ready; exec sleep 300'
  [ "$code" -ne 0 ] && has eventlog exception '.note | startswith("node failure on ")' true
  left_nothing
}

# bats test_tags=long
@test "what a broker answers wrongly, or not, ends the job in words, at any time" {
  local kind request
  for kind in refuse=ENOSPC garbage=1 half=1 magic=1 die=1 garbage=3 die=4 magic=5 half=6; do
    for request in kvs.commit job-info.lookup job-exec.shell-barrier; do
      [[ $kind != *=[3-6] || $request == kvs.commit ]] || continue
      local faults=(--fault="$request:$kind")
      job 2 -N2 --env=MARK="$work" -- sh -c 'echo out; exit 0'
      [ "$code" -ne 0 ] && [ "$code" -ne 124 ] && grep -qv '^flux_broker: ' err || { echo "$request $kind: exit code $code" && cat out err; return 1; }
      left_nothing
    done
  done
}

# bats test_tags=long
@test "a real instance of Flux gives the same" {
  type -P flux >/dev/null || skip "needs the program flux of Flux"
  local instance=real row failed=()
  for row in $(compgen -A function row_); do
    "$row" || failed+=("$row")
  done
  job 2 -N2 -n2 -- flux start flux run -N2 flux getattr instance-level
  ended 0 && printed $'1\n1' || failed+=(nested)
  [ "${#failed[@]}" -eq 0 ] || { echo "not as expected: ${failed[*]}"; return 1; }
}
