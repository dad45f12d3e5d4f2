// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/gpu_answers.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "plugins/usage/gpu_meter.hpp"

namespace nacre::plugins {

bool GpuAnswers::answer_by_plugin(const Done& done) {
  plugin::Call call("usage.gpus");
  if (!host_.stack().call(call) || !call.out.is_object() || !call.out.contains("tasks")) return false;
  auto tasks = gpus_from(call.out["tasks"]);
  if (!tasks) return false;
  std::set<std::string> notes;
  for (const Json& each : call.out.value("notes", Json::array())) {
    if (each.is_string()) notes.insert(each.get<std::string>());
  }
  done(*tasks, notes);
  return true;
}

void GpuAnswers::ask(Done done) {
  if (answer_by_plugin(done)) return;
  if (is_over_) return done({}, {});
  if (!watch_) watch_.emplace(host_, nullptr);
  if (!timer_) {
    auto timer = event::Timer::create(host_.loop(), [this] {
      tell({fmt::format("the tools of GPUs have not answered within {:g} s", kMostWait.count())});
    });
    if (!timer) return done({}, {timer.error().message});
    timer_ = *std::move(timer);
    timer_->unref();
  }
  waiting_.push_back(std::move(done));
  if (waiting_.size() == 1) timer_->start(kMostWait);
  if (std::exchange(is_looking_, true)) return;
  watch_->look([this](const usage::GpuLook& look) {
    is_looking_ = false;
    last_ = gpus_of_tasks(host_, look);
    if (look.is_complete) {
      for (const auto& task : host_.tasks()) {
        if (task->state() == task::State::running) last_.emplace(task->rank(), usage::TaskGpu{0, std::nullopt});
      }
    }
    tell(watch_->notes());
  });
}

void GpuAnswers::tell(const std::set<std::string>& notes) {
  timer_->stop();
  for (Done& each : std::exchange(waiting_, {})) each(last_, notes);
}

void GpuAnswers::stop() {
  is_over_ = true;
  watch_.reset();
  timer_.reset();
  waiting_.clear();
}

}  // namespace nacre::plugins
