// SPDX-License-Identifier: Apache-2.0
//
// The shell as one of its job's: what all shells do together, and what concerns all of them.
#include <csignal>

#include <fmt/format.h>

#include "leaving.hpp"
#include "shell.hpp"

namespace nacre {
namespace {

bool tolerates_loss(const job::Options& options) {
  Result<bool> tolerated = options.flag("tolerate-loss");
  return tolerated && *tolerated;
}

Json loss_of(group::Rank rank, const job::Options& options) {
  return {{"shell_rank", rank}, {"severity", tolerates_loss(options) ? 2 : 0}};
}

}  // namespace

void Shell::serve_group() {
  group::Group::Callbacks callbacks;
  callbacks.on_exception = [this](const group::Exception& exception) { on_exception(exception); };
  callbacks.on_signal = [this](int signum, const group::Targets& tasks) {
    if (!tasks) return kill_tasks(signum);
    for (const auto& task : tasks_) {
      if (tasks->contains(task->rank())) task->kill(signum);
    }
  };
  callbacks.on_lost = [this](group::Rank rank) { on_lost(rank); };
  callbacks.on_tasks = [this](const value::Idset& /*started*/, const std::vector<group::Ended>& ended) {
    for (const group::Ended& each : ended) note_ended(each.tasks, each.record);
  };
  callbacks.on_announcement = [this](std::string_view topic, std::string_view bytes) {
    announced_to_.call(topic, bytes);
  };
  callbacks.on_cut_off = [this](const Error& why) { on_cut_off(why); };
  group_->serve(std::move(callbacks));
  footing_.launched_by.on_signal = [this](int signum) {
    if (signum == SIGUSR2) {  // it is for plugins, as one that comes to this process
      ::raise(signum);
      return;
    }
    group_->signal(signum, std::nullopt);
  };
  footing_.launched_by.on_gone = [this] {
    raise({"exec", 0, fmt::format("{}: without its launcher the job ends", footing_.launched_by.gone->message),
           std::nullopt});
  };
}

// ---- barriers ------------------------------------------------------------------------------

// The loop runs until every shell has come here, so that signals and timers are served meanwhile. A job that ends does
// not wait: some of its shells may never come.
Result<void> Shell::barrier(const std::string& name) {
  enter(name);
  wait([&] { return barriers_[name]; });
  return {};
}

// One that all shells come to, however their job ends.
void Shell::last_barrier(const std::string& name) {
  enter(name);
  loop().run_until([&] { return barriers_[name]; });
}

void Shell::enter(const std::string& name) {
  barriers_[name] = false;
  group_->enter(name, [this, name](const Result<void>& passed) {
    barriers_[name] = true;
    // That this shell is cut off comes by itself, too.
    if (!passed && !end_.is_cut_off()) log_.log(Level::debug, "", "{} barrier: {}", name, passed.error().message);
  });
}

// ---- losses, and the ends of tasks -----------------------------------------------------------

void Shell::on_lost(group::Rank rank) {
  lost_.insert(rank);
  if (footing_.launcher) footing_.launcher->lost(rank);
  if (rank >= job_.shells()) return;
  if (reports_losses_) notify_plugins("shell.lost", loss_of(rank, options_));
  if (job_.shell_rank != 0) return;
  note_ended(job_.taskmap.ranks_on(rank), exits::Record::lost());
  bool fatal = !tolerates_loss(options_);
  raise(
      {"node-failure", fatal ? 0 : 2,
       fmt::format("shell {}{} is lost: it has ended, or cannot be reached", rank, job_.resources.nodes[rank].on()),
       std::nullopt});
}

// Of those that were lost before plugins could do something about it.
void Shell::report_early_losses() {
  reports_losses_ = true;
  for (group::Rank rank : lost_.ids()) notify_plugins("shell.lost", loss_of(rank, options_));
}

void Shell::note_ended(const value::Idset& tasks, const exits::Record& record) {
  value::Idset fresh = all_.add(tasks, record);
  if (fresh.empty()) return;
  Json what{{"ranks", fresh.str()}, {"record", record.str()}};
  if (record.status()) what["status"] = record.status()->raw();
  if (record.kind() == exits::Record::Kind::lost) what["lost"] = true;
  notify_plugins("job.tasks-exited", what);
}

void Shell::notify_plugins(const std::string& topic, const Json& what) {
  if (!stack_.listens(topic)) return;
  plugin::Call call(topic);
  call.in.update(what);
  if (Result<int> called = stack_.call(call); !called) raise({"exec", 0, called.error().message, std::nullopt});
}

// The leader's tasks may be the first to end.
void Shell::wait_for_all_tasks() {
  if (job_.shell_rank != 0 || !has_siblings()) return;
  wait([this] { return all_.ranks().size() >= job_.tasks(); });
}

}  // namespace nacre
