#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The report of a job that has failed: what went wrong first, and where; on one shell, and on four.
load nodes.bash

start() { exec "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json -o cpu-affinity=off "$@"; }
job() { start "$@"; }

# has FILE TEXT...: checks that the file has each text.
has() {
  local file=$1 text
  for text in "${@:2}"; do
    grep -qF -- "$text" "$file" || { echo "'$text' is not in $file, which has:"; cat "$file"; return 1; }
  done
}

# The exit code of a job of the nodes and tasks of R.json and jobspec.json, its standard error in err.
code_of_job() { # OPTION...
  code=0
  (job "$@" >out 2>err) || code=$?
}

# Writes a job of $1 tasks: rank $2 dies of SIGSEGV while the others stand still for ten seconds.
write_crash() {
  write_jobspec "$1" sh -c "touch started.\$FLUX_TASK_RANK; if [ \$FLUX_TASK_RANK = $2 ]; then
    until [ \$(ls started.* | wc -l) = $1 ]; do sleep 0.02; done; echo it is broken >&2; kill -SEGV \$\$; fi; exec sleep 10"
}

# The report names rank $1 on host $2 as the cause, and the other tasks by $3.
names_cause() {
  [ "$code" -eq 139 ] || { echo "exit code $code"; cat err; return 1; }
  has err " sh: rank $1 on $2 (pid " ") killed by SIGSEGV" "last of its stderr:   | it is broken" "exit code 139 (policy max: the cause)" "$3"
}

others() { # RANK: all of eight but that one
  case $1 in 0) echo 1-7 ;; 1) echo 0,2-7 ;; 3) echo 0-2,4-7 ;; 7) echo 0-6 ;; esac
}

# bats test_tags=long
@test "one of eight tasks dies of SIGSEGV while the others stand still: it is the cause, by exit-timeout and exit-on-error" {
  for shells in 1 4; do
    write_nodes $shells $((8 / shells))
    for rank in 0 3 7; do
      host=node$((rank * shells / 8))
      write_crash 8 $rank
      for option in exit-timeout=1s exit-on-error; do
        rm -f started.*
        code_of_job --local=$shells --arity=2 -o rlimit.core=0 -o $option
        names_cause $rank $host "nacre: SIGSEGV: $rank | ended because of it: $(others $rank)" || { echo "$shells $rank $option"; return 1; }
      done
    done
  done
}

# bats test_tags=long
@test "the same, and Ctrl-C ends the others" {
  for shells in 1 4; do
    write_nodes $shells $((8 / shells))
    write_crash 8 3
    rm -f started.*
    start --local=$shells --arity=2 -o rlimit.core=0 -o exit-timeout=none 2>err &
    wait_until grep -q 'killed by SIGSEGV' err
    kill -INT $!
    code=0
    wait $! || code=$?
    names_cause 3 node$((3 * shells / 8)) "nacre: SIGSEGV: 3 | SIGINT: 0-2,4-7"
  done
}

@test "the report as JSON: the cause, the others, all tasks by how they ended" {
  write_nodes 4 2
  write_jobspec 8 sh -c 'case $FLUX_TASK_RANK in 5) echo said; echo why >&2; exit 3;; 2) sleep 0.4; echo later >&2; exit 9;; esac'
  code_of_job --local=4 --arity=2 -o exit-timeout=none --report=r.json
  [ "$code" -eq 9 ]
  has err "nacre: exit code 9 (policy max: task 2); the report: $PWD/r.json" "nacre: exit code 3: 5 | exit code 9: 2 | exit code 0: 0-1,3-4,6-7"
  jq -e '.version == 1 and .exit == {code: 9, policy: "max", main: 0, by: "task 2"} and .job.tasks == 8 and .job.shells == 4' r.json
  jq -e '.cause | .rank == 5 and .host == "node2" and .shell == 2 and .record == "x3" and .kind == "x" and .value == 3
    and .certain and .stderr == "why\n" and .stdout == "said\n" and .argv[0] == "sh" and .ended >= .started and .pid > 0' r.json
  jq -e --arg cwd "$PWD" '.cause.cwd == $cwd' r.json
  jq -e '.others | length == 1 and .[0].rank == 2 and .[0].stderr == "later\n"' r.json
  jq -e '[.classes[] | .record + ":" + .ranks] == ["x0:0-1,3-4,6-7", "x3:5", "x9:2"]' r.json
  jq -e '[.timeline[].event] == ["failed", "failed", "end"]' r.json
}

@test "last words of NCCL, CUDA or a framework are told in plain words, and say who has only lost another" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'if [ $FLUX_TASK_RANK = 1 ]; then until [ -e lost ]; do sleep 0.02; done; sleep 0.2
      echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." >&2; exit 1; fi
    echo "n0:7:9 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n1<41000>" >&2; touch lost; exit 1'
  code_of_job --local=2 -o report=report.json
  [ "$code" -eq 1 ]
  has err "rank 1 on node1 (pid " "nacre:   this says: out of GPU memory"
  [ "$(jq -c '[.cause.rank, .cause.reason, .cause.origin]' report.json)" = '[1,"gpu-memory","own"]' ] || { jq . report.json; return 1; }
}

@test "a job that succeeds has no report but in the file, if there is one" {
  write_nodes 2 1
  write_jobspec 2 true
  code_of_job --local=2 -o report=r.json
  [ "$code" -eq 0 ]
  [ ! -s err ]
  jq -e '.exit.code == 0 and .cause == {} and .classes == [{record: "x0", ranks: "0-1"}]' r.json
}

# bats test_tags=long
@test "exit-report=line and off: no report; what is neither is refused" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'exit 3'
  code_of_job --local=2 -o exit-report=line
  [ "$code" -eq 3 ]
  [ "$(cat err)" = "nacre-shell[0]: error: task 0 on node0, 1 on node1: exit code 3" ]
  code_of_job --local=2 -o exit-report=off
  [ "$code" -eq 3 ]
  [ ! -s err ]
  code_of_job --local=2 -o exit-report=much
  [ "$code" -eq 1 ]
  has err "exit-report: expected off, line or full, got \"much\""
}

@test "a report that cannot be made is refused; one that cannot be written any more is a warning, and the exit code is the job's" {
  write_nodes 1 1
  mkdir folder
  write_jobspec 1 sh -c 'rmdir folder; exit 3'
  code_of_job --local=1 --report=/no/such/folder/r.json
  [ "$code" -eq 1 ]
  has err "report: /no/such/folder/r.json: No such file or directory"
  [ -d folder ] # no task has started
  code_of_job --local=1 --report=folder/r.json
  [ "$code" -eq 3 ]
  has err "warn: exit-report: report: $work/folder/r.json: No such file or directory: the report is not written" "exit code 3 (policy max: the cause)"
}

@test "what a program writes to its error file is in the report, also by PyTorch's name for it" {
  write_nodes 2 1
  write_jobspec 2 sh -c 'if [ $FLUX_TASK_RANK = 1 ]; then echo "{\"message\": {\"message\": \"ValueError: 7\"}}" >"${TORCHELASTIC_ERROR_FILE:-$NACRE_ERROR_FILE}"; exit 1; fi'
  for options in "" "-o torch -o torch.port=29501 -o torch.store=rank0"; do
    # shellcheck disable=SC2086
    code_of_job --local=2 -o report=r.json $options
    [ "$code" -eq 1 ]
    has err "nacre:   its error: ValueError: 7"
    jq -e '.cause.error.message.message == "ValueError: 7"' r.json
  done
}

@test "what is no file in the place of an error file holds nothing up, and is left out" {
  write_nodes 1 2
  write_jobspec 2 sh -c 'if [ $FLUX_TASK_RANK = 1 ]; then mkfifo "$NACRE_ERROR_FILE"; else ln -s /dev/zero "$NACRE_ERROR_FILE"; fi; exit 3'
  code_of_job --local=1 --report=r.json
  [ "$code" -eq 3 ]
  jq -e '[.cause, .others[]] | all(has("error") | not)' r.json
}

# bats test_tags=long
@test "a lost shell's tasks are named, with its host" {
  write_nodes 4 1
  write_jobspec 4 sh -c 'touch started.$FLUX_TASK_RANK; [ $FLUX_TASK_RANK = 2 ] && until [ $(ls started.* | wc -l) = 4 ]; do sleep 0.02; done && kill -KILL $PPID; exec sleep 30'
  code_of_job --local=4 -o lost-after=2s --report=r.json
  [ "$code" -eq 1 ]
  has err "shell 2 on node2 is lost: it has ended, or cannot be reached; with it task 2"
  [ "$(grep -c '^nacre: ' err)" -eq 0 ] # the line before has said all
  jq -e '.cause | .record == "l" and .rank == 2 and .host == "node2"' r.json
}

# bats test_tags=long
@test "of a command that cannot be started, and a reader that has gone, one line is all there is to say" {
  write_nodes 2 1
  write_jobspec 2 no-such-command
  code_of_job --local=2
  [ "$code" -eq 127 ]
  [ "$(grep -c '^nacre: ' err)" -eq 0 ]
  write_jobspec 2 yes
  (job --local=2 -o exit-timeout=none 2>err) | head -n 1 >out
  [ "$(grep -c '^nacre: ' err)" -eq 0 ]
}

@test "the last of a file that a task writes itself is in the report" {
  write_nodes 1 2
  write_jobspec 2 sh -c 'if [ $FLUX_TASK_RANK = 1 ]; then echo to the file >&2; exit 4; fi'
  code_of_job --local=1 -o output.stderr.type=file -o 'output.stderr.path={{taskid}}.err'
  [ "$code" -eq 4 ]
  [ "$(cat 1.err)" = "to the file" ]
  has err "last of its stderr:   | to the file"
}

# bats test_tags=long
@test "what a task writes as it fails cannot hide the report, or command the terminal" {
  write_nodes 1 1
  write_jobspec 1 sh -c 'for i in $(seq 300); do echo line $i >&2; done; printf "\033[2Jend\n" >&2; exit 5'
  code_of_job --local=1
  [ "$code" -eq 5 ]
  [ "$(grep -c '^nacre:' err)" -eq 10 ]
  has err '| line 300' '| \x1b[2Jend'
}

# bats test_tags=long,root
@test "a task that the kernel kills because memory runs out is named so" {
  needs_root "to make a cgroup"
  if grep -q '^[0-9]*:memory:' /proc/self/cgroup; then
    group=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/nacre-test-$$
    limit=memory.limit_in_bytes
  else
    group=/sys/fs/cgroup/nacre-test-$$
    limit=memory.max
  fi
  mkdir "$group"
  echo 64M >"$group/$limit"
  [ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
  write_nodes 1 2
  write_jobspec 2 sh -c 'if [ $FLUX_TASK_RANK = 1 ]; then sleep 0.3; exec python3 -c "b = bytearray(500 << 20)"; fi; exec sleep 20'
  code=0
  (echo 0 >"$group/cgroup.procs" && job --local=1 -o exit-on-error --report=r.json >out 2>err) || code=$?
  for ((i = 0; i < 100; ++i)); do rmdir "$group" 2>/dev/null && break; sleep 0.05; done
  [ "$code" -eq 137 ]
  has err "rank 1 on node0" "killed by SIGKILL" "out of memory: its cgroup has had 1 kill by the kernel, limit 64 MiB"
  jq -e '.cause.oom == {by: "cgroup", kills: 1, limit: 67108864, certain: true}' r.json
}

# bats test_tags=long
@test "a task that is killed by somebody is not taken for one that ran out of memory" {
  write_nodes 1 1
  write_jobspec 1 sh -c 'sleep 0.2; kill -KILL $$'
  code_of_job --local=1 --report=r.json
  [ "$code" -eq 137 ]
  jq -e '.cause | has("oom") | not' r.json
}

@test "where the core dump is, is looked up, not guessed" {
  write_nodes 1 1
  write_jobspec 1 sh -c 'ulimit -c unlimited; kill -SEGV $$'
  code_of_job --local=1 -o rlimit.core=-1 --report=r.json
  [ "$code" -eq 139 ] || { cat err; return 1; }
  jq -e '.cause.core.dumped' r.json
  file=$(jq -r '.cause.core.file // empty' r.json)
  if [ -n "$file" ]; then
    [ -s "$file" ]
    has err "nacre:   core dump: $file"
  else
    jq -e '.cause.core | has("handler") or has("pattern")' r.json
  fi
}

# The classes of r.json as RECORD:RANKS:LAST LINE, one a line.
classes() { jq -r '.classes[] | .record + ":" + .ranks + ":" + (.last // "")' r.json; }

# bats test_tags=long
@test "tasks that fail alike are one class, by how they ended and their last line" {
  for shells in 1 4; do
    write_nodes $shells $((8 / shells))
    write_jobspec 8 sh -c 'case $FLUX_TASK_RANK in 1|4|6) echo $FLUX_TASK_RANK; echo; echo no disk; exit 3;; 2) echo no net; exit 3;; 7) echo no disk; exit 4;; esac >&2'
    code_of_job --local=$shells --arity=2 --report=r.json
    [ "$code" -eq 4 ]
    diff -u <(classes) - <<'END'
x0:0,3,5:
x3:1,4,6:no disk
x3:2:no net
x4:7:no disk
END
    has err "nacre: exit code 3: 1-2,4,6 | exit code 4: 7 | exit code 0: 0,3,5" "nacre:   1,4,6: exit code 3, after: no disk" \
      "nacre:   2: exit code 3, after: no net" "nacre:   7: exit code 4, after: no disk"
  done
}

# bats test_tags=long
@test "crashes of equal tasks are one class, with the module that they crashed in" {
  grep -q '^libdw_FOUND:INTERNAL=1' "$NACRE_BUILD_DIR/CMakeCache.txt" || skip "built without libdw"
  [[ $(cat /proc/sys/kernel/core_pattern) != "|"* ]] || skip "the kernel gives core dumps to a program"
  for shells in 1 2; do
    write_nodes $shells $((4 / shells))
    # The tasks crash one after the other, as their core dumps may share a file.
    write_jobspec 4 sh -c '[ $FLUX_TASK_RANK != 3 ] || exit 0; exec 9>lock; flock 9; echo broken >&2; kill -SEGV $$'
    code_of_job --local=$shells -o rlimit.core=-1 --report=r.json
    [ "$code" -eq 139 ] || { cat err; return 1; }
    jq -e '[.classes[] | select(.record == "s11+")] | length == 1 and .[0].ranks == "0-2" and .[0].last == "broken"
      and (.[0].module | test("libc"))' r.json || { cat r.json; return 1; }
  done
  write_nodes 1 1
  write_jobspec 1 sh -c 'kill -SEGV $$'
  code_of_job --local=1 -o rlimit.core=-1 --report=r.json
  file=$(jq -r .cause.core.file r.json)
  has err "nacre:   core dump: $file (in $(basename "$(jq -r .cause.core.module r.json)"))"
  jq -e --arg file "$file" '.left.files == [{host: "node0", rank: 0, file: $file}]' r.json
}

# bats test_tags=long
@test "processes that a task leaves behind are named, and ended" {
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    write_jobspec 4 sh -c 'if [ $FLUX_TASK_RANK = 3 ]; then setsid sleep 7654 & sleep 0.2; exit 3; fi'
    code_of_job --local=$shells --arity=2 --report=r.json
    [ "$code" -eq 3 ]
    jq -e --arg host node$((shells - 1)) '.left.processes | length == 1 and (.[0] | .name == "sleep" and .rank == 3 and .host == $host)' r.json ||
      { cat r.json; return 1; }
    pid=$(jq .left.processes[0].pid r.json)
    has err "nacre: outlived their tasks, and were ended: sleep (pid $pid, of task 3 on node$((shells - 1)))"
    [ ! -e "/proc/$pid" ]
  done
  # A task that dies of the job's end does not count as left behind.
  write_jobspec 4 sh -c 'if [ $FLUX_TASK_RANK = 3 ]; then sleep 0.2; exit 3; fi; sleep 7654 & wait'
  code_of_job --local=4 --arity=2 -o exit-on-error --report=r.json
  [ "$code" -eq 3 ]
  jq -e 'has("left") | not' r.json
}

# bats test_tags=long
@test "how far the cause was with PMI" {
  pmi() { write_jobspec 4 "$BATS_TEST_DIRNAME/pmi_client" "$@"; }
  for shells in 1 4; do
    write_nodes $shells $((4 / shells))
    pmi init barrier 2:touch:in 0,1,3:wait:never '2:send:cmd=barrier_in\n' 2:kill
    code_of_job --local=$shells --arity=2 --report=r.json
    [ "$code" -eq 137 ] || { cat err; return 1; }
    jq -e '.cause.rank == 2 and .cause.pmi == {by: "PMI-1", state: "connected", barrier: 2, last: "barrier_in"}' r.json || { cat r.json; return 1; }
    has err "nacre:   PMI-1: in barrier 2"
    pmi init '2:cmd=put kvsname=%k key=a value=b' 2:exit:4 0,1,3:wait:never
    code_of_job --local=$shells --report=r.json
    [ "$code" -eq 4 ]
    has err "nacre:   PMI-1: after init, its last request: put"
    pmi 0,1,3:init 0,1,3:touch:joined.%r 2:wait:joined.0 2:wait:joined.1 2:wait:joined.3 2:exit:5 0,1,3:wait:never
    code_of_job --local=$shells --report=r.json -o exit-on-error
    [ "$code" -eq 5 ]
    rm joined.*
    [ "$shells" -eq 4 ] || has err "nacre:   PMI-1: without init, which others have called" # of the task's node
    write_jobspec 4 sh -c '[ $FLUX_TASK_RANK != 2 ] || exit 5'
    code_of_job --local=$shells --report=r.json
    jq -e '.cause | has("pmi") | not' r.json
  done
}
