#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The job's exit code by its policy over the shells of four hosts, each started by ssh: the rows of the table in nacre-exits(7), with the
# cause on the leader's host and on another. On one host: t/e2e/exits.bats.
load jobs.bash

cluster=(4)
policies=(max main all main+all first)

r='case $FLUX_TASK_RANK in'

# Starts a job of the sh script $1, a task on each host, once with each policy; the other arguments are options of
# the launcher. The tasks of each job run in a folder with the policy's name.
start_all() {
  local script=$1 policy
  shift
  pids=()
  for policy in "${policies[@]}"; do
    mkdir -p "$policy"
    write_job 1 sh -c "cd $PWD/$policy && touch started.\$FLUX_TASK_RANK; $script"
    mv jobspec.json R.json "$policy/"
    (cd "$policy" && limit=150 launch node3 -o "exit-policy=$policy" "$@" >said 2>&1 3>&-) &
    pids+=($!)
  done
}

# The started jobs have the exit codes $1..., in the order of the policies.
have_codes() {
  local policy index=0 code wrong=0
  for policy in "${policies[@]}"; do
    code=0
    wait "${pids[index]}" || code=$?
    ((++index))
    [ "$code" -eq "${!index}" ] || { echo "$policy: exit code $code, expected ${!index}: $(cat "$policy/said")"; wrong=1; }
  done
  return $wrong
}

# row SCRIPT CODE... [-- OPTION...]
row() {
  local script=$1 codes=("${@:2:5}")
  shift 6
  [ "${1:-}" != -- ] || shift
  start_all "$script" "$@"
  have_codes "${codes[@]}"
  rm -rf -- "${policies[@]}"
}

# The launcher of a policy gets the signal $1.
signal_launcher() {
  "$vcluster" exec node3 pkill -"$1" -f "^$NACRE_BUILD_DIR/nacre launch .*exit-policy=${2/+/[+]}( |\$)"
}

all_started() {
  local policy
  for policy in "${policies[@]}"; do
    [ -e "$policy/started.0" ] && [ -e "$policy/started.1" ] && [ -e "$policy/started.2" ] && [ -e "$policy/started.3" ] || return 1
  done
}

@test "all succeed" {
  row true 0 0 0 0 0
  nothing_left
}

@test "one task crashes, and ends the others" {
  row "$r 1) sleep 0.3; kill -SEGV \$\$;; esac; exec sleep 76543" 139 1 1 1 139 -- --fail-fast -o rlimit.core=0
  row "$r 0) sleep 0.3; kill -SEGV \$\$;; esac; exec sleep 76543" 139 139 1 139 139 -- --fail-fast -o rlimit.core=0
  row "$r 2) sleep 0.3; kill -SEGV \$\$;; esac; exec sleep 76543" 139 1 1 1 139 -- -o exit-timeout=1s -o rlimit.core=0
  # In a tree: on the shell between two others, and on the last one.
  row "$r 1) sleep 0.3; kill -SEGV \$\$;; esac; exec sleep 76543" 139 1 1 1 139 -- --fail-fast -o rlimit.core=0 --arity=2
  row "$r 3) sleep 0.3; kill -SEGV \$\$;; esac; exec sleep 76543" 139 1 1 1 139 -- --fail-fast -o rlimit.core=0 --arity=2
  nothing_left
}

# The job of eight tasks has ended with 139, and its report in the file said names rank $1 on host $2 as the cause,
# and the other tasks as $3.
names_the_cause() {
  [ "$code" -eq 139 ] || { echo "exit code $code: $(cat said)"; return 1; }
  local text
  for text in "rank $1 on $2 (pid " "killed by SIGSEGV" "| it is broken" "nacre: SIGSEGV: $1 | $3" "exit code 139 (policy max: the cause)"; do
    grep -qF -- "$text" said || { echo "no '$text': $(cat said)"; return 1; }
  done
}

@test "one of eight tasks dies while the others stand still: the report names its rank and host, whatever ends the job" {
  for rank in 0 3 7; do
    others=$(case $rank in 0) echo 1-7 ;; 3) echo 0-2,4-7 ;; 7) echo 0-6 ;; esac)
    write_job 2 sh -c "cd $PWD; touch started.\$FLUX_TASK_RANK; if [ \$FLUX_TASK_RANK = $rank ]; then
      until [ \$(ls started.* | wc -l) = 8 ]; do sleep 0.2; done; echo it is broken >&2; kill -SEGV \$\$; fi; exec sleep 76543"
    for option in exit-timeout=1s exit-on-error; do
      rm -f started.*
      code=0
      limit=150 launch node3 --arity=2 -o rlimit.core=0 -o $option >said 2>&1 || code=$?
      names_the_cause $rank node$((rank / 2)) "ended because of it: $others"
    done
    rm -f started.*
    limit=150 launch node3 --arity=2 -o rlimit.core=0 -o exit-timeout=none -o exit-policy=max >said 2>&1 3>&- &
    wait_until grep -q 'killed by SIGSEGV' said
    signal_launcher INT max
    code=0
    wait $! || code=$?
    names_the_cause $rank node$((rank / 2)) "SIGINT: $others"
  done
  nothing_left
}

@test "two tasks fail, one after the other" {
  row "$r 3) exit 3;; 1) until [ -e go ]; do sleep 0.1; done; exit 9;; 0|2) sleep 2; touch go;; esac" 9 0 1 1 3
  row "$r 0) exit 3;; 1) until [ -e go ]; do sleep 0.1; done; exit 9;; 2|3) sleep 2; touch go;; esac" 9 3 1 3 3
  nothing_left
}

@test "the job is over its time" {
  row 'exec sleep 76543' 124 124 1 124 124 -- -o time-limit=1s
  row "trap 'exit 0' TERM; sleep 76543 & wait" 124 124 1 124 124 -- -o time-limit=1s
  nothing_left
}

@test "no task can be started" {
  row true 127 127 1 127 127 -- -o 'wrap=[{"command": ["/no/such/program"]}]'
  nothing_left
}

@test "two hosts are lost, and the job goes on" {
  row "$r 2|3) until [ -e started.0 -a -e started.1 -a -e started.2 -a -e started.3 ]; do sleep 0.1; done; sleep 1; kill -KILL \$PPID;; esac; sleep 4" \
    1 0 1 1 1 -- -o tolerate-loss -o lost-after=5s
  nothing_left
}

@test "a job that is cancelled from outside has the signal's code" {
  start_all 'exec sleep 76543'
  wait_until all_started
  sleep 1
  for policy in "${policies[@]}"; do signal_launcher TERM "$policy"; done
  have_codes 143 143 143 143 143
  nothing_left
}

@test "a second Ctrl-C gives 130, and so does the report" {
  start_all "trap '' INT; sleep 76543; sleep 76543" -o kill-timeout=0.5s --report=r.json
  wait_until all_started
  sleep 1
  for policy in "${policies[@]}"; do
    signal_launcher INT "$policy"
    sleep 0.3
    signal_launcher INT "$policy"
  done
  have_codes 130 130 130 130 130
  local wrong=0
  for policy in "${policies[@]}"; do
    [ "$(jq .exit.code "$policy/r.json")" = 130 ] || { echo "$policy: $(jq -c .exit "$policy/r.json")"; wrong=1; }
  done
  [ "$wrong" -eq 0 ]
  nothing_left
}

@test "exit codes that count as success" {
  row "$r 2) exit 77;; esac" 0 0 0 0 0 -- --exit-ok=77
  row "$r 0) exit 77;; 3) sleep 1; exit 5;; esac" 5 0 1 1 5 -- --exit-ok=77
  nothing_left
}
