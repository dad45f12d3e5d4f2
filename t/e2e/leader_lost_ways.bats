#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The shell that leads the job is lost, and another one leads: by each way of tasks to their ranks (PMI-1, PMI-2, PMIx), and with
# what the launcher brings: input, a terminal.
load replace.bash
load detached.bash
load pmix.bash

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_MCA_mpi_yield_when_idle=1
setup_file() {
  build_ways
  mpicc.openmpi -Wall -Wextra -O1 -o "$BATS_FILE_TMPDIR/steady" "$BATS_TEST_DIRNAME/mpi/steady.c"
}

# What each task does first.
note='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}"; '

# By the way $1 a job on three shells with $2 spares, and a task on each.
start_way() { # WAY SPARES, options
  local pmi=simple,pmi2
  [ "$1" != PMIx ] || pmi=pmix
  rm -f shell.* in.* go
  start_run -o on-leader-lost=take-over -N 3+"$2" -n 3 --local=$((3 + $2)) -o pmi=$pmi "${@:3}" sh -c "$note exec '$BATS_FILE_TMPDIR/$1' go 0"
  all_in 2 1
}

@test "all start again with the ranks of a lost leader, and of the next one; they meet in a barrier" {
  local way
  for way in "${ways[@]}"; do
    start_way "$way" 2 --restart=on-failure,scope=job,backoff=0s
    lose 0 1
    all_in 2 2
    lose 1 2
    all_in 2 3
    touch go
    ends_with 0 || { echo "$way"; return 1; }
    [ "$(sort out)" = "$(printf '%s went on\n' "0: 0" "1: 1" "2: 2")" ] || { echo "$way"; cat out err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "a job that goes on without the leader's ranks: the others' barrier opens" {
  local way
  for way in "${ways[@]}"; do
    on_lost=go-on start_way "$way" 0
    lose 0 1
    wait_until grep -q "leads it now" err
    touch go
    ends_with 1 || { echo "$way"; return 1; } # 1 is the code of the lost task
    [ "$(sort out)" = "$(printf '%s went on\n' "1: 1" "2: 2")" ] || { echo "$way"; cat out err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "Open MPI: the leader is lost in MPI_Allreduce, and the next one; all start again" {
  rm -f shell.* in.* go
  start_run -N 3+2 -n 3 --local=5 -o pmi=pmix --restart=on-failure,backoff=0s sh -c "$note exec '$BATS_FILE_TMPDIR/steady'"
  all_in 2 1
  lose 0 1
  all_in 2 2
  lose 1 2
  all_in 2 3
  touch go
  ends_with 0
  [ "$(grep -c 'done in try 3' out)" -eq 3 ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
}

# ---- input ----------------------------------------------------------------------------------------------------------

# A job of $1 tasks on $2 shells, of the sh script $3, whose input is the file $4.
start_reading() {
  rm -f out err shell.* go
  run_ -l --on-lost=go-on -o on-leader-lost=take-over -n "$1" --local="$2" sh -c "$note$3" <"$4" >out 2>err {to}>&- &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
}

@test "input: what is typed before and after the loss of the leader comes once to each task, and so does its end" {
  local tasks rank
  for tasks in 4 8; do
    rm -f in
    mkfifo in
    exec {to}<>in
    start_reading "$tasks" 4 'while read -r line; do echo "got $line"; done; echo over' in
    echo one >&"$to"
    for ((rank = 0; rank < tasks; ++rank)); do wait_until grep -q "^$rank: got one" out; done
    lose 0 1
    echo two >&"$to"
    wait_until grep -q "^3: got two" out
    echo three >&"$to"
    wait_until grep -q "^3: got three" out
    exec {to}>&-
    ends_with 1 # 1 is the code of the lost tasks
    for ((rank = tasks / 4; rank < tasks; ++rank)); do
      [ "$(grep "^$rank: " out | paste -sd,)" = "$rank: got one,$rank: got two,$rank: got three,$rank: over" ] || { cat out err; return 1; }
    done
    nothing_left "^nacre-shell: $id"
  done
}

@test "input: each byte of a large file comes once, though two leaders are lost while tasks read it" {
  local sum
  head -c 30000000 /dev/urandom >large
  sum=$(cksum <large)
  exec {to}</dev/null
  # Some tasks read at once, one reads later.

  start_reading 6 6 '[ $FLUX_TASK_RANK != 4 ] || until [ -e go ]; do sleep 0.1; done
    head -c 9000000 >part.$FLUX_TASK_RANK; : >half.$FLUX_TASK_RANK; sleep 0.3; cat part.$FLUX_TASK_RANK - | cksum' large
  wait_until test -e half.1 -a -e half.5
  lose 0 1
  sleep 0.1
  lose 1 1
  touch go
  ends_with 1 # 1 is the code of the lost tasks
  [ "$(sed -n 's/^[2-5]: //p' out)" = "$(printf '%s\n' "$sum" "$sum" "$sum" "$sum")" ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "input: it ends where nobody can bring it" {
  # The launcher cannot follow a new leader: only the shells have the option.
  write_nodes 4 1
  write_jobspec 4 sh -c "${note}"'cat; echo over'
  mkfifo in
  exec {to}<>in
  "$front" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json --local=4 -o cpu-affinity=off -o on-lost=go-on -o on-leader-lost=take-over -o on-launcher-lost=go-on \
    <in >out 2>err {to}>&- &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  await_try 1 0 1 2 3
  lose 0 1
  wait_until is_over
  exec {to}>&-
  nothing_left "^nacre-shell: $id"
}

# ---- reports --------------------------------------------------------------------------------------------------------

# Some tasks end before the leader is lost, one of its own among them, and the others after that.
write_first_and_last() {
  cat >task <<'END'
#!/bin/sh
echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.1"
case $FLUX_TASK_RANK in 0 | 2) exit 0 ;; 4) exit 4 ;; esac
until [ -e go ]; do sleep 0.1; done
exit $FLUX_TASK_RANK
END
  chmod +x task
}

# Checks the reports of such a job of eight tasks on four shells, in the files r, u, j, n, p and t. Its launcher's
# messages are in err.
has_all_reports() {
  [ "$(jq -c '.exit.code, [.classes[] | [.record, .ranks]]' r | paste -sd' ')" = '7 [["l","0-1"],["x0","2"],["x3","3"],["x4","4"],["x5","5"],["x6","6"],["x7","7"]]' ] || { cat r; return 1; }
  # The lost shell's own rows are lost with it; all others are there once.
  [ "$(jq -r 'select(.type == "task") | .rank' u | paste -sd,)" = "2,3,4,5,6,7" ] || { cat u; return 1; }
  [ "$(jq -c 'select(.type == "summary") | .missing' u)" = '"0-1"' ] || { cat u; return 1; }
  # The joblog has the rows from before and after the loss, with one head.
  [ "$(cut -f1 j | head -n 1),$(grep -c Starttime j)" = Seq,1 ] || { cat j; return 1; }
  [ "$(tail -n +2 j | cut -f1 | sort -n | paste -sd,)" = "1,3,4,5,6,7,8" ] || { cat j; return 1; }
  grep -q '<svg' p
  # The shells have told the next leader of all their tasks.
  [ "$(jq "[.traceEvents[] | select(.name == \"run\")] | length" t)" = 6 ] || { cat t; return 1; }
  # The notices of the next leader begin with all records.
  [ "$(jq -c 'select(.base == 1) | .base' n | head -n 1)" = 1 ] || { cat n; return 1; }
  [ "$(tail -n 1 n | jq -c '[.end, .code]')" = "[1,7]" ] || { cat n; return 1; }
}

@test "reports, usage, the log of tasks, notices and timeline have what came before and after, here and by an agent" {
  local way
  write_first_and_last
  for way in local agent; do
    rm -f shell.* go r u j n p t
    places_of "$way"
    [ "$way" != local ] || places=(--local=4)
    [ "$way" != agent ] || places=("--hosts=nowhere1,nowhere2,nowhere3,nowhere4" --agent="$PWD/agent")
    run_ "${places[@]}" -n 8 --on-lost=go-on -o on-leader-lost=take-over -o exit-timeout=none -o cpu-affinity=off --report=r --usage=u --joblog=j --usage-plot=p --notify=n --timeline=t ./task >out 2>err &
    launcher=$!
    wait_until listed
    id=$("$front" jobs -q)
    await_try 1 0 1 2 3 4 5 6 7
    wait_until grep -q . j
    wait_until lines_come j 4
    wait_until grep -q '"seq":1' n
    lose 1 1
    wait_until grep -q "leads it now" err
    touch go
    ends_with 7
    has_all_reports || { echo "$way"; cat err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "the summary of --usage comes to the terminal of nacre run" {
  write_first_and_last
  run_ --local=4 -n 8 --on-lost=go-on -o on-leader-lost=take-over -o exit-timeout=none --usage ./task >out 2>err &
  launcher=$!
  await_try 1 0 1 2 3 4 5 6 7
  lose 1 1
  wait_until grep -q "leads it now" err
  touch go
  ends_with 7
  grep -q "^nacre: usage" err || grep -q "^nacre: .*wall" err || { cat err; return 1; }
}

@test "a file that the next leader cannot make is a warning, and the job goes on" {
  write_first_and_last
  mkdir there
  run_ --local=4 -n 8 --on-lost=go-on -o on-leader-lost=take-over -o exit-timeout=none -o report=there/r -o usage=there/u -o exit-notify=there/n ./task >out 2>err &
  launcher=$!
  wait_until listed
  await_try 1 0 1 2 3 4 5 6 7
  rm -r there
  lose 1 1
  wait_until grep -q "leads it now" err
  touch go
  ends_with 7
  for each in report usage exit-notify; do grep -q "nacre-shell\[[1-3]\]: warn: .*$each: .*there/" err || { cat err; return 1; }; done
}

has_end_notice() { [ "$(tail -n 1 n | jq -r .end)" = 1 ]; }

@test "a leader that stood still until the job had ended under the next one leaves its reports and output, and ends" {
  local -A before
  printf '%s\n' '#!/bin/sh' 'echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.1"; i=0
until [ -e go ]; do i=$((i + 1)); echo "$FLUX_TASK_RANK $i"; sleep 0.02; done' >task
  chmod +x task
  run_ --local=4 -n 4 --on-lost=go-on -o on-leader-lost=take-over -o lost-after=2s -o cpu-affinity=off --output=o -o report=r -o usage=u -o joblog=j -o timeline=t -o exit-notify=n ./task >out 2>err &
  launcher=$!
  await_try 1 0 1 2 3
  first=$(<shell.0.1) front_end=$(pgrep -P "$launcher")
  kill -STOP "$first" "$front_end" # nacre run, which would end it
  sleep 1 # the other shells send it output
  touch go
  wait_until test -s r
  wait_until has_end_notice
  for each in r u j t n; do before[$each]=$(md5sum "$each"); done
  kill -CONT "$first"
  wait_until has_ended "$first"
  kill -CONT "$front_end"
  fails
  for each in r u j t n; do [ "$(md5sum "$each")" = "${before[$each]}" ] || { echo "$each"; cat "$each" err; return 1; }; done
  for each in 1 2 3; do [ "$(grep "^$each " o)" = "$(seq -f "$each %g" "$(grep -c "^$each " o)")" ] || { cat o; return 1; }; done
  [ "$(cut -f1 j | sort | paste -sd,)" = 2,3,4,Seq ] || { cat j; return 1; }
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' r)" = '[["l","0"],["x0","1-3"]]' ] || { cat r; return 1; }
  grep -q "report: .*/r: another shell, which has led the job since, has written it" err || { cat err; return 1; }
}
