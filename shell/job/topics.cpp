// SPDX-License-Identifier: Apache-2.0
#include "job/topics.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::job {
namespace {

using Judged = TopicJudgement::Kind;

constexpr std::array kCalled = {"shell.init",        "shell.post-init",    "task.init",
                                "task.exec",         "task.fork",          "shell.start",
                                "task.exit",         "shell.finish",       "shell.tasks-complete",
                                "shell.exit",        "shell.log",          "shell.log-setlevel",
                                "hwloc.xml",         "hwloc.cores",        "hwloc.topology",
                                "affinity.plan",     "shell.lost",         "job.tasks-exited",
                                "job.report",        "job.usage",          "job.listed",
                                "output.open",       "pmi.connected",      "report.note",
                                "doctor.note",       "doctor.hang",        "shell.processes-left",
                                "shell.left",        "job.shrinking",      "shell.resource-update",
                                "job.tasks-moved",   "shell.take-over",    "rehearse.event",
                                "job.tasks-restart", "shell.restart",      "pmi.restart",
                                "shell.joined",      "pmi.spawned",        "usage.gpus",
                                "pmi.spawn",         "pmi.spawning",       "pmi.spawn-begins",
                                "pmi.spawn-started", "pmi.spawn-exited",   "pmi.spawn-settled",
                                "pmi.spawns-over",   "shell.not-replaced", "pmi.processes",
                                "shell.unkillable"};
constexpr std::array kNotCalled = {"shell.connect", "shell.reconnect"};
constexpr std::array kFamilies = {"taskmap.", "mustache.render."};
constexpr std::array kRealms = {"shell.", "task."};  // all topics that begin so are known
constexpr std::array kGlobs = {"shell.*", "task.*", "shell.log*", "taskmap.*", "mustache.render.*"};

// Those that may be meant by `topic`: of a glob other globs first.
std::vector<std::string> topics_like(const std::string& topic) {
  std::vector<std::string> out;
  if (is_glob(topic)) out.assign(kGlobs.begin(), kGlobs.end());
  out.insert(out.end(), kCalled.begin(), kCalled.end());
  std::string front = topic.substr(0, topic.rfind('.') + 1);
  const std::vector<std::string> families(kFamilies.begin(), kFamilies.end());
  if (auto family = nearest(front, families)) out.push_back(*family + topic.substr(front.size()));
  return out;
}

template <typename List>
bool any_matches(const List& list, const std::string& topic) {
  return std::any_of(list.begin(), list.end(), [&](const char* each) {
    return topic == each || (is_glob(topic) && glob_match(topic, each));
  });
}

template <typename List>
bool any_begins(const List& list, const std::string& topic) {
  return std::any_of(list.begin(), list.end(), [&](const char* each) { return topic.starts_with(each); });
}

}  // namespace

TopicJudgement judge_topic(const std::string& topic) {
  if (any_matches(kCalled, topic) || any_begins(kFamilies, topic)) return {Judged::called};
  if (any_matches(kNotCalled, topic)) return {Judged::never_called};
  std::optional<std::string> near = nearest(topic, topics_like(topic));
  if (near || any_begins(kRealms, topic)) return {Judged::misspelt, near.value_or("")};
  return {is_glob(topic) ? Judged::matches_none : Judged::unknown};
}

std::string TopicJudgement::advice() const {
  if (nearest.empty()) return "nacre-shell-plugins(7) has all topics";
  return fmt::format("did you mean {}?", in_quotes(nearest));
}

}  // namespace nacre::job
