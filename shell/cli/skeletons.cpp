// SPDX-License-Identifier: Apache-2.0
#include "cli/plugin_verb.hpp"

#include "base/text.hpp"
#include "version.hpp"

namespace nacre::cli {
namespace {

constexpr std::string_view kC =
    R"(/* @NAME@: says how many tasks there are, greets each of them, and logs how it ended.
 *
 *   -o @NAME@.greeting=TEXT    what each task finds in the variable GREETING; hello by default
 */

/* The name of this plugin, for the log macros; to be defined before the include. */
#define FLUX_SHELL_PLUGIN_NAME "@NAME@"
@API@

#include <sys/wait.h>

static const char* greeting = "hello";

/* Once, before tasks are started: the place to read options, and to refuse what makes no sense. */
static int on_init(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  int ntasks;

  (void)topic, (void)args, (void)data; /* every handler gets them; these need none */

  /* 1: the option is set; 0: it is not, and `greeting` stays as it is; -1: it is no string. */
  if (flux_shell_getopt_unpack(shell, "@NAME@.greeting", "s", &greeting) < 0) {
    shell_log_error("@NAME@.greeting: expected a string");
    return -1; /* a handler that fails, fails the job */
  }
  if (flux_shell_info_unpack(shell, "{s:i}", "ntasks", &ntasks) < 0) return shell_log_errno("cannot count tasks");
  shell_log("%s, %d tasks", greeting, ntasks);
  return 0;
}

/* For each task before it is started: the place to change its command and environment. */
static int on_task_init(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_task_t* task = flux_shell_current_task(flux_plugin_get_shell(p));

  (void)topic, (void)args, (void)data;

  if (flux_cmd_setenvf(flux_shell_task_cmd(task), 1, "GREETING", "%s", greeting) < 0)
    return shell_log_errno("cannot set GREETING"); /* logs, and returns -1 */
  return 0;
}

/* For each task when it has ended. */
static int on_task_exit(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_task_t* task = flux_shell_current_task(flux_plugin_get_shell(p));
  int rank, status;

  (void)topic, (void)args, (void)data;

  if (flux_shell_task_info_unpack(task, "{s:i s:i}", "rank", &rank, "wait_status", &status) < 0)
    return shell_log_errno("cannot tell how the task ended");
  if (WIFSIGNALED(status))
    shell_log("task %d was killed by signal %d", rank, WTERMSIG(status));
  else
    shell_log("task %d exited with %d", rank, WEXITSTATUS(status));
  return 0;
}

static const struct flux_plugin_handler handlers[] = {
    {"shell.init", on_init, NULL},
    {"task.init", on_task_init, NULL},
    {"task.exit", on_task_exit, NULL},
    {NULL, NULL, NULL},
};

/* The one symbol that a plugin exports: called once, when the plugin has been loaded. */
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, handlers); }
)";

constexpr std::string_view kCpp =
    R"(// @NAME@: says how many tasks there are, greets each of them, and logs how it ended.
//
//   -o @NAME@.greeting=TEXT    what each task finds in the variable GREETING; hello by default

// The name of this plugin, for the log macros; to be defined before the include.
#define FLUX_SHELL_PLUGIN_NAME "@NAME@"
@API@

#include <sys/wait.h>

#include <string>

namespace {

std::string greeting = "hello";

// Once, before tasks are started: the place to read options, and to refuse what makes no sense.
int on_init(flux_plugin_t* p, const char*, flux_plugin_arg_t*, void*) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  const char* text = nullptr;
  int ntasks = 0;

  // 1: the option is set; 0: it is not, and `text` stays as it is; -1: it is no string.
  if (flux_shell_getopt_unpack(shell, "@NAME@.greeting", "s", &text) < 0) {
    shell_log_error("@NAME@.greeting: expected a string");
    return -1;  // a handler that fails, fails the job
  }
  if (text != nullptr) greeting = text;
  if (flux_shell_info_unpack(shell, "{s:i}", "ntasks", &ntasks) < 0) return shell_log_errno("cannot count tasks");
  shell_log("%s, %d tasks", greeting.c_str(), ntasks);
  return 0;
}

// For each task before it is started: the place to change its command and environment.
int on_task_init(flux_plugin_t* p, const char*, flux_plugin_arg_t*, void*) {
  flux_shell_task_t* task = flux_shell_current_task(flux_plugin_get_shell(p));
  if (flux_cmd_setenvf(flux_shell_task_cmd(task), 1, "GREETING", "%s", greeting.c_str()) < 0)
    return shell_log_errno("cannot set GREETING");  // logs, and returns -1
  return 0;
}

// For each task when it has ended.
int on_task_exit(flux_plugin_t* p, const char*, flux_plugin_arg_t*, void*) {
  flux_shell_task_t* task = flux_shell_current_task(flux_plugin_get_shell(p));
  int rank = 0;
  int status = 0;
  if (flux_shell_task_info_unpack(task, "{s:i s:i}", "rank", &rank, "wait_status", &status) < 0)
    return shell_log_errno("cannot tell how the task ended");
  if (WIFSIGNALED(status))
    shell_log("task %d was killed by signal %d", rank, WTERMSIG(status));
  else
    shell_log("task %d exited with %d", rank, WEXITSTATUS(status));
  return 0;
}

const flux_plugin_handler handlers[] = {
    {"shell.init", on_init, nullptr},
    {"task.init", on_task_init, nullptr},
    {"task.exit", on_task_exit, nullptr},
    {nullptr, nullptr, nullptr},
};

}  // namespace

// The one symbol that a plugin exports, outside of any namespace; <flux/shell.h> declares it extern "C". Called
// once, when the plugin has been loaded. No exception may leave a handler.
int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, handlers); }
)";

constexpr std::string_view kLua =
    R"(-- @NAME@: says how many tasks there are, greets each of them, and logs how it ended.
--
--   -o @NAME@.greeting=TEXT    what each task finds in the variable GREETING; hello by default

local greeting = "hello"

-- Once, before tasks are started: the place to read options, and to refuse what makes no sense.
local function on_init ()
  local options = shell.options["@NAME@"]
  if options then greeting = options.greeting or greeting end
  if type (greeting) ~= "string" then
    return false, "@NAME@.greeting: expected a string" -- a handler that fails, fails the job
  end
  shell.log (string.format ("%s, %d tasks", greeting, shell.info.ntasks))
end

-- For each task before it is started: the place to change its environment.
local function on_task_init ()
  task.setenv ("GREETING", greeting)
end

-- For each task when it has ended. `task.info` is there in task.* handlers only.
local function on_task_exit ()
  local info = task.info
  if (info.signaled or 0) ~= 0 then
    shell.log (string.format ("task %d was killed by signal %d", info.rank, info.signaled))
  else
    shell.log (string.format ("task %d exited with %d", info.rank, info.exitcode))
  end
end

plugin.register {
  name = "@NAME@",
  handlers = {
    { topic = "shell.init", fn = on_init },
    { topic = "task.init", fn = on_task_init },
    { topic = "task.exit", fn = on_task_exit },
  },
}
)";

constexpr std::string_view kMakefile = R"(# make            builds @FILE@
# make check      builds it, and runs a job with it
# make install    puts it where every job of this machine loads it; PREFIX and DESTDIR as usual
# make clean
PLUGIN = @FILE@

# It looks where the nacre is installed that is found first, after PKG_CONFIG_PATH. It is expanded here, as for each
# $(shell) make 4.4 expands what is below and in the environment as well, which needs it.
PKG_CONFIG := PKG_CONFIG_PATH="$$PKG_CONFIG_PATH:$(dir $(realpath $(shell command -v nacre)))@PKGCONFIG@" pkg-config
@FLAGS@ = -O2 -g -Wall -Wextra
CPPFLAGS = $(shell $(PKG_CONFIG) --cflags nacre-shell)
PREFIX = $(abspath $(shell $(PKG_CONFIG) --variable=prefix nacre-shell))
PLUGINPATH = $(shell $(PKG_CONFIG) --define-variable=prefix=$(PREFIX) --variable=pluginpath nacre-shell)

all: $(PLUGIN)

# The functions of <flux/...> are in nacre-shell itself: there is no library to link with.
$(PLUGIN): @SOURCE@
	$(@COMPILER@) $(CPPFLAGS) $(@FLAGS@) -fPIC -shared $(LDFLAGS) -o $@ $<

check: all
	sh test.sh

install: all
	install -D -m 755 $(PLUGIN) $(DESTDIR)$(PLUGINPATH)/$(PLUGIN)

clean:
	$(RM) $(PLUGIN)

.PHONY: all check install clean
)";

constexpr std::string_view kLuaMakefile = R"(# make check      runs a job with it
# make install    puts it where every job of this machine sources it; RCPATH and DESTDIR for another place
PLUGIN = @FILE@

# It looks where the nacre is installed that is found first, after PKG_CONFIG_PATH. It is expanded here, as for each
# $(shell) make 4.4 expands what is below and in the environment as well, which needs it.
PKG_CONFIG := PKG_CONFIG_PATH="$$PKG_CONFIG_PATH:$(dir $(realpath $(shell command -v nacre)))@PKGCONFIG@" pkg-config
RCPATH = $(abspath $(shell $(PKG_CONFIG) --variable=rcpath nacre-shell))

# There is nothing to build, and nothing to clean.
all:

check: all
	sh test.sh

install: all
	install -D -m 644 $(PLUGIN) $(DESTDIR)$(RCPATH)/lua.d/$(PLUGIN)

clean:

.PHONY: all check install clean
)";

constexpr std::string_view kTest = R"sh(#!/bin/sh
# Runs the job of test/ with the plugin in a real nacre-shell, and compares what it prints and its exit code.
# NACRE_SHELL is the program, if it is not the one in PATH.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Without cpu-affinity this machine need not have the cores of R.json; without exit-report the shell does not name task 1, which fails.
"${NACRE_SHELL:-nacre-shell}" --standalone --initrc="$here/test/initrc.lua" -j "$here/test/jobspec.json" \
  -R "$here/test/R.json" -o cpu-affinity=off -o exit-report=off -o @NAME@.greeting="good day" >"$work/output" 2>&1
code=$?

# Lines of several tasks come in any order.
LC_ALL=C sort "$work/output" >"$work/sorted"
diff "$here/test/expected" "$work/sorted" || { echo "test.sh: FAILED: < expected, > printed" >&2; exit 1; }
[ "$code" -eq 1 ] || { echo "test.sh: FAILED: exit code $code, expected 1, that of task 1" >&2; exit 1; }
echo "test.sh: passed"
)sh";

constexpr std::string_view kTestJobspec = R"({
  "version": 1,
  "resources": [{"type": "slot", "count": 2, "label": "task", "with": [{"type": "core", "count": 1}]}],
  "tasks": [
    {
      "command": ["sh", "-c", "echo task $FLUX_TASK_RANK: $GREETING; exit $FLUX_TASK_RANK"],
      "slot": "task",
      "count": {"per_slot": 1}
    }
  ],
  "attributes": {"system": {"duration": 0, "environment": {"PATH": "/usr/bin:/bin"}}}
}
)";

constexpr std::string_view kTestResources = R"({
  "version": 1,
  "execution": {
    "R_lite": [{"rank": "0", "children": {"core": "0-1"}}],
    "nodelist": ["localhost"],
    "starttime": 0,
    "expiration": 0
  }
}
)";

constexpr std::string_view kExpected = R"(nacre-shell[0]: @NAME@: good day, 2 tasks
nacre-shell[0]: @NAME@: task 0 exited with 0
nacre-shell[0]: @NAME@: task 1 exited with 1
task 0: good day
task 1: good day
)";

constexpr std::string_view kReadme = R"(# @NAME@

A plugin for nacre-shell. `@SOURCE@` is all of it; `test.sh` runs the job of `test/` with it.

```console
$ make check
$ nacre plugin check @FILE@
$ make install
```

Options of a job:

| option | meaning |
|---|---|
| `@NAME@.greeting=TEXT` | what each task finds in the variable `GREETING`; `hello` by default |

`make` asks `pkg-config` where nacre-shell's headers are, and where plugins go: those of the `nacre` that is found first in `PATH`, unless
`PKG_CONFIG_PATH` has others. The topics and functions that a plugin can use are in **nacre-shell-plugins**(7).
)";

struct Kind {
  std::string_view suffix;  // of the source
  std::string_view source;
  std::string_view makefile;
  std::string_view compiler;  // names of make's variables
  std::string_view flags;
  std::string_view initrc;
};

Kind kind_of(Language language) {
  constexpr std::string_view kLoad = "plugin.load { file = shell.rcpath .. \"/../@FILE@\" }\n";
  switch (language) {
    case Language::c: return {".c", kC, kMakefile, "CC", "CFLAGS", kLoad};
    case Language::cpp: return {".cpp", kCpp, kMakefile, "CXX", "CXXFLAGS", kLoad};
    case Language::lua: break;
  }
  return {".lua", kLua, kLuaMakefile, "", "", "source (shell.rcpath .. \"/../@FILE@\")\n"};
}

void replace_all(std::string& text, std::string_view tag, std::string_view value) {
  for (std::size_t at = text.find(tag); at != std::string::npos; at = text.find(tag, at + value.size())) {
    text.replace(at, tag.size(), value);
  }
}

bool is_name_byte(char each) {
  return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '_' || each == '-';
}

}  // namespace

std::optional<Language> language_named(std::string_view name) {
  if (name == "c") return Language::c;
  if (name == "c++") return Language::cpp;
  if (name == "lua") return Language::lua;
  return std::nullopt;
}

Result<void> check_plugin_name(std::string_view name) {
  bool good = !name.empty() && name.size() <= kMaxPluginName && name[0] != '-' && name[0] != '_' &&
              std::all_of(name.begin(), name.end(), is_name_byte);
  if (good) return {};
  return invalid(
      fmt::format("NAME: expected at most {} of a-z, 0-9, _ and -, the first a letter or a digit, got {}",
                  kMaxPluginName, in_quotes(name)));
}

std::vector<SkeletonFile> skeleton(Language language, const std::string& name) {
  Kind kind = kind_of(language);
  std::string source = name + std::string(kind.suffix);
  std::string file = language == Language::lua ? source : name + ".so";
  std::vector<SkeletonFile> files = {{source, std::string(kind.source)},
                                     {"Makefile", std::string(kind.makefile)},
                                     {"README.md", std::string(kReadme)},
                                     {"test.sh", std::string(kTest)},
                                     {"test/initrc.lua", std::string(kind.initrc)},
                                     {"test/jobspec.json", std::string(kTestJobspec)},
                                     {"test/R.json", std::string(kTestResources)},
                                     {"test/expected", std::string(kExpected)}};
  for (SkeletonFile& each : files) {
    replace_all(each.text, "@API@", "#include <flux/shell.h>");  // no include of this file
    replace_all(each.text, "@PKGCONFIG@", kPkgConfigFromHere);
    replace_all(each.text, "@NAME@", name);
    replace_all(each.text, "@SOURCE@", source);
    replace_all(each.text, "@FILE@", file);
    replace_all(each.text, "@COMPILER@", kind.compiler);
    replace_all(each.text, "@FLAGS@", kind.flags);
  }
  return files;
}

}  // namespace nacre::cli
