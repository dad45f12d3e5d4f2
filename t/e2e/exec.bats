#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre exec: commands beside the tasks of a job that runs.
load control.bash

exec_() { "$front" exec "$@"; }

end_job() {
  "$front" kill last
  ends_with 143
}

@test "a job of one shell: output, exit code, environment, and it is no task" {
  start_job 1 2 'exec sleep 76581'
  run --separate-stderr exec_ sh -c 'echo out; echo err >&2; exit 7'
  [ "$status" -eq 7 ]
  [ "$output" = out ]
  [ "${stderr_lines[0]}" = err ]
  [ "${stderr_lines[1]}" = "nacre exec: node0: exited with code 7" ]
  run --separate-stderr exec_ "$id" sh -c 'echo $FLUX_JOB_SIZE $FLUX_TASK_RANK.'
  [ "$status$output" = "02 ." ]
  [ "$("$front" ps -q | wc -l)" -eq 2 ]
  end_job
  [ "$("$front" report last --json | jq -c '.end.exits')" = '[{"count":2,"ranks":"0-1","record":"s15"}]' ]
}

@test "three shells: once on each, labelled by host, and by all options of where" {
  start_job 3 2 'exec sleep 76581'
  [ "$(exec_ sh -c 'echo $FLUX_JOB_SIZE' | sort)" = $'node0: 6\nnode1: 6\nnode2: 6' ]
  [ "$(exec_ -N echo a | sort | uniq -c | tr -s ' ')" = " 3 a" ]
  [ "$(exec_ -w 'node[1-2]' echo a | sort)" = $'node1: a\nnode2: a' ]
  [ "$(exec_ -x node1 echo a | sort)" = $'node0: a\nnode2: a' ]
  [ "$(exec_ -w node1 echo a)" = a ]
  [ "$(exec_ -l -w node1 echo a)" = "node1: a" ]
  [ "$(exec_ --shells=0,2 echo a | sort)" = $'node0: a\nnode2: a' ]
  [ "$(exec_ "$id" -- echo -n a | sort | tr -d '\n')" = "node0: anode1: anode2: a" ]
  [ "$(exec_ sh -- true | wc -c)" -eq 0 ] # sh is the job's name
  run --separate-stderr exec_ -w node7 true
  [ "$status" -eq 1 ]
  [ "$stderr" = "nacre exec: hosts: the job does not run on 'node7': it has node[0-2]" ]
  run --separate-stderr exec_ -r 6 true
  [ "$status" -eq 1 ]
  [[ $stderr == *"no rank 6: the job has 0-5"* ]]
  for wrong in "-b -L true" "--exit-policy=most true" "-u soon true" "--no-such true" "-i -d true" ""; do
    # shellcheck disable=SC2086
    run exec_ $wrong
    [ "$status" -eq 2 ]
  done
  end_job
}

# bats test_tags=long
@test "beside tasks: their environment, directory and cpus" {
  write_nodes 2 2
  write_jobspec 4 sh -c 'exec sleep 76581'
  cpus=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
  launch -R R.json -o cpu-affinity="map:$cpus" --local=2 >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  "$front" jobs --json | jq .pid >leader
  run --separate-stderr exec_ -r 1,2 sh -c 'echo $FLUX_TASK_RANK $FLUX_TASK_LOCAL_ID $(pwd) $(taskset -cp $$ | sed "s/.*: //") ${PMI_FD-no}'
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = "1: 1 1 $PWD $cpus no"$'\n'"2: 2 0 $PWD $cpus no" ]
  task=$(exec_ -r 3 sh -c 'echo $NACRE_TASK_PID')
  [ "$task" = "$("$front" ps --json | jq 'select(.rank == 3).pid')" ]
  [ "$(exec_ -r 3 --cwd=/ --env=A=b --env=FLUX_TASK_RANK=x sh -c 'echo $A $FLUX_TASK_RANK $(pwd)')" = "b x /" ]
  end_job
}

# bats test_tags=long
@test "equal outputs are folded at the end, and equal lines while they come" {
  start_job 4 1 'exec sleep 76581'
  rule=---------------
  run exec_ -b sh -c 'case $NACRE_TEST in *) [ $FLUX_JOB_SIZE = 4 ] && echo a; echo b;; esac'
  [ "$output" = "$rule"$'\nnode[0-3] (4)\n'"$rule"$'\na\nb' ]
  run exec_ -r 0-3 -b sh -c 'echo $((FLUX_TASK_RANK % 3 == 0))'
  [ "$output" = "$rule"$'\n[0,3] (2)\n'"$rule"$'\n1\n'"$rule"$'\n[1-2] (2)\n'"$rule"$'\n0' ]
  run exec_ -L sh -c 'echo a; echo b'
  [ "$output" = $'node[0-3]: a\nnode[0-3]: b' ]
  run exec_ --json -w node2 sh -c 'echo a; exit 3'
  [ "$status" -eq 3 ]
  [ "$(jq -c '[.name, .context.host, .context.stream, .context.data, .context.record]' <<<"$output")" = \
    $'["output","node2","stdout","a\\n",null]\n["exits","node2",null,null,"x3"]' ]
  end_job
}

@test "a command that fails: on the leader, an inner shell and a leaf; the code by the policy" {
  start_job 4 1 'exec sleep 76581' --arity=2
  for shell in 0 1 3; do
    run --separate-stderr exec_ -r 0-3 sh -c "[ \$FLUX_TASK_RANK != $shell ] || exit 5"
    [ "$status" -eq 5 ]
    [ "$stderr" = "nacre exec: $shell: exited with code 5" ]
    run exec_ -q -r 0-3 --exit-policy=all sh -c "[ \$FLUX_TASK_RANK != $shell ] || exit 5"
    [ "$status" -eq 1 ]
  done
  run exec_ -q -S -r 0-3 sh -c 'exit $FLUX_TASK_RANK'
  [ "$status" -eq 3 ]
  run --separate-stderr exec_ -r 1-3 sh -c 'kill -9 $$'
  [ "$status" -eq 137 ]
  [ "$stderr" = "nacre exec: [1-3]: killed by SIGKILL" ]
  run -127 --separate-stderr exec_ no-such-command
  [ "$status" -eq 127 ]
  [[ $stderr == "nacre exec: node[0-3]: no-such-command: No such file or directory (PATH: "* ]]
  run --separate-stderr exec_ -w node3 /
  [ "$status" -eq 126 ]
  [[ $stderr == "nacre exec: node3: /: Permission denied"* ]]
  end_job
}

@test "all end at the first failure, when the time is over, and on Ctrl-C" {
  start_job 3 1 'exec sleep 76581'
  run --separate-stderr exec_ -k -r 0-2 sh -c '[ $FLUX_TASK_RANK != 1 ] || exit 4; exec sleep 76582'
  [ "$status" -eq 4 ]
  grep -x "nacre exec: 1: exited with code 4" <<<"$stderr"
  grep -x "nacre exec: \[0,2]: ended: killed by SIGTERM" <<<"$stderr"
  run --separate-stderr exec_ -u 0.1s sleep 76582
  [ "$status" -eq 124 ]
  [ "$stderr" = "nacre exec: node[0-2]: over the time limit: killed by SIGTERM" ]
  env --default-signal=INT "$front" exec sh -c 'echo up; exec sleep 76582' >up 2>said &
  clients=$!
  lines_come up 3
  kill -INT "$clients"
  code=0
  wait "$clients" || code=$?
  [ "$code" -eq 130 ]
  nothing_left "sleep 7658[2]"
  end_job
}

# bats test_tags=long
@test "a client that is killed leaves nothing, not even what has left its process group" {
  start_job 3 1 'exec sleep 76581'
  env --default-signal=INT "$front" exec sh -c 'trap "" TERM; setsid sleep 76582 & echo up; sleep 76582; sleep 76582' >up 2>said &
  clients=$!
  lines_come up 3
  kill -KILL "$clients"
  wait "$clients" || :
  nothing_left "sleep 7658[2]"
  [ "$(exec_ echo a | wc -l)" -eq 3 ]
  end_job
}

# bats test_tags=long
@test "a job that ends takes what runs beside it with it, and its exit code is its own" {
  start_job 3 1 'exec sleep 76581'
  env --default-signal=INT "$front" exec sh -c 'echo up; exec sleep 76582' >up 2>said &
  clients=$!
  lines_come up 3
  "$front" kill last
  code=0
  wait "$clients" || code=$?
  [ "$code" -eq 143 ]
  [ "$(<said)" = "nacre exec: node[0-2]: killed by SIGTERM" ]
  ends_with 143
  nothing_left "sleep 7658[2]"
}

# bats test_tags=long
@test "tasks of one node have ended, others run: a command still runs there" {
  start_job 2 1 '[ $FLUX_TASK_RANK = 0 ] && exec sleep 76581'
  sleep_until() { [ "$("$front" ps -q | wc -l)" -eq 1 ]; }
  wait_until sleep_until
  [ "$(exec_ -w node1 echo a)" = a ]
  end_job
}

# bats test_tags=long
@test "40 at once" {
  start_job 3 1 'exec sleep 76581'
  for ((i = 0; i < 40; ++i)); do
    "$front" exec sh -c "echo $i; exit $((i % 3))" >"out.$i" 2>/dev/null &
    pids[i]=$!
  done
  for ((i = 0; i < 40; ++i)); do
    code=0
    wait "${pids[i]}" || code=$?
    [ "$code" -eq $((i % 3)) ]
    [ "$(sort "out.$i")" = "node0: $i"$'\n'"node1: $i"$'\n'"node2: $i" ]
  done
  end_job
}

# bats test_tags=long
@test "64 run beside a job, and one more is refused" {
  start_job 1 1 'exec sleep 76581'
  for ((i = 0; i < 64; ++i)); do
    if ((i > 0 && i % 8 == 0)); then wait "${pids[@]}"; fi
    "$front" exec -d sleep 76582 &
    pids[i % 8]=$!
  done
  wait "${pids[@]}"
  run --separate-stderr exec_ true
  [ "$status" -eq 1 ]
  [[ $stderr == "nacre exec: 64 commands run beside this job, which is the limit: "* ]]
  [ "$(pgrep -fc 'sleep 7658[2]')" -eq 64 ]
  end_job
  nothing_left "sleep 7658[2]"
}

# bats test_tags=long
@test "input goes to all" {
  start_job 3 1 'exec sleep 76581'
  head -c 3000000 /dev/urandom >data
  sum=$(sha256sum <data)
  [ "$(exec_ -i sha256sum <data | sort)" = "node0: $sum"$'\n'"node1: $sum"$'\n'"node2: $sum" ]
  [ "$(exec_ -i -w node1 sh -c 'exec <&-; echo done' <data)" = "done" ]
  [ "$(exec_ -w node1 wc -c <data)" = 0 ]
  end_job
}

# bats test_tags=long
@test "50 MB for a slow reader: the job's own output goes on, all comes, and the leader holds little" {
  start_job 3 1 'while [ ! -e go ]; do sleep 0.2; done; seq 200000; exec sleep 76581'
  mkfifo slow
  env --default-signal=INT "$front" exec -N -w node2 head -c 50000000 /dev/zero >slow 2>said &
  clients=$!
  exec 7<slow
  head -c 1000 <&7 >/dev/null
  before=$(awk '/VmRSS/ {print $2}' "/proc/$(<leader)/status")
  touch go
  lines_come out 600000
  after=$(awk '/VmRSS/ {print $2}' "/proc/$(<leader)/status")
  echo "leader: $before kB, then $after kB"
  [ $((after - before)) -lt 40000 ]
  [ "$(wc -c <&7)" -ge 49900000 ]
  exec 7<&-
  wait "$clients"
  [ "$("$front" ps -q | wc -l)" -eq 3 ]
  end_job
}

# bats test_tags=long
@test "a shell is lost meanwhile: it is named, and nothing runs elsewhere" {
  start_job 3 1 'exec sleep 76581' -o tolerate-loss
  env --default-signal=INT "$front" exec sh -c 'echo up; [ $NACRE_X ] || exec sleep 76582' >up 2>said &
  clients=$!
  lines_come up 3
  kill -KILL "$(pgrep -f "nacre-shell: $id (rank )?2/3")"
  lost_said() { [ "$(exec_ true 2>&1)" = "nacre exec: not on node2, which the job has lost" ]; }
  wait_until lost_said
  run --separate-stderr exec_ -w 'node[1-2]' touch ran
  [ "$status" -eq 1 ]
  [[ $stderr == "nacre exec: nothing is started, as node2 is lost: leave it out with -x" ]]
  [ ! -e ran ]
  run --separate-stderr exec_ -w 'node[1-2]' -x node2 touch ran
  [ "$status" -eq 0 ]
  [ -e ran ]
  kill -INT "$clients"
  wait "$clients" || :
  grep -x "nacre exec: node2: lost" said
  end_job
}

@test "what is no idset or hostlist is refused before a job is looked for" {
  refuses() { # what is wrong, options
    run "$NACRE_BUILD_DIR/nacre" exec "${@:2}" true
    [[ $status == 2 && ${lines[0]} == "nacre exec: $1: "* ]] || { echo "exit code $status: $output"; return 1; }
  }
  refuses "--shells: idset '-1'" --shells=-1
  refuses "--ranks: idset 'x'" -r x
  refuses "--hosts: hostlist: '['" -w '['
  refuses "--exclude: hostlist: '['" -x '['
  run "$NACRE_BUILD_DIR/nacre" exec -l=3 true
  [[ $status == 2 && ${lines[0]} == "nacre exec: '=3' stands behind a short option that takes no value" ]]
}
