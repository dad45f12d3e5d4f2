#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# etc/step.sh HEADING COMMAND [ARG...]: runs the command under a heading, says how long it took, and ends as it did.
set -uo pipefail

heading=$1
shift
printf '\n==> %s\n' "$heading"
started=$SECONDS
"$@"
code=$?
if [[ $code -eq 0 ]]; then
  printf '<== %s: %d s\n' "$heading" $((SECONDS - started))
else
  printf '<== %s: FAILED after %d s, exit code %d\n' "$heading" $((SECONDS - started)) "$code"
fi
exit "$code"
