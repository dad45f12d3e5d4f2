// SPDX-License-Identifier: Apache-2.0
#include "front/ps_rows.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "front/table.hpp"
#include "value/idset.hpp"

namespace nacre::front {
namespace {

constexpr std::size_t kCommandWidth = 32;
constexpr std::size_t kPsHostWidth = 24;
constexpr std::size_t kRanksWidth = 24;

struct Fold {
  value::Idset ranks;
  double time = 0, cpu = 0, rss = 0;
};

std::string percent(double cpu) { return fmt::format("{:.1f}", cpu * 100); }

std::string ranks_text(std::uint64_t spawn, const std::string& ranks) {
  return printable(spawn == 0 ? ranks : fmt::format("{}.{}", spawn, ranks), kRanksWidth);
}

// What was spawned is not started again.
std::string try_text(std::uint64_t spawn, std::uint32_t attempt) {
  return spawn == 0 ? std::to_string(attempt) : "-";
}

}  // namespace

Result<PsTask> PsTask::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  PsTask out;
  if (auto spawn = TRY(at.find("spawn"))) out.spawn = static_cast<std::uint64_t>(TRY(spawn->integer(1)));
  out.rank = static_cast<std::uint32_t>(TRY(TRY(at.at("rank")).integer(0, UINT32_MAX)));
  out.host = TRY(TRY(at.at("host")).string());
  if (auto shell = TRY(at.find("shell")))
    out.shell = static_cast<std::uint32_t>(TRY(shell->integer(0, UINT32_MAX)));
  out.pid = TRY(TRY(at.at("pid")).integer(0, INT32_MAX));
  out.state = TRY(TRY(at.at("state")).string());
  if (out.spawn == 0) out.attempt = static_cast<std::uint32_t>(TRY(TRY(at.at("try")).integer(0, UINT32_MAX)));
  out.time = TRY(TRY(at.at("time")).number());
  out.cpu = TRY(TRY(at.at("cpu")).number());
  out.rss = TRY(TRY(at.at("rss")).number());
  out.command = TRY(TRY(at.at("command")).string());
  if (auto memory = TRY(at.find("gpu_memory"))) out.gpu_memory = TRY(memory->number());
  if (auto use = TRY(at.find("gpu_device_use"))) out.gpu_device_use = TRY(use->number());
  return out;
}

Result<PsSpare> PsSpare::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  PsSpare out;
  out.host = TRY(TRY(at.at("host")).string());
  out.shell = static_cast<std::uint32_t>(TRY(TRY(at.at("shell")).integer(0, UINT32_MAX)));
  return out;
}

std::vector<std::string> ps_row(const PsSpare& spare) {
  return {"-", printable(spare.host, kPsHostWidth), "-", "-", "-", "-", "-", "-", "(spare)"};
}

std::vector<std::vector<std::string>> ps_rows(const std::vector<PsTask>& tasks, bool folded) {
  std::vector<std::vector<std::string>> out;
  if (!folded) {
    for (const PsTask& each : tasks)
      out.push_back({ranks_text(each.spawn, std::to_string(each.rank)), printable(each.host, kPsHostWidth),
                     std::to_string(each.pid), printable(each.state, 2), try_text(each.spawn, each.attempt),
                     time_text(each.time), percent(each.cpu), size_text(each.rss),
                     printable(each.command, kCommandWidth)});
    return out;
  }
  using Key = std::tuple<std::uint64_t, std::string, std::string, std::uint32_t, std::string>;
  std::map<Key, Fold> folds;
  for (const PsTask& each : tasks) {
    Fold& fold = folds[{each.spawn, each.host, each.state, each.attempt, each.command}];
    fold.ranks.insert(each.rank);
    fold.time = std::max(fold.time, each.time);
    fold.cpu += each.cpu;
    fold.rss += each.rss;
  }
  using Place = std::pair<std::uint64_t, value::Idset::Id>;  // the spawn, and the first rank
  std::vector<std::pair<Place, std::vector<std::string>>> rows;
  for (const auto& [key, fold] : folds) {
    const auto& [spawn, host, state, attempt, command] = key;
    double count = static_cast<double>(fold.ranks.size());
    rows.emplace_back(
        Place(spawn, *fold.ranks.first()),
        std::vector<std::string>{ranks_text(spawn, fold.ranks.str()), printable(host, kPsHostWidth),
                                 fmt::format("({})", fold.ranks.size()), printable(state, 2),
                                 try_text(spawn, attempt), time_text(fold.time), percent(fold.cpu / count),
                                 size_text(fold.rss), printable(command, kCommandWidth)});
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [first, cells] : rows) out.push_back(std::move(cells));
  return out;
}

}  // namespace nacre::front
