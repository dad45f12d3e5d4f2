// SPDX-License-Identifier: Apache-2.0
//
// rehearse=EVENTS: lets things go wrong with the job, at the times that job/rehearsal.hpp describes, so that its
// users can see what becomes of it. Each shell performs the events for itself and its tasks; the leader reports
// each event, and plugins on the leader get it by the topic `rehearse.event`: {"event": text, "at": seconds}.
//
//   kill rank     the signal to the tasks' process groups
//   freeze rank   SIGSTOP to these, then SIGCONT
//   kill NODE     SIGKILL to the process groups of its tasks, and to the shell
//   freeze NODE   SIGSTOP to these; a process beside the shell lets all go on
//   cut           the links between the two sides are held by both ends (Host::hold_links)
//
// Where a manager has started the shells it is refused without rehearse-force: managers act on lost processes, too.
#include <unistd.h>

#include "base/text.hpp"
#include "job/rehearsal.hpp"
#include "plugins/builtins.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {
namespace {

using Action = job::RehearsalEvent::Action;

constexpr const char* kHappensTopic = "rehearse.happens";  // announcement: the event's index
constexpr double kMostWait = 0.5;                          // seconds

class Rehearse final : public plugin::Plugin {
 public:
  explicit Rehearse(plugin::Host& host) : Plugin("rehearse"), host_(host) {
    on("shell.init", [this] { return read(); });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at(name());
    bool is_forced = TRY(host_.options().flag("rehearse-force"));
    if (!option) return {};
    auto parsed = job::Rehearsal::parse(TRY(option->string()));
    if (!parsed) return option->error(parsed.error().message);
    rehearsal_ = *std::move(parsed);
    CHECK_OK(in(name(), rehearsal_.check(host_.job())));
    bool is_managed = !host_.standalone() && host_.launcher_tie() == nullptr;
    if (leads() && is_managed && !is_forced)
      return invalid(
          "rehearse: a manager has started the shells, and may take a node whose shell is killed out of use: use "
          "nacre run, or add rehearse-force");
    on("shell.start", [this] { return arm(); });
    on("shell.finish", [this] {
      if (!leads()) stop();
    });
    on("shell.tasks-complete", [this] { stop(); });
    return {};
  }

  [[nodiscard]] bool leads() const { return host_.job().leads(); }

  Result<void> arm() {
    announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == kHappensTopic) take(bytes);
    });
    const auto& events = rehearsal_.events();
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (leads() || TRY(is_here(events[i]))) CHECK_OK(after(events[i].at, [this, i] { happen(i); }));
    }
    return {};
  }

  Result<void> after(const value::Duration& time, std::function<void()> act) {
    timers_.push_back(TRY(event::Timer::create(host_.loop(), std::move(act))));
    timers_.back().unref();
    timers_.back().start(event::Seconds(time.seconds()));
    return {};
  }

  // Whether the event is about this shell.
  [[nodiscard]] Result<bool> is_here(const job::RehearsalEvent& event) const {
    if (event.action == Action::cut) return !TRY(beyond(event)).empty();
    if (event.node.empty()) return !tasks_of(event).empty();
    return TRY(job::Rehearsal::shells_of(event, host_.job())).contains(host_.job().shell_rank);
  }

  // The shells that a cut separates this one from.
  [[nodiscard]] Result<value::Idset> beyond(const job::RehearsalEvent& event) const {
    auto sides = TRY(job::Rehearsal::sides_of(event, host_.job()));
    std::uint32_t own = host_.job().shell_rank;
    value::Idset out;
    if (sides.one.contains(own)) out = out | sides.other;
    if (sides.other.contains(own)) out = out | sides.one;
    out.remove(own);
    return out;
  }

  // The tasks of this shell that an event is about.
  [[nodiscard]] std::vector<task::Task*> tasks_of(const job::RehearsalEvent& event) const {
    std::vector<task::Task*> out;
    for (const auto& each : host_.tasks()) {
      if (!event.node.empty() || event.ranks.contains(each->rank())) out.push_back(each.get());
    }
    return out;
  }

  // The leader has to report an event before its effect shows. So other shells wait for their own announcement to
  // come back, but not for long, as they may be cut off from the leader.
  void happen(std::size_t index) {
    if (leads()) {
      report(index);
      return act(rehearsal_.events()[index]);
    }
    waiting_.insert(index);
    bool is_sent = host_.announce(kHappensTopic, std::to_string(index)).has_value();
    auto wait = value::Duration::of_seconds(is_sent ? kMostWait : 0);
    if (!after(wait, [this, index] { act_once(index); })) act_once(index);
  }

  void take(std::string_view bytes) {
    auto index = parse_u64(bytes);
    if (!index || *index >= rehearsal_.events().size()) return;
    if (leads()) return report(*index);
    if (!waiting_.contains(*index)) return;
    if (!after(value::Duration(), [this, index] { act_once(*index); })) act_once(*index);
  }

  void act_once(std::size_t index) {
    if (waiting_.erase(index) > 0) act(rehearsal_.events()[index]);
  }

  void act(const job::RehearsalEvent& event) {
    if (!is_here(event).value_or(false)) return;
    if (event.action == Action::kill)
      kill(event);
    else if (event.action == Action::cut)
      cut(event);
    else if (event.node.empty())
      freeze_tasks(event);
    else
      freeze_node(event);
  }

  void report(std::size_t index) {
    if (!reported_.insert(index).second) return;
    const job::RehearsalEvent& event = rehearsal_.events()[index];
    log(host_, *this, Level::notice, "{}", event.str());
    plugin::Call call("rehearse.event");
    call.in = {{"event", event.str()}, {"at", event.at.seconds()}};
    if (Result<int> called = host_.stack().call(call); !called)
      log(host_, *this, Level::warn, "{}", called.error().message);
  }

  // The tasks that still run; one line about the others.
  [[nodiscard]] std::vector<task::Task*> running(const job::RehearsalEvent& event) {
    std::vector<task::Task*> out;
    for (task::Task* each : tasks_of(event)) {
      if (each->state() == task::State::running)
        out.push_back(each);
      else if (event.node.empty())
        log(host_, *this, Level::notice, "{}: rank {} has ended before", event.str(), each->rank());
    }
    return out;
  }

  void kill(const job::RehearsalEvent& event) {
    for (task::Task* each : running(event)) each->kill(event.node.empty() ? event.signal : SIGKILL);
    if (!event.node.empty()) ::kill(::getpid(), SIGKILL);
  }

  void cut(const job::RehearsalEvent& event) {
    cuts_.push_back(&event);
    hold_links();
    if (!event.lasts) return;
    Result<void> armed = after(*event.lasts, [this, &event] {
      std::erase(cuts_, &event);
      hold_links();
    });
    if (!armed) log(host_, *this, Level::warn, "{}: {}", event.str(), armed.error().message);
  }

  void hold_links() {
    value::Idset held;
    for (const job::RehearsalEvent* each : cuts_) held = held | beyond(*each).value_or(value::Idset());
    host_.hold_links(held);
  }

  // The tasks have ended: shells whose links are held could not end the job.
  void stop() {
    timers_.clear();
    if (cuts_.empty()) return;
    cuts_.clear();
    hold_links();
  }

  void freeze_tasks(const job::RehearsalEvent& event) {
    for (task::Task* each : running(event)) each->kill(SIGSTOP);
    if (!event.lasts) return;
    Result<void> armed = after(*event.lasts, [this, &event] {
      for (task::Task* each : tasks_of(event)) each->kill(SIGCONT);
    });
    if (!armed) log(host_, *this, Level::warn, "{}: {}", event.str(), armed.error().message);
  }

  // A shell that stands still cannot let itself go on.
  void freeze_node(const job::RehearsalEvent& event) {
    std::string processes = fmt::format("{}", ::getpid());
    for (task::Task* each : running(event)) processes += fmt::format(" -{}", each->pid());
    task::Command command;
    command.argv = {"/bin/sh", "-c",
                    fmt::format("sleep {}; kill -s CONT {} 2>/dev/null", event.lasts->seconds(), processes)};
    command.env = job::Environment::over(host_.environment());
    command.setup.ends_with_parent = true;
    auto started = task::Subprocess::start(host_.loop(), host_.children(), std::move(command), {{}, false}, {});
    if (!started) {
      log(host_, *this, Level::warn, "{}: {}", event.str(), started.error().error.message);
      return;
    }
    wakers_.push_back(*std::move(started));
    for (task::Task* each : running(event)) each->kill(SIGSTOP);
    ::kill(::getpid(), SIGSTOP);
  }

  plugin::Host& host_;
  job::Rehearsal rehearsal_;
  plugin::Registration announced_;
  std::set<std::size_t> waiting_, reported_;  // indices of events
  std::list<event::Timer> timers_;
  std::vector<const job::RehearsalEvent*> cuts_;  // cuts that last
  std::list<std::unique_ptr<task::Subprocess>> wakers_;
};

}  // namespace

PluginPtr make_rehearse(plugin::Host& host) { return std::make_unique<Rehearse>(host); }

}  // namespace nacre::plugins
