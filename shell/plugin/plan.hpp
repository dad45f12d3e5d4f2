// SPDX-License-Identifier: Apache-2.0
//
// The plan of a job as text for users: what would run where, bound to what, which changes to the environment, which
// options there are and who has set them, and which plugins take part. Each shell makes its part; all parts become
// one plan, in which differences are marked with their hosts.
#pragma once

#include "plugin/host.hpp"

namespace nacre::plugin {

// What all shells have alike: where options come from.
struct PlanSources {
  Json jobspec;  // its shell options, an object
  Json given;    // the same with those of the command line
  // What the front end knows of the options that it has given, by their dotted paths; "": of all others.
  std::map<std::string, std::string> front;
};

struct PlanPartOptions {
  std::size_t most_tasks = std::numeric_limits<std::size_t>::max();  // the first ones of this shell
  // Whether the plan may have the value of a variable; unset: each may.
  std::function<bool(std::string_view name, std::string_view value)> shows;
};

// This shell's part: an object. To be called after `task.init` was called for each task. `files`: the Lua files
// that were run.
[[nodiscard]] Json plan_part(Host& host, const std::vector<std::string>& files,
                             const PlanPartOptions& options = {});

// brief: where tasks run, and the options; env: all but plugins and files.
enum class PlanDetail { brief, env, all };

// `parts`: by the rank of the shell, at least one; shells that are missing have been lost. `is_alone`: there is no
// other shell, whatever R has.
[[nodiscard]] std::string merged_plan(const job::Job& job, const PlanSources& sources,
                                      const std::map<std::uint32_t, Json>& parts, bool is_alone,
                                      PlanDetail detail = PlanDetail::all);

// One line of JSON: "asked": [OPTION, ...], the options that were asked for as the initrc was run; "plugins":
// [{"name", "origin", "topics": [...], "replaces_builtin"}, ...], in the order of the stack; and "read":
// [FILE, ...], the Lua files that were run. `builtins`: the names of all builtin plugins.
[[nodiscard]] std::string explain_plugins(Host& host, const std::set<std::string>& builtins,
                                          const std::vector<std::string>& files);

}  // namespace nacre::plugin
