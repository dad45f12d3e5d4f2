#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=long
#
# What `make tarball` and `make wheel` make, of a build of the preset portable: unpacked anywhere, and installed by pip. Where
# NACRE_DIST is a folder with both, those are tested; else they are made, which takes minutes.
load lib.bash
bats_require_minimum_version 1.5.0

# A quick build, not an optimised one: it is linked in the same way.
make_dist() {
  cmake -S "$NACRE_SOURCE_DIR" --preset portable -B build -DNACRE_OPTIMIZE=-O0 -DNACRE_LTO=OFF -DCMAKE_C_COMPILER="$(command -v clang)" \
    -DCMAKE_CXX_COMPILER="$(command -v clang++)" && cmake --build build
}

setup_file() {
  export BATS_TEST_TIMEOUT=900  # most of the time is for the build below
  cd "$BATS_FILE_TMPDIR" || return
  export NACRE_DIST=${NACRE_DIST:-}
  if [[ -z $NACRE_DIST ]]; then
    make_dist >build.log 2>&1 || { tail -n 40 build.log; return 1; }
    NACRE_DIST=$PWD/dist
    "$NACRE_SOURCE_DIR/etc/dist/tarball" build dist
    "$NACRE_SOURCE_DIR/etc/dist/wheel" dist/nacre-*.tar.gz dist
  fi
  mkdir unpacked
  tar -C unpacked --strip-components=1 -xf "$NACRE_DIST"/nacre-*-linux-*.tar.gz
  /usr/bin/python3 -m venv venv
  venv/bin/pip install --quiet --no-index --disable-pip-version-check "$NACRE_DIST"/nacre-*.whl
}

setup() {
  work=$(mktemp -d)
  cd "$work" || return
  tree=$BATS_FILE_TMPDIR/unpacked
  venv=$BATS_FILE_TMPDIR/venv
  export NACRE_JOBS_DIR=$work/jobs
}

# ---- what the programs need of a system ------------------------------------------------

@test "no program or library of it needs a symbol or a library that an older system has not" {
  run "$NACRE_SOURCE_DIR/etc/dist/needs" "$tree"
  echo "$output"
  [ "$status" -eq 0 ]
  [ -z "$output" ]
}

@test "a program that needs more is refused, with the symbol and its version; a static one needs nothing" {
  mkdir programs
  echo 'int main(void) { return 0; }' >static.c
  cc -static -o programs/static static.c
  "$NACRE_SOURCE_DIR/etc/dist/needs" programs
  printf '#include <stdlib.h>\nint main(void) { return (int)arc4random(); }\n' >new.c
  cc -o programs/new new.c
  run "$NACRE_SOURCE_DIR/etc/dist/needs" programs
  echo "$output"
  [ "$status" -eq 1 ]
  [[ $output == *"programs/new: needs arc4random of GLIBC_2.36"* ]]
  printf '#include <iostream>\nint main() { std::cout << 1; }\n' >cxx.cpp
  c++ -o programs/cxx cxx.cpp
  rm programs/new
  run "$NACRE_SOURCE_DIR/etc/dist/needs" programs
  echo "$output"
  [ "$status" -eq 1 ]
  [[ $output == *"of GLIBCXX_3.4"* && $output == *"needs libstdc++.so.6, which is not on each system"* ]]
}

# ---- the tarball -------------------------------------------------------------

@test "it runs where it is unpacked, and elsewhere: with its own initrc, library, plugins and PMI" {
  mv "$tree" "$work/moved"
  run "$work/moved/bin/nacre" run --local=2 -n 2 -o cpu-affinity=off sh -c 'echo "I am $NACRE_TASK_RANK"; ls "$FLUX_PMI_LIBRARY_PATH"'
  echo "$output"
  mv "$work/moved" "$tree"
  [ "$status" -eq 0 ]
  [ "$(grep -c '^I am [01]$' <<<"$output")" -eq 2 ]
  [ "$(grep -cFx "$work/moved/lib/nacre/libpmi.so" <<<"$output")" -eq 2 ]
  run "$tree/bin/nacre" initrc check
  [[ $output == *"reads $tree/etc/nacre/shell/initrc.lua"* ]]
  run "$tree/bin/nacre" run -n 2 -o pmi=pmix env
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *PMIX_NAMESPACE* ]]
  MANPATH=$tree/share/man man -w nacre-run
}

@test "where the system has none of the libraries that are loaded, it takes its own" {
  local name
  for name in libssl.so.3 libhwloc.so.15 libarchive.so.13 libzstd.so.1 libncursesw.so.6; do : >"$name"; done
  export LD_LIBRARY_PATH=$PWD  # files that are no libraries
  run "$NACRE_BUILD_DIR/nacre" version
  for name in *.so.*; do [[ $output == *"no  $name "* ]]; done
  run "$tree/bin/nacre" version
  echo "$output"
  for name in *.so.*; do [[ $output == *"yes $name "* ]]; done
  # TLS between two shells, an archive that is compressed by zstd and read again, and the cores of a task.
  printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >agent
  chmod +x agent
  run "$tree/bin/nacre" run --agent=./agent --hosts=elsewhere,nowhere --env=LD_LIBRARY_PATH sh -c 'echo of $NACRE_JOB_SIZE'
  echo "$output"
  [ "$output" = $'of 2\nof 2' ]
  run "$NACRE_BUILD_DIR/nacre" run --agent=./agent --hosts=elsewhere,nowhere true
  echo "$output"
  [[ $output == *"cannot load libssl.so.3"* ]]
  export NACRE_ARCHIVE_DIR=$PWD/archives
  mkdir files && echo content >files/a
  "$tree/bin/nacre" archive create --compression=zstd files
  run "$tree/bin/nacre" archive list --long
  echo "$output"
  [[ $output == *files/a* ]]
  run "$tree/bin/nacre" run -n 1 -o cpu-affinity=per-task:core true
  [ "$status" -eq 0 ]
}

@test "its script says whether it runs here, and installs it; what was changed of the configuration stays" {
  run "$tree/install"
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *"It runs here."* ]]
  "$tree/install" "$work/to"
  [ "$("$work/to/bin/nacre" run echo hi)" = hi ]
  (mkdir elsewhere && cd elsewhere && "$tree/install" below/it && [ "$(below/it/bin/nacre run echo hi)" = hi ]) # from here on
  [ ! -e "$tree/below" ]
  run -2 "$tree/install" --help
  run -2 "$tree/install" ""
  run -2 "$tree/install" a b
  echo "-- mine" >>"$work/to/etc/nacre/shell/initrc.lua"
  run "$tree/install" "$work/to"
  echo "$output"
  [ "$status" -eq 0 ]
  [[ $output == *"kept $work/to/etc/nacre/shell/initrc.lua; the new one is "* ]]
  [ "$(tail -n 1 "$work/to/etc/nacre/shell/initrc.lua")" = "-- mine" ]
  cmp "$tree/etc/nacre/shell/initrc.lua" "$work/to/etc/nacre/shell/initrc.lua.new"
}

@test "on an older C library, another one or another machine its script says so in a line" {
  mkdir old
  printf '#!/bin/sh\necho "glibc 2.31"\n' >old/getconf
  chmod +x old/getconf
  PATH=$PWD/old:$PATH run "$tree/install"
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ $output == "install: nacre needs glibc 2.34 or later "*"this system has glibc 2.31"* ]]
  printf '#!/bin/sh\nexit 1\n' >old/getconf
  PATH=$PWD/old:$PATH run "$tree/install"
  [[ $output == *"this system has no glibc"* ]]
  printf '#!/bin/sh\necho z80\n' >old/uname
  chmod +x old/uname
  PATH=$PWD/old:$PATH run "$tree/install"
  [ "$status" -eq 1 ]
  [[ $output == "install: this nacre is for "*", and this machine is z80" ]]
}

@test "the licences of all that is linked in come along" {
  [ -s "$tree/LICENSE" ]
  for name in libuv1-dev libssl-dev libyaml-cpp-dev libjansson-dev liblzma-dev libstdc++-; do
    compgen -G "$tree/share/doc/nacre/licenses/$name*" || { echo "no $name"; return 1; }
  done
}

# ---- the GitHub action -------------------------------------------------------

# action_step NAME=INPUT...: its step, as a runner would run it. What it prints is in `output`, what it sets in files.
action_step() {
  rm -rf runner && mkdir runner
  /usr/bin/python3 -c 'import sys, yaml; print(yaml.safe_load(open(sys.argv[1]))["runs"]["steps"][0]["run"])' \
    "$NACRE_SOURCE_DIR/etc/action/action.yml" >runner/step
  run env NACRE_VERSION= NACRE_ARCHIVE= NACRE_SHA256= NACRE_MPIEXEC=false NACRE_RELEASES="file://$PWD/releases" RUNNER_TEMP="$PWD/runner" \
    GITHUB_WORKSPACE="$PWD" GITHUB_PATH="$PWD/runner/path" GITHUB_OUTPUT="$PWD/runner/output" "$@" bash runner/step
  echo "$output"
}

@test "the action puts a tarball into PATH, a release or a file, and refuses one whose sum is another" {
  local version archive
  version=$("$NACRE_SHELL" --version | cut -d' ' -f2)
  archive=$(echo "$NACRE_DIST"/nacre-*-linux-*.tar.gz)
  action_step NACRE_ARCHIVE="$archive"
  [ "$status" -eq 0 ]
  grep -qx "version=$version" runner/output
  [ "$(env PATH="$(cat runner/path):$PATH" nacre run echo hi)" = hi ]
  cp "$archive" mine.tar.gz
  action_step NACRE_ARCHIVE=mine.tar.gz NACRE_SHA256="$(sha256sum <"$archive" | cut -d' ' -f1)" NACRE_MPIEXEC=true
  [ "$status" -eq 0 ]
  [ "$(env PATH="$(tail -n 1 runner/path):$PATH" mpiexec -n 1 echo hi)" = hi ]
  action_step NACRE_ARCHIVE=mine.tar.gz NACRE_SHA256="$(sha256sum </dev/null | cut -d' ' -f1)"
  [ "$status" -eq 1 ]
  [[ $output == *"::error::nacre: mine.tar.gz is not what it should be"* ]]
  mkdir -p "releases/v$version"
  cp "$archive" "releases/v$version/"
  (cd "releases/v$version" && sha256sum -- * >SHA256SUMS)
  action_step NACRE_VERSION="$version"
  [ "$status" -eq 0 ]
  echo >>"releases/v$version/SHA256SUMS"
  echo x >>"releases/v$version/${archive##*/}"
  action_step NACRE_VERSION="$version"
  [ "$status" -eq 1 ]
  action_step
  [ "$status" -eq 1 ]
  [[ $output == *"one of the inputs version and archive is needed"* ]]
}

@test "the action and the recipe for conda can be read" {
  /usr/bin/python3 - "$NACRE_SOURCE_DIR" <<'END'
import re, sys, yaml
action = yaml.safe_load(open(f"{sys.argv[1]}/etc/action/action.yml"))
used = set(re.findall(r"inputs\.(\w+)", open(f"{sys.argv[1]}/etc/action/action.yml").read()))
assert used == set(action["inputs"]), (used, action["inputs"])
recipe = open(f"{sys.argv[1]}/etc/conda/meta.yaml").read()
recipe = re.sub(r"\{%.*?%\}", "", recipe, flags=re.S)
recipe = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "word", recipe))
assert set(recipe) == {"package", "source", "build", "requirements", "test", "about"}, recipe
pattern = re.compile(r"project\(nacre VERSION ([0-9.]+)")
assert pattern.match(next(line for line in open(f"{sys.argv[1]}/CMakeLists.txt") if line.startswith("project(")))
END
}

# ---- the wheel ---------------------------------------------------------------

@test "pip installs it whole, and its commands run a job" {
  "$venv/bin/pip" check
  [ "$("$venv/bin/pip" list --format=freeze | grep '^nacre=')" = "nacre==$("$NACRE_SHELL" --version | cut -d' ' -f2)" ]
  [ "$("$venv/bin/nacre" run -n 2 echo hi)" = $'hi\nhi' ]
  [ "$("$venv/bin/nacre-mpiexec" -n 2 echo hi)" = $'hi\nhi' ]
  [ "$("$venv/libexec/nacre/mpi/mpirun" -np 1 echo hi)" = hi ]
  [[ $("$venv/bin/nacre-shell" --version) == "nacre-shell "* ]]
  [ ! -e "$venv/bin/mpiexec" ]
  run "$venv/bin/nacre" initrc check
  [[ $output == *"reads $venv/etc/nacre/shell/initrc.lua"* ]]
}

@test "its RECORD has each of its files, with the right sum" {
  /usr/bin/python3 - "$NACRE_DIST"/nacre-*.whl <<'END'
import base64, csv, hashlib, io, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
record = next(name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(wheel.read(record).decode()))}
assert sorted(rows) == sorted(wheel.namelist()), set(rows) ^ set(wheel.namelist())
for name, (digest, size) in rows.items():
    if name != record:
        content = wheel.read(name)
        assert int(size) == len(content)
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode(), name
END
}

@test "the module: a job's code, its cause, its report and its output; and what is wrong usage" {
  "$venv/bin/python" - <<'END'
import nacre

result = nacre.run(["sh", "-c", "echo out $NACRE_TASK_RANK; echo no wood >&2; exit $((NACRE_TASK_RANK * 9))"], n=2)
assert result.code == 9 and sorted(result.output.split()) == ["0", "1", "out", "out"], result
assert result.cause["rank"] == 1 and result.report["exit"]["code"] == 9 and "no wood" in result.errors
try:
    result.check()
    raise AssertionError("a failed job passes")
except nacre.JobFailed as failed:
    assert failed.result is result and str(failed).startswith("exit code 9: rank 1 on "), failed
good = nacre.run("cat", input="text", env=["A=1"], label_io=True, pty=None)
assert good.check() is good and good.cause is None and good.output == "0: text\n", good
assert nacre.run(["true"], n=2, local=2, setopt={"cpu-affinity": "off"}).report["job"]["shells"] == 2
assert nacre.run("sh -c 'kill -9 $$'").code == 137
assert nacre.run(["sh", "-c", 'echo "$A|$B"'], env={"A": "$HOME", "B": 2}).output == "$HOME|2\n"
assert nacre.run("./no-such-program").code == 127
assert nacre.run(["echo", ":", "a", ":::", "b"]).output == ": a ::: b\n"
for wrong in ({"bogus": 1}, {"local": "x"}):
    try:
        nacre.run("true", **wrong)
        raise AssertionError(wrong)
    except ValueError as error:
        assert str(error).startswith("nacre run: "), error
try:
    nacre.run([])
    raise AssertionError("no command")
except ValueError:
    pass
END
}

@test "the module: an interrupt is the job's, too, which ends in its own way before it is raised" {
  cat >interrupted.py <<'END'
import nacre
try:
    nacre.run(["sh", "-c", "trap 'sleep 1; echo saved >saved; exit 0' INT; echo >ready; while :; do sleep 0.1; done"])
except KeyboardInterrupt:
    print(open("saved").read(), end="")
END
  # A background process of bash would ignore SIGINT.
  env --default-signal=INT "$venv/bin/python" interrupted.py >out 3>&- &
  local python=$!
  wait_until test -e ready
  kill -INT "$python"
  wait "$python"
  [ "$(cat out)" = saved ]
}

@test "the module lists jobs: those that run, and those that have ended" {
  "$venv/bin/nacre" run --name=waits sleep 1000 3>&- &
  local job=$!
  wait_until jobs_has waits
  "$venv/bin/nacre" cancel "$("$venv/bin/nacre" jobs --json | jq -r .id)"
  wait "$job" || :
  "$venv/bin/python" -c 'import nacre; assert nacre.jobs() == []; assert [job["name"] for job in nacre.jobs(ended=True)] == ["waits"]'
}

jobs_has() { "$venv/bin/python" -c 'import nacre, sys; sys.exit([job["name"] for job in nacre.jobs()] != sys.argv[1:])' "$1"; }

@test "on an older C library the module says so in a line" {
  run "$venv/bin/python" -c 'import nacre, platform; platform.libc_ver = lambda: ("glibc", "2.31"); nacre.run("true")'
  [ "$status" -eq 1 ]
  [[ ${lines[-1]} == "RuntimeError: nacre needs glibc 2.34 or later "*"this system has glibc 2.31" ]]
}

@test "when it is uninstalled no file of it stays" {
  "$venv/bin/pip" uninstall --quiet --yes nacre
  run find "$venv" -path '*nacre*' -type f
  echo "$output"
  [ -z "$output" ]
}
