#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre grow in a job that nacre run has started in an allocation of Slurm: the nodes come from a second allocation.
load jobs.bash

cluster=(4 --slurm)

# Starts nacre run with $tasks tasks (2), one a node, and these options, in an allocation $allocation of node0 and
# node1 that node0 makes. It runs until there is the file go.
start_in_allocation() {
  local n=${tasks:-2}
  slurm node0 true # Slurm is ready
  allocation=$(allocate -w "node[0-1]" -t 30)
  limit=150 on node0 env SLURM_JOB_ID="$allocation" SLURM_JOBID="$allocation" SLURM_NNODES=2 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST="node[0-1]" SLURM_NODELIST="node[0-1]" \
    "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N "$n" -n "$n" --timeout=100 "$@" \
    sh -c 'touch $0/started.$FLUX_TASK_RANK; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK' "$work" >said 2>&1 &
  job=$!
  wait_until test -e started.0 -a -e "started.$((n - 1))"
  wait_until listed node0
  name=nacre-$(nacre node0 jobs -q)
}
allocate() { on node0 salloc -N2 --no-shell "$@" 2>&1 | sed -n 's/.*Granted job allocation //p'; } # its id
slurm_jobs() { on node0 squeue -h "$@"; }
others() { slurm_jobs -n "$name" -t PENDING,RUNNING -o "${1:-%i}"; }
no_others() { [ -z "$(others)" ]; }
one_other() { [ "$(others | wc -l)" -eq 1 ]; }
is_free() { [ "$(on node0 sinfo -h -n "$1" -o %t)" = idle ]; }

ends_well() {
  touch go
  ends_with 0
  [ "$(grep '^done' said | sort)" = $'done 0\ndone 1' ] || { cat said; return 1; }
  wait_until no_others
  on node0 scancel "$allocation"
  nothing_left
}

@test "a node joins from a second allocation, by the name of the job, and a shrink gives it back" {
  local how
  for how in --srun "--hosts=node[0-1]"; do
    rm -f started.* go said
    start_in_allocation "$how" --on-lost=go-on
    run --separate-stderr nacre node0 grow --count=1 --wait=60s --json
    [ "$status" -eq 0 ] || { echo "$output $stderr"; cat said; return 1; }
    host=$(jq -r .hosts <<<"$output")
    [[ $host == node[23] ]]
    [ "$(jq -r .joined <<<"$output")" = 2 ]
    [ "$(nacre node1 exec uname -n | sort | tr '\n' ' ')" = "node0: node0 node1: node1 $host: $host " ]
    [ "$(others "%N %a %P" | tr -s ' ')" = "$host $(slurm_jobs -j "$allocation" -o "%a %P")" ]
    # The second allocation has no longer time than the first one.
    left=$(slurm_jobs -n "$name" -o %l)
    [[ $left == 2[89]:* || $left == 30:00 ]] || { echo "time limit $left"; return 1; }
    [ "$(nacre node3 shrink --count=1 --json | jq -c '[.hosts, .manager]')" = "[\"$host\",[{\"hosts\":\"$host\",\"name\":\"Slurm\",\"released\":true}]]" ] || { cat said; return 1; }
    no_others || wait_until no_others
    wait_until is_free "$host"
    [ "$(slurm_jobs -t RUNNING -o "%i %N")" = "$allocation node[0-1]" ]
    # The same host again, in a new allocation, which ends with the job.
    run --separate-stderr nacre node0 grow --count=2 --wait=60s
    [ "$output" = "node[2-3]" ] || { echo "$output $stderr"; cat said; return 1; }
    [ "$(others %D)" = 2 ]
    # The allocation gets smaller.
    [ "$(nacre node0 shrink --hosts=node3 --json | jq -c .manager)" = '[{"hosts":"node3","name":"Slurm","released":true}]' ]
    [ "$(others %N)" = node2 ]
    # The allocation's last host is lost, so the allocation ends.
    "$vcluster" exec node2 pkill -KILL -f '^nacre-shell: '
    wait_until no_others
    ends_well
  done
}

@test "a job of one shell that srun has started gets another one" {
  tasks=1 start_in_allocation --srun
  run --separate-stderr nacre node3 grow --hosts=node3 --wait=60s
  [ "$output" = node3 ] || { echo "$output $stderr"; cat said; return 1; }
  [ "$(nacre node0 exec uname -n | sort | tr '\n' ' ')" = "node0: node0 node3: node3 " ]
  touch go
  ends_with 0
  [ "$(grep '^done' said)" = "done 0" ]
  no_others
  on node0 scancel "$allocation"
  nothing_left
}

@test "a refusal of Slurm, and a time that is over, are one line each; the job goes on" {
  start_in_allocation
  for row in "--count=3|Slurm's words" "--hosts=node9|node9" "--hosts=node1|node1 is of the job already"; do
    IFS='|' read -r option words <<<"$row"
    code=0
    nacre node0 grow "$option" >answer 2>error || code=$?
    [ "$code" -eq 1 ] && [ "$(wc -l <error)" -eq 1 ] || { echo "$row: $code"; cat answer error; return 1; }
    case $words in
      Slurm*) grep -q 'salloc --no-shell -N 3 -J nacre-.*: salloc: error: ' error ;;
      *) grep -q "$words" error ;;
    esac || { cat error; return 1; }
    no_others
  done
  # The other hosts are taken: the request waits, and is withdrawn.
  taken=$(allocate -w "node[2-3]" --exclusive)
  nacre node0 grow --count=1 --wait=4s >answer 2>error &
  grow=$!
  wait_until one_other
  [ "$(others %T)" = PENDING ]
  code=0
  wait "$grow" || code=$?
  [ "$code" -eq 1 ]
  no_others
  grep -qE '^nacre grow: .*Slurm has not given 1 node within 4 s \(pending: [A-Za-z]+\): the request is withdrawn; give a longer --wait' error || { cat error; return 1; }
  [ "$(wc -l <error)" -eq 1 ]
  # A request that waits when the job ends is withdrawn with it.
  nacre node0 grow --count=1 --wait=100s >answer 2>error &
  grow=$!
  wait_until one_other
  ends_well
  code=0
  wait "$grow" || code=$?
  [ "$code" -eq 1 ]
  grep -q 'the job is ending' error || { cat error; return 1; }
  on node0 scancel "$taken"
}

@test "a second allocation ends with the job, however that ends" {
  local row how
  for row in cancel: launcher: leader: "leader:--hosts=node[0-1]"; do
    how=${row%%:*}
    rm -f started.* go said
    # shellcheck disable=SC2086
    start_in_allocation ${row#*:}
    nacre node0 grow --count=1 --wait=60s >answer 2>error || { cat error said; return 1; }
    one_other
    case $how in
      cancel) nacre node1 cancel last ;;
      launcher) "$vcluster" exec node0 pkill -KILL -f '^[^ ]*/nacre run ' ;;
      leader) "$vcluster" exec node0 pkill -KILL -f '^nacre-shell: .* rank 0/' ;;
    esac
    wait "$job" || :
    wait_until no_others
    on node0 scancel "$allocation"
    nothing_left
  done
}

@test "a second allocation ends although the leader and its guard are killed at one moment, and no other one does" {
  start_in_allocation
  mine=$(allocate -N1 -w node3 -J "$name") # a user's allocation, by chance with that name
  nacre node0 grow --count=2 --wait=60s >answer 2>error || { cat error said; return 1; }
  [ "$(<answer)" = "node[2-3]" ] || { cat answer; return 1; }
  leader=$("$vcluster" exec node0 pgrep -of '^nacre-shell: .* rank 0/')
  guard=$("$vcluster" exec node0 pgrep -P "$leader" -x nacre-guard)
  "$vcluster" exec node0 kill -KILL "$guard" "$leader"
  wait "$job" || :
  only_mine() { [ "$(others)" = "$mine" ]; }
  wait_until only_mine
  [ "$(slurm_jobs -t RUNNING -o %i | sort -n | paste -sd' ')" = "$(printf '%s\n' "$allocation" "$mine" | sort -n | paste -sd' ')" ]
  wait_until is_free node2
  on node0 scancel "$allocation" "$mine"
  nothing_left
}

@test "two nodes, and what starts on one of them does not join: the other one does, and Slurm gets the first one back" {
  cat >rc.lua <<'END'
if io.popen ("uname -n"):read () == "node3" then error ("no luck here") end
END
  start_in_allocation --initrc="$work/rc.lua"
  code=0
  nacre node0 grow --count=2 --wait=60s --json >answer 2>error || code=$?
  [ "$code" -eq 1 ] && [ "$(jq -c '[.hosts, .joined, (.missing[] | [.shell, .host])]' answer)" = '["node2","2",[3,"node3"]]' ] || { cat answer error said; return 1; }
  [[ $(<error) == "nacre grow: shell 3 on node3 has not joined: "*"no luck here (on node3)" ]] || { cat error; return 1; }
  wait_until is_free node3
  [ "$(others %N)" = node2 ]
  [ "$(nacre node1 exec uname -n | sort | tr '\n' ' ')" = "node0: node0 node1: node1 node2: node2 " ]
  ends_well
}
