#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# libpmi.so and libpmi2.so, for programs that load a library of PMI.
load nodes.bash

setup_file() {
  cc -Wall -Wextra -o "$BATS_FILE_TMPDIR/pmi_library" "$BATS_TEST_DIRNAME/mpi/pmi_library.c" -ldl
  cc -Wall -Wextra -o "$BATS_FILE_TMPDIR/pmi2" "$BATS_TEST_DIRNAME/mpi/pmi2.c" -lpmi2
}

libraries=$NACRE_BUILD_DIR/plugins/pmi/library

@test "a program that loads what FLUX_PMI_LIBRARY_PATH names has all of PMI-1" {
  prepare 4 "$BATS_FILE_TMPDIR/pmi_library"
  run nacre
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "library ok, 4 ranks, 4 here" ]
}

# bats test_tags=long
@test "on several shells" {
  write_nodes 3 2
  write_jobspec 6 "$BATS_FILE_TMPDIR/pmi_library"
  run launch --local=3 -R R.json -o cpu-affinity=off
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "library ok, 6 ranks, 2 here" ]
  run launch --local=3 -R R.json -o cpu-affinity=off -o taskmap=cyclic
  [ "$output" = "library ok, 6 ranks, 2 here" ]
}

@test "by its name, with pmi.library" {
  prepare 2 "$BATS_FILE_TMPDIR/pmi_library" libpmi.so
  run nacre
  [ "$status" -eq 3 ]
  run nacre -o pmi.library
  [ "$output" = "library ok, 2 ranks, 2 here" ]
  environment='{"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/some/where"}' prepare 1 sh -c 'echo "$LD_LIBRARY_PATH"'
  run nacre -o pmi.library
  [ "$output" = "$(realpath "$libraries"):/some/where" ]
  run nacre -o pmi.library -o pmi=off
  [ "$output" = "/some/where" ]
}

@test "abort: the code is the job's, the text is in the message" {
  prepare 2 "$BATS_FILE_TMPDIR/pmi_library" '' abort
  run nacre
  [ "$status" -eq 7 ]
  [[ $output == *'rank 1 on node0 called PMI_Abort with code 7: in C:\temp with \x1b[2J'* ]]
}

@test "spawn" {
  prepare 2 "$BATS_FILE_TMPDIR/pmi_library" "$libraries/libpmi.so" spawn
  run nacre
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$(sort <<<"$output")" = $'children ok\nlibrary ok, 2 ranks, 2 here' ]
}

@test "a server that ends is a failure, not a hang" {
  prepare 1 sh -c 'exec 3<>/dev/null; PMI_FD=3 exec "$0"' "$BATS_FILE_TMPDIR/pmi_library"
  run nacre
  [ "$status" -eq 3 ]
  [[ $output == *"wrong: init"* ]]
}

@test "PMI-2: a program of libpmi2 runs by nacre's as by Slurm's" {
  environment="{\"PATH\": \"/usr/bin:/bin\", \"LD_PRELOAD\": \"$libraries/libpmi2.so\"}" prepare 4 "$BATS_FILE_TMPDIR/pmi2"
  run nacre
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "pmi2 ok, 4 ranks" ]
  environment="{\"PATH\": \"/usr/bin:/bin\", \"LD_PRELOAD\": \"$libraries/libpmi2.so\"}" prepare 2 "$BATS_FILE_TMPDIR/pmi2" spawn
  run nacre
  [ "$output" = "children ok" ]
  environment="{\"PATH\": \"/usr/bin:/bin\", \"LD_PRELOAD\": \"$libraries/libpmi2.so\"}" prepare 3 "$BATS_FILE_TMPDIR/pmi2" 1
  run nacre
  [ "$status" -eq 1 ]
  [[ $output == *"rank 1 on node0 called PMI_Abort with code 1: as it was asked to"* ]]
}

@test "the libraries export the functions of their interface, and nothing else" {
  run nm -D --defined-only --format=posix "$libraries/libpmi.so"
  [ -z "$(awk '$1 !~ /^PMI_/' <<<"$output")" ]
  [ "$(wc -l <<<"$output")" -eq 29 ]
  run nm -D --defined-only --format=posix "$libraries/libpmi2.so"
  [ -z "$(awk '$1 !~ /^PMI2_/' <<<"$output")" ]
  local name
  for name in $(grep -o 'PMI2_[A-Z][A-Za-z_]*(' /usr/include/slurm/pmi2.h | tr -d '(' | sort -u); do
    grep -q "^$name " <<<"$output" || { echo "no $name"; return 1; }
  done
}
