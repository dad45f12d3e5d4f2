#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# MPIR over hosts: a tool on gdb starts nacre run on one host, which reaches the others by ssh, and finds each task's process
# on its host.
load jobs.bash

cluster=(3)

@test "over ssh: MPIR_proctable has the tasks of all hosts, and they stand still there until the tool goes on" {
  # While the tool stands in MPIR_Breakpoint, each host says which of its processes are tasks.
  cat >look.sh <<'END'
for pid in $(pgrep -f '^[^ ]*sh -c echo ran'); do
  rank=$(tr '\0' '\n' </proc/$pid/environ | sed -n 's/^NACRE_TASK_RANK=//p')
  echo "mpir $rank $(uname -n) $(readlink /proc/$pid/exe) $pid $(sed 's/.*) //; s/ .*//' /proc/$pid/stat)"
done
END
  for host in node0 node1 node2; do
    (wait_until test -e standing && on "$host" sh "$work/look.sh" >"seen.$host" && touch "seen.$host.done") 3>&- &
  done
  export MPIR_RUN="touch $work/standing; until test -e $work/seen.node0.done -a -e $work/seen.node1.done -a -e $work/seen.node2.done; do sleep 0.1; done"
  on node0 env MPIR_RUN="$MPIR_RUN" NACRE_JOBS_DIR="$NACRE_JOBS_DIR" timeout 100 gdb -batch -nx -x "$NACRE_SOURCE_DIR/t/kit/mpir_tool.py" --args \
    "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --timeout=100 --hosts='node[0-2]' -n 6 sh -c 'echo ran $NACRE_TASK_RANK on $(uname -n)' >said 2>&1
  [ "$(grep -c '^ran [0-5] on node[0-2]$' said)" -eq 6 ] || { cat said; return 1; }
  [ "$(grep '^mpir [0-5] ' said | sort)" = "$(cat seen.node? | sed 's/ T$//' | sort)" ] || { cat said seen.node?; return 1; }
  [ "$(cat seen.node? | grep -c ' T$')" -eq 6 ] || { cat seen.node?; return 1; }
}

# bats test_tags=long
@test "the leader is on another host than the tool" {
  on node0 env NACRE_JOBS_DIR="$NACRE_JOBS_DIR" timeout 100 gdb -batch -nx -x "$NACRE_SOURCE_DIR/t/kit/mpir_tool.py" --args \
    "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --timeout=100 --hosts=node1,node2 -n 2 sh -c 'echo ran $NACRE_TASK_RANK on $(uname -n)' >said 2>&1
  [ "$(grep -c '^ran [01] on node[12]$' said)" -eq 2 ] || { cat said; return 1; }
  [ "$(sed -n 's/^mpir \([01] node[12]\) .*/\1/p' said | sort)" = $'0 node1\n1 node2' ] || { cat said; return 1; }
}
