#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A job over several shells: all on this host, started by nacre launch, by Hydra, or by a shell of another job.
load nodes.bash

@test "the tasks are dealt over the shells, and the job's exit code is the largest" {
  write_nodes 4 2
  write_jobspec 8 sh -c 'echo "$FLUX_TASK_RANK $FLUX_TASK_LOCAL_ID $FLUX_JOB_SIZE $FLUX_JOB_NNODES"; exit $((FLUX_TASK_RANK * 3))'
  run --separate-stderr launch --local=4 -R R.json -o cpu-affinity=off
  [ "$status" -eq 21 ]
  [ "$(sort -n <<<"$output")" = "$(for i in 0 1 2 3 4 5 6 7; do echo "$i $((i % 2)) 8 4"; done)" ]
}

@test "every shell has the leader's options" {
  write_nodes 2 2
  write_jobspec 4 sh -c 'echo "$FLUX_TASK_RANK $FLUX_TASK_LOCAL_ID"'
  run launch --local=2 -R R.json -o cpu-affinity=off -o taskmap=cyclic
  [ "$status" -eq 0 ]
  [ "$(sort -n <<<"$output")" = $'0 0\n1 0\n2 1\n3 1' ]
}

@test "without R, the cores that there are are shared out" {
  write_jobspec 2 sh -c 'echo "$FLUX_JOB_NNODES"'
  run launch --local=2
  [ "$status" -eq 0 ]
  [ "$output" = $'2\n2' ]
}

# bats test_tags=long
@test "a tree of 13 shells, two below each" {
  write_nodes 13 1
  write_jobspec 13 sh -c 'echo $FLUX_TASK_RANK'
  run launch --local=13 --arity=2 -R R.json -o cpu-affinity=off
  [ "$status" -eq 0 ]
  [ "$(sort -n <<<"$output")" = "$(seq 0 12)" ]
}

@test "only the leader writes the eventlog, each event once" {
  write_nodes 3 1
  write_jobspec 3 true
  run launch --local=3 -R R.json -o cpu-affinity=off -- --eventlog="$work/events"
  [ "$status" -eq 0 ]
  [ "$(jq -r .name events | paste -sd' ')" = "shell.init shell.start shell.task-exit shell.exit" ]
  [ "$(jq -c 'select(.name == "shell.init").context.size' events)" = 3 ]
  [ "$(jq -c 'select(.name == "shell.start").context.taskmap.map' events)" = '[[0,3,1,1]]' ]
}

@test "the first task to end is in the eventlog, whichever shell it is of, and only it" {
  write_nodes 2 2
  write_jobspec 4 sh -c '[ "$FLUX_TASK_RANK" -ne 3 ] && exec sleep 1; exit 7'
  run launch --local=2 -R R.json -o cpu-affinity=off -- --eventlog="$work/events"
  [ "$status" -eq 7 ]
  [ "$(jq -c 'select(.name == "shell.task-exit").context' events)" = \
    '{"exitcode":7,"localid":1,"rank":3,"signaled":0,"state":"Exited","wait_status":1792}' ]
}

# bats test_tags=long
@test "a file that all tasks write to has the lines of all, and nothing else" {
  write_nodes 3 2
  write_jobspec 6 sh -c 'for i in $(seq 200); do echo "$FLUX_TASK_RANK $i"; done; echo "e$FLUX_TASK_RANK" >&2'
  echo old >out.txt
  for round in 1 2; do
    run launch --local=3 -R R.json -o cpu-affinity=off -o output.stdout.type=file -o output.stdout.path=out.txt \
      -o output.stderr.type=file -o 'output.stderr.path=err.{{node.id}}' -- --record-dir="$work/record"
    [ "$status" -eq 0 ]
    [ "$(sort -n out.txt)" = "$(for r in 0 1 2 3 4 5; do seq -f "$r %g" 200; done | sort -n)" ]
    for node in 0 1 2; do [ "$(sort err.$node)" = "e$((2 * node))"$'\n'"e$((2 * node + 1))" ]; done
  done
}

@test "an R with another number of nodes is refused, by one line" {
  write_nodes 3 1
  write_jobspec 3 true
  run mpiexec.hydra -n 2 "$NACRE_SHELL" -j jobspec.json -R R.json
  [ "$status" -eq 1 ]
  [ "$(grep -c 'R.json: R has 3 nodes, and the job has 2 shells' <<<"$output")" -eq 1 ]
}

@test "a job that asks for too much is refused, by one line" {
  write_nodes 2 1
  write_jobspec 3 true
  run launch --local=2 -R R.json
  [ "$status" -eq 1 ]
  [ "$(grep -c 'jobspec asks for 3 slots of 1 core' <<<"$output")" -eq 1 ]
}

@test "a task that fails ends the tasks of all shells, with its exit code" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'case $FLUX_TASK_RANK in 1) exit 7;; *) exec sleep 987654;; esac'
  run launch --local=3 -R R.json -o cpu-affinity=off -o exit-on-error
  [ "$status" -eq 7 ]
  [[ $output == *"task 1 on node1 exited with code 7"* ]]
  nothing_left 'sleep 987654'
}

# bats test_tags=long
@test "exit-timeout counts from the first task of any shell" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'case $FLUX_TASK_RANK in 2) exit 0;; *) exec sleep 987653;; esac'
  run launch --local=3 -R R.json -o cpu-affinity=off -o exit-timeout=1s -o exit-timeout.after=exit
  [ "$status" -ne 0 ]
  [[ $output == *"exit-timeout: task 2 ended 1s ago, and these still run: 0-1"* ]]
  nothing_left 'sleep 987653'
}

@test "a shell that cannot set its tasks up ends the job for all" {
  write_nodes 3 1
  cat >initrc.lua <<'END'
if shell.info.rank == 2 then error("no room here") end
END
  write_jobspec 3 sh -c 'echo ran'
  run launch --local=3 -R R.json -o cpu-affinity=off -- --initrc="$work/initrc.lua"
  [ "$status" -eq 1 ]
  [[ $output == *"no room here"* ]]
  [[ $output != *ran* ]]
}

@test "a lost shell ends the job, and is named" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo $FLUX_TASK_RANK >>started; case $FLUX_TASK_RANK in 2) while [ "$(wc -l <started)" -lt 3 ]; do sleep 0.02; done; kill -9 $PPID;; esac; exec sleep 987652'
  run launch --local=3 -R R.json -o cpu-affinity=off
  [ "$status" -ne 0 ]
  [[ $output == *"node-failure: shell 2 on node2 is lost"* ]]
  nothing_left 'sleep 987652'
}

@test "with tolerate-loss the others run on" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo $FLUX_TASK_RANK >>started; while [ "$(wc -l <started)" -lt 3 ]; do sleep 0.02; done
    case $FLUX_TASK_RANK in 1) kill -9 $PPID; exec sleep 987651;; esac
    while ! grep -q node-failure events; do sleep 0.02; done; echo "$FLUX_TASK_RANK is done"'
  run launch --local=3 -R R.json -o cpu-affinity=off -o tolerate-loss -- --eventlog="$work/events"
  [ "$status" -eq 1 ]
  [[ $output == *"0 is done"* ]]
  [[ $output == *"2 is done"* ]]
  nothing_left 'sleep 987651'
  [ "$(jq -c 'select(.name == "exception").context | [.type, .severity]' events)" = '["node-failure",2]' ]
  [ "$(jq -c 'select(.name == "shell.exit").context.exitcode' events)" = 1 ]
}

# bats test_tags=long
@test "of a shell that is killed nothing goes on, neither its tasks nor what these have started" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'echo $PPID >shell.$FLUX_TASK_RANK; sleep "98764$FLUX_TASK_RANK" & echo $! >>started; sleep "98764$FLUX_TASK_RANK"; :'
  touch started
  launch --local=2 -R R.json -o cpu-affinity=off -o tolerate-loss -o exit-timeout=none 2>log &
  lines_come started 2
  # Each shell has one socket; the leader makes another, for front ends, a moment after the start.
  [ "$(find "$TMPDIR" -name s -type s | wc -l)" -ge 2 ]
  kill -9 "$(cat shell.1)"
  nothing_left 'sleep 987641'
  pgrep -f 'sleep 987640'
  kill -9 "$(cat shell.0)"
  nothing_left 'sleep 987640'
  wait $! || true
  no_socket() { [ -z "$(find "$TMPDIR" -name s)" ] && [ "$(find "$TMPDIR" -maxdepth 1 -name 'nacre-????????????????-*' | wc -l)" -eq 0 ]; }
  wait_until no_socket
}

# bats test_tags=long
@test "lost-after: a shell that stands still for less than that is waited for" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'echo $PPID >shell.$FLUX_TASK_RANK; while [ ! -e go ]; do sleep 0.2; done; echo done'
  launch --local=2 -R R.json -o cpu-affinity=off -o lost-after=30s >out 2>&1 &
  wait_until test -s shell.1
  kill -STOP "$(cat shell.1)"
  sleep 7
  kill -CONT "$(cat shell.1)"
  touch go
  wait $!
  [ "$(cat out)" = "done
done" ]
}

# bats test_tags=long
@test "a job whose shells all stand still, for longer than T_fence, goes on" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo $PPID >shell.$FLUX_TASK_RANK; while [ ! -e go ]; do sleep 0.2; done; echo done'
  launch --local=3 -R R.json -o cpu-affinity=off -o lost-after=2s >out 2>&1 &
  for rank in 0 1 2; do wait_until test -s shell.$rank; done
  sleep 2 # so that beats have come
  kill -STOP "$(cat shell.0)" "$(cat shell.1)" "$(cat shell.2)"
  sleep 14 # T_fence is 12
  kill -CONT "$(cat shell.1)" "$(cat shell.2)"
  sleep 1
  kill -CONT "$(cat shell.0)"
  sleep 2
  touch go
  wait $! || { cat out; return 1; }
  # The launcher's report about the leader is not the job's output.
  [ "$(grep -v '^nacre launch: shell 0 on localhost ' out)" = "done
done
done" ]
}

# bats test_tags=long
@test "a shell that is silent for too long is lost, and the line says for how long and what was before that" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'echo $PPID >shell.$FLUX_TASK_RANK; exec sleep 987642'
  launch --local=2 -R R.json -o cpu-affinity=off -o lost-after=2s >out 2>&1 &
  for rank in 0 1; do wait_until test -s shell.$rank; done
  sleep 2 # so that beats have come
  kill -STOP "$(cat shell.1)"
  local code=0
  wait $! || code=$?
  cat out
  [ "$code" -ne 0 ]
  grep -E 'nothing has come from it for [0-9.]+ s \(before that [0-9., and]+ s apart\)' out
  nothing_left 'sleep 987642'
}

@test "lost-after: what cannot be waited for is refused" {
  write_nodes 2 1
  write_jobspec 2 true
  for time in 1s 2d '"soon"'; do
    run launch --local=2 -R R.json -o cpu-affinity=off -o lost-after="$time"
    [ "$status" -eq 1 ]
    [[ $output == *"lost-after: expected "* || $output == *"lost-after: "*soon* ]]
  done
}

# No shell with that path is left, nor its guard.
no_own_shell() { ! pgrep -f "^$work/nacre-shell" >/dev/null; }

@test "without its launcher the job ends, everywhere" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo $FLUX_TASK_RANK >>started; exec sleep 987650'
  touch started
  ln -s "$NACRE_SHELL" nacre-shell
  "$NACRE_BUILD_DIR/nacre" launch --shell="$work/nacre-shell" -j jobspec.json --local=3 -R R.json -o cpu-affinity=off 2>log &
  lines_come started 3
  run ! no_own_shell
  kill -9 $!
  nothing_left 'sleep 987650'
  wait_until no_own_shell
}

# bats test_tags=long
@test "a job of one shell ends without its launcher too" {
  write_nodes 1 1
  write_jobspec 1 sh -c 'echo here >>started; exec sleep 987649'
  touch started
  "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json --local=1 -R R.json -o cpu-affinity=off 2>log &
  lines_come started 1
  kill -9 $!
  nothing_left 'sleep 987649'
}

@test "a signal to the launcher reaches all tasks" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'trap "exit 5" USR1; echo $FLUX_TASK_RANK >>started; while :; do sleep 0.02; done'
  touch started
  "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json --local=3 -R R.json -o cpu-affinity=off &
  lines_come started 3
  kill -USR1 $!
  code=0
  wait $! || code=$?
  [ "$code" -eq 5 ]
}

@test "under Hydra, each of its processes is a shell" {
  write_nodes 3 2
  write_jobspec 6 sh -c 'echo $FLUX_TASK_RANK; exit 4'
  run mpiexec.hydra -n 3 "$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off
  [ "$status" -eq 4 ]
  for rank in 0 1 2 3 4 5; do grep -qx "$rank" <<<"$output"; done
}

# bats test_tags=long
@test "under nacre itself, each task is a shell" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'echo "inner $FLUX_TASK_RANK of $FLUX_JOB_SIZE"'
  mv jobspec.json inner.json
  mv R.json innerR.json
  prepare 2 "$NACRE_SHELL" -j "$work/inner.json" -R "$work/innerR.json" -o cpu-affinity=off
  run nacre
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'inner 0 of 2\ninner 1 of 2' ]
}

@test "--exit-local: each shell exits with its own code" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'exit $((FLUX_TASK_RANK + 3))'
  cat >each <<'END'
#!/bin/sh
"$@"
echo "$PMI_RANK: $?"
END
  chmod +x each
  run --separate-stderr mpiexec.hydra -n 2 ./each "$NACRE_SHELL" --exit-local -j jobspec.json -R R.json -o cpu-affinity=off
  [ "$(sort <<<"$output")" = $'0: 3\n1: 4' ]
}

# bats test_tags=long
@test "an MPICH program over four shells" {
  mpicc.mpich -O1 -o allreduce "$NACRE_SOURCE_DIR/t/e2e/mpi/allreduce.c"
  mpicc.mpich -O1 -o alltoall "$NACRE_SOURCE_DIR/t/e2e/mpi/alltoall.c"
  write_nodes 4 4
  write_jobspec 16 "$work/allreduce"
  run launch --local=4 --arity=2 -R R.json -o cpu-affinity=off
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$output" = "allreduce ok, 16 ranks" ]
  write_jobspec 16 "$work/alltoall"
  run launch --local=4 -R R.json -o cpu-affinity=off
  [ "$output" = "alltoall ok, 16 ranks" ]
}

@test "a shell without tasks keeps nobody waiting" {
  mpicc.mpich -O1 -o allreduce "$NACRE_SOURCE_DIR/t/e2e/mpi/allreduce.c"
  write_nodes 3 2
  write_jobspec 2 "$work/allreduce"
  run launch --local=3 -R R.json -o cpu-affinity=off
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$output" = "allreduce ok, 2 ranks" ]
}

# bats test_tags=long
@test "tolerate-loss: one that is lost before the tasks start is missed by plugins too, and the others go on" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo "$FLUX_TASK_RANK"'
  cat >early.lua <<'END'
plugin.register { name = "early", handlers = {
  { topic = "shell.init", fn = function () if shell.info.rank == 1 then os.execute ("kill -KILL $PPID") end end },
  { topic = "shell.lost", fn = function (topic, args) shell.log ("lost " .. args.shell_rank .. ", " .. args.severity) end },
} }
END
  run launch --local=3 -R R.json -o cpu-affinity=off -o tolerate-loss -- --initrc=early.lua
  [ "$status" -eq 1 ]
  for line in 0 2 "nacre-shell[0]: early: lost 1, 2" "nacre-shell[2]: early: lost 1, 2"; do
    grep -qxF "$line" <<<"$output" || { echo "no '$line' in: $output"; return 1; }
  done
}

# bats test_tags=long
@test "on a terminal it shows who has not joined after a second, and takes that away" {
  write_nodes 3 1
  write_jobspec 3 sh -c 'echo here'
  printf '#!/bin/sh\nmkdir first 2>/dev/null || sleep 2.4\nexec "$NACRE_SHELL" "$@"\n' >late
  chmod +x late
  command=("$NACRE_BUILD_DIR/nacre" launch --shell="$work/late" --local=3 -j jobspec.json -R R.json -o cpu-affinity=off)
  run script -qec "$(printf '%q ' "${command[@]}")" /dev/null </dev/null
  [ "$status" -eq 0 ]
  [[ $output == *"nacre launch: 1 s: waiting for shell 1 on localhost, shell 2 on localhost"* ]]
  [[ $output == *$'\r\033[Khere'* ]]
  rmdir first
  run "${command[@]}"
  [ "$output" = "here
here
here" ]
}

@test "a warning of all shells comes once, with their ranks" {
  write_nodes 5 1
  write_jobspec 5 true
  jq '.attributes.system.cwd = "/no/such/folder"' jobspec.json >elsewhere.json && mv elsewhere.json jobspec.json
  run launch -R R.json -o cpu-affinity=off --local=5 --arity=2 -o cwd-fallback
  [ "$status" -eq 0 ]
  [[ $output == "nacre-shell[0-4]: warn: "*"/no/such/folder"*"using /tmp instead" ]]
  [ "${#lines[@]}" -eq 1 ]
}
