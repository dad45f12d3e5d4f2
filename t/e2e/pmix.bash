# SPDX-License-Identifier: Apache-2.0
#
# For the tests of the plugin pmix.
# shellcheck disable=SC2034,SC2154 # lib.bash uses usual_environment, and bats sets status and output

declare -F prepare_marked >/dev/null || load plugins.bash

# The sanitizers of GCC 12 take the data of some threads for descriptions of others, and read at wrong addresses.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}malloc_context_size=2:intercept_tls_get_addr=0
export LSAN_OPTIONS=suppressions=$NACRE_SOURCE_DIR/t/e2e/pmix/lsan.supp:print_suppressions=0

# If a host has addresses of both families Open MPI 5.0.7 finds no way by TCP, even under its own mpirun.
export OMPI_MCA_btl_tcp_disable_family=6
usual_environment='{"PATH": "/usr/bin:/bin", "OMPI_MCA_btl_tcp_disable_family": "6"}'

# Builds the named programs of pmix/ in $BATS_FILE_TMPDIR.
build_clients() {
  local program flags
  flags=$(pkg-config --cflags --libs pmix)
  for program; do
    # shellcheck disable=SC2086 # several options
    cc -Wall -Wextra -o "$BATS_FILE_TMPDIR/$program" "$NACRE_SOURCE_DIR/t/e2e/pmix/$program.c" \
      "$NACRE_SOURCE_DIR/t/e2e/pmix/client.c" $flags -lpthread || return
  done
}

# Builds the program mpi/ways.c in $BATS_FILE_TMPDIR, with the name of each way.
ways=(PMI-1 PMI-2 PMIx)
build_ways() {
  local source=$BATS_TEST_DIRNAME/mpi/ways.c library=$NACRE_BUILD_DIR/plugins/pmi/library
  cc -Wall -Wextra -DWAY=1 -o "$BATS_FILE_TMPDIR/PMI-1" "$source" "$library/libpmi.so" -Wl,-rpath,"$library"
  cc -Wall -Wextra -DWAY=2 -o "$BATS_FILE_TMPDIR/PMI-2" "$source" -lpmi2
  # shellcheck disable=SC2046 # several options
  cc -Wall -Wextra -DWAY=3 -o "$BATS_FILE_TMPDIR/PMIx" "$source" $(pkg-config --cflags --libs pmix)
}

# Runs the command, and ends it with a code that no test expects if it hangs. The output is sorted, without
# libpmix's own messages.
run_with_pmix() {
  run timeout -k 1 100 "$@"
  output=$(sed -E '/^\[[^]]*\] PMIX ERROR: /d; /^\[warn\] Epoll /d' <<<"$output" | sort)
}

# The job ended with code $1; its output, sorted, is exactly the rest, a line each.
says() {
  local code=$1
  shift
  local wanted
  wanted=$(printf '%s\n' "$@" | sort)
  [ "$status" -eq "$code" ] || { echo "exit code $status, not $code: $output"; return 1; }
  [ "$output" = "$wanted" ] || { diff <(echo "$wanted") <(echo "$output"); return 1; }
  no_trace_left
}

# The job ended with code $1, one line has all the other texts in it, and no process is left.
ended_saying() {
  run_said "$@" || return
  no_trace_left
}
