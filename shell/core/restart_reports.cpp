// SPDX-License-Identifier: Apache-2.0
#include "core/restart_reports.hpp"

#include <string>

#include <fmt/format.h>

#include "core/kept_end.hpp"

namespace nacre::core {
namespace {

// That start again together.
std::string all_of(group::Rank shell, const elastic::RestartDecision& decision) {
  return decision.whole ? "all tasks of the job"
                        : fmt::format("all tasks of shell {} (rank {})", shell, decision.together.str());
}

// Of all tasks of the job, with where=spare.
std::string places_of(const job::Job& job, group::Rank shell, const elastic::SparePlaces& places) {
  if (places.moves.empty()) return places.why.empty() ? "" : ", where they were: " + places.why;
  const std::uint32_t to = places.moves.front().to;
  return fmt::format(", those of shell {} on the spare shell {}{}", shell, to, job.resources.nodes[to].on());
}

}  // namespace

void RestartReports::raise(const std::string& message) const { host_.raise({"restart", 2, message, std::nullopt}); }

void RestartReports::decided(group::Rank shell, const elastic::RestartDecision& decision) const {
  const bool is_alone = decision.together.empty();
  const value::Idset& which = decision.first_failed.empty() ? decision.ranks : decision.first_failed;
  if (!decision.why_not.empty())
    return shells_.leads() ? refused(which, shell, decision.record, decision.why_not) : void();
  notify(shell, decision);
  if (!shells_.leads() || decision.record.kind() == exits::Record::Kind::lost) return;  // which has a line
  if (decision.ordered) return ordered(shell, decision);
  bool is_one = decision.ranks.size() == 1;
  std::string when = when_of(decision);
  std::string numbers = decision.first == decision.last ? fmt::format(" {}", decision.last)
                                                        : fmt::format("s {}-{}", decision.first, decision.last);
  std::string what_starts =
      is_alone ? fmt::format("try {} of {} starts {}", decision.attempt, is_one ? "it" : "each", when)
               : fmt::format("{} start again {}{}", all_of(shell, decision), when,
                             places_of(host_.job(), shell, decision.places));
  raise(fmt::format("rank {}{} {}{}: {} (restart{} of {})", which.short_str(),
                    shells_.has_others() ? host_.job().resources.nodes[shell].on() : "",
                    decision.record.status()->str(), decision.doubt, what_starts, numbers, most_));
}

void RestartReports::notify(group::Rank shell, const elastic::RestartDecision& decision) const {
  const bool is_alone = decision.together.empty();
  Json what{{"ranks", (is_alone ? decision.ranks : decision.together).str()},
            {"ended", decision.ranks.str()},
            {"scope", decision.whole ? "job"
                      : is_alone     ? "task"
                                     : "node"},
            {"shell", shell},
            {"host", host_.job().resources.nodes[shell].hostname},
            {"record", decision.record.str()},
            {"delay", decision.delay}};
  if (decision.ordered) {
    what["ordered"] = true;
  } else if (decision.last > 0) {  // none: it has come to one that was ordered
    what["restart"] = decision.last;
    what["max"] = most_;
  }
  if (is_alone) what["try"] = decision.attempt;
  if (decision.whole) what["restarts"] = host_.job().restarts;
  shells_.notices().restarted(what);
}

void RestartReports::ordered(group::Rank shell, const elastic::RestartDecision& decision) const {
  std::string on = shells_.has_others() && !decision.whole ? host_.job().resources.nodes[shell].on() : "";
  std::string what = decision.together.empty() ? fmt::format("rank {}{} is started again: try {} starts now",
                                                             decision.ranks.short_str(), on, decision.attempt)
                                               : fmt::format("{}{} start again", all_of(shell, decision), on);
  raise(what + ", as nacre restart has asked");
}

void RestartReports::refused(const value::Idset& ranks, group::Rank shell, const exits::Record& record,
                             std::string_view why) const {
  raise(fmt::format("rank {}{} {}, and {} not started again: {}", ranks.short_str(),
                    shells_.has_others() ? host_.job().resources.nodes[shell].on() : "", record.status()->str(),
                    ranks.size() == 1 ? "is" : "are", why));
}

}  // namespace nacre::core
