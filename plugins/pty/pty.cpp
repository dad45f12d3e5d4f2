// SPDX-License-Identifier: Apache-2.0
//
// pty: pseudo-terminals for tasks. A bare `pty` gives each task one, captured; or it is an object:
//
//   ranks        an idset of task ranks (RFC 22), a rank, or "all"; all by default, with `interactive` task 0 alone
//   capture      what the task writes goes where its stdout goes; the default, unless `interactive`
//   interactive  task 0's is connected to the terminal on which the shell was started; in a Flux instance to the
//                clients that attach, the first of which the job waits for
//
// What is neither captured nor goes to the terminal is read and dropped: a task must not block because nothing
// reads.

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "io/terminal.hpp"
#include "plugin/host.hpp"
#include "plugins/builtins.hpp"
#include "plugins/output/options.hpp"
#include "plugins/pty/options.hpp"
#include "plugins/pty/terminus.hpp"
#include "task/pty.hpp"

namespace nacre::plugins {

// ---- relay ------------------------------------------------------------------------------
//
// Moves bytes between a task's pty and the shell's terminal, both ways, as long as both exist. What one side does
// not take is not read from the other: a slow terminal stops the task, and a task that does not read stops the
// input.

class PtyRelay {
 public:
  enum class End {
    task,      // all that the task wrote has come out
    terminal,  // it has gone: the pty is hung up
  };

  // Both have to live until `on_end`, which is called once, and may destroy them but not the relay.
  static Result<std::unique_ptr<PtyRelay>> start(event::Loop& loop, task::Pty& pty, io::Terminal& terminal,
                                                 std::function<void(End)> on_end);
  // Copies all that the task writes to `fd`, a pipe: its reader too stops the task if it is slow.
  Result<void> copy_to(event::Loop& loop, UniqueFd fd);
  // Ends it though the task has not, as if the terminal had gone; before `on_end`.
  void hang_up() { finish(End::terminal); }
  PtyRelay(const PtyRelay&) = delete;
  PtyRelay& operator=(const PtyRelay&) = delete;

 private:
  static constexpr std::size_t kBuffer = std::size_t{16} << 10;  // bytes, each way

  struct Buffer {
    std::array<char, kBuffer> bytes;
    std::size_t begin = 0;
    std::size_t end = 0;
    [[nodiscard]] bool empty() const { return begin == end; }
  };
  struct Watched {
    std::optional<event::Poll> poll;
    int events = 0;
  };
  enum class Moved { some, later, ended };

  PtyRelay(task::Pty& pty, io::Terminal& terminal, std::function<void(End)> on_end)
      : pty_(pty), terminal_(terminal), on_end_(std::move(on_end)) {}
  Result<void> watch(event::Loop& loop);
  Result<void> watch_signals(event::Loop& loop);
  void task_ready(int events);
  void input_ready(int events);
  void output_ready(int events);
  void copy_ready(int events);
  void read_task();
  void end_copy();
  void go_on();
  void finish(End end);
  void resize();
  void look_for_terminal();
  static Moved fill(int fd, Buffer& buffer);
  static Moved drain(int fd, Buffer& buffer);
  Result<void> await(Watched& watched, int events);

  task::Pty& pty_;
  io::Terminal& terminal_;
  std::function<void(End)> on_end_;
  Buffer out_;   // to the terminal
  Buffer copy_;  // the same, to copy_fd_
  Buffer in_;    // to the task
  bool task_ended_ = false;
  Watched task_, input_, output_, copier_;
  UniqueFd copy_fd_;
  std::vector<event::SignalWatcher> signals_;
};

// ---- pty --------------------------------------------------------------------------------

namespace {

constexpr winsize kDefaultSize{24, 80, 0, 0};  // used if the shell is on no terminal
constexpr const char* kSessionVariable = "FLUX_TERMINUS_SESSION";
constexpr std::size_t kPtyRead = 4096;  // bytes: as many as a pty gives at once

class PtyPlugin final : public plugin::Plugin {
 public:
  explicit PtyPlugin(plugin::Host& host) : Plugin("pty"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("shell.post-init", [this] { return open_all(); });
    on("task.init", [this] { return prepare(*host_.current_task()); });
    on("task.fork", [this] { return begin(*host_.current_task()); });
    on("task.exit", [this] {
      const task::Task& task = *host_.current_task();
      if (task.is_given_up() && on_terminal(task) && terminal_) relay_->hang_up();
      if (terminus_) terminus_->task_ended(task);
    });
  }

 private:
  Result<void> read() {
    options_ = TRY(PtyOptions::read(host_.options(), host_.job().tasks()));
    if (!options_.ranks.empty()) host_.start_after_all();
    if (host_.instance() != nullptr) serve_clients();
    return {};
  }

  void serve_clients() {
    host_.environment().set(kSessionVariable, "0");
    if (options_.ranks.empty()) return;
    terminus_.emplace(host_, *host_.instance());
    if (!options_.interactive || !host_.job().leads()) return;
    host_.add_event_context("shell.init", {{"pty", "terminus.0"}});
    if (options_.captures) host_.add_event_context("shell.init", {{"capture", 1}});
  }

  [[nodiscard]] bool is_interactive(const task::Task& task) const {
    return options_.interactive && task.rank() == 0;
  }
  // In an instance there are clients in its place.
  [[nodiscard]] bool on_terminal(const task::Task& task) const { return is_interactive(task) && !terminus_; }

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
    } else if (!pty->captured() && !is_interactive(task)) {
      dropped_[task.local_id()];
    }
    if (terminus_) {
      terminus_->close(task);
      task.command().env.set(kSessionVariable, fmt::format("{}", task.rank()));
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
    if (terminus_) {
      const bool waits = is_interactive(task);
      CHECK_OK(terminus_->open(task, {.waits = waits, .reads = waits && !task.pty()->captured()}));
    }
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
  std::optional<Terminus> terminus_;
};

}  // namespace

PluginPtr make_pty(plugin::Host& host) { return std::make_unique<PtyPlugin>(host); }

// ---- relay ------------------------------------------------------------------------------

using event::Poll;

Result<std::unique_ptr<PtyRelay>> PtyRelay::start(event::Loop& loop, task::Pty& pty, io::Terminal& terminal,
                                                  std::function<void(End)> on_end) {
  std::unique_ptr<PtyRelay> relay(new PtyRelay(pty, terminal, std::move(on_end)));
  CHECK_OK(relay->watch(loop));
  CHECK_OK(relay->watch_signals(loop));
  relay->resize();  // the size may have changed since the pty was made
  return relay;
}

Result<void> PtyRelay::watch(event::Loop& loop) {
  task_.poll = TRY(Poll::create(loop, pty_.master(), [this](int events) { task_ready(events); }));
  input_.poll = TRY(Poll::create(loop, terminal_.input(), [this](int events) { input_ready(events); }));
  output_.poll = TRY(Poll::create(loop, terminal_.output(), [this](int events) { output_ready(events); }));
  CHECK_OK(await(task_, Poll::kReadable));
  return await(input_, Poll::kReadable);
}

Result<void> PtyRelay::copy_to(event::Loop& loop, UniqueFd fd) {
  copier_.poll = TRY(Poll::create(loop, fd.get(), [this](int events) { copy_ready(events); }));
  copy_fd_ = std::move(fd);
  return {};
}

Result<void> PtyRelay::watch_signals(event::Loop& loop) {
  auto watch = [&](int signum, std::function<void(int)> received) -> Result<void> {
    signals_.push_back(TRY(event::SignalWatcher::create(loop, signum, std::move(received))));
    signals_.back().keeps_running(false);
    return {};
  };
  CHECK_OK(watch(SIGWINCH, [this](int) { resize(); }));
  CHECK_OK(watch(SIGTSTP, [this](int) { terminal_.suspend(); }));
  CHECK_OK(watch(SIGHUP, [this](int) { look_for_terminal(); }));
  return watch(SIGCONT, [this](int) {
    static_cast<void>(terminal_.resume());  // the terminal may have gone: its input ends then
    resize();
  });
}

void PtyRelay::resize() {
  winsize size{};
  if (pty_.master() < 0 || ::ioctl(terminal_.output(), TIOCGWINSZ, &size) < 0) return;
  static_cast<void>(pty_.set_size(size, true));
}

// While the task takes no input the terminal is not read, so its end has to be looked for.
void PtyRelay::look_for_terminal() {
  winsize size{};
  if (::ioctl(terminal_.input(), TIOCGWINSZ, &size) < 0) finish(End::terminal);
}

PtyRelay::Moved PtyRelay::fill(int fd, Buffer& buffer) {
  ssize_t got = ::read(fd, buffer.bytes.data(), buffer.bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Moved::later;
  if (got <= 0) return Moved::ended;
  buffer.begin = 0;
  buffer.end = static_cast<std::size_t>(got);
  return Moved::some;
}

PtyRelay::Moved PtyRelay::drain(int fd, Buffer& buffer) {
  if (buffer.empty()) return Moved::some;
  ssize_t written = ::write(fd, buffer.bytes.data() + buffer.begin, buffer.end - buffer.begin);
  if (written < 0 && (errno == EAGAIN || errno == EINTR)) return Moved::later;
  if (written < 0) return Moved::ended;
  buffer.begin += static_cast<std::size_t>(written);
  return Moved::some;
}

// An error of a descriptor, 0, shows up in its next read or write.
void PtyRelay::task_ready(int events) {
  if (events == 0) task_.events = 0;
  if (drain(pty_.master(), in_) == Moved::ended) in_.begin = in_.end;  // it will never be read
  if (out_.empty() && copy_.empty() && !task_ended_) read_task();
  go_on();
}

void PtyRelay::read_task() {
  Moved moved = fill(pty_.master(), out_);
  task_ended_ = moved == Moved::ended;
  if (moved != Moved::some) return;
  if (copy_fd_) copy_ = out_;
  pty_.note({out_.bytes.data(), out_.end});
}

void PtyRelay::input_ready(int events) {
  if (events == 0) input_.events = 0;
  if (in_.empty() && fill(terminal_.input(), in_) == Moved::ended) return finish(End::terminal);
  if (drain(pty_.master(), in_) == Moved::ended) in_.begin = in_.end;
  go_on();
}

void PtyRelay::output_ready(int events) {
  if (events == 0) output_.events = 0;
  go_on();
}

void PtyRelay::copy_ready(int events) {
  if (events == 0) copier_.events = 0;
  go_on();
}

void PtyRelay::go_on() {
  if (drain(copy_fd_.get(), copy_) == Moved::ended) end_copy();
  if (drain(terminal_.output(), out_) == Moved::ended) return finish(End::terminal);
  bool all_out = out_.empty() && copy_.empty();
  if (all_out && task_ended_) return finish(End::task);
  int from_task = all_out ? Poll::kReadable : 0;
  bool watched = await(task_, from_task | (in_.empty() ? 0 : Poll::kWritable)) &&
                 await(input_, in_.empty() ? Poll::kReadable : 0) &&
                 await(output_, out_.empty() ? 0 : Poll::kWritable) &&
                 await(copier_, copy_.empty() ? 0 : Poll::kWritable);
  if (!watched) finish(End::terminal);
}

Result<void> PtyRelay::await(Watched& watched, int events) {
  if (std::exchange(watched.events, events) == events) return {};
  if (events != 0) return watched.poll->start(events);
  watched.poll->stop();
  return {};
}

// The reader of the copy has gone.
void PtyRelay::end_copy() {
  copy_.begin = copy_.end;
  copier_ = {};
  copy_fd_.reset();
}

void PtyRelay::finish(End end) {
  for (Watched* each : {&task_, &input_, &output_}) each->poll.reset();
  end_copy();
  signals_.clear();
  pty_.note_end();
  if (end == End::terminal) pty_.hang_up();
  on_end_(end);
}

}  // namespace nacre::plugins
