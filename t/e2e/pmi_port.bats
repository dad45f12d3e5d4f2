#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# pmi.port: PMI for processes that lose descriptors, by PMI_PORT and PMI_ID. Each job here runs its tasks through a program
# that closes all of them.
load pmi.bash
load nodes.bash

setup_file() {
  cat >"$BATS_FILE_TMPDIR/without" <<'END'
#!/usr/bin/env python3
import os, sys
os.closerange(3, 1024)
os.execvp(sys.argv[1], sys.argv[1:])
END
  chmod +x "$BATS_FILE_TMPDIR/without"
}

without=$BATS_FILE_TMPDIR/without

# A job of $1 clients without descriptors that carry out the other arguments.
closed_clients() {
  prepare "$1" "$without" "$client" "${@:2}"
}

# Sends the lines $3... with the PMI_ID $2 as `nobody` or as this user ($1), once the task has written the port;
# prints the answers.
caller() {
  cat >caller.py <<'END'
import os, socket, sys, time
while not os.path.exists("where"):
    time.sleep(0.01)
port, own = open("where").read().split()
host, number = port.split(":")
if sys.argv[1] != "-":
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
s = socket.create_connection((host, int(number)))
try:
    s.sendall(f"cmd=initack pmiid={own if sys.argv[2] == 'own' else sys.argv[2]}\n".encode())
    print(f"answer: {s.recv(4096).split()}")
except OSError as error:
    print("answer: []")
END
  timeout 60 python3 caller.py "$@" >answer
}

@test "tasks find each other by the port, and have no descriptor" {
  closed_clients 4 init 'cmd=put kvsname=%k key=a%r value=v %r=x' has:rc=0 barrier has:barrier_out \
    'cmd=get kvsname=%k key=a3' 'has:value=v 3=x' barrier finalize
  run nacre -o pmi.port
  passes
  prepare 1 sh -c 'echo "${PMI_FD-no} $PMI_RANK $PMI_SIZE ${PMI_PORT%:*} ${PMI_ID:+some}"'
  run nacre -o pmi.port
  [ "$output" = "no 0 1 127.0.0.1 some" ] || { echo "$output"; return 1; }
}

@test "without the option they cannot, and there is no port" {
  closed_clients 1 init
  run nacre
  [ "$status" -ne 0 ]
  prepare 1 sh -c 'echo "${PMI_FD+some} ${PMI_PORT-no} ${PMI_ID-no}"'
  run nacre
  [ "$output" = "some no no" ] || { echo "$output"; return 1; }
}

@test "programs of MPICH, of Slurm's libpmi2 and of nacre's libraries" {
  mpicc.mpich -O1 -o allreduce "$BATS_TEST_DIRNAME/mpi/allreduce.c"
  cc -o pmi2 "$BATS_TEST_DIRNAME/mpi/pmi2.c" -lpmi2
  cc -o pmi_library "$BATS_TEST_DIRNAME/mpi/pmi_library.c" -ldl
  prepare 4 "$without" "$work/allreduce"
  run nacre -o pmi.port
  [ "$output" = "allreduce ok, 4 ranks" ] || { echo "$output"; return 1; }
  prepare 4 "$without" "$work/pmi2"
  run nacre -o pmi.port
  [ "$output" = "pmi2 ok, 4 ranks" ] || { echo "$output"; return 1; }
  prepare 2 "$without" "$work/pmi2" spawn
  run nacre -o pmi.port
  [ "$output" = "children ok" ] || { echo "$output"; return 1; }
  run nacre -o pmi.port -o pmi.library
  [ "$output" = "children ok" ] || { echo "$output"; return 1; }
  prepare 4 "$without" "$work/pmi_library"
  run nacre -o pmi.port
  [ "$output" = "library ok, 4 ranks, 4 here" ] || { echo "$output"; return 1; }
}

@test "over several shells, each with its own port" {
  write_nodes 3 2
  write_jobspec 6 "$without" "$client" init 'cmd=put kvsname=%k key=a%r value=v%r' barrier 'cmd=get kvsname=%k key=a0' has:value=v0 \
    'cmd=get kvsname=%k key=a5' has:value=v5 barrier finalize
  run launch --local=3 -R R.json -o cpu-affinity=off -o pmi.port
  passes
}

@test "a task that is lost is found so, as by a descriptor" {
  closed_clients 2 init 1:kill barrier
  run nacre -o pmi.port
  ends_with 137 "rank 1 on node0"
  closed_clients 2 init 1:kill barrier 'cmd=get kvsname=%k key=PMI_dead_processes' has:value=1 finalize
  run nacre -o pmi.port -o fault-tolerance -o exit-report=off
  [[ $output == *"rank 1 on node0 is lost; the others go on"* ]] || { echo "$output"; return 1; }
  # The client ends as soon as it has sent that it has come.
  closed_clients 2 0:join 0:barrier 1:send:'cmd=init pmi_version=1 pmi_subversion=1\n' 1:exit:0
  run nacre -o pmi.port
  ends_with 1 "rank 1 on node0 exited with code 0 without PMI finalize"
}

@test "tasks that start again connect anew" {
  closed_clients 2 init '1:touch:come.%t' barrier 1:wait:come.1 finalize
  write_jobspec 2 sh -c '[ "$PMI_RANK:$NACRE_TASK_TRY" != 1:1 ] || exit 3; exec "$@"' sh "$without" "$client" init barrier finalize
  run nacre -o pmi.port -o restart=on-failure
  [ "$status" -eq 0 ] || { echo "$status $output"; return 1; }
}

@test "a number that is no task's PMI_ID, and one a second time, is refused with a line" {
  local said
  prepare 1 sh -c 'echo "$PMI_PORT $PMI_ID" >new && mv new where; "$@" && until test -e go; do sleep 0.02; done' sh \
    "$client" init finalize
  nacre -o pmi.port >log 2>&1 3>&- &
  caller - 12345
  grep -qx 'answer: \[\]' answer
  sleep 0.2
  caller - own
  grep -qx 'answer: \[\]' answer || { cat answer; return 1; }
  touch go
  wait $!
  said=$(grep -c 'warn: pmi: PMI_PORT 127.0.0.1:[0-9]*: a process connects whose PMI_ID is not that of one that may: refused' log)
  [ "$said" -eq 1 ] || { cat log; return 1; }
}

@test "a command beside a task has no connection, as it has no descriptor" {
  "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -o pmi.port sh -c 'echo "$PMI_PORT" >new && mv new where; until test -e go; do sleep 0.02; done' 3>&- &
  is_listed() { [ -n "$("$NACRE_BUILD_DIR/nacre" jobs -q)" ]; }
  wait_until is_listed
  wait_until test -e where
  run "$NACRE_BUILD_DIR/nacre" exec -r 0 sh -c 'echo ${PMI_FD-no} ${PMI_PORT-no} ${PMI_ID-no} $PMI_RANK'
  touch go
  wait $!
  [ "$output" = "no no no 0" ] || { echo "$output"; return 1; }
}

# bats test_tags=root
@test "another user is refused with a line, also with the right PMI_ID" {
  prepare 1 sh -c 'echo "$PMI_PORT $PMI_ID" >new && mv new where; until test -e go; do sleep 0.02; done; exec "$@"' sh \
    "$client" init finalize
  chmod 755 .
  nacre -o pmi.port >log 2>&1 3>&- &
  caller nobody own
  caller nobody 4711
  grep -qx 'answer: \[\]' answer || { cat answer; return 1; }
  touch go
  wait $! || { cat log; return 1; }
  [ "$(wc -l <log)" -eq 1 ] || { cat log; return 1; }
  grep -q 'warn: pmi: PMI_PORT 127.0.0.1:[0-9]*: user 65534 connects, and the job is that of user 0: refused' log || { cat log; return 1; }
}
