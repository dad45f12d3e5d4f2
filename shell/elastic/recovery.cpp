// SPDX-License-Identifier: Apache-2.0
#include "elastic/recovery.hpp"

#include "base/invariant.hpp"
#include "wire/json.hpp"

namespace nacre::elastic {

// Whether the end still counts: the end of the job or of the shell, or a restart of all tasks, may have come before
// it.
bool Recovery::stands(std::uint32_t shell, const RestartEnd& end) const {
  return stays_(shell) && end.rank < job_.tasks() && job_.taskmap.node_of(end.rank) == shell &&
         job_.attempt_of(end.rank) == end.attempt;
}

// Whether restarts have brought any progress, according to the end of `asked` with this number.
void Recovery::look_at(RestartDecision& decision, const RestartMessage& asked, value::Idset::Id rank,
                       std::size_t which) const {
  if (progress_ == nullptr || asked.ordered || asked.seen.empty()) return;
  const std::string& seen = asked.seen[std::min(which, asked.seen.size() - 1)];
  auto still = progress_->note(rank, {seen, asked.at, asked.shell, asked.ends[which].record});
  if (!still) return;
  decision.ends_job = true;
  decision.why_not = still->text(progress_->option(), job_, false);
}

RestartDecision Recovery::decide(const RestartMessage& asked, std::size_t which) {
  const RestartEnd& end = asked.ends[which];
  RestartDecision out{value::Idset::range(end.rank, end.rank), end.record, end.attempt + 1};
  out.ordered = asked.ordered;
  look_at(out, asked, end.rank, which);
  if (!out.is_granted()) return out;
  if (!out.ordered) {
    auto granted = restarts_.take(end.rank, end.ran);
    if (!granted) {
      out.why_not = granted.error().message;
      return out;
    }
    out.delay = granted->delay;
    out.first = out.last = granted->number;
  }
  job_.start_again(out.ranks);
  return out;
}

Recovery::Alone Recovery::decide(const RestartMessage& asked) {
  Alone out;
  for (std::size_t which = 0; which < asked.ends.size(); ++which) {
    if (!stands(asked.shell, asked.ends[which])) {
      out.fallen.insert(asked.ends[which].rank);
    } else if (!asked.whole) {
      RestartDecision decision = decide(asked, which);
      if (!out.decisions.empty() && out.decisions.back().takes_in(decision)) {
        out.decisions.back().ranks.insert(decision.ranks);
        out.decisions.back().last = decision.last;
      } else {
        out.decisions.push_back(std::move(decision));
      }
    }
  }
  return out;
}

RestartDecision Recovery::decide_together(const RestartMessage& message) {
  const RestartEnd& first = message.ends.front();
  RestartDecision out{{}, first.record};
  out.why_not = message.why_not;
  out.first_failed.insert(first.rank);
  out.doubt = message.doubt;
  out.whole = message.whole;
  out.ordered = message.ordered;
  for (const RestartEnd& each : message.ends) {
    out.ranks.insert(each.rank);
    out.stands = out.stands && stands(message.shell, each);
  }
  out.together = message.whole ? job_.all_ranks() : job_.taskmap.ranks_on(message.shell);
  if (out.is_granted() && !message.whole) look_at(out, message, *out.together.first(), 0);
  if (out.is_granted() && !message.ordered) {
    auto granted = message.whole ? restarts_.take_job(first.ran, first.rank)
                                 : restarts_.take_node(message.shell, first.ran, first.rank);
    out.why_not = granted ? "" : granted.error().message;
    out.delay = granted ? granted->delay : 0;
    out.first = out.last = granted ? granted->number : 0;
  }
  if (out.is_granted()) start_together(out, message.shell);
  return out;
}

// A move for each start: tasks may have started again where they were, some more often than others.
std::vector<job::Move> Recovery::moves_of(const value::Idset& ranks, std::uint32_t from, std::uint32_t to,
                                          std::uint32_t more) const {
  std::map<std::uint32_t, value::Idset> by_start;
  for (value::Idset::Id rank : ranks.ids()) by_start[job_.attempt_of(rank) + more].insert(rank);
  std::vector<job::Move> out;
  for (const auto& [attempt, which] : by_start) out.push_back({which, from, to, attempt});
  return out;
}

void Recovery::note(const std::vector<job::Move>& moves) {
  const std::uint64_t restarts = job_.restarts;
  for (const job::Move& each : moves) job_.move(each);
  job_.restarts = restarts;
}

// This counts as one restart, wherever the tasks start.
void Recovery::start_together(RestartDecision& decision, std::uint32_t shell) {
  value::Idset moved;
  if (shares_cores_ && decision.whole && !decision.ordered) {
    value::Idset ranks = job_.taskmap.ranks_on(shell);
    if (auto spare = spare_for(shell, ranks)) {
      decision.places.moves = moves_of(ranks, shell, *spare, 1);
      moved = std::move(ranks);
    } else {
      decision.places.why = spare.error().message;
    }
  }
  note(decision.places.moves);
  job_.start_again(decision.together - moved);
}

// Never a shell that tasks have left, as one has failed there or the shell was lost.
Result<std::uint32_t> Recovery::spare_for(std::uint32_t shell, const value::Idset& ranks) const {
  auto room = [this](std::uint32_t id) {
    const job::NodeResources& node = job_.resources.nodes[id];
    return Replacements::Room{node.cores.size(), node.gpus.size()};
  };
  const Replacements::Room needed = Replacements::needed(job_, shell, ranks, *shares_cores_);
  const std::uint64_t cores = ranks.size() * job_.spec.cores_per_slot;
  for (const job::Move& each : job_.moves) {
    if (each.from != shell || each.to == shell || needed.gpus > 0) continue;
    if (!stays_(each.to) || job_.tasks_have_left(each.to)) continue;
    std::uint64_t used = job_.taskmap.tasks_on(each.to) * job_.spec.cores_per_slot;
    if (*shares_cores_ || used + cores <= room(each.to).cores) return each.to;
  }
  std::vector<Replacements::Spare> spares;
  for (std::uint32_t id : job_.spare_shells().ids()) {
    if (stays_(id)) spares.push_back({id, room(id)});
  }
  return Replacements().choose(spares, needed);
}

SparePlaces Recovery::place(const SpareRequest& asked) {
  SparePlaces out;
  value::Idset waiting;
  for (const auto& [rank, attempt] : asked.starts) {
    if (stays_(asked.shell) && job_.taskmap.node_of(rank) == asked.shell && job_.attempt_of(rank) == attempt)
      waiting.insert(rank);
  }
  std::vector<value::Idset> groups;
  for (value::Idset::Id rank : waiting.ids()) {
    if (groups.empty() || !asked.together) groups.emplace_back();
    groups.back().insert(rank);
  }
  for (const value::Idset& group : groups) {
    auto spare = spare_for(asked.shell, group);
    if (!spare) {
      out.stay.insert(group);
      out.why = spare.error().message;
      continue;
    }
    std::vector<job::Move> moves = moves_of(group, asked.shell, *spare, 0);
    note(moves);
    for (job::Move& each : moves) {
      bool is_alike =
          !out.moves.empty() && out.moves.back().to == each.to && out.moves.back().attempt == each.attempt;
      is_alike ? out.moves.back().ranks.insert(each.ranks) : out.moves.push_back(std::move(each));
    }
  }
  return out;
}

std::optional<RestartDecision> Recovery::decide_order(const RestartMessage& answer) {
  if (answer.restarts != job_.restarts) return std::nullopt;
  RestartDecision out{job_.all_ranks(), exits::Record::victim(std::nullopt)};
  out.whole = out.ordered = true;
  out.together = out.ranks;
  job_.start_again(out.together);
  return out;
}

std::vector<job::Move> Recovery::move(job::Job& job, std::vector<job::Move> moves, const Stays& stays) {
  std::erase_if(moves, [&](const job::Move& each) { return !stays(each.to); });
  const std::uint64_t restarts = job.restarts + (moves.empty() ? 0 : 1);  // together
  for (const job::Move& each : moves) job.move(each);
  job.restarts = restarts;
  return moves;
}

void Recovery::take_restart(RestartDecision& decision, const Replacement::All& all) {
  if (all.delay) {
    decision.delay = *all.delay;
    decision.first = decision.last = restarts_.used();
    return;
  }
  auto granted = restarts_.take_job(all.ran, std::nullopt);
  decision.why_not = granted ? "" : granted.error().message;
  decision.delay = granted ? granted->delay : 0;
  decision.first = decision.last = granted ? granted->number : 0;
}

std::optional<RestartDecision> Recovery::decide_resize(const JobResize& resize) {
  const std::vector<std::uint32_t> shells = resize.shells.ids();
  const bool stands = resize.all.restarts == job_.restarts && job_.tasks_each > 0 &&
                      std::all_of(shells.begin(), shells.end(), stays_);
  if (!stands) return std::nullopt;
  RestartDecision out{job_.all_ranks(), exits::Record::victim(std::nullopt)};
  out.whole = out.resizes = true;
  if (resize.lost) {
    out.ranks = job_.taskmap.ranks_on(*resize.lost);
    out.record = exits::Record::lost();
    take_restart(out, resize.all);
  } else {
    out.ordered = true;
    out.delay = resize.all.delay.value_or(0);
  }
  if (!out.is_granted()) return out;
  job_.resize(resize.shells);
  out.together = job_.all_ranks();
  return out;
}

std::optional<RestartDecision> Recovery::decide_replacement(const Replacement& replacement) {
  const std::vector<job::Move>& moves = replacement.moves;
  const Replacement::All& all = *replacement.all;
  bool stands =
      all.restarts == job_.restarts &&
      std::all_of(moves.begin(), moves.end(), [this](const job::Move& each) { return may_take(each.to); });
  if (!stands) return std::nullopt;
  RestartDecision out{replacement.ranks(), exits::Record::lost()};
  out.whole = true;
  out.together = job_.all_ranks();
  take_restart(out, all);
  if (!out.is_granted()) return out;
  const std::uint64_t restarts = job_.restarts + 1;  // one, whatever it is for each of them
  for (const job::Move& each : moves) job_.move(each);
  job_.start_again(out.together - out.ranks);
  job_.restarts = restarts;
  return out;
}

// ---- replacements -----------------------------------------------------------------------

namespace {

std::string count_of(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string text_of(Replacements::Room room, bool with_gpus) {
  std::string out = count_of(room.cores, "core");
  return with_gpus ? fmt::format("{} and {}", out, count_of(room.gpus, "gpu")) : out;
}

}  // namespace

Replacements::Room Replacements::needed(const job::Job& job, std::uint32_t shell, const value::Idset& ranks,
                                        bool shares_cores) {
  const job::NodeResources& node = job.resources.nodes[shell];
  const job::Jobspec& spec = job.spec;
  return {shares_cores ? 1 : std::min<std::uint64_t>(ranks.size() * spec.cores_per_slot, node.cores.size()),
          std::min<std::uint64_t>(ranks.size() * spec.gpus_per_slot, node.gpus.size())};
}

Result<std::uint32_t> Replacements::choose(std::span<const Spare> spares, Room needed) {
  std::string too_small;
  for (const Spare& each : spares) {
    if (promised_.contains(each.shell)) continue;
    if (each.room.cores >= needed.cores && each.room.gpus >= needed.gpus) {
      promised_.insert(each.shell);
      return each.shell;
    }
    if (too_small.empty())
      too_small = fmt::format("the spare shell {} has {}, and they need {}", each.shell,
                              text_of(each.room, needed.gpus > 0), text_of(needed, needed.gpus > 0));
  }
  return Error{ENOENT, too_small.empty() ? "there is no spare left" : too_small};
}

Result<std::vector<std::uint32_t>> Replacements::spread(std::span<const Other> others, std::uint64_t tasks) {
  std::vector<Other> left(others.begin(), others.end());
  for (Other& each : left) {
    auto coming = coming_.find(each.shell);
    if (coming == coming_.end()) continue;
    each.tasks += coming->second;
    each.room -= std::min(each.room, coming->second);
  }
  std::vector<std::uint32_t> out;
  while (out.size() < tasks) {
    std::erase_if(left, [this](const Other& each) { return each.room == 0 || promised_.contains(each.shell); });
    auto next = std::min_element(left.begin(), left.end(),
                                 [](const Other& a, const Other& b) { return a.tasks < b.tasks; });
    if (next == left.end())
      return Error{ENOSPC,
                   fmt::format("the other shells have room for {} of {}", out.size(), count_of(tasks, "task"))};
    ++next->tasks;
    --next->room;
    out.push_back(next->shell);
  }
  for (std::uint32_t shell : out) ++coming_[shell];
  return out;
}

void Replacements::ordered(std::uint32_t shell, std::uint64_t tasks) {
  promised_.remove(shell);
  auto coming = coming_.find(shell);
  if (coming == coming_.end()) return;
  coming->second -= std::min(coming->second, tasks);
  if (coming->second == 0) coming_.erase(coming);
}

// ---- replacement ------------------------------------------------------------------------

namespace {

constexpr wire::Between kAnAttempt{1, UINT32_MAX - 1};

}  // namespace

value::Idset Replacement::ranks() const {
  value::Idset out;
  for (const job::Move& each : moves) out.insert(each.ranks);
  return out;
}

void fields(auto& io, wire::Of<Replacement::All> auto& m) {
  io.has("restarts", m.restarts);
  io.has("ran", m.ran);
  io.may_have("delay", m.delay);
}

void fields(auto& io, wire::Of<Replacement> auto& m, std::uint32_t shells = UINT32_MAX,
            std::uint64_t tasks = UINT32_MAX) {
  const wire::Between a_shell{0, std::int64_t{shells} - 1};
  std::uint32_t from = m.moves.empty() ? 0 : m.from();
  io.has("from", from, a_shell);
  io.has("moves", m.moves, wire::Each{wire::Object{[&](auto& move, auto& of) {
           move.has("ranks", of.ranks);
           move.expect(!of.ranks.empty() && *of.ranks.last() < tasks, "ranks of the job");
           move.has("to", of.to, a_shell);
           move.has("try", of.attempt, kAnAttempt);
           if constexpr (wire::kReads<decltype(move)>) of.from = from;
         }}});
  io.expect(!m.moves.empty(), "at least one move");
  io.may_have("all", m.all);
}

std::string Replacement::text() const { return wire::to_text(*this); }

Result<Replacement> Replacement::parse(std::string_view text, std::uint32_t shells, std::uint64_t tasks) {
  return wire::from_text<Replacement>(text, shells, tasks);
}

void fields(auto& io, wire::Of<JobResize> auto& m, std::uint32_t shells = UINT32_MAX) {
  io.has("shells", m.shells);
  io.expect(!m.shells.empty() && *m.shells.last() < shells, "shells of the job");
  io.may_have("lost", m.lost);
  io.expect(!m.lost || *m.lost < shells, "a shell of the job");
  io.has("all", m.all);
}

std::string JobResize::text() const { return wire::to_text(*this); }

Result<JobResize> JobResize::parse(std::string_view text, std::uint32_t shells) {
  return wire::from_text<JobResize>(text, shells);
}

// ---- restarts ---------------------------------------------------------------------------

namespace {

Error none_left(std::string_view whose, std::uint64_t limit) {
  return Error{ENOSPC, fmt::format("the {} has used {} of {} restarts", whose, limit, limit)};
}

}  // namespace

double Restarts::next_delay(std::uint32_t& in_a_row, double ran) const {
  if (ran >= kSteady) in_a_row = 0;
  constexpr std::uint32_t kMostDoublings = 60;  // more exceed every limit
  double delay = std::ldexp(limits_.first, static_cast<int>(std::min(in_a_row++, kMostDoublings)));
  return std::min(delay, limits_.longest);
}

Result<Restarts::Task*> Restarts::task_with_restart_left(Rank rank) {
  if (used_ >= limits_.job) return none_left("job", limits_.job);
  Task& task = tasks_[rank];
  if (task.used >= limits_.per_task) return none_left("task", limits_.per_task);
  INVARIANT(task.used <= used_);
  return &task;
}

Result<Restarts::Granted> Restarts::take(Rank rank, double ran) {
  Task& task = *TRY(task_with_restart_left(rank));
  ++task.used;
  return Granted{++used_, next_delay(task.in_a_row, ran)};
}

Result<Restarts::Granted> Restarts::take_together(std::uint32_t& in_a_row, double ran, std::optional<Rank> failed) {
  if (used_ >= limits_.job) return none_left("job", limits_.job);
  if (failed) ++TRY(task_with_restart_left(*failed))->used;
  return Granted{++used_, next_delay(in_a_row, ran)};
}

auto Restarts::description() {
  return wire::Object{[](auto& io, auto& m) {
    io.has("used", m.used_);
    io.has("jobs_in_a_row", m.jobs_in_a_row_);
    io.has("tasks", m.tasks_, wire::Each{wire::Array{[](auto& task, auto& of) {
             task.are("[RANK, RESTARTS, RESTARTS IN A ROW]");
             task.has(of.first);
             task.has(of.second.used);
             task.has(of.second.in_a_row);
           }}});
  }};
}

Json Restarts::json() const { return description().write(*this); }

Result<void> Restarts::take(const JsonAt& at) { return description().read(at, *this); }

// ---- starts -----------------------------------------------------------------------------

std::map<Starts::Attempt, value::Idset> Starts::ranks(const Idset& numbers) const {
  std::map<Attempt, Idset> out;
  for (const Idset::Range& range : numbers.ranges()) {
    for (std::uint64_t first = range.first; first <= range.last;) {
      std::uint64_t start = first / tasks_;
      std::uint64_t last = std::min<std::uint64_t>(range.last, (start + 1) * tasks_ - 1);
      out[static_cast<Attempt>(start + 1)].insert(static_cast<Idset::Id>(first - start * tasks_),
                                                  static_cast<Idset::Id>(last - start * tasks_));
      first = last + 1;
    }
  }
  return out;
}

void ExpectedStarts::expect(const Idset& ranks, Starts::Attempt attempt) {
  INVARIANT(attempt > 1);
  for (auto& [other, expected] : later_) expected = expected - ranks;
  later_[attempt].insert(ranks);
}

value::Idset ExpectedStarts::current(const Idset& ranks, Starts::Attempt attempt) const {
  Idset out = attempt == 1 ? ranks : Idset();
  for (const auto& [other, expected] : later_) {
    if (other == attempt) out = out | (ranks & expected);
    if (attempt == 1) out = out - expected;
  }
  return out;
}

// ---- restart message --------------------------------------------------------------------

void elements(auto& io, wire::Of<RestartEnd> auto& m) {
  io.are("four elements");
  io.has(m.rank, wire::Between{0, value::Idset::kMaxId});
  io.has(m.attempt, kAnAttempt);
  io.has(m.record);
  io.has(m.ran);
  io.expect(m.record.status().has_value(), "a task that has ended");
}

// An answer always has exactly one of two members.
void fields(auto& io, wire::Of<RestartMessage> auto& m, std::uint32_t shells = UINT32_MAX, bool answers = false) {
  io.has("shell", m.shell, wire::Between{0, std::int64_t{shells} - 1});
  io.has("whole", m.whole);
  io.has_if(answers && !m.ends.empty(), "why", m.why_not);
  io.has("ends", m.ends);
  io.may_have("ordered", m.ordered);
  std::string origin(m.origin ? exits::name_of(*m.origin) : "");
  io.may_have("origin", origin);
  if constexpr (wire::kReads<decltype(io)>) m.origin = exits::origin_named(origin);
  io.may_have("doubt", m.doubt);
  io.may_have("seen", m.seen);
  io.may_have("at", m.at);
  io.has_if(answers && m.ends.empty(), "restarts", m.restarts);
  io.expect(!m.ends.empty() || (m.whole && m.ordered), "an end of a task");
}

std::string RestartMessage::asked() const { return wire::to_text(*this); }

std::string RestartMessage::answered() const { return wire::to_text(*this, std::uint32_t{UINT32_MAX}, true); }

Result<RestartMessage> RestartMessage::parse(std::string_view bytes, std::uint32_t shells) {
  return wire::from_text<RestartMessage>(bytes, shells);
}

void fields(auto& io, wire::Of<SpareRequest> auto& m, std::uint32_t shells = UINT32_MAX,
            std::uint64_t tasks = UINT32_MAX) {
  io.has("shell", m.shell, wire::Between{0, std::int64_t{shells} - 1});
  io.has("together", m.together);
  io.has("starts", m.starts, wire::Each{wire::Array{[&](auto& start, auto& of) {
           start.are("[RANK, START]");
           start.has(of.first, wire::Between{0, static_cast<std::int64_t>(tasks) - 1});
           start.has(of.second, kAnAttempt);
         }}});
  io.expect(!m.starts.empty(), "at least one start");
}

std::string SpareRequest::text() const { return wire::to_text(*this); }

Result<SpareRequest> SpareRequest::parse(std::string_view bytes, std::uint32_t shells, std::uint64_t tasks) {
  return wire::from_text<SpareRequest>(bytes, shells, tasks);
}

bool RestartDecision::takes_in(const RestartDecision& next) const {
  return next.record == record && next.attempt == attempt && next.delay == delay && next.why_not == why_not;
}

}  // namespace nacre::elastic
