#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# PMI on the wire: clients that speak it themselves (pmi_client), so that the test chooses each word.
load pmi.bash

@test "keys that are put before a barrier are there after it" {
  clients 4 init 'cmd=put kvsname=%k key=a%r value=v %r=x' has:rc=0 barrier has:barrier_out \
    'cmd=get kvsname=%k key=a0' 'has:value=v 0=x' 'cmd=get kvsname=%k key=a3' 'has:value=v 3=x' barrier finalize
  run nacre
  passes
}

@test "each task knows its rank, the size and its place on the node" {
  prepare 3 sh -c 'echo "$PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS, ${PMI_SPAWNED:-not spawned}"'
  run nacre
  [ "$(sort <<<"$output")" = $'0 of 3, 0 of 3, not spawned\n1 of 3, 1 of 3, not spawned\n2 of 3, 2 of 3, not spawned' ]
}

@test "what the shell's own launcher has set is not passed on" {
  prepare 1 sh -c 'echo "${PMI_RANK-no} ${PMI_SIZE-no} ${PMI_FD-no} ${PMI_ID-no} ${PMI_PORT-no} ${PMI_SPAWNED-no}"'
  export PMI_RANK=7 PMI_SIZE=8 PMI_FD=9 PMI_ID=7 PMI_PORT=a:1 PMI_SPAWNED=1
  environment='{"PATH": "/usr/bin:/bin", "PMI_RANK": "7", "PMI_ID": "7", "PMI_PORT": "a:1", "PMI_SPAWNED": "1"}' \
    write_jobspec 1 sh -c 'echo "$PMI_RANK $PMI_SIZE ${PMI_ID-no} ${PMI_PORT-no} ${PMI_SPAWNED-no}"'
  run nacre
  [ "$output" = "0 1 no no no" ]
  prepare 1 sh -c 'echo "${PMI_RANK-no} ${PMI_SIZE-no} ${PMI_FD-no}"'
  run nacre -o pmi=off
  [ "$output" = "no no no" ]
}

@test "the group's facts: maxes, name, application number, universe size, maps" {
  clients 2 init cmd=get_maxes 'has:kvsname_max=64 keylen_max=64 vallen_max=1024' cmd=get_appnum has:appnum=0 \
    cmd=get_universe_size has:size=-1 'cmd=get kvsname=%k key=PMI_process_mapping' 'has:value=(vector,(0,1,2))' \
    'cmd=get kvsname=%k key=flux.taskmap' 'has:value=[[0,1,2,1]]' \
    'cmd=get kvsname=%k key=flux.instance-level' has:rc=4 finalize
  run nacre
  passes
}

@test "of a job of an instance of Flux: the level of an instance that its tasks start, and what that needs to find the other" {
  export FLUX_URI=local:///there FLUX_KVS_NAMESPACE=job-12935233536 FLUX_JOB_ID=ƒLi3TGs FLUX_JOB_ID_PATH=/ƒA/ƒLi3TGs
  clients 1 init cmd=get_my_kvsname has:Li3TGs 'cmd=get kvsname=%k key=flux.instance-level' has:value=2 finalize
  run nacre fLi3TGs
  passes
  prepare 1 sh -c 'echo $FLUX_URI $FLUX_KVS_NAMESPACE $FLUX_JOB_ID_PATH'
  run nacre fLi3TGs
  [ "$output" = "local:///there job-12935233536 /ƒA/ƒLi3TGs" ]
  # The job is another one, or there is no instance.
  run nacre fA
  [ "$output" = /ƒA ]
  unset FLUX_KVS_NAMESPACE
  run nacre fLi3TGs
  [ "$output" = /ƒLi3TGs ]
}

@test "where R has room for more tasks the universe has it" {
  clients 2 init cmd=get_universe_size has:size=5 finalize
  write_R 5
  run nacre
  passes
}

@test "pmi-simple.nomap leaves the maps out" {
  clients 1 init 'cmd=get kvsname=%k key=PMI_process_mapping' has:rc=4 'cmd=get kvsname=%k key=flux.taskmap' has:rc=4 finalize
  run nacre -o pmi-simple.nomap
  passes
}

@test "names are published, looked up and withdrawn" {
  clients 2 init '0:cmd=publish_name service=ocean port=tag#0$x' 0:has:rc=0 barrier '1:cmd=lookup_name service=ocean' \
    '1:has:port=tag#0$x' barrier '0:cmd=unpublish_name service=ocean' 0:has:rc=0 barrier \
    '1:cmd=lookup_name service=ocean' 1:has:rc=-1 finalize
  run nacre
  passes
}

@test "PMI_Abort ends the job with the client's exit code" {
  clients 4 init '2:send:cmd=abort exitcode=19 message=out\ of\ luck\n' barrier
  run nacre
  ends_with 19 "error: rank 2 on node0 called PMI_Abort with code 19: out of luck"
}

# Pairs of the requested code and the job's exit code.
# bats test_tags=long
@test "PMI_Abort: 0 counts as 1, other codes that a process cannot have as their low 8 bits, and never as 0" {
  local case
  for case in "0 1" "1 1" "255 255" "256 255" "300 44" "-1 255" "-256 255" "2147483647 255"; do
    clients 2 init "1:send:cmd=abort exitcode=${case% *}\\n" barrier
    run nacre
    ends_with "${case#* }" "error: rank 1 on node0 called PMI_Abort with code ${case% *}" || return
  done
}

# ---- bad clients hurt nobody else ----------------------------------------------------------

# Client 1 does what the arguments say, the others go through barriers: they pass, and the log says $said about
# client 1.
hurts_nobody() {
  local verb mine=()
  for verb in "$@"; do mine+=("1:$verb"); done
  clients 3 "${mine[@]}" 0,2:init 0,2:barrier '0,2:cmd=put kvsname=%k key=k%r value=v' 0,2:has:rc=0 0,2:barrier \
    '0,2:cmd=get kvsname=%k key=k0' 0,2:has:value=v 0,2:finalize
  run nacre -o fault-tolerance
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$(grep -v "rank 1 on node0 is lost" <<<"$output")" = \
    "${said:+nacre-shell[0]: error: pmi: rank 1 on node0: $said: its connection is closed}" ] ||
    { echo "said: $output"; return 1; }
}

# bats test_tags=long
@test "binary garbage" {
  said="expected cmd=NAME, got '\\x01\\x02\\x1b'" hurts_nobody 'bytes:01021b0a' end
}

# bats test_tags=long
@test "a line without an end" {
  prepare 2 sh -c 'if [ "$PMI_RANK" = 1 ]; then head -c 1000000 /dev/zero | tr "\0" x >&"$PMI_FD"; exit 0; fi
    exec "$0" init barrier finalize' "$client"
  run nacre -o fault-tolerance
  [ "$status" -eq 0 ]
  [[ $output == *"error: pmi: rank 1 on node0: 65536 bytes without a newline: its connection is closed"* ]]
}

@test "an unknown command" {
  said="unknown command 'frobnicate'" hurts_nobody 'send:cmd=frobnicate\n' end
}

# bats test_tags=long
@test "half a line, and then nothing more" {
  said="the connection ended in the middle of a message: 'cmd=ini'" hurts_nobody send:cmd=ini close
}

@test "commands before init are refused" {
  hurts_nobody 'cmd=put kvsname=x key=a value=b' has:rc=-1 has:before_init cmd=get_maxes has:rc=-1
}

@test "a wrong space, a key that is too long, a value that is too long, a key twice with other values" {
  long=$(printf '%01024d' 0)
  clients 2 init 'cmd=put kvsname=other key=a value=b' has:rc=-1 "cmd=put kvsname=%k key=${long:0:64} value=b" has:rc=-1 \
    "cmd=put kvsname=%k key=${long:0:63}%r value=b" has:rc=-1 "cmd=put kvsname=%k key=long%r value=$long" has:rc=-1 \
    "cmd=put kvsname=%k key=fits%r value=${long:1}" has:rc=0 "cmd=get kvsname=%k key=fits%r" "has:value=${long:1}" \
    'cmd=put kvsname=%k key=once%r value=1' has:rc=0 'cmd=put kvsname=%k key=once%r value=1' has:rc=0 'cmd=put kvsname=%k key=once%r value=2' has:rc=-1 \
    'cmd=get kvsname=%k key=once%r' has:value=1 'cmd=get kvsname=%k key=never' has:rc=4 barrier finalize
  run nacre
  passes
}

@test "nothing is put after finalize" {
  clients 2 init finalize 'cmd=put kvsname=%k key=a value=b' has:rc=-1 has:after_finalize
  run nacre
  passes
}

# bats test_tags=long
@test "a client that asks and never reads takes a bounded part of the shell's memory" {
  cat >ask.py <<'END'
import os, socket, time
s = socket.socket(fileno=int(os.environ["PMI_FD"]))
s.sendall(b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\n")
got = b""
while got.count(b"\n") < 2: got += s.recv(4096)
space = got.split(b"kvsname=")[1].split()[0]
s.sendall(b"cmd=put kvsname=" + space + b" key=big value=" + b"x" * 1000 + b"\n")
s.setblocking(False)
sent = 0
try:
    while sent < 100_000_000: sent += s.send(b"cmd=get kvsname=" + space + b" key=big\n")
except BlockingIOError: pass
assert sent < 100_000_000
open("full", "w").close()
while not os.path.exists("others"): time.sleep(0.01)
s.setblocking(True)
os._exit(0)
END
  prepare 2 sh -c '[ "$PMI_RANK" = 1 ] && exec python3 ask.py; exec "$0" wait:full init "cmd=put kvsname=%k key=a value=b" has:rc=0 finalize touch:others' "$client"
  run nacre -o fault-tolerance
  [ "$status" -eq 0 ]
}

@test "the version of PMI is agreed on" {
  clients 1 'cmd=init pmi_version=1 pmi_subversion=0' 'has:pmi_version=1 pmi_subversion=0 rc=0' finalize
  run nacre
  passes
  clients 1 'cmd=init pmi_version=3 pmi_subversion=0' 'has:pmi_version=1 pmi_subversion=0 rc=-1' join has:rc=0 finalize
  run nacre
  passes
  clients 1 'cmd=init pmi_version=2 pmi_subversion=0' 'has:pmi_version=1 pmi_subversion=0 rc=-1'
  run nacre -o pmi=simple
  passes
  clients 1 join 'has:pmi_version=2 pmi_subversion=0 rc=-1'
  run nacre -o pmi=pmi2
  passes
}

@test "pmi takes a list, off, or an object" {
  clients 1 init finalize
  run nacre -o pmi=simple,pmi2
  passes
  run nacre -o pmi.use=simple
  passes
  run nacre -o pmi=simpel,simple
  [ "$status" -eq 0 ]
  [[ $output == *"warn: pmi: pmi: there is no plugin 'simpel', and tasks do without it; "*"; did you mean simple?" ]]
  run nacre -o pmi=simple,
  fails_with 1 "nacre-shell: pmi: expected a list of names, as simple, pmi2 and pmix, or off, got \"simple,\""
  run nacre -o pmi.usr=simple
  fails_with 1 "pmi.usr: unknown key; known: use, explain, hang-report, max-size, library"
  run nacre -o fault-tolerance.signal=SIGNOT
  fails_with 1 "fault-tolerance.signal: expected a signal such as SIGUSR1, got \"SIGNOT\""
}

# ---- lost tasks ----------------------------------------------------------------------------

# Places where client 1 of three ends, and the rest of what they do.
places=(
  "before init|1:kill init barrier"
  "after init|init 1:kill barrier"
  "between put and barrier|init barrier 1:cmd=put_kvsname=%k_key=a_value=b 1:kill barrier"
  "in a barrier|init barrier 1:send:cmd=barrier_in\\n 1:kill barrier"
  "after a barrier|init barrier 1:kill barrier"
  "in the middle of a line|init barrier 1:send:cmd=barr 1:kill barrier"
  "with an answer not read|init barrier 1:send:cmd=get_maxes\\n 1:kill barrier"
  "by leaving with 0|init barrier 1:exit:0 barrier"
  "by leaving with 3|init barrier 1:exit:3 barrier"
  "before finalize|init barrier barrier 1:kill barrier"
)

lose() {
  local place=$1 verbs verb list=()
  read -ra verbs <<<"${place#*|}"
  for verb in "${verbs[@]}"; do list+=("$(sed 's/put_kvsname/put kvsname/; s/_key=/ key=/; s/_value=/ value=/' <<<"$verb")"); done
  clients 3 "${list[@]}" finalize
}

# bats test_tags=long
@test "a lost task ends the job, wherever it was" {
  for place in "${places[@]}"; do
    lose "$place"
    run nacre
    code=137
    [[ $place == *"with 0"* ]] && code=1
    [[ $place == *"with 3"* ]] && code=3
    ends_with "$code" "error: rank 1 on node0 " || { echo "$place"; return 1; }
    [[ $output == *"; the job ends (-o fault-tolerance lets the others go on)"* ]]
  done
}

# bats test_tags=long
@test "with fault-tolerance the others go on without it, wherever it was" {
  for place in "${places[@]}"; do
    lose "$place"
    run nacre -o fault-tolerance -o exit-report=line
    code=137
    [[ $place == *"with 0"* ]] && code=0
    [[ $place == *"with 3"* ]] && code=3
    ends_with "$code" "warn: pmi: rank 1 on node0 is lost; the others go on" || { echo "$place"; return 1; }
    # Of a half line there is another, and how the task ended.
    [ "${#lines[@]}" -le 3 ] || { echo "$place: $output"; return 1; }
  done
}

# bats test_tags=long
@test "the lost are listed in their order, and who asked for a signal gets it once the list has them" {
  clients 4 init barrier 2:kill 0,1,3:signal '0,1,3:cmd=get kvsname=%k key=PMI_dead_processes' 0,1,3:has:value=2 \
    0,1,3:barrier 0:kill 1,3:signal '1,3:cmd=get kvsname=%k key=PMI_dead_processes' 1,3:has:value=2,0 1,3:barrier 1,3:finalize
  run nacre -o fault-tolerance.signal=SIGUSR1 -o exit-report=off
  [ "$status" -eq 137 ]
  [ "$output" = "nacre-shell[0]: warn: pmi: rank 2 on node0 is lost; the others go on
nacre-shell[0]: warn: pmi: rank 0 on node0 is lost; the others go on" ]
}

# bats test_tags=long
@test "nobody is lost before anybody is, and a signal that was not asked for is not sent" {
  clients 2 init 'cmd=get kvsname=%k key=PMI_dead_processes' has:value= lacks:value=0 barrier 0:kill 1:barrier 1:finalize
  run nacre -o fault-tolerance
  [ "$status" -eq 137 ]
}

@test "one that ends without init while the others wait in a barrier ends the job; they do not go on without it" {
  clients 3 1:wait:ready.0 1:wait:ready.2 1:exit:4 init touch:ready.%r barrier finalize
  run nacre
  ends_with 4 "rank 1 on node0 exited with code 4 without PMI init, and the others wait for it in a barrier; the job ends"
  rm ready.*
  clients 3 1:wait:ready.0 1:wait:ready.2 1:close 1:wait:never init touch:ready.%r barrier finalize
  run nacre
  ends_with 1 "rank 1 on node0 has closed its connection without PMI init, and the others wait for it in a barrier; the job ends"
}

@test "a task that closes its connection and goes on has left" {
  clients 2 init barrier 1:close 1:wait:never barrier
  run nacre
  ends_with 1 "rank 1 on node0 has closed its connection without PMI finalize; the job ends"
}

# bats test_tags=long
@test "PMI_Abort is honoured with fault-tolerance too" {
  clients 3 init barrier 1:kill barrier '0:send:cmd=abort exitcode=5\n' barrier barrier
  run nacre -o fault-tolerance
  ends_with 5 "rank 0 on node0 called PMI_Abort with code 5"
}

@test "a job that does not use PMI may lose a task" {
  prepare 2 sh -c '[ "$FLUX_TASK_RANK" = 1 ] && kill -9 $$; exit 0'
  run nacre -o exit-report=line
  [ "$status" -eq 137 ]
  [ "$output" = "nacre-shell[0]: error: task 1 on node0: killed by SIGKILL" ]
}

# ---- doctors -------------------------------------------------------------------------------

# bats test_tags=long
@test "SIGUSR2 asks for a roll call: who is in a barrier, who elsewhere, equal ones in a line" {
  clients 4 init touch:ready.%r 0,1,3:send:cmd=barrier_in\\n 2:wait:go 2:send:cmd=barrier_in\\n read finalize
  "${nacre[@]}" 2>err &
  pid=$!
  for rank in 0 1 2 3; do
    wait_until test -e "ready.$rank"
  done
  until grep -q "0-1,3: in PMI barrier 1" err; do
    kill -USR2 "$pid"
    sleep 0.1
  done
  touch go
  wait "$pid"
  grep -q "pmi: roll call of 4 tasks (SIGUSR2):$" err
  grep -Eq "  2: after PMI get_my_kvsname: (python3|pmi_client) (sleeps|runs)" err
}

# bats test_tags=long
@test "a barrier that lasts is reported, and goes on" {
  clients 2 init 0:barrier 1:wait:go 1:barrier finalize
  "${nacre[@]}" -o pmi.hang-report=0.2s 2>err &
  pid=$!
  until grep -q "roll call of 2 tasks (a barrier has lasted 200ms):" err; do sleep 0.2; done
  touch go
  wait "$pid"
  grep -q "  0: in PMI barrier 1" err
}

@test "SIGUSR2 does not hurt a job without PMI" {
  prepare 2 sh -c 'echo x >started; until [ -e go ]; do sleep 0.1; done'
  "${nacre[@]}" -o pmi=off 2>err &
  pid=$!
  wait_until test -e started
  kill -USR2 "$pid"
  until grep -q "roll call of 2 tasks" err; do sleep 0.01; done
  touch go
  wait "$pid"
}

@test "pmi.explain tells who has spoken what" {
  clients 3 init barrier barrier 0,1:finalize 0:touch:done
  run nacre -o pmi.explain -o fault-tolerance
  [ "$status" -eq 0 ]
  [[ $output == *"pmi: 0-1: PMI-1, 2 barriers, finalized; no MPI library seen"* ]]
  [[ $output == *"pmi: 2: PMI-1, 2 barriers, not finalized; no MPI library seen"* ]]
}

@test "pmi=pmix without its plugin is an error that says what is looked for" {
  clients 1 init finalize
  echo 'plugin.searchpath = "/nowhere"' >rc.lua
  run nacre --initrc=rc.lua -o pmi=simple,pmix
  fails_with 1 "pmi=pmix: " "pmi/pmix.so"
}

# bats test_tags=long
@test "fault-tolerance: who asks for the dead is told of all that have gone by then" {
  clients 2 init touch:ready.%r 0:wait:go '0:send:cmd=get kvsname=%k key=PMI_dead_processes\n' 0:touch:sent 1:wait:sent 1:kill \
    0:read 0:has:value=1 0:finalize
  "${nacre[@]}" -o fault-tolerance -o exit-report=off >out 2>&1 &
  wait_until test -e ready.0 -a -e ready.1
  # The request and the other task's end are both there when the shell goes on.
  kill -STOP $!
  touch go
  until pgrep -P $! -r Z >/dev/null; do sleep 0.2; done
  kill -CONT $!
  wait $! || status=$?
  [ "$status" -eq 137 ]
  [ "$(cat out)" = "nacre-shell[0]: warn: pmi: rank 1 on node0 is lost; the others go on" ]
}

# bats test_tags=long
@test "nobody is said to go on in a job that is being ended" {
  clients 3 init barrier '1:send:cmd=abort exitcode=4\n' end
  run nacre -o fault-tolerance
  [ "$status" -eq 4 ]
  [[ $output != *"go on"* ]] || { echo "$output"; return 1; }
}
