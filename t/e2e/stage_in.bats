#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The option stage-in: archives made by nacre archive are extracted before the tasks of a job start.
load archives.bash

# Jobs find the archives by the environment that the jobspec gives them. $1: the command.
prepare_staging() {
  make_tree
  environment=$(jq -n --arg dir "$work/ar" '{PATH: "/usr/bin:/bin", NACRE_ARCHIVE_DIR: $dir}') prepare 2 "$@"
}

@test "stage-in gives the tasks the files of an archive in FLUX_JOB_TMPDIR" {
  prepare_staging sh -c 'cat "$FLUX_JOB_TMPDIR/data/link"'
  archive create -C from .
  run nacre -o stage-in
  [ "$status" -eq 0 ]
  [ "$output" = $'hello\nhello' ]
  [ -z "$(ls "$TMPDIR")" ]
}

@test "stage-in is an option of the jobspec and of an initrc too" {
  options='{"stage-in": {"names": ["one"]}}' prepare_staging cat '{{tmpdir}}/file'
  archive create -n one -C from file
  archive create -n two -C from data
  run nacre
  [ "$output" = $'hello\nhello' ]
  echo 'shell.options["stage-in"] = { names = "two" }' >init.lua
  prepare_staging cat '{{tmpdir}}/data/x.csv'
  run nacre --initrc=init.lua
  [ "$output" = $'1,2\n1,2' ]
}

# bats test_tags=long
@test "stage-in.names and stage-in.pattern pick what is staged" {
  prepare_staging sh -c '[ "$FLUX_TASK_RANK" = 1 ] || find "$FLUX_JOB_TMPDIR" -type f -printf "%P\n" | sort'
  archive create -n one -C from file
  archive create -n two -C from data
  run nacre -o stage-in.names=one,two
  [ "$output" = $'data/x.csv\nfile' ]
  run nacre -o stage-in.names=one,two -o 'stage-in.pattern=*.csv'
  [ "$output" = data/x.csv ]
}

# bats test_tags=long
@test "stage-in.destination: elsewhere, and there it stays" {
  prepare_staging true
  archive create -C from .
  run nacre -o stage-in.destination=global:"$work"/deep/there
  [ "$status" -eq 0 ]
  diff -r --no-dereference from deep/there
  run nacre -o stage-in.destination="$work"/deep/there
  fails_with 1 "nacre-shell[0]: fatal: stage-in: $work/ar/main.tar.zst: 'data/link': exists already"
  run nacre -o stage-in.destination="$work"/deep/there -o stage-in.overwrite
  [ "$status" -eq 0 ]
}

# bats test_tags=long
@test "stage-in.max-size: more content in all ends the job, and nothing stays of the archive that goes beyond" {
  prepare_staging touch "$work/started"
  mkdir big
  echo one >big/small
  head -c 100000 /dev/urandom >big/zlarge
  archive create -n one -C from .
  archive create -n two -C . big
  run nacre -o stage-in.names=one,two -o stage-in.destination="$work"/there -o stage-in.max-size=50k
  fails_with 1 "nacre-shell[0]: fatal: stage-in: $work/ar/two.tar.zst: 'big/zlarge': more content than 51200 bytes (stage-in.max-size)"
  diff -r --no-dereference from there
  rm -r there
  run nacre -o stage-in.names=one -o stage-in.destination="$work"/there -o stage-in.max-size=9
  fails_with 1 "more content than 9 bytes (stage-in.max-size)"
  [ -z "$(ls -A there)" ]
  [ ! -e started ]
  run nacre -o stage-in.max-size=-1
  fails_with 1 'stage-in.max-size: expected a number of bytes, such as 4096 or "10M", got -1'
  run nacre -o stage-in.names=one,two -o stage-in.destination="$work"/there -o stage-in.max-size=100014
  [ "$status" -eq 0 ]
  cmp big/zlarge there/big/zlarge
}

@test "an archive that is not there keeps the job from starting" {
  prepare_staging touch started
  archive create -n data -C from .
  run nacre -o stage-in
  fails_with 1 "stage-in: no archive 'main' in $work/ar (there: only 'data')"
  run nacre -o stage-in.names=data,date
  fails_with 1 "stage-in: no archive 'date' in $work/ar (there: only 'data')"
  run nacre -o stage-in.destination=everywhere:/x
  fails_with 1 'stage-in.destination: expected local:PATH, global:PATH or PATH, got "everywhere:/x"'
  run nacre -o stage-in.nmaes=data
  fails_with 1 "stage-in" "nmaes"
  [ ! -e started ]
  [ -z "$(ls "$TMPDIR")" ]
}

# bats test_tags=long
@test "a bad archive keeps the job from starting, and leaves nothing" {
  prepare_staging touch "$work/started"
  craft main <<<'add("../evil", FILE, "x")'
  run nacre -o stage-in
  fails_with 1 "fatal: stage-in: $work/ar/main.tar: '../evil': refused: a path with a '..' part"
  craft main <<<'add("l", SYMLINK, linkname="/etc")'
  run nacre -o stage-in
  fails_with 1 "fatal: stage-in: $work/ar/main.tar: 'l': refused: a symbolic link to '/etc', which is absolute"
  craft main <<<'add("h", HARDLINK, linkname="/etc/passwd")'
  run nacre -o stage-in
  fails_with 1 "fatal: stage-in: $work/ar/main.tar: 'h': refused: a hard link to '/etc/passwd'"
  craft main <<<'add("d", CHRTYPE, devmajor=1, devminor=3)'
  run nacre -o stage-in
  fails_with 1 "fatal: stage-in: $work/ar/main.tar: 'd': refused: a character device"
  echo hello >ar/main.tar
  run nacre -o stage-in
  fails_with 1 "fatal: stage-in: $work/ar/main.tar: no tar archive"
  [ ! -e started ]
  [ ! -e evil ]
  [ -z "$(ls "$TMPDIR")" ]
}

@test "a plan is made without extracting anything" {
  prepare_staging true
  archive create -C from .
  run nacre -o stage-in.destination="$work"/there --explain
  [ "$status" -eq 0 ]
  [ ! -e there ]
}

# bats test_tags=long
@test "a signal ends a job while files are staged, and nothing is left" {
  prepare_staging touch "$work/started"
  # The file is larger than what is written before the signal comes, but small when compressed.
  craft main <<'END'
class Zeros:
    def read(self, size): return b"\0" * size
info = tarfile.TarInfo("zeros")
info.size = 64 << 20
tar.addfile(info, Zeros())
for n in range(20000):
    add("f%d" % n, FILE, "x")
END
  local signal code
  for signal in INT TERM; do
    code=$([ $signal = INT ] && echo 130 || echo 143)
    env --default-signal=INT "${nacre[@]}" -o stage-in >log 2>&1 3>&- &
    local pid=$!
    until compgen -G "$TMPDIR/*/zeros" >/dev/null; do kill -0 "$pid"; done
    kill -"$signal" "$pid"
    status=0
    wait "$pid" || status=$?
    cat log
    [ "$status" -eq "$code" ]
    [ "$(wc -l <log)" -eq 1 ]
    [ ! -e started ]
    [ -z "$(ls "$TMPDIR")" ]
  done
}
