# SPDX-License-Identifier: Apache-2.0
#
# For the tests on several hosts. A suite says what it wants before its tests, as arguments of `vcluster up`:
#   cluster=(4 --slurm)
# Its cluster is up before the first test and gone after the last one, even if bats is killed. The hosts share the
# machine's files, so what a test writes goes below $work; /tmp, /run and /dev are each host's own, but for the build
# folder and the sources, which all have at their place.
# shellcheck disable=SC2154 # bats sets status, output, lines; the suite sets cluster

bats_require_minimum_version 1.5.0
. "$NACRE_SOURCE_DIR/t/kit/tests.bash"

vcluster=$NACRE_SOURCE_DIR/t/cluster/vcluster

# A name for a suite and a build folder: runs from other folders have other clusters.
name_cluster() {
  local suite sum
  suite=$(basename "$BATS_TEST_FILENAME" .bats)
  sum=$(cksum <<<"$NACRE_BUILD_DIR")
  export VCLUSTER_NAME=t${sum%% *}-$suite VCLUSTER_STATE=$NACRE_BUILD_DIR/t/cluster/hosts
}

setup_file() { start_cluster; }
teardown_file() { end_cluster; }

start_cluster() {
  : "${NACRE_BUILD_DIR:?the build folder}" "${NACRE_SOURCE_DIR:?the top of the source tree}" "${NACRE_SHELL:?path of nacre-shell}"
  name_cluster
  mkdir -p /run/lock
  exec {lock}>"/run/lock/$VCLUSTER_NAME"
  export lock
  flock --wait 240 "$lock" || { echo "another run of this suite has held /run/lock/$VCLUSTER_NAME for 240 s"; return 1; }
  "$vcluster" down # what an earlier run has left
  timeout -k 10 120 "$vcluster" up "${cluster[@]}" --share "$NACRE_BUILD_DIR" --share "$NACRE_SOURCE_DIR" --while $$ || {
    local code=$?
    echo "vcluster up ${cluster[*]}: exit code $code"
    "$vcluster" down
    return 1
  }
}

end_cluster() {
  "$vcluster" down
  rmdir "$VCLUSTER_STATE" 2>/dev/null || :
}

setup() {
  exec {lock}>&- # leftovers of a test must not hold the lock
  work=$VCLUSTER_STATE/$VCLUSTER_NAME/work/$BATS_TEST_NUMBER
  mkdir -p "$work"
  cd "$work" || return
  export NACRE_JOBS_DIR=$work/jobs
  exec </dev/null # a terminal would stop a background process that reads it
  mapfile -t nodes < <("$vcluster" status | grep -o '^node[0-9]*')
}

teardown() {
  cd /
  jobs -p | xargs -r kill -KILL 2>/dev/null || : # leftovers of a failed test
}

# on HOST CMD [ARG...]: runs CMD there, and ends it after $limit seconds (60): exit code 124, or 137 if it needed
# SIGKILL. A command that may take longer, or has to end sooner, has its own limit: limit=100 on ...
on() {
  local host=$1
  shift
  "$vcluster" exec "$host" timeout --kill-after=5 "${limit:-60}" "$@"
}

# slurm HOST OPTION... PROGRAM...: runs srun there, which prints only errors. srun also has the time limit, as it
# can hang for good.
slurm() {
  local host=$1
  shift
  on "$host" srun --quiet --time=2 "$@"
}

# build_mpi_programs LIBRARY NAME...: programs of t/e2e/mpi for mpich or openmpi, as all hosts see them: $programs/NAME.LIBRARY.
# Over several hosts MPICH's need LD_PRELOAD=$programs/ucx_leave.so.
build_mpi_programs() {
  export programs=$VCLUSTER_STATE/$VCLUSTER_NAME/programs
  local library=$1 name
  shift
  mkdir -p "$programs"
  for name; do
    "mpicc.$library" -Wall -Wextra -O1 -o "$programs/$name.$library" "$NACRE_SOURCE_DIR/t/e2e/mpi/$name.c" || return
  done
  [ "$library" != mpich ] || cc -shared -fPIC -o "$programs/ucx_leave.so" "$NACRE_SOURCE_DIR/t/cluster/ucx_leave.c"
}

# The processes of HOST whose command line matches PATTERN, a line each: id, command line.
processes_on() {
  "$vcluster" exec "$1" pgrep -af -- "$2" || [ $? -eq 1 ]
}

runs_on() { [ -n "$(processes_on "$@")" ]; }
none_on() { [ -z "$(processes_on "$1" "$2")" ]; }

# The processes of HOST that are not of the cluster itself.
strays_on() {
  "$vcluster" exec "$1" ps -e -o pid=,args= |
    grep -vE '^ *1 |sshd: .*\[listener\]|^ *[0-9]+ (/[^ ]*/)?(munged|slurmd|slurmctld|slurmctld: slurmscriptd)( |$)| ps -e -o ' || :
}

no_strays() {
  local host
  for host in "${nodes[@]}"; do [ -z "$(strays_on "$host")" ] || return 1; done
}

# For the end of a test: no running host has processes other than the cluster's own.
nothing_left() {
  wait_until no_strays && return
  local host
  for host in "${nodes[@]}"; do strays_on "$host" | sed "s/^/left on $host: /"; done
  return 1
}

# The run succeeded, and printed exactly these lines, in any order.
said_lines() {
  local expected
  expected=$(printf '%s\n' "$@" | sort)
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$(sort <<<"$output")" = "$expected" ] || { echo "said: $output"; return 1; }
}
