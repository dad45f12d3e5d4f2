#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a job costs before it starts and once it has ended, counted: the programs that `nacre run` executes, the files that it opens.
load lib.bash

setup_file() { cc -Wall -Wextra -o "$BATS_FILE_TMPDIR/count_calls" "$NACRE_SOURCE_DIR/t/e2e/count_calls.c"; }

# Runs `nacre run` with these arguments on this host, and sets $execs and $opens. The job of a long task opens some
# more files.
count() {
  "$BATS_FILE_TMPDIR/count_calls" "$work/count" "$NACRE_BUILD_DIR/nacre" run --local=1 "$@"
  read -r execs opens <"$work/count"
}
few=20

@test "a job of one shell here is the process that has started it; another shell is another program" {
  count --initrc=/dev/null true
  [ "$execs" -eq 1 ]
  count --initrc=/dev/null --shell="$NACRE_SHELL" true
  [ "$execs" -eq 2 ]
  run "$NACRE_BUILD_DIR/nacre" run --local=1 --initrc=/dev/null sh -c 'readlink /proc/$PPID/exe && cat /proc/$PPID/comm'
  [ "$output" = "$NACRE_BUILD_DIR/nacre"$'\n'nacre-shell ]
}

@test "a job opens no more files where many have ended before it" {
  count --initrc=/dev/null true
  before=$opens
  ended=(jobs/*.json)
  [ ${#ended[@]} -eq 1 ]
  for id in {1..300}; do cp "${ended[0]}" "jobs/$id.json"; done
  count --initrc=/dev/null true
  ((opens < before + few)) || { echo "$opens files instead of $before"; return 1; }
}

@test "each file of an initrc is read once" {
  mkdir -p etc/lua.d
  echo 'shell.source_rcpath ("*.lua")' >etc/initrc.lua
  echo 'shell.options.x1 = shell.options.x1' >etc/lua.d/1.lua
  count --initrc=etc/initrc.lua true
  before=$opens
  for file in {101..150}; do cp etc/lua.d/1.lua "etc/lua.d/$file.lua"; done
  count --initrc=etc/initrc.lua true
  ((opens >= before + 50 - few && opens < before + 50 + few)) || { echo "$opens files instead of $before"; return 1; }
}
