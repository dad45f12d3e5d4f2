// SPDX-License-Identifier: Apache-2.0
//
// What the command line says of how a job is to be run here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plugins/builtins.hpp"

namespace nacre::core {

struct ShellConfig {
  std::vector<std::string> options;     // OPT[=VAL], in order
  std::optional<std::string> initrc;    // none: the option `initrc`, else the installed one (not when standalone)
  std::optional<std::string> eventlog;  // none: guest.exec.eventlog of the job's record, if there is one
  std::optional<std::string> record_directory;  // made if it is not there
  int verbose = 0;                              // 1: debug, 2: trace
  bool exit_local = false;                      // exit with this shell's code, not the job's
  bool has_input = true;                        // the job's stdin, that of shell 0, is more than /dev/null
  bool explain = false;
  bool explain_plugins = false;   // instead of all: load the plugins, and print what was loaded
  std::string plugin_searchpath;  // of plugin.load
  std::string system_initrc;
  std::function<void(plugin::Host&)> load_builtins = plugins::load_builtins;  // before the initrc; for tests
};

}  // namespace nacre::core
