// SPDX-License-Identifier: Apache-2.0
//
// Messages for users, by level, to any number of sinks. There is no global log: code that may log is given one.
#pragma once

#include "base/usual.hpp"

namespace nacre {

// The numbers are those of flux_shell_log(3), so that they can be passed on from C plugins.
enum class Level : int { quiet = -1, fatal = 0, error = 3, warn = 4, notice = 5, debug = 6, trace = 7 };

[[nodiscard]] std::string_view level_name(Level level);  // "fatal", "error", ...

struct LogEntry {
  Level level = Level::notice;
  std::string component;  // a plugin's name; empty for the shell itself
  std::string file;       // the place in the source; may be empty
  int line = 0;
  std::string message;                   // one line
  std::optional<std::uint32_t> shell{};  // the rank of the shell that has logged it, if it is another one
};

class Log {
 public:
  using Sink = std::function<void(const LogEntry&)>;

  // Messages above `level` are dropped before they are formatted. notice by default.
  void set_level(Level level) { level_ = level; }
  [[nodiscard]] Level level() const { return level_; }
  [[nodiscard]] bool wants(Level level) const { return static_cast<int>(level) <= static_cast<int>(level_); }

  // Sinks are called in the order in which they were added. A sink may log; it does not get its own messages.
  void add_sink(std::string name, Sink sink);
  void remove_sink(std::string_view name);  // a sink may remove itself: it is not called again
  // A sink also has its own level; quiet: it gets nothing. Returns false if there is no sink of this name.
  bool set_sink_level(std::string_view name, Level level);

  void post(LogEntry entry);

  template <typename... Args>
  void log(Level level, std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
    if (wants(level))
      post({level, std::string(component), {}, 0, fmt::format(format, std::forward<Args>(args)...)});
  }

 private:
  struct Named {
    std::string name;
    Sink sink;
    Level level = Level::trace;
    bool busy = false;
    bool removed = false;
  };

  Level level_ = Level::notice;
  std::list<Named> sinks_;
  int depth_ = 0;  // posts that are running; removed sinks are kept until there are none
};

// A message of the log as a line for people.

// "nacre-shell[3]: error: output: MESSAGE", without an end of line. `shell` is this shell's rank, for entries that
// name none; the level notice is left out.
[[nodiscard]] std::string log_line(const LogEntry& entry, std::uint32_t shell);

}  // namespace nacre
