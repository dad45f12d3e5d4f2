// SPDX-License-Identifier: Apache-2.0
//
// The last bytes that a task has written, for the report of its failure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/batch.hpp"

namespace nacre::plugins {

class OutputTail {
 public:
  // `time`: when they were read, seconds since the Epoch.
  void add(std::string_view bytes, std::size_t most, double time) {
    all_ += bytes.size();
    last_time_ = time;
    if (bytes.size() >= most) return void(kept_ = bytes.substr(bytes.size() - most));
    kept_ += bytes;
    if (kept_.size() > 2 * most) kept_.erase(0, kept_.size() - most);
  }
  // Returns at most `most` bytes.
  [[nodiscard]] std::string_view last(std::size_t most) const {
    std::string_view kept = kept_;
    return kept.substr(kept.size() - std::min(kept.size(), most));
  }
  [[nodiscard]] std::uint64_t size() const { return all_; }      // all bytes that the task has written
  [[nodiscard]] double last_time() const { return last_time_; }  // of the last of them; 0: there are none

 private:
  std::string kept_;
  std::uint64_t all_ = 0;
  double last_time_ = 0;
};

// How many bytes are kept of a stream, if the shell has `tasks` tasks.
[[nodiscard]] constexpr std::size_t tail_size(io::Stream stream, std::size_t tasks) {
  constexpr std::size_t kManyTasks = 256;
  return stream == io::Stream::err && tasks <= kManyTasks ? 4096 : 1024;
}

}  // namespace nacre::plugins
