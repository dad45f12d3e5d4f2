#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# health: hosts are looked at before tasks start; a bad one is left out, or ends the job.
load control.bash

host=$(uname -n)
run_() { "$front" run --shell="$NACRE_SHELL" "$@"; }
# Prints a check that fails on these shells.
bad_on() { echo "case \" $* \" in *\" \$NACRE_HEALTH_SHELL \"*) echo broken; exit 3;; esac"; }
health() { jq -c '[.health[] | [.shell, .check, .reason, .done, .by]]' report; }

@test "healthy hosts run the job as without, at all numbers of shells, and leave no file behind" {
  mkdir temporary place
  for shells in 1 2 4; do
    TMPDIR=$PWD/temporary run --separate-stderr run_ --local=$shells --health=quick --report=report --cwd=place sh -c 'echo ran'
    [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
    [ "$(sort -u <<<"$output")" = ran ]
    [ -z "$stderr" ] || { echo "$stderr"; return 1; }
    [ "$(jq 'has("health")' report)" = false ]
  done
  [ -z "$(ls -A temporary)$(ls -A place)" ]
}

@test "a bad host ends the job before any task starts, by one line that names it and the reason" {
  run --separate-stderr run_ --local=4 -o health.timeout=1m -o health.command="$(bad_on 2)" --exit-class=host:75 --report=report sh -c 'touch started'
  [ "$status" -eq 75 ]
  [ "$stderr" = "nacre-shell[0]: error: health: $host (shell 2) is bad: command: broken; there is no spare left, so no task is started (with health.on-bad=warn they are all the same)" ] || { echo "$stderr"; return 1; }
  [ ! -e started ]
  [ "$(health)" = '[[2,"command","broken","ended",null]]' ]
  [ "$(jq -r .exit.by report)" = "exit-class host" ]
}

@test "with health.on-bad=warn the tasks start on a bad host all the same" {
  run --separate-stderr run_ --local=3 -l -o health.timeout=1m -o health.command="$(bad_on 0 2)" -o health.on-bad=warn --report=report sh -c 'echo ${NACRE_SHELL_ID#*.}'
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0: 0\n1: 1\n2: 2' ]
  [[ $stderr == *"$host (shell 0) is bad: command: broken; its tasks start all the same (health.on-bad=warn)"*"$host (shell 2) is bad"* ]] || { echo "$stderr"; return 1; }
  [ "$(health)" = '[[0,"command","broken","warned",null],[2,"command","broken","warned",null]]' ]
}

@test "the tasks of bad hosts start on spares, for the first time, with the numbers that they would have had" {
  write_nodes 6 2
  local check row bad words
  check='echo "$FLUX_TASK_RANK ${NACRE_SHELL_ID#*.} $NACRE_TASK_TRY $NACRE_JOB_RESTARTS $FLUX_TASK_LOCAL_ID $FLUX_JOB_NNODES"'
  for row in "1|0 0 1 0 0 4,1 0 1 0 1 4,2 4 1 0 0 4,3 4 1 0 1 4,4 2 1 0 0 4,5 2 1 0 1 4,6 3 1 0 0 4,7 3 1 0 1 4" \
    "0 3|0 4 1 0 0 4,1 4 1 0 1 4,2 1 1 0 0 4,3 1 1 0 1 4,4 2 1 0 0 4,5 2 1 0 1 4,6 5 1 0 0 4,7 5 1 0 1 4" \
    "4 2|0 0 1 0 0 4,1 0 1 0 1 4,2 1 1 0 0 4,3 1 1 0 1 4,4 5 1 0 0 4,5 5 1 0 1 4,6 3 1 0 0 4,7 3 1 0 1 4"; do
    IFS='|' read -r bad words <<<"$row"
    write_jobspec 8 sh -c "$check"
    # shellcheck disable=SC2086
    run --separate-stderr launch -R R.json -o cpu-affinity=off --local=6 --spares=2 --on-lost=replace -o health.timeout=1m -o health.command="$(bad_on $bad)"
    [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
    [ "$(sort <<<"$output" | paste -sd,)" = "$words" ] || { echo "$bad: $output $stderr"; return 1; }
  done
  [[ $stderr == *"health: node2 is bad: command: broken; its tasks start on the spare shell 5 on node5"* ]] || { echo "$stderr"; return 1; }
  [[ $stderr == *"health: node4, a spare, is bad: command: broken; it gets no tasks"* ]] || { echo "$stderr"; return 1; }
}

@test "ranks that speak PMI start on a spare as if they had always been there" {
  write_nodes 4 2
  write_jobspec 6 "$BATS_TEST_DIRNAME/pmi_client" init 'cmd=get kvsname=%k key=PMI_process_mapping' 'has:value=(vector,(0,1,2),(2,1,2),(1,1,2))' \
    barrier 'cmd=put kvsname=%k key=k%r value=v' barrier 'cmd=get kvsname=%k key=k2' has:value=v finalize
  run --separate-stderr launch -R R.json -o cpu-affinity=off --local=4 --spares=1 -o health.timeout=1m -o health.command="$(bad_on 1)"
  echo "$output $stderr"
  [ "$status" -eq 0 ]
}

@test "a spare that was left out gets no tasks later, and its loss does not end the job" {
  rm -f go
  run_ --local=4 -N 2+2 -l --on-lost=replace -o health.timeout=1m -o health.command="$(bad_on 2)" --report=report sh -c \
    'echo $PPID >pid.$$ && mv pid.$$ "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; until [ -e go ]; do sleep 0.1; done; echo ${NACRE_SHELL_ID#*.}' >out 2>err &
  launcher=$!
  wait_until test -e shell.1.1
  wait_until test -e shell.0.1
  wait_until listed
  id=$("$front" jobs -q)
  [ "$("$front" ps --json | jq -c 'select(.spare) | .shell' | paste -sd' ')" = 3 ]
  kill -KILL "$(<shell.1.1)"
  wait_until test -e shell.1.2
  touch go
  ends_with 0
  [ "$(sort out)" = $'0: 0\n1: 3' ] || { cat out err; return 1; }
}

@test "disks, slow checks and checks of the site are named as such" {
  run run_ --local=2 -o health.timeout=3s -o health.command='[ $NACRE_HEALTH_SHELL = 0 ] || exec sleep 100.71' true
  [ "$status" -eq 1 ]
  [[ $output == *"$host (shell 1) is bad: command: took longer than 3s; "* ]] || { echo "$output"; return 1; }
  ! pgrep -u "$(id -u)" -fx "sleep 100.71" || return 1
  cat >rc.lua <<'LUA'
plugin.register { name = "links", handlers = { { topic = "shell.health", fn = function ()
  if shell.info.rank == 1 then error ("ib0 has no link", 0) end
end } } }
LUA
  run run_ --local=2 --health=quick --initrc=rc.lua true
  [ "$status" -eq 1 ]
  [[ $output == *"$host (shell 1) is bad: links: ib0 has no link; "* ]] || { echo "$output"; return 1; }
  mkdir shut
  chmod 500 shut
  [ -w shut ] && return  # root
  run --separate-stderr run_ --local=2 --health=quick --cwd=shut echo ran
  [ "$status" -eq 0 ]
  [[ $stderr == *"shut: Permission denied: so it is on all hosts"* ]] || { echo "$stderr"; return 1; }
  TMPDIR=$PWD/shut run run_ --local=2 --health=quick true
  [ "$status" -eq 1 ]
  [[ $output == *"is bad: disk: $PWD/shut: Permission denied"* ]] || { echo "$output"; return 1; }
}

@test "a signal during the check ends the job" {
  "$front" run --shell="$NACRE_SHELL" --local=2 -o health.command='touch begun.$NACRE_HEALTH_SHELL; exec sleep 100.72' -o health.timeout=1m true >out 2>err &
  launcher=$!
  wait_until test -e begun.0
  wait_until test -e begun.1
  kill -TERM "$launcher"
  ends_with 143
  nothing_left "^sleep 100.72$"
}

# Hosts go bad once there is a file bad.SHELL; a rank fails in its first try once there is a file fail.
goes_bad='[ ! -e "bad.$NACRE_HEALTH_SHELL" ] || { echo worn; exit 1; }'
fails_once='echo "$FLUX_TASK_RANK ${NACRE_SHELL_ID#*.} $NACRE_TASK_TRY"; touch "in.$FLUX_TASK_RANK.$NACRE_TASK_TRY"
  [ "$NACRE_TASK_TRY" -gt 1 ] || { until [ -e fail ]; do sleep 0.05; done; [ "$FLUX_TASK_RANK" != 1 ] || exit 3; sleep "${linger:-0}"; }'
start_to_fail() { # BAD options: the shell whose host goes bad
  local bad=$1
  shift
  rm -f in.* bad.* fail
  run_ -o health.timeout=1m -o health.command="$goes_bad" --report=report "$@" sh -c "$fails_once" >out 2>err &
  launcher=$!
  for rank in 0 1 2; do wait_until test -e "in.$rank.1"; done
  touch "bad.$bad"
  touch fail
}

@test "a host that has gone bad when its task is to start again is replaced as a lost one" {
  start_to_fail 1 --local=4 -N 3+1 --on-lost=replace --restart=on-failure,backoff=0
  ends_with 0
  [ "$(sort out)" = $'0 0 1\n1 1 1\n1 3 3\n2 2 1' ] || { cat out err; return 1; }
  grep -F "health: $host (shell 1) is bad: command: worn; its shell counts as lost, so that its tasks start elsewhere" err
  grep -F "its task 1 starts again on the spare shell 3" err
  [ "$(health)" = '[[1,"command","worn","lost",null]]' ]
}

@test "a spare that has gone bad is not used either, and the job ends if there is no other" {
  start_to_fail 1 --local=4 -N 3+1 --on-lost=replace --restart=on-failure,backoff=0.5
  touch bad.3
  fails
  [ "$(jq -c '[.health[] | [.shell, .done]]' report)" = '[[1,"lost"],[3,"lost"]]' ] || { cat out err report; return 1; }
}

@test "where all start again none does before it is known which hosts are bad, and the others start with the spare" {
  export linger=100.73
  start_to_fail 2 --local=4 -N 3+1 --on-lost=replace --restart=on-failure,scope=job,backoff=0
  ends_with 0
  [ "$(sort out)" = $'0 0 1\n0 0 3\n1 1 1\n1 1 3\n2 2 1\n2 3 3' ] || { cat out err; return 1; }
  grep -F "health: $host (shell 2) is bad: command: worn; its shell counts as lost" err
}

@test "healthy hosts start tasks again as without the check, and a bad one ends the job where nothing replaces it" {
  start_to_fail 7 --local=3 --restart=on-failure,backoff=0
  ends_with 0
  [ "$(sort out)" = $'0 0 1\n1 1 1\n1 1 2\n2 2 1' ] || { cat out err; return 1; }
  start_to_fail 1 --local=3 --restart=on-failure,backoff=0
  fails
  grep -F "health: $host (shell 1) is bad: command: worn; its tasks cannot start again elsewhere without on-lost=replace (with health.on-bad=warn they start there all the same)" err
  linger=100.74 start_to_fail 2 --local=3 --restart=on-failure,scope=job,backoff=0 -o health.on-bad=warn
  ends_with 0
  [ "$(grep -c " 2$" out)" -eq 3 ] || { cat out err; return 1; }
  grep -F "health: $host (shell 2) is bad: command: worn; its tasks start all the same (health.on-bad=warn)" err
}

# Prints a check in which a pair with one of these shells fails.
pair_fails_with() {
  echo "echo \"\$NACRE_HEALTH_ROUND \$NACRE_HEALTH_SHELL \$NACRE_HEALTH_ROLE \$NACRE_HEALTH_PEER\" >>tried
    sleep 1; case \" $* \" in *\" \$NACRE_HEALTH_SHELL \"*) echo no link; exit 1;; esac"
}

@test "hosts are tried in pairs, and who fails with two others is bad, who are not" {
  rm -f tried
  run --separate-stderr run_ --local=6 -N 5+1 -l --health=pairs -o health.timeout=1m -o health.pair-command="$(pair_fails_with 2)" --report=report sh -c 'echo ${NACRE_SHELL_ID#*.}'
  [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
  [ "$(sort <<<"$output" | paste -sd,)" = "0: 0,1: 1,2: 5,3: 3,4: 4" ] || { echo "$output $stderr"; return 1; }
  [ "$(grep -c "^1 " tried)" -eq 6 ] || { cat tried; return 1; }
  # A pair may be slow here, as all hosts are this one; members of failed pairs are tried once more, with good
  # hosts.
  grep -q "^2 2 " tried
  grep -q "^2 3 " tried
  [[ $(health) == "[[2,\"pair\",\"with $host (shell 3): no link, with $host (shell "*"): no link\",\"replaced\",\"$host\"]]" ]] || { cat report; return 1; }
}

@test "a host that is slow in each pair is bad, and of two hosts it cannot be told which is" {
  run --separate-stderr run_ --local=4 --health=pairs -o health.pair-command='sleep 1; [ $NACRE_HEALTH_SHELL != 3 ] || sleep 5' -o health.timeout=60s --report=report true
  [ "$status" -eq 1 ]
  [ "$(jq -c '[.health[] | [.shell, .check, .done]]' report)" = '[[3,"pair","ended"]]' ] || { cat report; return 1; }
  [[ $stderr == *"$host (shell 3) is bad: pair: with $host (shell 2): took "*" s are usual, with $host (shell "* ]] || { echo "$stderr"; return 1; }
  run --separate-stderr run_ --local=2 --health=pairs -o health.timeout=1m -o health.pair-command=false echo ran
  [ "$status" -eq 0 ]
  [ "$output" = $'ran\nran' ]
  [[ $stderr == *"health.pair-command has failed, and which of them is bad cannot be told"* ]] || { echo "$stderr"; return 1; }
}

# R of three nodes with two GPUs each, and a stand-in for nvidia-smi, of which no node has the real one: it prints what is in files here.
use_gpus() {
  write_nodes 3 2
  jq '.execution.R_lite[0].children.gpu = "0-1"' R.json >gpus.json
  mkdir -p tools
  cat >tools/nvidia-smi <<END
#!/bin/sh
cd "$work"
case \$1 in
  --query-gpu=*ecc*) cat errors;;
  --query-gpu=*) [ ! -e lost ] || { cat lost; exit 15; }; cat devices;;
  *) cat processes;;
esac
END
  chmod +x tools/nvidia-smi
  export PATH=$work/tools:$PATH
  printf '0, GPU-a, 0, 0, 4000\n1, GPU-b, 0, 0, 4000\n' >devices
  printf '0, 0\n1, 0\n' >errors
  : >processes
  write_jobspec 3 echo ran
}
gpus_are() { # WORDS: the job ends by them
  run --separate-stderr launch -R gpus.json -o cpu-affinity=off --local=3 --health=quick "${@:2}"
  [ "$status" -eq 1 ] || { echo "$output $stderr"; return 1; }
  [[ $stderr == *"node0 is bad: gpus: $1; node1 is bad: gpus: $1; node2 is bad: gpus: $1; there is no spare left"* ]] || { echo "$stderr"; return 1; }
}

@test "GPUs that are lost, have errors or are used by others make a host bad, and others may still end" {
  use_gpus
  run --separate-stderr launch -R gpus.json -o cpu-affinity=off --local=3 --health=quick
  [ "$status" -eq 0 ]
  [ "$(sort -u <<<"$output")$stderr" = ran ] || { echo "$output $stderr"; return 1; }
  printf '0, GPU-a, 0, 0, 4000\n' >devices
  gpus_are "1 of 2 GPUs is there"
  printf '0, GPU-a, 0, 0, 4000\n1, GPU-b, 0, 0, 4000\n' >devices
  printf '0, 0\n1, 3\n' >errors
  gpus_are "GPU 1 has had 3 memory errors that cannot be corrected"
  printf '0, [N/A]\n1, [N/A]\n' >errors
  echo "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost." >lost
  gpus_are "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost."
  rm lost
  echo "1, GPU-b, 512" >processes
  gpus_are "GPU 1 is used by process 1, which has 512 MiB, and has been for 700ms" -o health.wait=700ms
  launch -R gpus.json -o cpu-affinity=off --local=3 --health=quick -o health.wait=100s >out 2>err &
  launcher=$!
  sleep 1
  : >processes
  ends_with 0
  [ "$(sort -u out)" = ran ]
  # A job without GPUs does not look at them.
  echo "1, GPU-b, 512" >processes
  [ "$(launch -R R.json -o cpu-affinity=off --local=3 --health=quick | sort -u)" = ran ]
}

@test "bad hosts are remembered for later jobs, and nacre report --hosts lists them" {
  [ "$("$front" report --hosts)" = "no job of yours has found a bad host within a week (nacre run --health)" ]
  [ -z "$("$front" report --hosts --json)" ]
  run run_ --local=2 -o health.timeout=1m -o health.command="$(bad_on 1)" true
  [ "$status" -eq 1 ]
  [ "$("$front" report --hosts --json | jq -c '[.host, .check, .reason, (now - .time | . >= 0 and . < 100)]')" = "[\"$host\",\"command\",\"broken\",true]" ]
  run --separate-stderr run_ --local=2 --health=quick echo ran
  [ "$status" -eq 0 ]
  [[ $stderr == "nacre-shell[0]: health: found bad by earlier jobs: $host 0 min ago (command: broken); see nacre report --hosts" ]] || { echo "$stderr"; return 1; }
  run --separate-stderr run_ --local=2 echo ran
  [ -z "$stderr" ]
  run_ --local=3 -o health.timeout=1m -o health.command="$(bad_on 0 1)" -o health.on-bad=warn true 2>/dev/null
  "$front" report --hosts >list
  [ "$(awk 'NR == 1 { print $1, $2, $3, $4 } NR == 2 { print $1, $4, $5, $6 }' list)" = "HOST LAST TIMES WHY
$host 3 command: broken" ] || { cat list; return 1; }
  # A note of more than a week ago.
  jq -cn --arg host "$host" '{host: $host, time: (now - 700000), check: "disk", reason: "old"}' >"$NACRE_JOBS_DIR/bad-hosts"
  [ -z "$("$front" report --hosts --json)" ]
  run --separate-stderr run_ --health=quick echo ran
  [ -z "$stderr" ]
  run "$front" report --hosts last
  [ "$status" -ne 0 ]
  [[ $output == *"--hosts is about all of your jobs: leave out 'last'"* ]] || { echo "$output"; return 1; }
}

@test "wrong values of health are one line with the remedy" {
  local row code given words
  for row in "2|--health=deep|--health: expected off, quick or pairs" "1|-o health=deep|health: expected off, quick or pairs, got \"deep\"" \
    "1|-o health.on-bad=x|health.on-bad: expected end or warn, got \"x\"" "1|-o health.timeout=0|health.timeout: expected a time above 0, such as 5s, got 0" \
    "1|-o health.comand=x|health.comand: unknown key; known: checks, command, pair-command, timeout, wait, on-bad" \
    "1|--health=pairs|health: with pairs there has to be a command that pairs of hosts run: give -o health.pair-command=CMD" \
    "1|--health=quick -o health.pair-command=x|health: with quick no pair-command is run: give --health=pairs, or leave out pair-command" \
    "2|-o health.timeout|expected a time, such as 30s or 1.5h" "2|-o health.command|expected a value: -o health.command=TEXT"; do
    IFS='|' read -r code given words <<<"$row"
    # shellcheck disable=SC2086
    run run_ $given true
    [ "$status" -eq "$code" ] || { echo "$given: $status $output"; return 1; }
    [[ $output == *"$words"* ]] || { echo "$given: $output"; return 1; }
    [ "${#lines[@]}" -le 2 ]
  done
  echo 'shell.options.health = "quick"' >rc.lua
  run_ --initrc=rc.lua true
  run run_ --local=2 --initrc=rc.lua true
  [ "$status" -eq 1 ]
  [[ $output == *"rc.lua:1 has set it, which may differ from host to host: give --health or -o health when the job is started"* ]] || { echo "$output"; return 1; }
}
