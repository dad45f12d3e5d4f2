// SPDX-License-Identifier: Apache-2.0
#include "elastic/recovery.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/invariant.hpp"
#include "base/json.hpp"

namespace nacre::elastic {

// Something else may have come before it: the end of the job, or of the shell, or a restart of all tasks.
bool Recovery::stands(std::uint32_t shell, const RestartEnd& end) const {
  return stays_(shell) && end.rank < job_.tasks() && job_.taskmap.node_of(end.rank) == shell &&
         job_.attempt_of(end.rank) == end.attempt;
}

RestartDecision Recovery::decide(const RestartEnd& end, bool ordered) {
  RestartDecision out{value::Idset::range(end.rank, end.rank), end.record, end.attempt + 1};
  out.ordered = ordered;
  if (!ordered) {
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
  for (const RestartEnd& each : asked.ends) {
    if (!stands(asked.shell, each)) {
      out.fallen.insert(each.rank);
    } else if (!asked.whole) {
      RestartDecision decision = decide(each, asked.ordered);
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
  if (out.is_granted() && !message.ordered) {
    auto granted = message.whole ? restarts_.take_job(first.ran) : restarts_.take_node(message.shell, first.ran);
    out.why_not = granted ? "" : granted.error().message;
    out.delay = granted ? granted->delay : 0;
    out.first = out.last = granted ? granted->number : 0;
  }
  out.together = message.whole ? job_.all_ranks() : job_.taskmap.ranks_on(message.shell);
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

// It is one restart, wherever they start.
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

// Not a shell that tasks have left, as one has failed there, or it was lost.
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
  if (all.delay) {
    out.delay = *all.delay;
    out.first = out.last = restarts_.used();
  } else {
    auto granted = restarts_.take_job(all.ran);
    out.why_not = granted ? "" : granted.error().message;
    out.delay = granted ? granted->delay : 0;
    out.first = out.last = granted ? granted->number : 0;
  }
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

Result<Replacement::All> parse_all(const JsonAt& at) {
  Replacement::All out;
  out.restarts = static_cast<std::uint64_t>(TRY(TRY(at.at("restarts")).integer(0, INT64_MAX)));
  out.ran = TRY(TRY(at.at("ran")).number());
  if (auto delay = TRY(at.find("delay"))) out.delay = TRY(delay->number());
  return out;
}

}  // namespace

value::Idset Replacement::ranks() const {
  value::Idset out;
  for (const job::Move& each : moves) out.insert(each.ranks);
  return out;
}

std::string Replacement::text() const {
  Json list = Json::array();
  for (const job::Move& each : moves)
    list.push_back({{"to", each.to}, {"ranks", each.ranks.str()}, {"try", each.attempt}});
  Json out{{"from", from()}, {"moves", std::move(list)}};
  if (all) {
    out["all"] = {{"restarts", all->restarts}, {"ran", all->ran}};
    if (all->delay) out["all"]["delay"] = *all->delay;
  }
  return dump_json(out);
}

Result<Replacement> Replacement::parse(std::string_view text, std::uint32_t shells, std::uint64_t tasks) {
  Json json = TRY(parse_json(text));
  JsonAt what = JsonAt::root(json);
  const std::int64_t last = std::int64_t{shells} - 1;
  auto from = static_cast<std::uint32_t>(TRY(TRY(what.at("from")).integer(0, last)));
  Replacement out;
  for (const JsonAt& each : TRY(TRY(what.at("moves")).elements())) {
    auto ranks = TRY(value::Idset::parse(TRY(TRY(each.at("ranks")).string())));
    if (ranks.empty() || *ranks.last() >= tasks) return each.expected("ranks of the job");
    auto to = static_cast<std::uint32_t>(TRY(TRY(each.at("to")).integer(0, last)));  // see group/statements.cpp
    auto attempt = static_cast<std::uint32_t>(TRY(TRY(each.at("try")).integer(1, UINT32_MAX - 1)));
    out.moves.push_back({ranks, from, to, attempt});
  }
  if (out.moves.empty()) return what.expected("at least one move");
  if (auto all = TRY(what.find("all"))) out.all = TRY(parse_all(*all));
  return out;
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

Result<Restarts::Granted> Restarts::take(Rank rank, double ran) {
  if (used_ >= limits_.job) return none_left("job", limits_.job);
  Task& task = tasks_[rank];
  if (task.used >= limits_.per_task) return none_left("task", limits_.per_task);
  ++task.used;
  INVARIANT(task.used <= used_ + 1);
  return Granted{++used_, next_delay(task.in_a_row, ran)};
}

Result<Restarts::Granted> Restarts::take_together(std::uint32_t& in_a_row, double ran) {
  if (used_ >= limits_.job) return none_left("job", limits_.job);
  return Granted{++used_, next_delay(in_a_row, ran)};
}

Json Restarts::json() const {
  Json tasks = Json::array();
  for (const auto& [rank, task] : tasks_) tasks.push_back(Json::array({rank, task.used, task.in_a_row}));
  return {{"used", used_}, {"jobs_in_a_row", jobs_in_a_row_}, {"tasks", std::move(tasks)}};
}

Result<void> Restarts::take(const JsonAt& at) {
  auto number = [](const JsonAt& each) { return each.integer(0, INT64_MAX); };
  used_ = static_cast<std::uint64_t>(TRY(number(TRY(at.at("used")))));
  jobs_in_a_row_ = static_cast<std::uint32_t>(TRY(number(TRY(at.at("jobs_in_a_row")))));
  for (const JsonAt& each : TRY(TRY(at.at("tasks")).elements())) {
    constexpr std::size_t kMembers = 3;
    std::vector<JsonAt> task = TRY(each.elements());
    if (task.size() != kMembers) return each.expected("[RANK, RESTARTS, RESTARTS IN A ROW]");
    tasks_[static_cast<Rank>(TRY(number(task[0])))] = {static_cast<std::uint64_t>(TRY(number(task[1]))),
                                                       static_cast<std::uint32_t>(TRY(number(task[2])))};
  }
  return {};
}

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

namespace {

Json json_of(const RestartMessage& message) {
  Json ends = Json::array();
  for (const RestartEnd& each : message.ends)
    ends.push_back({each.rank, each.attempt, each.record.str(), each.ran});
  Json out{{"shell", message.shell}, {"whole", message.whole}, {"ends", std::move(ends)}};
  if (message.ordered) out["ordered"] = true;
  if (message.origin) out["origin"] = exits::name_of(*message.origin);
  if (!message.doubt.empty()) out["doubt"] = message.doubt;
  return out;
}

}  // namespace

std::string RestartMessage::asked() const { return dump_json(json_of(*this)); }

std::string RestartMessage::answered() const {
  Json out = json_of(*this);
  if (ends.empty())
    out["restarts"] = restarts;
  else
    out["why"] = why_not;
  return dump_json(out);
}

Result<RestartMessage> RestartMessage::parse(std::string_view bytes, std::uint32_t shells) {
  Json json = TRY(parse_json(bytes));
  JsonAt message = JsonAt::root(json);
  RestartMessage out;
  out.shell = static_cast<std::uint32_t>(TRY(TRY(message.at("shell")).integer(0, std::int64_t{shells} - 1)));
  out.whole = TRY(TRY(message.at("whole")).boolean());
  if (auto why = TRY(message.find("why"))) out.why_not = TRY(why->string());
  for (const JsonAt& each : TRY(TRY(message.at("ends")).elements())) {
    auto parts = TRY(each.elements());
    if (parts.size() != 4) return each.expected("four elements");
    out.ends.push_back({static_cast<value::Idset::Id>(TRY(parts[0].integer(0, value::Idset::kMaxId))),
                        static_cast<std::uint32_t>(TRY(parts[1].integer(1, UINT32_MAX - 1))),
                        TRY(exits::Record::parse(TRY(parts[2].string()))), TRY(parts[3].number())});
    if (!out.ends.back().record.status()) return each.expected("a task that has ended");
  }
  if (auto ordered = TRY(message.find("ordered"))) out.ordered = TRY(ordered->boolean());
  if (auto origin = TRY(message.find("origin"))) out.origin = exits::origin_named(TRY(origin->string()));
  if (auto doubt = TRY(message.find("doubt"))) out.doubt = TRY(doubt->string());
  if (auto restarts = TRY(message.find("restarts")))
    out.restarts = static_cast<std::uint64_t>(TRY(restarts->integer(0, INT64_MAX)));
  if (out.ends.empty() && !(out.whole && out.ordered)) return message.expected("an end of a task");
  return out;
}

std::string SpareRequest::text() const {
  Json list = Json::array();
  for (const auto& [rank, attempt] : starts) list.push_back({rank, attempt});
  return dump_json({{"shell", shell}, {"together", together}, {"starts", std::move(list)}});
}

Result<SpareRequest> SpareRequest::parse(std::string_view bytes, std::uint32_t shells, std::uint64_t tasks) {
  Json json = TRY(parse_json(bytes));
  JsonAt what = JsonAt::root(json);
  SpareRequest out;
  out.shell = static_cast<std::uint32_t>(TRY(TRY(what.at("shell")).integer(0, std::int64_t{shells} - 1)));
  out.together = TRY(TRY(what.at("together")).boolean());
  const auto last = static_cast<std::int64_t>(tasks) - 1;
  for (const JsonAt& each : TRY(TRY(what.at("starts")).elements())) {
    auto parts = TRY(each.elements());
    if (parts.size() != 2) return each.expected("[RANK, START]");
    out.starts.emplace_back(static_cast<value::Idset::Id>(TRY(parts[0].integer(0, last))),
                            static_cast<std::uint32_t>(TRY(parts[1].integer(1, UINT32_MAX - 1))));
  }
  if (out.starts.empty()) return what.expected("at least one start");
  return out;
}

bool RestartDecision::takes_in(const RestartDecision& next) const {
  return next.record == record && next.attempt == attempt && next.delay == delay && next.why_not == why_not;
}

}  // namespace nacre::elastic
