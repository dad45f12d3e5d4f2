#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The virtual cluster itself: its hosts, their network, what can be done to them, Slurm on them, and that nothing is left.
load lib.bash

cluster=(3 --slurm)

# Whether HOST takes a new connection of the host FROM: its sshd's banner has come.
reaches() {
  on "$1" timeout 2 bash -c 'read -r banner <"/dev/tcp/$1/22" && [[ $banner == SSH-* ]]' - "$2" 2>/dev/null
}

out_of_reach() { ! reaches "$@"; }

# The host FROM gets no answer at all from HOST, and gives up after 1 s.
meets_silence() {
  run on "$1" timeout 1 bash -c ': <"/dev/tcp/$1/22"' - "$2"
  [ "$status" -eq 124 ] || { echo "exit code $status: $output"; return 1; }
}

# Opens a session of node0 on HOST, which prints "here", its input, and then "done"; its files are in $work.
open_session() {
  local answer=$work/answer
  mkfifo "$work/question"
  "$vcluster" exec node0 ssh "$1" 'echo here; read -r line; echo "$line"; echo done' <>"$work/question" >"$answer" 2>"$work/said" 3>&- &
  session=$!
  wait_until grep -qx here "$answer"
}

@test "a host has a name, processes, /tmp, /run and /dev of its own, and the machine's files" {
  for host in ctl "${nodes[@]}"; do
    [ "$(on "$host" uname -n)" = "$host" ]
    [[ $(on "$host" ps -o args= -p 1) == *"vcluster __init $host" ]]
    for folder in /tmp /run /dev /dev/shm; do on "$host" sh -ec "test ! -e $folder/mine; echo $host >$folder/mine"; done
    on "$host" sh -c "echo $host >$work/of.$host"
  done
  for host in ctl "${nodes[@]}"; do
    [ "$(on node0 cat "$work/of.$host")" = "$host" ]
    for folder in /tmp /run /dev /dev/shm; do [ "$(on "$host" cat $folder/mine)" = "$host" ]; done
    [ "$(on "$host" cksum <"$NACRE_BUILD_DIR/CMakeCache.txt")" = "$(on "$host" sh -c "cksum <$NACRE_BUILD_DIR/CMakeCache.txt")" ]
    on "$host" test -x "$NACRE_SOURCE_DIR/t/cluster/vcluster"
  done
}

@test "hosts reach each other by name over ssh, and nothing else" {
  for pair in "ctl node0" "node0 node1" "node1 node2" "node2 node0" "node1 node1"; do
    read -r from to <<<"$pair"
    [ "$(on "$from" ssh "$to" uname -n)" = "$to" ]
  done
  [ "$(on node1 ip -4 route)" = "10.77.0.0/16 dev eth0 proto kernel scope link src 10.77.0.2 " ]
  run -5 on node0 ssh node1 'exit 5'
  nothing_left
}

@test "exec hands on exit codes, stdin and signals" {
  run -7 on node0 sh -c 'exit 7'
  [ "$(on node0 cat <<<"a line")" = "a line" ]
  run -1 "$vcluster" exec node9 true
  [ "$output" = "vcluster: no host 'node9' in cluster '$VCLUSTER_NAME'" ]
  "$vcluster" exec node0 sleep 1000 3>&- &
  pid=$!
  wait_until runs_on node0 "^sleep 1000"
  kill "$pid"
  wait "$pid" || code=$?
  [ "$code" -eq 143 ]
  nothing_left
}

@test "a host that is cut meets silence, and what it had open goes on when it is healed" {
  open_session node1
  "$vcluster" cut node1
  meets_silence node0 node1
  meets_silence node1 node2
  reaches node0 node2
  echo "still there" >"$work/question" # this is lost, sent again, and lost
  [ "$(cat "$work/answer")" = here ]
  "$vcluster" heal node1
  wait_until reaches node0 node1
  wait_until reaches node1 node2
  wait "$session"
  [ "$(cat "$work/answer")" = here$'\n'"still there"$'\n'"done" ]
  nothing_left
}

@test "two hosts are cut off from each other only" {
  "$vcluster" cut node0 node1
  meets_silence node0 node1
  meets_silence node1 node0
  reaches node0 node2
  reaches node2 node1
  "$vcluster" heal node0 node1
  wait_until reaches node0 node1
  wait_until reaches node1 node0
}

@test "a delayed host answers late, and so does its file" {
  "$vcluster" delay node1 60
  [ "$(on node0 ping -c 3 -q node1 | sed -n 's|^rtt [^=]*= \([0-9]*\).*|\1|p')" -ge 120 ]
  [ "$(on node0 ssh node1 head -c 200000 /dev/zero | wc -c)" -eq 200000 ]
  reaches node0 node2
  "$vcluster" cut node1
  meets_silence node0 node1
  "$vcluster" heal node1
  wait_until reaches node0 node1
  "$vcluster" delay node1 0
  undelayed() { [ "$(on node0 ping -c 1 -q node1 | sed -n 's|^rtt [^=]*= \([0-9]*\).*|\1|p')" -lt 60 ]; }
  wait_until undelayed
  [ -z "$(ip netns pids "$VCLUSTER_NAME-switch")" ]
}

@test "a host that is killed answers with RST, one that loses its power not at all; both boot" {
  open_session node1
  on node1 touch /tmp/here
  "$vcluster" kill node1
  wait "$session" || code=$?
  [ "$code" -eq 255 ] # ssh reports that the connection has ended
  run -255 on node0 ssh node1 true
  [[ $output == *"Connection refused"* ]]
  [ "$("$vcluster" status | grep node1)" = "node1 10.77.0.2 down" ]
  run -1 "$vcluster" exec node1 true
  [ "$output" = "vcluster: node1 is down" ]
  "$vcluster" boot node1
  reaches node0 node1
  run -1 on node1 test -e /tmp/here # the host's former files are gone

  rm "$work/question" "$work/answer"
  open_session node1
  "$vcluster" kill node1 --power
  meets_silence node0 node1
  kill -0 "$session" # the session cannot know of it
  kill "$session"
  "$vcluster" boot node1
  wait_until reaches node0 node1
  nothing_left
}

@test "Slurm runs a job over all hosts" {
  for round in 1 2 3; do
    run slurm node0 -N3 --ntasks-per-node=2 sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS on $(uname -n)'
    said_lines "0 of 6 on node0" "1 of 6 on node0" "2 of 6 on node1" "3 of 6 on node1" "4 of 6 on node2" "5 of 6 on node2"
  done
  run -9 slurm node1 -N3 sh -c 'test $SLURM_PROCID != 2 || exit 9'
  nothing_left
}

# The namespaces of the hosts of the cluster $1, as the kernel calls them.
namespaces_of() {
  local pid
  for pid in $(VCLUSTER_NAME=$1 "$vcluster" status | sed -n 's/.*init=//p'); do readlink /proc/"$pid"/ns/{net,pid,mnt,uts,ipc}; done
}

# Checks that nothing is left of the cluster $1, whose hosts had the namespaces $2.
gone() {
  local left
  [ ! -e "$VCLUSTER_STATE/$1" ] || { echo "left: $VCLUSTER_STATE/$1"; return 1; }
  left=$(compgen -G "/run/netns/$1-*") && { echo "left: $left"; return 1; }
  left=$(grep -F -e "/$1-" -e "/$1/" /proc/self/mountinfo) && { echo "left: $left"; return 1; }
  left=$(readlink /proc/[0-9]*/ns/{net,pid,mnt,uts,ipc} 2>/dev/null | sort -u | grep -xF "$2") && { echo "left: $left"; return 1; }
  left=$(grep -lzE -e "/$1(/|\$)|^VCLUSTER_NAME=$1\$" /proc/[0-9]*/{cmdline,environ} 2>/dev/null) && { echo "left: $left"; return 1; }
  return 0
}

# Gives the cluster $1 processes and mounts that a wrong end would leave.
busy() {
  local VCLUSTER_NAME=$1
  "$vcluster" exec node0 sh -c 'setsid sleep 5000 & trap "" TERM; setsid -f ssh node1 "trap : TERM HUP; sleep 5001; sleep 5002"' 3>&-
  "$vcluster" exec node1 sh -c 'mount -t tmpfs tmpfs /mnt; cd /mnt; setsid sleep 5003 & kill -STOP $!; ip link add dummy type veth peer dumber' 3>&-
  "$vcluster" delay node1 1
  wait_until runs_on node1 "^sleep 5001"
}

@test "down leaves nothing, and other clusters alone" {
  name=$VCLUSTER_NAME-2
  ip -o link | cut -d: -f2 >"$work/links"
  VCLUSTER_NAME=$name "$vcluster" up 2 --share "$NACRE_SOURCE_DIR" --while $$ 3>&-
  busy "$name"
  namespaces=$(namespaces_of "$name")
  [ "$(wc -l <<<"$namespaces")" -eq 10 ]
  run gone "$name" "$namespaces"
  [ "$status" -eq 1 ]
  # A host that kept another cluster's namespaces mounted would keep them alive.
  run -1 env VCLUSTER_NAME="$name" "$vcluster" exec node0 grep nsfs /proc/self/mountinfo
  VCLUSTER_NAME=$name "$vcluster" down
  gone "$name" "$namespaces"
  ip -o link | cut -d: -f2 | diff "$work/links" -
  VCLUSTER_NAME=$name "$vcluster" down # again
  reaches node0 node1
  run slurm node0 -N3 uname -n
  said_lines node0 node1 node2
}

@test "a cluster ends with the process that it is for, however that ends" {
  name=$VCLUSTER_NAME-3
  sleep 1000 3>&- &
  VCLUSTER_NAME=$name "$vcluster" up 2 --while $! 3>&-
  busy "$name"
  namespaces=$(namespaces_of "$name")
  kill -KILL $!
  wait_until gone "$name" "$namespaces"
}

@test "up that is killed in the middle leaves nothing after down" {
  name=$VCLUSTER_NAME-4
  for host in switch node0 node1; do
    VCLUSTER_NAME=$name "$vcluster" up 2 3>&- &
    up=$!
    wait_until test -e "/run/netns/$name-$host"
    kill -KILL "$up"
    VCLUSTER_NAME=$name "$vcluster" down
    gone "$name" none
  done
}

@test "what is wrong is told in a line" {
  refuses() { # said, a pattern, and command...
    local said=$1
    shift
    run -1 env VCLUSTER_NAME="$VCLUSTER_NAME-5" "$@"
    [[ ${#lines[@]} -eq 1 && $output =~ ^vcluster:\ $said ]] || { echo "said: $output"; return 1; }
    [ ! -e "$VCLUSTER_STATE/$VCLUSTER_NAME-5" ]
  }
  refuses "no cluster '.*' is up$" "$vcluster" status
  refuses "N must be 1 to 1000" "$vcluster" up 1001
  refuses "/run/x/.* is in a place private to each host" VCLUSTER_STATE=/run/x "$vcluster" up 1
  local copy
  copy=$(mktemp -d) # the source tree may be closed to others
  cp -r "$vcluster" "$vcluster.d" "$copy"
  chmod -R a+rX "$copy"
  refuses "must be root" setpriv --reuid 65534 --clear-groups "$copy/vcluster" up 1
  rm -r "$copy"
  refuses "this machine allows no namespaces: ." setpriv --bounding-set -sys_admin "$vcluster" up 1
  refuses "this machine allows namespaces, but not " setpriv --bounding-set -net_admin "$vcluster" up 1
  run -1 "$vcluster" up 1
  [[ $output == "vcluster: cluster '$VCLUSTER_NAME' is up or was left behind in $VCLUSTER_STATE/$VCLUSTER_NAME (vcluster down)" ]]
  run -2 "$vcluster" upp
  [[ $output == *"vcluster up N"*"vcluster down"* ]]
}
