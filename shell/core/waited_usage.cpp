// SPDX-License-Identifier: Apache-2.0
#include "core/waited_usage.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "base/json.hpp"
#include "base/process_stat.hpp"

namespace nacre::core {
namespace {

constexpr std::int64_t kMicroseconds = 1'000'000;  // of a second
constexpr unsigned kKibibyte = 10;

std::int64_t microseconds(const timeval& time) { return std::int64_t{time.tv_sec} * kMicroseconds + time.tv_usec; }

// getrusage(2) has also what this process was before its own execve(2): so its value is never too small, and costs
// less than the exact one.
bool is_above_own_peak(std::int64_t kibibytes) {
  rusage own{};
  if (::getrusage(RUSAGE_SELF, &own) != 0) return false;
  if (kibibytes > own.ru_maxrss) return true;
  auto peak = peak_of_this_process();
  return peak && static_cast<std::uint64_t>(kibibytes) << kKibibyte > *peak;
}

}  // namespace

WaitedUsage WaitedUsage::of(std::span<const std::unique_ptr<task::Task>> tasks) {
  WaitedUsage out;
  std::int64_t most = 0;
  for (const auto& task : tasks) {
    if (task->state() != task::State::exited) continue;
    const rusage& usage = task->usage();
    out.cpu += microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    most = std::max<std::int64_t>(most, usage.ru_maxrss);
  }
  if (most > 0) out.largest = 2 * most + (is_above_own_peak(most) ? 1 : 0);
  return out;
}

Json WaitedUsage::json(const job::Job& job, const exits::Outcomes& outcomes, const value::Idset& gone) const {
  value::Idset missing;
  for (auto shell : gone.ids()) {
    if (shell < job.shells()) missing = missing | job.taskmap.ranks_on(shell);
  }
  value::Idset ended;
  for (const auto& [record, ranks] : outcomes.classes()) {
    if (record.status() && record.kind() != exits::Record::Kind::not_started) ended = ended | ranks;
  }
  Json out{{"tasks", job.tasks()},
           {"ended", (ended - missing).size()},
           {"cpu", static_cast<double>(cpu) / static_cast<double>(kMicroseconds)}};
  if (largest > 0) out["maxrss"] = largest / 2 << kKibibyte;
  if (largest > 0 && largest % 2 == 0) out["maxrss_is_bound"] = true;
  if (!missing.empty()) out["missing"] = missing.str();
  return out;
}

}  // namespace nacre::core
