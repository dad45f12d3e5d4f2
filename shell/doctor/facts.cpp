// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/json.hpp"

namespace nacre::doctor {
namespace {

constexpr std::array<std::string_view, 8> kDoings = {"busy",   "sleeps", "stuck", "stopped",
                                                     "traced", "frozen", "over",  "not-started"};
constexpr std::array<std::string_view, 5> kPipeEnds = {"unknown", "nobody", "itself", "shell", "others"};
constexpr std::array<std::string_view, 3> kSteps = {"unknown", "none", "some"};

template <typename Enum, std::size_t N>
Result<Enum> parse_name(const JsonAt& at, const std::array<std::string_view, N>& names) {
  std::string text = TRY(at.string());
  auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return at.error("no such name");
  return static_cast<Enum>(found - names.begin());
}

Result<std::string> text_of(const JsonAt& at, const char* name) {
  auto found = TRY(at.find(name));
  return found ? found->string() : std::string();
}

Result<bool> flag_of(const JsonAt& at, const char* name) {
  auto found = TRY(at.find(name));
  return found ? found->boolean() : false;
}

Result<Range> range_of(const JsonAt& at, const char* name) {
  auto found = TRY(at.find(name));
  return found ? in(name, Range::parse(found->json())) : Range();
}

}  // namespace

std::string_view name_of(Doing doing) { return kDoings.at(static_cast<std::size_t>(doing)); }

std::string_view name_of(PipeEnd end) { return kPipeEnds.at(static_cast<std::size_t>(end)); }

std::string_view name_of(Steps steps) { return kSteps.at(static_cast<std::size_t>(steps)); }

Json Fact::json() const {
  Json out{{"doing", name_of(doing)}, {"program", program}};
  for (const auto& [name, text] :
       {std::pair("where", &where), {"call", &call}, {"object", &object}, {"pmi", &pmi}}) {
    if (!text->empty()) out[name] = *text;
  }
  if (writer != PipeEnd::unknown) out["writer"] = name_of(writer);
  if (reader != PipeEnd::unknown) out["reader"] = name_of(reader);
  for (const auto& [name, is_so] : {std::pair("stdin", is_input), {"moves", moves}, {"wakes", wakes}}) {
    if (is_so) out[name] = true;
  }
  if (locked != 0) out["locked"] = locked;
  if (steps != Steps::unknown) out["steps"] = name_of(steps);
  if (barrier != 0) out["barrier"] = barrier;
  if (!stack.empty()) out["stack"] = stack;
  if (!others.empty()) out["other_stacks"] = others;
  return out;
}

Result<Fact> Fact::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  Fact out;
  out.doing = TRY(parse_name<Doing>(TRY(at.at("doing")), kDoings));
  out.program = TRY(text_of(at, "program"));
  out.where = TRY(text_of(at, "where"));
  out.call = TRY(text_of(at, "call"));
  out.object = TRY(text_of(at, "object"));
  if (auto writer = TRY(at.find("writer"))) out.writer = TRY(parse_name<PipeEnd>(*writer, kPipeEnds));
  if (auto reader = TRY(at.find("reader"))) out.reader = TRY(parse_name<PipeEnd>(*reader, kPipeEnds));
  out.is_input = TRY(flag_of(at, "stdin"));
  out.moves = TRY(flag_of(at, "moves"));
  out.wakes = TRY(flag_of(at, "wakes"));
  if (auto locked = TRY(at.find("locked"))) out.locked = static_cast<std::uint64_t>(TRY(locked->integer(0)));
  if (auto steps = TRY(at.find("steps"))) out.steps = TRY(parse_name<Steps>(*steps, kSteps));
  out.pmi = TRY(text_of(at, "pmi"));
  if (auto barrier = TRY(at.find("barrier"))) out.barrier = static_cast<std::uint64_t>(TRY(barrier->integer(0)));
  if (auto stack = TRY(at.find("stack"))) out.stack = TRY(stack->strings());
  if (auto others = TRY(at.find("other_stacks"))) {
    for (const JsonAt& each : TRY(others->elements())) out.others.push_back(TRY(each.strings()));
  }
  return out;
}

Range& Range::operator+=(const Range& other) {
  if (other.count == 0) return *this;
  least = count == 0 ? other.least : std::min(least, other.least);
  most = count == 0 ? other.most : std::max(most, other.most);
  sum += other.sum;
  count += other.count;
  return *this;
}

Json Range::json() const { return {{"min", least}, {"max", most}, {"mean", mean()}, {"tasks", count}}; }

Result<Range> Range::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  Range out;
  out.least = TRY(TRY(at.at("min")).number());
  out.most = TRY(TRY(at.at("max")).number());
  out.count = static_cast<std::uint64_t>(TRY(TRY(at.at("tasks")).integer(0)));
  out.sum = TRY(TRY(at.at("mean")).number()) * static_cast<double>(out.count);
  return out;
}

Json TaskGroup::json() const {
  Json out = fact.json();
  out["ranks"] = ranks.str();
  out["count"] = ranks.size();
  for (const auto& [name, range] :
       {std::pair("cpu", &cpu), {"ready", &ready}, {"silent", &silent}, {"bytes", &bytes}}) {
    if (range->count > 0) out[name] = range->json();
  }
  if (!path.empty()) out["path"] = path;
  return out;
}

Result<TaskGroup> TaskGroup::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  TaskGroup out;
  out.fact = TRY(Fact::parse(json));
  out.ranks = TRY(value::Idset::parse(TRY(TRY(at.at("ranks")).string())));
  if (out.ranks.empty()) return invalid("ranks: a group has at least one");
  out.cpu = TRY(range_of(at, "cpu"));
  out.ready = TRY(range_of(at, "ready"));
  out.silent = TRY(range_of(at, "silent"));
  out.bytes = TRY(range_of(at, "bytes"));
  out.path = TRY(text_of(at, "path"));
  return out;
}

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
