#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# restart=...,where=spare over hosts: a task that fails starts again on a spare, whichever shell of the tree it is
# on; the spare's host may die, or no spare has room. The tasks' output comes out once, and the report has both
# hosts.
load jobs.bash

cluster=(5 --slurm)
now=on-failure,backoff=0,where=spare

setup_file() {
  start_cluster && build_mpi_programs mpich steady && build_mpi_programs openmpi steady
}

# Writes many lines, makes the file in.RANK.TRY, and fails once there is the file fail.RANK.TRY, or ends once there is the file go.
write_program() {
  cat >program <<'END'
#!/bin/sh
cd "$(dirname "$0")" || exit
me="$FLUX_TASK_RANK $NACRE_TASK_TRY"
seq -f "line $me %g $(uname -n)" 400
touch "in.$FLUX_TASK_RANK.$NACRE_TASK_TRY"
until [ -e go ]; do
  [ ! -e "fail.$FLUX_TASK_RANK.$NACRE_TASK_TRY" ] || exit 3
  sleep 0.05
done
seq -f "last $me %g $(uname -n)" 400
END
  chmod +x program
}

# OPTION...: starts nacre run on node0 with that program, on all hosts. Its process is $job. Each shell has two
# children: node1 feeds the last hosts.
start_run() {
  rm -f in.* fail.* go said report
  write_program
  limit=150 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --oversubscribe --report="$work/report" "$@" "$work/program" >said 2>&1 &
  job=$!
}
by_ssh=(--hosts="node[0-4]" --arity=2 --timeout=100)

run_in() { # RANK TRY ...
  while (($#)); do
    wait_until test -e "in.$1.$2" || { cat said; return 1; }
    shift 2
  done
  wait_until listed node0
}

has_said() { wait_until grep -qF -- "$1" said || { grep -v '^line' said; return 1; }; }

places() { nacre node0 ps --json | jq -r 'select(.rank != null) | "\(.rank):\(.host):\(.try)"' | sort | paste -sd' '; }

# RANK:HOST:TRY...: each task runs on its host, in its try.
they_are() { [ "$(places)" = "$*" ] || { places; cat said; return 1; }; }

# RANK:TRY:HOST[:failed]...: these starts have written all their lines once, and no other start has any; those that
# have not failed have also written their last lines.
wrote() {
  local each rank try host failed
  for each; do
    IFS=: read -r rank try host failed <<<"$each"
    seq -f "line $rank $try %g $host" 400
    [[ -n $failed ]] || seq -f "last $rank $try %g $host" 400
  done | sort >wanted
  grep -E '^(line|last) ' said | sort | diff wanted - >differs || { head -n 20 differs; grep -vE '^(line|last) ' said; return 1; }
}

moved() { jq -c '[.timeline[] | select(.event == "moved") | [.ranks, .from, .host, .try]]' report; }
classes() { jq -c '[.exit.code, [.classes[] | [.record, .ranks]]]' report; }

# FAILING, then WAY...: the task of this rank, on the host of that number, fails once, and comes to node3.
one_moves() {
  local failing=$1 rank wanted=() lines=()
  shift
  start_run -N 3+2 --restart=$now "$@"
  run_in 0 1 1 1 2 1
  touch "fail.$failing.1"
  run_in "$failing" 2
  for rank in 0 1 2; do
    if ((rank == failing)); then
      wanted+=("$rank:node3:2")
      lines+=("$rank:1:node$rank:failed" "$rank:2:node3")
    else
      wanted+=("$rank:node$rank:1")
      lines+=("$rank:1:node$rank")
    fi
  done
  they_are "${wanted[@]}"
  touch go
  ends_with 0
  has_said "restart: rank $failing on node$failing exited with code 3: try 2 of it starts now (restart 1 of 3)"
  has_said "restart: rank $failing on node$failing starts again on the spare shell 3 on node3"
  wrote "${lines[@]}"
  [ "$(moved)" = "[[\"$failing\",$failing,\"node3\",2]]" ] || { jq .timeline report; return 1; }
  [ "$(classes)" = '[0,[["x0","0-2"]]]' ] || { jq . report; return 1; }
  nothing_left
}

@test "over ssh: a task of the leader, of a shell that has others below it, of a leaf" {
  local failing
  for failing in 0 1 2; do one_moves "$failing" "${by_ssh[@]}"; done
}

@test "by srun: a task of the leader, and of another shell" {
  local failing
  for failing in 0 2; do one_moves "$failing" --srun; done
}

@test "over ssh, and by srun: scope=node; then no spare is left, and last no restart: the code and the report have the last host" {
  local way
  for way in ssh srun; do
    [ $way = srun ] || set -- "${by_ssh[@]}"
    [ $way = ssh ] || set -- --srun
    start_run -N 4+1 --tasks-per-node=2 --restart=$now,max=2,scope=node "$@"
    run_in 0 1 1 1 2 1 3 1 4 1 5 1 6 1 7 1
    touch fail.3.1
    run_in 2 2 3 2
    they_are 0:node0:1 1:node0:1 2:node4:2 3:node4:2 4:node2:1 5:node2:1 6:node3:1 7:node3:1
    touch fail.2.2
    run_in 2 3 3 3
    they_are 0:node0:1 1:node0:1 2:node4:3 3:node4:3 4:node2:1 5:node2:1 6:node3:1 7:node3:1
    touch fail.3.3
    has_said "restart: rank 3 on node4 exited with code 3, and is not started again: the job has used 2 of 2 restarts"
    touch go
    ends_with 3
    has_said "restart: rank 3 on node1 exited with code 3: all tasks of shell 1 (rank 2-3) start again now (restart 1 of 2)"
    has_said "restart: rank 2-3 on node1 start again on the spare shell 4 on node4"
    has_said "restart: rank 2-3 on node4 start again where it was: there is no spare left"
    wrote 0:1:node0 1:1:node0 {2,3}:1:node1:failed {2,3}:2:node4:failed 2:3:node4 3:3:node4:failed {4,5}:1:node2 {6,7}:1:node3
    [ "$(moved)" = '[["2-3",1,"node4",2]]' ] || { jq .timeline report; return 1; }
    [ "$(jq -c '[.exit.code, [.classes[] | select(.record == "x3").ranks]]' report)" = '[3,["3"]]' ] || { jq . report; return 1; }
    [ "$(jq -c '[.timeline[] | select(.event == "restart") | [.ended, .host]]' report)" = '[["3","node1"],["2","node4"]]' ] || { jq .timeline report; return 1; }
    nothing_left
  done
}

@test "over ssh: the spare's host dies before a task fails, and while it waits to start again: it starts where it was" {
  start_run -N 3+1 --hosts="node[0-3]" --timeout=100 -o lost-after=2s --restart=on-failure,backoff=6s:6s,where=spare
  run_in 0 1 1 1 2 1
  touch fail.2.1
  has_said "rank 2 on node2 exited with code 3: try 2 of it starts in 6s (restart 1 of 3)"
  "$vcluster" kill node3 --power
  run_in 2 2
  has_said "shell 3 on node3, a spare, is lost"
  has_said "restart: rank 2 on node2 starts again where it was: there is no spare left"
  touch fail.0.1
  run_in 0 2
  they_are 0:node0:2 1:node1:1 2:node2:2
  touch go
  ends_with 0
  wrote 0:1:node0:failed 0:2:node0 1:1:node1 2:1:node2:failed 2:2:node2
  [ "$(moved)" = '[]' ]
  [ "$(classes)" = '[0,[["x0","0-2"]]]' ] || { jq . report; return 1; }
  "$vcluster" boot node3
}

@test "over ssh, and by srun: the spare's shell is killed as it takes the task over; the next one starts it, or the job ends with a line" {
  local way code
  cat >rc.lua <<'END'
plugin.register { name = "dies", handlers = { { topic = "shell.take-over", fn = function ()
  if shell.info.rank == 3 then os.execute ("kill -KILL $PPID; sleep 10") end
end } } }
END
  for way in ssh srun; do
    [ $way = srun ] || set -- "${by_ssh[@]}"
    [ $way = ssh ] || set -- --srun
    start_run -N 3+2 --on-lost=replace --restart=$now --initrc="$work/rc.lua" "$@"
    run_in 0 1 1 1 2 1
    touch fail.1.1
    run_in 1 3
    they_are 0:node0:1 1:node4:3 2:node2:1
    touch go
    ends_with 0
    has_said "restart: rank 1 on node1 starts again on the spare shell 3 on node3"
    has_said "shell 3 on node3 is lost: it has ended, or cannot be reached; its task 1 starts again on the spare shell 4 on node4"
    wrote 0:1:node0 1:1:node1:failed 1:3:node4 2:1:node2
    [ "$(moved)" = '[["1",1,"node3",2],["1",3,"node4",3]]' ] || { jq .timeline report; return 1; }
    nothing_left
  done
  start_run -N 3+1 --hosts="node[0-3]" --timeout=100 --on-lost=replace --restart=$now --initrc="$work/rc.lua"
  run_in 0 1 1 1 2 1
  touch fail.1.1
  code=0
  wait "$job" || code=$?
  [ "$code" -ne 0 ]
  [ "$code" -ne 124 ]
  has_said "shell 3 on node3 is lost: it has ended, or cannot be reached; with it task 1, which is not started again: there is no spare left"
  [ "$(jq -c '[.classes[] | select(.record == "l").ranks]' report)" = '["1"]' ] || { jq . report; return 1; }
  nothing_left
}

# bats test_tags=long
@test "over ssh: the spare's host loses its power while the task runs there; the shell that it has left is no place for it" {
  start_run -N 3+1 --hosts="node[0-3]" --timeout=100 -o lost-after=2s --on-lost=replace --restart=$now
  run_in 0 1 1 1 2 1
  touch fail.2.1
  run_in 2 2
  "$vcluster" kill node3 --power
  has_said "shell 3 on node3 is lost: it has ended, or cannot be reached; with it task 2, which is not started again: there is no spare left"
  code=0
  wait "$job" || code=$?
  [ "$code" -ne 0 ]
  [ "$code" -ne 124 ]
  "$vcluster" boot node3
}

# bats test_tags=long
@test "over ssh: the host that a task has left loses its power, which the job does not need" {
  start_run -N 3+1 --hosts="node[0-3]" --timeout=100 -o lost-after=2s --restart=$now
  run_in 0 1 1 1 2 1
  touch fail.1.1
  run_in 1 2
  "$vcluster" kill node1 --power
  has_said "shell 1 on node1 is lost"
  they_are 0:node0:1 1:node3:2 2:node2:1
  touch go
  ends_with 0
  wrote 0:1:node0 1:1:node1:failed 1:2:node3 2:1:node2
  "$vcluster" boot node1
}

# LIBRARY WAY...: a rank of a program of MPI is killed on node1; all start again, those of node1 on node2.
all_ranks_start_again() {
  local library=$1 rank
  shift
  rm -f in.* go said report
  limit=200 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N 2+1 -n 4 --oversubscribe --report="$work/report" --restart=on-failure,backoff=200ms,where=spare "$@" \
    sh -c 'cd $0 && LD_PRELOAD=$1/ucx_leave.so OMPI_MCA_mpi_yield_when_idle=1 exec $1/steady.$2' "$work" "$programs" "$library" >said 2>&1 &
  job=$!
  run_in 0 1 1 1 2 1 3 1
  "$vcluster" exec node1 kill -KILL "$(nacre node0 ps --json | jq 'select(.rank == 2).pid')"
  run_in 0 2 1 2 2 2 3 2
  they_are 0:node0:2 1:node0:2 2:node2:2 3:node2:2
  touch go
  ends_with 0
  has_said ": all tasks of the job start again in 200ms, those of shell 1 on the spare shell 2 on node2 (restart 1 of 3)"
  [ "$(grep -c 'done in try 2' said)" -eq 4 ] || { cat said; return 1; }
  [ "$(moved)" = '[["2-3",1,"node2",2]]' ] || { jq .timeline report; return 1; }
  [ "$(classes)" = '[0,[["x0","0-3"]]]' ] || { jq . report; return 1; }
  nothing_left
}

@test "MPICH over ssh, and by srun: a rank is killed, and all start again, those of its host on the spare" {
  all_ranks_start_again mpich --hosts="node[0-2]" --timeout=100
  all_ranks_start_again mpich --srun
}

# bats test_tags=long
@test "Open MPI over ssh, and by srun: a rank is killed, and all start again, those of its host on the spare" {
  all_ranks_start_again openmpi --hosts="node[0-2]" --timeout=100 -o pmi=pmix
  all_ranks_start_again openmpi --srun -o pmi=pmix
}
