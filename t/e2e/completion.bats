#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The completion for bash, given the words as bash splits them, with the cursor at the end.

setup() {
  compopt() { :; } # only there while bash completes
  # shellcheck source=/dev/null
  source "$NACRE_BUILD_DIR/etc/nacre-shell.bash"
  cd "$BATS_TEST_TMPDIR" || return
}

completed() {
  COMP_WORDS=("$NACRE_SHELL" "$@")
  COMP_CWORD=$#
  _nacre_shell "$NACRE_SHELL" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  echo "${COMPREPLY[*]}"
}

@test "the program's options are those that its help names" {
  [ "$(completed --stand)" = --standalone ]
  [ "$(completed --exp)" = --explain ]
  [[ $(completed -) == *"-s "*"--initrc"* ]]
}

@test "shell options are completed after -o and --setopt" {
  [ "$(completed -o cpu-)" = cpu-affinity= ]
  [ "$(completed --setopt = exit-timeout)" = "exit-timeout= exit-timeout.timeout= exit-timeout.after=" ]
}

@test "the values of a shell option are completed" {
  [ "$(completed -o cpu-affinity = per)" = "per-task per-task:thread per-task:core per-task:l3 per-task:numa per-task:package" ]
  COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
  [ "$(completed -o cpu-affinity = per-task : l)" = l3 ]
  [ "$(completed -o mem-affinity = int)" = interleave ]
  [ "$(completed --setopt = taskmap.scheme = cy)" = cyclic ]
  [ "$(completed -o exit-timeout.after = f)" = failure ]
}

@test "files are completed where a file is expected" {
  touch job.json
  [ "$(completed -j jo)" = job.json ]
  [ "$(completed --jobspec = jo)" = job.json ]
}

# As above, for nacre.
nacre_completed() {
  # shellcheck source=../../etc/completions/nacre.bash
  source "$NACRE_SOURCE_DIR/etc/completions/nacre.bash"
  COMP_WORDS=("$NACRE_BUILD_DIR/nacre" "$@")
  COMP_CWORD=$#
  _nacre
  echo "${COMPREPLY[*]}"
}

@test "verbs and their options are completed" {
  [ "$(nacre_completed arch)" = archive ]
  [ "$(nacre_completed archive "")" = "create list extract remove" ]
  [ "$(nacre_completed archive cr)" = create ]
  [ "$(nacre_completed archive create --app)" = --append ]
  [ "$(nacre_completed archive list --arch)" = --archives ]
  [ -z "$(nacre_completed archive list --app)" ]
  [ "$(nacre_completed run --cpu-bind p)" = package ]
  [ "$(nacre_completed run --mem-bind "")" = "bind prefer interleave" ]
  [ "$(nacre_completed launch --on-lost replace,)" = "replace,else=end replace,else=go-on" ]
  [ "$(nacre_completed run --restart al)" = "always" ]
  [ "$(nacre_completed run --health q)" = quick ]
  [ "$(nacre_completed launch --fail)" = --fail-fast ]
  [[ $(nacre_completed archive extract -) == *"-C --directory"* ]]
}

@test "shell options and values are completed for nacre run and launch, too" {
  # shellcheck source=/dev/null
  source "$NACRE_BUILD_DIR/etc/nacre.bash"
  nacre_here() {
    COMP_WORDS=("$NACRE_BUILD_DIR/nacre" "$@")
    COMP_CWORD=$#
    _nacre
    echo "${COMPREPLY[*]}"
  }
  [ "$(nacre_here run -o cpu-)" = cpu-affinity= ]
  [ "$(nacre_here launch --setopt = exit-timeout.after = f)" = failure ]
  [ "$(nacre_here run --exit-policy = ma)" = "max main main+all" ]
  [ "$(nacre_here run --exit-policy ma)" = "max main main+all" ]
}

# bats test_tags=long
@test "names of archives, compressions and files are completed" {
  mkdir ar folder
  touch ar/one.tar ar/other.tar.zst file
  export NACRE_ARCHIVE_DIR=$PWD/ar
  [ "$(nacre_completed archive list -n o)" = "one other" ]
  [ "$(nacre_completed archive list --dir "$PWD/folder" -n o)" = "" ]
  [ "$(nacre_completed archive create -c x)" = xz ]
  [ "$(nacre_completed archive create "fi")" = file ]
  [ "$(nacre_completed archive create -C fo)" = folder ]
}

# bats test_tags=long
@test "jobs that are listed are completed where a job is expected" {
  export NACRE_JOBS_DIR=$PWD/jobs
  [ "$(nacre_completed report la)" = last ]
  [ -z "$(nacre_completed kill "")" ]
  [ "$(nacre_completed ps --via fl)" = flux ]
  [ "$(nacre_completed top --on)" = --once ]
  [ "$(nacre_completed top --gp)" = --gpu ]
  [ "$(nacre_completed run --usage-g)" = --usage-gpu ]
  [ "$(nacre_completed doctor --st)" = --stacks ]
  [ "$(nacre_completed timeline la)" = last ]
  [ "$(nacre_completed timeline --js)" = --json ]
  touch trace.json
  [ "$(nacre_completed timeline -o tra)" = trace.json ]
  [ "$(nacre_completed kill -s US)" = "USR1 USR2" ]
}

# bats test_tags=long
@test "nacre plugin: the verb's words, languages and files" {
  touch one.so
  [ "$(nacre_completed plugin "")" = "new list check" ]
  [ "$(nacre_completed plugin new --lang l)" = lua ]
  [ "$(nacre_completed plugin list --js)" = --json ]
  [ "$(nacre_completed plugin list --initrc on)" = one.so ]
  [ "$(nacre_completed plugin check on)" = one.so ]
}
