# SPDX-License-Identifier: Apache-2.0
#
# For tests that run nacre-shell as users do. NACRE_SHELL is the program under test.
# shellcheck disable=SC2154 # bats sets status, output, lines

bats_require_minimum_version 1.5.0
. "${BASH_SOURCE[0]%/*}/../kit/tests.bash"

setup() {
  : "${NACRE_SHELL:?path of nacre-shell}"
  bats_jobs=$(jobs -p)
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
  chmod 755 "$work" "$work/for-all" "$work/for-all/${1##*/}"
  echo "$work/for-all/${1##*/}"
}

# R for one node with cores 0..$1-1 (default: 4) and more members of execution in $2.
write_R() {
  local cores=${1:-4}
  local last=$((cores - 1)) ids=0
  ((cores == 1)) || ids=0-$last
  printf '{"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "%s"}}],
 "nodelist": ["node0"], "starttime": 0, "expiration": 0 %s}}\n' "$ids" "${2:+, $2}" >R.json
}

# quote_json TEXT...: strings of JSON with commas between them, in $quoted. No process, as most tests need it.
quote_json() {
  local text
  quoted=
  for text; do
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    text=${text//$'\n'/\\n}
    text=${text//$'\t'/\\t}
    [[ $text != *[[:cntrl:]]* ]] || { echo "quote_json knows of line ends and tabs only, not of the control character in: $text"; return 1; }
    quoted+="${quoted:+, }\"$text\""
  done
}

usual_environment='{"PATH": "/usr/bin:/bin"}'

# A jobspec of $1 tasks on as many one-core slots; the rest is the command. $options and $environment are JSON, $cwd is a path.
write_jobspec() {
  local tasks=$1 quoted command directory
  shift
  quote_json "$@" || return
  command=$quoted
  quote_json "${cwd:-}" || return
  directory=${cwd:+, \"cwd\": $quoted}
  printf '{"version": 1,
 "resources": [{"type": "slot", "count": %s, "label": "task", "with": [{"type": "core", "count": 1}]}],
 "tasks": [{"command": [%s], "slot": "task", "count": {"per_slot": 1}}],
 "attributes": {"system": {"duration": 0, "environment": %s, "shell": {"options": %s}%s}}}\n' \
    "$tasks" "$command" "${environment:-$usual_environment}" "${options:-"{}"}" "$directory" >jobspec.json
}

# R and jobspec.json of a job of $1 tasks of the command that follows, on a node with as many cores.
prepare() {
  write_R "$1"
  write_jobspec "$@"
}

nacre() { "${nacre[@]}" "$@"; }

# The failed tasks that the lines of $1 name, one a line: "4 on node0: exit code 3".
named() {
  sed -nE 's/^nacre-shell\[0\]: error: task (.*): (exit code [0-9]+|killed by SIG[A-Z]+|not started: .*)$/\1|\2/p' "$1" |
    awk -F '|' '{
      host = ""
      for (i = split($1, parts, ", "); i > 0; --i) {
        if (match(parts[i], / on .*/)) host = substr(parts[i], RSTART)
        sub(/ on .*/, "", parts[i])
        last = split(parts[i], ends, "-")
        for (rank = ends[1]; rank <= ends[last]; ++rank) print rank host ": " $2
      }
    }' | sort
}

# The run failed with exit code $1, and its stderr is one line that contains each of the other arguments.
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

# The process id of shell $1 of the only job, which is listed once its tasks run.
pid_of_shell() {
  # shellcheck disable=SC2016 # for the command
  at_last() { "$NACRE_BUILD_DIR/nacre" exec --shells="$1" sh -c 'echo $PPID' >"$work/pid-of-shell" 2>/dev/null; }
  wait_until at_last "$1"
  cat "$work/pid-of-shell"
}
