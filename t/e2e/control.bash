# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # bats sets status, output, lines
#
# Jobs that the list of jobs has, for the tests of what sees and reaches them: after lib.bash and nodes.bash.

front=$NACRE_BUILD_DIR/nacre

teardown() {
  if [[ -f leader ]]; then kill -CONT "$(<leader)" 2>/dev/null || :; fi
  for each in "${launcher-}" "${second-}" "${waiting-}" "${clients-}"; do # what a test that has failed has left
    [[ -z $each ]] || kill -KILL "$each" 2>/dev/null || :
  done
  cd /
  umount "$work/home" 2>/dev/null || :
  rm -rf --one-file-system "$work"
}

listed() { [ "$("$front" jobs -q "$@" | wc -l)" -eq "${count:-1}" ]; }

# Starts a job of $1 shells with $2 tasks each of the sh script $3, with the options behind, and waits until it is listed.
# Its launcher is $launcher, its id $id, its leader's process is in the file leader.
start_job() {
  local shells=$1 tasks=$2 script=$3
  shift 3
  write_nodes "$shells" "$tasks"
  write_jobspec $((shells * tasks)) sh -c "$script"
  launch -R R.json -o cpu-affinity=off --local="$shells" "$@" >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  "$front" jobs --json | jq .pid >leader
}

ends_with() { # code
  local code=0
  wait "$launcher" || code=$?
  [ "$code" -eq "$1" ] || { echo "exit code $code, not $1; it said:"; cat err; return 1; }
}
