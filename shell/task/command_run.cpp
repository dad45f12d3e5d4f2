// SPDX-License-Identifier: Apache-2.0
#include "task/command_run.hpp"

#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::task {
namespace {

std::string last_line(std::string_view text) {
  std::string_view all = trim(text);
  return escape_controls(all.substr(all.rfind('\n') + 1));
}

}  // namespace

CommandRun::~CommandRun() {
  if (process_ && !process_->exited()) static_cast<void>(process_->kill(SIGKILL));
}

Result<void> CommandRun::start(What what, WhenDone done) {
  command_ = std::move(what.name);
  most_ = what.most;
  out_.clear();
  err_.clear();
  is_late_ = false;
  is_told_by_output_ = what.is_told_by_output;
  Command command{std::move(what.argv), job::Environment::own(), {}};
  command.setup.ends_with_parent = what.ends_with_shell;
  for (const auto& [name, value] : what.variables) command.env.set(name, value);
  limit_ = TRY(event::Timer::create(loop_, [this] {
    is_late_ = true;
    static_cast<void>(process_->kill(SIGKILL));  // it may have ended without having been reaped
  }));
  Subprocess::Callbacks callbacks;
  callbacks.on_ready = [this](const std::string&) { read(); };
  callbacks.on_complete = [this] { complete(); };
  auto started = Subprocess::start(loop_, children_, std::move(command), {}, std::move(callbacks));
  if (!started) return in(command_, Error(started.error().error));
  process_ = *std::move(started);
  done_ = std::move(done);
  limit_->start_grace(most_);
  return {};
}

void CommandRun::read() {
  for (auto [name, text] : {std::pair{"stdout", &out_}, std::pair{"stderr", &err_}}) {
    BufferedStream* stream = process_->stream(name);
    for (std::string_view some = stream->read(); !some.empty(); some = stream->read())
      text->append(some.substr(0, kMostText - text->size()));
  }
}

void CommandRun::complete() {
  read();
  limit_.reset();
  auto process = std::exchange(process_, nullptr);  // it lives to the end of this call
  auto done = std::exchange(done_, nullptr);
  const value::WaitStatus& status = process->status();
  if (is_late_) return done(Error{ETIMEDOUT, fmt::format("{}: took longer than {:g} s", command_, most_.count())});
  if (status.success()) return done(std::move(out_));
  std::string why = last_line(is_told_by_output_ && trim(err_).empty() ? out_ : err_);
  done(Error{ECANCELED, fmt::format("{}: {}{}", command_, status.str(), why.empty() ? "" : ": " + why)});
}

}  // namespace nacre::task
