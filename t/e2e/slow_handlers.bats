#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Handlers that take longer than lost-after, on one of several shells: the job waits for them. Of four shells with
# --arity=2, 1 is between 0 and 3. The jobs of a test run side by side, as they mostly sleep.

load plugins.bash
load nodes.bash

# Starts the job $1 with the initrc on standard input, in which slow(TOPIC, SECONDS) adds a handler to shell $2.
start_job() {
  local name=$1
  { cat <<END
function slow (topic, seconds)
  local fn = function () if shell.info.rank == $2 then os.execute ("exec sleep " .. seconds) end end
  return { topic = topic, fn = fn }
end
END
    cat
  } >"$name.lua"
  shift 2
  mkdir "$TMPDIR/$name"
  TMPDIR=$TMPDIR/$name "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json --local=4 --arity=2 -o cpu-affinity=off \
    "$@" -- --initrc="$work/$name.lua" >"$name.out" 2>&1 3>&- &
  jobs[$name]=$!
}

# The job $1 has ended with code $2.
ended() {
  local code=0
  wait "${jobs[$1]}" || code=$?
  [ "$code" -eq "$2" ] || { echo "job $1 has exit code $code, not $2:"; cat "$1.out"; return 1; }
}

prints() { # job, text
  [ "$(cat "$1.out")" = "$2" ] || { echo "job $1 has printed:"; cat "$1.out"; return 1; }
}

setup_jobs() {
  declare -gA jobs=()
  write_nodes 4 1
  write_jobspec 4 "$@"
}

@test "at each topic, on the leader, an inner shell and a leaf" {
  setup_jobs true
  for rank in 0 1 3; do
    start_job "late.$rank" $rank -o lost-after=2s <<<'plugin.register { name = "slow", handlers = {
      slow ("shell.post-init", 3), slow ("task.init", 3), slow ("task.exec", 3), slow ("task.fork", 3), slow ("shell.start", 3),
      slow ("task.exit", 3), slow ("shell.finish", 3), slow ("shell.exit", 3) } }'
    # lost-after has not been read yet: these topics have its default.
    start_job "early.$rank" $rank <<<'if shell.info.rank == '$rank' then os.execute ("exec sleep 6") end
      plugin.register { name = "slow", handlers = { slow ("shell.init", 6) } }'
  done
  for name in "${!jobs[@]}"; do
    ended "$name" 0
    prints "$name" ""
  done
}

@test "in C too, and all shells at once, for longer than they live without a beat" {
  setup_jobs true
  build sleeps <<'END'
#include <stdlib.h>
#include <unistd.h>
static int on_topic(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  int rank = -1;
  int seconds[] = {15, 14, 0, 3};  // T_fence is 12; shell 3 is served by 1, and 1 by 0
  flux_shell_info_unpack(flux_plugin_get_shell(p), "{s:i}", "rank", &rank);
  for (int left = seconds[rank]; left > 0;) left = (int)sleep((unsigned)left);
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.post-init", on_topic, NULL); }
END
  start_job all 0 -o lost-after=2s <<<"plugin.load { file = '$work/sleeps.so' }"
  ended all 0
  grep -qxF "nacre-shell[0]: plugin 'sleeps' has been in shell.post-init for 10 s: the job waits for it (on node0)" all.out
  grep -qxE "nacre-shell\[1\]: plugin 'sleeps' goes on, after 1[45] s in shell.post-init \(on node1\)" all.out
  [ "$(wc -l <all.out)" -eq 4 ] || { cat all.out; return 1; }
}

@test "a signal meanwhile comes to the tasks below, whose shell the leader serves" {
  # Rank 1 ends once all shells have passed the barrier: a signal before that is kept for the tasks until then.
  setup_jobs sh -c 'if [ "$FLUX_TASK_RANK" = 1 ]; then
      for rank in 0 1 2 3; do while [ ! -e started.$rank ]; do sleep 0.2; done; done
      exit 0
    fi
    trap "touch got.$FLUX_TASK_RANK" USR1; exec 2>/dev/null; touch ready.$FLUX_TASK_RANK
    while [ ! -e go ]; do sleep 0.2; done'
  start_job late 9 -o lost-after=2s <<<'plugin.register { name = "slow", handlers = {
    { topic = "shell.start", fn = function () os.execute ("touch started." .. shell.info.rank) end },
    { topic = "task.exit", fn = function ()
      if shell.info.rank == 1 then os.execute ("touch begun; while [ ! -e go ]; do sleep 0.2; done") end end } } }'
  for file in begun ready.0 ready.2 ready.3; do wait_until test -e $file; done
  kill -USR1 "${jobs[late]}"
  for rank in 0 2 3; do wait_until test -e got.$rank; done
  touch go # the handler also waits for this
  ended late 0
}

@test "a shell that a signal stops in a handler is lost all the same" {
  setup_jobs sleep 1000
  for rank in 1 3; do
    start_job "stopped.$rank" 9 -o lost-after=2s <<<'plugin.register { name = "stops", handlers = { { topic = "shell.start",
      fn = function () if shell.info.rank == '$rank' then os.execute ("kill -STOP $PPID") end end } } }'
  done
  for rank in 1 3; do
    ended "stopped.$rank" 1
    grep -qF "shell $rank on node$rank is lost" "stopped.$rank.out"
  done
}

@test "once the job is being ended a handler is waited for, but for no longer than T_fence" {
  setup_jobs sleep 1000
  for rank in 1 3; do
    # Shell 2 fails once the slow shell has begun its shell.start: a shell that has started no tasks has no
    # shell.finish.
    fails='local name = "'$rank'.begun"
      function begin (seconds)
        local wait = "until [ -e "..seconds.."."..name.." ]; do sleep 0.1; done"
        local begin = "touch "..seconds.."."..name.."; exec sleep "..seconds
        return { topic = "shell.start", fn = function ()
          if shell.info.rank == '$rank' then os.execute (begin) end
          if shell.info.rank == 2 then os.execute (wait); error ("no luck") end end }
      end'
    start_job "hangs.$rank" 9 -o lost-after=2s <<<"$fails"'
      plugin.register { name = "slow", handlers = { begin (1000) } }'
    start_job "cleans.$rank" 9 -o lost-after=2s <<<"$fails"'
      plugin.register { name = "slow", handlers = { begin (0), { topic = "shell.finish", fn = function ()
        if shell.info.rank == '$rank' then os.execute ("sleep 6; touch cleaned.'$rank'") end end } } }'
  done
  for rank in 1 3; do
    for name in hangs cleans; do
      ended "$name.$rank" 1
      grep -qE "fatal: plugin 'slow': shell.start: .*: no luck \(on node2\)$" "$name.$rank.out"
      ! grep -F lost "$name.$rank.out" || false # the loss is only a consequence
    done
    [ -e cleaned.$rank ]
  done
}
