#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# doc/write-a-plugin.md as it is typed, with nacre as it is installed.
# shellcheck disable=SC2154 # bats sets status, output, lines; lib.bash work
load lib.bash
load plugins.bash

setup_file() { stage_nacre; }

# Each command of the guide as "$ command", what it prints below it.
guide_blocks() { awk '/^```console/ { on = 1; next } /^```/ { on = 0 } on' "$NACRE_SOURCE_DIR/doc/write-a-plugin.md"; }

@test "the guide's commands work as printed, and print what it says" {
  export DESTDIR=$work/dest
  guide_blocks | sed -n 's/^\$ //p' >commands.sh
  [ "$(wc -l <commands.sh)" -gt 15 ]
  # pkg-config tells where things are in the installed system, whose root is the stage.
  sed -i 's/^make .*install$/PKG_CONFIG_SYSROOT_DIR= CPATH=\$STAGE_INCLUDE &/' commands.sh
  STAGE_INCLUDE=$NACRE_SOURCE_DIR/shell/plugin/include run bash -ex commands.sh
  echo "$output"
  [ "$status" -eq 0 ]
  while read -r line; do
    [[ $output == *"$line"* ]] || { echo "not printed: $line"; return 1; }
  done < <(guide_blocks | grep -v '^\$ ')
  [ "$(find dest -name 'hello.so' -o -name greet.lua -o -name welcome.so | wc -l)" -eq 3 ]
}

@test "the guide's plugins are built where nacre is installed in a place of its own, without further settings" {
  local pc
  pc=$(find "$STAGE" -name nacre-shell.pc)
  cp -r "$STAGE" own
  sed -i "s|^prefix=|&$work/own|" "own${pc#"$STAGE"}"
  export PATH=$work/own${NACRE_BIN#"$STAGE"}:$PATH
  unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
  command nacre plugin new hello --lang c
  make -C hello check
  make -C hello install
  [ -e "$work/own${PLUGINPATH#"$STAGE"}/hello.so" ]
  command nacre plugin new greet --lang lua
  make -C greet check
  make -n -C greet install | grep -F "$work/own"
}
