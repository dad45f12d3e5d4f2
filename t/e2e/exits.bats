#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The job's exit code by its policy, from how its tasks end: on one shell, and on four.
load exits.bash

# row TASKS SCRIPT CODE... [-- OPTION...]: the codes of max, main, all, main+all, first.
row() {
  local tasks=$1 script=$2 policy expected=("${@:3:5}") index=0
  shift 7
  [ "${1:-}" != -- ] || shift
  for policy in max main all main+all first; do
    both "$tasks" "$script" -o "exit-policy=$policy" "$@"
    if [ "${codes[*]}" != "${expected[index]} ${expected[index]}" ]; then
      echo "$policy: exit codes ${codes[*]}, expected ${expected[index]}: $script $*; $(cat err)"
      return 1
    fi
    ((++index))
  done
}

# To be called in the background: $! is the launcher itself.
start() { exec "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off "$@"; }

all_started() { [ "$(find . -name 'started.*' | wc -l)" -eq 4 ]; }

# bats test_tags=long
@test "all succeed" {
  row 4 'true' 0 0 0 0 0
}

@test "one task crashes, and ends the others" {
  row 4 "$r 1) sleep 0.1; kill -SEGV \$\$;; esac; exec sleep 30" 139 1 1 1 139 -- -o exit-on-error
}

# bats test_tags=long
@test "the same on the leader, and on a shell that no other is connected to" {
  row 4 "$r 0) sleep 0.1; kill -SEGV \$\$;; esac; exec sleep 30" 139 139 1 139 139 -- -o exit-on-error
  row 4 "$r 3) sleep 0.1; kill -SEGV \$\$;; esac; exec sleep 30" 139 1 1 1 139 -- -o exit-timeout=0.2s
}

# bats test_tags=long
@test "two tasks fail, one after the other" {
  row 8 "$r 5) exit 3;; 1) sleep 0.4; exit 9;; esac" 9 0 1 1 3 -- -o exit-timeout=none
  row 8 "$r 0) exit 3;; 7) sleep 0.4; exit 9;; esac" 9 3 1 3 3 -- -o exit-timeout=none
}

# bats test_tags=long
@test "no task can be started" {
  for tasks in 4 40; do
    write_nodes 1 $tasks
    write_jobspec $tasks no-such-command
    for policy in max:127 main:127 all:1 main+all:127 first:127; do
      write_nodes 1 $tasks
      run -"${policy#*:}" launch -R R.json -o cpu-affinity=off --local=1 --exit-policy="${policy%:*}"
      write_nodes 4 $((tasks / 4))
      run -"${policy#*:}" launch -R R.json -o cpu-affinity=off --local=4 --exit-policy="${policy%:*}"
    done
  done
}

# bats test_tags=long
@test "shells are lost, and the job goes on" {
  write_nodes 4 1
  for ranks in 2 "2|3"; do # an inner shell without these ranks
    write_jobspec 4 sh -c "touch started.\$FLUX_TASK_RANK; $r $ranks) until [ -e started.0 -a -e started.1 ]; do sleep 0.02; done; kill -KILL \$PPID;; esac; sleep 0.5"
    for policy in max:1 main:0 all:1 main+all:1 first:1; do
      launch -R R.json -o cpu-affinity=off --local=4 -o tolerate-loss -o lost-after=2s -o "exit-policy=${policy%:*}" 2>"err.$policy" &
      jobs[$!]=$policy
    done
    for pid in "${!jobs[@]}"; do
      policy=${jobs[pid]}
      code=0
      wait "$pid" || code=$?
      [ "$code" -eq "${policy#*:}" ] || { echo "$ranks $policy: $code: $(cat "err.$policy")"; return 1; }
    done
    jobs=()
    rm -f started.*
  done
}

# bats test_tags=long
@test "a job that is cancelled from outside has the signal's code, whatever the policy" {
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    write_jobspec 4 sh -c 'touch started.$FLUX_TASK_RANK; exec sleep 30'
    for policy in max main all main+all first; do
      for signal in TERM:143 HUP:129 QUIT:131; do
        [ "$signal" = TERM:143 ] || [ "$policy" = all ] || continue
        rm -f started.*
        start --local=$shells -o "exit-policy=$policy" -o exit-on-error 2>err &
        wait_until all_started
        sleep 0.05
        kill -"${signal%:*}" $!
        code=0
        wait $! || code=$?
        [ "$code" -eq "${signal#*:}" ] || { echo "$policy, SIG$signal, $shells shells: $code: $(cat err)"; return 1; }
      done
    done
  done
}

# bats test_tags=long
@test "a second Ctrl-C gives 130, whatever the policy" {
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    write_jobspec 4 sh -c 'trap "" INT; touch started.$FLUX_TASK_RANK; sleep 30; sleep 30'
    for policy in max main all main+all first; do
      rm -f started.*
      start --local=$shells -o "exit-policy=$policy" -o kill-timeout=0.2s 2>err &
      wait_until all_started
      sleep 0.1
      kill -INT $!
      sleep 0.2
      kill -INT $!
      code=0
      wait $! || code=$?
      [ "$code" -eq 130 ] || { echo "$policy, $shells shells: $code: $(cat err)"; return 1; }
    done
  done
}

# bats test_tags=long
@test "a second SIGTERM, SIGHUP or SIGQUIT to the launcher is the job's code, too" {
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    write_jobspec 4 sh -c 'trap "" TERM HUP QUIT; touch started.$FLUX_TASK_RANK; sleep 30; sleep 30'
    for signal in TERM:143 HUP:129 QUIT:131; do
      rm -f started.* r.json
      start --local=$shells --arity=2 -o exit-policy=main -o kill-timeout=0.2s --report=r.json 2>err &
      wait_until all_started
      for _ in 1 2; do
        sleep 0.2
        kill -"${signal%:*}" $!
      done
      code=0
      wait $! || code=$?
      [ "$code" -eq "${signal#*:}" ] || { echo "SIG$signal, $shells shells: $code: $(cat err)"; return 1; }
      [ "$(jq .exit.code r.json)" -eq "$code" ] || { cat r.json; return 1; }
      grep -q "error: second SIG${signal%:*}: ending the job" err || { cat err; return 1; }
    done
  done
}

# bats test_tags=long
@test "a signal that is sent to some tasks is no such end" {
  row 4 "$r 1) kill -TERM \$\$;; esac" 143 0 1 1 143 -- -o exit-timeout=none
}

# bats test_tags=long
@test "exit codes that count as success" {
  row 4 "$r 2) exit 77;; esac" 0 0 0 0 0 -- -o exit-ok=77
  row 4 "$r 2) exit 77;; 3) exit 65;; esac" 0 0 0 0 0 -- -o exit-ok=64-78 -o exit-on-error
  row 4 "$r 0) exit 77;; 3) sleep 0.1; exit 5;; esac" 5 0 1 1 5 -- -o exit-ok=77
}

# bats test_tags=long
@test "the main rank: exit-main" {
  row 4 "$r 2) exit 7;; esac" 7 7 1 7 7 -- -o exit-main=2
  row 4 "$r 2) exit 7;; esac" 7 0 1 1 7 -- -o exit-main=1
}

# bats test_tags=long
@test "the main rank: the first task on the host of Backend.AI's main role" {
  script="$r 2) exit 7;; esac"
  write_nodes 4 1
  write_jobspec 4 sh -c "$script"
  main() { # EXPECTED ROLE HOST: as variables of the job, then of the launcher
    local where
    environment=$(jq -n --arg role "$2" --arg host "$3" '{PATH: "/usr/bin:/bin", BACKENDAI_CLUSTER_ROLE: $role, BACKENDAI_CLUSTER_HOST: $host}') \
      write_jobspec 4 sh -c "$script"
    run launch -R R.json -o cpu-affinity=off --local=4 -o exit-policy=main
    [ "$status" -eq "$1" ] || { echo "in the job: $2 $3: $status: $output"; return 1; }
    write_jobspec 4 sh -c "$script"
    BACKENDAI_CLUSTER_ROLE=$2 BACKENDAI_CLUSTER_HOST=$3 run launch -R R.json -o cpu-affinity=off --local=4 -o exit-policy=main
    [ "$status" -eq "$1" ] || { echo "of the launcher: $2 $3: $status: $output"; return 1; }
  }
  main 7 main node2
  main 7 MAIN NODE2.site.example
  main 0 sub node2
  main 0 main node1
  main 0 main elsewhere
  [[ $output == *"BACKENDAI_CLUSTER_HOST: 'elsewhere' is no host of this job, so the main rank is 0"* ]]
  [ "$(grep -c BACKENDAI <<<"$output")" -eq 1 ]
}

# bats test_tags=long
@test "launch's own options, and those that contradict each other" {
  write_nodes 4 1
  write_jobspec 4 sh -c "$r 2) exit 7;; esac"
  code_of() { run launch -R R.json -o cpu-affinity=off --local=4 "$@"; }
  for words in 7: 1:--require-all-success 1:--check-all-nodes 7:-S 7:--any-failure 0:--exit-policy=main "7:--exit-policy=main --exit-main=2" \
    0:--exit-ok=7 "7:-S -o exit-policy=max" "1:--exit-policy=all --require-all-success"; do
    # shellcheck disable=SC2086
    code_of ${words#*:}
    [ "$status" -eq "${words%%:*}" ] || { echo "$words: $status: $output"; return 1; }
  done
  code_of --exit-policy=all --any-failure
  run_said 2 "exit-policy=all and --any-failure contradict each other"
  code_of --require-all-success --check-all-nodes
  run_said 2 "require-all-success and --check-all-nodes contradict each other"
  code_of -S -o exit-policy=main
  run_said 2 "any-failure and -o exit-policy=main contradict each other"
  for words in "--exit-ok=3 -o exit-ok=4" "--exit-main=1 -o exit-main=2" "--fail-fast -o exit-on-error=2" "--fail-fast=25% -o exit-on-error.when=50%" \
    "--fail-fast=25% -o exit-on-error=50%"; do
    # shellcheck disable=SC2086
    code_of $words
    run_said 2 "contradict each other: give one of them" "${words%% *}" "${words#* }"
  done
  for words in "0:--exit-ok=7 -o exit-ok=7" "7:--fail-fast -o exit-on-error=on" "7:--fail-fast -o exit-on-error.codes=7"; do
    # shellcheck disable=SC2086
    code_of ${words#*:}
    [ "$status" -eq "${words%%:*}" ] || { echo "$words: $status: $output"; return 1; }
  done
}

# bats test_tags=long
@test "what is wrong on the command line of nacre run and nacre launch is a usage error, in one line" {
  write_nodes 1 1
  write_jobspec 1 touch ran
  wrong() { # OPTION WHAT...
    for verb in run launch; do
      local words=(touch ran)
      [ "$verb" = run ] || words=(-j jobspec.json -R R.json)
      run "$NACRE_BUILD_DIR/nacre" $verb --shell="$NACRE_SHELL" --local=1 "$1" "${words[@]}"
      run_said 2 "${@:2}"
      [ "$(grep -cv "^Try 'nacre $verb --help'" <<<"$output")" -eq 1 ] || { echo "$output"; return 1; }
      [ ! -e ran ]
    done
  }
  wrong --exit-policy=least "exit-policy" "least"
  wrong --exit-main=-1 "exit-main" "-1"
  wrong --exit-ok=0 "exit-ok: expected exit codes, 1 to 255"
  wrong --exit-ok=9-3 "exit-ok: expected exit codes, 1 to 255"
  wrong --fail-fast=many "fail-fast: expected on or off, a number of tasks, a share of the job's"
  wrong --fail-fast=101% "fail-fast: expected" '"101%"'
  wrong --notify=77 "notify: descriptor 77 is not open"
  for limit in soon -1 nan 1e400; do
    run "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --local=1 --time-limit=$limit touch ran
    run_said 2 "nacre run: --time-limit: expected minutes, or a time as 90s, 15m, 1.5h or 1:30:00, got '$limit'"
    [ ! -e ran ]
  done
}

@test "a policy, a rank or a code that is wrong is named, with what was expected" {
  write_nodes 2 1
  write_jobspec 2 touch ran
  wrong() { # OPTION WHAT...
    run launch -R R.json -o cpu-affinity=off --local=2 -o "$1"
    run_said 1 "${@:2}"
    [ "${#lines[@]}" -eq 1 ]
    [ ! -e ran ]
  }
  wrong exit-policy=least "exit-policy: expected max, main, all, main+all or first, got 'least'"
  wrong exit-main=2 "exit-main: expected an integer from 0 to 1, got 2"
  wrong exit-main=x "exit-main: expected"
  wrong exit-ok=0 "exit-ok: expected exit codes, 1 to 255"
  wrong exit-ok=256 "exit-ok: expected exit codes, 1 to 255"
  wrong exit-ok=9-3 "exit-ok: expected exit codes, 1 to 255"
}

@test "tasks that fail are named with their hosts, the first ones at once, while the others run" {
  for shells in 1 4; do
    write_nodes $shells $((8 / shells))
    : >err.$shells
    write_jobspec 8 sh -c "$r 1|4|5) exit 3;; 7) kill -SEGV \$\$;; esac; until grep -q 'code 3' err.$shells; do sleep 0.02; done"
    code=0
    launch -R R.json -o cpu-affinity=off --local=$shells -o rlimit.core=0 -o exit-report=line 2>err.$shells || code=$?
    [ "$code" -eq 139 ]
  done
  diff -u <(named err.1) - <<'END'
1 on node0: exit code 3
4 on node0: exit code 3
5 on node0: exit code 3
7 on node0: killed by SIGSEGV
END
  diff -u <(named err.4) - <<'END'
1 on node0: exit code 3
4 on node2: exit code 3
5 on node2: exit code 3
7 on node3: killed by SIGSEGV
END
}

@test "of a task that ends the job one line is enough, and those that it ends are not named" {
  both 4 "$r 2) exit 3;; esac; exec sleep 30" -o exit-on-error -o exit-report=line
  [ "${codes[*]}" = "3 3" ]
  diff -u err - <<'END'
nacre-shell[0]: error: task 2 on node0 exited with code 3
nacre-shell[2]: error: task 2 on node2 exited with code 3
END
}

@test "exit-report=off: no task is named" {
  both 4 "$r 2) exit 3;; esac" -o exit-report=off
  [ "${codes[*]}" = "3 3" ]
  [ ! -s err ]
}

@test "what exit-ok takes as success is not named" {
  both 4 "$r 2) exit 77;; esac" -o exit-ok=77
  [ "${codes[*]}" = "0 0" ]
  [ ! -s err ]
}

# bats test_tags=long
@test "a job that is over its time: its tasks count as 124, whatever they make of it" {
  row 4 "trap 'exit 0' TERM; sleep 30 & wait" 124 124 1 124 124 -- -o time-limit=0.5s
  row 4 "$r 0) exit 0;; 1) trap '' TERM;; esac; sleep 30; sleep 30" 124 0 1 1 124 -- -o time-limit=0.5s -o kill-timeout=0.3s -o exit-timeout=none
  both 4 "$r 1) exit 0;; esac; exec sleep 30" -o time-limit=0.5s -o exit-report=line
  [ "${codes[*]}" = "124 124" ]
  diff -u err - <<'END'
nacre-shell[0]: error: timeout: time-limit: 500ms are over, and these tasks still run: 0,2-3
nacre-shell[0]: error: timeout: time-limit: 500ms are over, and these tasks still run: 0,2-3
END
}

# bats test_tags=long
@test "a job's time is R's, too, or the jobspec's" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'exec sleep 30'
  jq ".execution.expiration = $(date +%s) + 1" R.json >later.json
  run launch -R later.json -o cpu-affinity=off --local=2 -o exit-report=line
  [ "$status" -eq 124 ]
  [ "$output" = "nacre-shell[0]: error: timeout: R has expired, and these tasks still run: 0-1" ]
  jq '.attributes.system.duration = 0.5' jobspec.json >short.json && mv short.json jobspec.json
  run launch -R R.json -o cpu-affinity=off --local=2 -o exit-report=line
  [ "$status" -eq 124 ]
  [ "$output" = "nacre-shell[0]: error: timeout: the jobspec's duration of 500ms is over, and these tasks still run: 0-1" ]
  run launch -R R.json -o cpu-affinity=off --local=2 -o time-limit=soon
  [ "$status" -eq 1 ]
  [[ $output == *"time-limit"*"soon"* ]]
}

# bats test_tags=long
@test "what a task has written comes out before its failure is named" {
  write_jobspec 4 sh -c "$r 2) yes x | head -c 300000 >&2; echo last >&2; exit 3;; esac"
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    { code=0; launch -R R.json -o cpu-affinity=off --local=$shells 2>&1 || code=$?; echo $code >code; } | { sleep 0.5; cat >out; }
    [ "$(cat code)" -eq 3 ]
    [ "$(grep -c '^x$' out)" -eq 150000 ]
    grep -A1 '^last$' out | grep -q 'task 2 on .*: exit code 3' || { tail -3 out; return 1; }
  done
}
