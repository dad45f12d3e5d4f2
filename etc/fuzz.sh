#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# etc/fuzz.sh BUILD SECONDS: runs every libFuzzer program of a build with NACRE_FUZZ for so many seconds, from the
# corpus in t/fuzz/corpus. New inputs go to BUILD/t/fuzz/found; one that breaks a target is kept as BUILD/t/fuzz/TARGET-*.
set -euo pipefail

build=${1:?usage: fuzz.sh BUILD SECONDS}
seconds=${2:?usage: fuzz.sh BUILD SECONDS}
shopt -s nullglob
targets=("$build"/t/fuzz/fuzz_*)
if [[ ${#targets[@]} -eq 0 ]]; then
  echo "fuzz.sh: no fuzz target in $build/t/fuzz" >&2
  exit 1
fi
for target in "${targets[@]}"; do
  name=${target##*/fuzz_}
  found=$build/t/fuzz/found/$name
  mkdir -p "$found"
  echo "-- $name, $seconds s"
  if ! "$target" -max_total_time="$seconds" -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="$build/t/fuzz/$name-" "$found" "${0%/*}/../t/fuzz/corpus/$name"; then
    echo "fuzz.sh: $name: failed; the input is $build/t/fuzz/$name-*" >&2
    exit 1
  fi
done
