// SPDX-License-Identifier: Apache-2.0
#include "core/joining_shell.hpp"

#include <utility>

#include <fmt/format.h>

#include "elastic/job_state.hpp"

namespace nacre::core {

void JoiningShell::begin(const elastic::Growth& before, Json state) {
  is_joining_ = true;
  state_ = std::move(state);
  for (const elastic::Growth::Shell& each : before.shells) {
    if (!each.has_come) missing_.insert(each.rank);
  }
}

Result<void> JoiningShell::take_state() {
  if (!is_joining_) return {};
  JsonAt at = JsonAt::root(state_);
  CHECK_OK(elastic::take_job_state(at, job_));
  initrcs_ = TRY(TRY(at.at("initrcs")).string());
  shells_.grown({}, missing_);
  return shells_.take_state(TRY(at.at("shells")));
}

Result<void> JoiningShell::take_restarts() {
  if (!is_joining_) return {};
  auto restarts = TRY(JsonAt::root(state_).find("restart"));  // null: the option is off
  auto& own = restart_.granted_so_far();
  return restarts && own ? own->take(*restarts) : Result<void>();
}

Result<void> JoiningShell::check_initrcs(const std::string& mark) const {
  if (!is_joining_ || mark == initrcs_) return {};
  return invalid(
      fmt::format("the initrc files of {} are not those of shell 0: install the same ones, or give "
                  "-o initrc-check=off",
                  job_.resources.nodes[job_.shell_rank].hostname));
}

void JoiningShell::ready() {
  if (!is_joining_ || has_failed_) return;
  is_joining_ = false;
  Result<void> sent = host_.announce(elastic::kReadyTopic, dump_json({{"shell", job_.shell_rank}}));
  if (!sent) host_.log().log(Level::error, "", "grow: {}", sent.error().message);
}

void JoiningShell::failed(const std::string& why) {
  if (std::exchange(has_failed_, true)) return;
  Result<void> sent = host_.announce(elastic::kReadyTopic, dump_json({{"shell", job_.shell_rank}, {"error", why}}));
  if (!sent) host_.log().log(Level::error, "", "grow: {}", why);
}

}  // namespace nacre::core
