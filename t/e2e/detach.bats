#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Jobs that go on without the process that has started them: nacre run -d.
load detached.bash

# Runs a detached job; its id is $id.
detached() { # way, then options and a command
  places_of "$1"
  id=$(timeout 60 "$front" run "${places[@]}" -d "${@:2}" 2>err)
}

@test "the id comes once the job runs, which goes on alone, and its output and code can be had after its end" {
  for way in here local agent; do
    rm -f go seen # the former job's files could be taken for this job's
    detached "$way" -n 2 sh -c 'echo "early $FLUX_TASK_RANK"; echo "bad $FLUX_TASK_RANK" >&2; until test -e go; do sleep 0.2; done; echo "late $FLUX_TASK_RANK"; exit 5'
    [ ! -s err ] || { cat err; return 1; }
    [ "$("$front" jobs -q)" = "$id" ]
    pid=$("$front" jobs --json | jq .pid)
    [ "$(ps -o sid= -p "$pid")" -eq "$pid" ]
    "$front" attach "$id" >seen 2>seen.err &
    waiting=$!
    wait_until grep -q "early 1" seen
    touch go
    code=0
    wait "$waiting" || code=$?
    [ "$code" -eq 5 ] || { echo "$way: code $code"; cat seen seen.err; return 1; }
    [ "$(sort seen)" = "$(printf '%s\n' 'early 0' 'early 1' 'late 0' 'late 1')" ]
    wait_until is_over
    run -5 "$front" wait "$id"
    run -5 --separate-stderr "$front" attach "$id"
    [ "$(grep -E '^(early|bad|late)' <<<"$output" | sort)" = "$(printf '%s\n' 'bad 0' 'bad 1' 'early 0' 'early 1' 'late 0' 'late 1')" ] || { echo "$output"; return 1; }
    run -5 --separate-stderr "$front" attach --tail=1 --json "$id"
    [ "$(jq -s -c 'length' <<<"$output")" = 2 ]
    [ "$(stat -c %a "$NACRE_JOBS_DIR/$id.out")" = 600 ]
    nothing_left '^nacre-shell: '"$id"
  done
}

@test "a job that does not start: the error, and its exit code; nothing is left in the list" {
  for way in here local agent; do
    detached "$way" -n 2 ./no-such-program && return 1 || code=$?
    [ "$code" -eq 127 ] || { echo "$way: code $code"; cat err; return 1; }
    [ -z "$id" ]
    grep -q no-such-program err
    detached "$way" -n 2 -o output.fol true && return 1 || code=$?
    [ "$code" -eq 1 ]
    grep -q 'unknown key' err
    [ -z "$(find "$NACRE_JOBS_DIR" -name '*.out')" ]
  done
  detached here -o control=off sleep 600 && return 1 || code=$?
  [ "$code" -eq 1 ]
  grep -q 'leave out control=off' err
}

@test "an id that cannot be printed is told on standard error, as the job runs" {
  for way in here local; do
    places_of "$way"
    code=0
    timeout 60 "$front" run "${places[@]}" -d -n 2 sleep 600 2>err >/dev/full || code=$?
    [ "$code" -eq 1 ]
    id=$("$front" jobs -q)
    [ "$(cat err)" = "nacre run: standard output: No space left on device; job $id runs: nacre attach $id or nacre cancel $id" ]
    "$front" cancel "$id"
    wait_until is_over
  done
}

# bats test_tags=long
@test "a job that is over at once has run" {
  for way in here local agent; do
    detached "$way" -n 2 sh -c 'echo quick; exit 3'
    run -3 "$front" wait "$id"
    run -3 --separate-stderr "$front" attach "$id"
    [ "$(grep -c quick <<<"$output")" -eq 2 ]
  done
}

# bats test_tags=long
@test "a name is that of the job that runs, else of the one that has ended last" {
  detached here --name=again sh -c 'echo first; exit 3'
  run -3 "$front" wait again
  detached here --name=again sh -c 'until [ -e go ]; do sleep 0.2; done; echo second; exit 4'
  second=$id
  detached here --name=again sleep 76554
  run -1 "$front" wait again
  [[ $output == "nacre wait: 'again' may be any of 2 jobs: "* ]] || { echo "$output"; return 1; }
  "$front" kill "$id"
  run -143 "$front" wait "$id"
  # The former job has ended since; this one runs.
  [ "$("$front" ps --json again | jq -s length)" -eq 1 ]
  touch go
  run -4 "$front" wait --json again
  [ "$output" = "{\"code\":4,\"id\":\"$second\"}" ] || { echo "$output"; return 1; }
  run -4 "$front" wait --json again
  [ "$output" = "{\"code\":4,\"id\":\"$second\"}" ] || { echo "$output"; return 1; }
  run -4 "$front" wait "$(hostname)/again"
  run -4 --separate-stderr "$front" attach again
  [[ $output == second* ]] || { echo "$output"; return 1; }
  [ "$("$front" report --json again | jq -r .id)" = "$second" ]
  run -1 "$front" kill again
  [ "$output" = "nacre kill: job $second has ended" ] || { echo "$output"; return 1; }
  run -1 "$front" wait agai
  [[ $output == "nacre wait: 'agai': no such job"* ]] || { echo "$output"; return 1; }
}

# bats test_tags=long
@test "the launcher is killed before the job runs: the job ends" {
  printf 'plugin.register { handlers = { { topic = "shell.init", fn = function () io.open ("started", "w"):close (); os.execute ("sleep 1") end } } }\n' >slow.lua
  for way in here local agent; do
    rm -f started
    places_of "$way"
    "$front" run "${places[@]}" -d --initrc=slow.lua -n 2 sleep 76551 >out 2>err &
    second=$!
    wait_until test -e started
    kill -KILL "$second"
    wait_until no_leader
    nothing_left '^sleep 76551'
    [ ! -s out ]
    is_over
  done
}

@test "its session may end once it runs" {
  places_of here
  setsid bash -c 'front=$1; shift; exec "$front" run "$@"' - "$front" "${places[@]}" -d sleep 76552 >id
  [ "$("$front" jobs -q)" = "$(<id)" ]
  "$front" kill -s KILL "$(<id)"
  run -137 "$front" wait "$(<id)"
}

# bats test_tags=long
@test "the leader is killed, or stopped for a while" {
  for way in here local agent; do
    detached "$way" -n 2 sh -c 'echo early; exec sleep 76553'
    pid=$("$front" jobs --json | jq .pid)
    kill -STOP "$pid"
    sleep 3
    kill -0 "$pid"
    kill -CONT "$pid"
    [ "$("$front" jobs -q)" = "$id" ]
    lines_come "$NACRE_JOBS_DIR/$id.out" 2
    kill -KILL "$pid"
    run -137 "$front" wait "$id"
    nothing_left '[s]leep 76553'
    run -137 --separate-stderr "$front" attach "$id"
    [ "$(grep -c early <<<"$output")" -eq 2 ]
  done
}

# bats test_tags=long
@test "standard input is empty, and what the launcher has is left alone" {
  for way in here local agent; do
    echo mine >mine
    { detached "$way" -n 2 sh -c 'cat; echo ended'; read -r line; } <mine
    [ "$line" = mine ]
    run -0 "$front" wait "$id"
    run -0 --separate-stderr "$front" attach "$id"
    [ "$output" = $'ended\nended' ]
  done
}

# bats test_tags=long,root
@test "a full disk: what does not fit is missing, with a line, and the job goes on" {
  needs_root "to mount a small file system"
  mkdir -p home
  mount -t tmpfs -o size=256k,mode=700 none home
  export NACRE_JOBS_DIR=$work/home/jobs
  detached here -n 2 sh -c 'seq 100000; echo "over $FLUX_TASK_RANK" >"over.$FLUX_TASK_RANK"; until test -e go; do sleep 0.2; done; exit 4'
  wait_until test -s over.0 -a -s over.1
  kept=$(stat -c %s "$NACRE_JOBS_DIR/$id.out")
  [ "$kept" -lt 262144 ]
  truncate -s 0 "$NACRE_JOBS_DIR/$id.out"
  touch go
  run -4 "$front" wait "$id"
  run -4 --separate-stderr "$front" attach "$id"
  [[ $stderr == *"bytes are missing: they could not be written"* ]] || { echo "$stderr"; return 1; }
  export NACRE_JOBS_DIR=$work/jobs
}

@test "the file goes with the job's entry, and one without an entry after a week" {
  detached here true
  "$front" wait "$id"
  test -e "$NACRE_JOBS_DIR/$id.out"
  jq -c '.end.time -= 604900' "$NACRE_JOBS_DIR/$id.json" >old
  mv old "$NACRE_JOBS_DIR/$id.json"
  touch -d '8 days ago' "$NACRE_JOBS_DIR/fAAAAAAAAAAA.out"
  touch "$NACRE_JOBS_DIR/fBBBBBBBBBBB.out"
  "$front" jobs -a >/dev/null
  [ "$(cd "$NACRE_JOBS_DIR" && echo *)" = fBBBBBBBBBBB.out ]
}

@test "what does not go with it is refused with the remedy" {
  run -1 "$front" run -d --srun true
  [[ $output == *sbatch* && $output == *--hosts* ]]
  run -1 "$front" run --srun -o on-launcher-lost=go-on true
  [[ $output == *sbatch* ]]
  run -1 "$front" run -d --hosts=nowhere1 --report=x true
  [[ $output == *"-o report=FILE"* ]]
  run -1 "$front" run -d --pty true
  [[ $output == *"--pty=RANKS"* ]]
  run -2 "$front" run -d --explain true
  write_jobspec 1 true
  run -1 "$front" launch -d --local=1 -j jobspec.json -- --explain
  [[ $output == *--explain* ]]
  run -1 "$front" run -o on-launcher-lost=maybe true
  [[ $output == *"expected end or go-on"* ]]
}
