#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the tests themselves rely on.
load lib.bash

@test "a test that has failed ends what it has left in its folder, and nothing else; one without a folder ends nothing" {
  needs_root "for a PID namespace"
  mkdir "$work/a" "$work/ab"
  # shellcheck disable=SC2016 # for the command
  unshare --pid --fork --mount-proc env -u BATS_TEST_COMPLETED bash -c '
    . "$0"
    (cd "$1/a" && exec sleep 60) & own=$!
    (cd "$1/ab" && exec sleep 60) & other=$!
    until [ "$(readlink /proc/$own/cwd)" = "$1/a" ] && [ "$(readlink /proc/$other/cwd)" = "$1/ab" ]; do sleep 0.1; done
    work=
    end_what_is_left
    kill -0 $own && kill -0 $other || exit 1
    unset work
    end_what_is_left
    kill -0 $own && kill -0 $other || exit 2
    work=$1/a
    end_what_is_left
    wait $own
    [ $? -eq 137 ] || exit 3
    kill -0 $other || exit 4' "$NACRE_SOURCE_DIR/t/kit/tests.bash" "$work"
}
