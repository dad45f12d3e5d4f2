#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A first job: four tasks, mapped cyclic, each bound to its share of the cores, with a plugin in Lua. Leaves its files, to be changed.
#   run.sh [NACRE-SHELL [FOLDER]]     by default that of PATH, and ./nacre-demo
set -euo pipefail

shell=${1:-$(command -v nacre-shell)} || { echo "run.sh: no nacre-shell in PATH: name it" >&2 && exit 1; }
shell=$(readlink -f -- "$shell")
folder=${2:-nacre-demo}
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
mkdir -p "$folder"

# What is there already may have been changed.
keep() { if [[ -e $folder/$1 ]]; then cat >/dev/null; else cat >"$folder/$1"; fi; }

keep initrc.lua <"$here/initrc.lua"
cores=$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)
keep R.json <<EOF
{"version": 1, "execution": {
  "R_lite": [{"rank": "0", "children": {"core": "0-$((cores - 1))"}}],
  "nodelist": ["$(uname -n)"], "starttime": 0, "expiration": 0}}
EOF
keep jobspec.yaml <<'EOF'
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

job=(--standalone --initrc=initrc.lua -j jobspec.yaml -R R.json)
printf '$ cd %q\n$ %q %s\n' "$folder" "$shell" "${job[*]}"
code=0
(cd "$folder" && "$shell" "${job[@]}") || code=$?
echo "exit code $code"
((code == 0)) || exit "$code"

cat <<EOF

The job's files are in $folder. What to try next there:
  $shell ${job[*]} --explain         # the plan, without starting anything
  $shell ${job[*]} -o output.fold    # equal lines of several tasks as one
  $(dirname -- "$shell")/nacre launch --local=2 -j jobspec.yaml -o cpu-affinity=off    # two shells, as on two nodes
Or change jobspec.yaml (the program, how often) or initrc.lua (what Lua does), and run it again.
nacre-jobspec(5) and nacre-lua(3) have examples.
EOF
