// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/naming.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "event/clock.hpp"

namespace nacre::plugins {
namespace {

using Ranks = value::Idset;

// How long failures are gathered for a line: the first ones hardly, so that the line comes at once, but it is one
// if all tasks fail together; then the longer, the more lines there have been, until none fails for a while.
constexpr event::Seconds kFirstWait{0.02};
constexpr event::Seconds kSecondWait{0.15};
constexpr event::Seconds kLongestWait{2.0};
// For what the tasks have written to come out: how often it is looked at, and how long it is waited for.
constexpr event::Seconds kLookAtOutput{0.02};
constexpr event::Seconds kMostDelay{1.0};
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

constexpr int kNoSuchCommand = 127;

std::string text_of(const exits::Record& record) {
  const value::WaitStatus& status = *record.status();
  if (record.kind() != exits::Record::Kind::not_started)
    return status.is_exit() ? fmt::format("exit code {}", status.exit_code()) : status.str();
  return status.exit_code() == kNoSuchCommand ? "not started: no such command" : "not started: not executable";
}

}  // namespace

Result<void> FailureNaming::add(const Ranks& ranks, const exits::Record& record) {
  Ranks& alike = failed_[record.str()];
  alike = alike | ranks;
  if (timer_) return {};
  const event::Seconds now = event::clock_now();
  const bool is_first = !named_at_ || now - *named_at_ > kLongestWait;
  wait_ = is_first ? kFirstWait : std::clamp(2 * wait_, kSecondWait, kLongestWait);
  timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
  timer_->start(wait_);
  waits_since_ = now + wait_;
  return {};
}

void FailureNaming::finish() {
  timer_.reset();
  report(std::exchange(failed_, {}));
}

void FailureNaming::look() {
  Failed ready = event::clock_now() - waits_since_ < kMostDelay ? take_ready() : std::exchange(failed_, {});
  report(std::move(ready));
  if (failed_.empty())
    timer_.reset();
  else
    timer_->start(kLookAtOutput);
}

// Those whose output has come out.
FailureNaming::Failed FailureNaming::take_ready() {
  if (host_.task_output() == nullptr) return std::exchange(failed_, {});
  Ranks left = host_.task_output()->come_out();
  Failed ready;
  for (auto& [text, ranks] : failed_) {
    if (Ranks some = ranks & left; !some.empty()) ready[text] = some;
    ranks = ranks - left;
  }
  std::erase_if(failed_, [](const auto& each) { return each.second.empty(); });
  return ready;
}

void FailureNaming::report(Failed failed) {
  if (!failed.empty()) named_at_ = event::clock_now();
  std::size_t lines = 0;
  std::uint64_t more = 0;
  auto cause = host_.ended_by();
  for (auto& [text, ranks] : failed) {
    auto record = exits::Record::parse(text);
    if (cause) ranks.remove(cause->rank);
    bool is_named = cause && cause->record.kind() == exits::Record::Kind::not_started &&
                    record->kind() == exits::Record::Kind::not_started;
    if (ranks.empty() || is_named) continue;
    if (lines++ < kMostLines) {
      host_.log().log(Level::error, "", "task {}: {}", place_of(host_.job(), ranks), text_of(*record));
    } else {
      more += ranks.size();
    }
  }
  if (more > 0) host_.log().log(Level::error, "", "{} more tasks have failed in other ways", more);
}

}  // namespace nacre::plugins
