#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Shrinks that plugins ask for, in Lua and in C, from whichever shell.
load control.bash

idle='echo here $FLUX_TASK_RANK; while [ ! -e go ]; do sleep 0.2; done; echo done $FLUX_TASK_RANK'

# Writes a plugin of shell $1. When the shell's first task has ended it requests a shrink for each line of the file
# ask, which has the members of a table, and appends the answers to the file answer. Its first request is too early.
write_asker() {
  cat >rc.lua <<LUA
plugin.register { name = "asker", handlers = { { topic = "shell.start", fn = function()
  if shell.info.rank == $1 then shell.shrink ({ shells = "2" }, function (answer, why)
    local file = io.open ("early", "w")
    file:write (tostring (answer), " ", tostring (why), "\n")
    file:close ()
  end) end
end }, { topic = "task.exit", fn = function()
  if shell.info.rank ~= $1 or asked then return end
  asked = true
  for line in io.lines ("ask") do
    local what = load ("return {" .. line .. "}") ()
    shell.shrink (what, function (answer, why)
      local file = io.open ("answer", "a")
      local text = why
      if answer then text = "gone " .. answer.gone .. " on " .. answer.hosts .. ", unconfirmed '" .. answer.unconfirmed .. "'" end
      file:write (line, ": ", text, "\n")
      file:close ()
    end)
  end
end } } }
LUA
}

# One task of shell $1 ends when there is the file ask; the others idle.
asking() { echo "while [ ! -e ask ] && [ ! -e go ]; do sleep 0.2; done; [ \$FLUX_TASK_RANK != $(($1 * 2)) ] || exit 0; $idle"; }

# bats test_tags=long
@test "a Lua plugin of the leader, of an inner shell and of a leaf asks, and gets the answer that the verb gets" {
  local asker
  for asker in 0 1 4; do
    rm -f go ask answer early out err
    write_asker "$asker"
    start_job 5 2 "$(asking "$asker")" --arity=2 -- --initrc="$PWD/rc.lua"
    cat >ask.new <<'END'
shells = "0"
hosts = "nowhere"
count = 9
shells = "7"
hosts = "node3", tasks = "refuse"
shells = "2-3", signal = "KILL", grace = 3
END
    touch answer
    mv ask.new ask
    lines_come answer 6
    [ "$(sort answer)" = "count = 9: 4 shells can leave this job, not 9; shell 0, which leads it, stays
hosts = \"node3\", tasks = \"refuse\": shell 3 on node3 has tasks 6-7; tasks=end ends them
hosts = \"nowhere\": nowhere is no host of this job
shells = \"0\": shell 0 on node0 leads the job, and cannot leave it
shells = \"2-3\", signal = \"KILL\", grace = 3: gone 2-3 on node[2-3], unconfirmed ''
shells = \"7\": shell 7: the job has shells 0 to 4" ] || { cat answer err; return 1; }
    [ "$(<early)" = "nil the job is still being started" ] || { cat early; return 1; }
    touch go
    ends_with 0
    [ "$(grep -c '^done' out)" -eq 5 ] || { cat out; return 1; }
  done
}

# bats test_tags=long
@test "a shell that asks for its own end gets no answer but that it has left; the job goes on" {
  write_asker 2
  start_job 4 2 "$(asking 2)" --arity=2 -- --initrc="$PWD/rc.lua"
  touch answer
  echo 'shells = "2"' >ask.new
  mv ask.new ask # so that the task sees the whole file
  lines_come answer 1
  [ "$(<answer)" = 'shells = "2": this shell has left the job itself' ] || { cat answer err; return 1; }
  touch go
  ends_with 0
  [ "$(grep -c '^done' out)" -eq 6 ]
}

@test "what no shrink can be is an error of the Lua code" {
  local row
  write_nodes 2 1
  write_jobspec 2 true
  for row in "{}|shell.shrink: expected one of shells, hosts and count" "{ shells = '1', count = 1 }|shell.shrink: expected one of shells, hosts and count" \
    "{ shell = '1' }|shell.shrink: shell: unknown key; known: shells, hosts, count, signal, grace, tasks, force" "{ shells = 'x' }|shell.shrink: shells: " "{ shells = '1', signal = 'FOO' }|shell.shrink: signal: expected a signal such as TERM, got \"FOO\"" \
    "{ shells = '1', grace = -1 }|shell.shrink: grace: expected 0 to 86400 seconds, got -1" "{ shells = '1', tasks = 'x' }|shell.shrink: tasks: expected end or refuse, got \"x\"" \
    "{ count = 1 }, 'x'|shell.shrink: argument 2 (done): expected a function, got" "nil|shell.shrink: argument 1 (what): expected a table, got"; do
    echo "shell.shrink (${row%%|*})" >rc.lua
    run launch -R R.json -o cpu-affinity=off --local=2 -- --initrc="$PWD/rc.lua"
    [ "$status" -eq 1 ]
    [[ $output == *"rc.lua:1: ${row#*|}"* ]] || { echo "${row%%|*}: $output"; return 1; }
  done
}

# bats test_tags=long
@test "a C plugin asks from a shell that does not lead" {
  cat >asker.c <<'END'
#define FLUX_SHELL_PLUGIN_NAME "asker"
#include <flux/shell.h>
#include <stdio.h>
#ifndef NACRE_SHELL_HAVE_SHRINK
#error "no nacre_shell_shrink"
#endif

static void answered(flux_shell_t* shell, int errnum, const char* text, void* arg) {
  FILE* file = fopen("answer", "a");
  fprintf(file, "%s %d %s\n", (const char*)arg, errnum, text);
  fclose(file);
  (void)shell;
}

static int ask(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  int rank = -1;
  flux_shell_info_unpack(shell, "{s:i}", "rank", &rank);
  if (rank != 1) return 0;
  nacre_shell_shrink(shell, answered, "one", "{s:s s:i}", "hosts", "node2", "signal", 9);
  nacre_shell_shrink(shell, answered, "two", "{s:i}", "count", 7);
  (void)topic, (void)args, (void)data;
  return 0;
}

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "task.exit", ask, NULL); }
END
  # shellcheck disable=SC2046
  cc -shared -fPIC -I"$NACRE_SOURCE_DIR/shell/plugin/include" -o asker.so asker.c
  echo "plugin.load { file = '$PWD/asker.so' }" >rc.lua
  start_job 3 2 "$(asking 1)" -- --initrc="$PWD/rc.lua"
  touch answer ask
  lines_come answer 2
  [ "$(sort answer)" = 'one 0 {"gone":"2","hosts":"node2","unconfirmed":"","unconfirmed_hosts":""}
two 22 1 shells can leave this job, not 7; shell 0, which leads it, stays' ] || { cat answer err; return 1; }
  touch go
  ends_with 0
}
