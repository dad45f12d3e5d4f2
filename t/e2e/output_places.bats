#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Where the tasks' output goes, and what it looks like there.
load nodes.bash

both='echo "out $FLUX_TASK_RANK"; echo "err $FLUX_TASK_RANK" >&2'

@test "a file takes both streams of all tasks, and what was in it is gone" {
  prepare 2 sh -c "$both"
  echo old >file
  nacre -o output.stdout.path=file >out 2>&1
  [ "$(sort file)" = $'err 0\nerr 1\nout 0\nout 1' ]
  [ ! -s out ]
  nacre -o output.stdout.path=file -o output.mode=append
  [ "$(wc -l <file)" -eq 8 ]
}

@test "each stream may have its own place" {
  prepare 2 sh -c "$both"
  nacre -o output.stdout.path=file -o output.stderr.type=term >out 2>err
  [ "$(sort file)" = $'out 0\nout 1' ]
  [ "$(sort err)" = $'err 0\nerr 1' ]
  nacre -o output.stderr.path=errors >out
  [ "$(sort out)" = $'out 0\nout 1' ]
  [ "$(sort errors)" = $'err 0\nerr 1' ]
}

@test "a relative path is below the job's directory" {
  mkdir there
  cwd=$work/there prepare 1 echo x
  nacre -o output.stdout.path=file
  [ "$(cat there/file)" = x ]
}

@test "templates make a file for each task or node, which a task has as its own" {
  prepare 3 sh -c 'readlink /proc/self/fd/1; if [ /proc/self/fd/1 -ef /proc/self/fd/2 ]; then echo same; fi'
  nacre -o 'output.stdout.path={{node.name}}.{{task.rank}}'
  for rank in 0 1 2; do [ "$(cat "node0.$rank")" = "$work/node0.$rank"$'\nsame' ]; done
  nacre -o 'output.stdout.path={{name}}.{{nnodes}}'
  [ "$(grep -c pipe: sh.1)" -eq 3 ]
}

# Of a task, what its descriptors 1 and 2 are.
kinds='of() { case $(readlink /proc/$$/fd/$1) in pipe:*) echo pipe ;; /dev/pts/*) echo pty ;; *) echo file ;; esac; }
  both=$(of 1; of 2); echo "$both" >"kinds.$FLUX_TASK_RANK"'
# given OPTION...: what the descriptors 1 and 2 of each of the two tasks are, "file" or "pipe", in the order of ranks.
given() {
  rm -rf kinds.* out out.* err.* record
  nacre "$@" >/dev/null 2>messages || { cat messages; return 1; }
  cat kinds.0 kinds.1 | tr '\n' ' '
}

@test "a task gets its file itself where nobody has to look at what it writes, and a pipe elsewhere" {
  prepare 2 sh -c "$kinds"
  local own='output.stdout.path=out.{{taskid}}' files="file file file file " pipes="pipe pipe pipe pipe " row
  for row in "" "output.stderr.path=out.{{ task.rank }}" "output.stderr.path=err.{{task.id}}" output.mode=append output.limit=1k output.fold=off output.overflow=drop \
    output.direct=on output.direct=auto "output.stdout.path=out.{{task.index}}.{{node.id}}" output.stdout.buffer.type=none \
    restart=on-failure restart=on-failure,no-progress=2:file; do
    [ "$(given -o "$own" ${row:+-o "$row"})" = "$files" ] || { echo "$row: $(cat kinds.*)"; return 1; }
  done
  [ "$(given -o "$own" --record-dir=record)" = "$files" ]
  for row in output.direct=off label-io output.stdout.timestamps=iso output.stdout.format=json output.stdout.type=file,term output.stdout.buffer.type=block output.fold \
    restart=on-failure,no-progress=2 restart=on-failure,no-progress=2:output:epoch "output.stdout.path=out.{{task.slot}}" "output.stdout.path=out.{{task.index}}" \
    "output.stdout.path=out.{{taskmap}}" "output.stdout.path=out.{{node.id}}" output.stdout.path=out; do
    [ "$(given -o "$own" -o "$row")" = "$pipes" ] || { echo "$row: $(cat kinds.*)"; return 1; }
  done
  mkfifo fifo.0 fifo.1
  cat fifo.0 >/dev/null 3>&- &
  local readers=$!
  cat fifo.1 >/dev/null 3>&- &
  readers+=" $!"
  [ "$(given -o 'output.stdout.path=fifo.{{taskid}}')" = "$pipes" ] || { cat kinds.*; return 1; }
  # shellcheck disable=SC2086 # two
  wait $readers
  [ "$(given -o "$own" --record-dir=record -o output.stdout.type=file,kvs)" = "$pipes" ]
  # Each stream counts by itself, but a file has only one kind of writers.
  [ "$(given -o "$own" -o output.stderr.type=term)" = "file pipe file pipe " ]
  [ "$(given -o "$own" -o output.stderr.path=err)" = "file pipe file pipe " ]
  [ "$(given -o "$own" -o "output.stderr.path=err.{{taskid}}" -o output.stderr.label=on)" = "file pipe file pipe " ]
  [ "$(given -o "$own" -o output.stderr.label=on)" = "$pipes" ]
  [ "$(given -o "$own" -o "output.stderr.path=out.{{task.id}}" -o output.stderr.timestamps=unix)" = "$pipes" ]
  [ "$(given -o "$own" -o pty.ranks=0 -o pty.capture)" = "pty pty file file " ]
}

@test "a file of the tasks' arguments is a task's own if each is there once" {
  for row in "a b:file" "a a:pipe"; do
    read -r one two <<<"${row%:*}"
    options='{"arguments": ["'$one'", "'$two'"]}' prepare 2 sh -c "$kinds"
    kind=${row#*:}
    [ "$(given -o 'output.stdout.path=out.{{task.argument}}')" = "$kind $kind $kind $kind " ] || { cat kinds.*; return 1; }
  done
}

@test "output.direct=on says why it cannot be had" {
  prepare 2 touch started
  while IFS='|' read -r row why; do
    read -ra words <<<"$row"
    run nacre -o output.direct=on -o "${words[@]}"
    [ "$status" -eq 1 ] || { echo "$row"; return 1; }
    [[ $output == *"output: direct=on: $why" ]] || { echo "$row: $output"; return 1; }
  done <<'END'
output.stdout.type=term|no stream goes to a file
output.stdout.path=out|stdout has to pass through the shell: out may be the file of several tasks: it needs a tag such as {{task.rank}}
output.stderr.path=out.{{task.slot}}|stderr has to pass through the shell: out.{{task.slot}} may be the file of several tasks: it needs a tag such as {{task.rank}}
output.stdout.path=out.{{taskid}} -o label-io|stdout has to pass through the shell: something is put before its lines
output.stdout.path=out.{{taskid}} -o output.stderr.label=on|stdout has to pass through the shell: the other stream goes to the same file, through the shell
output.stdout.path=out.{{taskid}} -o output.stdout.format=json|stdout has to pass through the shell: its format is json
output.stdout.path=out.{{taskid}} -o output.stdout.type=term,file|stdout has to pass through the shell: it does not go to a file alone
output.stdout.path=out.{{taskid}} -o output.stdout.buffer.type=block|stdout has to pass through the shell: it comes in blocks (buffer.type)
output.stdout.path=out.{{taskid}} -o restart=on-failure,no-progress=2|stdout has to pass through the shell: restart (no-progress) or slow-watch looks at it
output.stdout.path=out.{{taskid}} -o pty|stdout has to pass through the shell: tasks have a terminal (pty)
END
  mkfifo fifo.0
  run nacre -o output.direct=on -o 'output.stdout.path=fifo.{{taskid}}'
  [ "$status" -eq 1 ]
  [[ $output == *"output.stdout.path: fifo.0: it is no regular file, as output.direct=on needs"* ]]
  run nacre -o output.direct=perhaps
  [ "$status" -eq 1 ]
  [[ $output == *"output.direct: expected auto, on or off, got \"perhaps\""* ]] || { echo "$output"; return 1; }
  [ ! -e started ]
}

@test "a tag that only tasks have makes a file for each, whoever knows it" {
  prepare 2 sh -c 'echo "$FLUX_TASK_RANK"'
  cat >init.lua <<'END'
plugin.register { name = "seats", handlers = { { topic = "mustache.render.seat", fn = function (topic, args)
  if args.rank then return { result = "seat" .. args.rank } end
end } } }
END
  run nacre --initrc=init.lua -o 'output.stdout.path=out.{{seat}}'
  [ "$status" -eq 0 ]
  [ "$(cat out.seat0 out.seat1)" = $'0\n1' ]
}

@test "a file that cannot be opened on one node: no task of any node runs" {
  write_nodes 3 20
  write_jobspec 60 sh -c "touch '$work/ran'"
  mkdir dir0 dir1
  touch dir0/in dir1/in
  for option in 'output.stdout.path=dir{{node.id}}/out' 'output.stderr.path=dir{{node.id}}/{{task.rank}}' 'input.stdin.path=dir{{node.id}}/in' \
    'output.stdout.path=dir{{node.id}}/{{task.rank}} -o label-io' 'pty -o output.stdout.path=dir{{node.id}}/{{task.rank}}' \
    'coprocess={"x":{"command":"true","output":"dir{{node.id}}/x"}}'; do
    read -ra words <<<"$option"
    run launch -R R.json -o cpu-affinity=off --local=3 -o "${words[@]}"
    [ "$status" -eq 1 ]
    [[ $output == *"dir2"*"on node2"* ]] || { echo "$option: $output"; return 1; }
    [ ! -e ran ] || { echo "$option"; return 1; }
  done
}

@test "a terminal that is not there for task 0: no task of any node runs" {
  write_nodes 3 1
  write_jobspec 3 sh -c "touch '$work/ran'"
  run launch -R R.json -o cpu-affinity=off --local=3 -o pty.interactive
  [ "$status" -eq 1 ]
  [[ $output == *"pty.interactive: standard input or output is not a terminal"* ]] || { echo "$output"; return 1; }
  [ ! -e ran ]
}

@test "output goes to several places at once" {
  prepare 2 sh -c "$both"
  nacre --record-dir=record -o output.stdout.type=term,file,kvs -o output.stdout.path=file >out 2>err
  [ "$(sort file)" = $'err 0\nerr 1\nout 0\nout 1' ]
  [ "$(sort out)" = $'out 0\nout 1' ]
  [ "$(sort err)" = $'err 0\nerr 1' ]
  [ "$(jq -r 'select (.context.data) | .context.data' record/guest.output | sort | tr -d '\n')" = 'err 0err 1out 0out 1' ]
}

@test "the record has an eventlog of the output, RFC 24" {
  prepare 2 sh -c 'echo "out $FLUX_TASK_RANK"; printf "\377" >&2'
  nacre --record-dir=record -o output.stdout.type=kvs >out 2>&1
  [ ! -s out ]
  [ "$(head -n 1 record/guest.output | jq -c '[.name, .context.version, .context.count.stdout, .context.encoding.stderr]')" = \
    '["header",1,2,"UTF-8"]' ]
  run jq -c 'select (.name == "data") | .context' record/guest.output
  [ "$(sort <<<"$output")" = '{"stream":"stderr","rank":"0","data":"/w==","encoding":"base64"}
{"stream":"stderr","rank":"0","eof":true}
{"stream":"stderr","rank":"1","data":"/w==","encoding":"base64"}
{"stream":"stderr","rank":"1","eof":true}
{"stream":"stdout","rank":"0","data":"out 0\n"}
{"stream":"stdout","rank":"0","eof":true}
{"stream":"stdout","rank":"1","data":"out 1\n"}
{"stream":"stdout","rank":"1","eof":true}' ]
  [ "$(jq -r .name record/guest.exec.eventlog | tr '\n' ' ')" = "shell.init shell.start shell.task-exit shell.exit " ]
}

# bats test_tags=long
@test "the shell's own messages are in the file of standard error, and in the record" {
  cat >rc.lua <<'END'
shell.log ("from the initrc") shell.log_error ("a\27[2Jb")
END
  prepare 2 sh -c 'echo told >&2; exit "$FLUX_TASK_RANK"'
  run nacre --record-dir=record --initrc=rc.lua -o output.stderr.path=err
  [ "$status" -eq 1 ]
  local -a said=("nacre-shell[0]: initrc: from the initrc" 'nacre-shell[0]: error: initrc: a\x1b[2Jb'
    "nacre-shell[0]: error: task 1 on node0: exit code 1")
  for line in "${said[@]}"; do
    [[ $output == *"$line"* ]]
    [ "$(grep -cFx -e "$line" err)" -eq 1 ]
  done
  [ "$(grep -cx told err)" -eq 2 ]
  [ "$(wc -l <err)" -eq 5 ]
  [ "$(jq -c 'select (.name == "log") | .context | [.rank, .level, .program, .component, .message, .line]' record/guest.output)" = \
    '[0,5,"nacre-shell","initrc","from the initrc",1]
[0,3,"nacre-shell","initrc","a\\x1b[2Jb",1]
[0,3,"nacre-shell",null,"task 1 on node0: exit code 1",null]' ]
  run nacre -o output.stderr.path=err.json -o output.stderr.format=json
  [ "$(jq -r 'select (.name == "log").context.message' err.json)" = "task 1 on node0: exit code 1" ]
  # The message does not go to files of single tasks, nor to a file of standard output only.
  run nacre -o output.stdout.path=out -o output.stderr.path='err.{{task.rank}}'
  [ "$(cat out err.0 err.1)" = $'told\ntold' ]
}

@test "the record can be read while the job runs" {
  mkfifo go
  prepare 1 sh -c 'echo first; read line <go'
  nacre --record-dir=record -o output.stdout.type=kvs &
  until grep -q first record/guest.output 2>/dev/null; do sleep 0.02; done
  echo >go
  wait $!
}

# bats test_tags=long
@test "the record tells which streams went to files" {
  prepare 2 true
  nacre --record-dir=record -o output.stdout.path=file -o 'output.stderr.path=e.{{task.rank}}'
  run jq -c 'select (.name == "redirect") | .context | [.stream, .rank, .path]' record/guest.output
  [ "$(sort <<<"$output")" = '["stderr","0","e.0"]
["stderr","1","e.1"]
["stdout","0-1","file"]' ]
  prepare 1 true
  rm -r record
  nacre --record-dir=record -o output.stdout.path=both
  run jq -c 'select (.name == "redirect") | .context | [.stream, .rank, .path]' record/guest.output
  [ "$output" = '["stdout","0","both"]
["stderr","0","both"]' ]
  rm -r record
  nacre --record-dir=record -o output.stdout.path='{{task.rank}}' -o output.stdout.label
  run jq -c 'select (.name == "redirect") | .context | [.stream, .rank, .path]' record/guest.output
  [ "$output" = '["stdout","0","0"]
["stderr","0","0"]' ]
}

@test "kvs without a record is an error that says what to do" {
  prepare 1 true
  run nacre -o output.stdout.type=kvs
  fails_with 1 "type kvs" "--record-dir"
}

@test "a plan that is only printed leaves files alone" {
  prepare 2 true
  echo old >file
  nacre --explain -o output.stdout.path=file --record-dir=record >plan
  nacre --explain -o 'output.stdout.path=file.{{task.rank}}' >plan
  [ "$(cat file)" = old ]
  [ ! -e file.0 ]
  [ ! -e record ]
}

@test "lines are labelled by a template, and have the time" {
  prepare 2 echo x
  run nacre -o 'output.stdout.label=<{{task.rank}} of {{size}}> '
  [ "$(sort <<<"$output")" = $'<0 of 2> x\n<1 of 2> x' ]
  before=$(date +%s)
  nacre -o output.stdout.timestamps -o label-io >iso
  nacre -o output.stdout.timestamps=unix >unix
  [ "$(sed -E 's/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z //' iso | sort)" = $'0: x\n1: x' ]
  while read -r time text; do
    [ "$text" = x ]
    ((${time%.*} >= before && ${time%.*} <= $(date +%s)))
  done <unix
  [ "$(date -d "$(head -n 1 iso | cut -d' ' -f1)" +%s)" -ge "$before" ]
}

@test "lines come as JSON" {
  prepare 1 sh -c 'echo "a \"b\""; printf "\377\n"; printf end'
  nacre -o output.stdout.format=json >out
  [ "$(jq -c 'del (.time)' out)" = '{"rank":0,"stream":"stdout","data":"a \"b\""}
{"rank":0,"stream":"stdout","data":"/w==","encoding":"base64"}
{"rank":0,"stream":"stdout","data":"end","eol":false}' ]
}

front() { env -u SLURM_JOB_ID "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" "$@"; }

@test "run --log-dir: a file for each stream, task and start, as torchrun has them; --tee prints them, too" {
  front -n 2 --log-dir=logs --restart=on-failure,max=1,backoff=0 --tee sh -c 'echo "out $FLUX_TASK_RANK"; echo "err $FLUX_TASK_RANK" >&2
    [ "$FLUX_TASK_RANK" = 0 ] || [ -e again ] || { touch again; exit 3; }' >out 2>err
  cd logs/*
  [ "$(cat attempt_0/0/stdout.log attempt_0/1/stdout.log attempt_1/1/stdout.log)" = $'out 0\nout 1\nout 1' ]
  [ "$(cat attempt_0/0/stderr.log attempt_1/1/stderr.log)" = $'err 0\nerr 1' ]
  [ "$(find . -type f | wc -l)" -eq 6 ]
  [ "$(sort ../../out)" = $'out 0\nout 1\nout 1' ]
  [ "$(grep -c '^err' ../../err)" -eq 3 ]
}

@test "run --tee: a file and here; without files it is wrong usage" {
  front -n 2 --output=file --tee sh -c "$both" >out 2>err
  [ "$(sort file)" = $'err 0\nerr 1\nout 0\nout 1' ]
  [ "$(sort out err)" = "$(sort file)" ]
  front -n 1 --error=errors --tee sh -c "$both" >out 2>err
  [ "$(cat out)" = "out 0" ]
  [ "$(cat errors)" = "err 0" ]
  [ "$(cat err)" = "err 0" ]
  run front --tee true
  [ "$status" -eq 2 ]
}

@test "run --fold=hosts: equal lines with the hosts that wrote them" {
  front --pretend=4x2c -n 8 --fold=hosts sh -c 'echo same; [ "$FLUX_TASK_RANK" != 5 ] || echo other' >out 2>/dev/null
  grep -qE '^[^:]+\[?[0-3].*: same$' out
  grep -qE '^[^:,[]+: other$' out
}

@test "equal lines of many tasks are folded" {
  prepare 16 sh -c ': >"started.$FLUX_TASK_RANK"; until [ -e go ]; do sleep 0.1; done
    echo all; [ "$FLUX_TASK_RANK" != 3 ] || echo three; echo "$((FLUX_TASK_RANK / 8))"; echo all; : >"wrote.$FLUX_TASK_RANK"'
  all_have() { [ "$(compgen -G "$1.*" | wc -l)" -eq 16 ]; }
  "${nacre[@]}" -o output.fold >out &
  local shell=$!
  wait_until all_have started
  # A line waits for the other tasks for 0.1 s: they write while the shell is stopped, however slow the machine is.
  kill -STOP "$shell"
  touch go
  wait_until all_have wrote
  kill -CONT "$shell"
  wait "$shell"
  mapfile -t lines <out
  [ "$(sort -u out | grep -c three)" -eq 1 ]
  [ "${lines[0]}" = "[0-15]: all" ]
  [[ " ${lines[*]} " == *" 3: three "* ]]
  # However the tasks were scheduled, each one's lines are all there.
  python3 - "${lines[@]}" <<'END'
import sys
seen = {rank: [] for rank in range(16)}
for line in sys.argv[1:]:
    ranks, text = line.split(": ", 1)
    for part in ranks.strip("[]").split(","):
        first, _, last = part.partition("-")
        for rank in range(int(first), int(last or first) + 1):
            seen[rank].append(text)
for rank, lines in seen.items():
    assert lines == ["all"] + ["three"] * (rank == 3) + [str(rank // 8), "all"], (rank, lines)
END
}

@test "some ranks' output is wanted, the others' is not" {
  prepare 4 sh -c 'echo "$FLUX_TASK_RANK"; target=$(readlink /proc/$$/fd/1); echo "$target" >>targets'
  run nacre -o output.ranks=1,3
  [ "$(sort <<<"$output")" = $'1\n3' ]
  [ "$(grep -c /dev/null targets)" -eq 2 ]
}

two_lines() { [ "$(grep -c line out)" -eq 2 ]; }

@test "a line is out at once, and a prompt of the only task is, too" {
  prepare 2 sh -c 'echo line; exec sleep 1000'
  : >out
  "${nacre[@]}" >out &
  wait_until two_lines
  kill $!
  run wait $!
  prepare 1 sh -c 'printf "name? "; exec sleep 1000'
  : >out
  "${nacre[@]}" >out &
  until grep -q 'name? ' out; do sleep 0.01; done
  kill $!
  run wait $!
}

# bats test_tags=long
@test "where stdout and stderr are one pipe, lines of both are whole, however slow its reader" {
  prepare 4 sh -c 'i=0; while [ $i -lt 20000 ]; do echo "out $i end"; echo "err $i end" >&2; i=$((i + 1)); done'
  "${nacre[@]}" 2>&1 | python3 -c '
import os, time
total = b""
while part := os.read(0, 3000):
    total += part
    if len(total) % 7 == 0: time.sleep(0.0005)
open("all", "wb").write(total)'
  [ "$(wc -l <all)" -eq 160000 ]
  run ! grep -vE '^(out|err) [0-9]+ end$' all
}

# bats test_tags=long
@test "options that make no sense are named" {
  prepare 1 true
  for each in "output.x=1|output.x: unknown key" "output.stdout.x=1|output.stdout.x: unknown key" \
    "output.stdout.type=disk|output.stdout.type: expected term, file or kvs" "output.mode=keep|output.mode: expected one of" \
    "output.stdout.type=file|output.stdout: the type is file, so \`path\`" "output.limit=-1|output.limit: expected a number of bytes" \
    "output.limit=1Q|output.limit: expected a number of bytes" "output.overflow=lose|output.overflow: expected one of" \
    "output.ranks=x|output.ranks: " "output.stdout.timestamps=now|output.stdout.timestamps: expected one of" \
    "output.stdout.buffer.type=page|output.stdout.buffer.type: expected one of" "output.drain-timeout=soon|output.drain-timeout: "; do
    run nacre -o "${each%%|*}"
    fails_with 1 "nacre-shell: ${each#*|}"
  done
  run nacre -o output.fold -o output.stdout.format=json
  fails_with 1 "fold" "format=json"
  run nacre -o label-io -o output.stdout.format=json
  fails_with 1 "format=json" "label"
}
