// SPDX-License-Identifier: Apache-2.0
#include "job/topics.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/nearest.hpp"
#include "base/text.hpp"

namespace nacre::job {
namespace {

using Kind = TopicJudgement::Kind;

constexpr std::array kCalled = {"shell.init",
                                "shell.post-init",
                                "task.init",
                                "task.exec",
                                "task.fork",
                                "shell.start",
                                "task.exit",
                                "shell.finish",
                                "shell.tasks-complete",
                                "shell.exit",
                                "shell.log",
                                "shell.log-setlevel",
                                "hwloc.xml",
                                "hwloc.cores",
                                "shell.lost",
                                "job.tasks-exited",
                                "job.report",
                                "job.listed",
                                "output.open",
                                "pmi.connected",
                                "report.note",
                                "shell.processes-left",
                                "shell.left",
                                "job.shrinking",
                                "shell.resource-update"};
constexpr std::array kNotCalled = {"shell.connect", "shell.reconnect"};
constexpr std::array kFamilies = {"taskmap.", "mustache.render."};
constexpr std::array kRealms = {"shell.", "task."};  // all topics that begin so are known
constexpr std::array kGlobs = {"shell.*", "task.*", "shell.log*", "taskmap.*", "mustache.render.*"};
constexpr std::size_t kMisspelt = 2;  // edits, at most

struct Nearest {
  std::string topic;
  std::size_t edits = SIZE_MAX;
};

Nearest nearest_topic(const std::string& topic) {
  Nearest best;
  auto consider = [&](std::string name, std::size_t edits) {
    if (edits < best.edits) best = {std::move(name), edits};
  };
  if (is_glob(topic)) {
    for (const char* each : kGlobs) consider(each, edit_distance(topic, each));
  }
  for (const char* each : kCalled) consider(each, edit_distance(topic, each));
  for (std::string_view family : kFamilies) {
    std::string front = topic.substr(0, topic.rfind('.') + 1);
    if (!front.empty()) consider(std::string(family) + topic.substr(front.size()), edit_distance(front, family));
  }
  return best;
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
  if (any_matches(kCalled, topic) || any_begins(kFamilies, topic)) return {Kind::called};
  if (any_matches(kNotCalled, topic)) return {Kind::never_called};
  Nearest best = nearest_topic(topic);
  if (best.edits <= kMisspelt || any_begins(kRealms, topic)) return {Kind::misspelt, best.topic};
  return {is_glob(topic) ? Kind::matches_none : Kind::unknown};
}

}  // namespace nacre::job
