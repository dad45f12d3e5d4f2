#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Options of nacre run and nacre launch beside -o: values that both set have to be equal; options that need a value.
load nodes.bash

no_manager=(env -u SLURM_JOB_ID -u SLURM_JOB_NODELIST -u SLURM_NODELIST -u PBS_NODEFILE -u LSB_DJOB_HOSTFILE -u LSB_MCPU_HOSTS
  -u LSB_HOSTS -u OAR_NODEFILE -u PE_HOSTFILE -u COBALT_NODEFILE)
run_job() { "${no_manager[@]}" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" "$@"; }

# WORD OPTION...: the usage error says that WORD and OPTION contradict each other.
contradicts() { # program word option
  [ "$status" -eq 2 ] || { echo "$*: exit code $status: $output"; return 1; }
  [ "${lines[0]}" = "nacre $1: $2 and -o $3 contradict each other: give one of them" ] || { echo "$output"; return 1; }
}

@test "run: an option and -o that set the same to different values are wrong usage" {
  local pair front
  for pair in "--report=a|report=b" "--notify=a|exit-notify=b" "--notify=a|exit-notify.to=b" "--initrc=a|initrc=b" "--output=a|output.stdout.path=b" \
    "--error=a|output.stderr.path=b" "--input=a|input.stdin.path=b" "--input-ranks=0|input.ranks=1" "--taskmap=block|taskmap=cyclic" \
    "--cpu-bind=l3|cpu-affinity=on" "--mem-bind=bind|mem-affinity=off" "--pty=0|pty.ranks=all" "--pty|pty.interactive=off" "--label-io|label-io=off" "--unbuffered|output.stdout.buffer.type=line" "--torch|torch=off" \
    "--oversubscribe|oversubscribe=off" "--time-limit=2|time-limit=3m" "--wrap=time|wrap={\"command\": [\"nice\"]}" "--format=json|output.events=off" \
    "--exit-policy=all|exit-policy=max" "--exit-main=1|exit-main=0" "--exit-ok=7|exit-ok=8" "--fail-fast=2|exit-on-error=3"; do
    front=${pair%%|*}
    run run_job "$front" -o "${pair#*|}" true
    contradicts run "${front%%=time}" "${pair#*|}"
  done
  run run_job -o multi-prog=x -n 2 true : true
  contradicts run "':'" multi-prog=x
}

@test "run: both may have the same value, in whatever form" {
  run run_job --report=a -o report=a --time-limit=2 -o time-limit=120s -l -o label-io=true --fail-fast=1 -o exit-on-error=on \
    -o exit-notify.threshold=2 --notify=n --oversubscribe -o oversubscribe=1 true
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ -s a ]
  [ -s n ]
}

@test "launch: likewise" {
  write_nodes 1 1
  write_jobspec 1 true
  local pair
  for pair in "--report=a|report=b" "--notify=a|exit-notify=b" "--oversubscribe|oversubscribe=off" "--initrc=a|initrc=b" "--format=json|output.events=off" \
    "--exit-policy=all|exit-policy=max" "--fail-fast=2|exit-on-error=3"; do
    run launch --local=1 -R R.json "${pair%%|*}" -o "${pair#*|}"
    contradicts launch "${pair%%|*}" "${pair#*|}"
  done
  run launch --local=1 -R R.json -o cpu-affinity=off --report=a -o report=a
  [ "$status" -eq 0 ]
}

# bats test_tags=long
@test "an option that needs a value is wrong usage without, for run, launch and the shell" {
  write_nodes 1 1
  write_jobspec 1 true
  local name
  for name in time-limit exit-timeout kill-timeout lost-after pmi.hang-report prolog.timeout output.limit output.drain-timeout report exit-notify exit-main \
    exit-ok input.ranks signal.signum rlimit.core attach.scrollback sysmon.period; do
    for program in "run_job true" "launch --local=1 -R R.json" "nacre"; do
      # shellcheck disable=SC2046,SC2086 # several words
      run ${program%% *} -o $name $([[ $program != *\ * ]] || echo "${program#* }")
      [ "$status" -eq 2 ] || { echo "$program $name: $status $output"; return 1; }
      [[ ${lines[0]} == *": -o $name: expected "*": -o $name="* ]] || { echo "$program: $output"; return 1; }
    done
  done
  run run_job -o exit-on-error -o oversubscribe -o verbose=0 true
  [ "$status" -eq 0 ]
}

@test "a number that is out of range, or none, is answered with what is expected" {
  local row words
  for row in "run -n 0 true|--ntasks: expected a number from 1 to 16777216, got '0'" "run -n x true|--ntasks: expected a number from 1 to 16777216, got 'x'" \
    "run --local=-1 true|--local: expected a number from 1 to 4096, got '-1'" "launch --arity=1 -j x|--arity: expected a number from 2 to 1024, got '1'" \
    "run --timeout=0 true|--timeout: expected a number from 0.001 to 86400, got '0'" "top -n 0|--count: expected a number from 1 to 4294967295, got '0'"; do
    read -ra words <<<"${row%%|*}"
    run "$NACRE_BUILD_DIR/nacre" "${words[@]}"
    [ "$status" -eq 2 ]
    [ "${lines[0]}" = "nacre ${words[0]}: ${row#*|}" ] || { echo "$output"; return 1; }
  done
}

@test "run: options of srun, mpiexec and mpirun that mean the same are taken, and others told what they are here" {
  # shellcheck disable=SC2016  # for the tasks
  run run_job -np 3 --label -x HOW=well -D / --export=ALL --time 1:00:00 sh -c 'echo $HOW $PWD $*' sh -np 4 --mca
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(sort <<<"$output")" = $'0: well / -np 4 --mca\n1: well / -np 4 --mca\n2: well / -np 4 --mca' ] || { echo "$output"; return 1; }
  run run_job -np 2 --mca btl self true
  [ "$status" -eq 2 ]
  [ "${lines[0]}" = "nacre run: '--mca' is not known here: --env=OMPI_MCA_NAME=VALUE sets a parameter of Open MPI" ]
  run run_job --bind-to socket true
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == "nacre run: '--bind-to' is not known here: --cpu-bind="* ]]
}

@test "run: an empty value, as of a variable that is not set, is an error" {
  local option tried=0
  for option in $("$NACRE_BUILD_DIR/nacre" run --help | sed -nE 's/^  ((-[A-Za-z]|--[a-z-]+),)*(--[a-z-]+) [^[ -].*/\3/p'); do
    [[ $option != --agent-arg && $option != --srun-arg ]] || continue # whose values are other programs'
    run run_job "$option" "" touch ran
    [ "$status" -ne 0 ] && [ ! -e ran ] || { echo "$option: exit code $status: $output"; return 1; }
    tried=$((tried + 1))
  done
  [ "$tried" -gt 40 ]
}
