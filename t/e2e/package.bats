#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The package of `make deb`: made of this build, unpacked without being installed, and used from there.
load nodes.bash

setup_file() {
  command -v dpkg-shlibdeps >/dev/null || skip "dpkg-dev is not installed"
  cd "$BATS_FILE_TMPDIR" || return
  installable "$PWD/build"
  sed "s|\(CPACK_INSTALL_CMAKE_PROJECTS \"\)$NACRE_BUILD_DIR;|\1$PWD/build;|" "$NACRE_BUILD_DIR/CPackConfig.cmake" >CPackConfig.cmake
  cpack --config CPackConfig.cmake -G DEB -B "$PWD/made" >cpack.log 2>&1 || { cat cpack.log; return 1; }
  dpkg -x made/*.deb root
}

setup() {
  work=$(mktemp -d)
  cd "$work" || return
  package=$(echo "$BATS_FILE_TMPDIR"/made/*.deb)
  prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$NACRE_BUILD_DIR/CMakeCache.txt")
  root=$BATS_FILE_TMPDIR/root$prefix
}

@test "the package says what it is, and depends on what it loads" {
  [ "$(dpkg-deb -f "$package" Package)" = nacre ]
  [ "$(dpkg-deb -f "$package" Version)" = "$("$NACRE_SHELL" --version | cut -d' ' -f2)" ]
  [ "$(dpkg-deb -f "$package" Architecture)" = "$(dpkg --print-architecture)" ]
  for library in libc6 libarchive13 libssl3 libhwloc15 libncursesw6; do
    [[ $(dpkg-deb -f "$package" Depends) == *"$library"* ]] || { echo "no $library"; return 1; }
  done
}

@test "the package has the programs, the library, the configuration, pages, completions and the demo" {
  dpkg-deb -c "$package" | awk '{print $6}' >list
  for file in bin/nacre bin/nacre-shell share/nacre/lua/nacre.lua share/nacre/lua/nacre/option.lua share/nacre/demo/run.sh \
    share/man/man5/nacre-jobspec.5.gz share/man/man3/nacre-lua.3.gz share/doc/nacre/copyright share/doc/nacre/changelog.gz share/doc/nacre/licenses/libuv1-dev share/zsh/site-functions/_nacre-shell \
    share/fish/vendor_completions.d/nacre.fish share/bash-completion/completions/nacre-shell; do
    grep -qx ".$prefix/$file" list || { echo "no $file"; return 1; }
  done
  [ "$(grep -c '/nacre/shell/lua.d/.*lua$' list)" -eq "$(find "$NACRE_SOURCE_DIR/etc/lua.d" -name '*.lua' | wc -l)" ]
  # The package has nothing of the build or of the source tree.
  run grep -E '\.(a|o|cpp|hpp|bats)$|/t/' list
  [ "$status" -eq 1 ]
}

# The programs are those of this build, which do not know of the prefix, and may be at a fixed address: lintian does
# not check that here.
@test "lintian finds nothing in a package with the prefix of make deb" {
  cmake -S "$NACRE_SOURCE_DIR" -B usr -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DNACRE_TESTS=OFF >/dev/null
  (cd "$NACRE_BUILD_DIR" && cp --parents nacre nacre-shell plugins/container/container-keeper plugins/pmi/library/*.so plugins/pmix/pmix.so plugins/pmix/pmix-stand-in \
    doc/*.[1-8] etc/*.{bash,zsh,fish} "$work/usr")
  (umask 022 && cd usr && cpack --config CPackConfig.cmake -G DEB) >cpack.log 2>&1 || { cat cpack.log; return 1; }
  run lintian --allow-root --suppress-tags hardening-no-pie --fail-on error,warning usr/nacre_*.deb
  echo "$output"
  [ "$status" -eq 0 ]
  run ! grep -v '^N:\|^$' <<<"$output"
}

@test "mpiexec and mpirun become alternatives, behind those of others, and go with the package" {
  dpkg-deb -e "$package" control
  for script in postinst prerm; do
    [ -x "control/$script" ]
    sh -n "control/$script"
  done
  cat >update-alternatives <<'END'
#!/bin/sh
echo "$*"
END
  chmod +x update-alternatives
  run env PATH="$PWD:$PATH" sh control/postinst configure
  [[ $output == *"--install /usr/bin/mpirun mpirun $prefix/libexec/nacre/mpi/mpirun 20"*"mpiexec $prefix/libexec/nacre/mpi/mpiexec"* ]] || { echo "$output"; return 1; }
  run env PATH="$PWD:$PATH" sh control/prerm remove
  [[ $output == *"--remove mpirun $prefix/libexec/nacre/mpi/mpirun" ]]
  run env PATH="$PWD:$PATH" sh control/prerm upgrade
  [ -z "$output" ]
}

@test "a site's changes of the configuration survive: each of its files is a conffile of the package" {
  dpkg-deb -c "$package" | awk '{print $6}' | grep -E '/nacre/shell/.*\.lua$' | sed 's/^\.//' | sort >files
  dpkg-deb --ctrl-tarfile "$package" | tar -xO ./conffiles | sort >conffiles
  diff files conffiles
  [ -s conffiles ]
}

@test "unpacked elsewhere, it runs a job of two shells with its own initrc and library" {
  write_jobspec 2 sh -c 'test -d "$NACRE_SCRATCH" && echo ran'
  NACRE_SHELL=$root/bin/nacre-shell
  run "$root/bin/nacre" launch --local=2 -j jobspec.json -o scratch.dir="$work" -o cpu-affinity=off
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(grep -cx ran <<<"$output")" -eq 2 ]
  run "$root/bin/nacre" initrc check -o scratch
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *"reads $BATS_FILE_TMPDIR/root/"*"/lua.d/scratch.lua"* ]]
}

@test "its demo runs, leaves its files, and what it says to try next works" {
  run "$root/share/nacre/demo/run.sh" "$root/bin/nacre-shell"
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *"3: hello from Lua to task 3"* ]]
  for file in jobspec.yaml R.json initrc.lua; do [ -s nacre-demo/$file ]; done
  grep -E '^  /' <<<"$output" | sed 's/ *#.*//' >try
  [ "$(wc -l <try)" -eq 3 ]
  cd nacre-demo
  while read -r command; do
    run bash -c "$command"
    echo "$command: $output"
    [ "$status" -eq 0 ]
    [ -n "$output" ]
  done <../try
}

@test "the demo leaves what was changed as it is" {
  mkdir nacre-demo
  echo '{"version": 1}' >nacre-demo/jobspec.yaml
  run "$root/share/nacre/demo/run.sh" "$root/bin/nacre-shell"
  [ "$status" -eq 1 ]
  [ "$(cat nacre-demo/jobspec.yaml)" = '{"version": 1}' ]
}
