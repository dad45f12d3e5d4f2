// SPDX-License-Identifier: Apache-2.0
//
// The group of a job's shells as one of them has it, as group/directory.hpp: whether the shell is of it, the
// collectives that it is in, and what it requests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "job_process.hpp"

namespace nacre::sim {

class JobGroup {
 public:
  explicit JobGroup(JobProcess& process);

  void join();                          // the shells that are started with it
  void join_late() { joined_ = true; }  // a job that runs
  [[nodiscard]] bool has_joined() const { return joined_; }
  // How many have joined, once the collective is over.
  [[nodiscard]] const std::optional<std::size_t>& gathered() const { return gathered_; }
  // Of the collectives of those that have joined with it.
  void set_scope(Scope scope) { own_scope_ = scope; }

  void enter(const std::string& barrier);
  bool is_past(const std::string& barrier);  // and enters it
  [[nodiscard]] bool has_entered(const std::string& barrier) const { return barriers_.contains(barrier); }
  [[nodiscard]] bool has_started() const;  // the tasks, of all that have joined with it
  // `passed`: by the shell, once it gets the news.
  void released(const Released& value, const std::function<void(const std::string& barrier)>& passed);

  // None: it could not be sent.
  std::optional<std::uint64_t> request(RequestBody body);
  void ask(RequestBody body) { static_cast<void>(request(std::move(body))); }
  void announce(std::string_view topic, const std::string& bytes) { ask(Event{std::string(topic), bytes}); }

  bool cut_off();  // false: it was already
  void leave();    // it has been taken out
  void end_collectives();
  [[nodiscard]] bool is_cut_off() const { return cut_off_; }  // or has left
  [[nodiscard]] bool has_left() const { return left_; }

 private:
  JobProcess& process_;
  bool joined_ = false;
  std::optional<std::size_t> gathered_;
  Scope own_scope_{};
  std::map<std::string, bool, std::less<>> barriers_;  // entered: whether they are over
  std::set<std::string, std::less<>> waiting_;
  bool cut_off_ = false, left_ = false;
};

}  // namespace nacre::sim
