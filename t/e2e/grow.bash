# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Jobs that grow.

declare -F start_job >/dev/null || load control.bash

run_() { "$front" run --shell="$NACRE_SHELL" "$@"; }
grow() { "$front" grow "$@"; }

# Stands in for ssh: hosts in the file `dead` fail at once, hosts in the file `slow` never answer, and `late`
# answers once there is the file `gate`.
write_agent() {
  cat >agent <<'END'
#!/bin/sh
host=$1
shift
if grep -qx "$host" "$WORK/dead" 2>/dev/null; then echo "agent: $host: no route to host" >&2; exit 255; fi
if grep -qx "$host" "$WORK/slow" 2>/dev/null; then exec sleep 600; fi
if [ "$host" = late ]; then touch "$WORK/asked"; until [ -e "$WORK/gate" ]; do sleep 0.1; done; fi
exec sh -c "$*"
END
  chmod +x agent
  export WORK=$PWD
}

spares() { "$front" ps --json | jq -r 'select(.spare).shell' | paste -sd,; }

# The job $id, whose tasks wait for the file `go`, ends while it waits for a host of the file `slow`: at once, and nothing is left of it.
ends_while_it_waits() {
  local begin code=0 grower
  grow --hosts="node[4-5]" >grown 2>&1 &
  grower=$!
  wait_until pgrep -f '^sleep 600$'
  begin=$SECONDS
  touch go
  ends_with 0
  ((SECONDS - begin < 30))
  wait "$grower" || code=$?
  [ "$code" -eq 1 ]
  grep -F "the job is ending" grown || { cat grown; return 1; }
  nothing_left "^nacre-shell: $id"
  nothing_left '^sleep 600$'
}
