// SPDX-License-Identifier: Apache-2.0
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "base/file.hpp"
#include "cli/shell_arguments.hpp"
#include "shell.hpp"
#include "version.hpp"

namespace {

using namespace nacre;  // NOLINT

// A terminal that is lent to a task takes all as it is.
const char* line_end() {
  termios modes{};
  bool raw = ::tcgetattr(STDERR_FILENO, &modes) == 0 && (modes.c_oflag & OPOST) == 0;
  return raw ? "\r\n" : "\n";
}

void log_to_stderr(Log& log, std::uint32_t shell_rank) {
  log.add_sink("stderr", [shell_rank](const LogEntry& entry) {
    std::string line = fmt::format("nacre-shell[{}]: ", shell_rank);
    if (entry.level != Level::notice) line += fmt::format("{}: ", level_name(entry.level));
    if (!entry.component.empty()) line += entry.component + ": ";
    line += entry.message + line_end();
    // One write, so that lines of several shells stay whole. There is nobody to tell if it fails.
    static_cast<void>(write_all(STDERR_FILENO, line));
  });
}

Result<int> run(cli::ShellArguments&& arguments, Log& log) {
  boot::Identity identity = TRY(boot::standalone(arguments.boot));
  log_to_stderr(log, identity.shell_rank);
  ShellConfig config;
  config.options = std::move(arguments.options);
  config.initrc = std::move(arguments.initrc);
  config.eventlog = std::move(arguments.eventlog);
  config.record_directory = std::move(arguments.record_directory);
  config.verbose = arguments.verbose;
  config.explain = arguments.explain;
  config.explain_plugins = arguments.explain_plugins;
  config.plugin_searchpath = kPluginPath;
  config.system_initrc = kSystemInitrc;
  auto shell = TRY(Shell::create(std::move(identity), std::move(config), log));
  return shell->run();
}

}  // namespace

int main(int argc, char** argv) {
  auto parsed = cli::parse_shell_arguments(argc, argv);
  if (auto* reply = std::get_if<cli::Reply>(&parsed)) {
    std::fputs(reply->text.c_str(), reply->exit_code == 0 ? stdout : stderr);
    return reply->exit_code;
  }
  Log log;
  Result<int> code = run(std::get<cli::ShellArguments>(std::move(parsed)), log);
  if (code) return *code;
  fmt::print(stderr, "nacre-shell: {}\n", code.error().message);
  return 1;
}
