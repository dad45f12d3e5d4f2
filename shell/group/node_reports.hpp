// SPDX-License-Identifier: Apache-2.0
//
// What the overlay's node reports to its owner: entries of the job's log, results of collectives, and how tasks
// fare. All calls to the owner are deferred.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "group/announcements.hpp"
#include "group/deferred_calls.hpp"
#include "group/driver_hooks.hpp"
#include "group/group.hpp"
#include "group/membership.hpp"
#include "group/open_calls.hpp"
#include "overlay/node.hpp"

namespace nacre::group {

class NodeReports {
 public:
  using Raise = std::function<void(const JobException&)>;

  // All have to outlive this object.
  NodeReports(Membership& membership, overlay::Node& node, Log& log, DeferredCalls& deferred, OpenCalls& open_calls,
              Raise raise)
      : membership_(membership),
        node_(node),
        log_(log),
        deferred_(deferred),
        open_calls_(open_calls),
        raise_(std::move(raise)) {}
  NodeReports(const NodeReports&) = delete;
  NodeReports& operator=(const NodeReports&) = delete;

  Group::Callbacks callbacks;  // of the owner, once it serves
  DriverHooks hooks;

  void perform(overlay::Deliver& deliver_it);
  void perform(overlay::Released& released) { open_calls_.answer(released); }
  void perform(overlay::Reported& reported);
  void perform(overlay::Unfit& unfit);
  void perform(overlay::TooLarge& overflow);
  void perform(overlay::Completed& /*completed*/) {}
  void perform(overlay::Silent& silent);
  void perform(overlay::Note& note) { log_.log(Level::debug, "", "{}", note.text); }

  // Of a child that was suspected because it was silent: since when, and what this shell itself stood still; "".
  [[nodiscard]] std::string silence_of(Rank rank) const;
  // Where that shell can be dialled.
  void note_address(Rank rank, const std::string& address);
  // The shells that are absent count as lost as soon as the job's code is known.
  void give_up_absent();
  [[nodiscard]] std::optional<int> code() const { return code_; }  // the job's, once the leader has decided

 private:
  void deliver(const overlay::Entry& entry);
  void deliver(const overlay::Campaign& campaign);
  void deliver(const overlay::View& view);
  void deliver(const overlay::End& end);
  void deliver(const overlay::ExceptionEntry& exception);
  void deliver(const overlay::Event& event);
  void deliver(const overlay::Signal& signal);
  void deliver(const overlay::Exec& exec, overlay::Seq seq);

  Membership& membership_;
  overlay::Node& node_;
  Log& log_;
  DeferredCalls& deferred_;
  OpenCalls& open_calls_;
  Raise raise_;
  Announcements announcements_;
  bool gives_up_absent_ = false;
  std::map<Rank, std::string> silences_;
  std::optional<int> code_;
};

}  // namespace nacre::group
