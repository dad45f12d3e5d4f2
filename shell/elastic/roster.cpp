// SPDX-License-Identifier: Apache-2.0
#include "elastic/roster.hpp"

#include "wire/json.hpp"

namespace nacre::elastic {

value::Idset Roster::note_joining(const Idset& come, const Idset& missing) {
  lost_.insert(missing);
  Idset here = come - gone();
  joining_.insert(here);
  return here;
}

auto Roster::description() {
  return wire::Object{[](auto& io, auto& m) {
    io.has("lost", m.lost_);
    io.has("left", m.left_);
    io.has("leaving", m.leaving_);
    io.has("joining", m.joining_);
  }};
}

Json Roster::json() const { return description().write(*this); }

Result<void> Roster::add(const JsonAt& at) {
  Roster more;
  CHECK_OK(description().read(at, more));
  lost_.insert(more.lost_);
  left_.insert(more.left_);
  leaving_.insert(more.leaving_);
  joining_.insert(more.joining_);
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

void elements(auto& io, wire::Of<Growth::Shell> auto& m) {
  io.are("[RANK, HOST, CORES, GPUS, HAS_COME, POD]");
  io.has(m.rank, wire::Between{1, UINT32_MAX});
  io.has(m.hostname);
  io.has(m.cores);
  io.has(m.gpus);
  io.has(m.has_come);
  io.has(m.pod);
}

Json Growth::json() const { return wire::to_json(shells); }

Result<Growth> Growth::parse(const JsonAt& at) {
  Growth out;
  std::uint32_t next = 0;
  auto follows = [&next](const JsonAt& each, const Shell& shell) -> Result<void> {
    if (next != 0 && shell.rank != next) return each.error(fmt::format("expected shell {}", next));
    next = shell.rank + 1;
    return {};
  };
  CHECK_OK(wire::read(at, out.shells, wire::Each{follows}));
  return out;
}

bool Growth::has(std::uint32_t rank) const {
  return std::any_of(shells.begin(), shells.end(), [&](const Shell& each) { return each.rank == rank; });
}

// ---- job state --------------------------------------------------------------------------

namespace {

struct JobState {
  std::vector<job::Move> moves;
  std::map<value::Idset::Id, std::uint32_t> starts;
  std::uint64_t restarts = 0;
  value::Idset unfit;
  std::vector<job::Resize> resizes;
};

// The members of a job's state, to be written from a job, or as it is read.
constexpr wire::Object kJobState{[](auto& io, auto& m) {
  io.has("moves", m.moves, wire::Each{wire::Array{[](auto& move, auto& of) {
           move.are("a move of tasks");
           move.has(of.ranks);
           move.has(of.from);
           move.has(of.to);
           move.has(of.attempt, wire::Between{1, UINT32_MAX});
         }}});
  io.has("starts", m.starts, wire::Each{wire::Array{[](auto& start, auto& of) {
           start.are("[RANK, START]");
           start.has(of.first);
           start.has(of.second, wire::Between{1, UINT32_MAX});
         }}});
  io.has("restarts", m.restarts);
  io.may_have("unfit", m.unfit);
  io.may_have("resizes", m.resizes, wire::Each{wire::Array{[](auto& resize, auto& of) {
                resize.are("[SHELLS, MOVES]");
                resize.has(of.shells);
                resize.has(of.moves);
                resize.expect(!of.shells.empty(), "at least one shell");
              }}});
}};

}  // namespace

Json job_state(const job::Job& job) { return kJobState.write(job); }

Result<void> take_job_state(const JsonAt& at, job::Job& job) {
  JobState state;
  CHECK_OK(kJobState.read(at, state));
  auto move = state.moves.begin();
  auto move_up_to = [&](std::size_t count) {
    for (; move != state.moves.end() && job.moves.size() < count; ++move) job.move(std::move(*move));
  };
  for (const job::Resize& each : state.resizes) {
    move_up_to(each.moves);
    if (job.tasks_each == 0 || *each.shells.last() >= job.shells()) return at.expected("resizes of this job");
    job.resize(each.shells);
  }
  move_up_to(SIZE_MAX);
  for (const auto& [rank, attempt] : state.starts) job.starts[rank] = attempt;
  job.restarts = state.restarts;
  job.unfit = state.unfit;
  return {};
}

}  // namespace nacre::elastic
