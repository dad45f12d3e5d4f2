#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# doc/write-a-plugin.md as it is typed, with nacre as it is installed.
# shellcheck disable=SC2154 # bats sets status, output, lines; lib.bash work
load plugins.bash

setup_file() { stage_nacre; }

# Each command of the guide as "$ command", what it prints below it.
guide_blocks() { awk '/^```console/ { on = 1; next } /^```/ { on = 0 } on' "$NACRE_SOURCE_DIR/doc/write-a-plugin.md"; }

# Runs the guide's commands, and expects what it prints.
run_guide() {
  guide_blocks | sed -n 's/^\$ //p' >commands.sh
  [ "$(wc -l <commands.sh)" -gt 15 ]
  run bash -ex commands.sh
  echo "$output"
  [ "$status" -eq 0 ]
  while read -r line; do
    [[ $output == *"$line"* ]] || { echo "not printed: $line"; return 1; }
  done < <(guide_blocks | grep -v '^\$ ')
}

@test "the guide's commands work as printed, and print what it says" {
  DESTDIR=$work/dest run_guide
  [ "$(cd dest && find . -name '*.so' -o -name greet.lua | sort)" = ".$RCPATH/lua.d/greet.lua
.$PLUGINPATH/hello.so
.$PLUGINPATH/welcome.so" ]
}

# bats test_tags=long
@test "the guide's commands work where nacre has been moved to, with nothing set but PATH" {
  cp -r "$STAGE" moved
  export PATH=$work/moved${NACRE_BIN#"$STAGE"}:$PATH
  unset PKG_CONFIG_PATH
  run_guide
  for file in "$PLUGINPATH/hello.so" "$PLUGINPATH/welcome.so" "$RCPATH/lua.d/greet.lua"; do
    [ -e "moved${file#"$STAGE"}" ] || { echo "not installed: $file"; return 1; }
    [ ! -e "$file" ]
  done
}
