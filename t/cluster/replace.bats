#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# on-lost=replace over hosts: the tasks of a host that dies start again on a spare.
load jobs.bash

cluster=(4 --slurm)

# OPTION...: starts nacre run on node0, with a task on each of three hosts and one spare, or with the options in
# $shape, until there is the file go. Its process is $job. Each task prints its rank, its try and its host.
start_run() {
  leader=node0
  limit=150 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N "${shape:-3+1}" --on-lost=replace --report="$work/report" "$@" \
    sh -c 'touch $0/started.$FLUX_TASK_RANK.$NACRE_TASK_TRY; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK $NACRE_TASK_TRY $(uname -n)' "$work" >said 2>&1 &
  job=$!
  wait_until have_started_three
  wait_until listed "$leader"
}
have_started_three() { test -e started.0.1 -a -e started.1.1 -a -e started.2.1; }

# Rank 1, which was on node1, runs on node3 now, and the job ends well.
replaced() {
  wait_until test -e started.1.2
  wait_until grep -q "shell 1 on node1 is lost: it has ended, or cannot be reached; its task 1 starts again on the spare shell 3 on node3" said
  [ "$(nacre "$leader" ps --json | jq -r 'select(.rank != null) | "\(.rank) \(.host) \(.try)"' | sort | paste -sd,)" = "0 node0 1,1 node3 2,2 node2 1" ]
  [ "$(nacre "$leader" jobs --json | jq -c '[.tasks, .shells, .spares // 0]')" = "[3,4,0]" ]
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 0 1 node0\ndone 1 2 node3\ndone 2 1 node2' ] || { cat said; return 1; }
  [ "$(jq -c '[.timeline[] | select(.event == "moved") | [.ranks, .from, .host, .try]]' report)" = '[["1",1,"node3",2]]' ] || { jq . report; return 1; }
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-2"]]' ]
  nothing_left
}

@test "over ssh: a shell is killed, and its rank goes to the spare" {
  start_run --hosts="node[0-3]" --timeout=100
  "$vcluster" exec node1 pkill -KILL -x nacre-shell
  replaced
}

# bats test_tags=long
@test "over ssh: a host loses its power, and its rank goes to the spare" {
  start_run --hosts="node[0-3]" --timeout=100 -o lost-after=2s
  "$vcluster" kill node1 --power
  replaced
  "$vcluster" boot node1
}

# bats test_tags=long
@test "over ssh: the spare's host dies first; then the job ends, and the line says why" {
  start_run --hosts="node[0-3]" --timeout=100 -o lost-after=2s
  "$vcluster" kill node3 --power
  wait_until grep -q "shell 3 on node3, a spare, is lost" said
  "$vcluster" kill node1 --power
  wait_until grep -q "shell 1 on node1 is lost: it has ended, or cannot be reached; with it task 1, which is not started again: there is no spare left" said
  code=0
  wait "$job" || code=$?
  [ "$code" -ne 0 ]
  "$vcluster" boot node1
  "$vcluster" boot node3
}

# bats test_tags=long
@test "over ssh: a host is cut off, and its rank goes to the spare; what it says when it is back is too late" {
  start_run --hosts="node[0-3]" --timeout=100 -o lost-after=2s
  "$vcluster" cut node1
  wait_until test -e started.1.2
  wait_until 60 none_on node1 "^nacre-shell: " # the cut-off shell has ended, as it has received nothing for long
  "$vcluster" heal node1
  replaced
}

# bats test_tags=long
@test "by srun: a shell is killed, and its rank goes to the spare" {
  start_run --srun
  "$vcluster" exec node1 pkill -KILL -x nacre-shell
  replaced
}

# Rank 1 runs on a host that has had another task from the start, and the job ends well. $1: which start of rank 1
# this is.
moved_beside_another() {
  wait_until test -e "started.1.$1"
  there=$(nacre "$leader" ps --json | jq -r 'select(.rank == 1).host')
  [[ $there == node[02] ]] || { echo "rank 1 is on $there"; return 1; }
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 0 1 node0\ndone 1 '"$1 $there"$'\ndone 2 1 node2' ] || { cat said; return 1; }
}

# bats test_tags=long
@test "over ssh, where=any: two hosts lose their power; the spare takes over, then a host that has a task" {
  start_run --hosts="node[0-3]" --timeout=100 -o lost-after=2s --oversubscribe --restart=on-failure,where=any
  "$vcluster" kill node1 --power
  wait_until test -e started.1.2
  "$vcluster" kill node3 --power
  moved_beside_another 3
  [ "$(jq -c '[.classes[] | [.record, .ranks]]' report)" = '[["x0","0-2"]]' ] || { jq . report; return 1; }
  "$vcluster" boot node1
  "$vcluster" boot node3
}

# bats test_tags=long
@test "by srun, where=any: a shell is killed, and its rank goes to a host that has a task" {
  shape=3
  start_run --srun --oversubscribe --restart=on-failure,where=any
  "$vcluster" exec node1 pkill -KILL -x nacre-shell
  moved_beside_another 2
}

# bats test_tags=long
@test "over ssh, and by srun: a shell is killed while the job is being started, and its rank begins on the spare" {
  local topic
  for topic in initrc shell.init shell.start; do
    cat >rc.lua <<END
local topic = "$topic"
local function die () if shell.info.rank == 1 then os.execute ("kill -KILL \$PPID; sleep 10") end end
if topic == "initrc" then die () else plugin.register { name = "dies", handlers = { { topic = topic, fn = die } } } end
END
    for how in "--hosts=node[0-3] --timeout=100" --srun; do
      code=0
      # shellcheck disable=SC2086
      limit=150 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N 3+1 --on-lost=replace --initrc="$work/rc.lua" $how \
        sh -c 'echo ran $FLUX_TASK_RANK $NACRE_TASK_TRY $(uname -n)' >said 2>&1 || code=$?
      [ "$(grep '^ran' said | sort)" = $'ran 0 1 node0\nran 1 2 node3\nran 2 1 node2' ] || { echo "$topic, $how: $code"; cat said; return 1; }
      grep -q "shell 1 on node1 is lost: it has ended, or cannot be reached; its task 1 starts again on the spare shell 3 on node3" said
      [ "$code" -eq 0 ] || { echo "$topic, $how: $code"; cat said; return 1; }
    done
  done
}
