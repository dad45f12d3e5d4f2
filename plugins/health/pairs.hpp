// SPDX-License-Identifier: Apache-2.0
//
// Which of several hosts is bad where only pairs of them can be tried: in rounds, in each of which a host is in one
// pair at most. A host of a good pair is good; the others are tried again, each with a good one as far as these
// reach, and never twice with the same. Who has failed with two others, one of whom is good, is bad.
#pragma once

#include "plugins/health/checks.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {

// How a command of a pair has ended on one of its hosts.
struct PairResult {
  std::string why = {};  // it has failed; "": it has not
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

  // Its other host, and whether this one comes first; none: it is in no pair.
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
  // A pair is slow that takes longer than so many times the median of all so far, and so many seconds more.
  static constexpr double kSlow = 2, kSlowSeconds = 0.25;

  explicit PairTrial(const value::Idset& shells);

  // None: nothing more can be found out.
  std::optional<PairRound> next();
  // Of the last round; a host that is missing has been lost.
  void take(const std::map<std::uint32_t, PairResult>& results);

  // `name`: of a host.
  using Name = std::function<std::string(std::uint32_t shell)>;
  [[nodiscard]] std::vector<BadHost> bad(const Name& name) const;
  // Hosts that have failed, of which it cannot be said whether they or the others are bad.
  [[nodiscard]] value::Idset doubtful() const;

 private:
  struct Failure {
    std::uint32_t with = 0;
    std::string why;
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
  [[nodiscard]] double usual_time() const;

  std::map<std::uint32_t, Tried> hosts_;
  PairRound round_;
  std::vector<double> times_;  // of pairs that have not failed
};

}  // namespace nacre::plugins
