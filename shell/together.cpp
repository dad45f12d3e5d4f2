// SPDX-License-Identifier: Apache-2.0
//
// The shell as one of its job's: what all shells do together, and what concerns all of them.
#include <csignal>

#include <fmt/format.h>

#include "event/clock.hpp"
#include "shell.hpp"

namespace nacre {
namespace {

constexpr int kLostCode = 1;  // what a task counts as whose shell was lost

// What the group answers to `ask`, which gets the function to call with it; none if `stop` is true before. `waits` counts
// the questions: an answer that comes late is told by it.
template <typename T, typename Ask>
std::optional<Result<T>> answer_to(Ask ask, event::Loop& loop, int& waits, const std::function<bool()>& stop) {
  std::optional<Result<T>> out;
  ask([&out, &waits, wait = ++waits](Result<T> result) {
    if (wait == waits) out = std::move(result);
  });
  if (!out) loop.run_until([&] { return out.has_value() || stop(); });
  ++waits;
  return out;
}

constexpr event::Seconds kAgentsGrace{5};  // for what has started other shells, once those have come to their end

bool tolerates_loss(const job::Options& options) {
  Result<bool> tolerated = options.flag("tolerate-loss");
  return tolerated && *tolerated;
}

Json loss_of(group::Rank rank, const job::Options& options) {
  return {{"shell_rank", rank}, {"severity", tolerates_loss(options) ? 2 : 0}};
}

void leave(Footing& footing) {
  footing.parted = true;
  bool left = false;
  footing.group->leave([&left] { left = true; });
  footing.loop->run_until([&left] { return left; });
  if (!footing.launcher) return;
  bool ended = false;
  footing.launcher->finish(kAgentsGrace, [&ended] { ended = true; });
  footing.loop->run_until([&ended] { return ended; });
}

}  // namespace

void Shell::serve_group() {
  group::Group::Callbacks callbacks;
  callbacks.on_exception = [this](const group::Exception& exception) { on_exception(exception); };
  callbacks.on_signal = [this](int signum, const value::Idset& tasks) {
    for (const auto& task : tasks_) {
      if (tasks.empty() || tasks.contains(task->rank())) task->kill(signum);
    }
    if (!tasks.empty()) return;
    for (const auto& each : signalled_also_) each(signum);
  };
  callbacks.on_lost = [this](group::Rank rank) { on_lost(rank); };
  callbacks.on_tasks = [this](const value::Idset& started, const std::vector<group::Ended>& ended) {
    on_tasks(started, ended);
  };
  callbacks.on_announcement = [this](std::string_view topic, std::string_view bytes) {
    for (const auto& hear : whole_.ears) hear(topic, bytes);
  };
  callbacks.on_cut_off = [this](const Error& why) { on_cut_off(why); };
  group_->serve(std::move(callbacks));
  footing_.ears.on_signal = [this](int signum) {
    if (signum == SIGINT && running_ == 0) return die(128 + SIGINT, "", "interrupted");
    if (signum == SIGUSR2) {  // it is for plugins, as one that comes to this process
      ::raise(signum);
      return;
    }
    group_->signal(signum, {});
  };
  footing_.ears.on_gone = [this] {
    raise({"exec", 0, fmt::format("{}: without its launcher the job ends", footing_.ears.gone->message),
           std::nullopt});
  };
}

// The loop runs until every shell has come here, so that signals and timers are served meanwhile. A job that ends does
// not wait: some of its shells may never come.
Result<void> Shell::barrier(std::string_view name) {
  auto enter = [&](auto done) { group_->enter(name, std::move(done)); };
  auto passed = answer_to<void>(enter, loop(), whole_.waits, [this] { return doomed_; });
  if (!passed || whole_.cut_off) return {};
  return in(fmt::format("{} barrier", name), *std::move(passed));
}

// All shells get it in the same order, so they agree on which one ended the job, and with which code.
void Shell::on_exception(const group::Exception& exception) {
  Json context{{"type", exception.type}, {"severity", exception.severity}, {"note", exception.message}};
  if (Result<void> posted = post("exception", std::move(context)); !posted) {
    log_.log(Level::warn, "", "{}", posted.error().message);
  }
  if (exception.severity != 0 || std::exchange(whole_.fatal_seen, true)) return;
  if (exception.exit_code) forced_code_ = exception.exit_code;
  if (!doomed_ && exception.origin != job_.shell_rank) {
    log_.log(Level::debug, "", "shell {} ends the job: {}: {}", exception.origin, exception.type,
             exception.message);
  }
  end_job();
}

void Shell::on_lost(group::Rank rank) {
  whole_.lost.insert(rank);
  if (footing_.launcher) footing_.launcher->lost(rank);
  if (rank >= job_.shells()) return;
  if (whole_.tells_losses) tell_plugins("shell.lost", loss_of(rank, options_));
  if (job_.shell_rank != 0) return;
  value::Idset tasks = job_.taskmap.ranks_on(rank);
  if (!tasks.empty()) note_ended(tasks - whole_.over, {{"lost", true}});
  bool fatal = !tolerates_loss(options_) && !whole_.code;
  raise(
      {"node-failure", fatal ? 0 : 2,
       fmt::format("shell {}{} is lost: it has ended, or cannot be reached", rank, job_.resources.nodes[rank].on()),
       std::nullopt});
}

// Of those that were lost before plugins could do something about it.
void Shell::tell_early_losses() {
  whole_.tells_losses = true;
  for (group::Rank rank : whole_.lost.ids()) tell_plugins("shell.lost", loss_of(rank, options_));
}

void Shell::on_tasks(const value::Idset& /*started*/, const std::vector<group::Ended>& ended) {
  for (const group::Ended& each : ended) note_ended(each.tasks, {{"status", each.status}});
}

void Shell::note_ended(const value::Idset& tasks, Json how) {
  whole_.over = whole_.over | tasks;
  how["ranks"] = tasks.str();
  tell_plugins("job.tasks-exited", how);
}

void Shell::tell_plugins(const std::string& topic, const Json& what) {
  if (!stack_.listens(topic)) return;
  plugin::Call call(topic);
  call.in.update(what);
  if (Result<int> called = stack_.call(call); !called) raise({"exec", 0, called.error().message, std::nullopt});
}

void Shell::on_cut_off(const Error& why) {
  whole_.cut_off = true;
  log_.log(Level::fatal, "", "cut off from the job's other shells: {}", why.message);
  doomed_ = true;
  kill_tasks(SIGKILL);
}

// The leader's tasks may be the first to end.
void Shell::await_all_tasks() {
  if (job_.shell_rank != 0 || !has_siblings()) return;
  loop().run_until([this] { return whole_.over.size() >= job_.tasks() || doomed_; });
}

Result<void> Shell::agree_on_exit() {
  if (!has_siblings() || whole_.code || whole_.cut_off) return {};
  group_->close_bulk();
  // A loss that the log has before the release counts, and all shells see the same ones there.
  auto agree = [&](auto done) {
    group_->agree_on_largest("exit", exit_code(), [this, done = std::move(done)](Result<std::int64_t> largest) {
      if (largest && !whole_.lost.empty()) largest = std::max<std::int64_t>(*largest, kLostCode);
      done(std::move(largest));
    });
  };
  auto agreed = answer_to<std::int64_t>(agree, loop(), whole_.waits, [] { return false; });
  if (whole_.cut_off) return {};
  if (!agreed || !*agreed)
    return in("exit barrier", agreed ? agreed->error() : Error{ECANCELED, "nobody has come"});
  // An exception that came before the last shell was here has been told to all.
  whole_.code = forced_code_ ? *forced_code_ : static_cast<int>(**agreed);
  return {};
}

// The end of run(): nobody leaves before all shells know how the job has ended.
void Shell::part(const Result<void>& ran) {
  if (!has_siblings()) return;
  if (!ran && !doomed_) {
    group_->raise({"exec", 0, ran.error().message, 1, job_.shell_rank});
    end_job();
  }
  if (Result<void> agreed = agree_on_exit(); !agreed) {
    log_.log(Level::error, "", "{}", agreed.error().message);
  }
  leave(footing_);
}

void give_up(Footing& footing, group::Rank rank, const Error& why) {
  if (!footing.group) return;
  footing.group->raise({"exec", 0, why.message, 1, rank});
  footing.group->close_bulk();
  bool agreed = false;
  footing.group->agree_on_largest("exit", 1, [&agreed](const Result<std::int64_t>&) { agreed = true; });
  footing.loop->run_until([&agreed] { return agreed; });
  leave(footing);
}

}  // namespace nacre
