// SPDX-License-Identifier: Apache-2.0
#include "core/shrink_question.hpp"

#include <utility>
#include <vector>

#include "base/json.hpp"
#include "plugin/pmi_connected.hpp"

namespace nacre::core {

void ShrinkQuestion::ask(const value::Idset& shells, Done done) {
  Number number = ++last_;
  Question& question = open_[number];
  question.shells = question.waiting = shells;
  question.done = std::move(done);
  Result<void> sent = shells.empty() ? Result<void>() : send(number, question);
  if (!sent) host_.log().log(Level::warn, "", "shrink: {}", sent.error().message);
  if (!sent || shells.empty()) finish(number);
}

Result<void> ShrinkQuestion::send(Number number, Question& question) {
  question.timer = TRY(event::Timer::create(host_.loop(), [this, number] { finish(number); }));
  question.timer->start_grace(kMostAnswerTime);
  Json what{{"number", number}, {"shells", question.shells.str()}};
  return host_.announce(kShrinkQuestionTopic, dump_json(what));
}

void ShrinkQuestion::take(std::uint32_t shell, std::string_view answer) {
  Json what = Json::parse(answer, nullptr, false);
  if (!what.is_object()) return;
  auto found = open_.find(what.value("number", Number{0}));
  if (found == open_.end() || !found->second.waiting.contains(shell)) return;
  if (auto ranks = value::Idset::parse(what.value("connected", "")))
    found->second.connected = found->second.connected | *ranks;
  found->second.waiting.remove(shell, shell);
  if (found->second.waiting.empty()) finish(found->first);
}

void ShrinkQuestion::gone(std::uint32_t shell) {
  std::vector<Number> complete;
  for (auto& [number, question] : open_) {
    if (!question.waiting.contains(shell)) continue;
    question.waiting.remove(shell, shell);
    if (question.waiting.empty()) complete.push_back(number);
  }
  for (Number each : complete) finish(each);
}

value::Idset ShrinkQuestion::asked() const {
  value::Idset out;
  for (const auto& [number, question] : open_) out = out | question.shells;
  return out;
}

void ShrinkQuestion::finish(Number number) {
  auto taken = open_.extract(number);
  if (!taken) return;
  if (!taken.mapped().waiting.empty())
    host_.log().log(Level::debug, "", "shrink: shell {} does not answer", taken.mapped().waiting.str());
  taken.mapped().done(taken.mapped().connected);
}

// ---- a shell that is asked -----------------------------------------------------------------------

std::string ShrinkQuestion::answer(std::string_view announcement) {
  Json what = Json::parse(announcement, nullptr, false);
  auto shells = value::Idset::parse(what.is_object() ? what.value("shells", "") : "");
  if (!shells || !shells->contains(host_.job().shell_rank)) return "";
  return dump_json(
      {{"number", what.value("number", Number{0})}, {"connected", plugin::pmi_connected(host_, "").str()}});
}

}  // namespace nacre::core
