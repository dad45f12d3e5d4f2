#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The plugin pmix: what clients of a PMIx server are told and can ask for, what happens to a job when one of them
# ends too early, and Open MPI's programs without mpirun. The programs are in pmix/.
load pmix.bash

setup_file() {
  build_clients calls ends && mpicc.openmpi -Wall -Wextra -o "$BATS_FILE_TMPDIR/mpi" "$NACRE_SOURCE_DIR/t/e2e/pmix/mpi.c"
}

more=()

# Runs the prepared job with the plugin, and the options in `more`.
run_prepared() {
  cat >rc.lua <<'END'
plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }
source (os.getenv ("NACRE_SOURCE_DIR") .. "/etc/lua.d/mpi/openmpi.lua")
END
  run_with_pmix "${nacre[@]}" --initrc=rc.lua -o pmi=pmix "${more[@]}"
}

# A job of 4 tasks of the program $1 of pmix/ with arguments.
run_pmix() {
  local program=$1
  shift
  prepare_marked 4 "$BATS_FILE_TMPDIR/$program" "$@"
  run_prepared
}

run_tolerant() {
  more=(-o fault-tolerance)
  run_pmix "$@"
  more=()
}

each_rank() {
  local rank
  for rank in 0 1 2 3; do echo "rank $rank${1//RANK/$rank}"; done
}

# ---- services ----------------------------------------------------------------

@test "no driver of a device is loaded into the shell; the tasks have hwloc's variables as they were" {
  # hwloc loads them for libpmix; each leaves a file.
  mkdir plugins
  echo '#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { fclose(fopen(NAME, "w")); }' >plugin.c
  for name in opencl other; do cc -DNAME="\"$PWD/$name\"" -shared -fPIC -o "plugins/hwloc_$name.so" plugin.c; done
  export HWLOC_PLUGINS_PATH=$PWD/plugins
  prepare_marked 1 sh -c 'echo "${HWLOC_PLUGINS_BLACKLIST-none}"'
  run_prepared
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$output" = none ] || { echo "$output"; return 1; }
  [[ -e other && ! -e opencl ]]
}

@test "what a client is told about its job" {
  run_pmix calls facts
  says 0 "$(each_rank " of 4: local RANK, node RANK, app 0, universe 4, on node0 of node0 with 4")"
}

@test "put, commit, a fence with data, get" {
  run_pmix calls exchange
  says 0 "$(each_rank ": sum 14")"
}

# bats test_tags=long
@test "a hundred fences" {
  run_pmix calls barriers
  says 0 "$(each_rank ": 100 fences")"
}

# bats test_tags=long
@test "publish, look up, wait, ranges, persistence, unpublish" {
  run_pmix calls names
  says 0 "again: ERR_DUPLICATE_KEY" "mine: secret from 0" "mine, by another: ERR_NOT_FOUND" "never: ERR_TIMEOUT" \
    "once: cake from 0" "twice: ERR_NOT_FOUND" "taken back: ERR_NOT_FOUND" "rank 1: waited: tcp:1 from 0" \
    "rank 2: waited: tcp:1 from 0" "rank 3: waited: tcp:1 from 0"
}

@test "an event to all of the namespace" {
  run_pmix calls event
  says 0 "$(each_rank ": event from 0")"
}

# bats test_tags=long
@test "queries" {
  run_pmix calls query
  says 0 "4 processes; I am there, state 6, on node0" "namespaces: mine" "queues: ERR_NOT_SUPPORTED"
}

# bats test_tags=long
@test "a client's line in the shell's log" {
  run_pmix calls log
  says 0 "nacre-shell[0]: pmix: rank 1: all is well"
}

# bats test_tags=long
@test "a signal by job control" {
  run_pmix calls control
  says 0 "rank 1 got signal 10"
}

@test "spawn, and of a program that is not there" {
  run_pmix calls spawn
  says 0 "child 0 of 3 of my parent" "child 1 of 3 of my parent" "child 2 of 3 of my parent" "spawned others" \
    "no program: ERR_JOB_EXE_NOT_FOUND" \
    "nacre-shell[0]: error: pmix: rank 0: PMIx_Spawn: /no/such/program: No such file or directory"
}

# ---- ends --------------------------------------------------------------------

@test "abort ends the job, with the client's code and words" {
  run_pmix ends abort 1 7
  ended_saying 7 "rank 1 (process " " on node0 called PMIx_Abort with code 7: cannot go on"
  run_tolerant ends abort 1 7
  ended_saying 7 "rank 1 (process " " on node0 called PMIx_Abort with code 7: cannot go on"
}

# bats test_tags=long
@test "abort: a failure never becomes 0" {
  local case
  for case in "0 1" "256 255" "300 44" "-1 255"; do
    run_pmix ends abort 1 "${case% *}"
    ended_saying "${case#* }" "rank 1 (process " " on node0 called PMIx_Abort with code ${case% *}: cannot go on" || return
  done
}

# bats test_tags=long
@test "by default one that is killed ends the job" {
  local how
  for how in "kill-before-init before PMIx_Init" "kill-in-fence after PMIx_Init, without PMIx_Finalize" \
    "kill-before-fence after PMIx_Init, without PMIx_Finalize" "kill-after-finalize after PMIx_Finalize"; do
    run_pmix ends "${how%% *}" 1
    ended_saying 137 "rank 1 (process " ") on node0 was killed by signal 9 (Killed) ${how#* }; -o fault-tolerance lets"
  done
}

# bats test_tags=long
@test "by default one that is killed while it connects ends the job" {
  local round
  for round in 1 2 3 4 5; do
    echo "round $round"
    run_pmix ends kill-in-init 1
    ended_saying 137 "rank 1 (process " ") on node0 was killed by signal 9 (Killed) "
  done
}

# bats test_tags=long
@test "by default one that leaves without a farewell ends the job" {
  run_pmix ends exit-after-init 1 3
  ended_saying 3 "rank 1 (process " ") on node0 exited with code 3 after PMIx_Init, without PMIx_Finalize; -o fault"
  run_pmix ends exit-after-init 1 0
  ended_saying 1 "rank 1 (process " ") on node0 exited with code 0 after PMIx_Init, without PMIx_Finalize; -o fault"
}

# The victim was rank 1: the job's code is $1, and the others have gone on.
others_went_on() {
  local rank
  [ "$status" -eq "$1" ] || { echo "exit code $status, not $1: $output"; return 1; }
  for rank in 0 2 3; do
    grep -qx "rank $rank of 4 went on" <<<"$output" || { echo "rank $rank did not go on: $output"; return 1; }
  done
  ! grep -E 'event about|wrong value' <<<"$output" || return 1
  no_trace_left
}

# bats test_tags=long
@test "fault-tolerance: the others of one that is killed are told, and go on" {
  local how
  for how in kill-before-init kill-in-fence kill-before-fence kill-after-finalize; do
    run_tolerant ends $how 1
    [[ $output == *"was killed by signal 9 (Killed) "*"; the others go on"* ]] || { echo "$how: $output"; return 1; }
    others_went_on 137
  done
}

# bats test_tags=long
@test "fault-tolerance: the others of one that leaves go on" {
  run_tolerant ends exit-after-init 1 3
  [[ $output == *"exited with code 3 after PMIx_Init, without PMIx_Finalize; the others go on"* ]]
  others_went_on 3
  run_tolerant ends exit-before-init 1 0
  others_went_on 0
}

# libpmix 4.2.2 may crash when a client is killed while it connects.
# bats test_tags=long
@test "fault-tolerance: when one is killed while it connects the others go on, or the job ends with a clear word" {
  run_tolerant ends kill-in-init 1
  if [[ $output == *"went on"* ]]; then
    others_went_on 137
  else
    ended_saying 137 "rank 1 died while it was connecting, and libpmix does not get over that"
  fi
}

# ---- Open MPI ----------------------------------------------------------------

@test "Open MPI: one job of 4, not 4 jobs of one" {
  run_pmix mpi hello
  says 0 "$(each_rank " of 4")"
}

# bats test_tags=long
@test "Open MPI: allreduce and alltoall" {
  run_pmix mpi allreduce
  says 0 "$(each_rank ": 20400")"
  run_pmix mpi alltoall
  says 0 "$(each_rank ": 0 wrong")"
}

# bats test_tags=long
@test "Open MPI: MPI_Abort" {
  run_pmix mpi abort
  ended_saying 3 "rank 1 (process " ") on node0 called PMIx_Abort with code 3"
}

# bats test_tags=long
@test "Open MPI: MPI_Comm_spawn" {
  run_pmix mpi spawn
  says 0 "child 0 of 2 got 42" "child 1 of 2 got 42" "parent 0" "parent 1" "parent 2" "parent 3"
}

@test "HOME of the tasks: the job's, else that of who runs the job" {
  # Open MPI 5 does not start without a home.
  local home
  home=$(getent passwd "$(id -u)" | cut -d: -f6)
  prepare_marked 1 sh -c 'echo "HOME is $HOME"'
  run_prepared
  says 0 "HOME is ${home:-/}"
  environment='{"PATH": "/usr/bin:/bin", "HOME": "'$work'"}' prepare 1 sh -c 'echo "HOME is $HOME"'
  run_prepared
  says 0 "HOME is $work"
  prepare_marked 1 sh -c 'echo "HOME is ${HOME-not set}"'
  run_with_pmix "${nacre[@]}" --initrc=rc.lua -o pmi=simple
  says 0 "HOME is not set"
}

# ---- when it does nothing, or cannot -------------------------------------------

@test "without pmix in the option pmi it does nothing" {
  prepare 1 sh -c 'env | grep -c ^PMIX_'
  echo "plugin.load { file = '$NACRE_BUILD_DIR/plugins/pmix/pmix.so' }" >rc.lua
  run --separate-stderr nacre --initrc=rc.lua -o pmi=simple,pmi2
  [ "$status" -eq 1 ]
  [ "$output" = 0 ]
  run nacre --initrc=rc.lua -o pmi=simple,pmix
  [ "${lines[0]}" -gt 0 ]
}

@test "a place for libpmix's files that cannot be used is named" {
  prepare_sleepers
  with_rc -o pmi=pmix <<END
plugin.register { name = "moves", handlers = {
  { topic = "shell.init", fn = function () shell.setenv ("FLUX_JOB_TMPDIR", "/no/such/place") end } } }
plugin.load { file = "$NACRE_BUILD_DIR/plugins/pmix/pmix.so" }
END
  [ "$status" -eq 1 ]
  [ "${lines[0]}" = "nacre-shell[0]: error: pmix: /no/such/place/pmix: No such file or directory" ]
  not_started
  no_trace_left
}

@test "a libpmix that is not installed is named" {
  sed 's/libpmix\.so\.2/libpmiz.so.2/' "$NACRE_BUILD_DIR/plugins/pmix/pmix.so" >pmix.so
  prepare_sleepers
  with_rc -o pmi=pmix <<<"plugin.load { file = '$work/pmix.so' }"
  fails_with 1 "rc.lua:1: plugin.load: $work/pmix.so: libpmiz.so.2: " "No such file or directory"
  not_started
  no_trace_left
}

# Runs the prepared job with the plugin where a site has it, and only the given options.
run_at_site() {
  mkdir -p site/pmi
  ln -sf "$NACRE_BUILD_DIR"/plugins/pmix/pmix.so "$NACRE_BUILD_DIR"/plugins/pmix/pmix-stand-in site/pmi/
  echo "plugin.searchpath = '$work/site'" >site.lua
  run_with_pmix "${nacre[@]}" --initrc=site.lua "$@"
}

# bats test_tags=long
@test "pmi=pmix loads the plugin from the searchpath, by itself" {
  prepare 2 "$BATS_FILE_TMPDIR/mpi" hello
  for option in pmi=pmix pmi.use=simple,pmix; do
    run_at_site -o "$option"
    says 0 $'rank 0 of 2\nrank 1 of 2'
  done
}

# bats test_tags=long
@test "a program of Open MPI gets the plugin without being asked for, unless the option pmi says what is wanted" {
  prepare 2 "$BATS_FILE_TMPDIR/mpi" hello
  run_at_site
  says 0 $'rank 0 of 2\nrank 1 of 2'
  run_at_site -o pmi.hang-report=off
  says 0 $'rank 0 of 2\nrank 1 of 2'
  cp "$BATS_FILE_TMPDIR/mpi" here
  environment=${usual_environment/\/usr\/bin:\/bin//nowhere::/usr/bin} cwd=$work prepare 2 here hello
  run_at_site
  says 0 $'rank 0 of 2\nrank 1 of 2'
  prepare 1 env
  run_at_site -o pmi=simple,pmi2
  [[ $output != *PMIX_* ]] || { echo "said: $output"; return 1; }
  run_at_site
  [[ $output != *PMIX_* ]] || { echo "said: $output"; return 1; }
}

# bats test_tags=long
@test "mpi4py, of Debian's Open MPI" {
  cat >ranks.py <<'END'
from mpi4py import MPI
comm = MPI.COMM_WORLD
assert comm.allreduce(comm.Get_rank(), op=MPI.SUM) == comm.Get_size() * (comm.Get_size() - 1) // 2
words = comm.gather(str(comm.Get_rank()), root=0)
if comm.Get_rank() == 0:
    print("ranks " + ",".join(words))
END
  prepare_marked 3 /usr/bin/python3 ranks.py
  run_prepared
  says 0 "ranks 0,1,2"
}

# bats test_tags=long
@test "NetPIPE between two ranks of Open MPI" {
  prepare_marked 2 NPopenmpi -n 20 -u 1024 -o "$work/np.out"
  run_prepared
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ -s "$work/np.out" ]
}

@test "ranks of Open MPI that share cores yield to each other, unless they are told what to do" {
  prepare_marked 4 sh -c 'read -r _ _ _ _ _ session _ <"/proc/$$/stat"; [ "$session" = $$ ] && own=own
    echo "yield ${OMPI_MCA_mpi_yield_when_idle-unset} ${own-shared}"'
  more=(-o oversubscribe)
  # A task in its own group of the kernel's scheduler would yield to no other.
  own=shared
  [ "$(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null || echo 0)" = 0 ] || own=own
  run_prepared
  says 0 "$(printf "yield unset $own\n%.0s" 1 2 3 4)"
  write_R 2
  run_prepared
  says 0 "nacre-shell[0]: 4 tasks share 2 cores on node0" "$(printf 'yield 1 shared\n%.0s' 1 2 3 4)"
  environment='{"PATH": "/usr/bin:/bin", "OMPI_MCA_mpi_yield_when_idle": "0"}' prepare 4 sh -c 'echo "yield $OMPI_MCA_mpi_yield_when_idle"'
  write_R 2
  run_prepared
  says 0 "nacre-shell[0]: 4 tasks share 2 cores on node0" "$(printf 'yield 0\n%.0s' 1 2 3 4)"
  more=()
}

# ---- strangers ---------------------------------------------------------------

# Calls PMIx_Init as the user nobody, who claims to be this user, with the variables of the file $1.
init_as_stranger() {
  local variables
  mapfile -t variables <"$1"
  run timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH=/usr/bin:/bin TMPDIR=/tmp LD_PRELOAD="$place/pretend.so" \
    PRETENDED_UID="$(id -u)" "${variables[@]}" "$place/stranger"
}

# libpmix believes a process that connects by TCP which user it claims to be; the port is in /proc/net/tcp, and the
# job's id in the list of jobs.
# bats test_tags=root
@test "another user who claims to be this one is no task of the job, as the namespace cannot be guessed" {
  place=$(mktemp -d /tmp/stranger.XXXXXX)
  chmod 755 "$place"
  # shellcheck disable=SC2046 # several options
  cc -Wall -Wextra -o "$place/stranger" "$NACRE_SOURCE_DIR/t/e2e/pmix/stranger.c" $(pkg-config --cflags --libs pmix)
  cc -Wall -Wextra -shared -fPIC -o "$place/pretend.so" "$NACRE_SOURCE_DIR/t/e2e/pmix/pretend.c"
  prepare_marked 1 sh -c 'env | grep ^PMIX_ >told.new; mv told.new told; while [ ! -e go ]; do sleep 0.1; done'
  echo 'plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }' >rc.lua
  "${nacre[@]}" --initrc=rc.lua -o pmi=pmix >out 2>&1 &
  job=$!
  wait_until test -s told
  namespace=$(sed -n 's/^PMIX_NAMESPACE=//p' told)
  [[ $namespace =~ ^(nacre-[0-9]+)-[0-9a-f]{32}$ ]] || { echo "$namespace"; return 1; }
  id=${BASH_REMATCH[1]}
  for guess in "$id" "$id-shell" "$id-00000000000000000000000000000000"; do
    sed "s/$namespace/$guess/g" told >guessed
    init_as_stranger guessed
    [[ $status -ne 0 && $output != *"is in"* ]] || { echo "$guess: $status $output"; return 1; }
  done
  # The namespace is all that is missing.
  init_as_stranger told
  [[ $status -eq 0 && $output == *"is in" ]] || { echo "$status $output"; cat told; return 1; }
  touch go
  wait "$job" || : # the stranger has counted as the task
  rm -r "$place"
}
