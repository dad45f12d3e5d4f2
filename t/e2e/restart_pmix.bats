#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# restart, and on-lost=replace beside it, where tasks use PMIx: all tasks of the job start again together, in a new
# namespace; programs of Open MPI, and clients of t/e2e/pmix/.
load replace.bash
load pmix.bash

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_MCA_mpi_yield_when_idle=1
# The sanitizers of GCC 12 take the data of some threads for descriptions of others, and read at wrong addresses.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}malloc_context_size=2:intercept_tls_get_addr=0
export LSAN_OPTIONS=suppressions=$NACRE_SOURCE_DIR/t/e2e/pmix/lsan.supp:print_suppressions=0

setup_file() {
  export programs=$BATS_FILE_TMPDIR
  build_clients across calls stay ends spawns regroups || return
  local name
  for name in steady abort allreduce; do
    mpicc.openmpi -Wall -Wextra -O1 -o "$programs/$name" "$BATS_TEST_DIRNAME/mpi/$name.c" || return
  done
}

now=on-failure,backoff=0s
# What each task does first: notes its shell, and itself.
note='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; echo $$ >"self.$$"; mv "self.$$" "task.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; '

# Starts a job of Open MPI's programs in which the ranks up to $1 go on until there is the file go.
start_steady() { # LAST, options
  rm -f shell.* task.* in.* go
  on_lost=${on_lost:-end} start_run -o pmi=pmix "${@:2}" sh -c "$note exec '$programs/steady'"
  all_in "$1" 1
}

# The ranks up to $1 have come to their end in try $2, and none in another try.
done_in() { # LAST TRY
  [ "$(grep -c "done in try $2" out)" -eq $(($1 + 1)) ] || { cat out err; return 1; }
  [ "$(grep -c 'done in' out)" -eq $(($1 + 1)) ]
}

moved() { jq -c '[.timeline[] | select(.event == "moved") | [.ranks, .from, .to]]' report; }
ended() { jq -c '[.exit.code, [.classes[] | [.record, .ranks]]]' report; }

# Starts a job of clients on $1 nodes, of which the last $2 are spares, with a task of the sh script $4 for each of
# $3 cores.
start_clients() { # NODES SPARES CORES SCRIPT, options
  rm -f shell.* task.* in.* out.* go out err
  write_nodes "$1" "$3"
  environment="${usual_environment%\}}, \"programs\": \"$programs\"}" write_jobspec $((($1 - $2) * $3)) sh -c "$note$4"
  "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off -o pmi=pmix --local="$1" --spares="$2" "${@:5}" >out 2>err &
  launcher=$!
}

@test "Open MPI: a rank is killed in the middle of MPI_Allreduce, on one shell and on several; all start again, twice" {
  local shells
  for shells in 1 3; do
    start_steady 2 -n 3 --local=$shells --report=report --restart=$now
    kill -KILL "$(<task.1.1)"
    all_in 2 2
    kill -SEGV "$(<task.0.2)"
    all_in 2 3
    touch go
    ends_with 0
    done_in 2 3
    [ "$(ended)" = '[0,[["x0","0-2"]]]' ] || { jq . report; return 1; }
    # Other tasks find their connections to rank 1 closed; their ends may be known first.
    grep -Eq "rank (1.* killed by SIGKILL|[02].* killed by SIGPIPE): all tasks of the job start again now \(restart 1 of 3\)" err || { cat err; return 1; }
    grep -Eq "rank (0.* killed by SIGSEGV|[12].* killed by SIGPIPE): all tasks of the job start again now \(restart 2 of 3\)" err || { cat err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "Open MPI: MPI_Abort is the failure of the rank that calls it; when there is no restart left it ends the job as ever" {
  local shells code
  for shells in 1 3; do
    # shellcheck disable=SC2016 # for the tasks
    run run_ --local=$shells -n 3 -o pmi=pmix --restart=$now sh -c '[ $NACRE_TASK_TRY -gt 1 ] || exec $programs/abort 1 5; exec $programs/allreduce'
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [[ $output == *"allreduce ok, 3 ranks"* ]] || { echo "$output"; return 1; }
    [[ $output == *"rank 1"*"exited with code 5: all tasks of the job start again now (restart 1 of 3)"* ]] || { echo "$output"; return 1; }
    [[ $output != *PMIx_Abort* ]] || { echo "$output"; return 1; }
    run run_ --local=$shells -n 3 -o pmi=pmix --restart=$now,max=1 "$programs/abort" 1 5
    [ "$status" -eq 5 ] || { echo "$output"; return 1; }
    [[ $output == *"the job has used 1 of 1 restarts"* ]] || { echo "$output"; return 1; }
    [[ $output == *"rank 1 "*"called PMIx_Abort with code 5"* ]] || { echo "$output"; return 1; }
  done
}

@test "clients that fail at all points of their lives, so often as restarts are left; no start sees another's data" {
  local how
  for how in before-init in-init in-fence before-fence; do
    # shellcheck disable=SC2016 # for the tasks
    script='[ $NACRE_TASK_TRY -gt 5 ] || exec '"$programs/ends kill-$how 1; exec $programs/calls exchange"
    run run_ --local=2 -n 4 -o pmi=pmix --restart=$now,max=5,scope=job sh -c "$script"
    [ "$status" -eq 0 ] || { echo "$how: $output"; return 1; }
    [ "$(grep -c ': sum 14' <<<"$output")" -eq 4 ] || { echo "$how: $output"; return 1; }
    [[ $output == *"(restart 5 of 5)"* ]] || { echo "$how: $output"; return 1; }
  done
}

@test "names that were published before are gone, and all ends as it began" {
  # shellcheck disable=SC2016 # for the tasks
  run run_ --local=2 -n 4 -o pmi=pmix --restart=$now,scope=job sh -c '$programs/calls names && [ $NACRE_TASK_TRY -gt 1 ] || exit 3'
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  for line in "again: ERR_DUPLICATE_KEY" "mine: secret from 0" "once: cake from 0" "rank 3: waited: tcp:1 from 0"; do
    [ "$(grep -cx "$line" <<<"$output")" -eq 2 ] || { echo "$line: $output"; return 1; }
  done
}

@test "tasks that are no clients start again alone, beside a PMIx server" {
  # shellcheck disable=SC2016 # for the tasks
  run run_ --local=2 -n 4 -l -o pmi=pmix --restart=$now sh -c '[ $FLUX_TASK_RANK$NACRE_TASK_TRY != 21 ] || kill -9 $$; echo "try $NACRE_TASK_TRY"'
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(grep -c 'try 1' <<<"$output")" -eq 3 ] || { echo "$output"; return 1; }
  grep -qx "2: try 2" <<<"$output" || { echo "$output"; return 1; }
}

@test "Open MPI: nacre restart, of one rank and of all" {
  start_steady 2 -n 3 --local=3 --restart=on-request
  "$front" restart --quiet --ranks=1 "$id"
  all_in 2 2
  "$front" restart --quiet "$id"
  all_in 2 3
  touch go
  ends_with 0
  done_in 2 3
}

@test "Open MPI: a shell is killed, and all ranks start again, its own on the spare; then that one, and another" {
  on_lost=replace start_steady 5 -N 3+3 -n 6 --local=6 --report=report --restart=$now
  lose 2 1
  all_in 5 2
  [ "$(shells_of 0 1 2 3 4 5)" = "0:0:2 1:0:2 2:3:2 3:3:2 4:2:2 5:2:2" ] || { shells_of 0 1 2 3 4 5; return 1; }
  lose 2 2
  all_in 5 3
  lose 5 3
  all_in 5 4
  touch go
  ends_with 0
  done_in 5 4
  [ "$(moved)" = '[["2-3",1,3],["2-3",3,4],["4-5",2,5]]' ] || { jq .timeline report; return 1; }
  [ "$(ended)" = '[0,[["x0","0-5"]]]' ] || { jq . report; return 1; }
  grep -q "shell 1 .* is lost: .*; its task 2-3 starts again on the spare shell 3.*, and with it all tasks of the job now (restart 1 of 3)" err || { cat err; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "Open MPI: two shells are lost while all wait to start again; where=any; a shell that is lost as a rank fails" {
  lose_another_as_all_wait
  done_in 3 3
  on_lost=replace start_steady 2 -N 3 -n 3 --local=3 --oversubscribe --report=report --restart=$now,where=any
  lose 2 1
  all_in 2 2
  touch go
  ends_with 0
  done_in 2 2
  [ "$(moved)" = '[["2",2,1]]' ] || { jq .timeline report; return 1; }
  local round
  for round in 1 2 3; do
    on_lost=replace start_steady 2 -N 3+1 -n 3 --local=4 --restart=$now
    kill -KILL "$(<task.2.1)" "$(<shell.1.1)"
    wait_until all_in_one_try || { cat err; return 1; }
    touch go
    ends_with 0
    [ "$(grep -c 'done in' out)" -eq 3 ] || { cat out err; return 1; }
  done
}

# All three ranks have come to their loops in the present try, whose number depends on the order of events.
all_in_one_try() {
  local try
  try=$("$front" ps --json | jq 'select(.rank != null).try' | sort -u)
  [ -e "in.0.$try" ] && [ -e "in.1.$try" ] && [ -e "in.2.$try" ]
}

@test "a fence does not come to its end without the lost; the map has the spare in place of the lost node" {
  # shellcheck disable=SC2016 # for the tasks
  start_clients 4 1 2 '[ $NACRE_TASK_TRY = 1 ] || exec $programs/across places modex; case $FLUX_TASK_RANK in 2 | 3) exec $programs/stay ;; esac; exec $programs/calls exchange' --on-lost=replace --restart=$now
  await_try 1 0 1 2 3 4 5
  for rank in 2 3; do wait_until test -e "in.$rank" || { cat out err; return 1; }; done
  lose 2 1
  ends_with 0
  ! grep -q sum out || { cat out; return 1; }
  grep '^rank . on' out | sort >places
  for rank in 0 1 2 3 4 5; do
    local at=0 node=0
    ((rank < 4)) || node=1 at=4
    ((rank < 2 || rank > 3)) || node=2 at=2
    echo "rank $rank on $node: 0@node0/0 1@node0/1 2@node3/0 3@node3/1 4@node2/0 5@node2/1; peers $at,$((at + 1)), the last one's 4,5 of 2, nodes node0,node2,node3, 3 of them, universe 6"
  done >wanted
  diff wanted places || { cat err; return 1; }
  grep -qx "rank 0: 102" out
  grep -qx "rank 4: 100" out
}

@test "process groups that there are, or that wait for a member, when all start again: then those of their names have the new tasks" {
  local how
  for how in amid after destruct; do
    rm -f waits.*
    # shellcheck disable=SC2016 # for the tasks
    start_clients 2 0 2 'exec $programs/regroups '"$how $work" --restart=$now,scope=job
    wait_until 60 test -e shell.3.3 || { cat out err; return 1; }
    ends_with 0
    [ "$(sort out)" = "$(for rank in 0 1 2 3; do echo "rank $rank: construct: SUCCESS"; echo "rank $rank: destruct: SUCCESS"; done)" ] || { cat out err; return 1; }
  done
}

@test "what nothing can start again: without restart, else=go-on; a task that has ended; fault-tolerance; spawned processes" {
  # shellcheck disable=SC2016 # for the tasks
  start_clients 3 1 1 'exec $programs/stay' --on-lost=replace,else=go-on
  for rank in 0 1; do wait_until test -e "in.$rank" || { cat out err; return 1; }; done
  lose 1 1
  wait_until grep -qF "with it task 1, which is not started again: the tasks' PMIx server (pmi=pmix) does not take a rank that starts again elsewhere, but all of them (restart=on-failure)" err
  touch go
  ends_with 1
  [ -e out.0 ] # the task's fence has not waited
  # shellcheck disable=SC2016 # for the tasks
  start_clients 3 1 1 '[ $FLUX_TASK_RANK = 0 ] || exec $programs/stay; exec true' --on-lost=replace --restart=$now
  wait_until test -e in.1
  wait_until one_runs
  lose 1 1
  wait_until grep -q "with it task 1, which is not started again: all tasks would have to start again, and task 0 has ended for good" err || { cat err; return 1; }
  ends_with 1
  # shellcheck disable=SC2016 # for the tasks
  start_clients 2 0 1 'exec $programs/ends kill-in-fence 1' -o fault-tolerance --restart=$now
  ends_with 137
  grep -q "rank 1.*is not started again: tasks have called PMIx_Init, and go on without it (fault-tolerance)" err || { cat err; return 1; }
  run run_ -n 1 -o pmi=pmix --restart=$now sh -c "$programs/calls spawn && exit 3"
  [ "$status" -eq 3 ] || { echo "$output"; return 1; }
  [[ $output == *"not started again: processes that tasks have spawned by PMIx do not start again"* ]] || { echo "$output"; return 1; }
}

@test "after a restart of all tasks spawn over nodes, in namespaces of that start; then nothing starts again, nor is a shell replaced" {
  local how
  for how in connect exchange; do
    # shellcheck disable=SC2016 # for the tasks
    start_clients 3 1 1 "[ \$NACRE_TASK_TRY = 2 ] || exec \$programs/ends kill-in-fence 1; exec \$programs/spawns 1 '' 3 $how" --restart=$now
    ends_with 0
    sort out >said
    if [ $how = connect ]; then
      printf '%s\n' "child 0: 100 of 2 others" "child 1: 101 of 2 others" "child 2: 100 of 2 others" "task 0: 200 of 3 others" "task 1: 201 of 3 others"
    else
      printf 'child %s\n' "0: 6101" "1: 6102" "2: 6100"
    fi >wanted
    diff wanted said || { cat err; return 1; }
  done
  # shellcheck disable=SC2016 # for the tasks
  start_clients 2 0 1 '$programs/spawns 1 "" 3 run env; [ $FLUX_TASK_RANK = 0 ] || exit 3' --restart=$now
  ends_with 3
  [ "$(grep -c "^PMIX_NAMESPACE=nacre-.*-spawn-1$" out)" -eq 3 ] || { cat out err; return 1; }
  grep -q "rank 1.*not started again: processes that tasks have spawned by PMIx do not start again" err || { cat err; return 1; }
  # shellcheck disable=SC2016 # for the tasks
  start_clients 3 1 1 'exec $programs/spawns 0 node0 1 wait in' --on-lost=replace --restart=$now
  wait_until test -e in.0 -a -e shell.1.1 || { cat out err; return 1; }
  lose 1 1
  wait_until grep -q "with it task 1, which is not started again: processes that tasks have spawned by PMIx do not start again" err || { cat err; return 1; }
  ends_with 1
}

one_runs() { [ "$("$front" ps --json | jq -c 'select(.rank != null)' | wc -l)" -eq 1 ]; }
