#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# An initrc: each function and each table of it, as an initrc uses them.
load lib.bash
load initrc.bash

# ---- plugins ---------------------------------------------------------------------------

@test "plugin.searchpath is read, extended and replaced" {
  prepare 1 true
  make_plugin more/a
  run_rc <<END
local before = plugin.searchpath
plugin.searchpath = plugin.searchpath .. ":$work/more"
assert (plugin.searchpath == before .. ":$work/more")
plugin.load ("a.so")
plugin.searchpath = "$work"
shell.log (plugin.searchpath)
END
  says "nacre-shell[0]: test: a -" "nacre-shell[0]: initrc: $work"
}

@test "plugin.load takes a name, a path or a glob, as text or in a table" {
  prepare 1 true
  make_plugin p/b
  make_plugin p/a
  run_rc <<END
plugin.searchpath = "$work/p"
plugin.load ("b.so")
plugin.load { file = "a.so" }
plugin.load ("$work/p/b.so")
assert (plugin.load ("*.so") == 2)
assert (plugin.load { file = "none*.so" } == 0)
END
  says "nacre-shell[0]: test: "{"b -","a -","b -","a -","b -"}
}

# bats test_tags=long
@test "a plugin gets its conf, at any depth" {
  prepare 1 true
  make_plugin p/a
  run_rc <<END
plugin.load {
  file = "$work/p/a.so",
  conf = { on = true, level = 2, list = { "x", { y = { 1.5, {} } } } }
}
END
  says 'nacre-shell[0]: test: a {"level":2,"list":["x",{"y":[1.5,{}]}],"on":true}'
}

@test "plugin.register: several handlers, globs, and a plugin without a name" {
  prepare 2 true
  run_rc <<'END'
local seen = {}
plugin.register {
  name = "count",
  handlers = {
    { topic = "task.*", fn = function (topic) seen[topic] = (seen[topic] or 0) + 1 end },
    { topic = "shell.finish", fn = function () shell.log (seen["task.init"] .. seen["task.fork"] .. seen["task.exit"]) end }
  }
}
plugin.register {
  handlers = { { topic = "shell.init", fn = function (topic) shell.log (topic) end } }
}
END
  says "nacre-shell[0]: rc.lua:9: shell.init" "nacre-shell[0]: count: 222"
}

@test "a handler of all topics sees the whole life of a job" {
  prepare 1 true
  run_rc <<'END'
plugin.register { name = "all", handlers = { { topic = "*", fn = function (topic)
  if topic ~= "shell.log" then shell.log (topic) end
end } } }
END
  [ "$status" -eq 0 ]
  run sed 's/.*: //' <<<"$(grep -v task.exec <<<"$output")"
  says shell.init shell.post-init task.init task.fork shell.start task.exit job.tasks-exited shell.finish shell.tasks-complete shell.exit
}

@test "shell.log callbacks get the message, its level and where it is from" {
  prepare 1 true
  run_rc <<'END'
plugin.register { name = "keep", handlers = { { topic = "shell.log", fn = function (topic, args)
  local file = io.open ("kept", "a")
  file:write (args.level, " ", args.component, " ", args.message, " ", args.line, "\n")
  file:close ()
end } } }
shell.log ("one")
shell.log_error ("two")
END
  [ "$status" -eq 0 ]
  run cat kept
  says "5 initrc one 6" "3 initrc two 7"
}

@test "shell.lost callbacks get the rank of the shell and how grave it is, from whoever calls the topic" {
  prepare 1 true
  cat >plugin.c <<'END'
#define FLUX_SHELL_PLUGIN_NAME "loser"
#include <flux/shell.h>
static int init (flux_plugin_t *p, const char *topic, flux_plugin_arg_t *args, void *data)
{
    flux_plugin_arg_t *lost = flux_plugin_arg_create ();
    flux_plugin_arg_pack (lost, FLUX_PLUGIN_ARG_IN, "{s:i s:i}", "shell_rank", 3, "severity", 0);
    int called = flux_shell_plugstack_call (flux_plugin_get_shell (p), "shell.lost", lost);
    flux_plugin_arg_destroy (lost);
    return called;
}
int flux_plugin_init (flux_plugin_t *p) { return flux_plugin_add_handler (p, "shell.init", init, NULL); }
END
  cc -shared -fPIC -I"$NACRE_SOURCE_DIR/shell/plugin/include" -o loser.so plugin.c
  run_rc <<END
plugin.load ("$work/loser.so")
plugin.register { name = "finder", handlers = { { topic = "shell.lo[s]t", fn = function (topic, args)
  shell.log (string.format ("%s %d %d", topic, args.shell_rank, args.severity))
end } } }
END
  says "nacre-shell[0]: finder: shell.lost 3 0"
}

# ---- files -------------------------------------------------------------------------------

@test "source runs one file or all that match; source_if_exists may find none" {
  prepare 1 true
  mkdir d
  echo "shell.log ('a ' .. shell.rcpath)" >d/a.lua
  echo "shell.log ('b')" >d/b.lua
  run_rc <<'END'
source (shell.rcpath .. "/d/*.lua")
source ("d/a.lua")
source ("none/*.lua")
source_if_exists ("none.lua")
source_if_exists ("d/b.lua")
END
  says "nacre-shell[0]: initrc: "{"a $work/d",b,"a $work/d",b}
}

@test "source of what is not there, and a mistake in what is there, name file and line" {
  prepare 1 true
  run_rc <<<"source ('none.lua')"
  fails_with 1 "rc.lua:1: source: none.lua: No such file or directory"
  printf '\nx = = 1\n' >bad.lua
  run_rc <<<"source_if_exists ('bad.lua')"
  fails_with 1 "bad.lua:2: unexpected symbol near '='"
}

@test "shell.source_rcpath looks into lua.d and FLUX_SHELL_RC_PATH" {
  prepare 1 true
  mkdir lua.d site
  echo "shell.log ('here')" >lua.d/x.lua
  echo "shell.log ('there')" >site/y.lua
  FLUX_SHELL_RC_PATH=$work/site run_rc <<<"shell.source_rcpath ('*.lua')"
  says "nacre-shell[0]: initrc: "{here,there}
}

@test "a file for an option that the job lacks is not compiled" {
  prepare 1 true
  mkdir lua.d
  for begin in 'if shell.options.extra == nil then return end' 'if shell.options["extra"] == nil then return end -- or else'; do
    printf -- '-- A comment.\n\n%s\nthis is no Lua\n' "$begin" >lua.d/extra.lua
    run_rc <<<'shell.source_rcpath ("*.lua")'
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    run_rc -o extra <<<'shell.source_rcpath ("*.lua")'
    [[ $status -eq 1 && $output == *"lua.d/extra.lua:4:"* ]] || { echo "$output"; return 1; }
    run "$NACRE_BUILD_DIR/nacre" initrc check rc.lua
    [[ $status -eq 1 && $output == *"lua.d/extra.lua:4:"* ]] || { echo "$output"; return 1; }
  done
  for begin in 'if shell.options.extra == nil then return endless' 'if shell.options.extra ~= nil then return end' '--[[' \
    'if shell.options.extra == 1 or shell.options.other == nil then return end'; do
    printf '%s\nthis is no Lua\n' "$begin" >lua.d/extra.lua
    run_rc <<<'shell.source_rcpath ("*.lua")'
    [[ $status -eq 1 && $output == *"lua.d/extra.lua:"* ]] || { echo "$begin: $output"; return 1; }
  done
}

@test "shell.source_rcpath_option takes the file of a value, and of its version" {
  prepare 1 true
  mkdir -p lua.d/mpi
  echo "shell.log ('any')" >lua.d/mpi/some.lua
  echo "shell.log ('five')" >lua.d/mpi/some@5.lua
  echo "shell.source_rcpath_option ('mpi')" >rc.lua
  run nacre --initrc=rc.lua -o mpi=some@5
  says "nacre-shell[0]: initrc: "{any,five}
  run nacre --initrc=rc.lua -o mpi=some@4
  says "nacre-shell[0]: initrc: any"
  run nacre --initrc=rc.lua -o mpi=sum
  fails_with 1 "rc.lua:1: shell option mpi: unknown 'sum'; known: none, some, some@5"
}

@test "coprocess.define names a program that an option of the job starts" {
  prepare 1 true
  cat >rc.lua <<'END'
coprocess.define { name = "hello", command = { "echo", "hello" }, output = "hello-{{id}}.log" }
END
  run nacre --initrc=rc.lua
  says ""
  prepare 1 sh -c 'until [ -s mine.log ]; do sleep 0.1; done' # a job ends its coprocesses with its last task
  run nacre --initrc=rc.lua -o hello.output=mine.log
  [ "$status" -eq 0 ]
  [ "$(<mine.log)" = hello ]
}

@test "modules in C can be loaded" {
  lua5.4 -e "require 'cjson'" 2>/dev/null || skip "lua-cjson is not installed"
  prepare 1 true
  run_rc <<<"shell.log (require 'cjson'.encode ({ a = { 1, 2 } }))"
  says 'nacre-shell[0]: initrc: {"a":[1,2]}'
}

@test "the basename of require posix is there with and without lua-posix" {
  prepare 1 /usr/bin/true
  run_rc <<'END'
local basename = require 'posix'.basename
shell.log (basename (shell.info.jobspec.tasks[1].command[1]))
END
  says "nacre-shell[0]: initrc: true"
}

# ---- the job -------------------------------------------------------------------------------

@test "shell.info has the facts of the job" {
  write_R 4
  options='{"a": {"b": 1}}' write_jobspec 4 echo hi
  run_rc -o a.c=2 <<'END'
local info = shell.info
print (string.format ("job %d on %d nodes with %d tasks, shell %d", info.jobid, info.size, info.ntasks, info.rank))
print (type (info.jobid), info.service:match ("^%d+%-shell%-.") ~= nil, info.instance_owner == nil)
print (info.jobspec.tasks[1].command[2], info.jobspec.attributes.system.shell.options.a.b)
print (info.R.execution.R_lite[1].children.core, info.options.standalone)
END
  [ "$status" -eq 0 ]
  [[ ${lines[0]} == "job "[0-9]*" on 1 nodes with 4 tasks, shell 0" ]]
  [ "${lines[1]}" = $'string\ttrue\tfalse' ]
  [ "${lines[2]}" = $'hi\t1' ]
  [ "${lines[3]}" = $'0-3\ttrue' ]
}

@test "shell.rankinfo and shell.get_rankinfo have this shell's share" {
  cat >R.json <<'END'
{"version": 1, "execution": {"R_lite": [{"rank": "7", "children": {"core": "0-3", "gpu": "1"}}],
 "nodelist": ["node7"], "starttime": 0, "expiration": 0}}
END
  write_jobspec 2 true
  run_rc -o gpu-affinity=off <<'END'
for rank = 0, shell.info.size - 1 do
  local r = shell.get_rankinfo (rank)
  print (r.id, r.name, r.broker_rank, r.ntasks, r.taskids)
  print (r.resources.ncores, r.resources.cores, r.resources.gpus, r.resources.gpu)
end
assert (shell.rankinfo.name == shell.get_rankinfo (shell.info.rank).name)
END
  says $'0\tnode7\t7\t2\t0-1' $'4\t0-3\t1\t1'
}

@test "shell.options are read, set and checked, at any depth" {
  prepare 1 true
  run_rc -o my.enabled=true -o text=x <<'END'
assert (shell.options.my.enabled == true)
assert (shell.options.text == "x")
assert (shell.options["exit-timeout"] == nil)
shell.options["exit-timeout"] = "5m"
shell.options.my.level = { 1, 2 }
shell.options["my.other"] = "y"
local keys = {}
for key in pairs (shell.options.my) do keys[#keys + 1] = key end
table.sort (keys)
shell.log (table.concat (keys, " ") .. " " .. shell.options.my.level[2] .. " " .. shell.options["exit-timeout"])
END
  says "nacre-shell[0]: initrc: enabled level other 2 5m"
}

@test "an option that an initrc sets is what the builtin plugins read" {
  prepare 1 true
  run_rc <<<"if shell.options['exit-timeout'] == nil then shell.options['exit-timeout'] = 'soon' end"
  fails_with 1 "exit-timeout"
}

@test "shell.options.verbose and shell.verbose are how verbose the shell is" {
  prepare 1 true
  cat >rc.lua <<'END'
if shell.options.verbose > 0 then print ("verbose " .. shell.verbose) end
END
  run nacre --initrc=rc.lua
  says ""
  run nacre --initrc=rc.lua -o verbose=2
  [[ $output == *"verbose 2"* ]]
}

@test "shell.getopt_with_version parts an option from its version" {
  prepare 1 true
  run_rc -o mpi=openmpi@5 -o other=x <<'END'
print (shell.getopt_with_version ("mpi"))
print (shell.getopt_with_version ("other"))
print (shell.getopt_with_version ("none"))
END
  says $'openmpi\t5' x nil
}

@test "the environment of tasks: getenv, setenv, unsetenv, prepend_path, env_strip" {
  write_R 1
  environment='{"PATH": "/usr/bin:/bin", "KEEP": "1", "DROP": "1", "FOO_A": "1", "BAR_B": "1", "LIST": "/b"}' \
    write_jobspec 1 sh -c 'echo $KEEP ${DROP-gone} ${FOO_A-gone} ${BAR_B-gone} $LIST $NEW $PATH; env | grep -c "^RC_"'
  run_rc <<'END'
assert (shell.getenv ("KEEP") == "1" and shell.getenv ("NOPE") == nil)
shell.setenv ("KEEP", "2", false)
shell.setenv ("NEW", 7)
shell.unsetenv ("DROP")
shell.prepend_path ("LIST", "/a")
shell.env_strip ("^FOO_", "^BAR_")
local path = shell.getenv ("PATH") or ""
shell.setenv ("PATH", "/new:" .. path)
local count = 0
for key, value in pairs (shell.getenv ()) do
  if key == "KEEP" and value == "1" then shell.setenv ("RC_SEEN", value) end
end
END
  says "1 gone gone gone /a:/b 7 /new:/usr/bin:/bin" 1
}

@test "shell.log, shell.debug and shell.log_error" {
  prepare 1 true
  cat >rc.lua <<'END'
shell.log ("a note")
shell.debug ("for the curious")
shell.log_error ("an error")
END
  run nacre --initrc=rc.lua
  says "nacre-shell[0]: initrc: a note" "nacre-shell[0]: error: initrc: an error"
  run nacre --initrc=rc.lua -v
  [[ $output == *"nacre-shell[0]: debug: initrc: for the curious"* ]]
}

@test "shell.die ends the job, in an initrc and in a handler" {
  prepare 1 echo ran
  run_rc <<<"if not required then shell.die ('no foo') end"
  fails_with 1 "nacre-shell[0]: fatal: initrc: no foo"
  run_rc <<<"plugin.register { name = 'p', handlers = {{ topic = 'shell.init', fn = function () shell.die ('no') end }}}"
  fails_with 1 "nacre-shell[0]: fatal: p: no"
}

# ---- tasks ---------------------------------------------------------------------------------

@test "task.info, in each callback of a task" {
  prepare 3 sh -c '[ "$FLUX_TASK_RANK" != 1 ] || exit 3; [ "$FLUX_TASK_RANK" != 2 ] || kill -9 $$'
  run_rc <<'END'
local function note (text) io.open ("notes", "a"):write (text, "\n") end
plugin.register { name = "p", handlers = {
  { topic = "task.init", fn = function ()
      note (string.format ("init %d %d %s", task.info.rank, task.info.localid, tostring (task.info.pid)))
    end },
  { topic = "task.fork", fn = function () assert (task.info.pid > 0) end },
  { topic = "task.exit", fn = function ()
      local i = task.info
      note (string.format ("exit %d %d %s %d", i.rank, i.exitcode, tostring (i.signaled), i.wait_status))
    end },
} }
END
  [ "$status" -eq 137 ]
  run sort notes
  [ "$output" = "exit 0 0 0 0
exit 1 3 0 768
exit 2 137 9 9
init 0 0 nil
init 1 1 nil
init 2 2 nil" ]
}

@test "task.getenv, task.setenv and task.unsetenv change one task" {
  write_R 2
  environment='{"PATH": "/usr/bin:/bin", "GONE": "1"}' write_jobspec 2 sh -c 'echo $MINE $SET ${GONE-gone}'
  run_rc <<'END'
plugin.register { name = "p", handlers = { { topic = "task.init", fn = function ()
  task.setenv ("MINE", tostring (task.info.rank))
  task.setenv ("SET", task.getenv ("PATH"))
  task.setenv ("SET", "x", false)
  if task.info.rank == 0 then task.unsetenv ("GONE") end
end } } }
END
  [ "$status" -eq 0 ]
  run sort <<<"$output"
  says "0 /usr/bin:/bin gone" "1 /usr/bin:/bin 1"
}

@test "task.exec runs in the task's process" {
  prepare 1 cat /proc/self/oom_score_adj
  run_rc <<'END'
plugin.register { name = "oom", handlers = { { topic = "task.exec", fn = function ()
  local file = io.open ("/proc/self/oom_score_adj", "w")
  file:write ("1000\n")
  file:close ()
end } } }
END
  says 1000
}

@test "task.* outside of a task is an error" {
  prepare 1 true
  run_rc <<<"local path = task.getenv ('PATH')"
  fails_with 1 "rc.lua:1: task.getenv can only be used in a task.* callback"
}

# ---- the time limit ---------------------------------------------------------------------------

@test "lua-timeout ends a job whose Lua does not come back, and says where" {
  prepare 1 true
  run_rc -o lua-timeout=0.1s <<<"while true do pcall (function () while true do end end) end"
  fails_with 1 "nacre-shell[0]: fatal: initrc: rc.lua:1: this file takes longer than 100ms (shell option lua-timeout)"
  for topic in shell.init task.init task.exit shell.exit; do
    run_rc -o lua-timeout=0.1s <<END
plugin.register { name = "p", handlers = { { topic = "$topic", fn = function ()
  while true do end
end } } }
END
    fails_with 1 "fatal: p: rc.lua:2: $topic takes longer than 100ms"
  done
}
