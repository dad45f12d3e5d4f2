// SPDX-License-Identifier: Apache-2.0
#include "elastic/job_state.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace nacre::elastic {
namespace {

using Rank = value::Idset::Id;

Result<job::Move> move_in(const JsonAt& at) {
  std::vector<JsonAt> move = TRY(at.elements());
  constexpr std::size_t kMembers = 4;
  if (move.size() != kMembers) return at.expected("a move of tasks");
  job::Move out;
  out.ranks = TRY(value::Idset::parse(TRY(move[0].string())));
  out.from = static_cast<std::uint32_t>(TRY(move[1].integer(0, UINT32_MAX)));
  out.to = static_cast<std::uint32_t>(TRY(move[2].integer(0, UINT32_MAX)));
  out.attempt = static_cast<std::uint32_t>(TRY(move[3].integer(1, UINT32_MAX)));
  return out;
}

}  // namespace

Json job_state(const job::Job& job) {
  Json moves = Json::array();
  for (const job::Move& each : job.moves)
    moves.push_back(Json::array({each.ranks.str(), each.from, each.to, each.attempt}));
  Json starts = Json::array();
  for (const auto& [rank, attempt] : job.starts) starts.push_back(Json::array({rank, attempt}));
  return {{"moves", std::move(moves)}, {"starts", std::move(starts)}, {"restarts", job.restarts}};
}

Result<void> take_job_state(const JsonAt& at, job::Job& job) {
  for (const JsonAt& each : TRY(TRY(at.at("moves")).elements())) job.move(TRY(move_in(each)));
  for (const JsonAt& each : TRY(TRY(at.at("starts")).elements())) {
    std::vector<JsonAt> start = TRY(each.elements());
    if (start.size() != 2) return each.expected("[RANK, START]");
    auto rank = static_cast<Rank>(TRY(start[0].integer(0, UINT32_MAX)));
    job.starts[rank] = static_cast<std::uint32_t>(TRY(start[1].integer(1, UINT32_MAX)));
  }
  job.restarts = static_cast<std::uint64_t>(TRY(TRY(at.at("restarts")).integer(0, INT64_MAX)));
  return {};
}

}  // namespace nacre::elastic
