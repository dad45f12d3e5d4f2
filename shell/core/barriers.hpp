// SPDX-License-Identifier: Apache-2.0
//
// The barriers of a job's shells, as one of them enters them. While it waits the loop runs: signals, timers and
// losses are handled. Only Shell::run, and what it calls, may wait.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "join/shell_process.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

class Barriers {
 public:
  // Both have to outlive it. `process` has a group when a barrier is entered.
  Barriers(plugin::Host& host, join::ShellProcess& process) : host_(host), process_(process) {}

  // Runs the loop until done() is true, or the job is being ended.
  void wait(const std::function<bool()>& done);
  // The same, until all shells have entered this barrier: if the job is being ended some may never enter it.
  void pass(const std::string& name);
  // The same, and what all shells have given there; none if the job is being ended.
  std::optional<plugin::Gathered> gather(const std::string& name, std::string mine);
  // Barriers that all shells enter, however their job ends: with the sum of what they give, or the largest of it.
  // None: this shell is cut off.
  std::optional<std::int64_t> sum_last(const std::string& name, std::int64_t mine);
  std::optional<std::int64_t> max_last(const std::string& name, std::int64_t mine);

  [[nodiscard]] bool has_entered(const std::string& name) const { return passed_.contains(name); }
  [[nodiscard]] bool has_passed(const std::string& name) const;

 private:
  using Count = void (group::Group::*)(std::string_view barrier, std::int64_t mine, group::Group::WhenCounted done);
  std::optional<std::int64_t> pass_last(const std::string& name, Count count, std::int64_t mine);
  void begin(const std::string& name);
  void note_passed(const std::string& name, const Result<void>& passed);

  plugin::Host& host_;
  join::ShellProcess& process_;
  std::map<std::string, bool> passed_;  // of those that were entered: whether they are over
};

}  // namespace nacre::core
