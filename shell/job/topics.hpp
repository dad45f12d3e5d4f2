// SPDX-License-Identifier: Apache-2.0
//
// The topics that shells call, as nacre-shell-plugins(7) lists them, and what a plugin that subscribes to others
// may have meant.
#pragma once

#include <string>

namespace nacre::job {

struct TopicJudgement {
  enum class Kind {
    called,
    never_called,  // one of Flux's that this version does not call
    misspelt,      // no shell calls it, and it is near one that is called, or begins as only topics of the shell do
    matches_none,  // another glob that matches no topic of the shell
    unknown,       // another name, which a plugin may call
  };
  Kind kind = Kind::called;
  std::string nearest = {};                  // of a misspelt one, what may be meant; empty: none is near
  [[nodiscard]] std::string advice() const;  // of a misspelt one: what to do, for a message
};

// Judges a topic, or a glob of topics, that a plugin subscribes to.
[[nodiscard]] TopicJudgement judge_topic(const std::string& topic);

}  // namespace nacre::job
