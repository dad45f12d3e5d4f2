// SPDX-License-Identifier: Apache-2.0
//
// exit-timeout=T: once one task of the job has ended, the others have T (30 s by default; `none`: for ever) before the job is
// ended.
#include <fmt/format.h>

#include "base/json.hpp"
#include "job/option_types.hpp"
#include "plugins/builtins.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {
namespace {

constexpr double kDefaultTimeout = 30;  // seconds

class ExitTimeout final : public plugin::Plugin {
 public:
  explicit ExitTimeout(plugin::Host& host) : Plugin("exit-timeout"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("job.tasks-exited", [this](plugin::Call& call) { return tasks_exited(call); });
    on("shell.tasks-complete", [this](plugin::Call&) {
      timer_.reset();
      return Result<void>();
    });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at(name());
    if (!option) return {};
    if (option->json() == "none") {
      timeout_ = value::Duration::infinite();
    } else {
      timeout_ = TRY(job::seconds_option(*option));
    }
    return {};
  }

  Result<void> tasks_exited(const plugin::Call& call) {
    auto ranks = TRY(value::Idset::parse(TRY(TRY(JsonAt::root(call.in).at("ranks")).string())));
    over_ = over_ | ranks;
    // Those of a lost shell have not ended by themselves; `tolerate-loss` says what becomes of the job.
    if (call.in.contains("lost")) return {};
    if (timer_ || ranks.empty() || timeout_.is_infinite() || host_.job().tasks() == 1) return {};
    first_ = *ranks.first();
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { expired(); }));
    timer_->start_grace(event::Seconds(timeout_.seconds()));
    return {};
  }

  void expired() {
    auto last = static_cast<value::Idset::Id>(host_.job().tasks() - 1);
    value::Idset running = value::Idset::range(0, last) - over_;
    if (running.empty()) return;
    host_.raise({"exec", 0,
                 fmt::format("exit-timeout: task {} ended {} ago, and these still run: {}", first_, timeout_.str(),
                             running.str()),
                 std::nullopt});
  }

  plugin::Host& host_;
  value::Duration timeout_ = value::Duration::of_seconds(kDefaultTimeout);
  std::uint64_t first_ = 0;  // the rank of the task that ended first
  value::Idset over_;        // tasks
  std::optional<event::Timer> timer_;
};

}  // namespace

PluginPtr make_exit_timeout(plugin::Host& host) { return std::make_unique<ExitTimeout>(host); }

}  // namespace nacre::plugins
