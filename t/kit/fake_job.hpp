// SPDX-License-Identifier: Apache-2.0
//
// Several FakeHosts as the shells of one job: what one announces or orders reaches all in one order, and what they
// gather comes together. Nothing happens by itself: a test says when announcements arrive, and which shells are
// lost.
#pragma once

#include "fake_host.hpp"

namespace nacre::kit {

class FakeJob {
 public:
  // Nodes fake0, fake1, ... with a shell and the same number of one-core tasks on each.
  FakeJob(std::uint32_t nodes, std::uint32_t tasks_per_node);
  ~FakeJob();
  FakeJob(const FakeJob&) = delete;
  FakeJob& operator=(const FakeJob&) = delete;

  FakeHost& operator[](std::uint32_t shell);

  // Delivers announcements, and those that follow from them, until none is under way. A lost shell gets nothing.
  void deliver();
  [[nodiscard]] std::size_t under_way() const { return announced_.size(); }  // announcements
  // The shell stands still: it gets no announcements, and so gives nothing.
  void stop(std::uint32_t shell) { stopped_.insert(shell); }
  // The shell is no member any more: gathers do without it. The test itself tells its plugins of that.
  void lose(std::uint32_t shell);
  // The shell is cut off: its gathers are errors from now on, also those under way.
  void cut_off(std::uint32_t shell);
  // Names of gathers to which some shells have given, and others not.
  [[nodiscard]] std::vector<std::string> unfinished() const;

 private:
  class Shell;
  struct Collective {
    std::map<std::uint32_t, std::string> given;  // by shell
    std::map<std::uint32_t, std::function<void(Result<plugin::Gathered>)>> waiting;
  };
  struct Announcement {
    std::string topic;
    std::string bytes;
    std::function<void()> order;  // set: this is an order, not a plugin's announcement
  };

  void gather(std::uint32_t shell, const std::string& name, std::string mine,
              std::function<void(Result<plugin::Gathered>)> done);
  void order(value::ExecOrder order, std::function<void(Result<value::ExecAnswer>)> done);
  void complete_what_can_be();

  std::deque<Announcement> announced_;
  std::map<std::string, Collective> collectives_;  // by name
  std::set<std::uint32_t> stopped_;
  std::set<std::uint32_t> lost_;
  std::uint64_t orders_ = 0;
  std::vector<std::unique_ptr<Shell>> shells_;
};

}  // namespace nacre::kit
