#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre run --rehearse: faults are made in a job on purpose.
load lib.bash

front=$NACRE_BUILD_DIR/nacre

# The times only give an order: an event waits until the tasks have reported that they run.
run_job() {
  code=0
  env -u SLURM_JOB_ID "$front" run --shell="$NACRE_SHELL" -o cpu-affinity=off "$@" >out 2>err || code=$?
}

gone() { ! pgrep -fx "$1" >/dev/null; } # COMMAND

@test "a task is killed with a signal: a line as it happens, and the report; the rules for failures act" {
  run_job -n3 --oversubscribe -o rlimit.core=0 -o exit-on-error --rehearse='kill rank 1 with SIGSEGV at 100ms' sleep 60
  [ "$code" -eq 139 ]
  grep -q 'rehearse: kill rank 1 with SIGSEGV at 0.1s' err || grep -q 'rehearse: kill rank 1 with SIGSEGV at 100ms' err
  grep -q 'rank 1 on .* killed by SIGSEGV' err
  grep -qE '^nacre: rehearsed: kill rank 1 with SIGSEGV at ' err
  "$front" report last | grep -q '^a rehearsal: kill rank 1 with SIGSEGV at 100ms$'
  "$front" report last | grep -qE '^nacre: rehearsed: kill rank 1'
  "$front" report --json last | jq -e '.end.report.timeline | any(.event == "rehearsal" and (.done | startswith("kill rank 1 with SIGSEGV")))'
}

# bats test_tags=long
@test "a node is lost with its tasks: the job ends, or goes on where that is asked for" {
  run_job --local=3 -N3 --rehearse='kill n2 at 200ms' sleep 60
  [ "$code" -ne 0 ]
  grep -q 'rehearse: kill n2 at ' err
  "$front" report --json last | jq -e '.end.exits | any(.record == "l" and .ranks == "2")' || { "$front" report --json last; cat err; return 1; }
  run_job --local=3 -N3 -o tolerate-loss --rehearse='kill n1 at 200ms' sh -c '[ $FLUX_TASK_RANK != 1 ] || exec sleep 60; while [ ! -e end ]; do sleep 0.05; [ $FLUX_TASK_RANK != 0 ] || ! grep -q "rehearse: kill n1" err || touch end; done; sleep 0.5; echo done $FLUX_TASK_RANK'
  grep -q 'rehearse: kill n1 at ' err
  [ "$(sort out | xargs)" = "done 0 done 2" ]
}

# bats test_tags=long
@test "tasks stand still for a time, and go on" {
  # Rank 1 counts; while it stands still rank 0 sees that the count does not change.
  run_job -n2 --oversubscribe --rehearse='freeze rank 1 at 2s for 3s' sh -c '
    if [ $FLUX_TASK_RANK = 1 ]; then echo $$ >pid; until [ -e seen ]; do sleep 0.05; done; exit 0; fi
    until [ -s pid ]; do sleep 0.05; done
    until [ "$(cut -d" " -f3 /proc/$(cat pid)/stat)" = T ]; do sleep 0.01; done
    until [ "$(cut -d" " -f3 /proc/$(cat pid)/stat)" != T ]; do sleep 0.01; done
    echo thawed; touch seen'
  [ "$code" -eq 0 ]
  [ "$(<out)" = thawed ]
  grep -q 'rehearse: freeze rank 1 at ' err
}

# bats test_tags=long
@test "a node stands still for a time, with its shell, and goes on" {
  run_job --local=2 -N2 --rehearse='freeze n1 at 2s for 3s' sh -c '
    if [ $FLUX_TASK_RANK = 1 ]; then echo $$ $PPID >pids.tmp; mv pids.tmp pids; until [ -e seen ]; do sleep 0.05; done; exit 0; fi
    until [ -s pids ]; do sleep 0.05; done
    read -r task shell <pids
    both() { [ "$(cut -d" " -f3 /proc/$task/stat)" = T ] && [ "$(cut -d" " -f3 /proc/$shell/stat)" = T ]; }
    until both; do sleep 0.01; done
    while both; do sleep 0.01; done
    echo thawed; touch seen'
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(<out)" = thawed ]
}

# bats test_tags=long
@test "the network between two nodes is cut for a time: what waits comes out then" {
  # The line of rank 1 is written while the cut lasts, and the leader's standard output has it no earlier than its end.
  run_job --local=2 -N2 -o lost-after=1h --rehearse='cut n0-n1 at 300ms for 8s' sh -c '
    if [ $FLUX_TASK_RANK = 0 ]; then until [ -e written ]; do sleep 0.01; done; sleep 1; cp out early; exit 0; fi
    until grep -q "rehearse: cut n0-n1" err; do sleep 0.01; done
    sleep 0.2; echo late; touch written'
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(<out)" = late ]
  [ ! -s early ]
  "$front" report last | grep -q '^a rehearsal: cut n0-n1 at 300ms for 8s$'
}

# bats test_tags=long
@test "a cut that lasts for longer than lost-after: the node is lost, and its shell ends its tasks" {
  run_job --local=2 -N2 -o lost-after=2s --rehearse='cut n1 at 300ms' sleep 613
  [ "$code" -ne 0 ]
  grep -q 'node-failure: shell 1 on .* is lost' err || { cat err; return 1; }
  wait_until gone 'sleep 613'
}

# bats test_tags=long
@test "the leader's own node: the job has vanished, and the report has the rehearsal" {
  run_job --local=2 -N2 --rehearse='kill n0 at 500ms' sleep 614
  [ "$code" -ne 0 ]
  grep -q 'rehearse: kill n0 at ' err
  "$front" report last >told
  grep -q vanished told
  grep -q '^a rehearsal: kill n0 at 500ms$' told
  wait_until gone 'sleep 614'
}

# bats test_tags=long
@test "a task that has ended before: a line says so, and nothing happens; a job that is over does not wait for events" {
  run_job -n2 --oversubscribe --rehearse='kill rank 1 with SIGCONT at 300ms; kill rank 1 with SIGCONT at 2s; kill rank 1 with SIGCONT at 20s; kill rank 0 at 1h' sh -c '[ $FLUX_TASK_RANK = 1 ] || until grep -q "has ended before" err; do sleep 0.05; done'
  [ "$code" -eq 0 ]
  grep -q 'kill rank 1 with SIGCONT at .*: rank 1 has ended before' err
}

@test "what is no rehearsal is refused, with the place and what was expected" {
  run "$front" run --rehearse='kill n1; stop n1' true
  [ "$status" -eq 2 ]
  [[ $output == *"--rehearse: at character 10: expected kill, freeze or cut, got 'stop'"* ]]
  run "$front" run --rehearse-force true
  [ "$status" -eq 2 ]
  run_job --local=2 -N2 --rehearse='kill elsewhere' true
  [ "$code" -eq 1 ]
  grep -q "kill elsewhere: 'elsewhere' is no node of the job: expected a host of it, or n0 to n1" err
  run_job -n2 --oversubscribe --rehearse='freeze rank 2' true
  grep -q 'there is no rank 2: the job has ranks 0-1' err
}

@test "under a manager it is refused, unless it is forced" {
  run env SLURM_JOB_ID=7 SLURM_JOB_NODELIST=localhost SLURM_NNODES=1 "$front" run --local=1 --shell="$NACRE_SHELL" --rehearse='kill rank 0' sleep 60
  fails_with 1 "--rehearse: this is within an allocation (SLURM_" "add --rehearse-force"
  run env SLURM_JOB_ID=7 SLURM_JOB_NODELIST=localhost SLURM_NNODES=1 "$front" run --local=1 --shell="$NACRE_SHELL" --rehearse='kill rank 0' --rehearse-force sleep 60
  [ "$status" -eq 137 ]
  # A manager has started the shell itself.
  prepare 1 sleep 60
  run env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_NODELIST=localhost SLURM_STEP_NODELIST=localhost SLURM_STEP_NUM_TASKS=1 \
    "$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off -o 'rehearse=kill rank 0'
  [ "$status" -eq 1 ]
  [[ $output == *"rehearse: a manager has started the shells"*"add rehearse-force"* ]] || { echo "$output"; return 1; }
}

@test "the shell that leads is killed, and the job goes on by the spare" {
  run_job --local=4 -N 3+1 -l --on-lost=replace --restart=on-failure --rehearse='kill n0 at 300ms' sh -c '[ $FLUX_TASK_RANK$NACRE_TASK_TRY != 02 ] || : >go; until [ -e go ]; do sleep 0.1; done; echo "done in try $NACRE_TASK_TRY"'
  [ "$code" -eq 0 ] || { cat err; return 1; }
  [ "$(sort out)" = "$(printf '%s\n' '0: done in try 2' '1: done in try 1' '2: done in try 1')" ] || { cat out err; return 1; }
  grep -q 'rehearse: kill n0 at ' err
  grep -q 'which led the job, is lost' err
}
