#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre grow of jobs of one shell: the shell prepares nothing before, and afterwards all is as in jobs of several
# shells (grow.bats).
load grow.bash

# Each task runs until there is the file `go`.
until_go='touch "here.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}"; until [ -e go ]; do sleep 0.2; done; echo "done $FLUX_TASK_RANK"'

# A job by nacre run, whose options and command are the arguments; all its $tasks tasks run.
start_run() {
  rm -f out err go here.*
  run_ "$@" >out 2>err &
  launcher=$!
  is_up
}

is_up() {
  wait_until listed
  id=$("$front" jobs -q)
  leader=$("$front" jobs --json | jq .pid)
  for ((rank = 0; rank < tasks; ++rank)); do wait_until test -e "here.$rank.1"; done
}

no_spare_but() { [ "$(spares)" = "$1" ]; }
sockets_of_shells() { find "$TMPDIR" -path '*/nacre-*/s' | wc -l; }
threads_of_leader() { find "/proc/$leader/task" -mindepth 1 -maxdepth 1 | wc -l; }

@test "a job of one shell grows, shrinks to one, and grows again" {
  tasks=2
  start_run -n 2 sh -c "$until_go"
  threads=$(threads_of_leader)
  before=$(sockets_of_shells)
  [ "$(grow --count=2 --json | jq -r '.joined + " " + (.missing | tostring)')" = "1-2 []" ]
  [ "$(spares)" = "1,2" ]
  [ "$("$front" jobs --json | jq -c '[.shells, .spares]')" = "[3,2]" ]
  # Before, the shell had no threads for this.
  [ "$(threads_of_leader)" -gt "$threads" ]
  [ "$(sockets_of_shells)" -gt "$before" ]
  [ "$("$front" exec --shells=0-2 sh -c 'echo $NACRE_SHELL_ID' | sed 's/.*\.//' | sort | paste -sd,)" = "0,1,2" ]
  [ "$("$front" shrink --count=2 --json | jq -r .gone)" = "1-2" ]
  [ "$(spares)" = "" ]
  run --separate-stderr "$front" shrink --count=1
  [ "$status" -eq 1 ]
  [ "$(grow --count=1 --json | jq -r .joined)" = 3 ]
  [ "$(spares)" = 3 ]
  [ "$(echo text | "$front" exec -i --shells=0,3 cat | sed 's/.*: //' | paste -sd,)" = text,text ]
  touch go
  ends_with 0
  [ "$(sort out | paste -sd,)" = "done 0,done 1" ] || { cat out; return 1; }
  [ ! -s err ] || { cat err; return 1; }
  nothing_left "^nacre-shell: $id"
  [ "$(sockets_of_shells)" -eq 0 ]
}

# bats test_tags=long
@test "commands that began before the job grew go on, beside those of the new shells" {
  tasks=1
  start_run -n 1 sh -c "$until_go"
  mkfifo typed
  "$front" exec -i --shells=0 cat <typed >echoed 2>&1 &
  typist=$!
  exec 7>typed
  echo one >&7
  wait_until grep -q one echoed
  grow --count=1 -q
  for i in 1 2 3 4 5; do [ "$("$front" exec --shells=1 echo "$i")" = "$i" ]; done
  echo two >&7
  wait_until grep -q two echoed
  exec 7>&-
  wait "$typist"
  [ "$(paste -sd, echoed)" = "one,two" ] || { cat echoed; return 1; }
  touch go
  ends_with 0
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "a new shell that is lost does not end the job, and another joins; the leader that is killed leaves nothing" {
  tasks=1
  start_run -n 1 --on-lost=replace sh -c "$until_go"
  grow --count=1 -q
  "$front" exec --shells=1 sh -c 'kill -KILL $PPID' || :
  wait_until no_spare_but ""
  [ "$(grow --count=1 --json | jq -r .joined)" = 2 ]
  kill -KILL "$leader"
  wait "$launcher" || :
  nothing_left "^nacre-shell: $id"
  wait_until no_socket_left
}

no_socket_left() { [ "$(sockets_of_shells)" -eq 0 ]; }

# bats test_tags=long
@test "exit code and output are complete, however the job grows and shrinks meanwhile" {
  tasks=2
  start_run -n 2 -l sh -c "touch here.\$FLUX_TASK_RANK.1; seq 1 200000; until [ -e go ]; do sleep 0.2; done; seq 200001 300000; exit \$((3 + FLUX_TASK_RANK))"
  for count in 1 2 1; do
    grow --count="$count" -q
    "$front" shrink --count=1 -q
  done
  grow --count=1 -q &
  grower=$!
  touch go
  ends_with 4
  wait "$grower" || :
  for rank in 0 1; do
    sed -n "s/^$rank: //p" out | cmp - <(seq 1 300000)
  done
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "tasks of a job that has grown start again, alone and together" {
  local scope
  cat >task.sh <<'END'
try=$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}
touch "here.$try"
awaited=go
[ $try != 1.1 ] || awaited=fail
until [ -e $awaited ]; do sleep 0.2; done
[ $awaited = go ] || exit 3
END
  tasks=2
  for scope in task job; do
    rm -f fail
    start_run -n 2 --restart="on-failure,backoff=0s,scope=$scope" sh task.sh
    grow --count=1 -q
    touch fail
    wait_until test -e here.1.2
    [ "$scope" = task ] || wait_until test -e here.0.2
    touch go
    ends_with 0
    nothing_left "^nacre-shell: $id"
  done
}

# bats test_tags=long
@test "over hosts, with a leader of this process, of an agent, and one that has left its launcher" {
  local host here
  write_agent
  tasks=1
  here=$(uname -n)
  for host in "$here" node0; do
    start_run --hosts="$host" --agent="$PWD/agent" -n 1 -o cpu-affinity=off sh -c "$until_go"
    [ "$(grow --hosts="node[1-2]" --json | jq -r .joined)" = "1-2" ]
    [ "$(grow --hosts="$here" --json | jq -r .joined)" = 3 ]
    [ "$("$front" exec --shells=0-3 echo x | wc -l)" -eq 4 ]
    [ "$("$front" shrink --shells=2 --json | jq -r .gone)" = 2 ]
    run --separate-stderr grow --count=1
    [ "$status" -eq 1 ]
    [[ $stderr == *"--count names no hosts"*"give --hosts" ]] || { echo "$stderr"; return 1; }
    touch go
    ends_with 0
    [ ! -s err ] || { cat err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
  rm -f go here.*
  run_ -d --hosts=node0 --agent="$PWD/agent" -n 1 -o cpu-affinity=off sh -c "$until_go" >id
  is_up
  [ "$(grow --hosts=node1 --json | jq -r .joined)" = 1 ]
  touch go
  "$front" wait "$id"
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=long
@test "the job ends while a host is waited for: at once, and nothing is left of it" {
  write_agent
  echo node4 >slow
  tasks=1
  start_run --hosts="$(uname -n)" --agent="$PWD/agent" -n 1 -o cpu-affinity=off sh -c "$until_go"
  ends_while_it_waits
}

# bats test_tags=long
@test "input, timeline and usage of a job that has grown" {
  tasks=2
  rm -f go here.*
  mkfifo typed
  run_ -n 2 -l --timeline="$PWD/trace.json" --usage="$PWD/usage.json" sh -c 'touch "here.$FLUX_TASK_RANK.1"; cat' <typed >out 2>err &
  launcher=$!
  exec 7>typed
  is_up
  echo one >&7
  grow --count=2 -q
  [ "$("$front" shrink --shells=1 --json | jq -r .gone)" = 1 ]
  echo two >&7
  exec 7>&-
  ends_with 0
  [ "$(sort out | paste -sd,)" = "0: one,0: two,1: one,1: two" ] || { cat out; return 1; }
  jq -e . trace.json >trace
  jq -e . usage.json >usage
  nothing_left "^nacre-shell: $id"
}

# bats test_tags=root
@test "the shells that have joined a job of a user who is not root leave it in order" {
  local shell verbs
  [ "$(id -u)" -eq 0 ] || skip "only root can start a job as another user"
  shell=$(copy_for_all "$NACRE_SHELL")
  verbs=$(copy_for_all "$front")
  mkdir -m 700 own own/jobs own/tmp
  cat >own/job.sh <<'END'
nacre=$1
"$nacre" run --shell="$2" -n 1 -o cpu-affinity=off sh -c 'touch here; until [ -e go ]; do sleep 0.2; done' 2>err &
until [ -e here ] && [ -n "$("$nacre" jobs -q)" ]; do sleep 0.2; done
"$nacre" grow --count=2 -q || exit 1
touch go
wait $!
END
  chown -R 65534:65534 own
  (cd own && setpriv --reuid=65534 --regid=65534 --clear-groups env PATH=/usr/bin:/bin HOME="$PWD" TMPDIR="$PWD/tmp" NACRE_JOBS_DIR="$PWD/jobs" sh job.sh "$verbs" "$shell")
  ! grep node-failure own/err || { cat own/err; return 1; }
}
