# SPDX-License-Identifier: Apache-2.0
#
# For the tests of plugins that are broken, or do what they should not.
# shellcheck disable=SC2154 # bats sets status, output; lib.bash work

declare -F copy_for_all >/dev/null || load lib.bash

# Builds NAME.so, a plugin of that name, from the code on standard input; $2: another compiler.
build() {
  local compiler=${2:-cc -xc}
  { printf '#define FLUX_SHELL_PLUGIN_NAME "%s"\n#include <flux/shell.h>\n' "$1"; cat; } >"$1.source"
  $compiler -shared -fPIC -I"$NACRE_SOURCE_DIR/shell/plugin/include" "$1.source" -o "$1.so"
}

# A job of $1 tasks of the command that follows, whose processes can be told by their environment.
prepare_marked() {
  environment="${usual_environment%\}}, \"MARK\": \"$work\"}" prepare "$@"
}

# A job whose tasks leave a file when they start, and would run for long.
prepare_sleepers() {
  rm -f started
  prepare_marked 2 sh -c 'echo >>started; exec sleep 1000'
}

with_rc() {
  cat >rc.lua
  run "$NACRE_SHELL" --standalone -j jobspec.json -R R.json -o cpu-affinity=off --initrc=rc.lua "$@"
}

not_started() { [ ! -e started ] || { echo "a task was started"; return 1; }; }

no_trace_left() {
  [ -z "$(ls -A "$TMPDIR")" ] || { echo "left in TMPDIR: $(ls -A "$TMPDIR")"; return 1; }
  no_process_left
}

marked_processes() { grep -lsz "^MARK=$work\$" /proc/[0-9]*/environ | cut -d/ -f3; }

no_process_left() {
  local left
  left=$(marked_processes)
  [ -n "$left" ] || return 0
  echo "processes left: $left"
  xargs kill -9 <<<"$left"
  return 1
}

# No process is left once the killed ones, for which nobody waits, are gone.
killed_processes_go() {
  local pid
  for pid in $(marked_processes); do timeout 10 tail --pid="$pid" -f /dev/null || break; done
  no_process_left
}

succeeds_saying() {
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "$1" ] || { echo "not '$1': $output"; return 1; }
  no_trace_left
}

# Installs the build below STAGE, and finds it there: for setup_file.
stage_nacre() {
  export STAGE=$BATS_FILE_TMPDIR/stage
  installable "$BATS_FILE_TMPDIR/build"
  DESTDIR=$STAGE cmake --install "$BATS_FILE_TMPDIR/build" >/dev/null
  local prefix pc
  prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$NACRE_BUILD_DIR/CMakeCache.txt")
  pc=$(find "$STAGE" -name nacre-shell.pc)
  export NACRE_BIN=$STAGE$prefix/bin
  export PATH=$NACRE_BIN:$PATH PKG_CONFIG_PATH=${pc%/*}
  PLUGINPATH=$(realpath "$(pkg-config --variable=pluginpath nacre-shell)")
  RCPATH=$(realpath "$(pkg-config --variable=rcpath nacre-shell)")
  export PLUGINPATH RCPATH
}
