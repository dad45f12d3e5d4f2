#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The example plugins, built by their own Makefiles and run as their README says.
load lib.bash

# A copy of the examples, built against the headers of this tree.
build_examples() {
  cp -r "$NACRE_SOURCE_DIR/plugins/examples" examples
  cd examples || return
  local folder
  for folder in task-env taskmap-reverse; do
    make -s -C "$folder" CPPFLAGS="-I$NACRE_SOURCE_DIR/shell/plugin/include"
  done
  make -s -C summary LUAC=luac5.4
}

run_examples() { "$NACRE_SHELL" --standalone --initrc=initrc.lua -j job.json -R R.json "$@"; }

@test "the examples build, load, and do what they say" {
  build_examples
  run run_examples
  [ "$status" -eq 1 ]
  [[ $output == *"this is task 3/4"* ]]
  [[ $output == *"task-env: task 3 exited with 1"* ]]
  [[ $output == *"2 of 4 tasks failed"* ]]
}

# bats test_tags=long
@test "a task map of a plugin's own" {
  build_examples
  run run_examples -o taskmap=reverse
  [ "$status" -eq 1 ]
  run run_examples -o taskmap=reverse --explain
  [[ $output == *"taskmap.reverse"* ]]
}

# bats test_tags=long
@test "a plugin's option of the wrong type is named" {
  build_examples
  run run_examples -o task-env.name=5
  [ "$status" -eq 1 ]
  [[ $output == *"task-env"* ]]
}
