#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The list of jobs and the leader's socket, where others make it hard: garbage, other users, homes that cannot be written, and clients that
# do not keep to the protocol.
load control.bash

@test "garbage in the list is named, and hides nothing" {
  start_job 1 1 'exec sleep 600'
  echo '{' >"$NACRE_JOBS_DIR/fgarbage.json"
  head -c 200000 /dev/zero >"$NACRE_JOBS_DIR/flarge.json"
  run --separate-stderr "$front" jobs -q
  [ "$status" -eq 0 ]
  [ "$output" = "$id" ]
  run --separate-stderr "$front" jobs
  [[ $stderr == *"$NACRE_JOBS_DIR/fgarbage.json: "* ]]
  [[ $stderr == *"$NACRE_JOBS_DIR/flarge.json: longer than 65536 bytes"* ]]
  "$front" kill last
  ends_with 143
}

# bats test_tags=root
@test "a home that cannot be written: the list is elsewhere, and searched there" {
  needs_root "to mount a file system"
  unset NACRE_JOBS_DIR
  mkdir home run
  mount -t tmpfs -o size=4k,nr_inodes=1 tmpfs home # not even a directory has room
  export HOME=$work/home XDG_RUNTIME_DIR=$work/run
  unset XDG_STATE_HOME
  start_job 1 1 'exec sleep 600'
  [ -e "$XDG_RUNTIME_DIR/nacre/jobs/$id.json" ]
  mount -o remount,ro "$HOME"
  "$front" kill last
  ends_with 143
  [ "$("$front" jobs -a --json | jq --arg id "$id" 'select(.id == $id) | .end.code')" = 143 ]
  umount "$HOME"
  run grep -c "control:" err
  [ "$output" = 0 ]
}

# bats test_tags=root
@test "a home that is full, or fills while the job runs: what it has no room for is elsewhere" {
  needs_root "to mount a file system"
  unset NACRE_JOBS_DIR XDG_STATE_HOME
  mkdir home run
  export HOME=$work/home XDG_RUNTIME_DIR=$work/run
  for inodes in 5 6; do # the folders need 5 inodes, an entry one
    mount -t tmpfs -o size=64k,nr_inodes="$inodes" tmpfs home
    start_job 1 1 'exec sleep 600'
    expected=$([ "$inodes" -eq 5 ] && echo "$XDG_RUNTIME_DIR/nacre" || echo "$HOME/.local/state/nacre")
    [ -e "$expected/jobs/$id.json" ]
    "$front" kill last
    ends_with 143
    [ "$("$front" jobs -a --json | jq -sc --arg id "$id" 'map(select(.id == $id) | .end.code)')" = '[143]' ]
    [ -e "$XDG_RUNTIME_DIR/nacre/jobs/$id.json" ]
    [ ! -e "$HOME/.local/state/nacre/jobs/$id.json" ]
    run grep -c "control:" err
    [ "$output" = 0 ]
    umount "$HOME"
  done
}

# bats test_tags=root
@test "no place at all: the job runs, and says so once" {
  needs_root "to mount a file system"
  export HOME=/proc/nowhere XDG_RUNTIME_DIR=/proc/nowhere
  unset XDG_STATE_HOME NACRE_JOBS_DIR
  write_nodes 1 1
  write_jobspec 1 sleep 0.3
  # Another user has the last place.
  run unshare -m bash -c "mount -t tmpfs tmpfs /tmp && mkdir -p '$work' && mkdir -m 777 /tmp/nacre-0 && chown 65534 /tmp/nacre-0 &&
    cd '$work' && printf '%s' \"\$0\" >jobspec.json && printf '%s' \"\$1\" >R.json && mkdir -p '$TMPDIR' &&
    '$front' launch --shell='$NACRE_SHELL' -j jobspec.json -R R.json -o cpu-affinity=off --local=1" \
    "$(<jobspec.json)" "$(<R.json)"
  [ "$status" -eq 0 ]
  [ "$(grep -c "/tmp/nacre-0: belongs to user 65534" <<<"$output")" -eq 1 ]
}

@test "a place that is asked for and cannot be: no other is taken" {
  mkdir home
  export HOME=$work/home NACRE_JOBS_DIR=/proc/nowhere
  unset XDG_STATE_HOME
  write_nodes 1 1
  write_jobspec 1 true
  run -0 launch -R R.json -o cpu-affinity=off --local=1
  [ "$(grep -c "control:.*/proc/nowhere: " <<<"$output")" -eq 1 ]
  [ -z "$(ls -A home)" ]
}

# bats test_tags=root
@test "another user can neither list, nor read, nor signal" {
  needs_root "to become another user"
  front=$(copy_for_all "$NACRE_BUILD_DIR/nacre")
  start_job 1 1 'exec sleep 600'
  socket=$("$front" jobs --json | jq -r .address)
  run as_nobody "$front" jobs -a -q
  [ -z "$output" ]
  run as_nobody "$front" kill "$id"
  [ "$status" -eq 1 ]
  [[ $output == *"nacre kill: '$id': no such job"* ]]
  run as_nobody cat "$NACRE_JOBS_DIR/$id.json"
  [ "$status" -ne 0 ]
  run as_nobody ls "$(dirname "${socket#unix:}")"
  [ "$status" -ne 0 ]
  nobody_is_refused "$socket" '{"id":1,"do":"signal","signal":15}'
  "$front" jobs -q | grep -x "$id"
  "$front" kill "$id"
  ends_with 143
}

@test "clients that send garbage, and 64 that stay, do not disturb the job" {
  start_job 1 1 'while [ ! -e go ]; do sleep 0.2; done; echo done'
  socket=$("$front" jobs --json | jq -r .address)
  python3 - "${socket#unix:}" <<'END' &
import os, socket, sys, time
links = []
for garbage in (b"\xff" * 5000 + b"\n", b"{" * 2_000_000, b"[]\n", b'{"nacre":1}\n', b""):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.settimeout(10)
    try:
        s.sendall(garbage)
        while garbage and s.recv(1000):
            pass
    except (ConnectionResetError, BrokenPipeError):
        pass
for _ in range(64):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.sendall(b'{"nacre":"1","control":1}\n')
    s.settimeout(10)
    assert s.recv(1000)
    links.append(s)
open("connected", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
END
  clients=$!
  wait_until test -e connected
  run "$front" ps
  fails_with 1 "64 others are connected already"
  touch go
  ends_with 0
  wait "$clients"
  [ "$(<out)" = "done" ]
}

@test "a bridge copies what a verb and the leader send each other" {
  start_job 1 2 'exec sleep 600'
  printf '%s\n' '{"nacre":"1","control":1}' '{"id":1,"do":"status"}' >asked
  { cat asked; sleep 1; } | "$front" control --bridge "$id" >answered
  [ "$(sed -n 2p answered | jq -c '[.id, .ok.tasks, .ok.state]')" = '[1,2,"running"]' ]
  # By an agent, as to another host.
  cat >agent <<'END'
#!/bin/sh
echo "$1" >agent.host
shift
exec sh -c "$*"
END
  chmod +x agent
  entry=$NACRE_JOBS_DIR/$id.json
  cp "$entry" kept
  jq -c '.place.host = "elsewhere"' kept >forged
  cp forged "$entry"
  [ "$("$front" jobs --json | jq -r .status)" = U ]
  NACRE_AGENT=./agent run "$front" ps "$id"
  [ "$status" -eq 1 ]
  [[ $output == *"its leader is on elsewhere"* ]]
  [ "$(<agent.host)" = elsewhere ]
  sed -i "s|^shift|cp kept '$entry'; shift|" agent
  NACRE_AGENT=./agent run --separate-stderr "$front" ps -q -v "$id"
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 2 ]
  [[ $stderr == *"reached by ssh"* ]]
  cp forged "$entry"
  run "$front" kill --via=srun "$id"
  fails_with 1 "is no step of Slurm"
  run "$front" kill --via=x "$id"
  fails_with 1 "--via: x: expected unix, srun, flux or ssh"
  NACRE_AGENT=./agent run "$front" kill -v --via=unix "$id"
  [ "$status" -eq 0 ]
  [[ $output == *"reached by unix"* ]]
  ends_with 143
}

@test "a thousand entries are listed soon" {
  start_job 1 1 'exec sleep 600'
  for ((i = 0; i < 1000; ++i)); do
    printf -v name 'f%s' "$(tr 0 z <<<$((2000 + i)))"
    sed "s/\"id\":\"$id\"/\"id\":\"$name\"/" "$NACRE_JOBS_DIR/$id.json" >"$NACRE_JOBS_DIR/$name.json"
  done
  [ "$("$front" jobs -q | wc -l)" -eq 1001 ]
  "$front" kill "$id"
  ends_with 143
}
