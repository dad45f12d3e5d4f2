// SPDX-License-Identifier: Apache-2.0
//
// What a bundle for a ticket needs to know of a job, beyond its entry in the list of jobs (nacre-report(1),
// BUNDLES): the leader makes it, for who asks, and as a file beside the entry. It has no secrets, see
// record/shareable.hpp.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "base/json.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

class Details {
 public:
  static constexpr std::size_t kMostTail = std::size_t{64} << 10;  // bytes of messages, and of output
  static constexpr std::size_t kTasksKept = 32;                    // whose plan is in the file
  static constexpr std::size_t kTasksAsked = 4096;                 // whose plan is in an answer

  explicit Details(plugin::Host& host) : host_(host) {}
  ~Details();
  Details(const Details&) = delete;
  Details& operator=(const Details&) = delete;

  // In shell.init, on the leader: from here on the last messages of the shells are kept.
  void keep_messages();

  // An object, of at most `most` bytes of text: what is long loses its beginning, or the rest. `tasks`: whose plan
  // is in it, of this shell. `output`: the last of what has come out at the job's standard output and error.
  [[nodiscard]] Json make(std::size_t most, std::size_t tasks, std::string output) const;

 private:
  [[nodiscard]] Json options() const;
  [[nodiscard]] Json plan(std::size_t tasks) const;
  [[nodiscard]] Json files() const;

  plugin::Host& host_;
  bool keeps_ = false;
  std::deque<std::string> messages_;  // lines
  std::size_t size_ = 0;              // bytes of these
};

}  // namespace nacre::plugins
