// SPDX-License-Identifier: Apache-2.0
//
// Dumps of torch's Flight Recorder, which has the collectives that a process has called: each process of the
// tasks that has been started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE is asked for one, by a byte for its FIFO,
// and what it then writes to its file is read. No others are asked, and for nothing is waited longer than
// kMostTime.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/collectives.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

class FlightDumps {
 public:
  static constexpr event::Seconds kMostTime{5};
  static constexpr event::Seconds kPeriod{0.1};        // from one look at the files to the next
  static constexpr std::size_t kMostProcesses = 1024;  // of this shell that are asked

  explicit FlightDumps(plugin::Host& host) : host_(host) {}

  // Asks. `done` is called once, from the loop, unless there is nobody to ask.
  void start(std::function<void()> done);
  [[nodiscard]] bool has_asked() const { return !pipes_.empty(); }
  [[nodiscard]] bool is_done() const { return open_.empty(); }
  [[nodiscard]] std::vector<doctor::CollectiveLog> logs() { return std::move(logs_); }
  [[nodiscard]] const std::set<std::string>& notes() const { return notes_; }

 private:
  // What tells a file from what it was before.
  struct Stamp {
    std::int64_t seconds = 0, nanoseconds = 0;
    std::uint64_t inode = 0;
    std::int64_t size = -1;  // there is none
    bool operator==(const Stamp&) const = default;
  };
  struct Asked {
    std::uint32_t rank = 0;
    std::uint32_t torch_rank = 0;
    std::string file;  // as this process reaches it
    Stamp before;
    Stamp seen;         // at the last look
    std::string error;  // of what has been read so far
  };

  void ask(std::uint32_t rank, pid_t pid);
  [[nodiscard]] static Stamp stamp_of(const std::string& file);
  void look();
  [[nodiscard]] bool take(Asked& asked);
  void give_up();

  plugin::Host& host_;
  std::function<void()> done_;
  std::vector<Asked> open_;
  std::set<std::string> pipes_;  // that have been written to
  std::vector<doctor::CollectiveLog> logs_;
  std::set<std::string> notes_;
  event::Seconds until_{};
  std::optional<event::Timer> timer_;
};

// The value of a variable in the text of /proc/PID/environ; none: it is not set.
[[nodiscard]] std::optional<std::string> variable_in(std::string_view environment, std::string_view name);

}  // namespace nacre::plugins
