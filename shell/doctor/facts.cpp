// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts.hpp"

#include "wire/json.hpp"

namespace nacre::doctor {
namespace {

constexpr std::array<std::string_view, 8> kDoings = {"busy",   "sleeps", "stuck", "stopped",
                                                     "traced", "frozen", "over",  "not-started"};
constexpr std::array<std::string_view, 5> kPipeEnds = {"unknown", "nobody", "itself", "shell", "others"};
constexpr std::array<std::string_view, 3> kSteps = {"unknown", "none", "some"};

constexpr auto named = [](const auto& names) { return wire::Words(names, nullptr, "no such name"); };

}  // namespace

void fields(auto& io, wire::Of<Fact> auto& m) {
  io.has("doing", m.doing, named(kDoings));
  io.may_lack("program", m.program);
  io.may_have("where", m.where);
  io.may_have("call", m.call);
  io.may_have("object", m.object);
  io.may_have("writer", m.writer, named(kPipeEnds));
  io.may_have("reader", m.reader, named(kPipeEnds));
  io.may_have("stdin", m.is_input);
  io.may_have("moves", m.moves);
  io.may_have("wakes", m.wakes);
  io.may_have("locked", m.locked);
  io.may_have("steps", m.steps, named(kSteps));
  io.may_have("gil", m.holds_lock);
  io.may_have("pmi", m.pmi);
  io.may_have("barrier", m.barrier);
  io.may_have("stack", m.stack);
  io.may_have("other_stacks", m.others);
}

Json Fact::json() const { return wire::to_json(*this); }

Result<Fact> Fact::parse(const Json& json) { return wire::from_json<Fact>(json); }

Range& Range::operator+=(const Range& other) {
  if (other.count == 0) return *this;
  least = count == 0 ? other.least : std::min(least, other.least);
  most = count == 0 ? other.most : std::max(most, other.most);
  sum += other.sum;
  count += other.count;
  return *this;
}

void fields(auto& io, wire::Of<Range> auto& m) {
  double mean = m.mean();
  io.has("min", m.least);
  io.has("max", m.most);
  io.has("mean", mean);
  io.has("tasks", m.count);
  if constexpr (wire::kReads<decltype(io)>) m.sum = mean * static_cast<double>(m.count);
}

void fields(auto& io, wire::Of<TaskGroup> auto& m) {
  fields(io, m.fact);
  io.has("ranks", m.ranks);
  io.check("ranks", !m.ranks.empty(), "a group has at least one");
  if constexpr (!wire::kReads<decltype(io)>) io.has("count", m.ranks.size());
  for (const auto& [name, range] :
       {std::pair("cpu", &m.cpu), {"ready", &m.ready}, {"silent", &m.silent}, {"bytes", &m.bytes}})
    io.has_if(range->count > 0, name, *range);
  io.may_have("path", m.path);
}

Json TaskGroup::json() const { return wire::to_json(*this); }

Result<TaskGroup> TaskGroup::parse(const Json& json) { return wire::from_json<TaskGroup>(json); }

std::vector<TaskGroup> folded(std::vector<TaskGroup> groups) {
  std::map<Fact, TaskGroup> by_fact;
  for (TaskGroup& each : groups) {
    auto [found, is_new] = by_fact.try_emplace(each.fact, each);
    if (is_new) continue;
    TaskGroup& group = found->second;
    if (*each.ranks.first() < *group.ranks.first()) group.path = each.path;
    group.ranks.insert(each.ranks);
    group.cpu += each.cpu;
    group.ready += each.ready;
    group.silent += each.silent;
    group.bytes += each.bytes;
  }
  std::vector<TaskGroup> out;
  out.reserve(by_fact.size());
  for (auto& [fact, group] : by_fact) out.push_back(std::move(group));
  std::sort(out.begin(), out.end(), [](const TaskGroup& a, const TaskGroup& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : *a.ranks.first() < *b.ranks.first();
  });
  return out;
}

}  // namespace nacre::doctor
