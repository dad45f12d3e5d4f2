#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# How tasks start, run and end.
load lib.bash

@test "the exit code is the largest of the tasks'" {
  prepare 4 sh -c 'exit $FLUX_TASK_RANK'
  run nacre -o exit-report=line
  [ "$status" -eq 3 ]
  # The messages come in the order in which the tasks have ended.
  [ "$(sort <<<"$output")" = "nacre-shell[0]: error: task 1 on node0: exit code 1
nacre-shell[0]: error: task 2 on node0: exit code 2
nacre-shell[0]: error: task 3 on node0: exit code 3" ]
}

@test "a task killed by a signal counts as 128 + signal" {
  prepare 2 sh -c '[ $FLUX_TASK_RANK = 0 ] && exit 3; kill -SEGV $$'
  run nacre
  [ "$status" -eq 139 ]
}

@test "a command that does not exist is 127, and is named" {
  prepare 3 no-such-command
  run -127 nacre
  fails_with 127 "task 0" "no-such-command: No such file or directory"
}

@test "a file that cannot be executed is 126, and is named" {
  echo hello >plain
  prepare 1 ./plain
  run nacre
  fails_with 126 "./plain: Permission denied"
}

@test "a directory cannot be executed" {
  mkdir folder
  prepare 1 ./folder
  run nacre
  fails_with 126 "./folder: Permission denied"
}

@test "each task has the variables of flux-environment(7), and the same under NACRE_" {
  prepare 2 sh -c 'for n in JOB_ID JOB_SIZE JOB_NNODES TASK_RANK TASK_LOCAL_ID JOB_TMPDIR; do
      eval "f=\$FLUX_$n c=\$NACRE_$n"; [ "$f" = "$c" ] && [ -n "$f" ] || echo "bad $n: $f, $c"; done
    [ -d "$FLUX_JOB_TMPDIR" ] || echo no tmpdir
    [ $FLUX_TASK_RANK = 1 ] && echo "$FLUX_JOB_ID $FLUX_JOB_SIZE $FLUX_JOB_NNODES $FLUX_TASK_RANK $FLUX_TASK_LOCAL_ID"; true'
  run nacre ƒ2Ct
  [ "$status" -eq 0 ]
  [ "$output" = "ƒ2Ct 2 1 1 1" ]
}

@test "the environment is that of the jobspec, not of the shell" {
  export LEAK=1
  environment='{"PATH": "/usr/bin:/bin", "GIVEN": "a b"}' prepare 1 sh -c 'echo "${LEAK-none} $GIVEN"'
  run nacre
  [ "$output" = "none a b" ]
}

@test "a job's tmpdir is private, and gone at the end" {
  prepare 1 sh -c 'touch "$FLUX_JOB_TMPDIR/x"; stat -c %a "$FLUX_JOB_TMPDIR"'
  run nacre
  [ "$output" = 700 ]
  [ -z "$(ls "$TMPDIR")" ]
}

@test "the working directory is the jobspec's" {
  cwd=/usr prepare 1 pwd
  run nacre
  [ "$output" = /usr ]
}

@test "a working directory that is missing ends the job, and the message names the remedy" {
  cwd=/no/such/place prepare 1 touch "$work/ran"
  run nacre
  fails_with 1 "cannot change to directory /no/such/place: No such file or directory" attributes.system.cwd cwd-fallback
  [ ! -e ran ]
}

@test "with cwd-fallback a working directory that is missing is /tmp, with a warning" {
  cwd=/no/such/place prepare 1 pwd
  run nacre -o cwd-fallback
  [ "$status" -eq 0 ]
  [[ ${lines[0]} == *"warn"*"/no/such/place: No such file or directory; using /tmp"* ]]
  [ "${lines[1]}" = /tmp ]
}

@test "a task leads a process group of its own" {
  prepare 2 sh -c 'read -r pid comm state ppid pgrp rest </proc/self/stat; [ "$pgrp" = "$$" ] || echo "$pgrp is not $$"'
  run nacre
  [ -z "$output" ]
}

@test "with nosetpgrp it is in the group of the shell" {
  prepare 1 sh -c 'read -r pid comm state ppid pgrp rest </proc/self/stat; [ "$pgrp" = "$$" ] && echo own'
  run nacre -o nosetpgrp -o exit-report=line
  [ "$status" -eq 1 ]
  [ "$output" = "nacre-shell[0]: error: task 0 on node0: exit code 1" ]
}

@test "tags in arguments and in env-expand are rendered" {
  options='{"env-expand": {"WHO": "{{name}} {{taskid}}/{{size}}"}}'
  prepare 2 sh -c 'echo "$WHO $1 $2"; [ "$3" = "$FLUX_JOB_TMPDIR" ]' x '{{id.dec}}.{{task.index}}' '{{foo}}' '{{tmpdir}}'
  run nacre 77
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'sh 0/2 77.0 {{foo}}\nsh 1/2 77.1 {{foo}}' ]
}

@test "some tasks run under another program" {
  options='{"wrap": {"ranks": "1", "command": ["env", "WRAPPED={{taskid}}"]}}'
  prepare 3 sh -c 'echo "$FLUX_TASK_RANK:$WRAPPED"'
  run nacre
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0:\n1:1\n2:' ]
}

@test "signal mask and dispositions are clean" {
  prepare 1 cat /proc/self/status
  trap '' TERM HUP
  run nacre
  trap - TERM HUP
  [ "$status" -eq 0 ]
  [ "$(grep -cE $'^Sig(Blk|Ign|Cgt):\t0000000000000000$' <<<"$output")" -eq 3 ]
}

@test "no open file leaks into a task" {
  # The last descriptor is the folder that ls itself reads.
  prepare 3 ls /proc/self/fd
  run nacre -o pmi=off 7</etc/passwd
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output" | uniq -c | tr -s ' \n' ' ')" = " 3 0 3 1 3 2 3 3 " ]
  # A task has its own socket for PMI, and no other's.
  run nacre 7</etc/passwd
  [ "$(sort <<<"$output" | uniq -c | tr -s ' \n' ' ')" = " 3 0 3 1 3 2 3 3 3 4 " ]
}

@test "SIGTERM is passed on to the tasks" {
  prepare 2 sh -c 'trap "exit 5" TERM; touch ready.$FLUX_TASK_RANK; while :; do sleep 0.1; done'
  "${nacre[@]}" &
  wait_until test -e ready.0 -a -e ready.1
  kill -TERM $!
  code=0
  wait $! || code=$?
  [ "$code" -eq 5 ]
}

@test "so are the other signals that managers send" {
  # The shell of a task runs a trap only between two commands, so the sleeps are short.
  prepare 1 sh -c 'for s in HUP QUIT ALRM USR1 CONT WINCH URG XCPU; do trap "touch got.$s" $s; done
    trap "exit 0" TERM; touch ready; while :; do sleep 0.2; done'
  "${nacre[@]}" &
  wait_until test -e ready
  local signal
  for signal in HUP QUIT ALRM USR1 CONT WINCH URG XCPU; do
    kill -$signal $!
    timeout 20 sh -c "until [ -e got.$signal ]; do sleep 0.2; done" || { echo "no SIG$signal"; kill -TERM $!; return 1; }
  done
  kill -TERM $!
  wait $!
}

@test "two interrupts within two seconds end the job" {
  prepare 1 sh -c 'trap "touch got" INT; touch ready; while :; do sleep 0.1; done'
  "${nacre[@]}" 2>err &
  wait_until test -e ready
  kill -INT $!
  wait_until test -e got
  kill -INT $!
  code=0
  wait $! || code=$?
  [ "$code" -eq 130 ]
  grep -q "interrupt: passed on to the task that runs; a second one within 2 s ends the job" err
  grep -q "second interrupt: ending the job" err
}

@test "a third interrupt kills tasks that do not end" {
  prepare 1 sh -c 'trap "" TERM; trap "touch got" INT; touch ready; while :; do sleep 0.1; done'
  "${nacre[@]}" -o kill-timeout=1h 2>err &
  wait_until test -e ready
  kill -INT $!
  wait_until test -e got
  kill -INT $!
  wait_until grep -q "second interrupt" err
  kill -INT $!
  code=0
  wait $! || code=$?
  [ "$code" -eq 130 ]
  grep -q "interrupt: killing the tasks" err
}

@test "a process that outlives its task is ended" {
  prepare 1 sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $!'
  run nacre
  [ "$status" -eq 0 ]
  [[ $output =~ ^[0-9]+$ ]]
  run ! kill -0 "$output"
}

@test "one that ignores SIGTERM is killed after kill-timeout" {
  prepare 1 bash -c 'setsid bash -c "trap \"\" TERM; echo \$\$ >pid; while :; do sleep 1; done" & until [ -s pid ]; do sleep 0.1; done'
  run nacre -o kill-timeout=0.2s
  [ "$status" -eq 0 ]
  run ! kill -0 "$(cat pid)"
}

@test "a grandchild that holds the output open does not hold up the job" {
  prepare 1 sh -c 'sleep 1000 & echo done'
  run timeout 20 "${nacre[@]}"
  [ "$status" -eq 0 ]
  [ "$output" = "done" ]
}

@test "exit-on-error ends the job with the code of the task that failed" {
  prepare 3 sh -c '[ $FLUX_TASK_RANK = 1 ] && exit 7; sleep 1000'
  run nacre -o exit-on-error -o kill-timeout=1
  [ "$status" -eq 7 ]
  [[ $output == *"task 1 on node0 exited with code 7"* ]]
}

@test "exit-on-error=first looks at the first task to end only" {
  prepare 2 sh -c '[ $FLUX_TASK_RANK = 0 ] && exit 0; sleep 0.5; exit 4'
  run nacre -o exit-on-error=first -o exit-report=line
  [ "$status" -eq 4 ]
  [ "$output" = "nacre-shell[0]: error: task 1 on node0: exit code 4" ]
}

@test "exit-timeout ends the tasks that are left, and names them" {
  prepare 3 sh -c '[ $FLUX_TASK_RANK = 1 ] && exit 0; exec sleep 1000'
  run nacre -o exit-timeout=100ms
  [ "$status" -eq 1 ]
  [[ $output == *"exit-timeout: task 1 ended 100ms ago, and these still run: 0,2"* ]]
}

@test "exit-timeout=none waits" {
  prepare 2 sh -c '[ $FLUX_TASK_RANK = 1 ] && exit 0; sleep 0.5'
  run nacre -o exit-timeout=none
  [ "$status" -eq 0 ]
}

@test "signal warns the tasks before R expires" {
  write_R 1
  jq ".execution.expiration = $(date +%s) + 103" R.json >R2.json && mv R2.json R.json
  write_jobspec 1 sh -c 'trap "echo warned; exit 0" USR2; while :; do sleep 0.2; done'
  run nacre -o signal.signum=12 -o signal.timeleft=99.5s
  [ "$status" -eq 0 ]
  [ "${lines[-1]}" = warned ]
}

@test "rlimit sets the tasks' soft limits, not the shell's" {
  prepare 2 sh -c 'echo $(ulimit -Sn) $(ulimit -Sc)'
  run nacre -o rlimit.nofile=77 -o rlimit.core=0
  [ "$status" -eq 0 ]
  [ "$output" = $'77 0\n77 0' ]
}

@test "oom.adjust reaches the tasks" {
  prepare 1 cat /proc/self/oom_score_adj
  run nacre -o oom.adjust=321
  [ "$output" = 321 ]
}

@test "oom.adjust below the shell's own score needs privilege; without it a warning, and the job runs" {
  prepare 2 cat /proc/self/oom_score_adj
  lower=$(($(cat /proc/self/oom_score_adj) - 7))
  local -a confined=()
  [ "$(id -u)" -ne 0 ] || confined=(setpriv --bounding-set=-sys_resource)
  run "${confined[@]}" "${nacre[@]}" -o oom.adjust="$lower"
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[0]: warn: oom: oom.adjust: $lower is below this shell's own, $((lower + 7)), and needs privilege; tasks have $((lower + 7))
$((lower + 7))
$((lower + 7))" ]
}

@test "sched and session: each task has its policy, and a session of its own" {
  prepare 2 sh -c 'read -r _ _ _ _ _ session _ <"/proc/$$/stat"; [ "$session" = $$ ] && own=own; echo "$(chrt -p $$ | sed -n "s/.*policy: //p") ${own-shared}"'
  run nacre -o session=shell
  [ "$output" = $'SCHED_OTHER shared\nSCHED_OTHER shared' ]
  run nacre < <(:)
  [ "$output" = $'SCHED_OTHER shared\nSCHED_OTHER shared' ]
  for policy in batch idle other; do
    run nacre -o sched=$policy -o session=task
    [ "$output" = "SCHED_${policy^^} own"$'\n'"SCHED_${policy^^} own" ]
  done
  run nacre --explain -o sched=idle -o session=task
  [[ $output == *$'\n  sched   idle\n  session of its own\n'* ]]
  run nacre -o sched=fifo
  fails_with 1 "sched: expected batch, other or idle"
  run nacre -o session=job
  fails_with 1 "session: expected task or shell"
}

@test "ranks of MPI lead sessions if the kernel has autogroups, and there is no terminal that they could need" {
  own=shared
  [ "$(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null || echo 0)" = 0 ] || own=own
  sees() { # WHAT
    run --separate-stderr nacre -o pmi=simple < <(:) # a warning comes where the library is not used
    [ "$output" = "$1"$'\n'"$1" ] || { echo "$output"; return 1; }
  }
  # Copies of a program that only say so, linked with a library of each kind, as the linker has noted it.
  printf '%s\n' '#include <stdio.h>' '#include <unistd.h>' 'int main(void) { puts(getsid(0) == getpid() ? "own" : "shared"); }' >say.c
  for name in libmpich.so.12 libmpi.so.12 libmpifort.so.12 libmpi.so.40 libother.so.12; do
    echo 'int unused;' | cc -shared -x c - -Wl,-soname,$name -o $name
    cc say.c -o say -Wl,--no-as-needed ./$name -Wl,-rpath,"$PWD"
    prepare 2 ./say
    if [ $name = libother.so.12 ]; then sees shared; else sees $own; fi
  done
  prepare 2 /usr/bin/python3 -c 'import os; "mpi4py"; print("own" if os.getsid(0) == os.getpid() else "shared")'
  sees $own
  prepare 1 /usr/bin/python3 -c 'import os; "mpi4py"; print("own" if os.getsid(0) == os.getpid() else "shared")'
  run nacre < <(:)
  [ "$output" = shared ]
}

@test "a task in a session of its own gets the signals of the job, and none outlives it" {
  prepare 2 sh -c 'trap "echo got; exit 3" TERM; echo $$; sleep 1000 & wait'
  "${nacre[@]}" -o session=task >out &
  until [ "$(wc -l <out)" -eq 2 ]; do sleep 0.2; done
  kill -TERM $!
  wait $! || true
  [ "$(grep -c got out)" -eq 2 ]
  mapfile -t pids < <(grep -v got out)
  run kill -0 "${pids[@]}"
  [ "$status" -ne 0 ]
}

@test "what a task has left behind is ended also by a shell that may open no file any more" {
  prepare 1 sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $! >left; until [ -e go ]; do sleep 0.1; done'
  "${nacre[@]}" >out 2>err &
  wait_until test -s left
  prlimit --nofile=5:5 --pid "$!"
  : >go
  code=0
  wait $! || code=$?
  [ "$code" -eq 0 ] || { echo "exit code $code"; cat err; return 1; }
  run kill -0 "$(cat left)"
  [ "$status" -ne 0 ] || { cat err; return 1; }
}

@test "stop-tasks-in-exec leaves tasks standing before their first instruction" {
  prepare 1 sh -c 'echo ran'
  "${nacre[@]}" -o stop-tasks-in-exec >out &
  until task=$(pgrep -P $!) && grep -q 'State:.*[tT] (' "/proc/$task/status"; do sleep 0.2; done
  [ ! -s out ]
  kill -CONT "$task"
  wait $!
  [ "$(cat out)" = ran ]
}

@test "running out of descriptors half way ends what was started, and is named" {
  # The hard limit leaves room for the shell and some of the 200 tasks.
  prepare 200 sh -c 'echo $$ >>pids; exec sleep 1000'
  echo 'vptr:*' >suppressions  # this check of the sanitizer's needs descriptors itself
  UBSAN_OPTIONS=${UBSAN_OPTIONS-}:suppressions=$PWD/suppressions run prlimit --nofile=80:80 "${nacre[@]}"
  fails_with 1 "Too many open files" "ulimit -n"
  if [ -e pids ]; then xargs -n 1 sh -c '! kill -0 "$0" 2>/dev/null' <pids; fi
}

@test "many tasks are children of the shell as few are, and have no more descriptors" {
  prepare 300 sh -c 'echo "$FLUX_TASK_RANK $PPID"; ls /proc/self/fd >fds.$FLUX_TASK_RANK; grep -E "Sig(Blk|Ign)" /proc/self/status >&2'
  nacre 7</etc/passwd >out 2>err
  [ "$(cut -d " " -f 1 out | sort -n)" = "$(seq 0 299)" ]
  [ "$(cut -d " " -f 2 out | sort -u | wc -l)" -eq 1 ]
  # The last two are the task's socket for PMI, and the folder that ls reads.
  [ "$(cat fds.* | sort | uniq -c | tr -s ' \n' ' ')" = " 300 0 300 1 300 2 300 3 300 4 " ]
  [ "$(sort -u err)" = $'SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000' ]
}

@test "of many tasks none of which can be started one line says why" {
  prepare 300 ./no-such-command
  run -127 nacre -o exit-on-error=off
  [ "$(grep -c "error: task 0: ./no-such-command: No such file or directory" <<<"$output")" -eq 1 ]
  [ "$(grep -c "No such file" <<<"$output")" -eq 1 ]
}

# 300 tasks, which write their process ids, in the background; returns once one has started.
start_many() {
  prepare 300 sh -c 'echo $$ >>pids; exec sleep 1000'
  : >pids
  "${nacre[@]}" 2>err &
  wait_until test -s pids
}

@test "a signal that comes while many tasks are started ends those that have been" {
  start_many
  kill -TERM $!
  code=0
  wait $! || code=$?
  [ "$code" -eq 143 ]
  xargs -n 1 sh -c '! kill -0 "$0" 2>/dev/null' <pids
}

@test "of a shell that is killed while it starts many tasks none is left" {
  start_many
  kill -KILL $!
  wait $! || true
  wait_until xargs -a pids -n 1 sh -c '! kill -0 "$0" 2>/dev/null'
}

@test "stdin goes to all tasks, or to those that are asked for" {
  prepare 3 sh -c 'echo "$FLUX_TASK_RANK: $(cat)"'
  run nacre <<<"hello"
  [ "$(sort <<<"$output")" = $'0: hello\n1: hello\n2: hello' ]
  echo hello | nacre -o input.ranks=0,2 >out
  [ "$(sort out)" = $'0: hello\n1: \n2: hello' ]
}
