// SPDX-License-Identifier: Apache-2.0
#include "elastic/roster.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace nacre::elastic {

value::Idset Roster::note_joining(const Idset& come, const Idset& missing) {
  lost_.insert(missing);
  Idset here = come - gone();
  joining_.insert(here);
  return here;
}

Json Roster::json() const {
  return {{"lost", lost_.str()}, {"left", left_.str()}, {"leaving", leaving_.str()}, {"joining", joining_.str()}};
}

Result<void> Roster::add(const JsonAt& at) {
  for (auto [name, into] : {std::pair("lost", &lost_), std::pair("left", &left_), std::pair("leaving", &leaving_),
                            std::pair("joining", &joining_)}) {
    JsonAt ids = TRY(at.at(name));
    into->insert(TRY(in(ids.path(), Idset::parse(TRY(ids.string())))));
  }
  return {};
}

// ---- shrinks ----------------------------------------------------------------------------

Shrinks::Order Shrinks::open(const Idset& shells, Idset& fresh) {
  fresh = shells - leaving_ - over_;
  leaving_ = leaving_ | fresh;
  orders_.emplace(++last_, shells);
  if (!fresh.empty()) batches_.emplace(last_, Batch{fresh, fresh});
  return last_;
}

void Shrinks::ready(std::uint32_t shell) {
  for (auto& [number, batch] : batches_) batch.waiting.remove(shell, shell);
}

bool Shrinks::lost(std::uint32_t shell, bool has_ended) {
  if (!leaving_.contains(shell)) return false;
  for (auto& [number, batch] : batches_) {
    batch.shells.remove(shell, shell);
    batch.waiting.remove(shell, shell);
  }
  const Idset one = Idset::range(shell, shell);
  ended(has_ended ? value::Shrunk{one, {}} : value::Shrunk{{}, one});
  return true;
}

void Shrinks::overdue(Order batch) {
  if (auto found = batches_.find(batch); found != batches_.end()) found->second.waiting = {};
}

std::optional<value::Idset> Shrinks::take_ready() {
  std::erase_if(batches_, [](const auto& each) { return each.second.shells.empty(); });
  for (auto& [number, batch] : batches_) {
    if (!batch.waiting.empty()) continue;
    Idset out = std::move(batch.shells);
    batches_.erase(number);
    return out;
  }
  return std::nullopt;
}

void Shrinks::ended(const value::Shrunk& shrunk) {
  Idset all = shrunk.gone | shrunk.unconfirmed;
  leaving_ = leaving_ - all;
  unconfirmed_ = unconfirmed_ | (shrunk.unconfirmed - over_);
  over_ = over_ | all;
}

std::optional<std::pair<Shrinks::Order, value::Shrunk>> Shrinks::take_ended() {
  for (auto& [number, shells] : orders_) {
    if (!(shells - over_).empty()) continue;
    std::pair out(number, value::Shrunk{shells - unconfirmed_, shells & unconfirmed_});
    orders_.erase(number);
    return out;
  }
  return std::nullopt;
}

// ---- growth -----------------------------------------------------------------------------

namespace {

Result<value::Idset> ids_at(const JsonAt& at) { return in(at.path(), value::Idset::parse(TRY(at.string()))); }

Result<Growth::Shell> shell_of(const JsonAt& at) {
  constexpr std::size_t kMembers = 5;
  std::vector<JsonAt> members = TRY(at.elements());
  if (members.size() != kMembers) return at.expected("[RANK, HOST, CORES, GPUS, HAS_COME]");
  Growth::Shell out;
  out.rank = static_cast<std::uint32_t>(TRY(members[0].integer(1, UINT32_MAX)));
  out.hostname = TRY(members[1].string());
  out.cores = TRY(ids_at(members[2]));
  out.gpus = TRY(ids_at(members[3]));
  out.has_come = TRY(members[4].boolean());
  return out;
}

}  // namespace

Json Growth::json() const {
  Json out = Json::array();
  for (const Shell& each : shells)
    out.push_back(Json::array({each.rank, each.hostname, each.cores.str(), each.gpus.str(), each.has_come}));
  return out;
}

Result<Growth> Growth::parse(const JsonAt& at) {
  Growth out;
  for (const JsonAt& each : TRY(at.elements())) {
    Shell shell = TRY(shell_of(each));
    bool follows = out.shells.empty() || shell.rank == out.shells.back().rank + 1;
    if (!follows) return each.error(fmt::format("expected shell {}", out.shells.back().rank + 1));
    out.shells.push_back(std::move(shell));
  }
  return out;
}

bool Growth::has(std::uint32_t rank) const {
  return std::any_of(shells.begin(), shells.end(), [&](const Shell& each) { return each.rank == rank; });
}

// ---- job state --------------------------------------------------------------------------

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
