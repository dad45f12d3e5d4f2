// SPDX-License-Identifier: Apache-2.0
//
// Finds the bad ones of several hosts when only pairs of hosts can be tested. In each round a host is in at most
// one pair. The hosts of a good pair are good. The others are tested again, each with a good host as long as there
// are enough, and never twice with the same host. A host is bad that has failed with two others, if one of these is
// good; with three if some of these pairs were only slow, as one that something else keeps busy for a moment is.
#pragma once

#include "plugins/health/checks.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {

// How a command of a pair has ended on one of its hosts.
struct PairResult {
  std::string why = {};  // why it has failed; "": it has not failed
  double took = 0;       // seconds; 0: this host was in no pair
};

void fields(auto& io, wire::Of<PairResult> auto& m) {
  io.may_have("why", m.why);
  io.may_have("took", m.took);
}

// What the leader announces of a round.
struct PairRound {
  std::uint32_t number = 0;  // from 1
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs = {};

  // The host's partner, and whether this host comes first; none: it is in no pair.
  struct Peer {
    std::uint32_t shell = 0;
    bool is_first = false;
  };
  [[nodiscard]] std::optional<Peer> peer_of(std::uint32_t shell) const;
};

void fields(auto& io, wire::Of<PairRound> auto& m) {
  io.has("round", m.number);
  io.has("pairs", m.pairs);
}

class PairTrial {
 public:
  static constexpr std::uint32_t kMostRounds = 4;
  // Slow is more than kSlow times the median of the round and all good pairs before, and kSlowSeconds.
  static constexpr double kSlow = 2, kSlowSeconds = 1;

  explicit PairTrial(const value::Idset& shells);

  // The next round; none: nothing more can be found out.
  std::optional<PairRound> next();
  // Takes the results of the last round; a host that is missing has been lost.
  void take(const std::map<std::uint32_t, PairResult>& results);

  // The name of a shell's host.
  using Name = std::function<std::string(std::uint32_t shell)>;
  [[nodiscard]] std::vector<BadHost> bad(const Name& name) const;
  // Hosts that have failed, if it is not known whether they or their partners are bad.
  [[nodiscard]] value::Idset doubtful() const;

 private:
  struct Failure {
    std::uint32_t with = 0;
    std::string why;
    bool is_slow = false;  // the command has not failed
  };
  struct Tried {
    bool is_good = false, is_lost = false;
    std::set<std::uint32_t> with;
    std::vector<Failure> failures;
  };
  [[nodiscard]] bool is_bad(const Tried& host) const;
  [[nodiscard]] std::vector<std::uint32_t> open() const;
  void pair_up(const std::vector<std::uint32_t>& these, const std::vector<std::uint32_t>& others,
               std::set<std::uint32_t>& taken);

  std::map<std::uint32_t, Tried> hosts_;
  PairRound round_;
  std::vector<double> times_;  // how long good pairs took
};

}  // namespace nacre::plugins
