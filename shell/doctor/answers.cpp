// SPDX-License-Identifier: Apache-2.0
#include "doctor/answers.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"

namespace nacre::doctor {
namespace {

constexpr std::size_t kMostGroupBytes = std::size_t{32} << 10;  // in a part, but for the last group

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

// The facts as a text of their own: so they can be told apart without being read.
Json group_json(const TaskGroup& group) {
  Json numbers = Json::array();
  for (const Range* each : {&group.cpu, &group.ready, &group.silent, &group.bytes}) {
    for (double number : {each->least, each->most, each->sum}) numbers.push_back(number);
    numbers.push_back(each->count);
  }
  return Json::array({dump_json(group.fact.json()), group.ranks.str(), std::move(numbers), group.path});
}

// False: they are not the numbers of group_json().
bool read_ranges(const Json& numbers, TaskGroup& out) {
  constexpr std::size_t kEach = 4;
  const std::array ranges{&out.cpu, &out.ready, &out.silent, &out.bytes};
  if (!numbers.is_array() || numbers.size() != kEach * ranges.size()) return false;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Json *least = &numbers[kEach * i], *most = least + 1, *sum = least + 2, *count = least + 3;
    if (!least->is_number() || !most->is_number() || !sum->is_number() || !count->is_number_unsigned())
      return false;
    *ranges[i] = {least->get<double>(), most->get<double>(), sum->get<double>(), count->get<std::uint64_t>()};
  }
  return true;
}

}  // namespace

// ---- of one shell ------------------------------------------------------------

std::string AnswerPart::text() const {
  Json all = Json::array();
  for (const TaskGroup& each : groups) all.push_back(group_json(each));
  Json out{{"number", number}, {"last", is_last}, {"groups", std::move(all)}};
  if (!notes.empty()) out["notes"] = notes;
  if (silent) out["silent"] = *silent;
  return dump_json(out);
}

std::vector<std::string> answer_of(std::uint64_t number, std::vector<TaskGroup> groups,
                                   std::set<std::string> notes) {
  std::vector<std::string> out;
  std::size_t next = 0;
  do {
    AnswerPart part;
    part.number = number;
    for (std::size_t bytes = 0; next < groups.size() && bytes < kMostGroupBytes; ++next) {
      bytes += dump_json(group_json(groups[next])).size();
      part.groups.push_back(std::move(groups[next]));
    }
    part.is_last = next == groups.size();
    if (part.is_last) part.notes = std::move(notes);
    out.push_back(part.text());
  } while (next < groups.size());
  return out;
}

Result<AnswerPart> AnswerReader::read(std::string_view text) {
  Json json = TRY(parse_json(text));
  JsonAt at = JsonAt::root(json);
  AnswerPart out;
  out.number = static_cast<std::uint64_t>(TRY(TRY(at.at("number")).integer(0)));
  if (auto last = TRY(at.find("last"))) out.is_last = TRY(last->boolean());
  auto groups = TRY(at.at("groups"));
  if (!groups.json().is_array()) return groups.expected("an array");
  for (const Json& each : groups.json()) {
    auto group = group_of(each);
    if (!group) return groups.error("a group of it cannot be read");
    out.groups.push_back(*std::move(group));
  }
  if (auto notes = TRY(at.find("notes"))) {
    for (std::string& each : TRY(notes->strings())) out.notes.insert(std::move(each));
  }
  if (auto silent = TRY(at.find("silent"))) out.silent = TRY(silent->number());
  return out;
}

std::optional<TaskGroup> AnswerReader::group_of(const Json& json) {
  constexpr std::size_t kMembers = 4;
  if (!json.is_array() || json.size() != kMembers) return std::nullopt;
  if (!json[0].is_string() || !json[1].is_string() || !json[3].is_string()) return std::nullopt;
  const Fact* fact = fact_of(json[0].get_ref<const std::string&>());
  auto ranks = value::Idset::parse(json[1].get_ref<const std::string&>());
  TaskGroup out;
  if (fact == nullptr || !ranks || ranks->empty() || !read_ranges(json[2], out)) return std::nullopt;
  out.fact = *fact;
  out.ranks = *std::move(ranks);
  out.path = json[3].get_ref<const std::string&>();
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
}

void Gathered::put_into(Examination& examination, const HostOf& host_of_shell) && {
  examination.groups = folded(std::move(groups_));
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
