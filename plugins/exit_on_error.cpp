// SPDX-License-Identifier: Apache-2.0
//
// exit-on-error: the first task that fails ends the job, with its exit code. exit-on-error=first looks at the first
// task to end only, as flux-shell does: if that one succeeded, later failures end nothing.
#include <fmt/format.h>

#include "base/json.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

class ExitOnError final : public plugin::Plugin {
 public:
  explicit ExitOnError(plugin::Host& host) : Plugin("exit-on-error"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("task.exit", [this](plugin::Call&) {
      const task::Task& task = *host_.current_task();
      if (enabled_ && !first_only_) look_at(task.rank(), exits::Record::of(task.status()));
      return Result<void>();
    });
    on("job.tasks-exited", [this](plugin::Call& call) { return tasks_exited(call); });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at(name());
    first_only_ = option && option->json() == "first";
    Result<bool> on = first_only_ ? true : host_.options().flag(name());
    if (!on) return option->expected("true or false, a number, or \"first\"");
    enabled_ = *on;
    return {};
  }

  // The leader's: only there it is known who was the first of all.
  Result<void> tasks_exited(const plugin::Call& call) {
    JsonAt in = JsonAt::root(call.in);
    if (!first_only_ || std::exchange(seen_, true) || !TRY(in.find("status"))) return {};
    auto ranks = TRY(value::Idset::parse(TRY(TRY(in.at("ranks")).string())));
    look_at(ranks.first().value_or(0), TRY(exits::Record::parse(TRY(TRY(in.at("record")).string()))));
    return {};
  }

  void look_at(std::uint64_t rank, const exits::Record& record) {
    if (!host_.exit_policy().is_failure(record)) return;
    const job::Job& job = host_.job();
    auto node = job.taskmap.node_of(rank);
    std::string on = node && *node < job.shells() ? job.resources.nodes[*node].on() : "";
    exits::TaskEnd end{static_cast<value::Idset::Id>(rank), record};
    host_.raise({"exec", 0, fmt::format("task {}{} {}", rank, on, record.status()->str()), record.status(), end});
  }

  plugin::Host& host_;
  bool enabled_ = false;
  bool first_only_ = false;
  bool seen_ = false;  // some task of the job has ended
};

}  // namespace

PluginPtr make_exit_on_error(plugin::Host& host) { return std::make_unique<ExitOnError>(host); }

}  // namespace nacre::plugins
