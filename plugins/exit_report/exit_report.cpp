// SPDX-License-Identifier: Apache-2.0
//
// exit-report: names the tasks that fail, in one line for all that fail alike within a moment, on all nodes:
// "task 3, 7-9 on n1: exit code 3". Not those that the end of the job has ended (victims), or a signal to all tasks (Ctrl-C), and
// not what another message names: the task whose end ends the job, commands that could not be started, lost shells. What the tasks
// have written comes out first.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/json.hpp"
#include "event/clock.hpp"
#include "plugin/output_left.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

using Ranks = value::Idset;

constexpr event::Seconds kMoment{0.2};
// For what the tasks have written to come out: how often it is looked at, and how long it is waited for.
constexpr event::Seconds kLook{0.02};
constexpr event::Seconds kMostWait{1.0};
// In one line, and in a moment; of more than that only the number is given.
constexpr std::size_t kMostRanges = 16;
constexpr std::size_t kMostHosts = 8;
constexpr std::size_t kMostLines = 16;

std::string text_of(const Ranks& ranks) {
  std::string out;
  std::size_t count = 0;
  for (const Ranks::Range& each : ranks.ranges()) {
    if (count++ == kMostRanges) return out + fmt::format(", ... ({} tasks)", ranks.size());
    if (!out.empty()) out += ", ";
    out += each.first == each.last ? fmt::format("{}", each.first) : fmt::format("{}-{}", each.first, each.last);
  }
  return out;
}

// "3, 7-9 on n1, 12 on n2"; without hosts where they are many, or unknown.
std::string place_of(const job::Job& job, const Ranks& ranks) {
  std::vector<std::pair<std::string, Ranks>> hosts;
  for (Ranks left = ranks; !left.empty();) {
    auto node = job.taskmap.node_of(*left.first());
    if (!node || *node >= job.resources.nodes.size()) return text_of(ranks);
    std::string on = job.resources.nodes[*node].on();
    auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& each) { return each.first == on; });
    if (host == hosts.end()) {
      if (hosts.size() == kMostHosts) return text_of(ranks);
      host = hosts.insert(host, {on, {}});
    }
    Ranks here = left & job.taskmap.ranks_on(*node);
    host->second = host->second | here;
    left = left - here;
  }
  std::string out;
  for (const auto& [on, here] : hosts) out += fmt::format("{}{}{}", out.empty() ? "" : ", ", text_of(here), on);
  return out;
}

std::string text_of(const value::WaitStatus& status) {
  return status.is_exit() ? fmt::format("exit code {}", status.exit_code()) : status.str();
}

class ExitReport final : public plugin::Plugin {
 public:
  explicit ExitReport(plugin::Host& host) : Plugin("exit-report"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("job.tasks-exited", [this](plugin::Call& call) { return tasks_exited(call); });
    on("shell.exit", [this](plugin::Call&) {
      timer_.reset();
      report(std::exchange(failed_, {}));
      return Result<void>();
    });
  }

 private:
  using Failed = std::map<int, Ranks>;  // by their status

  Result<void> read() {
    if (host_.options().find(name()) != nullptr) enabled_ = TRY(host_.options().flag(name()));
    return {};
  }

  Result<void> tasks_exited(const plugin::Call& call) {
    JsonAt in = JsonAt::root(call.in);
    auto record = TRY(exits::Record::parse(TRY(TRY(in.at("record")).string())));
    bool is_own_end = record.kind() == exits::Record::Kind::ended;
    if (!enabled_ || !is_own_end || !host_.exit_policy().is_failure(record)) return {};
    if (host_.sent_to_tasks(record.status()->signal())) return {};
    Ranks& alike = failed_[record.status()->raw()];
    alike = alike | TRY(Ranks::parse(TRY(TRY(in.at("ranks")).string())));
    if (timer_) return {};
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
    timer_->start(kMoment);
    waits_since_ = event::clock_now() + kMoment;
    return {};
  }

  void look() {
    Failed ready = event::clock_now() - waits_since_ < kMostWait ? take_ready() : std::exchange(failed_, {});
    report(std::move(ready));
    if (failed_.empty())
      timer_.reset();
    else
      timer_->start(kLook);
  }

  // Those whose output has come out.
  Failed take_ready() {
    Ranks all;
    for (const auto& [raw, ranks] : failed_) all = all | ranks;
    Ranks left = plugin::output_left(host_, all);
    Failed ready;
    for (auto& [raw, ranks] : failed_) {
      if (Ranks some = ranks & left; !some.empty()) ready[raw] = some;
      ranks = ranks - left;
    }
    std::erase_if(failed_, [](const auto& each) { return each.second.empty(); });
    return ready;
  }

  void report(Failed failed) {
    std::size_t lines = 0;
    std::uint64_t more = 0;
    for (auto& [raw, ranks] : failed) {
      if (const auto& end = host_.ended_by()) ranks.remove(end->rank);
      if (ranks.empty()) continue;
      if (lines++ < kMostLines) {
        host_.log().log(Level::error, "", "task {}: {}", place_of(host_.job(), ranks),
                        text_of(value::WaitStatus::of_raw(raw)));
      } else {
        more += ranks.size();
      }
    }
    if (more > 0) host_.log().log(Level::error, "", "{} more tasks have failed in other ways", more);
  }

  plugin::Host& host_;
  bool enabled_ = true;
  Failed failed_;  // that are not reported yet
  std::optional<event::Timer> timer_;
  event::Seconds waits_since_{};  // for output
};

}  // namespace

PluginPtr make_exit_report(plugin::Host& host) { return std::make_unique<ExitReport>(host); }

}  // namespace nacre::plugins
