// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

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
  sinks_.push_back(Named{std::move(name), std::move(sink), Level::trace, false});
}

void Log::remove_sink(std::string_view name) {
  std::erase_if(sinks_, [&](const Named& each) { return each.name == name; });
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
  for (std::size_t i = 0; i < sinks_.size(); ++i) {
    if (sinks_[i].busy || static_cast<int>(entry.level) > static_cast<int>(sinks_[i].level)) continue;
    sinks_[i].busy = true;
    sinks_[i].sink(entry);
    sinks_[i].busy = false;
  }
}

}  // namespace nacre
