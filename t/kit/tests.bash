# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # bats sets status, output
#
# What the tests on one host (t/e2e) and on several (t/cluster) have in common: loaded by their lib.bash.

# read_uptime VARIABLE: in ms; does not jump with the wall clock.
read_uptime() {
  local uptime_seconds
  read -r uptime_seconds _ </proc/uptime
  printf -v "$1" %s "${uptime_seconds/./}0"
}

uptime_ms() {
  local uptime
  read_uptime uptime
  echo "$uptime"
}

# pause SECONDS: without a process, which would take the processor from what the test waits for.
pause() {
  local never=${BATS_FILE_TMPDIR:?}/never-written
  [[ -p $never ]] || mkfifo "$never" 2>/dev/null || [[ -p $never ]]
  read -rt "$1" <>"$never" || :
}

# wait_until [SECONDS] CMD...: waits until CMD succeeds, at most SECONDS (120). A machine that stands still gets
# more time, once. It looks less and less often, as CMD takes the processor from what the test waits for.
wait_until() {
  local seconds=120 now last deadline stood_still=0 pauses=(0.02 0.02 0.03 0.04 0.05 0.06 0.08 0.1 0.12 0.15)
  if [[ $1 =~ ^[0-9]+$ ]]; then
    seconds=$1
    shift
  fi
  read_uptime last
  deadline=$((last + seconds * 1000))
  until "$@"; do
    read_uptime now
    ((stood_still || now - last < 5000)) || { stood_still=1 && deadline=$((deadline + now - last)); }
    last=$now
    ((now < deadline)) || { echo "not true within $seconds s: $*"; return 1; }
    pause "${pauses[0]}"
    ((${#pauses[@]} == 1)) || pauses=("${pauses[@]:1}")
  done
}

# Waits for all that the test has started in the background. A bare `wait` would also wait for bats, which counts
# down the time of the test (BATS_TEST_TIMEOUT) in a job of the same shell: $bats_jobs, as setup has found them.
wait_for_jobs() {
  local pid code=0
  for pid in $(jobs -p); do
    [[ " ${bats_jobs//$'\n'/ } " == *" $pid "* ]] || wait "$pid" || code=$?
  done
  return $code
}

# installable FOLDER: makes FOLDER usable for `cmake --install` in place of the build folder, into which that would
# write a list of the installed files: the build folder may belong to another user.
installable() {
  mkdir -p "$1"
  sed "s|\"$NACRE_BUILD_DIR/\(\\\${CMAKE_INSTALL_MANIFEST}\)\"|\"$1/\\1\"|" "$NACRE_BUILD_DIR/cmake_install.cmake" >"$1/cmake_install.cmake"
}

# For teardown: ends processes that a failed test has left in its folder $work, as they would keep the pipe that
# bats reads. If setup has failed there may be no such folder, and nothing is ended.
end_what_is_left() {
  [[ -z ${BATS_TEST_COMPLETED-} && -n ${work-} ]] || return 0
  cd /
  local pid
  for pid in $({ grep -lsz "^NACRE_JOBS_DIR=$work/" /proc/[0-9]*/environ; find /proc/[0-9]* -maxdepth 1 -name cwd \( -lname "$work" -o -lname "$work/*" \) 2>/dev/null; } |
    cut -d/ -f3 | sort -u); do
    [[ $pid == "$$" || $pid == "$BASHPID" ]] || kill -KILL "$pid" 2>/dev/null || :
  done
}

# needs_root WHY: skips the test for users other than root; t/kit/left_out names it at the end of `make check`.
needs_root() { ((EUID == 0)) || skip "needs root $1"; }

# The run ended with code $1, and one line has all the other texts in it.
run_said() {
  local code=$1 line text
  shift
  [ "$status" -eq "$code" ] || { echo "exit code $status, not $code: $output"; return 1; }
  line=$(grep -F "$1" <<<"$output") || { echo "no '$1' in: $output"; return 1; }
  for text; do
    [[ $line == *"$text"* ]] || { echo "no '$text' in: $line"; return 1; }
  done
}
