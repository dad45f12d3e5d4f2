#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Jobs whose size changes (-N MIN:MAX): they start again with fewer tasks when a host is lost, and with more when others join.
# shellcheck disable=SC2154 # bats sets status, output
load plugins.bash
load replace.bash
load pmix.bash

setup_file() { build_ways; }

# What each task does first.
note='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.${NACRE_TASK_TRY:-1}"; '

grow() { "$front" grow --quiet "$@"; }

# Starts a job whose size may change, $1 as MIN:MAX, on $2 local shells. A task that fails ends it, unless its code
# is 77.
start_sized() { # MIN:MAX SHELLS, options, command
  rm -f out err shell.* in.* go
  run_ -l -N "$1" --local="$2" --restart="on-failure,scope=job,codes=77,${more:-backoff=0s}" -o cpu-affinity=off -o exit-on-error=off "${@:3}" >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
}

# Waits for the file `go`, prints its rank and the job's size, and ends with its rank as its code.
says_size='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"
  until [ -e go ]; do sleep 0.1; done
  echo "try $NACRE_TASK_TRY, restarts $NACRE_JOB_RESTARTS: $NACRE_TASK_RANK of $NACRE_JOB_SIZE on $NACRE_JOB_NNODES, $FLUX_TASK_RANK of $FLUX_JOB_SIZE on $FLUX_JOB_NNODES"
  exit "$NACRE_TASK_RANK"'

# $2 tasks run in try $1; once there is the file `go` they print that, after $3 restarts, and the job ends with the
# largest rank.
all_of_size() { # TRY TASKS RESTARTS
  local rank
  await_all "$1" "$2"
  touch go
  ends_with $(($2 - 1))
  for ((rank = 0; rank < $2; ++rank)); do
    echo "$rank: try $1, restarts $3: $rank of $2 on ${nodes:-$2}, $rank of $2 on ${nodes:-$2}"
  done >wanted
  diff wanted <(sort out) || { cat err; return 1; }
  nothing_left "^nacre-shell: $id"
}

await_all() { # TRY TASKS
  local rank
  for ((rank = 0; rank < $2; ++rank)); do wait_until test -e "shell.$rank.$1" || { cat err; return 1; }; done
}

says() { wait_until grep -qE "$1" err || { cat err; return 1; }; }

# The shell and the try of each rank, as nacre ps has them.
ranks_are() { [ "$("$front" ps --json | jq -r 'select(.rank != null) | "\(.rank):\(.shell):\(.try)"' | paste -sd' ')" = "$1" ] || { "$front" ps; return 1; }; }

# ---- fewer ----------------------------------------------------------------------------------------------------------

@test "without a loss it is as any other job: as many nodes as there are, at most MAX" {
  start_sized 2:4 4 sh -c "$says_size"
  all_of_size 1 4 0
  start_sized 2:4 3 sh -c "$says_size"
  all_of_size 1 3 0
  start_sized 2:4 6 sh -c "$says_size"
  all_of_size 1 4 0
  nodes=3 start_sized 2:4 3 --tasks-per-node=2 sh -c "$says_size"
  nodes=3 all_of_size 1 6 0
}

@test "a lost host: all start again with fewer tasks; the variables, the line, nacre jobs, the report, the eventlog" {
  start_sized 2:4 4 --report=report.json --eventlog=events sh -c "$says_size"
  lose 1 1
  await_all 2 3
  [ "$("$front" jobs --json | jq -c '[.tasks, .shells - .gone, .restarts]')" = "[3,3,1]" ] || { "$front" jobs --json; return 1; }
  ranks_are "0:0:2 1:2:2 2:3:2"
  all_of_size 2 3 1
  says "warn: node-failure: shell 1 on [^ ]+ is lost: .*; the job goes on with 3 tasks on 3 nodes \(-N 2:4\), in place of 4 on 4: all start again now \(restart 1 of 3\)"
  [ "$(grep -c " warn: " err)" -eq 1 ] || { cat err; return 1; }
  [ "$(jq -c '.timeline[] | select(.event == "resized") | [.cause, .shell, .tasks, .tasks_before, .nodes, .nodes_before, .shells]' report.json)" = \
    '["lost",1,3,4,3,4,"0,2-3"]' ] || { cat report.json; return 1; }
  [ "$(jq -c 'select(.name == "job.resized") | [.context.tasks, .context.cause]' events)" = '[3,"lost"]' ] || { cat events; return 1; }
}

@test "down to MIN, one after another; the next loss ends the job with one clear line" {
  start_sized 2:4 4 sh -c "$says_size"
  lose 3 1
  await_all 2 3
  lose 1 2
  await_all 3 2
  lose 1 3
  ends_with 1
  says "shell 2 on [^ ]+ is lost: .*; with it task 1, which is not started again: there is no spare left, and 1 node is left, and the job needs at least 2 \(-N 2:4\)"
  nothing_left "^nacre-shell: $id"
}

# In the second try; in the third one, if each of two losses has had its own.
rank_2_is_back() { test -s shell.2.2 || test -s shell.2.3; }

@test "several are lost at once" {
  start_sized 1:5 5 sh -c "$says_size"
  await_all 1 5
  kill -KILL "$(<shell.1.1)" "$(<shell.4.1)"
  says "the job goes on with 3 tasks on 3 nodes"
  wait_until rank_2_is_back # or the code of another task, which ends before the second loss is known
  until [ "$("$front" ps --json | jq -s '[.[] | select(.rank != null)] | length')" -eq 3 ]; do sleep 0.2; done
  touch go
  ends_with 2
  [ "$(sed 's/try [0-9], restarts [0-9]: //' out | sort | paste -sd,)" = "0: 0 of 3 on 3, 0 of 3 on 3,1: 1 of 3 on 3, 1 of 3 on 3,2: 2 of 3 on 3, 2 of 3 on 3" ] || { cat out err; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "one more is lost while all wait to start again, which is no other restart" {
  more=backoff=3s,max=1 start_sized 1:4 4 sh -c "$says_size"
  lose 1 1
  says "restart 1 of 1"
  kill -KILL "$(<shell.3.1)"
  says "goes on with 2 tasks on 2 nodes \(-N 1:4\), in place of 3 on 3: all start again in 3s \(restart 1 of 1\)"
  all_of_size 3 2 2
}

@test "tasks that fail start again in each size, and restarts count on; the exit code is that of the last tasks" {
  start_sized 2:4 4 sh -c "[ \"\$NACRE_TASK_TRY\$FLUX_TASK_RANK\" != 22 ] || exit 77; $says_size"
  lose 1 1
  says "rank 2 on .* exited with code 77: all tasks of the job start again now \(restart 2 of 3\)"
  all_of_size 3 3 2
  start_sized 2:4 4 sh -c "[ \"\$NACRE_TASK_TRY\" = 1 ] || exec sh -c '[ \$FLUX_TASK_RANK = 1 ] || exit 0; exit 5'; $says_size"
  lose 0 1
  ends_with 5
  [ ! -s out ] || { cat out; return 1; }
  nothing_left "^nacre-shell: $id"
}

@test "once a task has ended for good a loss ends the job, as nothing can start again" {
  start_sized 2:4 4 sh -c "echo \$PPID >pid.\$\$; mv pid.\$\$ shell.\$FLUX_TASK_RANK.\$NACRE_TASK_TRY; [ \$FLUX_TASK_RANK != 0 ] || exit 0; exec sleep 600"
  await_all 1 4
  until "$front" ps --json | jq -es 'all(.rank != 0)' >still_there; do sleep 0.1; done
  lose 2 1
  ends_with 1
  says "with it task 2, which is not started again: all tasks would have to start again, and task 0 has ended for good"
  nothing_left "^nacre-shell: $id"
}

@test "a range of tasks is one of nodes, with as many tasks on each" {
  rm -f shell.* go
  run_ -l -n 3:7 --tasks-per-node=2 --local=3 --restart=on-failure,scope=job,codes=77,backoff=0s -o cpu-affinity=off -o exit-on-error=off sh -c "$says_size" >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  await_all 1 6
  lose 2 1
  await_all 2 4
  says "goes on with 4 tasks on 2 nodes \(-N 2:3\), in place of 6 on 3"
  nodes=2 all_of_size 2 4 1
}

# ---- more -----------------------------------------------------------------------------------------------------------

@test "hosts that join: one restart with more tasks for each order, up to MAX; what is more is a spare, and the first to be used" {
  start_sized 2:4 2 --eventlog=events sh -c "$says_size"
  await_all 1 2
  grow --count=1
  await_all 2 3
  says "warn: restart: there are more nodes, and the job goes on with 3 tasks on 3 nodes \(-N 2:4\), in place of 2 on 2: all start again now$"
  grow --count=3
  await_all 3 4
  [ "$("$front" ps --json | jq -r 'select(.spare).shell' | paste -sd,)" = 4,5 ]
  lose 1 3
  await_all 4 4
  says "its task 1 starts again on the spare shell 4 .*restart 1 of 3"
  all_of_size 4 4 3
  [ "$(jq -c 'select(.name == "job.resized") | .context | [.tasks, .cause, .shell]' events | paste -sd' ')" = '[3,"joined",null] [4,"joined",null]' ] || { cat events; return 1; }
}

@test "less, more, less: shells that have joined know what there was before" {
  start_sized 1:3 3 sh -c "$says_size"
  lose 2 1
  await_all 2 2
  grow --count=1
  await_all 3 3
  lose 1 3
  await_all 4 2
  ranks_are "0:0:4 1:3:4"
  grow --count=1
  all_of_size 5 3 4
}

@test "a job that began with one shell gets more, by each way of tasks to their ranks, and loses some" {
  local way pmi
  for way in "${ways[@]}"; do
    pmi=simple,pmi2
    [ "$way" != PMIx ] || pmi=pmix
    start_sized 1:3 1 -o pmi=$pmi sh -c "$note exec '$BATS_FILE_TMPDIR/$way' size 0"
    all_in 0 1
    grow --count=2
    all_in 2 2
    lose 1 2
    all_in 1 3
    touch go
    ends_with 0 || { echo "$way"; cat err; return 1; }
    [ "$(sort out | paste -sd,)" = "0: 0 of 2,1: 1 of 2" ] || { echo "$way"; cat out err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

@test "by each way: the leader is lost, another one, and others join; all meet in a barrier, and know how many they are" {
  local way pmi
  for way in "${ways[@]}"; do
    pmi=simple,pmi2
    [ "$way" != PMIx ] || pmi=pmix
    start_sized 2:5 5 --tasks-per-node=2 -o pmi=$pmi sh -c "$note exec '$BATS_FILE_TMPDIR/$way' size 0"
    all_in 9 1
    lose 4 1
    all_in 7 2
    lose 0 2
    all_in 5 3
    touch go
    ends_with 0 || { echo "$way"; cat err; return 1; }
    [ "$(sort out | paste -sd,)" = "0: 0 of 6,1: 1 of 6,2: 2 of 6,3: 3 of 6,4: 4 of 6,5: 5 of 6" ] || { echo "$way"; cat out err; return 1; }
    nothing_left "^nacre-shell: $id"
  done
}

# ---- the leader -----------------------------------------------------------------------------------------------------

@test "leaders are lost one after another; the next ones know which sizes there were" {
  start_sized 2:5 5 sh -c "$says_size"
  lose 2 1
  await_all 2 4
  says "shell 2 on [^ ]+ is lost: .*; the job goes on with 4 tasks on 4 nodes"
  lose 0 2
  await_all 3 3
  says "the one on [^ ]+ leads it now"
  says "shell 0 on [^ ]+ is lost: .*; the job goes on with 3 tasks on 3 nodes \(-N 2:5\), in place of 4 on 4: all start again now \(restart 2 of 3\)"
  ranks_are "0:1:3 1:3:3 2:4:3"
  [ "$(grep -c "node-failure" err)" -eq 2 ] || { cat err; return 1; }
  all_of_size 3 3 2
}

# ---- what tasks and plugins get ------------------------------------------------------------------------------------

@test "torch's variables, and the store, which begins anew" {
  export PYTHONPATH=$NACRE_SOURCE_DIR/t/kit PYTHONDONTWRITEBYTECODE=1
  cat >task.py <<'END'
import os, time
from torch_store import Store
e = os.environ
rank, size, tries = int(e["RANK"]), int(e["WORLD_SIZE"]), e["NACRE_TASK_TRY"]
s = Store()
assert s.add("joined", 1) <= size
s.barrier("all", size)
assert s.add("joined", 0) == size
with open(f"pid.{os.getpid()}", "w") as f: print(os.getppid(), file=f)
os.rename(f"pid.{os.getpid()}", f"shell.{rank}.{tries}")
while not os.path.exists("go"): time.sleep(0.1)
print(*(e[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "NODE_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")))
END
  start_sized 2:4 4 --torch --tasks-per-node=2 python3 task.py
  await_all 1 8
  lose 2 1
  await_all 2 6
  grow --count=1
  await_all 3 8
  lose 1 3
  await_all 4 6
  touch go
  ends_with 0
  for rank in 0 1 2 3 4 5; do echo "$rank: $rank 6 $((rank % 2)) 2 $((rank / 2)) 3 $((rank / 2)) $rank 6 3"; done >wanted
  diff wanted <(sort out) || { cat err; return 1; }
}

@test "Slurm's variables are those of the job's new size" {
  export SLURM_JOB_ID=1
  start_sized 2:4 4 -o slurm-variables=on sh -c 'echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"; until [ -e go ]; do sleep 0.1; done
    echo "$SLURM_PROCID $SLURM_NTASKS $SLURM_NODEID $SLURM_STEP_NUM_NODES $SLURM_GTIDS"'
  lose 1 1
  await_all 2 3
  touch go
  ends_with 0
  [ "$(sort out | paste -sd,)" = "0: 0 3 0 3 0,1: 1 3 1 3 1,2: 2 3 2 3 2" ] || { cat out err; return 1; }
}

@test "the topic job.resized on all shells, in Lua and C, before the tasks start again; the shell's facts are the new ones" {
  build resized <<'END'
static int resized(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  int tasks, before, ntasks, rank;
  const char* cause;
  char name[64];
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:i s:i s:s}", "tasks", &tasks, "tasks_before", &before, "cause", &cause) < 0) return -1;
  if (flux_shell_info_unpack(shell, "{s:i s:i}", "ntasks", &ntasks, "rank", &rank) < 0) return -1;
  snprintf(name, sizeof name, "c.%d", rank);
  FILE* file = fopen(name, "a");
  fprintf(file, "%s %d %d %d %d\n", cause, tasks, before, ntasks, taskmap_total_ntasks(flux_shell_get_taskmap(shell)));
  fclose(file);
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "job.resized", resized, NULL); }
END
  cat >rc.lua <<END
plugin.load { file = '$work/resized.so' }
plugin.register { name = "sizes", handlers = { { topic = "job.resized", fn = function(topic, args)
  local file = io.open("lua." .. shell.info.rank, "a")
  file:write(topic, " ", args.cause, " ", args.tasks, " ", args.nodes, "\n")
  file:close()
end } } }
END
  start_sized 2:4 4 --initrc=rc.lua sh -c "$says_size"
  lose 1 1
  await_all 2 3
  grow --count=1
  all_of_size 3 4 2
  for shell in 0 2 3; do
    [ "$(paste -sd, "c.$shell")" = "lost 3 4 3 3,joined 4 3 4 4" ] || { cat c.*; return 1; }
    [ "$(paste -sd, "lua.$shell")" = "job.resized lost 3 3,job.resized joined 4 4" ] || { cat lua.*; return 1; }
  done
  [ "$(cat c.4)" = "joined 4 3 4 4" ]
}

@test "output, files by rank, usage, the log of tasks and notices have the last tasks; nothing of those before is taken for theirs" {
  start_sized 2:4 4 --joblog=joblog --usage=usage --notify=notices --output='out.{{task.rank}}' sh -c 'echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"
    printf "try $NACRE_TASK_TRY: "; until [ -e go ]; do sleep 0.1; done; echo "$FLUX_TASK_RANK"; exit "$FLUX_TASK_RANK"'
  await_all 1 4
  lose 1 1
  await_all 2 3
  touch go
  ends_with 2
  for rank in 0 1 2; do [ "$(tail -c 9 "out.$rank")" = "try 2: $rank" ] || { head out.*; return 1; }; done
  [ "$(tail -n +2 joblog | cut -f1,7 | sort | paste -sd' ')" = "$(printf '1\t0 2\t1 3\t2')" ] || { cat joblog; return 1; }
  [ "$(jq -c 'select(.type == "task") | .rank' usage | paste -sd,)" = 0,1,2 ] || { cat usage; return 1; }
  [ "$(jq -c 'select(.type == "summary") | [.tasks, .missing]' usage)" = '[3,null]' ] || [ "$(jq -c 'select(.type == "summary") | .tasks' usage)" = 3 ] || { cat usage; return 1; }
  [ "$(tail -n 1 notices | jq -c '[.n, .code, .failed]')" = "[3,2,2]" ] || { cat notices; return 1; }
}

# ---- a jobspec ------------------------------------------------------------------------------------------------------

@test "a jobspec with a range, as nacre run writes it: of numbers between not all, what is left is a spare" {
  jq -n '{version: 1, resources: [{type: "node", count: {min: 1, max: 4, operator: "*", operand: 2}, with: [{type: "slot", count: 1, label: "t", with: [{type: "core", count: 1}]}]}],
    tasks: [{command: ["sh", "-c", $ARGS.positional[0]], slot: "t", count: {per_slot: 1}}], attributes: {system: {duration: 0}}}' --args "$says_size" >jobspec.json
  rm -f shell.* go
  run_ -l -j jobspec.json --local=4 --restart=on-failure,scope=job,codes=77,backoff=0s --on-lost=replace -o resize -o oversubscribe -o cpu-affinity=off -o exit-on-error=off >out 2>err &
  launcher=$!
  await_all 1 4
  wait_until listed
  id=$("$front" jobs -q)
  lose 1 1
  await_all 2 2
  says "goes on with 2 tasks on 2 nodes \(-N 1-4:2:\*\), in place of 4 on 4"
  [ "$("$front" ps --json | jq -r 'select(.spare).shell' | paste -sd,)" = 3 ]
  lose 1 2 # the spare gets its place
  await_all 3 2
  says "its task 1 starts again on the spare shell 3"
  grow --count=1
  grow --count=1
  all_of_size 4 4 3
}

# ---- what does not go together --------------------------------------------------------------------------------------

refuses() { # WORDS, arguments
  run -1 run_ --local=2 "${@:2}" true
  [[ $output == *"$1"* ]] || { echo "$output"; return 1; }
  [ "$(wc -l <<<"$output")" -eq 1 ] || { echo "$output"; return 1; }
}

@test "what a range does not go with is one line, and exit code 1" {
  local restart=--restart=on-failure,scope=job
  refuses "-N 3:4, but there are 2 nodes: a smaller -N, more hosts (--hosts), or --local=3 for all on this one" -N 3:4 $restart
  refuses "-n 4, but -N 1:2: the number of tasks follows that of nodes: give --tasks-per-node instead" -N 1:2 -n 4 $restart
  refuses "-n 1:2: give --tasks-per-node=N, too: each node has as many tasks as the others" -n 1:2 $restart
  refuses "-n 1:2: give --tasks-per-node=N in place of -N, too" -n 1:2 -N 1:2 $restart
  refuses "-n 5:7, but --tasks-per-node=4: no number of nodes has as many" -n 5:7 --tasks-per-node=4 $restart
  refuses "-N 3:4, but there are 2 nodes" -n 6:8 --tasks-per-node=2 $restart
  refuses "-N 1:2 and spares: hosts that join beyond 2 nodes are some; leave out one of them" -N 1:2 --spares=1 $restart
  refuses "resize: all tasks start again when the job's size changes: give restart=on-failure,scope=job, too" -N 1:2
  refuses "resize: all tasks start again when the job's size changes: give restart=on-failure,scope=job, too" -N 1:2 --restart=on-failure
  refuses "resize: it is for jobs that go on without a lost host: give on-lost=replace, too" -N 1:2 $restart --on-lost=end
  refuses "resize: restart=...,where= names other places for tasks" -N 1:2 $restart,where=any
  refuses "resize: taskmap is for tasks whose ranks stay: leave out one of them" -N 1:2 $restart --taskmap=cyclic
  refuses "resize: taskmap is for tasks whose ranks stay" -N 1:2 $restart -o taskmap=manual:"1;0"
  refuses "resize: per-resource is for tasks whose ranks stay" -N 1:2 $restart -o per-resource.type=node
  refuses "resize: exit-main is for tasks whose ranks stay" -N 1:2 $restart -o exit-main=0
  refuses "at-most" -N 1:2 $restart --at-most=1
  refuses "resize: wrap names tasks, whose ranks change: leave out one of them" -N 1:2 $restart --wrap=0:env
  refuses "resize: the jobspec asks for one number of nodes" -N 2 $restart --on-lost=replace -o resize
  run -2 run_ -N 4:2 true
  [[ $output == *"MIN is larger than MAX in 4:2"* ]] || { echo "$output"; return 1; }
}
