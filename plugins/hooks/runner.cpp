// SPDX-License-Identifier: Apache-2.0
#include "plugins/hooks/runner.hpp"

#include <unistd.h>

#include <csignal>

#include <fmt/format.h>

#include "value/wait_status.hpp"

namespace nacre::plugins {

struct HookRunner::Running {
  Run run;
  std::unique_ptr<task::Subprocess> process{};
  std::optional<event::Timer> limit{};
  std::optional<event::Timer> linger{};
  std::optional<event::Timer> timeout{};  // runs once the program was asked to end
  std::string asked{};                    // the error if it has not ended by then
  std::string killed{};                   // why it was killed
  Result<void> lines{};
};

HookRunner::HookRunner(plugin::Host& host) : host_(host) {}

HookRunner::~HookRunner() = default;

void HookRunner::add(Run run) {
  waiting_.push_back(std::move(run));
  start_next();
}

// Leaves out a program that has ended and only lingers.
void HookRunner::end_all(int signum, event::Seconds grace) {
  for (Running& each : running_) {
    if (!each.process->kill(signum) || !each.asked.empty()) continue;
    each.asked = fmt::format("did not end within {} of {}", value::Duration::of_seconds(grace.count()).str(),
                             value::signal_name(signum));
    each.timeout->start_grace(grace);
  }
}

void HookRunner::give_up(Running& running, const std::string& why) {
  if (running.killed.empty()) running.killed = why;
  static_cast<void>(running.process->kill(SIGKILL));  // it may have ended without having been reaped
}

void HookRunner::start_next() {
  while (!waiting_.empty() && running_.size() < kMaxAtOnce) {
    Place place = running_.insert(running_.end(), Running{std::move(waiting_.front())});
    waiting_.pop_front();
    Result<void> started = start(place);
    if (started) continue;
    Run run = std::move(place->run);
    running_.erase(place);
    run.on_end(in(run.name, std::move(started)));
  }
}

Result<void> HookRunner::start(Place place) {
  Running& running = *place;
  bool by_line = static_cast<bool>(running.run.on_line);
  task::Subprocess::Options options{.streams = {}, .inherit_stdio = true};
  if (by_line) options.streams = {"stdout"};
  running.run.command.setup.fds.push_back({STDIN_FILENO, -1});

  if (!running.run.timeout.is_infinite()) {
    running.limit = TRY(event::Timer::create(host_.loop(), [&running] {
      give_up(running, fmt::format("took longer than {}", running.run.timeout.str()));
    }));
    running.limit->start_grace(event::Seconds(running.run.timeout.seconds()));
  }
  running.timeout = TRY(event::Timer::create(host_.loop(), [&running] { give_up(running, running.asked); }));
  running.linger = TRY(event::Timer::create(host_.loop(), [this, place] { end(place); }));

  task::Subprocess::Callbacks callbacks;
  if (by_line) callbacks.on_ready = [this, &running](const std::string&) { read(running); };
  callbacks.on_exit = [&running] {
    running.limit.reset();
    running.timeout.reset();
    running.linger->start(kLinger);
  };
  callbacks.on_complete = [this, place] { end(place); };
  auto started = task::Subprocess::start(host_.loop(), host_.children(), std::move(running.run.command),
                                         std::move(options), std::move(callbacks));
  if (!started) return Error(started.error().error);
  running.process = *std::move(started);
  return {};
}

void HookRunner::read(Running& running) {
  task::BufferedStream& out = *running.process->stream("stdout");
  for (std::string_view line = out.get_line(); !line.empty(); line = out.get_line()) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (running.lines) running.lines = running.run.on_line(line);
  }
}

void HookRunner::end(Place place) {
  std::list<Running> ended;  // destroyed at the end of this call, as their callback is running
  ended.splice(ended.begin(), running_, place);
  Running& running = ended.front();
  Result<void> result = std::move(running.lines);
  const value::WaitStatus& status = running.process->status();
  if (!running.killed.empty()) {
    result = Error{ETIMEDOUT, running.killed};
  } else if (!status.success()) {
    result = Error{ECANCELED, status.str()};
  }
  running.run.on_end(result ? Result<void>() : in(running.run.name, std::move(result)));
  start_next();
}

}  // namespace nacre::plugins
