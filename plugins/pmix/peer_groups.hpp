// SPDX-License-Identifier: Apache-2.0
//
// The process groups that clients of this shell construct and destruct, together with those of other shells: Groups
// decides what becomes of each; here the shells send each other what it needs, and clients get their answers. Who
// has asked for it gets an event when another member of a group ends.
//
// Ranks are numbers of ProcessMap.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "group_call.hpp"
#include "groups.hpp"
#include "info.hpp"
#include "peer_message.hpp"
#include "process_map.hpp"
#include "server.hpp"

namespace nacre::pmix {

class PeerGroups {
 public:
  struct Calls {
    std::function<void(PeerMessage message)> send;
    std::function<void(double seconds, std::function<void()> function)> after;
    std::function<bool(Rank number)> has_ended;  // as far as this shell knows
  };

  // A time-out of a client, in seconds, as this shell keeps it.
  static double due_at(double timeout);

  // `processes` and `server` have to outlive this object.
  PeerGroups(const ProcessMap& processes, ServerApi& server, std::uint32_t own, Calls calls)
      : processes_(processes), server_(server), own_(own), calls_(std::move(calls)), groups_(processes, own) {}

  // The members of this shell have come.
  void enter(const GroupCall& call, const std::vector<Rank>& members, InfoReply reply);
  // Clients that wait are answered: they have ended.
  void give_up();

  void receive(const PeerMessage& message);  // a group, leave or gone
  void ended(Rank number);                   // all shells receive this
  void over(std::uint32_t shell);            // likewise: none of its processes is left
  void lost(std::uint32_t shell);            // with its processes

  // A process of this shell has ended; report() sends it to the others if one of them waits for it.
  void ended_here(Rank number) { groups_.ended_here(number); }
  void report();
  [[nodiscard]] bool is_watched(Rank number) const;  // others are to get an event when it ends

 private:
  struct Waiting {
    GroupCall call;
    InfoReply reply;
  };

  [[nodiscard]] bool reaches_out(const std::vector<Rank>& members) const;
  [[nodiscard]] Groups::Outcome outcome_here(const GroupCall& call, const std::vector<Rank>& members) const;
  void give_up_late(std::uint64_t number, const std::string& name, std::uint64_t part);
  void answer(const Waiting& waiting, const Groups::Outcome& outcome);
  void notify_watchers(Rank number);

  const ProcessMap& processes_;
  ServerApi& server_;
  std::uint32_t own_;
  Calls calls_;
  Groups groups_;
  std::map<std::uint64_t, Waiting> waiting_;  // by a number of this shell's own
  std::uint64_t last_ = 0;
  std::map<std::string, std::vector<Rank>> watched_;  // members that are to be notified when one ends, by group
};

}  // namespace nacre::pmix
