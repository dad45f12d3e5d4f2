#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# PMI-2, by a program of Slurm's client library.
load lib.bash

setup_file() {
  cc -Wall -Wextra -o "$BATS_FILE_TMPDIR/pmi2" "$BATS_TEST_DIRNAME/mpi/pmi2.c" -lpmi2
}

@test "a program of libpmi2 exchanges keys, waits for attributes and looks up names" {
  prepare 4 "$BATS_FILE_TMPDIR/pmi2"
  run nacre
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "pmi2 ok, 4 ranks" ]
}

@test "PMI2_Job_Spawn: two programs of one group" {
  prepare 2 "$BATS_FILE_TMPDIR/pmi2" spawn
  run nacre
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "children ok" ]
}

@test "PMI2_Abort ends the job, and its words are said" {
  prepare 3 "$BATS_FILE_TMPDIR/pmi2" 1
  run nacre
  [ "$status" -eq 1 ]
  [[ $output == *"error: rank 1 on node0 called PMI_Abort with code 1: as it was asked to"* ]]
}

# The library has no code to give; the protocol may carry one.
# bats test_tags=long
@test "PMI-2: an abort's code counts as PMI-1's does" {
  local case body
  for case in "0 1" "256 255" "300 44" "-1 255"; do
    body="cmd=abort;isworld=TRUE;exitcode=${case% *};msg=why;"
    prepare 2 "$BATS_TEST_DIRNAME/pmi_client" 'cmd=init pmi_version=2 pmi_subversion=0' has:pmi_version=2 \
      "1:send:$(printf '%-6d%s' ${#body} "$body")" end
    run nacre
    [ "$status" -eq "${case#* }" ] || { echo "$case: exit code $status: $output"; return 1; }
    [[ $output == *"error: rank 1 on node0 called PMI_Abort with code ${case% *}: why"* ]]
  done
}

@test "where PMI-2 is not offered the program is told, and pmi.explain says so" {
  prepare 2 "$BATS_FILE_TMPDIR/pmi2"
  run nacre -o pmi.use=simple -o pmi.explain
  [ "$status" -eq 3 ]
  [[ $output == *"pmi: 0-1: asked for PMI 2.0, which is not offered"* ]]
}
