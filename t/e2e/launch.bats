#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre launch: what it starts, and what it says to it. A stand-in takes the place of nacre-shell.
load lib.bash

stand_in=$NACRE_SOURCE_DIR/t/e2e/launch_shell.py
host=$(hostname)

# The manager of an allocation in which the tests run must not count.
no_manager=(env -u SLURM_JOB_NODELIST -u SLURM_NODELIST -u PBS_NODEFILE -u LSB_DJOB_HOSTFILE -u LSB_MCPU_HOSTS -u LSB_HOSTS
  -u OAR_NODEFILE -u PE_HOSTFILE -u COBALT_NODEFILE)

launcher=("${no_manager[@]}" "$NACRE_BUILD_DIR/nacre" launch)
launch() { "${launcher[@]}" --shell="${shell:-$stand_in}" -j "${jobspec:-jobspec.json}" "$@"; }

# The member $1 of the record that the stand-in has printed.
record() { sed -n 's/^record //p' <<<"$output" | jq -c "$1"; }

# Waits until the file $1 has a line $2.
line_comes() {
  for ((i = 0; i < 1500; ++i)); do
    grep -qxF -- "$2" "$1" 2>/dev/null && return
    sleep 0.02
  done
  echo "no line '$2' in $1, which has:"
  cat "$1"
  return 1
}

@test "shell 0 gets the secret and the record on its input, and the exit code is its own" {
  write_jobspec 2 true
  run launch --local=3 --arity=2 --timeout=7 -o verbose=2 -o 'x=a b' -- --initrc 'a file' <<<'quit 3'
  [ "$status" -eq 3 ]
  [ "${lines[0]}" = "arguments --initrc a file --boot=hosts" ]
  [ "${lines[1]}" = "secret of 64 digits" ]
  [[ $output != *"on the command line"* ]]
  [ "$(record '[.rank,.size,.arity,.timeout]')" = '[0,3,2,7]' ] || [ "$(record '[.rank,.size,.arity,.timeout]')" = '[0,3,2,7.0]' ]
  [ "$(record .options)" = '["verbose=2","x=a b","exit-timeout.after=failure"]' ]
  [ "$(record .agent)" = '[]' ]
  [ "$(record .hosts)" = '"localhost,localhost,localhost"' ]
  [ "$(record .shell)" = "$(jq -nc --arg s "$stand_in" '[$s, "--initrc", "a file"]')" ]
  [ "$(record .addresses)" = '{}' ]
  [ "$(record .R)" = null ]
  [ "$(record '.jobspec | fromjson' | jq -cS .)" = "$(jq -cS --arg cwd "$PWD" '.attributes.system.cwd = $cwd' jobspec.json)" ]
}

@test "R goes along, and has a node for each shell" {
  prepare 1 true
  run launch --local=1 -R R.json <<<'quit 0'
  [ "$status" -eq 0 ]
  [ "$(record '.R | fromjson')" = "$(jq -c . R.json)" ]
  run launch --local=2 -R R.json
  fails_with 1 "nacre launch: R.json: 1 nodes, but there are 2 shells"
}

@test "standard input is passed on, and its end" {
  write_jobspec 1 true
  { seq -f %0200g 2000; echo 'quit 0'; } >input
  run launch --local=1 <input
  [ "$status" -eq 0 ]
  sed -n 's/^input //p' <<<"$output" | cmp - input
  output=""
  mkfifo gate
  exec 7<>gate
  "${launcher[@]}" --shell="$stand_in" -j jobspec.json --local=1 <gate >out 7>&- &
  pid=$!
  echo one >&7
  line_comes out "input one"
  exec 7>&-
  line_comes out "end of input"
  kill -TERM "$pid"
  line_comes out 'frame {"signal":15}'
  kill -KILL "$pid"
  line_comes out "the launcher is gone"
}

@test "a jobspec on standard input leaves none for the tasks" {
  write_jobspec 1 true
  "${launcher[@]}" --shell="$stand_in" -j - --local=1 <jobspec.json >out &
  pid=$!
  line_comes out "end of input"
  run sed -n 's/^record //p' out
  [ "$(jq -cS '.jobspec | fromjson' <<<"$output")" = "$(jq -cS --arg cwd "$PWD" '.attributes.system.cwd = $cwd' jobspec.json)" ]
  kill -KILL "$pid"
  line_comes out "the launcher is gone"
}

@test "signals are passed on; two of Ctrl-C end the job" {
  write_jobspec 1 true
  mkfifo gate
  exec 7<>gate
  # Starts it as at a terminal: a background process would ignore SIGINT.
  env --default-signal=INT "${launcher[@]}" --shell="$stand_in" -j jobspec.json --local=1 \
    <gate >out 2>err 7>&- &
  pid=$!
  line_comes out "secret of 64 digits"
  for name in HUP QUIT USR1 USR2 TERM; do
    kill -"$name" "$pid"
    line_comes out "frame {\"signal\":$(kill -l "$name")}"
  done
  kill -INT "$pid"
  line_comes out 'frame {"signal":2}'
  # The second counts only if it comes soon, so on a slow machine another is needed.
  for ((i = 0; i < 100; ++i)); do
    grep -q twice err && break
    kill -INT "$pid" 2>/dev/null || break
    sleep 0.1
  done
  wait "$pid" || code=$?
  [ "$code" -eq 130 ]
  [ "$(cat err)" = "nacre launch: interrupted twice: ending the job" ]
  line_comes out "the launcher is gone"
}

# Starts the launcher with a stand-in that reads its input; its process is $pid, its output goes to out and err. The
# former files are removed first, as they could be taken for the new ones.
begin() {
  write_jobspec 1 true
  rm -f gate out err
  mkfifo gate
  exec 7<>gate
  "${launcher[@]}" --shell="$stand_in" -j jobspec.json --local=1 <gate >out 2>err 7>&- 3>&- &
  pid=$!
  line_comes out "secret of 64 digits"
}

# As begin, through an agent.
begin_through_agent() {
  write_jobspec 1 true
  printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >agent
  chmod +x agent
  rm -f gate out err
  mkfifo gate
  exec 7<>gate
  "${launcher[@]}" --shell="$stand_in" -j jobspec.json --hosts=no-such-host --agent="$PWD/agent" <gate >out 2>err 7>&- 3>&- &
  pid=$!
  line_comes out "secret of 64 digits"
}

# The launcher has ended with code $1, and printed one line, the other arguments.
ends_with() {
  local code=0
  wait "$pid" || code=$?
  [ "$code" -eq "$1" ] || { echo "exit code $code, not $1"; cat err; return 1; }
  [ "$(cat err)" = "$2" ] || { cat err; return 1; }
}

# bats test_tags=long
@test "SIGTERM twice ends the job, with 143, but not where timeout sends it to a process and its group" {
  begin
  kill -TERM "$pid"
  kill -TERM "$pid"
  line_comes out 'frame {"signal":15}'
  sleep 1
  kill -0 "$pid"
  kill -TERM "$pid"
  ends_with 143 "nacre launch: terminated twice: ending the job"
  line_comes out 'frame {"end":15}'
  line_comes out "the launcher is gone"
}

# Nothing of an agent that was started below this folder is left.
no_agent() { ! pgrep -f "$PWD/agent" >/dev/null; }

# bats test_tags=long
@test "a signal ends an agent that cannot reach its host, with 128 + N" {
  write_jobspec 1 true
  printf '#!/bin/sh\ntouch %q/began\nexec sleep 98765\n' "$PWD" >agent
  chmod +x agent
  for name in INT TERM HUP QUIT; do
    rm -f began
    "${launcher[@]}" --shell="$stand_in" -j jobspec.json --hosts=no-such-host --agent="$PWD/agent" 2>err 3>&- </dev/null &
    pid=$!
    wait_until test -e began
    kill -"$name" "$pid"
    ends_with $((128 + $(kill -l "$name"))) ""
  done
  # One that does not end by itself.
  printf '#!/bin/sh\ntrap "" TERM\ntouch %q/began\nwhile :; do sleep 1; done\n' "$PWD" >agent
  rm began
  "${launcher[@]}" --shell="$stand_in" -j jobspec.json --hosts=no-such-host --agent="$PWD/agent" 2>err 3>&- </dev/null &
  pid=$!
  wait_until test -e began
  kill -TERM "$pid"
  ends_with 143 ""
  wait_until no_agent
}

# bats test_tags=long
@test "a signal ends a job whose leader takes nothing any more" {
  begin
  leader=$(pgrep -P "$pid")
  kill -STOP "$leader"
  kill -TERM "$pid"
  code=0
  wait "$pid" || code=$?
  [ "$code" -eq 143 ]
  grep -qxF "nacre launch: SIGTERM was not taken within 10 s: ending the job" err
  wait_until gone "$leader"
}

gone() { ! kill -0 "$1" 2>/dev/null; }

@test "SIGHUP is not taken where nohup has ignored it" {
  launcher=(nohup "${launcher[@]}")
  begin
  kill -HUP "$pid"
  kill -USR1 "$pid"
  line_comes out 'frame {"signal":10}'
  run ! grep -q 'frame {"signal":1}' out
  kill -KILL "$pid"
}

# bats test_tags=long
@test "a shell 0 that is killed is named, and gives 128 + N" {
  for name in KILL TERM SEGV; do
    begin
    kill -"$name" "$(pgrep -P "$pid")"
    ends_with $((128 + $(kill -l "$name"))) "nacre launch: shell 0 on localhost was killed by SIG$name"
  done
  begin_through_agent
  kill -KILL "$(pgrep -P "$pid")"
  ends_with 137 "nacre launch: $PWD/agent, which has started shell 0 on no-such-host, was killed by SIGKILL"
}

# bats test_tags=long
@test "a shell 0 that stands still is named after 10 s, and that it goes on" {
  begin
  leader=$(pgrep -P "$pid")
  kill -STOP "$leader"
  wait_until grep -qxE "nacre launch: shell 0 on localhost has been stopped by a signal for 1[0-9] s" err
  kill -CONT "$leader"
  wait_until grep -qE "^nacre launch: shell 0 on localhost goes on, after 1[0-9] s" err
  [ "$(wc -l <err)" -eq 2 ]
  echo "quit 0" >&7
  wait "$pid"
}

@test "hosts are those of the list, the file, or the manager" {
  write_jobspec 1 true
  run launch --hosts="$host,n[1-3]" <<<'quit 0'
  [ "$(record .hosts)" = "$(jq -n --arg h "$host,n[1-3]" '$h')" ]
  [ "$(record .agent)" = '["ssh","-x","-T","-oBatchMode=yes","-oConnectTimeout=10","-oServerAliveInterval=10","-oServerAliveCountMax=3"]' ]
  printf '%s\nn7 slots=2\nn8\n' "$host" >hosts
  run launch --hostfile=hosts -n 2 --agent=rsh --agent-arg=-l --agent-arg=me <<<'quit 0'
  [ "$(record .hosts)" = "$(jq -n --arg h "$host,n7" '$h')" ]
  [ "$(record .agent)" = '["rsh","-l","me"]' ]
  SLURM_JOB_NODELIST="$host,n[4-5]" run "$NACRE_BUILD_DIR/nacre" launch --shell="$stand_in" -j jobspec.json <<<'quit 0'
  [ "$(record .size)" = 3 ]
  run launch --hosts=a,b -n 3
  fails_with 1 "nacre launch: --nodes: 3, but there are 2 hosts"
  run launch
  fails_with 1 "nacre launch: no allocation is known here" --hosts --local --srun
}

@test "a leader on another host is started by the agent, which reads the words as ssh does" {
  write_jobspec 1 true
  cat >agent <<'EOF'
#!/bin/sh
echo "agent for $1 $2"
shift 2
exec sh -c "$*"
EOF
  chmod +x agent
  cp "$stand_in" "a shell"
  shell="$PWD/a shell" run launch --hosts=no-such-host --agent="$PWD/agent" --agent-arg=-q -- --initrc="it's" <<<'quit 4'
  [ "$status" -eq 4 ]
  [ "${lines[0]}" = "agent for -q no-such-host" ]
  [ "${lines[1]}" = "arguments --initrc=it's --boot=hosts" ]
}

@test "an agent that fails is said in one line, and one that is not there too" {
  write_jobspec 1 true
  printf '#!/bin/sh\nexit 255\n' >agent
  chmod +x agent
  run launch --hosts=no-such-host --agent="$PWD/agent"
  fails_with 1 "nacre launch: no-such-host: $PWD/agent has failed (exit code 255)"
  run launch --hosts=no-such-host --agent="$PWD/none"
  fails_with 1 "nacre launch: no-such-host: $PWD/none: No such file or directory"
  run launch --hosts=no-such-host --agent="ssh -p 22"
  [ "$status" -eq 2 ]
  [ "${lines[0]}" = "nacre launch: --agent: expected a command alone, got 'ssh -p 22': --agent-arg=ARG is for each of its arguments" ]
  shell=$PWD/none run launch --local=1
  fails_with 1 "nacre launch: localhost: $PWD/none: No such file or directory"
}

@test "with --srun, srun starts the shells; what is asked for besides comes last" {
  write_jobspec 1 true
  mkdir bin
  cat >bin/srun <<'EOF'
#!/bin/sh
echo "srun $*"
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
EOF
  chmod +x bin/srun
  PATH=$PWD/bin:$PATH run launch --srun -n 4 --srun-arg=--partition=p <<<'quit 5'
  [ "$status" -eq 5 ]
  [ "${lines[0]}" = "srun --mpi=none --ntasks-per-node=1 --nodes=4 --ntasks=4 --kill-on-bad-exit=0 --wait=0 --no-kill --partition=p $stand_in --boot=slurm" ]
  [ "$(record '[.size,.rank,.hosts]')" = '[4,null,""]' ]
  SLURM_JOB_NODELIST="n[4-6]" PATH=$PWD/bin:$PATH run "$NACRE_BUILD_DIR/nacre" launch --shell="$stand_in" -j jobspec.json --srun <<<'quit 0'
  [ "$(record .size)" = 3 ]
}

@test "what is wrong is said before anything is started" {
  run "$NACRE_BUILD_DIR/nacre" launch --local=1
  [ "$status" -eq 2 ]
  [[ $output == *"expected --jobspec=FILE"* ]]
  run launch --local=1
  fails_with 1 "nacre launch: jobspec.json: No such file or directory"
  echo '{"version": 7}' >jobspec.json
  run launch --local=1
  fails_with 1 "nacre launch: jobspec.json: " version
  write_jobspec 1 true
  run launch --local=2 --hosts=a
  [ "$status" -eq 2 ]
  run launch --local=1 polish
  fails_with 1 "'polish' is not known here; options of nacre-shell go behind --"
  run launch --hosts='n[1-'
  fails_with 1 "nacre launch: --hosts: "
  jobspec=- run launch --local=1 -R -
  fails_with 1 "nacre launch: -j and -R cannot both be standard input"
}

@test "a job of one shell that cannot begin says why" {
  write_jobspec 1 true
  shell=$NACRE_SHELL run launch --local=1 -o kill-timeout=never
  fails_with 1 "fatal: " "kill-timeout"
}

@test "in an instance of Flux its brokers start the shells, on the hosts of its R; tasks are as many as its slots" {
  mkdir bin
  cat >bin/flux <<'END'
#!/bin/sh
echo "$*" >>"$WORK/calls"
case "$1 $2" in
"kvs get") [ ! -e "$WORK/down" ] || { echo "flux-kvs: no broker" >&2; exit 1; }; cat "$WORK/flux_R.json" ;;
"overlay lookup") echo "${3#n}" ;;
"exec -q")
  [ "$3 $4 $5 $7 $8" = "-d / -r sh -c" ] || exit 99
  cd / && FLUX_URI=local:///broker-$6 exec sh -c "$9" ;;
*) exit 98 ;;
esac
END
  chmod +x bin/flux
  export WORK=$work PATH=$work/bin:$PATH FLUX_URI=local:///broker-0 FLUX_ENCLOSING_ID=fA SLURM_JOB_NODELIST=other
  jq -n '{version: 1, execution: {R_lite: [{rank: "0-2", children: {core: "0-1"}}], nodelist: ["n[0-2]"], nslots: 3, starttime: 0, expiration: 0}}' >flux_R.json
  flux_run() { "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" "$@"; }
  # shellcheck disable=SC2016 # for the tasks
  task=(sh -c 'echo "$FLUX_TASK_RANK of $FLUX_JOB_SIZE: $FLUX_URI"')
  run flux_run "${task[@]}"
  [ "$(sort <<<"$output")" = "0 of 3: local:///broker-0
1 of 3: local:///broker-1
2 of 3: local:///broker-2" ]
  grep -qx "overlay lookup n2" calls
  run flux_run -N 2 -n 4 "${task[@]}"
  [ "$(sort <<<"$output" | sed 's/.*://' | paste -sd' ')" = "///broker-0 ///broker-0 ///broker-1 ///broker-1" ] || { echo "$output"; return 1; }
  # A task of a job of the instance has no such hosts, and `flux` is not called.
  rm calls
  FLUX_JOB_ID=fB run flux_run --dry-run -n 1 true
  run flux_run --local=1 -n 1 true
  [ ! -e calls ]
  # The host of two brokers gets two shells.
  sed -i "s/n\[0-2\]/$(uname -n),$(uname -n)/; s/0-2/0-1/" flux_R.json
  run flux_run -n 4 sh -c 'echo $FLUX_JOB_NNODES'
  [ "$output" = $'2\n2\n2\n2' ]
  touch down
  run flux_run true
  [ "$status" -eq 1 ]
  [[ $output == *"no broker"*"FLUX_URI: flux kvs get resource.R: exited with code 1; a job that is not to be in the instance: --local=N or --hosts=LIST"* ]]
}
