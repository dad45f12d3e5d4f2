#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# on-launcher-lost: what becomes of a job whose launcher is killed, whose reader has gone, or whose terminal is closed.
load detached.bash

go() { # way
  places_of "$1"
  places+=(-o on-launcher-lost="${lost:-go-on}" -n 2)
}
slow='echo "early $FLUX_TASK_RANK"; until test -e go; do sleep 0.2; done; echo "late $FLUX_TASK_RANK"; echo bad >&2; exit 5'

@test "the launcher is killed: the job goes on, and the rest of its output is in its file" {
  for way in here local agent; do
    rm -f go out # the former job's files could be taken for this job's
    go "$way"
    "$front" run "${places[@]}" sh -c "$slow" >out 2>err </dev/null &
    second=$!
    wait_until lines_come out 2
    wait_until listed
    id=$("$front" jobs -q)
    kill -KILL "$second"
    wait_until test -e "$NACRE_JOBS_DIR/$id.out"
    [ "$("$front" jobs -q)" = "$id" ]
    touch go
    run -5 "$front" wait "$id"
    run -5 --separate-stderr "$front" attach "$id"
    [ "$(grep -E '^(late|bad|early)' <<<"$output" | sort)" = $'bad\nbad\nlate 0\nlate 1' ] || { echo "$way: $output"; return 1; }
    [ "$(sort out)" = $'early 0\nearly 1' ]
    nothing_left "^nacre-shell: $id"
  done
}

@test "by default it ends" {
  lost=end
  for way in local agent; do
    go "$way"
    "$front" run "${places[@]}" sleep 76561 >out 2>err </dev/null &
    second=$!
    wait_until listed
    kill -KILL "$second"
    nothing_left '^sleep 76561'
    wait_until is_over
    [ -z "$(find "$NACRE_JOBS_DIR" -name '*.out')" ]
  done
}

# bats test_tags=long
@test "the launcher is killed before the tasks run: the job ends" {
  printf 'plugin.register { handlers = { { topic = "shell.init", fn = function () io.open ("started", "w"):close (); os.execute ("sleep 1") end } } }\n' >slow.lua
  for way in here local agent; do
    rm -f started
    go "$way"
    "$front" run "${places[@]}" --initrc=slow.lua sleep 76562 >out 2>err </dev/null &
    second=$!
    wait_until test -e started
    kill -KILL "$second"
    wait_until no_leader
    nothing_left '^sleep 76562'
  done
}

# bats test_tags=long
@test "a reader that has gone: what it has not read goes to the file, and no task gets SIGPIPE" {
  for way in here local; do
    rm -f go
    go "$way"
    mkfifo pipe
    "$front" run "${places[@]}" sh -c 'echo early; until test -e go; do sleep 0.2; done; seq 20000; exit 6' >pipe 2>err </dev/null &
    second=$!
    head -n 1 <pipe
    wait_until listed
    id=$("$front" jobs -q)
    touch go
    code=0
    wait "$second" || code=$?
    [ "$code" -eq 6 ] || { cat err; return 1; }
    [ "$(grep -cx 20000 "$NACRE_JOBS_DIR/$id.out")" -eq 2 ]
    rm pipe
  done
}

# bats test_tags=long
@test "a terminal that is closed: the launcher ends with 129, and the job goes on; its input has ended" {
  for way in here local; do
    rm -f go
    go "$way"
    timeout -s KILL 100 python3 -c 'import os, pty, sys
pid, master = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
while b"early 0" not in seen or b"early 1" not in seen:
    seen += os.read(master, 4096)
while not open("listed").read() if os.path.exists("listed") else True:
    os.system("\"$NACRE_BUILD_DIR/nacre\" jobs -q >listed")
os.close(master)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
open("code", "w").write(str(code))' "$front" run "${places[@]}" sh -c "$slow"'; cat'
    [ "$(<code)" = 129 ] || { cat code; return 1; }
    id=$(<listed)
    [ "$("$front" jobs -q)" = "$id" ]
    touch go
    run -5 "$front" wait "$id"
    [ "$(grep -c late "$NACRE_JOBS_DIR/$id.out")" -eq 2 ]
    rm listed
  done
}

# bats test_tags=long
@test "nacre run that has become the shell, with the option of an initrc: SIGHUP has it go on without its terminal" {
  printf 'shell.options["on-launcher-lost"] = "go-on"\n' >own.lua
  # The tests may have been started with SIGHUP ignored, as by nohup.
  env --default-signal=HUP "$front" run --shell="$NACRE_SHELL" -o cpu-affinity=off --initrc=own.lua -n 2 sh -c "$slow" >out 2>err </dev/null &
  second=$!
  wait_until lines_come out 2
  wait_until listed
  id=$("$front" jobs -q)
  [ "$("$front" jobs --json | jq .pid)" -eq "$second" ]
  kill -HUP "$second"
  wait_until test -e "$NACRE_JOBS_DIR/$id.out"
  touch go
  code=0
  wait "$second" || code=$?
  [ "$code" -eq 5 ]
  [ "$(grep -c late "$NACRE_JOBS_DIR/$id.out")" -eq 2 ]
}

@test "shells that a manager has started: the option is refused" {
  prepare 1 true
  run -1 "$NACRE_SHELL" --standalone -j jobspec.json -R R.json -o cpu-affinity=off -o control -o on-launcher-lost=go-on
  [[ $output == *"a manager has started the shells"* ]]
}
