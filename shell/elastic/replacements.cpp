// SPDX-License-Identifier: Apache-2.0
#include "elastic/replacements.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.hpp"

namespace nacre::elastic {
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

}  // namespace nacre::elastic
