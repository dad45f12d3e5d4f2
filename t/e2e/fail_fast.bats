#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What ends a job before its tasks have ended by themselves: failures, others that have ended, time. On one shell, and on four, with the
# cause on the leader and elsewhere.
load exits.bash
load pmix.bash

# The last `both` had exit code $1 on one shell and on four, and said the line $2, if there is one, in both.
both_were() {
  [ "${codes[*]}" = "$1 $1" ] || { echo "exit codes ${codes[*]}, expected $1: $(cat err)"; return 1; }
  [ -z "${2:-}" ] || [ "$(grep -cE "$2" err)" -eq 2 ] || { echo "not twice '$2': $(cat err)"; return 1; }
}

all_started() { [ "$(find . -name 'started.*' | wc -l)" -eq 4 ]; }
# To be called in the background: $! is the launcher itself.
start() { exec "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off "$@"; }

never_said() { [ "$(grep -c "$1" err)" -eq 0 ] || { echo "said '$1': $(cat err)"; return 1; }; }
nothing_was_said() { [ ! -s err ] || { cat err; return 1; }; }

# bats test_tags=long
@test "the first failure ends the job, on whichever shell it is" {
  for rank in 0 1 2 3; do
    both 4 "[ \$FLUX_TASK_RANK != $rank ] || exit 3; exec sleep 30" --fail-fast
    both_were 3 "error: task $rank on node[0-3] exited with code 3\$"
    both 4 "[ \$FLUX_TASK_RANK != $rank ] || kill -SEGV \$\$; exec sleep 30" -K -o rlimit.core=0
    both_were 139 "error: task $rank on node[0-3] killed by SIGSEGV\$"
  done
}

# bats test_tags=long
@test "so many failures end the job, of all shells together; a share of the tasks is rounded up" {
  script="$r 0) exit 2;; 3) sleep 0.2; exit 3;; 6) sleep 0.4; exit 4;; esac; exec sleep 30"
  both 8 "$script" --fail-fast=3
  both_were 4 "error: exit-on-error: 3 of 8 tasks have failed \(0,3,6\): task 6 on node[03] exited with code 4\$"
  both 8 "$script" --fail-fast=2
  both_were 3 "2 of 8 tasks have failed \(0,3\): task 3 on node[01] exited with code 3\$"
  both 8 "$script" --fail-fast=25%
  both_were 3
  both 8 "$script" --fail-fast=26%
  both_were 4
  both 8 "$r 0|3) exit 3;; esac; sleep 0.5" -o exit-on-error=3
  both_were 3
  never_said exit-on-error
}

# bats test_tags=long
@test "the first task to end decides, with exit-on-error=first" {
  both 4 "$r 3) exit 3;; esac; exec sleep 30" --fail-fast=first
  both_were 3
  both 4 "$r 3) exit 0;; esac; sleep 0.4; exit 5" --fail-fast=first
  both_were 5
  never_said 'error: exec'
}

# bats test_tags=long
@test "only failures of some ranks, or with some codes, count" {
  both 4 "$r 0) exit 2;; 3) sleep 0.4; exit 3;; esac; exec sleep 30" --fail-fast -o exit-on-error.ranks=1-3
  both_were 3 "task 3 on node[03] exited with code 3"
  both 4 "$r 0) exit 2;; 3) sleep 0.4; kill -ABRT \$\$;; esac; exec sleep 30" -o exit-on-error.codes=134,139 -o rlimit.core=0
  both_were 134 "task 3 on node[03] killed by SIGABRT"
  both 4 "$r 0) exit 2;; esac; sleep 0.4" -o 'exit-on-error={"ranks": "1-3", "codes": "1"}'
  both_were 2
  never_said 'error: exec'
}

# bats test_tags=long
@test "grace: tasks that end before it is over are no victims" {
  script="$r 1) exit 3;; 2) sleep 0.3; exit 9;; esac; trap 'echo \$FLUX_TASK_RANK >>ended; exit 1' TERM; sleep 30 & wait"
  both 4 "$script" --fail-fast -o exit-on-error.grace=1s
  both_were 9 "warn: exit-on-error: task 1 on node[01] exited with code 3; the job ends in 1s\$"
  grep -q "error: task 1 on node1 exited with code 3" err
  [ "$(sort ended | tr -d '\n')" = 0033 ]
  both 4 "$r 1) exit 3;; esac; sleep 0.5" --fail-fast -o exit-on-error.grace=1m
  both_were 3
  never_said 'error: exec'
}

@test "then=note: one line, and the job goes on" {
  both 4 "$r 0|2|3) exit 3;; esac; sleep 0.4" --fail-fast=2 -o exit-on-error.then=note -o exit-report=off
  both_were 3 "warn: exit-on-error: . of 4 tasks have failed \([0-3,-]*\): task . on node. exited with code 3; the job goes on\$"
  [ "$(wc -l <err)" -eq 2 ]
}

# bats test_tags=long
@test "success by exit-ok is not what ends a job" {
  both 4 "$r 2) exit 77;; esac; sleep 0.3" --fail-fast --exit-ok=77
  both_were 0
  nothing_was_said
}

# bats test_tags=long
@test "a task that a signal to all tasks has ended does not end those that have taken it" {
  for signal in TERM:143 INT:130 HUP:129; do
    for shells in 1 4; do
      rm -f started.* saved.*
      write_nodes $shells $((4 / shells))
      write_jobspec 4 sh -c "$r 0|2|3) trap 'sleep 0.5; touch saved.\$FLUX_TASK_RANK; exit 0' ${signal%:*};; esac
        touch started.\$FLUX_TASK_RANK; i=0; while [ \$i -lt 1000 ]; do sleep 0.02; i=\$((i + 1)); done"
      start --local=$shells --fail-fast --report=r.json 2>err &
      wait_until all_started
      kill -${signal%:*} $!
      code=0
      wait $! || code=$?
      [ "$code" -eq "${signal#*:}" ] || { echo "$signal, $shells shells: $code: $(cat err)"; return 1; }
      [ "$(echo saved.*)" = "saved.0 saved.2 saved.3" ]
      never_said 'error:'
      jq -e --arg killed "s$((${signal#*:} - 128))" '[.classes[] | .record + ":" + .ranks] | sort == [$killed + ":1", "x0:0,2-3"]' r.json || { cat r.json; return 1; }
    done
  done
}

# Ranks 1 and 2 cannot be started.
missing='wrap=[{"ranks": "1-2", "command": ["/no/such/program"]}]'

# bats test_tags=long
@test "a task that cannot be started ends the job, but with exit-on-error=off set it is a record only" {
  both 4 "sleep 0.3; touch ran.\$FLUX_TASK_RANK" -o "$missing"
  both_were 127 "error: task [12].*: /no/such/program: No such file or directory"
  for off in off false 0; do
    for policy in max:127 main:0 all:1 main+all:1 first:127; do
      rm -f ran.*
      both 4 "sleep 0.3; touch ran.\$FLUX_TASK_RANK" -o "$missing" -o exit-on-error=$off -o "exit-policy=${policy%:*}"
      both_were "${policy#*:}" "task 1(-2)? on node[01](, 2 on node2)?: not started: no such command"
      [ "$(echo ran.*)" = "ran.0 ran.3" ]
      grep -q "error: task 1.*: /no/such/program: No such file or directory" err
      [ "$policy$off" = max:127off ] || break
    done
  done
  both 4 "sleep 0.3" -o "$missing" -o exit-on-error=off -o exit-report=off -o exit-on-error.then=note
  both_were 127
  both 4 "sleep 0.3" -o 'wrap=[{"command": ["/etc/passwd"]}]' -o exit-on-error=off
  both_were 126
  [ "$(named err | sed 's/ on node[0-3]//' | uniq -c | xargs)" = "$(printf '2 %s: not started: not executable\n' 0 1 2 3 | xargs)" ] || { cat err; return 1; }
}

# bats test_tags=long
@test "a task that cannot be started is a record only under fault tolerance, unless exit-on-error is set" {
  script="exec $BATS_TEST_DIRNAME/pmi_client 0,3:init 0,3:barrier 0,3:touch:ran.%r 0,3:finalize"
  for option in fault-tolerance fault-tolerance.signal=SIGUSR1; do
    for policy in max:127 main:0 all:1 main+all:1 first:127; do
      rm -f ran.*
      both 4 "$script" -o "$missing" -o $option -o "exit-policy=${policy%:*}"
      both_were "${policy#*:}" "task 1(-2)? on node[01](, 2 on node2)?: not started: no such command"
      [ "$(echo ran.*)" = "ran.0 ran.3" ]
      [ "$policy" = max:127 ] && [ "$option" = fault-tolerance ] || break
    done
  done
  for given in "fault-tolerance exit-on-error" "fault-tolerance=off" "fault-tolerance.signal=SIGUSR1 exit-on-error=3"; do
    local words=()
    for each in $given; do words+=(-o "$each"); done
    both 4 "exec sleep 30" -o "$missing" "${words[@]}"
    both_were 127 "error: task [12].*: /no/such/program: No such file or directory"
  done
}

# bats test_tags=long
@test "a task that was not started is one that is missing in MPI's barriers" {
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    write_jobspec 4 "$BATS_TEST_DIRNAME/pmi_client" init barrier finalize
    run -127 launch -R R.json -o cpu-affinity=off --local=$shells -o "$missing" -o exit-on-error=off
    run_said 127 "exited with code 127 without PMI init, and the others wait for it in a barrier"
  done
}

# bats test_tags=long
@test "launch: after a failure the others have the time of exit-timeout, after a success all they need" {
  both 4 "$r 1) exit 0;; esac; sleep 0.8" -o exit-timeout=0.2s
  both_were 0
  nothing_was_said
  both 4 "$r 1) exit 0;; 2) sleep 0.4; kill -SEGV \$\$;; esac; exec sleep 30" -o exit-timeout=0.2s -o rlimit.core=0
  both_were 139 "error: exit-timeout: task 2 failed 200ms ago, and these still run: 0,3\$"
  both 4 "$r 1) exit 0;; esac; exec sleep 30" -o exit-timeout=0.2s -o exit-timeout.after=exit
  both_were 1 "error: exit-timeout: task 1 ended 200ms ago, and these still run: 0,2-3\$"
  both 4 "$r 1) exit 0;; esac; exec sleep 30" -o exit-timeout.after=exit -o exit-timeout=0.2s
  both_were 1
  options='{"exit-timeout": {"after": "exit", "timeout": "0.2s"}}' both 4 "$r 1) exit 0;; esac; exec sleep 30"
  both_were 1
}

# bats test_tags=long
@test "the bare shell waits as flux-shell does, with the installed initrc as launch does" {
  prepare 2 sh -c "$r 1) exit 0;; esac; sleep 1"
  run nacre -o exit-timeout=0.2s
  run_said 1 "exit-timeout: task 1 ended 200ms ago, and these still run: 0"
  echo "plugin.searchpath = '$work' source '$NACRE_SOURCE_DIR/etc/initrc.lua'" >rc.lua
  run nacre -o exit-timeout=0.2s --initrc=rc.lua
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  run nacre -o exit-timeout=0.2s -o exit-timeout.after=exit --initrc=rc.lua
  run_said 1 "exit-timeout: task 1 ended 200ms ago"
}

# bats test_tags=long
@test "after a success the job ends where others are connected to PMI, not where they have finalized" {
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    write_jobspec 4 "$BATS_TEST_DIRNAME/pmi_client" init 1,3:finalize 1:exit:0 wait:never
    run launch -R R.json -o cpu-affinity=off --local=$shells -o exit-timeout=0.5s -v
    run_said 1 "exit-timeout: task 1 ended 500ms ago, and these are still connected to PMI: 0,2"
    write_jobspec 4 "$BATS_TEST_DIRNAME/pmi_client" init finalize 1:exit:0 wait:go
    launch -R R.json -o cpu-affinity=off --local=$shells -o exit-timeout=0.2s -o verbose=1 2>err &
    wait_until grep -q "task 1 ended well 200ms ago; no task that runs is connected to PMI" err
    touch go
    wait $!
    rm go
  done
}

# bats test_tags=long
@test "the same for PMIx" {
  build_clients early
  [ -e "$NACRE_BUILD_DIR/plugins/pmix/pmix.so" ]
  for shells in 1 2; do
    write_nodes $shells $((4 / shells))
    echo 'plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }' >rc.lua
    for how in connected:1 finalized:0; do
      write_jobspec 4 "$BATS_FILE_TMPDIR/early" "${how%:*}"
      run_with_pmix "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json --local=$shells \
        -o cpu-affinity=off -o pmi=pmix -o exit-timeout=1s -- --initrc="$work/rc.lua"
      [ "$status" -eq "${how#*:}" ] || { echo "$shells $how: $status: $output"; return 1; }
      [ "$status" -eq 0 ] || run_said 1 "exit-timeout: task 0 ended 1s ago, and these are still connected to PMI: 1-3"
    done
  done
}

# bats test_tags=long
@test "the time that Slurm has given ends the job" {
  SLURM_JOB_END_TIME=$(($(date +%s) + 1)) both 4 'exec sleep 30'
  both_were 124 "error: timeout: the time that Slurm has given is over, and these tasks still run: 0-3"
  SLURM_JOB_END_TIME=5 both 4 'exec sleep 30'
  both_were 124
  SLURM_JOB_END_TIME=5 both 4 'sleep 0.3' -o time-limit=1m
  both_were 0
  SLURM_JOB_END_TIME=5 both 4 'sleep 0.3' -o time-limit=none
  both_were 0
  SLURM_JOB_END_TIME=5 both 4 'exec sleep 30' -o time-limit=0.5s
  both_were 124 "time-limit: 500ms are over"
  SLURM_JOB_END_TIME=soon both 4 true
  both_were 0 "warn: time-limit: SLURM_JOB_END_TIME: expected seconds since the Epoch, got 'soon'; it is passed over"
  both 4 true -o verbose=1
  both_were 0 "time-limit: the job has no time limit"
}

# bats test_tags=long
@test "signal: the tasks of all shells are warned before the time is over that Slurm has given" {
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    write_jobspec 4 sh -c 'trap "exit 7" USR1; sleep 30 & wait'
    SLURM_JOB_END_TIME=$(($(date +%s) + 65)) run launch -R R.json -o cpu-affinity=off --local=$shells -o signal
    run_said 7 "signal: the job expires in 60 s: sending SIGUSR1 to the tasks"
    [[ $output != *killed* ]]
  done
}

# bats test_tags=long
@test "what is wrong is named, with what was expected" {
  write_nodes 2 1
  write_jobspec 2 touch ran
  wrong() { # OPTION WHAT
    run launch -R R.json -o cpu-affinity=off --local=2 "$1"
    run_said 1 "$2"
    [ "${#lines[@]}" -eq 1 ]
    [ ! -e ran ]
  }
  wrong -oexit-on-error=many 'exit-on-error: expected on or off, a number of tasks, a share of the job'"'"'s such as "25%", or "first", got "many"'
  wrong -oexit-on-error.ranks=1-2 'exit-on-error.ranks: the job has no task 2; it has 0-1'
  wrong -oexit-on-error=0% 'got "0%"'
  wrong -oexit-on-error.codes=0 'exit-on-error.codes: expected exit codes, 1 to 255'
  wrong -oexit-on-error.then=stop 'exit-on-error.then: expected end or note, got "stop"'
  wrong -oexit-on-error.grace=soon 'exit-on-error.grace: duration '"'soon'"
  wrong -oexit-timeout.after=never 'exit-timeout.after: expected exit or failure, got "never"'
  wrong -oexit-timeout.timeout=soon 'exit-timeout.timeout: duration '"'soon'"
}
