// SPDX-License-Identifier: Apache-2.0
#include "doctor/collectives.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "doctor/findings.hpp"
#include "doctor/pickle.hpp"
#include "wire/json.hpp"

namespace nacre::doctor {
namespace {

using PickleKind = PickleValue::Kind;

std::string cut(std::string_view text) { return std::string(text.substr(0, CollectiveLog::kMostText)); }

std::string_view text_of(const PickleValue* value) {
  return value == nullptr || value->kind != PickleKind::text ? std::string_view() : value->text;
}

std::optional<std::uint64_t> number_of(const PickleValue* value) {
  if (value == nullptr || value->kind != PickleKind::integer || value->integer < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value->integer);
}

// "[[1024], [16, 4]]", of numbers in lists in a list.
std::string sizes_of(const Pickle& pickle, const PickleValue* sizes) {
  if (sizes == nullptr || sizes->kind != PickleKind::list) return "";
  std::string out = "[";
  for (std::uint32_t each : sizes->items) {
    std::string one;
    for (std::uint32_t number : pickle.at(each).items)
      one += fmt::format("{}{}", one.empty() ? "" : ", ", pickle.at(number).integer);
    out += fmt::format("{}[{}]", out.size() == 1 ? "" : ", ", one);
    if (out.size() > CollectiveLog::kMostText) return cut(out);
  }
  return out + "]";
}

// ("0", "default_pg"); in older versions the name alone, or a number.
std::string group_name(const Pickle& pickle, const PickleValue& entry) {
  const PickleValue* name = pickle.member(entry, "process_group");
  if (name != nullptr && name->kind == PickleKind::list && name->items.size() == 2)
    return cut(fmt::format("{} ({})", text_of(&pickle.at(name->items[0])), text_of(&pickle.at(name->items[1]))));
  if (auto text = text_of(name); !text.empty()) return cut(text);
  return fmt::format("{}", number_of(pickle.member(entry, "pg_id")).value_or(0));
}

class DumpReader {
 public:
  DumpReader(const Pickle& pickle, double now) : pickle_(pickle), now_(now) {}

  Result<CollectiveLog> read() {
    const PickleValue* entries = pickle_.member(pickle_.root(), "entries");
    if (entries == nullptr || entries->kind != PickleKind::list) return invalid("it has no list of entries");
    add_groups();
    for (std::uint32_t each : entries->items) add(pickle_.at(each));
    CollectiveLog out;
    for (auto& [name, group] : groups_) out.groups.push_back(std::move(group));
    // Those that have called most are kept.
    std::stable_sort(out.groups.begin(), out.groups.end(), [](const auto& a, const auto& b) {
      return (a.last.empty() ? 0 : a.last.back().number) > (b.last.empty() ? 0 : b.last.back().number);
    });
    if (out.groups.size() > CollectiveLog::kMostGroups) out.groups.resize(CollectiveLog::kMostGroups);
    if (newest_ > 0) out.since = std::max(0.0, now_ - newest_);
    return out;
  }

 private:
  // Those in which nothing has been called, too.
  void add_groups() {
    const PickleValue* config = pickle_.member(pickle_.root(), "pg_config");
    if (config == nullptr || config->kind != PickleKind::dict) return;
    for (std::size_t i = 1; i < config->items.size() && groups_.size() < kMostRead; i += 2) {
      const PickleValue& each = pickle_.at(config->items[i]);
      std::string name =
          cut(fmt::format("{} ({})", text_of(pickle_.member(each, "name")), text_of(pickle_.member(each, "desc"))));
      groups_[name] = {name, cut(text_of(pickle_.member(each, "ranks"))), {}};
    }
  }

  void add(const PickleValue& entry) {
    auto number = number_of(pickle_.member(entry, "collective_seq_id"));
    const PickleValue* point = pickle_.member(entry, "is_p2p");
    if (!number || (point != nullptr && point->integer != 0)) return;
    std::string name = group_name(pickle_, entry);
    if (!groups_.contains(name) && groups_.size() >= kMostRead) return;
    CollectiveGroup& group = groups_[name];
    group.name = name;
    std::string_view what = text_of(pickle_.member(entry, "profiling_name"));
    if (what.starts_with("nccl:")) what.remove_prefix(5);
    CollectiveCall one{*number, cut(what), sizes_of(pickle_, pickle_.member(entry, "input_sizes")),
                       cut(text_of(pickle_.member(entry, "state")))};
    // Several that are called as one have its number; the last of them is it.
    if (!group.last.empty() && group.last.back().number == *number)
      group.last.back() = std::move(one);
    else if (group.last.empty() || group.last.back().number < *number)
      group.last.push_back(std::move(one));
    else
      return;
    if (group.last.size() > CollectiveLog::kMostLast) group.last.erase(group.last.begin());
    constexpr double kNanoseconds = 1e9;  // of a second
    auto created = number_of(pickle_.member(entry, "time_created_ns"));
    if (created) newest_ = std::max(newest_, static_cast<double>(*created) / kNanoseconds);
  }

  static constexpr std::size_t kMostRead = 4096;  // process groups

  const Pickle& pickle_;
  double now_;
  double newest_ = 0;  // seconds since 1970
  std::map<std::string, CollectiveGroup> groups_;
};

// ---- what follows -------------------------------------------------------------------------

// What the tasks of one log have called in one process group.
struct Member {
  const CollectiveLog* log = nullptr;
  const CollectiveGroup* group = nullptr;

  [[nodiscard]] std::uint64_t last() const { return group->last.empty() ? 0 : group->last.back().number; }
  [[nodiscard]] const CollectiveCall* at(std::uint64_t number) const {
    auto found = std::find_if(group->last.begin(), group->last.end(),
                              [&](const CollectiveCall& each) { return each.number == number; });
    return found == group->last.end() ? nullptr : &*found;
  }
};
using Members = std::vector<Member>;

// Each task gives as much as the others there.
bool has_equal_sizes(std::string_view name) {
  constexpr std::string_view kNames[] = {"all_reduce", "broadcast", "reduce", "_all_gather_base",
                                         "_reduce_scatter_base"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::string call_text(const CollectiveCall& call) {
  return has_equal_sizes(call.name) && !call.sizes.empty() ? call.name + " of " + call.sizes : call.name;
}

std::uint64_t count_of(const Members& members) {
  std::uint64_t out = 0;
  for (const Member& each : members) out += each.log->ranks.size();
  return out;
}

CollectiveFinding finding(const Members& members, std::string text, std::string evidence) {
  CollectiveFinding out{{}, {}, std::move(text), std::move(evidence)};
  for (const Member& each : members) {
    out.ranks.insert(each.log->ranks);
    out.torch_ranks.insert(each.log->torch_ranks);
  }
  if (out.torch_ranks == out.ranks) out.torch_ranks = {};
  return out;
}

std::string counted_others(std::uint64_t number) {
  return fmt::format("{} other{}", number, number == 1 ? "" : "s");
}

// Which tasks have called what with a number; those of the most come first.
std::vector<std::pair<std::string, Members>> calls_at(const Members& members, std::uint64_t number) {
  std::map<std::string, Members> by_call;
  for (const Member& each : members) {
    if (const CollectiveCall* call = each.at(number)) by_call[call_text(*call)].push_back(each);
  }
  std::vector<std::pair<std::string, Members>> out(by_call.begin(), by_call.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return count_of(a.second) > count_of(b.second); });
  return out;
}

// The first number at which they call different ones; what comes after it is no wonder. False: there is none.
bool differ(const std::string& group, const Members& members, std::vector<CollectiveFinding>& out) {
  std::map<std::uint64_t, int> numbers;
  for (const Member& each : members) {
    for (const CollectiveCall& call : each.group->last) numbers[call.number] = 0;
  }
  for (const auto& [number, unused] : numbers) {
    auto calls = calls_at(members, number);
    if (calls.size() < 2) continue;
    const auto& [usual, most] = calls.front();
    for (std::size_t i = 1; i < calls.size(); ++i)
      out.push_back(finding(calls[i].second,
                            fmt::format("at another collective than others in process group {}", group),
                            fmt::format("number {} is {} there, and {} in {}", number, calls[i].first, usual,
                                        counted_others(count_of(most)))));
    return true;
  }
  return false;
}

// Those that have not called what others wait in.
void lag(const std::string& group, const Members& members, std::vector<CollectiveFinding>& out) {
  std::uint64_t most = 0;
  for (const Member& each : members) most = std::max(most, each.last());
  Members ahead;
  std::optional<double> since;
  std::map<std::uint64_t, Members> behind;
  for (const Member& each : members) {
    if (each.last() != most) {
      behind[each.last()].push_back(each);
      continue;
    }
    ahead.push_back(each);
    if (each.log->since) since = std::min(since.value_or(*each.log->since), *each.log->since);
  }
  const CollectiveCall* next = most == 0 ? nullptr : ahead.front().at(most);
  if (next == nullptr || behind.empty() || next->state == "completed" || since.value_or(0) < kLeastLag) return;
  for (const auto& [number, these] : behind) {
    const CollectiveCall* own = these.front().at(number);
    out.push_back(
        finding(these,
                fmt::format("at collective {} in process group {}, and {} {} at {}", number, group,
                            counted_others(count_of(ahead)), count_of(ahead) == 1 ? "is" : "are", most),
                fmt::format("{}these wait in {} for {} at least",
                            own == nullptr ? "" : fmt::format("{} is {}, {}; ", number, own->name, own->state),
                            next->name, time_words(*since))));
  }
}

}  // namespace

void fields(auto& io, wire::Of<CollectiveCall> auto& m) {
  io.has("number", m.number);
  io.has("name", m.name);
  io.may_have("sizes", m.sizes);
  io.may_have("state", m.state);
}

void fields(auto& io, wire::Of<CollectiveGroup> auto& m) {
  io.has("name", m.name);
  io.may_have("members", m.members);
  io.has("last", m.last);
}

void fields(auto& io, wire::Of<CollectiveLog> auto& m) {
  io.has("ranks", m.ranks);
  io.has("torch-ranks", m.torch_ranks);
  io.has("groups", m.groups);
  io.may_have("since", m.since);
}

Json CollectiveLog::json() const { return wire::to_json(*this); }

Result<CollectiveLog> CollectiveLog::parse(const Json& json) { return wire::from_json<CollectiveLog>(json); }

Result<CollectiveLog> collectives_in(std::string_view dump, double now) {
  Pickle pickle = TRY(Pickle::read(dump));
  return DumpReader(pickle, now).read();
}

std::vector<CollectiveLog> folded(std::vector<CollectiveLog> logs) {
  std::vector<CollectiveLog> out;
  std::map<std::string, std::size_t> known;  // by the groups, as text
  for (CollectiveLog& each : logs) {
    auto [found, is_new] = known.try_emplace(dump_json(wire::to_json(each.groups)), out.size());
    if (is_new) {
      out.push_back(std::move(each));
      continue;
    }
    CollectiveLog& one = out[found->second];
    one.ranks.insert(each.ranks);
    one.torch_ranks.insert(each.torch_ranks);
    if (one.since && each.since) one.since = std::min(*one.since, *each.since);
    if (!each.since) one.since.reset();
  }
  return out;
}

std::vector<CollectiveFinding> collective_findings(const std::vector<CollectiveLog>& logs) {
  std::map<std::pair<std::string, std::string>, Members> groups;  // by name and members
  for (const CollectiveLog& log : logs) {
    for (const CollectiveGroup& each : log.groups) groups[{each.name, each.members}].push_back({&log, &each});
  }
  std::vector<CollectiveFinding> out;
  for (const auto& [key, members] : groups) {
    if (members.size() < 2) continue;
    if (!differ(key.first, members, out)) lag(key.first, members, out);
  }
  return out;
}

}  // namespace nacre::doctor
