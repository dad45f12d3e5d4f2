# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For tests of how jobs end.

declare -F write_nodes >/dev/null || load nodes.bash

# The beginning of a script whose tasks differ.
# shellcheck disable=SC2034
r='case $FLUX_TASK_RANK in'

# Runs a job of $1 tasks of the sh script $2, with the options behind, on one shell and on four: exit codes in ${codes[@]}, standard
# error of both in err.
both() {
  local tasks=$1 script=$2
  shift 2
  codes=()
  : >err
  write_nodes 1 "$tasks"
  write_jobspec "$tasks" sh -c "$script"
  launch -R R.json -o cpu-affinity=off --local=1 "$@" 2>>err && codes+=(0) || codes+=($?)
  write_nodes 4 $(((tasks + 3) / 4))
  launch -R R.json -o cpu-affinity=off --local=4 --arity=2 "$@" 2>>err && codes+=(0) || codes+=($?)
}
