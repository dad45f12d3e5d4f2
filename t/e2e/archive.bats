#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The program nacre, and its verb archive.
load archives.bash

# ---- the program -------------------------------------------------------------

@test "nacre tells its version, its verbs and their options" {
  run --separate-stderr "$NACRE_BUILD_DIR/nacre" --version
  [ "$status" -eq 0 ]
  [[ $output == "nacre $("$NACRE_SHELL" --version | cut -d' ' -f2) +libarchive "*" +libssl "* ]]
  run --separate-stderr "$NACRE_BUILD_DIR/nacre" --help
  [ "$status" -eq 0 ]
  [[ $output == *"archive "*"Make, list, extract and remove"* ]]
  run --separate-stderr archive --help
  [ "$status" -eq 0 ]
  [[ $output == *create*list*extract*remove* ]]
  run --separate-stderr archive create --help
  [ "$status" -eq 0 ]
  [[ $output == *--compression*--append* ]]
  [ -z "$stderr" ]
}

# The run was a usage error of the program $1, whose message is $2.
is_usage_error() {
  echo "$output"
  [ "$status" -eq 2 ]
  [ "$output" = "$1: $2"$'\n'"Try '$1 --help'." ]
}

@test "a wrong command line is a usage error, in one line, and where help is" {
  run "$NACRE_BUILD_DIR/nacre"
  is_usage_error nacre "expected a verb, as in: nacre run -n 4 hostname"
  run "$NACRE_BUILD_DIR/nacre" polish
  is_usage_error nacre "'polish' is not known here"
  run archive polish
  is_usage_error "nacre archive" "'polish' is not known here"
  run archive creat
  is_usage_error "nacre archive" "'creat' is not known here; did you mean create?"
  run archive
  is_usage_error "nacre archive" "expected create or list or extract or remove"
  run archive create
  is_usage_error "nacre archive create" "expected PATH"
  run archive create --polish x
  is_usage_error "nacre archive create" "'--polish' is not known here"
  run archive create --compresion=zip x
  is_usage_error "nacre archive create" "'--compresion=zip' is not known here; did you mean --compression?"
  run archive create --append --overwrite x
  is_usage_error "nacre archive create" "--append and --overwrite exclude each other: give one of them"
  run archive create --compression=zip x
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == "nacre archive create: "*zip*zstd* ]]
  run archive extract --max-size=big
  [ "$status" -eq 2 ]
}

@test "nacre loads libarchive only when it reads or writes an archive" {
  make_tree
  archive create -C from file
  LD_DEBUG=files run archive list --archives
  [ "$status" -eq 0 ]
  [[ $output != *libarchive* ]]
  LD_DEBUG=files run archive list
  [[ $output == *libarchive* ]]
}

# ---- create, list, extract, remove -------------------------------------------

@test "a tree goes into an archive and comes out the same" {
  make_tree
  archive create -C from .
  [ -f ar/main.tar.zst ]
  [ "$(archive list)" = $'data\ndata/link\ndata/x.csv\nfile' ]
  mkdir to
  run archive extract -C to
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  diff -r --no-dereference from to
  [ "$(stat -c %Y to/file)" = 1600000000 ]
}

@test "list tells more with -l, and less with a pattern" {
  make_tree
  chmod 640 from/file
  archive create -C from .
  run archive list --long file
  [ "$output" = "-rw-r-----            6 2020-09-13 12:26 file" ]
  run archive list -l '*link'
  [[ $output == "lrwxrwxrwx "*" data/link -> ../file" ]]
  [ "$(archive list '*.csv')" = data/x.csv ]
  run archive list '*.png'
  fails_with 1 "nacre archive list: $work/ar/main.tar.zst: nothing in it matches '*.png'"
}

@test "names with control characters do not reach the terminal" {
  make_tree
  touch $'from/a\nb\e[2J'
  archive create -C from .
  [ "$(archive list 'a*')" = 'a\x0ab\x1b[2J' ]
}

@test "each compression makes an archive that tar can read too, and nacre can read tar's" {
  make_tree
  local compression
  for compression in none gzip zstd xz; do
    archive create -n "a-$compression" -c "$compression" -C from .
    mkdir "tar-$compression" "own-$compression"
    tar -xf "ar/a-$compression".tar* -C "tar-$compression"
    diff -r --no-dereference from "tar-$compression"
    case $compression in
      none) tar -cf ar/b-none.tar -C from . ;;
      gzip) tar -czf ar/b-gzip.tar.gz -C from . ;;
      zstd) tar --zstd -cf ar/b-zstd.tar.zst -C from . ;;
      xz) tar -cJf ar/b-xz.tar.xz -C from . ;;
    esac
    archive extract -n "b-$compression" -C "own-$compression"
    diff -r --no-dereference from "own-$compression"
  done
}

# bats test_tags=long
@test "an archive that is there needs --overwrite or --append" {
  make_tree
  archive create -C from file
  run archive create -C from data
  fails_with 1 "nacre archive create: $work/ar/main.tar.zst: exists already; use --overwrite or --append"
  archive create --append -C from data
  [ "$(archive list)" = $'file\ndata\ndata/link\ndata/x.csv' ]
  run archive create --append -C from file
  fails_with 1 "nacre archive create: 'file': in the archive already"
  archive create --overwrite -C from data
  [ "$(archive list)" = $'data\ndata/link\ndata/x.csv' ]
}

@test "archives are in --dir, or where the environment says" {
  make_tree
  archive create --dir "$work/one" -C from file
  [ -f one/main.tar.zst ]
  unset NACRE_ARCHIVE_DIR
  XDG_DATA_HOME=$work/two archive create -C from file
  [ -f two/nacre/archives/main.tar.zst ]
  run ! env -u XDG_DATA_HOME HOME="$work/three" "$NACRE_BUILD_DIR/nacre" archive create -C from file
  [ ! -e three ] # a home is not made
  mkdir three
  env -u XDG_DATA_HOME HOME="$work/three" "$NACRE_BUILD_DIR/nacre" archive create -C from file
  [ -f three/.local/share/nacre/archives/main.tar.zst ]
  run env -u XDG_DATA_HOME -u HOME "$NACRE_BUILD_DIR/nacre" archive list
  fails_with 1 "NACRE_ARCHIVE_DIR, XDG_DATA_HOME and HOME are not set"
}

@test "an archive that is not there is told with those that are" {
  make_tree
  archive create -n one -C from file
  archive create -n two -C from file
  run archive list -n three
  fails_with 1 "nacre archive list: no archive 'three' in $work/ar (there: 'one', 'two')"
  run archive extract
  fails_with 1 "nacre archive extract: no archive 'main' in $work/ar (there: 'one', 'two')"
  [ "$(archive list --archives)" = $'one\ntwo' ]
}

@test "remove removes, and fails if there is nothing, but not with --force" {
  make_tree
  archive create -C from file
  archive remove
  [ ! -e ar/main.tar.zst ]
  run archive remove
  fails_with 1 "nacre archive remove: no archive 'main' in $work/ar (there: no archives)"
  run archive remove --force
  [ "$status" -eq 0 ]
  [ -z "$output" ]
}

@test "extract: a pattern, -t, -v, --overwrite" {
  make_tree
  archive create -C from .
  mkdir to
  run archive extract -t -C to '*.csv'
  [ "$output" = data/x.csv ]
  [ -z "$(ls to)" ]
  run archive extract -v -C to '*.csv'
  [ "$output" = data/x.csv ]
  [ "$(find to -type f)" = to/data/x.csv ]
  echo mine >to/file
  run archive extract -C to file
  fails_with 1 "'file': exists already"
  [ "$(cat to/file)" = mine ]
  archive extract -C to --overwrite
  diff -r --no-dereference from to
  run archive extract -C to '*.png'
  fails_with 1 "nothing in it matches '*.png'"
  run archive extract -C nowhere
  fails_with 1 "nacre archive extract: cannot extract to: nowhere: No such file or directory"
}

@test "extract: no more content than --max-size" {
  make_tree
  head -c 100000 /dev/urandom >from/big
  archive create -C from .
  mkdir to
  run archive extract -C to --max-size 50k
  fails_with 1 "main.tar.zst: 'big': more content than 51200 bytes (--max-size)"
  [ ! -e to/big ]
  mkdir again
  archive extract -C again --max-size 1M
}

# The file $1 could not be completed for the reason $2, and is not there; earlier files are.
leaves_nothing_incomplete() {
  [ "$status" -eq 1 ] || { echo "exit code $status: $output"; return 1; }
  [ "$output" = "nacre archive extract: $work/ar/main.tar.zst: '$1': $2" ] || { echo "$output"; return 1; }
  [ "$(find to -type f -printf '%P\n')" = first ]
}

# bats test_tags=long
@test "extract: a file larger than ulimit -f allows is an error, and does not stay" {
  make_tree
  mkdir files to
  echo hello >files/first
  head -c 100000 /dev/urandom >files/second
  archive create -C files first second
  run bash -c 'ulimit -f 50; exec "$0" archive extract -C to' "$NACRE_BUILD_DIR/nacre"
  leaves_nothing_incomplete second "File too large"
  rm -r to/*
  truncate -s 100000 files/second  # the file is one hole
  archive create --overwrite -C files first second
  run bash -c 'ulimit -f 50; exec "$0" archive extract -C to' "$NACRE_BUILD_DIR/nacre"
  leaves_nothing_incomplete second "File too large"
  run bash -c 'ulimit -f 1; exec "$0" archive create -n other -c none -C files first second' "$NACRE_BUILD_DIR/nacre"
  [ "$status" -eq 1 ]
  [[ $output == *"File too large"* ]]
  [ "$(ls -A ar)" = main.tar.zst ]
}

# bats test_tags=root
@test "extract: a file that the file system has no room for is an error, and does not stay" {
  needs_root "to mount"
  make_tree
  mkdir files to
  echo hello >files/first
  head -c 300000 /dev/urandom >files/second
  archive create -C files first second
  # In a mount namespace of its own, so nothing stays mounted.
  run unshare -m sh -c 'mount -t tmpfs -o size=128k none to && "$0" archive extract -C to; code=$?; find to -type f -printf "%P\n" >left; exit $code' "$NACRE_BUILD_DIR/nacre"
  [[ $output != *"unshare failed"* ]] || skip "no mount namespaces"
  [ "$status" -eq 1 ]
  [ "$output" = "nacre archive extract: $work/ar/main.tar.zst: 'second': No space left on device" ]
  [ "$(<left)" = first ]
}

@test "what cannot be stored is named, and there is no archive" {
  make_tree
  mkfifo from/pipe
  run archive create -C from .
  fails_with 1 "nacre archive create: 'pipe': a fifo; only files, directories and symbolic links can be stored"
  rm from/pipe
  ln -s /etc/passwd from/data/out
  run archive create -C from .
  fails_with 1 "nacre archive create: 'data/out': a symbolic link to '/etc/passwd', which is absolute"
  run archive create -C from ../from
  fails_with 1 "nacre archive create: '../from': a path with a '..' part"
  run archive create /dev/null
  fails_with 1 "nacre archive create: '/dev/null': an absolute path"
  [ -z "$(ls -A ar)" ]
}

# bats test_tags=root
@test "a file that may not be read is named, and there is no archive" {
  needs_root "to run as another user"
  make_tree
  chmod 600 from/file
  program=$(copy_for_all "$NACRE_BUILD_DIR/nacre")
  chmod 777 .
  run setpriv --reuid=65534 --regid=65534 --clear-groups "$program" archive create --dir "$work/other" -C from .
  fails_with 1 "nacre archive create: 'file': Permission denied"
  [ -z "$(ls -A other)" ]
}

@test "a signal ends a creation, and leaves neither an archive nor a part of one" {
  make_tree
  head -c 64M /dev/urandom >from/noise # xz takes many seconds to compress this
  local signal code
  for signal in INT TERM HUP QUIT; do
    # Bash starts background processes with SIGINT and SIGQUIT ignored.
    env --default-signal=INT,QUIT "$NACRE_BUILD_DIR/nacre" archive create -c xz -C from . 3>&- &
    local pid=$!
    until compgen -G 'ar/.main.tar.xz.*' >/dev/null; do kill -0 "$pid"; done
    kill -"$signal" "$pid"
    code=0
    wait "$pid" || code=$?
    [ "$code" -eq $((128 + $(kill -l "$signal"))) ]
    [ -z "$(ls -A ar)" ]
  done
}

# ---- archives that mean ill ----------------------------------------------------

# bats test_tags=long
@test "an entry that leads outside, or is no file, directory or link, is refused and named" {
  make_tree
  mkdir to
  local n=0
  refuses() { # ENTRY WHY, Python on standard input
    craft "bad$((++n))"
    run archive extract -n "bad$n" -C to
    fails_with 1 "nacre archive extract: $work/ar/bad$n.tar: '$1': refused: $2"
  }
  refuses ../evil "a path with a '..' part" <<<'add("../evil", FILE, "x")'
  refuses a/../../evil "a path with a '..' part" <<<'add("a/../../evil", FILE, "x")'
  refuses "$work/evil" "an absolute path" <<<"add('$work/evil', FILE, 'x')"
  refuses l "a symbolic link to '..', which leads outside" <<<'add("l", SYMLINK, linkname="..")'
  refuses l "a symbolic link to '$work', which is absolute" <<<"add('l', SYMLINK, linkname='$work')"
  refuses h "a hard link to '../from/file': a path with a '..' part" <<<'add("h", HARDLINK, linkname="../from/file")'
  refuses h "a hard link to '/etc/passwd': an absolute path" <<<'add("h", HARDLINK, linkname="/etc/passwd")'
  refuses d "a character device" <<<'add("d", CHRTYPE, devmajor=1, devminor=3)'
  refuses d "a block device" <<<'add("d", BLKTYPE, devmajor=8, devminor=0)'
  refuses f "a fifo" <<<'add("f", FIFOTYPE)'
  refuses s "a file with a set-user-ID or set-group-ID bit" <<<'add("s", FILE, "x", mode=0o4755)'
  [ -z "$(ls -A to)" ]
  [ ! -e evil ]
}

@test "nothing is written through a link, of the archive or there before" {
  make_tree
  mkdir to outside
  craft planted <<'END'
add("d", DIR, mode=0o755)
add("l", SYMLINK, linkname="d")
add("l/evil", FILE, "x")
END
  run archive extract -n planted -C to
  fails_with 1 "'l': refused: a symbolic link stands where a directory is to be"
  [ -z "$(ls -A to/d)" ]
  craft through <<<'add("out/evil", FILE, "x")'
  ln -s ../outside to/out
  run archive extract -n through -C to --overwrite
  fails_with 1 "'out': refused: a symbolic link stands where a directory is to be"
  [ -z "$(ls -A outside)" ]
}

# bats test_tags=long
@test "damaged, cut and strange archives are told in one line" {
  make_tree
  head -c 1000000 /dev/urandom >from/noise
  archive create -C from .
  mkdir to
  cp ar/main.tar.zst whole
  head -c 600000 whole >ar/main.tar.zst
  run archive extract -C to
  fails_with 1 "nacre archive extract: $work/ar/main.tar.zst: damaged or cut off: "
  [ ! -e to/noise ]
  # Changes one bit of the content, which breaks no structure.
  python3 -c 'import sys; b = bytearray(open(sys.argv[1], "rb").read()); b[600000] ^= 1; open(sys.argv[2], "wb").write(b)' \
    whole ar/main.tar.zst
  run archive extract -C to --overwrite
  fails_with 1 "main.tar.zst: damaged or cut off: "
  echo hello >ar/main.tar.zst
  run archive list
  fails_with 1 "nacre archive list: $work/ar/main.tar.zst: no tar archive (plain, gzip, zstd or xz), or a damaged one: "
  : >ar/main.tar.zst
  run archive list
  fails_with 1 "no tar archive"
  rm ar/main.tar.zst
  mkdir ar/main.tar.zst
  run archive list
  fails_with 1 "nacre archive list: $work/ar/main.tar.zst: no regular file"
}
