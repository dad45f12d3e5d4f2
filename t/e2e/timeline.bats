#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What has happened when: the option timeline, nacre run and launch --timeline, nacre timeline. Traces are checked against the rules of their format.
load nodes.bash
load pmi.bash
load pmix.bash
load control.bash

is_trace() { # [FILE]
  python3 "$NACRE_SOURCE_DIR/t/kit/trace_check.py" "${1:-t.json}" || { cat err; return 1; }
}

is() { # FILTER [FILE]: it is true of the trace; `named(PHASE; NAME)` are such events
  local of='def named($ph; $name): [.traceEvents[] | select(.ph == $ph and .name == $name)];'
  jq -e "$of $1" "${2:-t.json}" >/dev/null || { echo "not so: $1"; jq -c .otherData "${2:-t.json}"; cat err; return 1; }
}

r='case $FLUX_TASK_RANK in'

@test "a trace of four shells keeps the rules of its format: a process a shell, a thread a rank, slices and arrows" {
  job 4 2 "$r 5) sleep 0.3;; 6) exit 3;; esac; echo \$FLUX_TASK_RANK" --timeline=t.json
  [ "$code" -eq 3 ]
  is_trace
  is 'named("M"; "process_name") | map(.args.name) == ["node0 (shell 0)", "node1 (shell 1)", "node2 (shell 2)", "node3 (shell 3)"]'
  is 'named("M"; "thread_name") | map(select(.args.name != "shell")) | map([.pid, .tid, .args.name]) ==
    [range(8) | [(. / 2 | floor) + 1, . + 1, "rank \(.)"]]'
  is 'named("X"; "spawn") | map(.cat) | (map(select(. == "task")) | length == 8) and (map(select(. == "shell")) | length == 4)'
  is 'named("X"; "run") | map(.tid) | sort == [range(1; 9)]'
  is 'named("X"; "run")[] | select(.tid == 6) | .dur >= 100000'
  is 'named("X"; "run")[] | select(.tid == 7) | .args.end | contains("exited with code 3")'
  is 'named("i"; "first output") | map(.tid) | contains([6])'
  is '["init barrier", "start barrier", "exit barrier"] as $names | [$names[] as $name | named("X"; $name) | length] == [4, 4, 4]'
  is '[.traceEvents[] | select(.ph == "s")] | length >= 3'
  is '.otherData | .shells == 4 and .tasks == 8 and .over and .start > 1e9 and (has("lost") or has("late") or has("dropped") | not)'
  [ ! -s err ] || ! grep -q launch err || false
}

# bats test_tags=long
@test "the check of traces refuses what the format does not allow, and slices that overlap by any rounding" {
  job 2 1 'echo x' --timeline=t.json
  is_trace
  local change
  for change in 'del(.traceEvents)' '.displayTimeUnit = "s"' '.traceEvents[-1].ph = "Y"' 'del(.traceEvents[0].pid)' \
    '.traceEvents[-1].tid = "1"' '.traceEvents[-1].name = ""' '.traceEvents[-1].args = 1' '.traceEvents[-1].begin = 1' \
    'del(.traceEvents[-1].ts)' '.traceEvents[-1].ts = -1' '.traceEvents[-1].dur = -0.125' '.traceEvents[-1].ts = 0' \
    'first(.traceEvents[] | select(.cat == "task" and .name == "spawn")).dur += 0.001' 'del(.traceEvents[] | select(.ph == "s"))' \
    'first(.traceEvents[] | select(.ph == "e")).id = "other"' 'del(.traceEvents[] | select(.name == "thread_name"))' \
    'first(.traceEvents[] | select(.ph == "f")).bp = "x"' 'first(.traceEvents[] | select(.ph == "i")).s = "x"'; do
    jq "$change" t.json >broken.json
    run is_trace broken.json
    [ "$status" -ne 0 ] || { echo "not refused: $change"; return 1; }
    [[ $output != *Traceback* ]] || { echo "$change: $output"; return 1; }
  done
}

# bats test_tags=long
@test "the difference of clocks is measured, and is what it is here: none, within what is claimed" {
  job 3 1 true -o timeline=t.json
  is '.otherData.clocks | map(.shell) == [1, 2]'
  is '.otherData.clocks | all(.same and .uncertainty_us == 0 and .measured_uncertainty_us > 0)'
  is '.otherData.clocks | all((.measured_offset_us | fabs) <= .measured_uncertainty_us)'
}

# bats test_tags=long,root
@test "a host whose clock is an hour ahead: the difference is found, and no time in the trace is wrong by it" {
  needs_root "to make a time namespace"
  unshare --time --monotonic 3600 --fork true || skip "no time namespace can be made here"
  write_nodes 3 1
  write_jobspec 3 sh -c 'sleep 0.2; echo x'
  cat >agent <<'END'
#!/bin/sh
host=$1
shift
[ "$host" != node1 ] || exec unshare --time --monotonic 3600 --fork --kill-child sh -c "$*"
exec sh -c "$*"
END
  chmod +x agent
  launch --hosts="node[0-2]" --agent="$work/agent" -R R.json -o cpu-affinity=off --timeline=t.json
  is_trace
  is '.otherData.clocks | map([.shell, .same]) == [[1, false], [2, true]]'
  is '.otherData.clocks[0] | (.measured_offset_us - 3600e6 | fabs) <= .measured_uncertainty_us and .measured_uncertainty_us < 1e6'
  is '.otherData.clocks[0].uncertainty_us > 0'
  is '[.traceEvents[] | select(.ph != "M").ts] | max < 300e6'
  is 'named("M"; "process_labels") | map([.pid, (.args.labels | startswith("clock ±"))]) == [[2, true]]'
  launch --hosts="node[0-2]" --agent="$work/agent" -R R.json -o cpu-affinity=off --timeline 2>err
  grep -qE '^nacre: clocks: known to ±[0-9.]+ ms \(worst node1\)' err
}

# bats test_tags=long
@test "the time of day jumps by an hour on the leader's host, and back on another's: the times between events stay right" {
  cat >jump.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (clock == CLOCK_REALTIME && access(getenv("JUMPED"), F_OK) == 0) now->tv_sec += atol(getenv("BY"));
  return result;
}
END
  cc -shared -fPIC -o jump.so jump.c -ldl
  write_nodes 3 1
  write_jobspec 3 sh -c "[ \$FLUX_TASK_RANK != 0 ] || touch $work/jumped; sleep 0.3; echo x"
  cat >agent <<'END'
#!/bin/sh
host=$1
shift
case $host in
  node0) export BY=3600 ;;
  node1) export BY=-3600 ;;
  *) exec sh -c "$*" ;;
esac
export JUMPED=$WORK/jumped LD_PRELOAD=$WORK/jump.so ASAN_OPTIONS=verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
exec sh -c "$*"
END
  chmod +x agent
  before=$(date +%s)
  WORK=$work launch --hosts="node[0-2]" --agent="$work/agent" -R R.json -o cpu-affinity=off --timeline=t.json
  [ -e jumped ]
  is_trace
  is '[.traceEvents[] | select(.ph != "M").ts] | max < 300e6'
  is 'named("X"; "run") | length == 3 and all(.dur > 0 and .dur < 300e6)'
  is ".otherData.start - $before - 3600 | . >= 0 and . < 300"
}

@test "the summary comes at the end on standard error, or as an event: its steps in order, with who came last" {
  job 3 1 'echo out' --timeline
  [ "$(sort -u out)" = out ]
  grep -qE '^nacre: launch [0-9.]+ (ms|s): start of shells [0-9.]+ \(slowest .*node[12] .*\), join [0-9.]+, init barrier [0-9.]+ \(last: node[0-2].*\), .*start barrier [0-9.]+ \(last: ' err
  grep -qE '^nacre: tasks, ms after it: first output .*, last end ' err
  grep -qE '^nacre: end [0-9.]+ (ms|s): exit barrier ' err
  job 3 1 true --timeline --format=json
  jq -se 'map(select(.name == "timeline").context | [.launched, (.steps | length >= 5), .steps[0].name]) == [[true, true, "start of shells"]]' out
  job 3 1 true
  [ ! -s err ]
}

# bats test_tags=long
@test "a node whose prolog is slow is named as the last at the ready barrier, with the prolog" {
  write_nodes 4 1
  write_jobspec 4 true
  mkdir node{0..3}
  for each in node{0..3}; do echo 'shell.options.prolog = "true"' >"$each/rc.lua"; done
  echo 'shell.options.prolog = "sleep 3"' >node2/rc.lua
  on_hosts --timeline -o initrc=rc.lua -o initrc-check=off >said
  grep -qE 'prolog [0-9]+ \(slowest node2 [0-9]+\), ready barrier [0-9.]+ \(last: node2, its prolog took [0-9]+\), spawn' said
  on_hosts -o timeline="$work/t.json" -o initrc=rc.lua -o initrc-check=off
  is_trace
  is 'named("b"; "prolog") | length == 4'
  is 'named("s"; "ready barrier") | length == 3 and all(.pid == 3)'
  is 'named("b"; "agent node2") | length == 1'
}

# bats test_tags=long
@test "a node whose initrc is slow is named as the last at the init barrier, with the initrc" {
  write_nodes 4 1
  write_jobspec 4 true
  mkdir node{0..3}
  for each in node{0..3}; do touch "$each/rc.lua"; done
  echo 'os.execute("sleep 3")' >node1/rc.lua
  on_hosts --timeline -o initrc=rc.lua -o initrc-check=off >said
  grep -qE 'init barrier [0-9]+ \(last: node1, its initrc took [0-9]+\)' said
}

# bats test_tags=long
@test "PMI's init and finalize are in the trace, and usage as counters" {
  clients 2 init barrier finalize
  run nacre -o timeline=t.json
  passes
  is_trace
  is 'named("X"; "PMI") | length == 2'
  is 'named("C"; "memory") | length == 0'
  job 2 1 'sleep 4' --timeline=t.json --usage
  is_trace
  is 'named("C"; "memory") | map(select(.args.bytes > 0).pid) | unique == [1, 2]'
  is 'named("C"; "cpu") | length >= 2 and all(.args.cores >= 0)'
}

# bats test_tags=long
@test "PMIx's init and finalize are in the trace, too" {
  printf '#include <pmix.h>\nint main(void) { pmix_proc_t me; return PMIx_Init(&me, NULL, 0) || PMIx_Finalize(NULL, 0); }\n' >client.c
  # shellcheck disable=SC2046 # several options
  cc -o client client.c $(pkg-config --cflags --libs pmix)
  echo 'plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }' >rc.lua
  prepare 2 ./client
  for option in timeline=off timeline=t.json; do
    run_with_pmix "${nacre[@]}" --initrc=rc.lua -o pmi=pmix -o "$option"
    [ "$status" -eq 0 ]
  done
  is_trace
  is 'named("X"; "PMI") | length == 2 and all(has("args") | not)'
}

# bats test_tags=long
@test "nacre timeline: while the job runs the summary and the trace, and after its end what was kept" {
  start_job 3 1 'until [ -e go ]; do sleep 0.1; done' --timeline=t.json
  "$front" timeline "$id" >text
  grep -qE '^launch [0-9.]+ (ms|s): ' text
  run ! grep -q 'last end' text
  "$front" timeline "$id" --json >now.json
  is_trace now.json
  is 'named("X"; "run") | length == 3 and all(.args.unfinished)' now.json
  is '.otherData.over == false' now.json
  "$front" timeline "$id" -o file.json
  is_trace file.json
  touch go
  ends_with 0
  "$front" timeline "$id" >after
  grep -qE '^launch [0-9.]+ (ms|s): ' after
  grep -q 'last end' after
  "$front" timeline "$id" --json | cmp - t.json
  "$front" timeline "$id" -o again.json
  cmp again.json t.json
}

# bats test_tags=long
@test "nacre timeline of a job that has ended and kept only its summary, or nothing, names the option" {
  start_job 2 1 'until [ -e go ]; do sleep 0.1; done' --timeline
  touch go
  ends_with 0
  rm go
  "$front" timeline "$id" | grep -q '^launch '
  run "$front" timeline "$id" --json
  fails_with 1 "only its summary was kept: with --timeline=FILE"
  start_job 2 1 'until [ -e go ]; do sleep 0.1; done'
  run "$front" timeline "$id"
  fails_with 1 "the job keeps no timeline: start it with --timeline, or -o timeline"
  touch go
  ends_with 0
  run "$front" timeline "$id"
  fails_with 1 "it has kept no timeline: start it with --timeline, or -o timeline"
  run "$front" timeline "$id" -o x --json
  [ "$status" -eq 2 ]
}

# bats test_tags=long
@test "a shell that is lost is named as missing, in the summary and in the trace" {
  for option in --timeline --timeline=t.json; do
    write_nodes 3 1
    write_jobspec 3 sh -c "$r 1) until [ -e others ]; do sleep 0.1; done; kill -KILL \$PPID; sleep 100;; *) touch o.\$FLUX_TASK_RANK;
      [ -e o.0 ] && [ -e o.2 ] && touch others; until [ -e gone ]; do sleep 0.1; done;; esac"
    launch -R R.json -o cpu-affinity=off --local=3 -o tolerate-loss "$option" >out 2>err &
    launcher=$!
    wait_until grep -q lost err
    touch gone
    wait "$launcher" || :
    rm gone others o.*
  done
  is_trace
  is '.otherData.lost == [{"shell": 1, "host": "node1"}]'
  is 'named("M"; "process_labels")[] | select(.pid == 2) | .args.labels | contains("lost")'
}

# bats test_tags=long
@test "a shell that does not answer is named, and the rest is there" {
  start_job 3 1 'echo $PPID >ppid.$FLUX_TASK_RANK; until [ -e go ]; do sleep 0.1; done' --timeline
  wait_until test -s ppid.2
  kill -STOP "$(<ppid.2)"
  "$front" timeline "$id" >text
  kill -CONT "$(<ppid.2)"
  grep -q '^missing: node2, which has not answered in time' text
  touch go
  ends_with 0
  grep -q '^nacre: launch ' err
  run ! grep -q missing err
}

@test "a file that cannot be written is refused before the start, in one line" {
  job 2 1 'touch ran' --timeline=/no/such/dir/t.json
  [ "$code" -eq 1 ]
  [ "$(<err)" = "nacre launch: --timeline: /no/such/dir/t.json: No such file or directory" ]
  mkdir d
  job 2 1 'touch ran' --timeline=d
  [ "$(<err)" = "nacre launch: --timeline: d: Is a directory" ]
  job 2 1 'touch ran' -o timeline=/no/such/dir/t.json
  [ "$code" -eq 1 ]
  grep -qF 'timeline: /no/such/dir/t.json: No such file or directory' err
  [ ! -e ran ]
  run run_job --timeline=a -o timeline=b true
  [ "$status" -eq 2 ]
  [[ $output == *"--timeline=a and -o timeline=b contradict each other"* ]]
}

# bats test_tags=long
@test "a job that is ended before its tasks start has the steps so far" {
  job 2 1 true --timeline -o 'prolog=exit 3'
  [ "$code" -ne 0 ]
  grep -qE '^nacre: launch .*, not complete: start of shells .*init barrier ' err
}

# bats test_tags=long
@test "tasks that cannot be started, and many tasks, are in the trace" {
  write_nodes 2 64
  write_jobspec 128 true
  launch -R R.json -o cpu-affinity=off --local=2 --timeline=t.json
  is_trace
  is 'named("X"; "run") | length == 128 and all(.args.unfinished | not)'
  write_nodes 2 1
  write_jobspec 2 /no/such/program
  launch -R R.json -o cpu-affinity=off --local=2 --timeline=t.json 2>err || code=$?
  [ "$code" -eq 127 ]
  is_trace
  is 'named("i"; "not started") | length >= 1'
}
