// SPDX-License-Identifier: Apache-2.0
//
// What NCCL's RAS tells about its communicators, in JSON (since 2.28.7) or as text (since 2.24), and what follows
// from two such answers, one after the other. Pure.
#pragma once

#include "base/json_fwd.hpp"
#include "value/idset.hpp"

namespace nacre::doctor {

struct RasProcess {
  std::string host;  // an address; "": unknown
  std::int64_t pid = -1;

  auto operator<=>(const RasProcess&) const = default;
};

struct RasCommunicator {
  std::string name;        // a hash: "0xae94423cfbb2ef4a"
  std::uint64_t size = 0;  // ranks; 0: unknown
  using Ranks = std::map<std::uint64_t, RasProcess>;
  Ranks silent;                  // that have not answered
  std::set<std::uint64_t> dead;  // of these
  // By operation ("": all of them), how many each rank has launched, if that is not the same for all: with the
  // ranks that are named, and how many there are in all.
  struct Launched {
    Ranks ranks;
    std::uint64_t count = 0;
    bool operator==(const Launched&) const = default;
  };
  std::map<std::string, std::map<std::uint64_t, Launched>> launched;
};

inline constexpr std::size_t kMostRasAnswer = std::size_t{8} << 20;  // bytes
inline constexpr std::size_t kMostRasFindings = 8;

// `text`: what comes behind the answers to the handshake and to the wish for JSON.
[[nodiscard]] Result<std::vector<RasCommunicator>> ras_communicators(std::string_view text);

struct RasFinding {
  value::Idset ranks;   // of the job; empty: unknown
  std::string process;  // "process 12 on 10.0.0.1", where they are unknown
  std::string text;     // follows the subject: "rank 3 of NCCL's communicator 0xae of 8, has launched 41 AllReduce"
  std::string evidence;

  [[nodiscard]] Json json() const;
  static Result<RasFinding> parse(const Json& json);
};
// `rank_of` knows the ranks of some processes.
using RankOf = std::map<RasProcess, std::uint32_t>;
[[nodiscard]] std::vector<RasFinding> ras_findings(const std::vector<RasCommunicator>& first,
                                                   const std::vector<RasCommunicator>& second,
                                                   const RankOf& rank_of);
// The findings of several shells: equal ones become one, with the ranks of all.
[[nodiscard]] std::vector<RasFinding> folded(const std::vector<RasFinding>& findings);

}  // namespace nacre::doctor
