#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# cgroup=task: each task in a cgroup of its own, by which it is measured.
load lib.bash

# A cgroup of version 2 for the test, below this process's: $cgroup.
setup_cgroup() {
  local mount path
  mount=$(awk '$0 ~ / - cgroup2 / {print $5; exit}' /proc/self/mountinfo)
  path=$(sed -n 's/^0:://p' /proc/self/cgroup)
  cgroup=${mount}${path%/}/nacre-test-$$
  if [ -z "$mount" ] || ! mkdir "$cgroup" 2>/dev/null; then
    skip "needs root and a cgroup of version 2"
  fi
}

teardown() {
  end_what_is_left
  [ -z "${cgroup:-}" ] || rmdir "$cgroup"
  cd /
  rm -rf "$work"
}

# Runs the job in that cgroup.
run_there() {
  # shellcheck disable=SC2016 # for the command
  run --separate-stderr sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$cgroup" "${nacre[@]}" "$@"
}

# bats test_tags=root
@test "each task has a cgroup of its own, and none is left" {
  setup_cgroup
  prepare 3 cat /proc/self/cgroup
  run_there -o cgroup=task -o label-io
  [ "$status" -eq 0 ] || { echo "$output$stderr"; return 1; }
  for rank in 0 1 2; do
    grep -qE "^$rank: 0::.*/nacre-test-$$/nacre-[^/]*-0/task-$rank\.1$" <<<"$output" || { echo "$output"; return 1; }
  done
  [ -z "$(find "$cgroup" -mindepth 1 -type d)" ]
}

# bats test_tags=root
@test "cpu time of processes that a task leaves behind is the task's, and they do not keep the cgroup" {
  setup_cgroup
  mkfifo over
  prepare 1 sh -c 'setsid sh -c "i=0; while [ \$i -lt 400000 ]; do i=\$((i + 1)); done; echo >over; exec sleep 600" & read -r line <over'
  run_there -o usage=without
  [ "$status" -eq 0 ]
  run_there -o cgroup=task -o usage=with
  [ "$status" -eq 0 ] || { echo "$output$stderr"; return 1; }
  cat with without
  jq -se '.[0].cgroup == true and .[0].user > 0.05' with
  jq -se '.[0].cgroup == null and .[0].user < 0.05' without
  jq -se --slurpfile other without '.[0].user > 2 * $other[0].user' with
  [ -z "$(find "$cgroup" -mindepth 1 -type d)" ]
}

# bats test_tags=root
@test "a cgroup that is not the user's is named, with the remedy" {
  [ "$(id -u)" -eq 0 ] || skip "needs root and a cgroup of version 2"
  setup_cgroup
  shell=$(copy_for_all "$NACRE_SHELL")
  prepare 1 true
  chmod 644 jobspec.json R.json
  # shellcheck disable=SC2016 # for the command
  run sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$cgroup" setpriv --reuid=65534 --regid=65534 --clear-groups env PATH=/usr/bin:/bin TMPDIR=/tmp \
    "$shell" --standalone -j "$work/jobspec.json" -R "$work/R.json" -o cpu-affinity=off -o cgroup=task
  fails_with 1 "cgroup=task: $cgroup: Permission denied: $cgroup is not delegated to user 65534: start the job in a cgroup that is" "Delegate=yes"
}

@test "other values are refused" {
  prepare 1 true
  run nacre -o cgroup=node
  fails_with 1 'cgroup: expected task or off, got "node"'
}
