#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What nacre-exits(7) shows is what is printed.
load lib.bash

@test "the shell sessions of nacre-exits(7) print what the page has" {
  run python3 "$BATS_TEST_DIRNAME/exits_page.py" "$NACRE_SOURCE_DIR/doc/man/nacre-exits.7.scd"
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
}
