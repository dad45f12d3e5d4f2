#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre run on this host: one shell, and several.
load lib.bash

# The manager of an allocation in which the tests run must not count.
no_manager=(env -u SLURM_JOB_ID -u SLURM_JOB_NODELIST -u SLURM_NODELIST -u PBS_NODEFILE -u LSB_DJOB_HOSTFILE -u LSB_MCPU_HOSTS
  -u LSB_HOSTS -u OAR_NODEFILE -u PE_HOSTFILE -u COBALT_NODEFILE -u FLUX_ENCLOSING_ID)
host=$(hostname)

run_job() { "${no_manager[@]}" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" "$@"; }
dry() { run_job --dry-run "$@"; }
# The member $1 of the jobspec of the other arguments.
of_jobspec() { dry "${@:2}" | jq -c "$1"; }
environment_of() { of_jobspec ".attributes.system.environment$1" "${@:2}"; }

@test "what has failed is red on a terminal, but not with NO_COLOR, nor in a pipe" {
  local job="'$NACRE_BUILD_DIR/nacre' run --shell='$NACRE_SHELL' -n 2 false"
  on_terminal() { env -u NO_COLOR TERM=xterm "$@" script -qec "$job" /dev/null | tr -d '\r'; }
  on_terminal | grep -q $'^\e\\[31mnacre-shell\\[0\\]: error: task .*: exit code 1\e\\[0m$'
  on_terminal | grep -q $'^\e\\[31mnacre: .*exited with code 1.*\e\\[0m$'
  for each in NO_COLOR=1 TERM=dumb; do
    [[ $(on_terminal "$each") == *"exit code 1"* && $(on_terminal "$each") != *$'\e'* ]]
  done
  [[ $(TERM=xterm bash -c "$job" 2>&1) != *$'\e'* ]]
}

@test "verbose=2 shows each shell's steps" {
  run_job --local=2 -n 2 -o verbose=2 true 2>err
  for each in 0 1; do
    [ "$(grep -oE "^nacre-shell\\[$each\\]: trace: (calls the plugins: shell.(init|start|finish)|start barrier: .*|starts 1 task)$" err | cut -d' ' -f3- | paste -sd,)" = \
      "calls the plugins: shell.init,starts 1 task,calls the plugins: shell.start,start barrier: waits for the other shells,start barrier: all have come,calls the plugins: shell.finish" ] ||
      { grep trace err; return 1; }
  done
}

@test "a command runs, in this directory and environment, and its exit code is the job's" {
  export MINE='a "b" c'
  run --separate-stderr run_job sh -c 'pwd; echo "$MINE"; exit 7'
  [ "$status" -eq 7 ]
  [ "${lines[0]}" = "$PWD" ]
  [ "${lines[1]}" = 'a "b" c' ]
}

@test "exit codes: a program that cannot be found or run, a signal, wrong usage" {
  run -127 run_job no-such-program
  [[ $output == *no-such-program* ]]
  echo 'no program' >data
  run run_job ./data
  [ "$status" -eq 126 ]
  run run_job sh -c 'kill -9 $$'
  [ "$status" -eq 137 ]
  run run_job
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == "nacre run: expected a program to run: nacre run -n 4 hostname" ]]
  run run_job -t 0.2s sleep 60
  [ "$status" -eq 124 ]
}

@test "options end at the first word that is none" {
  run run_job -n 2 echo x -n 3 --label-io
  [ "$status" -eq 0 ]
  [ "$output" = $'x -n 3 --label-io\nx -n 3 --label-io' ]
  run run_job -- echo -- -n
  [ "$output" = "-- -n" ]
  run run_job -n 1 -- echo a : b ::: {} # one command, whatever its words are
  [ "$output" = "a : b ::: {}" ]
  run run_job --bogus echo
  [[ $status == 2 && ${lines[0]} == "nacre run: '--bogus' is not known here" ]]
  run run_job --label-i echo # not shortened
  [[ $status == 2 && ${lines[0]} == "nacre run: '--label-i' is not known here; did you mean --label-io?" ]]
}

@test "tasks know their rank, and see each other's number" {
  run run_job -n 3 -l sh -c 'echo "$NACRE_TASK_RANK of $NACRE_JOB_SIZE"'
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0: 0 of 3\n1: 1 of 3\n2: 2 of 3' ]
}

@test "more tasks than cores: they share them, in a pipe without a word; the last one counts" {
  local many=$(($(nproc) * 4 + 1))
  run run_job -n "$many" sh -c 'exit $(($NACRE_TASK_RANK == '$((many - 1))' ? 3 : 0))'
  [ "$status" -eq 3 ]
  [[ $output != *share* ]]
  run run_job -n "$many" true
  [ "$status" -eq 0 ]
  [ -z "$output" ]
}

@test "more tasks than cores: on a terminal one line" {
  local many=$(($(nproc) * 4))
  run script -qec "$NACRE_BUILD_DIR/nacre run --shell=$NACRE_SHELL -n $many true" /dev/null
  [ "$status" -eq 0 ]
  [ "$(grep -c "$many tasks share .* on $host" <<<"$output")" -eq 1 ]
  run script -qec "$NACRE_BUILD_DIR/nacre run --shell=$NACRE_SHELL -n $many --oversubscribe true" /dev/null
  [ "$status" -eq 0 ]
  [ "$(grep -c "$many tasks share .* on $host" <<<"$output")" -eq 1 ]
}

@test "cores that are not there are refused with host, what it has and the remedy" {
  run run_job -n 2 -c 5000 true
  fails_with 1 "2 slots of 5000 cores" "; $host has $(nproc) core" "fewer tasks (-n), fewer cores a task (-c), or --oversubscribe"
  run run_job -n 2 -c 5000 --oversubscribe echo ran
  [ "$status" -eq 0 ]
  [[ $output == "nacre-shell[0]: 2 tasks share $(nproc) core"*" on $host"$'\nran\nran' ]]
}

@test "gpus that are not there are refused with the host" {
  CUDA_VISIBLE_DEVICES='' HIP_VISIBLE_DEVICES='' run run_job -g 4000 true
  [ "$status" -eq 1 ]
  [[ $output == *"$host has "*" gpu"*"fewer gpus a task (-g)"* ]]
}

@test "--tasks-per-node=gpu: one for each gpu of this host, or as Slurm has it for the allocation's nodes" {
  # shellcheck disable=SC2016  # for the tasks
  [ "$(CUDA_VISIBLE_DEVICES=2,5 run_job --tasks-per-node=gpu sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort)" = $'2\n5' ]
  [ "$(CUDA_VISIBLE_DEVICES=0,1,2,3 run_job --tasks-per-node=gpu -g 2 sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort)" = $'0,1\n2,3' ]
  SLURM_GPUS_ON_NODE=3 run run_job --tasks-per-node=gpu --dry-run true
  jq -e '.resources[0].with[0].count == 3 and .resources[0].with[0].with[1].type == "gpu"' <<<"$output"
  CUDA_VISIBLE_DEVICES='' run run_job --tasks-per-node=gpu true
  fails_with 1 "--tasks-per-node=gpu: this host has no gpus: give their number, as in --tasks-per-node=8 -g 1"
}

@test "gpus: each task sees its own, by number or by name; what nobody has looked for is left alone" {
  # shellcheck disable=SC2016 # for the tasks
  show='echo $NACRE_TASK_RANK $CUDA_VISIBLE_DEVICES ${ZE_AFFINITY_MASK-none}'
  CUDA_VISIBLE_DEVICES=2,3,5 run run_job -n 2 -g 1 sh -c "$show"
  [ "$(sort <<<"$output")" = $'0 2 2\n1 3 3' ]
  CUDA_VISIBLE_DEVICES=2,3,5 run run_job sh -c "$show"
  [ "$output" = "0 2,3,5 2,3,5" ]
  CUDA_VISIBLE_DEVICES=MIG-a,GPU-b,MIG-c run run_job -n 2 -g 1 sh -c "$show"
  [ "$(sort <<<"$output")" = $'0 MIG-a none\n1 GPU-b none' ]
  CUDA_VISIBLE_DEVICES=MIG-a,GPU-b run run_job sh -c "$show"
  [ "$output" = "0 MIG-a,GPU-b none" ]
  CUDA_VISIBLE_DEVICES=NoDevFiles run run_job sh -c "$show"
  [ "$output" = "0 NoDevFiles none" ]
  CUDA_VISIBLE_DEVICES=0,1 run run_job -n 3 -g 1 true
  fails_with 1 "3 slots of 1 core and 1 gpu; R has room for 2; $host has " "and 2 gpus: fewer tasks (-n) or fewer gpus a task (-g)"
}

@test "standard input goes to the task, or to those that are named" {
  run run_job cat <<<"hello"
  [ "$output" = hello ]
  run run_job -n 3 -l --input-ranks=1 cat <<<"hello"
  [ "$output" = "1: hello" ]
  echo "of a file" >input
  run run_job -n 2 --input=input cat
  [ "$output" = $'of a file\nof a file' ]
}

@test "output goes to files, by task" {
  run run_job -n 2 --output='out.{{task.rank}}' sh -c 'echo "$NACRE_TASK_RANK"; echo e >&2'
  [ "$status" -eq 0 ]
  [ "$(cat out.0)" = $'0\ne' ]
  run --separate-stderr run_job --error=err sh -c 'echo out; echo error >&2'
  [ "$output" = out ]
  [ "$(cat err)" = error ]
}

@test "the directory is another if one is given" {
  mkdir deep
  run run_job --cwd=deep pwd
  [ "$output" = "$PWD/deep" ]
  run run_job --chdir=/ pwd
  [ "$output" = / ]
  run run_job --cwd=/no/such true
  [ "$status" -eq 1 ]
  [[ $output == *"cannot change to directory /no/such"* ]]
}

@test "what an outer launcher has left is dropped" {
  PMI_RANK=3 PMIX_RANK=1 SLURM_PROCID=1 OMPI_COMM_WORLD_RANK=2 SLURM_JOB_ID=7 run run_job \
    sh -c 'env | grep -c "^PMI_RANK=3\|^PMIX_RANK\|^SLURM_PROCID\|^OMPI_COMM" || true'
  [ "$output" = 0 ]
}

@test "rules change the environment, in their order" {
  export A1=x A2=y
  [ "$(environment_of '|[.A1,.A2]' --env-remove='A*' --env=A2 true)" = '[null,"y"]' ]
  [ "$(environment_of '|[.A1,.A2]' --env=A2 --env-remove='A*' true)" = '[null,null]' ]
  # shellcheck disable=SC2016 # for nacre
  [ "$(environment_of .B --env='B=${A1}z$A2' true)" = '"xzy"' ]
  printf '# rules\n-*\nA1\nC=1 2\n' >rules
  [ "$(environment_of '' --env-file=rules true)" = '{"A1":"x","C":"1 2"}' ]
  [ "$(environment_of '' --env=^rules --env=C=3 true)" = '{"A1":"x","C":"3"}' ]
  # shellcheck disable=SC2016 # for nacre
  run dry --env='B=$NO_SUCH_VARIABLE' true
  fails_with 1 "nacre run: --env: " "NO_SUCH_VARIABLE is not set; write \$\$ for a dollar sign"
  echo '^other' >rules
  run dry --env-file=rules true
  fails_with 1 "--env-file: rules: line 1: "
}

@test "a variable that is no UTF-8 is left out with a word, an argument refused" {
  run --separate-stderr env BAD=$'\xff' "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" sh -c 'echo "${BAD-none}"'
  [ "$output" = none ]
  [[ $stderr == "nacre: the variable BAD is left out: it is no UTF-8"* ]]
  run run_job echo $'\xff'
  fails_with 1 "argument 1: '" "' is no UTF-8, which a jobspec has to be"
  for words in $'echo ::: a\xff' $'echo a : echo \xff' $'--output=\xff echo' $'--wrap=\xff echo' $'--log-dir=\xff echo' $'--name=\xff echo'; do
    # shellcheck disable=SC2086 # several words
    run run_job $words
    fails_with 1 "' is no UTF-8, which a jobspec has to be"
  done
  [ -z "$(compgen -G $'*\xef\xbf\xbd*')" ] # what JSON has in its place
}

@test "several programs, from the command line" {
  run run_job -n 2 echo a : -n 2 echo b : -- echo c
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'a\na\nb\nb\nc' ]
  run run_job -n 2 -l sh -c 'echo 0' : sh -c 'echo $1 $2' sh %t %o
  [[ $output == *"2: 2 0"* ]]
  run run_job echo a :
  [ "$status" -eq 2 ]
  run run_job echo a : -c 2 echo b
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == *"behind ':': '-c' is not known there"* ]]
}

@test "several programs, from a file" {
  printf '# two\n0 echo "the first"\n1-2 echo worker %%t %%o\n' >programs
  run run_job --multi-prog=programs
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'the first\nworker 1 0\nworker 2 1' ]
  run run_job --multi-prog=- <programs
  [ "$(sort <<<"$output")" = $'the first\nworker 1 0\nworker 2 1' ]
  run run_job -n 4 --multi-prog=programs
  fails_with 1 "programs: no program for rank 3: add a line for it, or *"
  run run_job -n 2 --multi-prog=programs
  fails_with 1 "programs: rank 2, but the job has 2 tasks: -n 3"
  printf '0 a\nx b\n' >programs
  run run_job --multi-prog=programs
  fails_with 1 "programs: line 2: expected ranks"
  run run_job --multi-prog=programs true
  [ "$status" -eq 2 ]
}

@test "of programs that cannot be started each has its own record, though the first one ends the job" {
  touch not-a-program
  printf '%s\n' '0,3 sleep 60' '1 /no/such/program' "2 $PWD/not-a-program" >programs
  run -127 run_job --oversubscribe --report=report --multi-prog=programs
  [[ $output == *"error: task 1: /no/such/program: No such file or directory"* ]]
  [ "$(jq -c '[.classes[] | [.record, .ranks]] | sort' report)" = '[["c/s15","0,3"],["f126","2"],["f127","1"]]' ] ||
    { jq . report; return 1; }
}

@test "tasks run under another program" {
  run run_job -n 2 -l --wrap='1:env X="a b"' sh -c 'echo "${X-none}"'
  [ "$(sort <<<"$output")" = $'0: none\n1: a b' ]
}

@test "several shells on this host are one job" {
  run run_job --local=3 -l sh -c 'echo "$NACRE_JOB_NNODES $1"' sh x
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = $'0: 3 x\n1: 3 x\n2: 3 x' ]
  run run_job --local=2 -n 5 --cwd=/ pwd
  [ "$output" = $'/\n/\n/\n/\n/' ]
  run run_job --local=2 -n 4 sh -c 'exit $NACRE_TASK_RANK'
  [ "$status" -eq 3 ]
}

@test "numbers that do not go together" {
  run run_job -n 1 -N 2 --local=2 true
  fails_with 1 "-n 1, but -N 2: each node needs a task"
  run run_job -N 2 true
  fails_with 1 "-N 2, but there is 1 node: a smaller -N, more hosts (--hosts), or --local=2 for all on this one"
  run run_job --tasks-per-node=2 -n 5 --local=2 true
  fails_with 1 "a smaller -n, a larger --tasks-per-node, or more nodes"
}

@test "the names of srun's options are taken too" {
  [ "$(of_jobspec '.resources[0].with[0]' --local=2 --ntasks-per-node=3 --cpus-per-task=2 -g 1 true)" = \
    '{"count":3,"label":"task","type":"slot","with":[{"count":2,"type":"core"},{"count":1,"type":"gpu"}]}' ]
}

@test "the printed jobspec is the job's: launch runs it" {
  dry -n 2 --name=mine -o verbose=1 --fail-fast -t 5 sh -c 'echo "$PWD"' >job.json
  [ "$(jq -c '.attributes.system|[.duration,.job.name,.cwd]' job.json)" = "[300,\"mine\",\"$PWD\"]" ] ||
    [ "$(jq -c '.attributes.system|[.duration,.job.name,.cwd]' job.json)" = "[300.0,\"mine\",\"$PWD\"]" ]
  [ "$(jq -c '.attributes.system.shell.options["exit-on-error"]' job.json)" != null ]
  cd /
  run --separate-stderr "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --local=1 -o verbose=0 -j "$work/job.json"
  [ "$status" -eq 0 ]
  [ "$output" = "$work"$'\n'"$work" ]
  cd "$work"
  run run_job --file=job.json -o verbose=0
  [ "$status" -eq 0 ]
  run run_job --file=job.json -n 2
  [ "$status" -eq 2 ]
  run run_job --file=job.json true
  [ "$status" -eq 2 ]
}

@test "a jobspec from a file: the other options change it" {
  dry -n 2 --env=MINE=file --cwd=/usr sh -c 'echo "$MINE $OTHER $PWD"; cat' >job.json
  jq '.attributes.system.environment = {"PATH": .attributes.system.environment.PATH, "MINE": "file"}' job.json >own.json
  run run_job --file=own.json
  [ "$output" = $'file  /usr\nfile  /usr' ]
  echo given >input
  OTHER=caller run run_job --file=own.json --env=MINE=option --env=OTHER --cwd=/ --input="$PWD/input" -l
  [ "$(sort <<<"$output")" = $'0: given\n0: option caller /\n1: given\n1: option caller /' ]
  run of_jobspec '.attributes.system | [.duration == 120, .job.name, .cwd, .environment.MINE, .shell.options.wrap != null, .shell.options.output.stdout.path]' \
    --file=own.json -t 2 --name=other --wrap="env A=1" --output=out --taskmap=cyclic
  [ "$output" = '[true,"other","/usr","file",true,"out"]' ]
  dry sleep 60 >sleep.json
  run -124 run_job --file=sleep.json --time-limit=0.2s -o exit-report=off
}

@test "the plan is printed, and no task started" {
  run run_job -n 2 --explain touch started
  [ "$status" -eq 0 ]
  [[ $output == *"tasks     2 on 1 node"* ]]
  [ ! -e started ]
}

@test "reports and notices come where they are asked for" {
  run run_job -n 2 --report=report.json --notify=notices sh -c 'exit $NACRE_TASK_RANK'
  [ "$status" -eq 1 ]
  [ "$(jq .exit report.json 2>/dev/null || jq .code report.json)" != "" ]
  [ -s notices ]
  run run_job --exit-policy=main -n 2 sh -c 'exit $NACRE_TASK_RANK'
  [ "$status" -eq 0 ]
  run run_job --exit-ok=7 sh -c 'exit 7'
  [ "$status" -eq 0 ]
}

@test "the first interrupt is passed on, with one line; a second one ends the job" {
  # env and nacre become nacre-shell.
  "${no_manager[@]}" "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -n 2 \
    sh -c 'trap "touch got.$NACRE_TASK_RANK" INT; touch ready.$NACRE_TASK_RANK; while :; do sleep 0.1; done' 2>err &
  wait_until test -e ready.0 -a -e ready.1
  kill -INT $!
  wait_until test -e got.0 -a -e got.1
  kill -INT $!
  code=0
  wait $! || code=$?
  [ "$code" -eq 130 ]
  [ "$(grep -c "interrupt: passed on to the 2 tasks that run; a second one within 2 s ends the job" err)" -eq 1 ]
  grep -q "second interrupt: ending the job" err
}

@test "the record is not left open for tasks" {
  run run_job sh -c 'ls -l /proc/self/fd | grep -c launch-record || true'
  [ "$output" = 0 ]
}

@test "a pty for a task, captured" {
  run run_job --pty=0 -n 2 -l sh -c 'test -t 1 && echo terminal || echo pipe'
  [ "$(tr -d '\r' <<<"$output" | sort)" = $'0: terminal\n1: pipe' ]
}

@test "a pty joined to this terminal" {
  run script -qec "$NACRE_BUILD_DIR/nacre run --shell=$NACRE_SHELL --pty sh -c 'test -t 0 && test -t 1 && tty'" /dev/null
  [ "$status" -eq 0 ]
  [[ $output == *"/dev/pts/"* ]]
}

@test "an initrc, an eventlog and a record of one's own" {
  echo 'plugin.register { name = "mine", handlers = { { topic = "task.init", fn = function () task.setenv ("MINE", "yes") end } } }' >mine.lua
  run run_job --initrc=mine.lua --eventlog=events --record-dir=record sh -c 'echo $MINE'
  [ "$status" -eq 0 ]
  [ "$output" = yes ]
  [ "$(jq -r .name events | tail -1)" = shell.exit ]
  [ -s record/guest.output ] || [ -e record ]
  run run_job --local=2 --initrc=mine.lua --eventlog=events2 sh -c 'echo $MINE'
  [ "$output" = $'yes\nyes' ]
  [ "$(jq -r .name events2 | head -1)" = shell.init ]
}

@test "an option that nobody reads is named, with the one that may be meant" {
  run run_job -o exit-timout=3 true
  [ "$status" -eq 0 ]
  [[ $output == *"warn: no plugin reads the option exit-timout; did you mean exit-timeout?" ]]
  for file in out.txt logs/of-job; do
    run run_job -o "$file" true
    [[ $status,$output == 0,*"warn: no plugin reads the option "*"; nacre run has --output=FILE for a file of output" ]] || { echo "$output"; return 1; }
  done
  run run_job -o exit-timout=3 -o strict touch started
  fails_with 1 "the option exit-timout; did you mean exit-timeout? (an error by -o strict)"
  [ ! -e started ]
  run run_job --local=3 -o exit-timout=3 true
  [ "$status" -eq 0 ]
  [ "$(grep -c exit-timout <<<"$output")" -eq 1 ]
  dry true | jq '.attributes.system.enviroment = {}' >job.json
  run run_job --file=job.json
  [[ $output == *"attributes.system.enviroment is not read; did you mean environment?" ]]
}

@test "an option of an initrc's own counts as read" {
  echo 'if shell.options.colour then shell.setenv ("COLOUR", shell.options.colour) end' >mine.lua
  run run_job --initrc=mine.lua -o colour=red sh -c 'echo $COLOUR'
  [ "$output" = red ]
}

@test "ranks that the job has not are an error, whichever option names them" {
  for option in output.ranks=0,5 input.ranks=5 exit-on-error.ranks=2-5; do
    run run_job -n 2 -o "$option" true
    [ "$status" -eq 1 ]
    [[ ${lines[0]} == *"${option%=*}: the job has no task 5; it has 0-1" ]] || { echo "$output"; return 1; }
  done
  run run_job --input-ranks=1 true
  [ "$status" -eq 1 ]
  [[ ${lines[0]} == *"input.ranks: the job has no task 1; its only one is 0" ]]
}

@test "nacre help VERB is the verb's --help" {
  for verb in run "archive create" top; do
    # shellcheck disable=SC2086 # words
    diff <("$NACRE_BUILD_DIR/nacre" help $verb) <("$NACRE_BUILD_DIR/nacre" $verb --help)
  done
  diff <("$NACRE_BUILD_DIR/nacre" help) <("$NACRE_BUILD_DIR/nacre" --help)
  for words in "help lanch" "lanch --help"; do
    # shellcheck disable=SC2086 # words
    run "$NACRE_BUILD_DIR/nacre" $words
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == "nacre: 'lanch' is not known here; did you mean launch?" ]]
  done
}

@test "misspelt options, and options without their value" {
  run "$NACRE_BUILD_DIR/nacre" exec --shels true
  [[ ${lines[0]} == "nacre exec: '--shels' is not known here; did you mean --shells?" ]]
  run run_job -n
  [[ $status == 2 && ${lines[0]} == "nacre run: --ntasks: expected a value" ]]
  run run_job --hosts= true
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == "nacre run: --hosts=: expected a value behind ="* ]]
  run "$NACRE_BUILD_DIR/nacre" launch --hosts= -j job.json
  [ "$status" -eq 2 ]
  [[ ${lines[0]} == "nacre launch: --hosts=: expected a value behind ="* ]]
}

@test "a launch record that is none" {
  run "$NACRE_SHELL" --launch-record=77
  fails_with 1 "--launch-record: descriptor 77 cannot be read"
  run "$NACRE_SHELL" --launch-record=7 7<<<'{}'
  fails_with 1 "--launch-record: the launch record: "
  run "$NACRE_SHELL" --standalone --launch-record=7 -j x -R y
  [ "$status" -eq 2 ]
}

@test "torch needs no initrc; LOCAL_RANK fits the gpus that a task sees" {
  # shellcheck disable=SC2016 # for the tasks
  show='echo $RANK $LOCAL_RANK $NODE_RANK $WORLD_SIZE $MASTER_ADDR'
  run run_job --torch -n 2 sh -c "$show"
  [ "$(sort <<<"$output")" = $'0 0 0 2 127.0.0.1\n1 1 0 2 127.0.0.1' ]
  CUDA_VISIBLE_DEVICES=4,6 run run_job --torch -n 2 -g 1 sh -c "$show"
  [ "$(sort <<<"$output")" = $'0 0 0 2 127.0.0.1\n1 0 0 2 127.0.0.1' ]
  run run_job --torch --local=2 sh -c "$show"
  [ "$(sort <<<"$output")" = $'0 0 0 2 127.0.0.1\n1 0 1 2 127.0.0.1' ]
}

@test "with torch the first failure ends the job, as torchrun does it, unless tasks start again" {
  local begun=$SECONDS
  # shellcheck disable=SC2016 # for the tasks
  run run_job --torch -n 2 sh -c '[ $RANK = 1 ] && exit 3; sleep 60'
  [ "$status" -eq 3 ]
  ((SECONDS - begun < 20)) || { echo "$((SECONDS - begun)) s"; return 1; }
  # shellcheck disable=SC2016 # for the tasks
  run run_job --torch --restart=on-failure,backoff=0s -n 2 sh -c '[ "$TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS" = 1/3 ] || [ $RANK = 0 ]'
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
}

front=$NACRE_BUILD_DIR/nacre

@test "in an allocation, and on hosts that are named, there are as many tasks as were asked for there, else one on each" {
  asked() { "${no_manager[@]}" -u SLURM_NTASKS "$@" --dry-run true 2>said | jq -c '[(.resources[0] | if .type == "node" then .count * .with[0].count else .count end), .attributes.system.shell.options.taskmap]'; }
  printf 'a\nb\nb\n' >nodes
  [ "$(asked "$front" run)" = '[1,null]' ]
  [ "$(asked "$front" run --hosts='n[0-3]')" = '[4,null]' ]
  [ "$(asked "$front" run --hosts='n[0-3],m' --spares=1)" = '[5,null]' ] # with the spare's
  [ "$(asked "$front" run --hosts='n[0-1]:2')" = '[4,null]' ]
  [ "$(asked "$front" run --hosts='n[0-3]' -n 1)" = '[1,null]' ]
  [ "$(asked PBS_NODEFILE="$PWD/nodes" "$front" run)" = '[3,"manual:[[0,1,1,1],[1,1,2,1]]"]' ]
  [ "$(asked PBS_NODEFILE="$PWD/nodes" "$front" run --taskmap=cyclic)" = '[3,"cyclic"]' ]
  [ "$(asked LSB_MCPU_HOSTS='a 2 b 2' "$front" run)" = '[4,null]' ]
  [ "$(asked SLURM_JOB_NODELIST='n[0-1]' SLURM_NTASKS=6 "$front" run)" = '[6,null]' ]
  [ "$(asked SLURM_JOB_NODELIST='n[0-1]' SLURM_TASKS_PER_NODE='8(x2)' "$front" run)" = '[2,null]' ]
  [ ! -s said ]
  asked SLURM_JOB_NODELIST=a SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_0=a SLURM_JOB_NODELIST_HET_GROUP_1='b[0-1]' "$front" run
  [ "$(cat said)" = "nacre: this is a heterogeneous job, of which the hosts of the first component are used; all of them, without srun: --hosts='a,b[0-1]'" ]
  # The plan names the source of the number of tasks.
  "${no_manager[@]}" LSB_MCPU_HOSTS="$(uname -n) 2" "$front" run --shell="$NACRE_SHELL" --explain=all true >plan 2>said
  grep -qx 'nacre run: tasks: 2, as LSB_MCPU_HOSTS has it' said
  grep -q '^task 1 ' plan
}

@test "umask and soft limits of the caller are those of tasks on other hosts" {
  cat >agent <<'END'
#!/bin/sh
umask 077
shift
ulimit -S -n 256
ulimit -S -c 0
exec sh -c "$*"
END
  chmod +x agent
  umask 027
  ulimit -S -n 512
  tell='echo "$(umask) $(ulimit -S -n)"'
  [ "$("${no_manager[@]}" "$front" run --shell="$NACRE_SHELL" --agent=./agent --hosts=elsewhere sh -c "$tell")" = "0027 512" ]
  [ "$("${no_manager[@]}" "$front" run --shell="$NACRE_SHELL" --agent=./agent --hosts=elsewhere -o rlimit.nofile=128 sh -c "$tell")" = "0027 128" ]
  write_jobspec 1 sh -c "$tell"
  [ "$("${no_manager[@]}" "$front" run --shell="$NACRE_SHELL" --agent=./agent --hosts=elsewhere --file jobspec.json)" = "0027 512" ]
  "${no_manager[@]}" "$front" run --dry-run --hosts="$(uname -n)" true | jq -e '.attributes.system.shell.options | has("rlimit") | not'
}
