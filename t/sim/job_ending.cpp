// SPDX-License-Identifier: Apache-2.0
#include "job_ending.hpp"

#include <csignal>

#include <fmt/format.h>

#include "job_elastic.hpp"
#include "job_shell.hpp"

namespace nacre::sim {

bool JobEnding::end_job(const exits::Cause& cause, const std::string& type) {
  if (JobElastic* elastic = shell_.elastic(); elastic != nullptr && elastic->newcomer().fails(cause)) return false;
  if (!raised(cause)) return false;
  bool of_shell = type.empty();
  shell_.group().ask(group::encode(group::JobException{of_shell ? "exec" : type, 0, cause.message, cause.code,
                                                       shell_.process().id(), of_shell}));
  shell_.tasks().end();
  return true;
}

void JobEnding::raised_by_any(const group::JobException& exception) {
  if (exception.severity != 0) return;
  const JobProcess& process = shell_.process();
  bool is_cause = !end_.is_decided();
  exits::Action action = end_.ordered({exception.message, exception.exit_code, exception.origin});
  if (is_cause && end_.is_decided()) {
    process.witness().decided(process.id(), *end_.cause());
    if (process.leads()) process.witness().named(process.id(), *end_.cause());
  }
  if (action == exits::Action::end) shell_.tasks().end();
}

void JobEnding::cut_off(const std::string& why) {
  if (JobElastic* elastic = shell_.elastic()) elastic->restart().drop_all();
  if (end_.cut_off(why) == exits::Action::kill) shell_.tasks().kill(SIGKILL);
}

void JobEnding::lost(Id shell) {
  const JobProcess& process = shell_.process();
  if (JobElastic* elastic = shell_.elastic()) return shell_.has_given_up() ? void() : elastic->lost(shell);
  if (!process.leads() || shell_.has_given_up()) return;
  shell_.records().lose(process.world().now, process.plan().ranks_of(shell));
  exits::Cause cause{fmt::format("shell {} is lost", shell), std::nullopt, process.id()};
  if (process.plan().tolerant)
    return shell_.group().ask(
        group::encode(group::JobException{"node-failure", 2, cause.message, cause.code, process.id()}));
  process.witness().failed(process.id(), cause, true);
  end_job(cause, "node-failure");
}

void JobEnding::signal(int signum, bool from_launcher) {
  JobProcess& process = shell_.process();
  if (process.is_over() || shell_.has_given_up()) return;
  process.trace(fmt::format("gets {}", value::signal_name(signum)));
  exits::TaskProgress tasks;
  tasks.started = shell_.group().has_started();
  tasks.over = process.leads() && shell_.records().are_complete();
  tasks.running = shell_.tasks().any_runs();
  exits::Work work = exits::work_for(tasks, from_launcher);
  bool is_joining = process.phase() == Phase::join || process.phase() == Phase::create;
  auto send = [&](int number) {
    if (is_joining) return;
    if (from_launcher) return shell_.group().ask(Signal{static_cast<std::uint32_t>(number), std::nullopt});
    shell_.tasks().signal(number);
  };
  exits::Cause cause = exits::ended_by_signal(signum, process.id());
  double now = static_cast<double>(process.world().now.count()) / 1e6;
  bool again = signum == SIGINT && now - interrupted_at_ <= exits::JobEnd::kInterruptWindow;
  if (signum == SIGINT) interrupted_at_ = now;
  bool must = again || (process.phase() <= Phase::start_barrier && !tasks.started);
  JobElastic* elastic = shell_.elastic();
  bool goes = elastic != nullptr && (elastic->removal().has_begun() || elastic->newcomer().is_joining());
  process.witness().failed(process.id(), cause, must && process.phase() < Phase::end && !goes);
  switch (end_.signalled(signum, now, work)) {
    case exits::Action::nothing: break;
    case exits::Action::pass_on: send(signum); break;
    case exits::Action::end: end_job(cause, {}); break;
    case exits::Action::kill: send(SIGKILL); break;
  }
  process.go_on();
}

void JobEnding::launcher_gone() {
  JobProcess& process = shell_.process();
  if (process.is_over() || shell_.has_given_up()) return;
  exits::Cause cause{"the launcher has gone", std::nullopt, process.id()};
  process.witness().failed(process.id(), cause, process.phase() < Phase::leave);
  end_job(cause, "exec");
  process.go_on();
}

int JobEnding::code() const {
  static const exits::Outcomes kNone;
  const JobProcess& process = shell_.process();
  const exits::Outcomes& outcomes = process.leads() ? shell_.records().all() : shell_.tasks().records();
  return end_.code(shell_.has_given_up() ? kNone : outcomes,
                   process.leads() ? process.plan().policy : exits::Policy::max());
}

}  // namespace nacre::sim
