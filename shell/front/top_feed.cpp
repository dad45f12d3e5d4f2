// SPDX-License-Identifier: Apache-2.0
#include "front/top_feed.hpp"

#include <cerrno>
#include <utility>
#include <variant>

namespace nacre::front {

Result<void> TopFeed::ask() {
  if (waiting_since_) return {};
  sample_ = {};
  is_busy_ = false;
  status_ = client_.begin("status");
  exits_ = client_.begin("exits");
  ps_ = client_.begin("ps", with_gpus_ ? Json{{"gpu", true}} : Json::object());
  waiting_since_ = event::clock_now();
  return client_.exchange();
}

Result<void> TopFeed::take_answer(const control::Answer& answer) {
  bool is_ours = answer.id == status_ || answer.id == exits_ || answer.id == ps_;
  if (!is_ours) return {};
  std::uint64_t& open = answer.id == status_ ? status_ : answer.id == exits_ ? exits_ : ps_;
  if (answer.error) {
    if (answer.error->code != EBUSY) return *answer.error;
    is_busy_ = true;
  } else if (&open == &status_) {
    sample_.status = TRY(TopStatus::parse(answer.value));
  } else if (&open == &exits_) {
    sample_.failed = TRY(TopSample::failed_of(answer.value));
  } else {
    for (const JsonAt& each : TRY(TRY(JsonAt::root(answer.value).at("tasks")).elements()))
      sample_.tasks.push_back(TRY(PsTask::parse(each.json())));
    sample_.late = TRY(TopSample::late_of(answer.value));
    sample_.notes = TRY(TopSample::notes_of(answer.value));
  }
  if (!answer.more) open = 0;
  return {};
}

Result<std::optional<TopSample>> TopFeed::take() {
  Result<void> alive = client_.exchange();
  std::optional<TopSample> sample;
  while (auto got = TRY(client_.take())) {
    if (const auto* event = std::get_if<control::ControlEvent>(&*got)) {
      auto code = event->context.find("code");
      if (event->name == "end" && code != event->context.end() && code->is_number_integer())
        code_ = code->get<int>();
      continue;
    }
    const auto* answer = std::get_if<control::Answer>(&*got);
    if (answer == nullptr) continue;
    CHECK_OK(in("what the leader answers", take_answer(*answer)));
    if (!waiting_since_ || status_ + exits_ + ps_ != 0) continue;
    waiting_since_.reset();
    if (!is_busy_) sample = std::exchange(sample_, {});
  }
  if (!sample && !alive) return std::move(alive).error();
  return sample;
}

}  // namespace nacre::front
