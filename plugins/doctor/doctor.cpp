// SPDX-License-Identifier: Apache-2.0
//
// doctor: finds out what the tasks of all shells do at the moment, when somebody asks for it (`nacre doctor`, by
// the plugin control), and what follows from it: who hangs, and where.
//
// hang-watch=DURATION[,kill]: it does so by itself, see hang_watch.hpp.
//
// doctor.trace=on: what the shell starts may trace its tasks where Yama lets only ancestors do that.
#include <memory>
#include <optional>

#include "job/options.hpp"
#include "plugins/builtins.hpp"
#include "plugins/doctor/examinations.hpp"
#include "plugins/doctor/hang_watch.hpp"
#include "plugins/doctor/stack_taker.hpp"

namespace nacre::plugins {
namespace {

class Doctor final : public plugin::Plugin, public Examiner {
 public:
  explicit Doctor(plugin::Host& host) : Plugin("doctor"), host_(host), examinations_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
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
      on("task.init", [this](plugin::Call&) {
        host_.current_task()->command().setup.traced_by_siblings = true;
        return Result<void>();
      });
    }
    examinations_.serve();
    CHECK_OK(watch());
    if (host_.job().shell_rank != 0) return {};
    on("job.tasks-exited", [this](plugin::Call& call) { return tasks_exited(call); });
    for (const char* topic : {"shell.lost", "shell.left"})
      on(topic, [this](plugin::Call& call) { return shell_gone(call); });
    return {};
  }

  Result<void> watch() {
    auto option = TRY(HangWatchOption::read(host_.options()));
    if (!option) return {};
    watch_.emplace(host_, examinations_, *option);
    examinations_.when_silent([this] { return watch_->silent(); });
    examinations_.when_traced([this] { watch_->traced(); });
    on("shell.start", [this](plugin::Call&) { return watch_->start(); });
    on("shell.finish", [this](plugin::Call&) {
      watch_->stop();
      return Result<void>();
    });
    on("shell.tasks-complete", [this](plugin::Call&) {
      watch_->all_ended();
      return Result<void>();
    });
    return {};
  }

  Result<void> tasks_exited(const plugin::Call& call) {
    JsonAt in = JsonAt::root(call.in);
    auto ranks = TRY(value::Idset::parse(TRY(TRY(in.at("ranks")).string())));
    examinations_.tasks_ended(ranks, TRY(exits::Record::parse(TRY(TRY(in.at("record")).string()))));
    return {};
  }

  Result<void> shell_gone(const plugin::Call& call) {
    auto shell = TRY(TRY(JsonAt::root(call.in).at("shell_rank")).integer(0, UINT32_MAX));
    examinations_.lost(static_cast<std::uint32_t>(shell));
    return {};
  }

  plugin::Host& host_;
  Examinations examinations_;
  std::optional<HangWatch> watch_;
};

}  // namespace

PluginPtr make_doctor(plugin::Host& host) { return std::make_unique<Doctor>(host); }

}  // namespace nacre::plugins
