// SPDX-License-Identifier: Apache-2.0
//
// What one shell has kept so far. While it is off, nothing is kept and nothing allocated: a call costs one `if`.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "timeline/event.hpp"

namespace nacre::timeline {

// Of this host, now.
[[nodiscard]] Time now();

class Recorder {
 public:
  static constexpr std::size_t kMostEvents = std::size_t{64} << 10;
  static constexpr std::size_t kForShell = 1024;  // of these, which events of ranks do not take
  static constexpr std::size_t kMostNames = 256;
  static constexpr std::size_t kMostName = 64;  // bytes of a name; what is longer is cut

  // When a shell begins it does not know yet whether it is to record: these three are kept for that.
  struct Early {
    Time booted = 0, joining = 0, joined = 0;
  };
  Early early;

  // From here on it keeps what happens, and what is in `early`.
  void turn_on();
  void turn_off();
  [[nodiscard]] bool is_on() const { return is_on_; }

  void add(Kind kind, std::uint32_t subject = 0, std::int64_t value = 0) {
    if (is_on_) keep({now(), value, subject, kind, 0});
  }
  void add(Kind kind, std::string_view name, std::uint32_t subject = 0) {
    if (is_on_) keep({now(), 0, subject, kind, index_of(name)});
  }
  void add_at(Time time, Kind kind, std::uint32_t subject = 0, std::string_view name = {}) {
    if (is_on_) keep({time, 0, subject, kind, index_of(name)});
  }

  // In the order in which they were kept, which need not be that of their times. When there are too many the newest
  // are dropped.
  [[nodiscard]] const std::vector<TimelineEvent>& events() const { return events_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

  // `act` is called before this shell enters the exit barrier, and closes the way by which it sends bulk data.
  void when_closing(std::function<void()> act) { on_closing_ = std::move(act); }
  void closing() {
    if (on_closing_) on_closing_();
  }

 private:
  void keep(const TimelineEvent& event);
  std::uint16_t index_of(std::string_view name);

  bool is_on_ = false;
  std::vector<TimelineEvent> events_;
  std::vector<std::string> names_;
  std::uint64_t dropped_ = 0;
  std::function<void()> on_closing_;
};

}  // namespace nacre::timeline
