// SPDX-License-Identifier: Apache-2.0
//
// doctor: finds out what the tasks of all shells do at the moment, when somebody asks for it (`nacre doctor`, by
// the plugin control), and what follows from it: who hangs, and where.
//
// hang-watch=DURATION[,kill]: it does so by itself, see hang_watch.hpp.
//
// slow-watch=DURATION[,...]: which hosts and tasks are slower than the others, see slow_watch.hpp.
//
// doctor.trace=on: what the shell starts may trace its tasks where Yama lets only ancestors do that.
#include <memory>
#include <optional>

#include "job/options.hpp"
#include "plugin/events.hpp"
#include "plugins/builtins.hpp"
#include "plugins/doctor/examinations.hpp"
#include "plugins/doctor/hang_watch.hpp"
#include "plugins/doctor/slow_watch.hpp"
#include "plugins/doctor/stack_taker.hpp"

namespace nacre::plugins {
namespace {

class Doctor final : public plugin::Plugin, public Examiner {
 public:
  explicit Doctor(plugin::Host& host) : Plugin("doctor"), host_(host), examinations_(host) {
    on("shell.init", [this] { return read(); });
  }

  Result<void> examine(const ExaminationOrder& order, std::function<void(Examined)> done,
                       std::function<void(std::vector<doctor::Absent>)> silent) override {
    return examinations_.examine(order, std::move(done), std::move(silent));
  }

  [[nodiscard]] Json last_look() const override { return examinations_.last_look(); }

 private:
  Result<void> read() {
    if (auto whole = host_.options().at(name())) CHECK_OK(whole->only_keys({"trace"}));
    if (host_.options().at("doctor.trace") && TRY(host_.options().flag("doctor.trace"))) {
      on("task.init", [this] { host_.current_task()->command().setup.traced_by_siblings = true; });
    }
    examinations_.serve();
    CHECK_OK(watch());
    CHECK_OK(watch_pace());
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { examinations_.lost(lost.shell); });
    on<plugin::ShellLeft>([this](const plugin::ShellLeft& left) { examinations_.lost(left.shell); });
    return {};
  }

  Result<void> watch() {
    auto option = TRY(HangWatchOption::read(host_.options()));
    if (!option) return {};
    watch_.emplace(host_, examinations_, *option);
    examinations_.when_silent([this] { return watch_->silent(); });
    examinations_.when_traced([this] { watch_->traced(); });
    on("shell.start", [this] { return watch_->start(); });
    on("shell.finish", [this] { watch_->stop(); });
    on("shell.tasks-complete", [this] { watch_->all_ended(); });
    return {};
  }

  Result<void> watch_pace() {
    auto option = TRY(job::SlowWatchOption::read(host_.options()));
    if (!option) return {};
    slow_.emplace(host_, *std::move(option));
    slow_->serve();
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { slow_->gone(lost.shell); });
    on<plugin::ShellLeft>([this](const plugin::ShellLeft& left) { slow_->gone(left.shell); });
    on("shell.start", [this] { return slow_->start(); });
    on("shell.finish", [this] { slow_->stop(); });
    on("shell.tasks-complete", [this] { slow_->all_ended(); });
    return {};
  }

  plugin::Host& host_;
  Examinations examinations_;
  std::optional<HangWatch> watch_;
  std::optional<SlowWatch> slow_;
};

}  // namespace

PluginPtr make_doctor(plugin::Host& host) { return std::make_unique<Doctor>(host); }

}  // namespace nacre::plugins
