// SPDX-License-Identifier: Apache-2.0
#include "brief.hpp"

#include <fmt/format.h>

#include "world.hpp"

namespace nacre::sim {
namespace {

std::string ids(const char* name, const Idset& set) {
  return set.empty() ? "" : fmt::format(" {}={}", name, set.str());
}

std::string words(const View& m) {
  Idset add;
  for (const Newcomer& each : m.add) add.insert(each.id);
  return "VIEW" + ids("add", add) + ids("leave", m.leave) + ids("dead", m.dead) +
         fmt::format(" led by {}", m.leader);
}
std::string words(const Release& m) {
  return fmt::format("RELEASE {} {}+{}/{}", m.name, m.at, m.data.size(), m.total);
}
std::string words(const Promise& m) { return fmt::format("PROMISE {} of {} bytes", m.name, m.size); }
std::string words(const Event& m) { return "EVENT " + m.name; }
std::string words(const Exec& m) {
  std::string out = "EXEC";
  if (m.strict) out += " strict";
  if (m.kind == ExecKind::tool) out += " tool";
  for (const RankShare& each : m.map) out += fmt::format(" {}:{}", each.member, each.ranks.str());
  return out;
}
std::string words(const Signal& m) {
  return fmt::format("SIGNAL {} to {}", m.number, m.ranks ? m.ranks->str() : "all");
}
std::string words(const ExceptionEntry& m) { return "EXCEPTION " + m.type; }
std::string words(const End& m) { return fmt::format("END {}", m.code); }
std::string words(const Campaign& m) {
  return fmt::format("CAMPAIGN of view {}", m.view) + ids("done", m.done) + ids("unconfirmed", m.unconfirmed);
}
std::string words(const Refused& m) { return "REFUSED " + m.why + ids("members", m.members); }
std::string words(const Shrink& m) { return "SHRINK" + ids("leave", m.leave); }
std::string words(const Grow& m) { return "GROW" + ids("add", m.add); }

std::string words(const Hello& m) {
  static constexpr const char* kStanding[] = {"joining", "member", "leaving"};
  return fmt::format("HELLO {} applied={} view={}", kStanding[static_cast<int>(m.standing)], m.applied, m.view) +
         ids("suspects", m.suspects);
}
std::string words(const Welcome& m) {
  return fmt::format("WELCOME applied={} view={}{}", m.applied, m.view, m.snapshot ? " with a snapshot" : "");
}
std::string words(const Entry& m) {
  std::string out = fmt::format("{} ", m.seq) + std::visit([](const auto& body) { return words(body); }, m.body);
  return m.request.number == 0 ? out : out + fmt::format(" ({}#{})", m.request.origin, m.request.number);
}
std::string words(const Up& m) {
  std::string out = fmt::format("UP view={} acked={}", m.view, m.acked) + ids("suspects", m.suspects) +
                    ids("ended", m.ended) + ids("gone", m.gone) + ids("started", m.started);
  for (const TaskReport& each : m.exited) out += ids("exited", each.tasks);
  for (const Part& each : m.parts) out += " part=" + each.name;
  return out;
}
std::string words(const Beat& m) {
  return fmt::format("BEAT {} stable={} busy={}", m.number, m.stable, m.busy.str());
}
std::string words(const Request& m) {
  return fmt::format("REQ {}#{} ", m.id.origin, m.id.number) +
         std::visit([](const auto& body) { return words(body); }, m.body);
}
std::string words(const Bye& m) {
  static constexpr const char* kWhy[] = {"moved", "removed", "gone", "finished", "refused"};
  return fmt::format("BYE {} {}", kWhy[static_cast<int>(m.why)], m.text);
}

std::string words(const Claim& m) {
  return fmt::format("CLAIM of {} for term {}{}{} applied={} of term {}", m.candidate, m.ballot,
                     m.trial ? " on trial" : "", m.sure ? ", the leader is over" : "", m.applied, m.log_term);
}
std::string words(const Vote& m) {
  return fmt::format("VOTE for {} in term {}{}", m.candidate, m.ballot, m.trial ? " on trial" : "") +
         ids("by", m.voters);
}

}  // namespace

std::string brief(const Message& message) {
  return fmt::format("[{}] ", message.term) +
         std::visit([](const auto& body) { return words(body); }, message.body);
}
std::string brief(const Entry& entry) { return words(entry); }

}  // namespace nacre::sim
