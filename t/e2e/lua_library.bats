#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The library of initrc files, nacre-lua(3), and the files of lua.d that are written with it.

load lib

@test "the library's own tests pass" {
  prepare 1 true
  run nacre --initrc="$NACRE_SOURCE_DIR/t/lua/run.lua"
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *"1.."* ]]
  [ "$(grep -c '^ok ' <<<"$output")" -ge 28 ]
  [ "$(grep -c '^not ok ' <<<"$output")" -eq 0 ]
}

@test "the library is found without LUA_PATH, and before what LUA_PATH has" {
  prepare 1 true
  mkdir lua
  echo 'return { idset = function () return "another" end }' >lua/nacre.lua
  echo 'local nacre = require "nacre"; shell.log ("set " .. nacre.idset "0-1")' >rc.lua
  LUA_PATH="$PWD/lua/?.lua;;" run nacre --initrc=rc.lua
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[0]: initrc: set 0-1" ]
}

# Nor from relative paths in LUA_PATH.
@test "what is required is never taken from the working directory" {
  prepare 1 true
  echo 'error "this file is not meant"' | tee posix.lua nacre.lua mine.lua >/dev/null
  cp posix.lua posix.so
  echo 'require "posix"; require "nacre"' >rc.lua
  for path in "" "./?.lua;;" "?.lua;;"; do
    LUA_PATH="${path:-;;}" LUA_CPATH="${path:-;;}" run nacre --initrc=rc.lua
    [ "$status" -eq 0 ] || { echo "$path: $output"; return 1; }
  done
  echo 'require "mine"' >rc.lua
  run nacre --initrc=rc.lua
  [ "$status" -eq 1 ]
  [[ $output == *"module 'mine' not found"* && $output != *"'./mine"* ]] || { echo "$output"; return 1; }
}

@test "what is required and not there names where it was looked for" {
  prepare 1 true
  echo 'require "nacre.nothing"' >rc.lua
  run nacre --initrc=rc.lua
  fails_with 1 "rc.lua:1" "module 'nacre.nothing' not found" "/nacre/nothing.lua'"
}

@test "failure-summary names how tasks failed, and where, in the log or in a file" {
  prepare 4 sh -c 'exit $((FLUX_TASK_RANK % 2 * 3))'
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/failure-summary.lua" -o failure-summary -o exit-report=off
  echo "$output"
  [ "$status" -eq 3 ]
  [ "${lines[0]}" = "nacre-shell[0]: failure-summary: 2 of 4 tasks failed" ]
  [ "${lines[1]}" = "nacre-shell[0]: failure-summary: exit code 3: tasks 1,3 on node0" ]
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/failure-summary.lua" -o failure-summary.file=log -o exit-report=off
  [ "$status" -eq 3 ]
  [ -z "$output" ]
  [[ $(cut -f4- log) == $'2 of 4 tasks failed\texit code 3: tasks 1,3 on node0' ]]
}

@test "failure-summary says nothing of a job that succeeds" {
  prepare 2 true
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/failure-summary.lua" -o failure-summary
  [ "$status" -eq 0 ]
  [ -z "$output" ]
}

@test "scratch makes a directory for the job, and removes it with all that is in it" {
  mkdir place
  prepare 2 sh -c 'test -d "$NACRE_SCRATCH" && mkdir -p "$NACRE_SCRATCH/a/$FLUX_TASK_RANK" && dirname "$NACRE_SCRATCH"'
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/scratch.lua" -o scratch.dir="$PWD/place"
  echo "$output"
  [ "$status" -eq 0 ]
  [ "${lines[0]}" = "$PWD/place" ]
  [ -z "$(ls -A place)" ]
}

@test "scratch removes what a killed job has left there" {
  mkdir place
  prepare 1 sleep 60
  "${nacre[@]}" --initrc="$NACRE_SOURCE_DIR/etc/lua.d/scratch.lua" -o scratch.dir="$PWD/place" 3>&- &
  until compgen -G 'place/*' >/dev/null; do sleep 0.2; done
  kill -9 $!
  wait $! || true
  [ -n "$(ls -A place)" ]
  prepare 1 true
  nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/scratch.lua" -o scratch.dir="$PWD/place"
  [ -z "$(ls -A place)" ]
}

@test "scratch refuses a place that is not there, and one with too little room" {
  prepare 1 true
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/scratch.lua" -o scratch.dir=/nowhere
  fails_with 1 "fatal: scratch: there is no place to write to on node0: nacre.scratch: cannot make /nowhere/" ": No such file or directory"
  mkdir place
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/scratch.lua" -o scratch.dir="$PWD/place" -o scratch.min=1000T
  fails_with 1 "fatal: scratch: $PWD/place on node0 has " "scratch.min asks for 1048576000: clean it up"
  [ -z "$(ls -A place)" ]
}

@test "node-health passes a node that is fine, and names one that is not with all that is wrong" {
  prepare 1 echo ran
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/node-health.lua" -o node-health
  [ "$status" -eq 0 ]
  [ "$output" = ran ]
  local wrong=(-o node-health.memory=1000T -o node-health.links=nowhere0)
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/node-health.lua" "${wrong[@]}"
  fails_with 1 "fatal: node-health: node0: " " of memory available, 1048576000 MiB expected; there is no network card nowhere0"
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/node-health.lua" "${wrong[@]}" -o node-health.then=note
  [ "$status" -eq 0 ]
  [ "${lines[-1]}" = ran ]
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/node-health.lua" "${wrong[@]}" -o health
  fails_with 1 "health: node0 is bad: node-health: " " of memory available, 1048576000 MiB expected; there is no network card nowhere0; there is no spare left"
}

@test "a misspelt member of an option of lua.d is refused with the nearest" {
  prepare 1 true
  run nacre --initrc="$NACRE_SOURCE_DIR/etc/lua.d/scratch.lua" -o scratch.dri=/tmp
  fails_with 1 "scratch.dri: there is no such member; did you mean scratch.dir?"
}

@test "a job that asks for nothing of lua.d does not read the library" {
  prepare 1 true
  cat >rc.lua <<END
source "$NACRE_SOURCE_DIR/etc/lua.d/*.lua"
for name in pairs (package.loaded) do
  if name:match "^nacre" then shell.log (name) end
end
END
  run nacre --initrc=rc.lua
  [ "$status" -eq 0 ]
  [ -z "$output" ]
}

# The blocks of nacre-lua(3), as example.1.lua and so on.
write_examples() {
  awk '/^```/ { inside = !inside; if (inside) ++n; next } inside { print > ("example." n ".lua") }' "$NACRE_SOURCE_DIR/doc/man/nacre-lua.3.scd"
}

@test "each example of nacre-lua(3) is fine" {
  write_examples
  [ "$(find . -name 'example.*.lua' | wc -l)" -ge 6 ]
  for example in example.*.lua; do
    run "$NACRE_BUILD_DIR/nacre" initrc check -o greeting "$example"
    echo "$example: $output"
    [ "$status" -eq 0 ]
  done
}

@test "the example of nacre-lua(3) to start from does what it says" {
  write_examples
  prepare 1 sh -c 'echo "$GREETING"'
  run nacre --initrc=example.2.lua -o greeting.name=Ada
  [ "$output" = "hello, Ada" ]
  run nacre --initrc=example.2.lua -o greeting
  [ "$output" = "hello, you" ]
  run nacre --initrc=example.2.lua -o greeting.nmae=Ada
  fails_with 1 "greeting.nmae: there is no such member; did you mean greeting.name?"
}
