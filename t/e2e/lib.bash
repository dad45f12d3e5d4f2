# SPDX-License-Identifier: Apache-2.0
#
# For the tests that run nacre-shell as a user would. NACRE_SHELL is the program under test.
# shellcheck disable=SC2154 # bats sets status, output, lines

bats_require_minimum_version 1.5.0
. "${BASH_SOURCE[0]%/*}/../kit/tests.bash"

setup() {
  : "${NACRE_SHELL:?path of nacre-shell}"
  work=$(mktemp -d)
  cd "$work" || return
  export TMPDIR=$work/tmp
  mkdir "$TMPDIR"
  export NACRE_JOBS_DIR=$work/jobs
  # R of the tests names cores that this machine need not have.
  nacre=("$NACRE_SHELL" --standalone -j jobspec.json -R R.json -o cpu-affinity=off)
}

teardown() {
  end_what_is_left
  cd /
  rm -rf "$work"
}

# A copy of the program $1 that users without any rights may start: the build may be below a folder that only root may enter.
copy_for_all() {
  mkdir -p "$work/for-all"
  cp "$1" "$work/for-all/"
  chmod 755 "$work" "$work/for-all"
  echo "$work/for-all/${1##*/}"
}

# R for one node with cores 0..$1-1 (default: 4) and more members of execution in $2.
write_R() {
  local cores=${1:-4}
  local last=$((cores - 1)) ids=0
  ((cores == 1)) || ids=0-$last
  cat >R.json <<EOF
{"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "$ids"}}],
 "nodelist": ["node0"], "starttime": 0, "expiration": 0 ${2:+, $2}}}
EOF
}

# A jobspec of $1 tasks on as many one-core slots; the rest is the command.
write_jobspec() {
  local tasks=$1
  shift
  jq -n --argjson n "$tasks" --argjson options "${options:-"{}"}" --argjson environment "${environment:-null}" \
    --arg cwd "${cwd:-}" '{
    version: 1,
    resources: [{type: "slot", count: $n, label: "task", with: [{type: "core", count: 1}]}],
    tasks: [{command: $ARGS.positional, slot: "task", count: {per_slot: 1}}],
    attributes: {system: ({duration: 0, environment: ($environment // {PATH: "/usr/bin:/bin"}), shell: {options: $options}}
      + if $cwd == "" then {} else {cwd: $cwd} end)}}' --args -- "$@" >jobspec.json
}

# R and jobspec.json of a job of $1 tasks of the command that follows, on a node with as many cores.
prepare() {
  write_R "$1"
  write_jobspec "$@"
}

nacre() { "${nacre[@]}" "$@"; }

# The run failed with exit code $1, and all it said on stderr is one line that has each of the other arguments in it.
fails_with() {
  local code=$1
  shift
  [ "$status" -eq "$code" ] || { echo "exit code $status, not $code: $output"; return 1; }
  [ "${#lines[@]}" -eq 1 ] || { echo "not one line: $output"; return 1; }
  local text
  for text in "$@"; do
    [[ $output == *"$text"* ]] || { echo "no '$text' in: $output"; return 1; }
  done
}

# Of shell $1 of the only job, which is listed once its tasks run.
pid_of_shell() {
  # shellcheck disable=SC2016 # for the command
  at_last() { "$NACRE_BUILD_DIR/nacre" exec --shells="$1" sh -c 'echo $PPID' >"$work/pid-of-shell" 2>/dev/null; }
  wait_until at_last "$1"
  cat "$work/pid-of-shell"
}
