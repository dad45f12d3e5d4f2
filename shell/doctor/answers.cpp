// SPDX-License-Identifier: Apache-2.0
#include "doctor/answers.hpp"

#include "wire/json.hpp"

namespace nacre::doctor {
namespace {

constexpr std::size_t kMostPartBytes = std::size_t{24} << 10;  // but for the last group or log

// At most a few.
std::string hosts_text(const value::Idset& shells, const Gathered::HostOf& host_of_shell) {
  constexpr std::size_t kMostHosts = 4;
  std::vector<std::string> hosts;
  for (std::uint32_t shell : shells.ids()) {
    std::string host = host_of_shell(shell);
    if (host.empty() || std::find(hosts.begin(), hosts.end(), host) != hosts.end()) continue;
    if (hosts.size() == kMostHosts) return fmt::format("{} and others", fmt::join(hosts, ", "));
    hosts.push_back(std::move(host));
  }
  return fmt::format("{}", fmt::join(hosts, ", "));
}

constexpr std::array kRanges{&TaskGroup::cpu, &TaskGroup::ready, &TaskGroup::silent, &TaskGroup::bytes};

// [FACTS, RANKS, NUMBERS, PATH]: the facts as a text of their own, so they can be told apart without being
// read. `fact_of` reads them; null: they are none.
template <typename FactOf>
auto group_rule(FactOf fact_of) {
  return wire::Array{[fact_of](auto& io, auto& m) {
    io.are("a group");
    constexpr bool kReads = wire::kReads<decltype(io)>;
    std::string text = kReads ? "" : dump_json(m.fact.json());
    io.has(text);
    const Fact* fact = fact_of(text);
    io.expect(fact != nullptr, "facts");
    io.has(m.ranks);
    io.expect(!m.ranks.empty(), "ranks");
    io.has(m, wire::Array{[](auto& numbers, auto& of) {
             numbers.are("four numbers of each range");
             for (auto range : kRanges) {
               numbers.has((of.*range).least);
               numbers.has((of.*range).most);
               numbers.has((of.*range).sum);
               numbers.has((of.*range).count);
             }
           }});
    io.has(m.path);
    if constexpr (kReads) {
      if (fact != nullptr) m.fact = *fact;
    }
  }};
}

template <typename FactOf>
auto part_rule(FactOf fact_of) {
  return wire::Object{[fact_of](auto& io, auto& m) {
    io.has("number", m.number);
    io.may_lack("last", m.is_last);
    io.has("groups", m.groups, wire::Each{group_rule(fact_of)});
    io.may_have("notes", m.notes);
    io.may_have("silent", m.silent);
    io.may_have("collectives", m.collectives);
    io.may_have("ras", m.ras);
  }};
}

constexpr auto kAsItIs = [](const std::string&) {
  static const Fact kNone;
  return &kNone;
};

}  // namespace

// ---- of one shell ------------------------------------------------------------

std::string AnswerPart::text() const { return dump_json(part_rule(kAsItIs).write(*this)); }

std::vector<std::string> answer_of(std::uint64_t number, std::vector<TaskGroup> groups, std::set<std::string> notes,
                                   std::vector<CollectiveLog> collectives, std::vector<RasFinding> ras) {
  std::vector<std::string> out;
  auto group = groups.begin();
  auto log = collectives.begin();
  do {
    AnswerPart part;
    part.number = number;
    std::size_t bytes = 0;
    for (; group != groups.end() && bytes < kMostPartBytes; ++group) {
      bytes += dump_json(group_rule(kAsItIs).write(*group)).size();
      part.groups.push_back(std::move(*group));
    }
    for (; log != collectives.end() && bytes < kMostPartBytes; ++log) {
      bytes += dump_json(log->json()).size();
      part.collectives.push_back(std::move(*log));
    }
    part.is_last = group == groups.end() && log == collectives.end();
    if (part.is_last) {
      part.notes = std::move(notes);
      part.ras = std::move(ras);
    }
    out.push_back(part.text());
  } while (group != groups.end() || log != collectives.end());
  return out;
}

Result<AnswerPart> AnswerReader::read(std::string_view text) {
  Json json = TRY(parse_json(text));
  AnswerPart out;
  CHECK_OK(part_rule([this](const std::string& fact) { return fact_of(fact); }).read(JsonAt::root(json), out));
  return out;
}

const Fact* AnswerReader::fact_of(const std::string& text) {
  constexpr std::size_t kMostFacts = 1024;  // those of many jobs differ in every rank's stack
  auto known = facts_.find(text);
  if (known != facts_.end()) return &known->second;
  auto json = parse_json(text);
  auto fact = json ? Fact::parse(*json) : Result<Fact>(json.error());
  if (!fact) return nullptr;
  if (facts_.size() >= kMostFacts) facts_.clear();
  return &facts_.emplace(text, *std::move(fact)).first->second;
}

// ---- of all ------------------------------------------------------------------

void Gathered::add(std::uint32_t shell, AnswerPart part) {
  if (!part.groups.empty()) {
    NodePace& node = nodes_[shell];
    for (TaskGroup& each : part.groups) {
      node.add(each);
      groups_.push_back(std::move(each));
    }
  }
  for (const std::string& each : part.notes) notes_[each].insert(shell);
  if (part.silent) silent_ = std::min(silent_, *part.silent);
  std::move(part.collectives.begin(), part.collectives.end(), std::back_inserter(collectives_));
  std::move(part.ras.begin(), part.ras.end(), std::back_inserter(ras_));
}

void Gathered::put_into(Examination& examination, const HostOf& host_of_shell) && {
  examination.groups = folded(std::move(groups_));
  examination.collectives = folded(std::move(collectives_));
  examination.ras = folded(ras_);
  examination.nodes.clear();
  for (auto& [shell, node] : nodes_) {
    node.shell = shell;
    node.host = host_of_shell(shell);
    examination.nodes.push_back(std::move(node));
  }
  examination.notes.clear();
  for (const auto& [note, shells] : notes_) {
    std::string hosts = hosts_text(shells, host_of_shell);
    examination.notes.push_back(hosts.empty() ? note : fmt::format("{}: {}", hosts, note));
  }
}

}  // namespace nacre::doctor
