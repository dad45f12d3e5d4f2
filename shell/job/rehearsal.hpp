// SPDX-License-Identifier: Apache-2.0
//
// A rehearsal (`nacre run --rehearse`): what is done to a job, and when, so that its users can see what becomes of
// it. Pure.
//
//   EVENT[; EVENT...]
//   kill NODE [at TIME]
//   kill rank RANKS [with SIGNAL] [at TIME]
//   freeze NODE [at TIME] for TIME
//   freeze rank RANKS [at TIME] [for TIME]
//   cut NODE[-NODE] [at TIME] [for TIME]
//
// with, at and for come in any order. TIME is a duration (RFC 23); `at` counts from the start of the tasks.
#pragma once

#include "job/job.hpp"

namespace nacre::job {

struct RehearsalEvent {
  enum class Action : std::uint8_t { kill, freeze, cut };

  Action action = Action::kill;
  // A host of R, or nN for the shell of rank N; "": `ranks` are meant. A cut may have two, with '-' between them.
  std::string node;
  value::Idset ranks;                    // tasks
  int signal = 9;                        // that kills the tasks
  value::Duration at;                    // 0: as soon as the tasks have started
  std::optional<value::Duration> lasts;  // of a freeze or cut; none: for ever

  [[nodiscard]] std::string str() const;  // as it is written
  [[nodiscard]] std::string signal_text() const;
  bool operator==(const RehearsalEvent&) const = default;
};

class Rehearsal {
 public:
  static constexpr std::size_t kMostEvents = 64;
  static constexpr std::size_t kMostText = 4096;   // bytes
  static constexpr double kMostTime = 30 * 86400;  // seconds, of each TIME

  // At least one event. Errors name the character, and what was expected there.
  static Result<Rehearsal> parse(std::string_view text);
  [[nodiscard]] const std::vector<RehearsalEvent>& events() const { return events_; }

  // The shells of an event's node; empty if it has no node. A name in R counts before nN; a host may have several
  // shells.
  static Result<value::Idset> shells_of(const RehearsalEvent& event, const Job& job);
  // The shells of both sides of a cut; for a cut of one node these are the node's shells, and all others.
  struct Sides {
    value::Idset one, other;
  };
  static Result<Sides> sides_of(const RehearsalEvent& event, const Job& job);
  // An error: an event's node or ranks are not of this job.
  [[nodiscard]] Result<void> check(const Job& job) const;

 private:
  std::vector<RehearsalEvent> events_;
};

}  // namespace nacre::job
