// SPDX-License-Identifier: Apache-2.0
#include "core/shrink_question.hpp"

#include "base/json.hpp"
#include "plugin/pmi_connected.hpp"

namespace nacre::core {

void ShrinkQuestion::ask(const value::Idset& shells, About about, const Done& done) {
  auto text = [&shells, about](std::uint64_t number) {
    return dump_json({{"number", number}, {"shells", shells.str()}, {"leave", about == About::leaving}});
  };
  auto finish = [this, done](const plugin::OpenQuestions<Asked>::Answered& all) {
    if (!all.late.empty()) host_.log().log(Level::debug, "", "shrink: shell {} does not answer", all.late.str());
    done(all.answer.connected);
  };
  auto asked = open_.ask({shells, kMostAnswerTime, Asked{shells, about, {}}, text, finish});
  if (asked) return;
  host_.log().log(Level::warn, "", "shrink: {}", asked.error().message);
  done({});
}

void ShrinkQuestion::take(std::uint32_t shell, std::string_view answer) {
  Json what = Json::parse(answer, nullptr, false);
  if (!what.is_object()) return;
  auto number = what.value("number", std::uint64_t{0});
  Asked* asked = open_.find(number, shell);
  if (asked == nullptr) return;
  if (auto ranks = value::Idset::parse(what.value("connected", ""))) asked->connected.tasks.insert(*ranks);
  if (what.value("spawned", false)) asked->connected.spawning.insert(shell);
  open_.complete(number, shell);
}

value::Idset ShrinkQuestion::asked_to_leave() const {
  value::Idset out;
  open_.each([&out](const Asked& asked) {
    if (asked.about == About::leaving) out.insert(asked.shells);
  });
  return out;
}

// ---- a shell that is asked -----------------------------------------------------------------------

value::Idset ShrinkQuestion::leaving_in(std::string_view announcement) {
  Json what = Json::parse(announcement, nullptr, false);
  if (!what.is_object() || !what.value("leave", false)) return {};
  return value::Idset::parse(what.value("shells", "")).value_or(value::Idset());
}

std::string ShrinkQuestion::answer(std::string_view announcement) {
  Json what = Json::parse(announcement, nullptr, false);
  auto shells = value::Idset::parse(what.is_object() ? what.value("shells", "") : "");
  if (!shells || !shells->contains(host_.job().shell_rank)) return "";
  return dump_json({{"number", what.value("number", std::uint64_t{0})},
                    {"connected", plugin::pmi_connected(host_, "").str()},
                    {"spawned", plugin::spawned_connected(host_)}});
}

}  // namespace nacre::core
