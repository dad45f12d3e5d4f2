# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For tests of jobs over several shells.

declare -F copy_for_all >/dev/null || load lib.bash

launch() { "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json "$@"; }

# Writes R of $1 nodes with $2 cores each; a hostlist gives their names.
write_nodes() {
  jq -n --argjson nodes "$1" --argjson cores "$2" '{version: 1, execution: {
    R_lite: [{rank: "0-\($nodes - 1)", children: {core: "0-\($cores - 1)"}}],
    nodelist: ["node[0-\($nodes - 1)]"], starttime: 0, expiration: 0}}' >R.json
}

# Waits until the file $1 has $2 lines.
lines_come() {
  wait_until 60 has_lines "$1" "$2" || { cat "$1"; return 1; }
}
has_lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }

# No process is left whose command line has $1.
nothing_left() {
  wait_until 60 no_process_has "$1" || { ps -fp "$(paste -sd, left)"; return 1; }
}
no_process_has() { ! pgrep -f -- "$1" >left; }

# Runs a job with a shell on each of the hosts node0 to node3, which are folders here: each shell starts in its
# folder, and initrc=rc.lua names the file there.
on_hosts() {
  cat >agent <<'END'
#!/bin/sh
host=$1
shift
cd "$WORK/$host" && exec sh -c "$*"
END
  chmod +x agent
  export WORK=$work
  run --separate-stderr launch --hosts="node[0-3]" --agent="$work/agent" -R "$work/R.json" -o cpu-affinity=off "$@"
  echo "$output$stderr"
}
