#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A first job: four tasks, mapped cyclic, each bound to its share of the cores, with a plugin in Lua.
#   run.sh PATH-OF-NACRE-SHELL
set -euo pipefail

shell=${1:?usage: run.sh PATH-OF-NACRE-SHELL}
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cores=$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)
cat >"$work/R.json" <<EOF
{"version": 1, "execution": {
  "R_lite": [{"rank": "0", "children": {"core": "0-$((cores - 1))"}}],
  "nodelist": ["$(uname -n)"], "starttime": 0, "expiration": 0}}
EOF
cat >"$work/jobspec.yaml" <<'EOF'
version: 1
resources:
  - type: slot
    label: task
    count: 1
    with: [{type: core, count: 1}]
tasks:
  - command: [sh, -c, 'echo "$GREETING, on cpu $(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"']
    slot: task
    count: {total: 4}
attributes:
  system:
    duration: 60
    environment: {PATH: /usr/bin:/bin}
    shell: {options: {label-io: true, taskmap: {scheme: cyclic}, cpu-affinity: per-task}}
EOF

set -- "$shell" --standalone --initrc="$here/initrc.lua" -j "$work/jobspec.yaml" -R "$work/R.json"
printf '$ %s\n' "$*"
code=0
"$@" || code=$?
echo "exit code $code"
exit "$code"
