#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre doctor: who hangs, and where.
load control.bash

setup_file() {
  export programs=$BATS_FILE_TMPDIR
  mpicc.mpich -Wall -Wextra -g -O0 -o "$programs/barrier" "$BATS_TEST_DIRNAME/mpi/barrier.c"
  mkdir "$programs/killed"
  cc -Wall -Wextra -o "$programs/killed/eu-stack" "$BATS_TEST_DIRNAME/doctor_tracer.c"
}

# $1 tasks are where they will stay: each makes a file there.RANK just before.
are_there() { [ "$(find . -maxdepth 1 -name 'there.*' | wc -l)" -ge "$1" ]; }

# The process of rank $1.
pid_of() { "$front" ps --json "$id" | jq "select(.rank == $1) | .pid"; }

# What the doctor concludes, as KIND RANKS.
kinds() { "$front" doctor --json --twice=0.3 "$id" | jq -r '.verdicts[] | "\(.kind) \(.ranks)"'; }
concludes() { kinds | grep -qx -- "$1"; }

# The output of the doctor has a line that matches.
shows() { grep -qE -- "$1" <<<"$output" || { echo "no line: $1"; echo "$output"; return 1; }; }

state_is() { [ "$(ps -o state= -p "$1")" = "$2" ]; }
sleeps() { state_is "$1" S; }

# A directory with the programs $@ of this machine, for a PATH without others.
path_of() {
  mkdir -p path
  for each; do ln -sf "$(type -P "$each")" path/; done
  echo "$work/path"
}

# bats test_tags=long
@test "one rank of an MPI program reads a pipe that nobody writes, and the others wait for it" {
  start_job 4 2 "exec $programs/barrier 3"
  wait_until are_there 8
  wait_until concludes "missing 3"
  run --separate-stderr "$front" doctor --twice=0.3 "$id"
  [ "$status" -eq 0 ]
  [ -z "$stderr" ]
  shows '^7 of 8  0-2,4-7 +barrier is busy, and neither reads nor writes +\('
  shows '^1 of 8  3 \(node1\) +barrier reads a pipe that nobody else has open for writing +\(in [a-z_]*pipe_read, 0 % cpu'
  shows '^=> rank 3 \(node1\) reads a pipe that nobody else has open for writing: so nothing will ever come$'
  shows '^=> rank 3 \(node1\) is not where the others are: 7 of 8 are busy'
  run "$front" doctor --ranks --twice=0.3
  [ "$(grep -c '^[0-7] (node[0-3]) ' <<<"$output")" -eq 8 ]
  run "$front" doctor -q --twice=0.3
  [ "$(grep -vc '^=> ' <<<"$output")" -eq 0 ]
  [ "${lines[0]%% (*}" = '=> rank 3' ]
  [ "$("$front" doctor --json --twice=0.3 | jq -c '[.tasks, (.groups | map(.ranks)), .absent]')" = '[8,["0-2,4-7","3"],[]]' ]
  stop_job
}

# By tool $1: $2 of $4 tasks, the ranks $3, are in MPI_Barrier, and one, $5, reads.
takes_stacks() {
  run --separate-stderr "$front" doctor --stacks="$1" --twice=0.3 "$id"
  [ "$status" -eq 0 ]
  shows "^$2 of $4  $3 +main > exchange > P?MPI_Barrier( \(libmpi.*\))? +\(is busy"
  shows "^1 of $4  $5 +main > read_mesh > .*read.* \(reads a pipe that nobody else has open for writing"
  shows "^=> rank $5 is not where the others are: $2 of $4 are in P?MPI_Barrier"
  [[ $output != *note:* ]]
}

# bats test_tags=long
@test "stacks show where" {
  start_job 4 2 "exec $programs/barrier 3"
  wait_until are_there 8
  wait_until concludes "missing 3"
  for tool in auto eu-stack; do
    takes_stacks "$tool" 7 0-2,4-7 8 '3 \(node1\)'
  done
  for rank in {0..7}; do [[ $(ps -o state= -p "$(pid_of "$rank")") == [RS] ]]; done
  run "$front" doctor --stacks=strace
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == "nacre doctor: --stacks: 'strace': expected auto, eu-stack, gdb, py-spy" ]]
  stop_job
}

# bats test_tags=long
@test "stacks show where, by gdb" {
  # The tool takes most of a second for each task, and has 10 s for it.
  start_job 3 1 "exec $programs/barrier 1"
  wait_until are_there 3
  wait_until concludes "missing 1"
  takes_stacks gdb 2 0,2 3 '1 \(node1\)'
  stop_job
}

# bats test_tags=long
@test "a tracer that is killed in the middle leaves no task stopped" {
  PATH=$programs/killed:$PATH start_job 2 2 'echo $$ >pid.$FLUX_TASK_RANK; touch there.$FLUX_TASK_RANK; exec sleep 600'
  wait_until are_there 4
  for rank in 0 1 2 3; do wait_until sleeps "$(<pid.$rank)"; done
  kill -STOP "$(<pid.2)"
  wait_until state_is "$(<pid.2)" T
  for round in 1 2 3; do
    run "$front" doctor --stacks=eu-stack --twice=0.1 "$id"
    [ "$status" -eq 0 ]
    shows '^note: node0, node1: no stack by eu-stack: killed by SIGKILL'
  done
  for rank in 0 1 3; do wait_until sleeps "$(<pid.$rank)"; done
  wait_until state_is "$(<pid.2)" T
  stop_job
}

# bats test_tags=long
@test "a task that is stopped stays so while its stack is taken" {
  start_job 1 2 'echo $$ >pid.$FLUX_TASK_RANK; touch there.$FLUX_TASK_RANK; exec sleep 600'
  wait_until are_there 2
  for rank in 0 1; do wait_until sleeps "$(<pid.$rank)"; done
  kill -STOP "$(<pid.1)"
  wait_until state_is "$(<pid.1)" T
  run "$front" doctor --stacks=eu-stack --twice=0.1 "$id"
  shows '^1 of 2  1 \(node0\) .*nanosleep.*\(is stopped'
  shows '^=> rank 1 \(node0\) is stopped: nacre kill -s CONT JOB lets them go on$'
  wait_until state_is "$(<pid.1)" T
  wait_until sleeps "$(<pid.0)"
  stop_job
}

# bats test_tags=long
@test "no program that takes stacks is there, or it has no right to: the rest is shown, and a note" {
  path=$(path_of sh sleep touch cat)
  launch() { PATH=$path "$front" launch --shell="$NACRE_SHELL" -j jobspec.json "$@"; }
  start_job 1 1 'touch there.0; exec sleep 600'
  wait_until all_sleep
  run "$front" doctor --stacks --twice=0.1
  shows '^1 of 1  0 \(node0\) +sleep sleeps \(clock_nanosleep\)'
  shows '^note: node0: no stacks: neither eu-stack, which elfutils has, nor gdb is in the shell.s PATH$'
  run "$front" doctor --stacks=py-spy --twice=0.1
  shows '^note: node0: no stacks: py-spy is not in the shell.s PATH$'
  printf '#!/bin/sh\necho "eu-stack: dwfl_linux_proc_attach pid $6: Operation not permitted" >&2\nexit 2\n' >path/eu-stack
  chmod +x path/eu-stack
  run "$front" doctor --stacks --twice=0.1
  shows '^note: node0: no stack by eu-stack: .*Operation not permitted'
  stop_job
}

# bats test_tags=long
@test "a Python program whose memory cannot be read: by py-spy where it is, else by its interpreter" {
  cp "$(type -P sleep)" python3
  mkdir spy
  PATH=$work/spy:$PATH start_job 1 1 "touch there.0; exec $work/python3 600"
  wait_until are_there 1
  run "$front" doctor --stacks --twice=0.1
  shows '^1 of 1  0 \(node0\) .*sleep.*\(sleeps \(clock_nanosleep\)'
  printf '#!/bin/sh\ncat <<END\nProcess $3: python train.py\nPython v3.11.2 (x)\n\nThread $3 (idle): "MainThread"\n    step (train.py:3)\n    <module> (train.py:9)\nEND\n' >spy/py-spy
  chmod +x spy/py-spy
  for way in auto py-spy; do
    run "$front" doctor --stacks=$way --twice=0.1
    shows '^1 of 1  0 \(node0\) +<module> \(train.py:9\) > step \(train.py:3\) +\('
  done
  printf '#!/bin/sh\nexit 1\n' >spy/py-spy
  run "$front" doctor --stacks --twice=0.1
  shows '^note: node0: no stack by py-spy: exited with code 1'
  shows '^note: node0: the functions of Python are not read: '
  shows '^1 of 1  0 \(node0\) .*nanosleep'
  stop_job
}

@test "one is stopped, one spins, one has ended, one waits for input, and one for a FIFO" {
  mkfifo keyboard
  exec {keyboard}<>keyboard
  launch() { "$front" launch --shell="$NACRE_SHELL" -j jobspec.json "$@" <keyboard {keyboard}>&-; }
  start_job 2 3 'case $FLUX_TASK_RANK in
    0) touch there.0; exec cat ;;
    1) while :; do :; done ;;
    2) mkfifo fifo; touch there.2; exec cat fifo ;;
    3) touch there.3; kill -STOP $$ ;;
    4) exit 0 ;;
    5) touch there.5; sleep 600; : ;;
  esac' -o input.ranks=0
  exec {keyboard}>&-
  wait_until are_there 4
  wait_until concludes "stopped 3"
  wait_until concludes "pipe 2"
  wait_until concludes "input 0"
  run "$front" doctor --ranks --twice=0.3
  [ "$status" -eq 0 ]
  shows '^0 \(node0\)  cat reads its standard input, a pipe'
  shows '^1 \(node0\)  sh is busy, and neither reads nor writes +\([0-9]* % cpu'
  shows '^2 \(node0\)  cat opens a FIFO that nobody has open at its other end'
  shows '^3 \(node1\)  sh is stopped'
  shows '^5 \(node1\)  sleep sleeps \(clock_nanosleep\)'
  [[ $output != *$'\n4 ('* && $output != *'has ended well'* ]] # as rank 1 may compute
  stop_job
}

# bats test_tags=long
@test "a task that waits in the kernel is named, and holds up neither the others nor their stacks" {
  printf '#include <unistd.h>\nint main(void) { if (vfork() == 0) for (;;) pause(); return 0; }\n' >kernel.c
  cc -w -o kernel kernel.c # its process waits in state D until its child has begun another program
  start_job 3 1 "touch there.\$FLUX_TASK_RANK; [ \$FLUX_TASK_RANK != 1 ] || exec $work/kernel; exec sleep 600"
  wait_until are_there 3
  wait_until concludes "stuck 1"
  run "$front" doctor --stacks --twice=0.1
  [ "$status" -eq 0 ]
  shows '^1 of 3  1 \(node1\) +kernel is stuck in the kernel, in [a-z_]+ \(state D\)'
  shows '^2 of 3  0,2 .*sleep.* \(sleeps \('
  shows '^=> rank 1 \(node1\) is stuck in the kernel, in [a-z_]+ \(state D\): at both looks'
  stop_job
}

# bats test_tags=long
@test "tasks that end between the two looks, and the job itself" {
  start_job 2 2 'case $FLUX_TASK_RANK in 1 | 3) until [ -e go ]; do sleep 0.1; done; exit $((FLUX_TASK_RANK - 1)) ;; esac; exec sleep 600'
  "$front" doctor --twice=3 "$id" >said 2>&1 &
  doctor=$!
  sleep 0.5 # the test also passes if the doctor comes later
  touch go
  wait "$doctor"
  output=$(<said)
  shows '^2 of 4  0,2 +sleep sleeps'
  shows '^=> rank 1 \(node0\) has ended well, and the others go on'
  "$front" doctor --twice=60 "$id" >said 2>&1 &
  doctor=$!
  sleep 0.5
  stop_job
  code=0
  wait "$doctor" || code=$?
  [ "$code" -eq 1 ]
  [ "$(<said)" = "nacre doctor: job $id has ended; \`nacre report $id\` prints how" ]
}

# bats test_tags=long,root
@test "tasks that may not be traced, a setuid program and one that forbids it, are shown without stacks, and a note" {
  needs_root "to be another user, and to make a program setuid"
  shell=$(copy_for_all "$NACRE_SHELL")
  nacre=$(copy_for_all "$NACRE_BUILD_DIR/nacre")
  printf '#include <sys/prctl.h>\n#include <unistd.h>\nint main(void) { prctl(PR_SET_DUMPABLE, 0); for (;;) pause(); }\n' >forbids.c
  cc -o for-all/forbids forbids.c
  cp "$(type -P sleep)" for-all/setuid
  chmod 4755 for-all/setuid
  mkdir -m 700 of-nobody of-nobody/jobs of-nobody/tmp
  chown -R 65534:65534 of-nobody
  export NACRE_JOBS_DIR=$work/of-nobody/jobs TMPDIR=$work/of-nobody/tmp
  as_nobody "$nacre" run --shell="$shell" -n 3 sh -c 'case $FLUX_TASK_RANK in 0) exec ./for-all/setuid 600 ;; 1) exec ./for-all/forbids ;; esac
    exec sleep 600' >out 2>err </dev/null &
  launcher=$!
  all_run() { [ "$(as_nobody "$nacre" ps --json last 2>/dev/null | jq -r .command | sort | paste -sd' ')" = "forbids setuid sleep" ]; }
  wait_until all_run
  run as_nobody "$nacre" doctor --stacks --twice=0.1 last
  [ "$status" -eq 0 ]
  shows '^1 of 3  0 \(.*\) +setuid sleeps'
  shows '^1 of 3  1 \(.*\) +forbids sleeps'
  shows '^1 of 3  2 \(.*\) .*sleep.* \(sleeps \('
  shows '^note: .*: no stack by eu-stack: .*([Dd]enied|not permitted)'
  as_nobody "$nacre" cancel last
  ends_with 143
}

# bats test_tags=long,root
@test "a task that is frozen by its cgroup" {
  needs_root "to make a cgroup"
  mkdir cg
  # The mount is visible, and stays, as long as the job runs.
  unshare --mount --propagation private sh -c 'mount -t cgroup2 none cg && exec "$@"' - "$front" run --shell="$NACRE_SHELL" -n 3 \
    sh -c 'echo $$ >there.$FLUX_TASK_RANK; exec sleep 600' >out 2>err </dev/null &
  launcher=$!
  wait_until listed
  wait_until are_there 3
  there() { nsenter --mount --target "$launcher" sh -c "cd $work && $1"; }
  there "mkdir cg/nacre-test-$$ && cat there.1 >cg/nacre-test-$$/cgroup.procs && echo 1 >cg/nacre-test-$$/cgroup.freeze"
  wait_until 20 there "grep -q 'frozen 1' cg/nacre-test-$$/cgroup.events"
  run "$front" doctor --twice=0.1
  there "echo 0 >cg/nacre-test-$$/cgroup.freeze && cat there.1 >cg/cgroup.procs && rmdir cg/nacre-test-$$"
  [ "$status" -eq 0 ]
  shows '^1 of 3  1 \(.*\) +sleep is frozen, by its cgroup'
  shows '^=> rank 1 \(.*\) is frozen, by its cgroup: no signal ends that, only who has frozen it$'
  run "$front" doctor --twice=0.1
  [[ $output != *frozen* ]] || { echo "$output"; return 1; }
  "$front" cancel last
  ends_with 143
}

# bats test_tags=long
@test "a shell that stands still is named, and the others answer" {
  start_job 3 1 'touch there.$FLUX_TASK_RANK; exec sleep 600' -o lost-after=60s
  wait_until are_there 3
  wait_until all_sleep # the tasks have become sleep
  wait_until pgrep -fx "nacre-shell: $id (rank )?1/3 *"
  frozen=$(pgrep -fx "nacre-shell: $id (rank )?1/3 *")
  kill -STOP "$frozen"
  run "$front" doctor --twice=0.1
  begun=$SECONDS
  "$front" doctor --stacks --twice=0.1 >stacks || :
  took=$((SECONDS - begun))
  kill -CONT "$frozen"
  # The silent shell is named first, and is not waited for as long as stacks may take.
  head -n 1 stacks | grep -q '^=> shell 1 on node1 has not answered in time: ' || { cat stacks; return 1; }
  [ "$(grep -c 'has not answered' stacks)" -eq 1 ]
  grep -qE '^2 of 3  0,2 .*sleep' stacks
  [ "$took" -lt 30 ]
  [ "$(grep -c 'have answered since' stacks)" -eq 0 ]
  [ "$status" -eq 1 ]
  shows '^2 of 3  0,2 +sleep sleeps \(clock_nanosleep\)'
  shows '^=> shell 1 on node1 has not answered in time: it is stopped, its host is, or is slow; it has 1 task, 1$'
  shows '^=> all 2 tasks that are known are in the same place'
  wait_until concludes "alike 0-2"
  stop_job
}

# bats test_tags=long
@test "a barrier of PMI names who has not entered it" {
  start_job 2 2 "[ \$FLUX_TASK_RANK != 2 ] || { touch there.2; exec sleep 600; }; exec $programs/barrier"
  wait_until are_there 1
  wait_until concludes "missing 2"
  run "$front" doctor --twice=0.1
  shows '^3 of 4  0-1,3 +barrier is in PMI barrier [0-9]+ +\('
  shows '^=> rank 2 \(node1\) is not where the others are: 3 of 4 are in PMI barrier [0-9]+, which waits for all; rank 2 sleeps'
  stop_job
}

@test "doctor.trace: tasks start as without, and other members are refused" {
  prepare 2 true
  run nacre -o doctor.trace
  [ "$status" -eq 0 ]
  run nacre -o doctor.trace=maybe
  fails_with 1 'doctor.trace: expected'
  run nacre -o doctor.track=on
  fails_with 1 'doctor.track'
}

# bats test_tags=long
@test "what cannot be asked" {
  start_job 1 1 'exec sleep 600'
  run "$front" doctor --twice=0
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == "nacre doctor: --twice: '0': expected 0.05 to 60 seconds" ]]
  stop_job
  run "$front" doctor "$id"
  fails_with 1 "nacre doctor: job $id has ended; \`nacre report $id\` prints how"
}

@test "hang-watch: who hangs is printed and kept in the report, and the job is ended" {
  start_job 2 2 'touch there.$FLUX_TASK_RANK; exec sleep 600' --hang-watch=1s,kill --report=report.json
  ends_with 124
  grep -qx 'nacre: no task of the job has done anything that can be seen for 1s' err
  grep -qE '^4 of 4  0-3 +.*nanosleep' err
  grep -q '^=> all 4 tasks that run are in the same place' err
  grep -q 'hang-watch: no task has done anything that can be seen for 1s' err
  [ "$(jq -c '[.timeline[] | select(.event == "hang") | [.time > 0, .found.groups[0].ranks]]' report.json)" = '[[true,"0-3"]]' ]
}

@test "hang-watch: the task that it blames is the cause in the report, as likely" {
  start_job 2 2 'touch there.$FLUX_TASK_RANK; [ $FLUX_TASK_RANK = 2 ] && kill -STOP $$; exec sleep 600' --hang-watch=1s,kill --report=report.json
  ends_with 124
  grep -q 'hang-watch: no task has done anything that can be seen for 1s; rank 2' err
  grep -qE 'rank 2 on .* seems to be why the job hangs: ' err
  jq -e '.cause | .rank == 2 and .certain == false and (.message | contains("rank 2"))' report.json || { jq .cause report.json; return 1; }
}

@test "hang-watch: with restart the task that it blames starts again, within the limits, and the others with it; all do if it blames none" {
  local hangs=1 words
  for words in 'rank 1 is killed, so that restart starts it again' 'all tasks are killed, so that restart starts them again'; do
    start_job 2 1 'touch there.$FLUX_TASK_RANK; [ $NACRE_TASK_TRY -gt 1 ] && exit 0; [ $FLUX_TASK_RANK = '$hangs' ] && kill -STOP $$; exec sleep 600' \
      --hang-watch=1s,restart --restart=on-failure,scope=job,backoff=0s --report=report.json
    ends_with 0
    grep -q "warn: hang-watch: no task has done anything that can be seen for 1s.*: $words" err || { cat err; return 1; }
    grep -qE "restart: rank [01] on .* killed by SIGKILL.*: all tasks of the job start again now \(restart 1 of 3\)" err || { cat err; return 1; }
    [ "$(jq -c '[.timeline[] | select(.event == "hang" or .event == "restart") | .event]' report.json)" = '["hang","restart"]' ] || { jq .timeline report.json; return 1; }
    hangs=none
  done
  start_job 2 1 'exec sleep 600' --hang-watch=1s,restart --restart=on-failure,scope=job,backoff=0s,max=1
  ends_with 137
  grep -q "not started again: the job has used 1 of 1 restarts" err || { cat err; return 1; }
  grep -q "^nacre:   killed by hang-watch: no task has done anything that can be seen for 1s" err || { cat err; return 1; }
  prepare 1 true
  run nacre -o hang-watch=1s,restart
  fails_with 1 "hang-watch: tasks that are killed start again by the option restart only: give --restart=on-failure too"
}

# bats test_tags=long
@test "hang-watch: three times at most, and the job goes on" {
  start_job 1 1 'touch there.0; exec sleep 600' --hang-watch=1s
  lines_come_of() { [ "$(grep -c '^nacre: no task of the job' err)" -eq "$1" ]; }
  wait_until lines_come_of 3
  [ "$(grep '^nacre: no task' err | sed 's/.* //' | xargs)" = '1s 2s 4s' ]
  stop_job
  lines_come_of 3
}

@test "hang-watch: a job that waits for a restart does not hang, be it of one task or of all" {
  local scope
  mkfifo over
  for scope in task job; do
    start_job 2 1 'case $FLUX_TASK_RANK.$NACRE_TASK_TRY in 0.*) read -r line <over ;; 1.1) exit 3 ;; 1.2) echo >over ;; esac' \
      --hang-watch=1s,kill --restart=on-failure,scope=$scope,backoff=4s
    ends_with 0
    ! grep -q "no task of the job has done anything" err || { cat err; return 1; }
  done
}

# bats test_tags=long
@test "hang-watch: a task that does anything, on any shell, keeps it quiet" {
  mkfifo over
  start_job 2 1 'if [ $FLUX_TASK_RANK = 0 ]; then read -r line <over; exit 0; fi
    for i in $(seq 60); do echo $i >file; sleep 0.1; done; echo >over' --hang-watch=4s,kill
  ends_with 0
  [ ! -s err ] || { cat err; return 1; }
  prepare 1 true
  for value in never 0.5s 10m,end "10m,"; do
    run nacre -o hang-watch="$value"
    fails_with 1 "hang-watch: expected DURATION, perhaps with ,restart or ,kill, of at least 1 s, got \"$value\""
  done
}

# bats test_tags=long
@test "a node whose tasks have written far less than all others is slow" {
  start_job 3 2 'case $FLUX_TASK_RANK in 2 | 3) count=2000;; *) count=9000;; esac
    head -c $count /dev/zero | tr "\\0" x; echo; touch there.$FLUX_TASK_RANK; exec sleep 600'
  wait_until are_there 6
  wait_until concludes "slow-node 2-3"
  run "$front" doctor -q --twice=0.3 "$id"
  shows '^=> node1 is slow: its 2 tasks get on more slowly than others: they have written 2 KiB each so far, those of the other nodes 9 KiB$'
  stop_job
}

# bats test_tags=long
@test "hang-watch: tasks that only talk by sockets keep it quiet" {
  cp "$NACRE_BUILD_DIR/t/e2e/doctor_task" .
  start_job 1 3 "exec ./doctor_task ring 100" --hang-watch=1s,kill
  wait_until are_there 3
  sleep 5 # a healthy job passes however slow the machine is
  [ ! -s err ] || { cat err; return 1; }
  stop_job
}
