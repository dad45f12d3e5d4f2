#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What can happen while a job shrinks and grows, in a really deep tree of shells over four hosts by ssh. Each case runs
# $ELASTIC_TIMES times in a row (1), each time in a new job. Hosts that go back to Slurm are in shrink_managers.bats.
load jobs.bash

cluster=(4)
times=${ELASTIC_TIMES:-1}

# The names n0 to n61 stand for the four hosts by turns; nobody answers at n62 and n63, which ssh notices after some
# seconds. ssh and sshd take a quarter of the processor's time here, so their key exchange is a cheap one.
write_names() {
  local i address
  echo "KexAlgorithms curve25519-sha256"
  "$vcluster" exec node0 cat /etc/ssh/ssh_config
  address=$("$vcluster" exec node0 getent hosts node1)
  address=${address%% *}
  for ((i = 0; i < 62; ++i)); do printf 'Host n%d\n  HostName node%d\n' "$i" $((i % 4)); done
  printf 'Host n62 n63\n  HostName %s\n' "${address%.*}.250"
}

# SHELLS OPTION...: a job of SHELLS shells, each with a task. Its process is $job, its id $id. Returns once all
# tasks run, and the job is listed.
start_deep() {
  local i
  shells=$1
  rm -rf started.* leaves.* go said answer* error*
  write_names >ssh_config
  limit=200 on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --hosts="n[0-$((shells - 1))]" --agent-arg=-F \
    --agent-arg="$work/ssh_config" --arity=2 -N "$shells" -n "$shells" --timeout=100 -o cpu-affinity=off "${@:2}" sh -c "${prefix:-}"'
      echo $$ >$0/pid.$FLUX_TASK_RANK; mv $0/pid.$FLUX_TASK_RANK $0/started.$FLUX_TASK_RANK
      until test -e $0/go; do sleep 0.5; done; echo done $FLUX_TASK_RANK $$' "$work" >said 2>&1 &
  job=$!
  for ((i = 0; i < shells; ++i)); do wait_until test -e "started.$i"; done
  wait_until listed node0
  id=$(nacre node0 jobs -q)
  # With --arity=2 the parent of shell i is (i - 1) / 2, which has started it.
  for ((i = shells - 1; i > 2; i = (i - 1) / 2)); do runs_on "$(host_of $(((i - 1) / 2)))" "^ssh .* n$i "; done
}

# For start_deep: a task that is told to end records that, and goes on.
stubborn='trap "touch $0/leaves.$FLUX_TASK_RANK" TERM; '

host_of() { echo "node$(($1 % 4))"; }                             # SHELL
shell_is_there() { runs_on "$(host_of "$1")" "^nacre-shell: $id .*rank $1/"; }
no_task() { ! on "$(host_of "$1")" test -e "/proc/$(<"started.$1")"; } # RANK
signal_shell() { on "$(host_of "$2")" pkill "-$1" -f "^nacre-shell: $id .*rank $2/"; } # SIGNAL SHELL
shells_left() { nacre node1 ps -q | wc -l; }
shrink() { nacre node2 shrink --json "$@"; }
grow() { nacre node3 grow --json "$@"; }

# RANK...: these tasks are gone; all others have started, and end well; nothing is left anywhere. $code: the job's
# exit code (0).
ends_without() {
  local i gone=" $* "
  touch go
  ends_with "${code:-0}"
  for ((i = 0; i < shells; ++i)); do
    [[ $gone != *" $i "* ]] || continue
    grep -qx "done $i $(<"started.$i")" said || { echo "task $i is not the one that has started, or has not ended:"; cat said; return 1; }
  done
  [ "$(grep -c '^done' said)" -eq $((shells - $#)) ] || { cat said; return 1; }
  nothing_left
}

# $1 is the answer of a shrink: the shells $2 have gone, and $3 are not confirmed.
answered() { [ "$(jq -c '[.gone, .unconfirmed]' "$1")" = "[\"$2\",\"${3:-}\"]" ] || { cat "$1"; return 1; }; }

ranks_of() { # idset
  local part
  for part in ${1//,/ }; do seq "${part%-*}" "${part#*-}"; done
}

# When the answer comes nothing is left of the shells but processes that have started others that stay (as in case
# 21).
leave() { # idset
  local rank
  shrink --shells="$1" >answer
  for rank in $(ranks_of "$1"); do
    no_task "$rank" || { echo "task $rank is still there"; return 1; }
    stays "$rank" " $(ranks_of "$1" | xargs) " || ! shell_is_there "$rank" || { echo "shell $rank is still there"; return 1; }
  done
  answered answer "$1"
}

# Whether RANK, one of the shells that leave, has started a shell that stays.
stays() { # RANK SHELLS
  local each
  for each in $((2 * $1 + 1)) $((2 * $1 + 2)); do ((each >= shells)) || [[ $2 == *" $each "* ]] || return 0; done
  return 1
}

repeat() {
  local time
  for ((time = 1; time <= times; ++time)); do "$@" || { echo "time $time of $times"; return 1; }; done
}

one_shrink() {
  start_deep 20
  leave "$1"
  # shellcheck disable=SC2046
  ends_without $(ranks_of "$1")
}

@test "1-4, 21: a leaf, an inner shell, a whole branch, leaves below different parents: nothing of them is left at the answer" {
  repeat one_shrink 19
  repeat one_shrink 1
  repeat one_shrink 1,3-4,7-10,15-19
  repeat one_shrink 11,13,19
}

named_afterwards() {
  start_deep 20
  leave 9,19
  [ "$(nacre node0 exec sh -c 'echo on' | grep -c ': on$')" -eq 18 ]
  code=0
  nacre node0 exec --shells=9,18 true 2>error || code=$?
  [ "$code" -eq 1 ]
  grep -q "left the job" error || { cat error; return 1; }
  code=0 ends_without 9 19
}

@test "5: who is named after having left is named, and without names those that are there run a command" { repeat named_afterwards; }

killed_targets() { # LEAVING, KILLED
  local rank client code=0
  prefix=$stubborn start_deep 20 -o lost-after=10s
  shrink --shells="$1" --grace=8s >answer 2>error &
  client=$!
  for rank in $(ranks_of "$1"); do wait_until test -e "leaves.$rank"; done
  for rank in $(ranks_of "$2"); do signal_shell KILL "$rank"; done
  wait "$client" || code=$?
  [ "$code" -eq 0 ] || { cat error; return 1; }
  answered answer "$1"
  # shellcheck disable=SC2046
  code=0 ends_without $(ranks_of "$1")
}

@test "6, 7: some or all of those that are to leave are killed meanwhile: they have left" {
  repeat killed_targets 9,18-19 18
  repeat killed_targets 17-19 17-19
}

commands() {
  local i client
  start_deep 20
  (for ((i = 0; i < 40; ++i)); do nacre node0 exec --shells=0,2,6,13 true >>error 2>&1 && echo ok >>answers; done) &
  client=$!
  wait_until test -e answers
  leave 1,5,17-19
  wait "$client"
  [ "$(wc -l <answers)" -eq 40 ] || { cat error; return 1; }
  rm answers
  ends_without 1 5 17 18 19
}

@test "8: 40 commands on those that stay, across a shrink: 40 of 40" { repeat commands; }

has_left() { ! nacre node0 ps -q | grep -qx "$1"; }

asker_dies() {
  cat >rc.lua <<END
plugin.register { name = "records", handlers = { { topic = "shell.left", fn = function ()
  if shell.info.rank == 0 then os.execute ("echo left >>$work/answers") end
end } } }
END
  prefix=$stubborn start_deep 20 -o initrc="$work/rc.lua"
  shrink --shells=9 --grace=3s >answer 2>&1 &
  wait_until test -e leaves.9
  on node2 pkill -KILL -f 'nacre shrink --json --shells=9'
  wait $! || :
  wait_until has_left 9
  ends_without 9
  [ "$(<answers)" = left ] || { cat answers; return 1; }
  rm answers
}

@test "9: who asked dies: the shell leaves all the same, once" { repeat asker_dies; }

refused() { # words, OPTION...
  local code=0
  shrink "${@:2}" >answer 2>error || code=$?
  [ "$code" -eq 1 ]
  grep -qF -- "$1" error || { cat error; return 1; }
}

refusals() {
  start_deep 20
  leave 19
  refused "has left the job" --shells=19
  refused "leads the job" --shells=0
  refused "leads the job" --shells=0,18
  refused n77 --hosts=node1,n77
  refused 77 --shells=18,77
  [ "$(shells_left)" -eq 19 ]
  shrink --hosts=node3,node3 >answer # all shells on node3, but for the one that has left
  answered answer 3,7,11,15
  ends_without 3 7 11 15 19
}

@test "10-12: nothing to remove, the leader among them, unknown hosts: refused; twice the same host: taken once" { repeat refusals; }

overlapping() {
  local one other
  prefix=$stubborn start_deep 20
  shrink --shells=9,17-18 --grace=1s >answer.1 2>error.1 &
  one=$!
  shrink --shells=18-19 --grace=1s >answer.2 2>error.2 &
  other=$!
  wait "$one" || cat error.1
  wait "$other" || cat error.2
  wait_until has_left 17
  wait_until has_left 19
  [ "$(shells_left)" -eq 16 ]
  ends_without 9 17 18 19
}

@test "13: shrinks that overlap end, each once" { repeat overlapping; }

another_dies() {
  local client
  prefix=$stubborn start_deep 20 --on-lost=go-on -o lost-after=10s
  shrink --shells=9,19 --grace=3s >answer &
  client=$!
  wait_until test -e leaves.19
  signal_shell KILL 17
  wait "$client"
  answered answer 9,19
  wait_until has_left 17
  code=1 ends_without 9 17 19
}

@test "14: another shell dies meanwhile: the shrink ends, and the others go on" { repeat another_dies; }

grow_waits() {
  local client code=0
  start_deep 20
  grow --hosts=n62,n40 --wait=30s >answer.grow 2>error.grow &
  client=$!
  wait_until runs_on node0 '^ssh .* n62 '
  leave 5,19
  wait "$client" || code=$?
  [ "$code" -eq 1 ]
  [ "$(jq -c '[.joined, [.missing[].host]]' answer.grow)" = '["21",["n62"]]' ] || { cat answer.grow error.grow; return 1; }
  [ "$(nacre node0 exec --shells=21 uname -n)" = "node0: node0" ]
  code=0 ends_without 5 19
}

@test "15, 16: a shrink while a grow waits: each ends once; who has come joins, the others are named" { repeat grow_waits; }

rolls_back() {
  local code=0
  start_deep 20
  grow --hosts=n40,n62 --all >answer 2>error || code=$?
  [ "$code" -eq 1 ]
  grep -q '^nacre grow: shell 21 on n62: .*, and those that had joined have left again (--all)$' error || { cat answer error; return 1; }
  [ "$(shells_left)" -eq 20 ]
  code=0 ends_without
}

@test "16: with --all those that have come leave again" { repeat rolls_back; }

again() {
  local i
  start_deep 20
  leave 9,19
  for ((i = 20; i < 25; ++i)); do
    grow --hosts=n19 >answer # below the former place of 9
    [ "$(jq -r .joined answer)" = "$i" ] || { cat answer; return 1; }
    [ "$(nacre node0 exec --shells="$i" uname -n)" = "node3: node3" ]
    shrink --shells="$i" >answer
    answered answer "$i"
  done
  ends_without 9 19
}

@test "17, 18: the same host again, five times, below one that has gone: new numbers" { repeat again; }

one_by_one() {
  local i clients=()
  start_deep 40
  for ((i = 1; i < 40; i += 2)); do
    shrink --shells="$i" >"answer.$i" 2>"error.$i" &
    clients+=("$!")
    sleep "$1"
  done
  for i in "${clients[@]}"; do wait "$i" || { cat error.*; return 1; }; done
  for ((i = 1; i < 40; i += 2)); do answered "answer.$i" "$i"; done
  [ "$(shells_left)" -eq 20 ]
  # Shells that have started others keep their processes, for their connections.
  for ((i = 21; i < 40; i += 2)); do wait_until gone "$i"; done
  # shellcheck disable=SC2046
  ends_without $(seq 1 2 39)
}
gone() { ! shell_is_there "$1"; }

@test "20: of 40 shells every other one leaves, one by one, 0, 1 and 50 ms apart" {
  repeat one_by_one 0
  repeat one_by_one 0.001
  repeat one_by_one 0.05
}

frozen_target() {
  local code=0
  start_deep 20 -o lost-after=20s
  signal_shell STOP 18
  shrink --shells=18-19 --grace=0.5s >answer 2>error || code=$?
  signal_shell CONT 18
  [ "$code" -eq 1 ]
  answered answer 19 18
  code=0 ends_without 18 19
}

# All shells that stay have to confirm the shrink, so the answer comes when the frozen one is lost.
frozen_survivor() {
  start_deep 20 --on-lost=go-on -o lost-after=10s
  signal_shell STOP 13
  shrink --shells=19 --grace=0.5s >answer 2>error
  signal_shell CONT 13
  answered answer 19
  code=1 ends_without 13 19
}

@test "22: one that is to leave is frozen, or one that stays" {
  repeat frozen_target
  repeat frozen_survivor
}

storm() {
  local i clients
  for ((i = 0; i < 5; ++i)); do
    clients=()
    start_deep 12
    for each in 1 3 5 7 11; do shrink --shells="$each" >/dev/null 2>&1 & clients+=("$!"); done
    sleep "0.$i"
    touch go
    ends_with 0
    for each in "${clients[@]}"; do wait "$each" || :; done # the job may have ended before
  done
  nothing_left
}

@test "23: jobs that end in a storm of shrinks: none hangs" { repeat storm; }

ends_while_it_grows() {
  local client began
  start_deep 20
  grow --hosts=n62,n63 --wait=100s >answer 2>error &
  client=$!
  wait_until runs_on node0 '^ssh .* n62 '
  began=$(uptime_ms)
  touch go
  ends_with 0
  [ $(($(uptime_ms) - began)) -lt 5000 ]
  ! wait "$client" || false
  nothing_left
}

@test "24: the job ends while a grow is open: within 5 s, and its agents with it" { repeat ends_while_it_grows; }

kept_by_nobody() {
  prefix='[ $FLUX_TASK_RANK != 19 ] || trap "" TERM; ' start_deep 20
  shrink --shells=19 --grace=0.5s >answer
  answered answer 19
  ends_without 19
}

@test "25: a task that has been removed does not keep the job" { repeat kept_by_nobody; }
