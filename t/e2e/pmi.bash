# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # bats sets status, output
#
# For tests of PMI on the wire.

declare -F copy_for_all >/dev/null || load lib.bash

client=$BATS_TEST_DIRNAME/pmi_client

# A job of $1 clients that carry out the other arguments.
clients() {
  prepare "$1" "$client" "${@:2}"
}

# The run succeeded, and printed nothing.
passes() {
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ -z "$output" ] || { echo "said: $output"; return 1; }
}

# The job ended with exit code $1, and its output has $2.
ends_with() {
  [ "$status" -eq "$1" ] || { echo "exit code $status, not $1: $output"; return 1; }
  [[ $output == *"$2"* ]] || { echo "no '$2' in: $output"; return 1; }
}
