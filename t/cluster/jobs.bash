# SPDX-License-Identifier: Apache-2.0
#
# Jobs over the shells of four hosts.
# shellcheck disable=SC2119,SC2120,SC2154 # tests pass options, and set variables

declare -F name_cluster >/dev/null || load lib.bash

# A job of $1 tasks on each of the four hosts, in this folder: $2... is the command; $environment has more
# environment, as JSON.
write_job() {
  local each=$1
  shift
  jq -n --argjson last $((each - 1)) '{version: 1, execution: {
    R_lite: [{rank: "0-3", children: {core: (if $last == 0 then "0" else "0-\($last)" end)}}],
    nodelist: ["node[0-3]"], starttime: 0, expiration: 0}}' >R.json
  jq -n --arg cwd "$PWD" --argjson n $((each * 4)) --argjson more "${environment:-"{}"}" '{version: 1,
    resources: [{type: "slot", count: $n, label: "task", with: [{type: "core", count: 1}]}],
    tasks: [{command: $ARGS.positional, slot: "task", count: {per_slot: 1}}],
    attributes: {system: {duration: 0, cwd: $cwd, environment: ({PATH: "/usr/bin:/bin"} + $more)}}}' --args -- "$@" >jobspec.json
}

job_options=(-j jobspec.json -R R.json -o cpu-affinity=off)

# HOST VERB...: runs nacre there. Then: whether it lists one job, and whether the job $job ends with a code.
nacre() { on "$1" "$NACRE_BUILD_DIR/nacre" "${@:2}"; }
listed() { [ "$(nacre "$1" jobs -q | wc -l)" -eq 1 ]; }
ends_with() { # code
  local code=0
  wait "$job" || code=$?
  [ "$code" -eq "$1" ] || { echo "exit code $code, not $1: $(<said)"; return 1; }
}

# HOST OPTION...: runs nacre launch there. Its shells have $join_timeout seconds to join (100), as the machine may
# be busy.
launch() {
  on "$1" "$NACRE_BUILD_DIR/nacre" launch --hosts="node[0-3]" --shell="$NACRE_SHELL" --timeout="${join_timeout:-100}" \
    "${job_options[@]}" "${@:2}"
}

# OPTION...: the shells on all hosts, started by srun on node0.
shells_by_srun() { slurm node0 -N4 --ntasks-per-node=1 --mpi=pmi2 "$NACRE_SHELL" "${job_options[@]}" "$@"; }

# A job over all hosts whose tasks end with 0 once there is the file go. All tasks have started.
write_waiters() {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK' "$work"
}
have_started() { test -e started.0 -a -e started.1 -a -e started.2 -a -e started.3; }

# Starts the written job by srun, on all hosts, and waits until its tasks run and it is listed.
start_by_srun() {
  limit=150 shells_by_srun >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node0
}

# Starts a job over all hosts whose tasks sleep, on the launcher's host $1, and waits until all of them do. Its
# process is $job; its output goes to the file said.
start_sleepers() {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; exec sleep 76543' "$work"
  limit=150 launch "$@" >said 2>&1 &
  job=$!
  wait_until have_started
}

no_tasks() { # no task runs on these hosts
  local host
  for host; do none_on "$host" '^sleep 76543' || return 1; done
}

# The job fails, and has printed $1.
job_fails_with() {
  local code=0
  wait "$job" || code=$?
  # 124 and 137: the job had to be killed.
  if [[ $code == @(0|124|137) ]] || ! grep -q -- "$1" said; then
    echo "exit code $code: $(cat said)"
    return 1
  fi
}
