#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre attach from other hosts than the leader's: through a bridge, by ssh and by srun.
load jobs.bash

cluster=(4 --slurm)

has() { grep -qxF -- "$2" "$1"; }

ends_with() { # PROCESS CODE
  local code=0
  wait "$1" || code=$?
  [ "$code" -eq "$2" ] || { echo "exit code $code, not $2: $(cat said)"; return 1; }
}

script='echo "early $FLUX_TASK_RANK"; until test -e $0/go; do sleep 0.1; done; echo "late $FLUX_TASK_RANK"; exit $FLUX_TASK_RANK'

# Checks the output of two viewers on other hosts, one over a bridge, of the running job $job; $1 names the way.
view_from_others() {
  wait_until listed node0
  leader=$(nacre node0 jobs --json | jq -r .place.host)
  viewers=()
  for other in node0 node1 node2 node3; do
    [ "$other" != "$leader" ] || continue
    nacre "$other" attach -v -l last >"$other.out" 2>"$other.err" &
    viewers+=("$!")
    wait_until has "$other.out" "3: early 3"
    grep -q "reached by $1" "$other.err"
  done
  touch go
  for each in "${viewers[@]}"; do ends_with "$each" 3; done
  ends_with "$job" 3
  for other in node0 node1 node2 node3; do
    [ "$other" != "$leader" ] || continue
    [ "$(sort "$other.out")" = "$(printf '%s\n' 0:\ {early,late}\ 0 1:\ {early,late}\ 1 2:\ {early,late}\ 2 3:\ {early,late}\ 3)" ]
  done
}

@test "a job over ssh is watched from three other hosts" {
  write_job 1 sh -c "$script" "$work"
  on node1 "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --hosts=node[0-3] "${job_options[@]}" >said 2>&1 &
  job=$!
  view_from_others ssh
}

@test "a job that srun has started is watched from three other hosts" {
  write_job 1 sh -c "$script" "$work"
  limit=150 shells_by_srun >said 2>&1 &
  job=$!
  view_from_others srun
}

@test "a bridge that is killed: the viewer ends with an error, and can come again" {
  write_job 1 sh -c "$script" "$work"
  on node1 "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --hosts=node[0-3] "${job_options[@]}" >said 2>&1 &
  job=$!
  wait_until listed node0
  nacre node2 attach last >first.out 2>first.err &
  viewer=$!
  wait_until has first.out "early 3"
  bridge=$(pgrep -f "control --bridge $(nacre node0 jobs -q)") # with the agent that has started it: one ends with the other
  for each in $bridge; do kill -KILL "$each" 2>/dev/null || :; done
  ends_with "$viewer" 1
  grep -q "the link to its leader has ended" first.err
  nacre node2 attach last >second.out 2>second.err &
  viewer=$!
  wait_until has second.out "early 3"
  touch go
  ends_with "$viewer" 3
  ends_with "$job" 3
}

reading='while read -r line; do echo "$NACRE_TASK_RANK got $line"; done; echo "$NACRE_TASK_RANK over"; touch "$0/over.$NACRE_TASK_RANK"'

# Starts an owner of the input of the job $id on the host $2; its own input is the FIFO $1.in.
owner() { # name host options...
  mkfifo "$1.in"
  nacre "$2" attach -v "${@:3}" "$id" <"$1.in" >"$1.out" 2>"$1.err" &
  owners+=("$!")
}

@test "the input of a job over ssh is given to its tasks on all hosts by an owner on another, and taken by a third" {
  owners=()
  id=$(limit=150 nacre node0 run --hosts=node[1-3],node0 -N 3 --tasks-per-node=1 --shell="$NACRE_SHELL" --timeout=100 -o cpu-affinity=off \
    -d -o input.when-left=open sh -c "$reading" "$work" 2>said)
  owner a node2 --input
  exec {first}>a.in
  echo one >&"$first"
  for rank in 0 1 2; do wait_until has a.out "$rank got one"; done
  grep -q "reached by ssh" a.err
  owner b node3 --input=take
  exec {second}>b.in
  wait_until grep -qF "from now on; this only watches" a.err
  printf 'two\nthree' >&"$second"
  for rank in 0 1 2; do wait_until has b.out "$rank got two"; done
  for rank in 0 1 2; do wait_until has a.out "$rank got two"; done
  # The owner's bridge goes in the middle of a line: the job has the line's start, and waits for the next owner.
  pkill -KILL -f "control --bridge $id" || :
  ends_with "${owners[1]}" 1
  ends_with "${owners[0]}" 1
  exec {first}>&- {second}>&-
  [ ! -e over.0 ]
  owner c node2 --input
  exec {third}>c.in
  echo ' and more' >&"$third"
  exec {third}>&-
  ends_with "${owners[2]}" 0
  grep -xE "[0-2] (got three and more|over)" c.out | sort >ends
  [ "$(<ends)" = "$(printf '%s\n' {0..2}' got three and more' {0..2}' over' | sort)" ] || { cat c.out; return 1; }
}

@test "the input of a job that srun has started is its own: another is refused, through a bridge by srun too" {
  write_job 1 sh -c 'cat; until test -e $0/go; do sleep 0.1; done' "$work"
  limit=150 shells_by_srun </dev/null >said 2>&1 &
  job=$!
  wait_until listed node0
  id=$(nacre node0 jobs -q)
  run nacre node2 attach --input "$id"
  [ "$status" -eq 1 ]
  [[ $output == *"input"* ]] || { echo "$output"; return 1; }
  touch go
  ends_with "$job" 0
}
