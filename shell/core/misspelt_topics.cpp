// SPDX-License-Identifier: Apache-2.0
#include "core/misspelt_topics.hpp"

#include <fmt/format.h>

#include "job/topics.hpp"

namespace nacre::core {

std::vector<std::string> misspelt_topics(const plugin::Stack& stack) {
  std::vector<std::string> out;
  for (const auto& plugin : stack.plugins()) {
    if (plugin->origin() == "builtin") continue;
    for (const plugin::Plugin::Subscription& each : plugin->subscriptions()) {
      job::TopicJudgement judged = job::judge_topic(each.topic);
      if (judged.kind != job::TopicJudgement::Kind::misspelt) continue;
      out.push_back(fmt::format("plugin '{}' ({}) listens to '{}', which no shell ever calls; {}", plugin->name(),
                                plugin->origin(), each.topic, judged.advice()));
    }
  }
  return out;
}

}  // namespace nacre::core
