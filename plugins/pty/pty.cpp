// SPDX-License-Identifier: Apache-2.0
//
// pty: pseudo-terminals for tasks. A bare `pty` gives each task one, captured; or it is an object:
//
//   ranks        an idset of task ranks (RFC 22), a rank, or "all"; all by default, with `interactive` task 0 alone
//   capture      what the task writes goes where its stdout goes; the default, unless `interactive`
//   interactive  task 0's is connected to the terminal on which the shell was started
//
// What is neither captured nor goes to the terminal is read and dropped: a task must not block because nothing
// reads.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <unordered_map>

#include <fmt/format.h>

#include "io/terminal.hpp"
#include "plugins/builtins.hpp"
#include "plugins/output/options.hpp"
#include "plugins/pty/options.hpp"
#include "plugins/pty/relay.hpp"
#include "task/pty.hpp"

namespace nacre::plugins {
namespace {

constexpr winsize kDefaultSize{24, 80, 0, 0};  // used if the shell is on no terminal
constexpr std::size_t kPtyRead = 4096;         // bytes: as many as a pty gives at once

class PtyPlugin final : public plugin::Plugin {
 public:
  explicit PtyPlugin(plugin::Host& host) : Plugin("pty"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
    on("shell.post-init", [this](plugin::Call&) { return open_all(); });
    on("task.init", [this](plugin::Call&) { return prepare(*host_.current_task()); });
    on("task.fork", [this](plugin::Call&) { return begin(*host_.current_task()); });
    on("task.exit", [this](plugin::Call&) {
      if (host_.current_task()->is_given_up() && on_terminal(*host_.current_task()) && terminal_) relay_->hang_up();
      return Result<void>();
    });
  }

 private:
  Result<void> read() {
    options_ = TRY(PtyOptions::read(host_.options(), host_.job().tasks()));
    if (!options_.ranks.empty()) host_.start_after_all();
    return {};
  }

  [[nodiscard]] bool on_terminal(const task::Task& task) const { return options_.interactive && task.rank() == 0; }

  Result<void> check_terminal() {
    bool here = !host_.tasks().empty() && on_terminal(*host_.tasks()[0]);
    if (!here || io::at_terminal()) return {};
    return invalid(
        "pty.interactive: standard input or output is not a terminal (start it on one, or leave it out)");
  }

  static Result<std::unique_ptr<task::Pty>> open() {
    return task::Pty::open(io::terminal_size().value_or(kDefaultSize));
  }

  // A node that has no more terminals is known before any task of the job starts.
  Result<void> open_all() {
    CHECK_OK(check_terminal());
    for (const auto& task : host_.tasks()) {
      if (options_.ranks.contains(task->rank())) opened_[task->rank()] = TRY(in(task_name(*task), open()));
    }
    return {};
  }

  static std::string task_name(const task::Task& task) { return fmt::format("task {}", task.rank()); }

  Result<void> prepare(task::Task& task) {
    if (!options_.ranks.contains(task.rank())) return {};
    auto opened = opened_.extract(task.rank());
    auto pty = opened ? std::move(opened.mapped()) : TRY(open());
    if (!output_) output_ = TRY(OutputOptions::read(host_.options()));
    bool printed = !output_->ranks || output_->ranks->contains(task.rank());
    pty->set_captured(options_.captures && printed);
    if (on_terminal(task)) {
      // Its stdout is the terminal as well, unless that goes to a file: only then is there something to capture.
      pty->set_captured(pty->captured() && output_->streams[0].has(OutputType::file));
      CHECK_OK(prepare_joined(task, *pty));
    } else if (!pty->captured()) {
      dropped_[task.local_id()];
    }
    task.set_pty(std::move(pty));
    return {};
  }

  Result<void> prepare_joined(task::Task& task, task::Pty& pty) {
    job::Environment& env = task.command().env;
    const char* terminal = std::getenv("TERM");
    if (terminal != nullptr && !env.get("TERM")) env.set("TERM", terminal);
    // It also gets the terminal's keys, such as erase and interrupt.
    if (auto modes = io::terminal_modes()) CHECK_OK(pty.set_modes(*modes));
    if (!pty.captured()) return {};
    Pipe pipe = TRY(make_pipe(O_CLOEXEC));
    copy_ = std::move(pipe.write);
    split_ = pty.split(std::move(pipe.read));
    return {};
  }

  Result<void> begin(task::Task& task) {
    if (task.pty() == nullptr) return {};
    if (on_terminal(task)) return join(*task.pty());
    auto dropped = dropped_.find(task.local_id());
    if (dropped == dropped_.end()) return {};
    auto& poll = dropped->second;
    poll = TRY(event::Poll::create(host_.loop(), task.pty()->master(), [&task, &poll](int) { drop(task, poll); }));
    return poll->start(event::Poll::kReadable);
  }

  static void drop(const task::Task& task, std::optional<event::Poll>& poll) {
    std::array<char, kPtyRead> bytes;
    ssize_t got = ::read(task.pty()->master(), bytes.data(), bytes.size());
    if (got > 0) return task.pty()->note({bytes.data(), static_cast<std::size_t>(got)});
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    poll.reset();
    task.pty()->note_end();
  }

  Result<void> join(task::Pty& pty) {
    terminal_ = TRY(in("pty.interactive", io::Terminal::borrow(&host_.children())));
    auto on_end = [this](PtyRelay::End end) { leave(end); };
    relay_ = TRY(PtyRelay::start(host_.loop(), split_ ? *split_ : pty, *terminal_, on_end));
    if (copy_) CHECK_OK(relay_->copy_to(host_.loop(), std::move(copy_)));
    host_.hold(name());
    return {};
  }

  void leave(PtyRelay::End end) {
    terminal_.reset();
    if (end == PtyRelay::End::terminal) log(host_, *this, Level::debug, "the terminal has gone: task 0 is hung up");
    if (Result<void> released = host_.release(name()); !released) {
      log(host_, *this, Level::error, "{}", released.error().message);
    }
  }

  plugin::Host& host_;
  PtyOptions options_;
  std::optional<OutputOptions> output_;                                    // read for the first task with a pty
  std::unordered_map<std::uint32_t, std::optional<event::Poll>> dropped_;  // by local id; read, and dropped
  std::unordered_map<std::uint32_t, std::unique_ptr<task::Pty>> opened_;   // by rank, until the task has it
  UniqueFd copy_;                                                          // until the relay has it
  std::unique_ptr<task::Pty> split_;
  std::unique_ptr<io::Terminal> terminal_;
  std::unique_ptr<PtyRelay> relay_;
};

}  // namespace

PluginPtr make_pty(plugin::Host& host) { return std::make_unique<PtyPlugin>(host); }

}  // namespace nacre::plugins
