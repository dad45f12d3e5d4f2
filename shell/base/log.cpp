// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include "base/text.hpp"

namespace nacre {

std::string_view level_name(Level level) {
  switch (level) {
    case Level::quiet: return "quiet";
    case Level::fatal: return "fatal";
    case Level::error: return "error";
    case Level::warn: return "warn";
    case Level::notice: return "notice";
    case Level::debug: return "debug";
    case Level::trace: return "trace";
  }
  return "unknown";
}

void Log::add_sink(std::string name, Sink sink) {
  sinks_.push_back(Named{std::move(name), std::move(sink), Level::trace, false, false});
}

void Log::remove_sink(std::string_view name) {
  for (Named& each : sinks_) each.removed = each.removed || each.name == name;
  if (depth_ == 0) sinks_.remove_if([](const Named& each) { return each.removed; });
}

bool Log::set_sink_level(std::string_view name, Level level) {
  bool found = false;
  for (Named& each : sinks_) {
    if (each.name != name) continue;
    each.level = level;
    found = true;
  }
  return found;
}

void Log::post(LogEntry entry) {
  if (!wants(entry.level)) return;
  entry.message = escape_controls(entry.message);
  ++depth_;
  for (Named& each : sinks_) {
    if (each.busy || each.removed || static_cast<int>(entry.level) > static_cast<int>(each.level)) continue;
    each.busy = true;
    each.sink(entry);
    each.busy = false;
  }
  if (--depth_ == 0) sinks_.remove_if([](const Named& each) { return each.removed; });
}

// ---- log line ---------------------------------------------------------------------------

std::string log_line(const LogEntry& entry, std::uint32_t shell) {
  std::string line = fmt::format("nacre-shell[{}]: ", entry.shell.value_or(shell));
  if (entry.level != Level::notice) line += fmt::format("{}: ", level_name(entry.level));
  if (!entry.component.empty()) line += entry.component + ": ";
  return line + entry.message;
}

}  // namespace nacre
