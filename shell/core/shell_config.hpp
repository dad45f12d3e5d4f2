// SPDX-License-Identifier: Apache-2.0
//
// How the command line wants a job to be run here.
#pragma once

#include "plugin/host.hpp"
#include "plugin/plan.hpp"
#include "plugins/builtins.hpp"

namespace nacre::core {

struct ShellConfig {
  std::vector<std::string> options;                   // OPT[=VAL], in order
  std::map<std::string, std::string> option_sources;  // of some options, who has set them, for `explain`
  std::optional<std::string> initrc;    // none: the option `initrc`, else the installed one (not when standalone)
  std::optional<std::string> eventlog;  // none: guest.exec.eventlog of the job's record, if there is one
  std::optional<std::string> record_directory;  // made if it is missing
  int verbose = 0;                              // 1: debug, 2: trace
  bool quiet = false;                           // nothing but warnings and errors
  bool exit_local = false;                      // exit with this shell's code, not the job's
  bool has_input = true;                        // the job's stdin, which is shell 0's, is not /dev/null
  bool detaches = false;                        // the job detaches once it runs: nacre run -d
  bool may_be_left = false;                     // its launcher is on a terminal, by which it can be left
  bool at_terminal = false;                     // the job's messages come out on a terminal
  bool explain = false;
  plugin::PlanDetail explain_detail = plugin::PlanDetail::all;
  bool explain_plugins = false;   // only load the plugins, and print what was loaded
  std::string plugin_searchpath;  // for plugin.load
  std::string system_initrc;
  std::string site_initrc;       // in place of system_initrc, where it is there; the lua.d of that one comes last
  std::string mandatory_initrc;  // run before any other initrc, or without one, if the file is there
  std::string library;           // of Lua: the directory of nacre.lua
  // Called before the initrc; tests set another
  std::function<void(plugin::Host&)> load_builtins = plugins::load_builtins;
};

}  // namespace nacre::core
