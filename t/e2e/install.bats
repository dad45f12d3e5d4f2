#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What is installed, and where.

load ../kit/tests.bash

setup() {
  installable "$BATS_TEST_TMPDIR/build"
  stage=$BATS_TEST_TMPDIR/stage
  prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$NACRE_BUILD_DIR/CMakeCache.txt")
}

install_all() {
  DESTDIR=$stage cmake --install "$BATS_TEST_TMPDIR/build" >/dev/null
}

# pkg-config of what is installed below the stage.
staged_pkg_config() {
  local pc
  pc=$(find "$stage" -name nacre-shell.pc)
  PKG_CONFIG_PATH=${pc%/*} pkg-config "$@" nacre-shell
}

@test "programs, headers, man pages, the Lua files and a completion are installed below the prefix" {
  install_all
  [ "$("$stage$prefix/bin/nacre-shell" --version)" = "$("$NACRE_SHELL" --version)" ]
  "$stage$prefix/bin/nacre" --version
  for file in etc/nacre/shell/initrc.lua include/nacre/flux/shell.h share/man/man1/nacre-shell.1 \
    share/bash-completion/completions/nacre-shell share/bash-completion/completions/nacre; do
    [ -s "$stage$prefix/$file" ] || { echo "missing: $file" && return 1; }
  done
  [ -d "$stage$prefix/etc/nacre/shell/lua.d" ]
  for page in "$NACRE_SOURCE_DIR"/doc/man/*.scd; do
    page=$(basename "$page" .scd)
    [ -s "$stage$prefix/share/man/man${page##*.}/$page" ] || { echo "missing: $page" && return 1; }
  done
}

@test "mpiexec and mpirun are there, by a path that moves with the prefix" {
  local name
  env -u DESTDIR cmake --install "$BATS_TEST_TMPDIR/build" --prefix "$stage/here" >/dev/null
  mv "$stage/here" "$stage/there"
  for name in mpiexec mpirun; do
    [[ $(readlink "$stage/there/libexec/nacre/mpi/$name") != /* ]]
    run "$stage/there/libexec/nacre/mpi/$name" --version
    [ "$status" -eq 0 ] && [[ $output == "$name (nacre) "* ]] || { echo "$output"; return 1; }
  done
}

@test "apropos finds the man pages at once" {
  env -u DESTDIR cmake --install "$BATS_TEST_TMPDIR/build" --prefix "$stage/here" >/dev/null
  run apropos -M "$stage/here/share/man" -s 1 "tasks of a job"
  echo "$output"
  grep -q "^nacre-run (1) " <<<"$output"
}

@test "the man page of the initrc names the file that is installed" {
  install_all
  local named
  named=$(sed 's/\\f[A-Z]//g; s/\\&//g' "$stage$prefix/share/man/man5/nacre-shell-initrc.5" | grep -o '/[a-z/.-]*/initrc\.lua' | head -n 1)
  echo "named: $named"
  [ -s "$stage$named" ]
}

@test "nothing is installed outside of the staging folder's prefix and /etc" {
  install_all
  run find "$stage" -type f -not -path "$stage$prefix/*" -not -path "$stage/etc/*"
  [ -z "$output" ]
}

# bats test_tags=long
@test "pkg-config tells where plugins go, and that folder is there" {
  install_all
  run staged_pkg_config --variable=pluginpath
  [[ $(realpath "$output") == "$stage$prefix"/lib*/nacre/shell/plugins ]]
  [ "$(staged_pkg_config --modversion)" = "$("$NACRE_SHELL" --version | cut -d' ' -f2)" ]
  [[ " $(staged_pkg_config --print-requires) " == *" jansson "* ]]
}

@test "a plugin in C compiles against what is installed, as C and as C++" {
  install_all
  cat >"$BATS_TEST_TMPDIR/mine.c" <<END
#define FLUX_SHELL_PLUGIN_NAME "mine"
#include <flux/shell.h>
int flux_plugin_init(flux_plugin_t *p) { return flux_plugin_set_name(p, "mine"); }
END
  read -ra flags < <(staged_pkg_config --cflags)
  for language in c c++; do
    run cc -x "$language" -shared -fPIC -Wall -Werror "${flags[@]}" -o "$BATS_TEST_TMPDIR/mine.so" "$BATS_TEST_TMPDIR/mine.c"
    echo "$language: $output"
    [ "$status" -eq 0 ]
  done
}

# bats test_tags=long
@test "with a prefix below /opt the configuration is below it, also if it is another one at first" {
  local prefix
  for prefix in /usr/local /opt/tools/nacre; do
    cmake -S "$NACRE_SOURCE_DIR" -B "$BATS_TEST_TMPDIR/opt" -G Ninja -DCMAKE_INSTALL_PREFIX="$prefix" -DNACRE_TESTS=OFF >/dev/null
  done
  DESTDIR=$stage cmake --install "$BATS_TEST_TMPDIR/opt" --component configuration >/dev/null
  DESTDIR=$stage cmake --install "$BATS_TEST_TMPDIR/opt" --component development >/dev/null
  [ -s "$stage/opt/tools/nacre/etc/nacre/shell/initrc.lua" ]
  [ ! -e "$stage/etc" ]
  [ "$(realpath "$(staged_pkg_config --variable=rcpath)")" = "$stage/opt/tools/nacre/etc/nacre/shell" ]
}

# bats test_tags=long
@test "with the prefix /usr the configuration goes to /etc" {
  cmake -S "$NACRE_SOURCE_DIR" -B "$BATS_TEST_TMPDIR/usr" -G Ninja -DCMAKE_INSTALL_PREFIX=/usr -DNACRE_TESTS=OFF >/dev/null
  DESTDIR=$stage cmake --install "$BATS_TEST_TMPDIR/usr" --component configuration >/dev/null
  DESTDIR=$stage cmake --install "$BATS_TEST_TMPDIR/usr" --component development >/dev/null
  [ -s "$stage/etc/nacre/shell/initrc.lua" ]
  [ -d "$stage/etc/nacre/shell/lua.d" ]
  [ ! -e "$stage/usr/etc" ]
  [ "$(realpath "$(staged_pkg_config --variable=prefix)")" = "$stage/usr" ]
  [ "$(staged_pkg_config --variable=rcpath)" = /etc/nacre/shell ]
}

# bats test_tags=long
@test "where the libraries are outside of the prefix, pkg-config has the prefix as configured" {
  cmake -S "$NACRE_SOURCE_DIR" -B "$BATS_TEST_TMPDIR/apart" -G Ninja -DCMAKE_INSTALL_PREFIX=/opt/n -DCMAKE_INSTALL_LIBDIR=/var/lib/n \
    -DNACRE_TESTS=OFF >/dev/null
  DESTDIR=$stage cmake --install "$BATS_TEST_TMPDIR/apart" --component development >/dev/null
  [ "$(staged_pkg_config --variable=prefix)" = /opt/n ]
  [ "$(staged_pkg_config --variable=pluginpath)" = /var/lib/n/nacre/shell/plugins ]
}

@test "cmake --install --prefix moves the configuration too" {
  cmake --install "$BATS_TEST_TMPDIR/build" --prefix "$stage/moved" --component configuration >/dev/null
  [ -s "$stage/moved/etc/nacre/shell/initrc.lua" ]
}
