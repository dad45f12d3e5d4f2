// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/exec_runner.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "exits/record.hpp"
#include "job/options.hpp"

namespace nacre::plugins {
namespace {

// All that a command has started has it in its environment, so that it is found when the command ends.
constexpr const char* kMark = "NACRE_EXEC_ID";
constexpr const char* kTaskPid = "NACRE_TASK_PID";  // of the task that the command runs beside
constexpr event::Seconds kAfterKill{1};             // then what is left open is not waited for
constexpr std::array kOutputs{"stdout", "stderr", "pty"};
constexpr int kGivenUp = 3;                                    // a stage
constexpr std::uint64_t kInputStep = std::uint64_t{32} << 10;  // bytes, after which the leader gets a report

std::string end_of(const exits::Record& record, std::string_view why = {}) {
  return why.empty() ? record.str() : fmt::format("{}\n{}", record.str(), why);
}

}  // namespace

Result<void> ExecRunner::serve(Put put) {
  put_ = std::move(put);
  auto grace = TRY(job::kill_timeout(host_.options()));
  if (!grace.is_infinite()) grace_ = event::Seconds(grace.seconds());
  ordered_ = host_.on_exec([this](const value::ExecShare& share) {
    if (share.kind == value::ExecOrder::Kind::tool) receive(share);
  });
  noticed_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic != kExecTopic) return;
    if (auto notice = ExecNotice::parse(bytes)) take(*notice);
  });
  return {};
}

// ---- what is started -----------------------------------------------------------------------

task::Task* ExecRunner::task_of(std::uint32_t rank) {
  for (const auto& task : host_.tasks()) {
    if (task->rank() == rank) return task.get();
  }
  return nullptr;
}

void ExecRunner::receive(const value::ExecShare& share) {
  Order& order = orders_[share.number];
  auto command = ExecCommand::parse(share.command);
  std::vector<std::uint32_t> targets = share.ranks.ids();
  bool is_of_shell = targets.empty();
  if (is_of_shell) targets.push_back(host_.job().shell_rank);
  for (std::uint32_t target : targets) {
    task::Task* task = is_of_shell ? nullptr : task_of(target);
    if (command && (is_of_shell || task != nullptr)) {
      start(share.number, order, *command, target, task);
      continue;
    }
    Process& process = order.processes.emplace_back();
    process.target = target;
    std::string why = command ? fmt::format("task {} is not of this shell", target) : command.error().message;
    process.failure = end_of(exits::Record::not_started(task::kExitNotExecutable), why);
  }
  pump();
}

// The task's working directory may have been removed since.
task::Command ExecRunner::command_of(std::uint64_t number, const ExecCommand& wanted, task::Task* task) const {
  task::Command out;
  out.argv = wanted.argv;
  out.env = job::Environment::over(task != nullptr ? task->command().env : host_.environment());
  out.env.set(kMark, fmt::format("{}", number));
  if (task != nullptr) {
    out.env.unset("PMI_FD");  // a descriptor that only the task has
    out.env.set(kTaskPid, fmt::format("{}", task->pid()));
    out.setup.cpus = task->command().setup.cpus;
    out.setup.is_pretended = task->command().setup.is_pretended;
    out.setup.cwd = task->command().setup.cwd;
  }
  for (const auto& [name, value] : wanted.env) out.env.set(name, value);
  if (wanted.cwd) out.setup.cwd = wanted.cwd;
  out.setup.ends_with_parent = true;
  for (const char* stream : kOutputs) {
    out.stream_options[std::string(stream) + "_LINE_BUFFER"] = "false";
    out.stream_options[std::string(stream) + "_BUFSIZE"] = "64K";
  }
  out.stream_options["pty_BUFSIZE"] = fmt::format("{}", kExecInputWindow);  // it has the input, too
  return out;
}

void ExecRunner::start(std::uint64_t number, Order& order, const ExecCommand& command, std::uint32_t target,
                       task::Task* task) {
  Process& process = order.processes.emplace_back();
  process.target = target;
  process.may_write = command.window;
  if (command.joins && task != nullptr) return join(number, command, *task, process);
  task::Subprocess::Options options;
  options.pty = command.pty;
  if (command.has_input) options.streams.emplace_back("stdin");
  task::Subprocess::Callbacks callbacks;
  callbacks.on_ready = [this](const std::string&) { pump_in_stream(); };
  callbacks.on_room = [this](const std::string&, std::size_t) { pump_in_stream(); };
  callbacks.on_complete = [this] { pump(); };
  auto started = task::Subprocess::start(host_.loop(), host_.children(), command_of(number, command, task),
                                         std::move(options), std::move(callbacks));
  if (started) {
    process.child = *std::move(started);
    return send(number, target, ExecRecord::What::started);
  }
  process.failure = end_of(exits::Record::not_started(started.error().exit_code), started.error().error.message);
}

void ExecRunner::join(std::uint64_t number, const ExecCommand& command, const task::Task& task, Process& process) {
  JoinedTerminal::Callbacks callbacks;
  callbacks.on_change = [this] { pump_in_stream(); };
  callbacks.on_taken = [this] { pump_in_stream(); };
  auto joined = JoinedTerminal::join(host_.loop(), task, command.pty.value_or(winsize{}), kExecInputWindow,
                                     std::move(callbacks));
  if (joined) {
    process.joined = *std::move(joined);
    return send(number, process.target, ExecRecord::What::started);
  }
  process.failure = joined.error().code == ESRCH
                        ? end_of(exits::Record::of(task.status()))
                        : end_of(exits::Record::not_started(task::kExitNotExecutable), joined.error().message);
}

// ---- what the leader sends about it later -----------------------------------------------------------

void ExecRunner::take(const ExecNotice& notice) {
  auto found = orders_.find(notice.number);
  if (found == orders_.end()) return;
  Order& order = found->second;
  for (const auto& [target, bytes] : notice.may_write) {
    for (Process& each : order.processes) {
      if (each.target == target) each.may_write = std::max(each.may_write, bytes);
    }
  }
  if (notice.signum != 0) kill(order, notice.signum);
  if (notice.size) resize(order, *notice.size);
  order.drops = order.drops || notice.drops;
  if (notice.ends && order.stage == 0) end(notice.number, order);
  pump();
}

void ExecRunner::feed(std::string_view bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) return;
  auto found = orders_.find(take_number<std::uint64_t>(bytes));
  if (found == orders_.end()) return;
  for (Process& each : found->second.processes) {
    task::BufferedStream* input = each.input();
    if (input == nullptr) continue;
    if (bytes.empty() && hang_up(found->second)) break;
    if (bytes.empty())
      input->close();
    else
      static_cast<void>(input->write(bytes));  // EPIPE: it reads no more; there is room for the whole window
  }
  pump();
}

task::BufferedStream* ExecRunner::Process::input() const {
  if (joined) return &joined->keys();
  if (!child) return nullptr;
  return child->stream(child->pty() != nullptr ? "pty" : "stdin");
}

void ExecRunner::kill(const Order& order, int signum) {
  for (const Process& each : order.processes) {
    if (each.child) static_cast<void>(each.child->kill(signum));  // it may have ended
  }
}

// The last that is done with the order: it may be over then.
bool ExecRunner::hang_up(const Order& order) {
  for (const Process& each : order.processes) {
    if (!each.child || each.child->pty() == nullptr) continue;
    each.child->hang_up();  // there is only one
    return true;
  }
  return false;
}

void ExecRunner::resize(const Order& order, const winsize& size) {
  for (const Process& each : order.processes) {
    if (each.joined) each.joined->resize(size);
    task::Pty* pty = each.child ? each.child->pty() : nullptr;
    if (pty != nullptr && pty->master() >= 0) static_cast<void>(pty->set_size(size));
  }
}

// Those that have left the process group, or whose group's leader has ended. On a terminal that is about to be hung
// up the kernel only signals the session's leader: what else is in the foreground gets SIGHUP here.
ExecRunner::Signals ExecRunner::signals_of_marked(std::uint64_t number, const Order& order, int signum) {
  Signals out;
  std::set<pid_t> leaders, groups, foreground;
  for (const Process& each : order.processes) {
    if (!each.child || each.child->exited()) continue;
    leaders.insert(each.child->pid());
    task::Pty* pty = each.child->pty();
    if (pty == nullptr || pty->master() < 0)
      groups.insert(each.child->pid());
    else
      foreground.insert({each.child->pid(), ::tcgetpgrp(pty->master())});
  }
  std::string mark = fmt::format("{}={}", kMark, number) + '\0';
  for (pid_t pid : event::Children::descendants()) {
    auto environment = read_file(fmt::format("/proc/{}/environ", pid));
    if (!environment || leaders.contains(pid)) continue;
    std::size_t at = environment->find(mark);
    bool is_marked = at != std::string::npos && (at == 0 || (*environment)[at - 1] == '\0');
    pid_t group = ::getpgid(pid);
    if (is_marked && !groups.contains(group)) out.emplace_back(pid, foreground.contains(group) ? SIGHUP : signum);
  }
  return out;
}

void ExecRunner::send_all(const Signals& signals) {
  for (auto [pid, signum] : signals) ::kill(pid, signum);
}

// The command itself gets its signal first: once what it waits for has ended it may exit before it gets one.
void ExecRunner::end(std::uint64_t number, Order& order) {
  auto timer = event::Timer::create(host_.loop(), [this, number] { go_on_ending(number); });
  if (timer) {
    order.timer = *std::move(timer);
    if (grace_) order.timer->start_grace(*grace_);
  }
  order.stage = timer ? 1 : 2;
  int signum = timer ? SIGTERM : SIGKILL;
  Signals others = signals_of_marked(number, order, signum);  // first, as it looks below those that are ended
  if (timer && hang_up(order)) return send_all(others);
  kill(order, signum);
  kill(order, SIGCONT);  // a stopped one takes the SIGTERM only once it runs
  send_all(others);
}

void ExecRunner::go_on_ending(std::uint64_t number) {
  auto found = orders_.find(number);
  if (found == orders_.end()) return;
  Order& order = found->second;
  if (++order.stage < kGivenUp) {
    send_all(signals_of_marked(number, order, SIGKILL));
    kill(order, SIGKILL);
    order.timer->start(kAfterKill);
    return;
  }
  for (Process& each : order.processes) each.given_up = true;
  pump();
}

// ---- the way up ----------------------------------------------------------------------------

void ExecRunner::send(std::uint64_t number, std::uint32_t target, ExecRecord::What what, std::string_view body) {
  unsent_.push_back(ExecRecord{what, number, target, body}.str());
}

void ExecRunner::pump() {
  if (put_) pump_.run([this] { return step(); });
}

void ExecRunner::pump_in_stream() {
  in_stream_ = true;
  pump();
  in_stream_ = false;
}

bool ExecRunner::step() {
  if (unsent_.empty()) return queue_some();
  if (cut_off_) {
    unsent_.clear();
    return true;
  }
  std::string record = std::move(unsent_.front());
  unsent_.pop_front();
  Result<bool> sent = put_(record);
  if (!sent) {  // the shell ends, and all that it has started with it
    cut_off_ = true;
    return true;
  }
  if (*sent) return true;
  unsent_.push_front(std::move(record));
  return false;
}

bool ExecRunner::queue_some() {
  bool found = false;
  for (auto order = orders_.begin(); order != orders_.end();) {
    auto& processes = order->second.processes;
    for (auto each = processes.begin(); each != processes.end();) {
      if (queue_output(order->first, order->second, *each)) {
        found = true;
        ++each;
      } else if (queue_end(order->first, order->second, *each)) {
        found = true;
        each = processes.erase(each);
      } else {
        ++each;
      }
    }
    order = processes.empty() ? orders_.erase(order) : std::next(order);
  }
  return found;
}

bool ExecRunner::queue_output(std::uint64_t number, const Order& order, Process& process) {
  using What = ExecRecord::What;
  if (queue_input(number, process)) return true;
  if (process.joined) return queue_joined(number, order, process);
  if (!process.child) return false;
  for (const char* name : kOutputs) {
    What what = std::string_view(name) == "stderr" ? What::err : What::out;
    task::BufferedStream* stream = process.child->stream(name);
    if (stream == nullptr || stream->unread() == 0) continue;
    if (order.drops || process.given_up) {
      static_cast<void>(stream->read());
      return true;
    }
    std::uint64_t most = std::min<std::uint64_t>(kExecChunk, process.may_write - process.written);
    if (most == 0) continue;
    std::string_view bytes = stream->read(most);
    process.written += bytes.size();
    send(number, process.target, what, bytes);
    return true;
  }
  return false;
}

bool ExecRunner::queue_input(std::uint64_t number, Process& process) {
  task::BufferedStream* input = process.input();
  if (input == nullptr) return false;
  std::uint64_t taken = input->taken();
  bool is_all = taken == input->written();
  if (taken <= process.input_reported || !(is_all || taken >= process.input_reported + kInputStep)) return false;
  process.input_reported = taken;
  send(number, process.target, ExecRecord::What::input_taken, fmt::format("{}", taken));
  return true;
}

bool ExecRunner::queue_joined(std::uint64_t number, const Order& order, Process& process) {
  using What = ExecRecord::What;
  std::uint64_t most = std::min<std::uint64_t>(kExecChunk, process.may_write - process.written);
  if (order.drops || most == 0) return false;
  if (std::uint64_t missed = process.joined->missed(); missed > 0)
    send(number, process.target, What::missed, fmt::format("{}", missed));
  std::string_view bytes = process.joined->read(most);
  if (bytes.empty()) return false;
  process.written += bytes.size();
  send(number, process.target, What::out, bytes);
  return true;
}

bool ExecRunner::queue_end(std::uint64_t number, const Order& order, const Process& process) {
  using What = ExecRecord::What;
  if (process.joined) {
    if (in_stream_ || !(process.joined->ended() || order.drops)) return false;
    send(number, process.target, What::exited, end_of(exits::Record::of(process.joined->status())));
    return true;
  }
  if (!process.child) {
    send(number, process.target, What::exited, process.failure);
    return true;
  }
  if (in_stream_) return false;  // its end calls by itself
  const task::Subprocess& child = *process.child;
  bool is_read = true;
  for (const char* name : kOutputs) {
    task::BufferedStream* stream = child.stream(name);
    if (stream != nullptr && stream->unread() > 0) is_read = false;
  }
  if (!(child.complete() && is_read) && !process.given_up) return false;
  value::WaitStatus status = child.exited() ? child.status() : value::WaitStatus::killed(SIGKILL);
  send(number, process.target, What::exited, end_of(exits::Record::of(status)));
  return true;
}

// ---- joined terminal --------------------------------------------------------------------

Result<std::unique_ptr<JoinedTerminal>> JoinedTerminal::join(event::Loop& loop, const task::Task& task,
                                                             const winsize& size, std::size_t typed_ahead,
                                                             Callbacks callbacks) {
  if (task.pty() == nullptr)
    return Error{ENOTTY, fmt::format("task {} has no terminal: run the job with --pty", task.rank())};
  std::unique_ptr<JoinedTerminal> out(new JoinedTerminal(task, std::move(callbacks)));
  if (task.state() != task::State::running || out->pty_.master() < 0)
    return Error{ESRCH, fmt::format("task {} has ended", task.rank())};
  // A descriptor of its own, as the loop watches each for one reader or writer only.
  UniqueFd typed(::fcntl(out->pty_.master(), F_DUPFD_CLOEXEC, 3));
  if (!typed) return system_error(errno, "cannot share a terminal");
  task::BufferedStream::Options options;
  options.readable = false;
  options.writable = true;
  options.buffer_size = typed_ahead;
  task::BufferedStream::Callbacks of_keys;
  of_keys.on_room = [raw = out.get()](std::size_t) { raw->callbacks_.on_taken(); };
  out->keys_ = TRY(task::BufferedStream::create(loop, std::move(typed), options, std::move(of_keys)));
  std::string_view kept = out->unread();
  out->position_ = out->pty_.written() - kept.size();
  out->viewer_ = out->pty_.add_viewer(size, [raw = out.get()] { raw->change(); });
  return out;
}

JoinedTerminal::~JoinedTerminal() {
  if (viewer_ != 0) pty_.remove_viewer(viewer_);
}

// While it had the terminal open, the task would not be hung up.
void JoinedTerminal::change() {
  if (pty_.master() < 0) keys_->hang_up();
  auto on_change = callbacks_.on_change;
  on_change();
}

std::string_view JoinedTerminal::read(std::size_t most) {
  std::string_view bytes = unread().substr(0, most);
  position_ += bytes.size();
  return bytes;
}

std::uint64_t JoinedTerminal::missed() {
  std::uint64_t at = pty_.written() - unread().size();
  return at - std::exchange(position_, at);
}

bool JoinedTerminal::ended() const {
  return pty_.ended() && unread().empty() && task_.state() == task::State::exited;
}

void JoinedTerminal::resize(const winsize& size) { pty_.resize_viewer(viewer_, size); }

}  // namespace nacre::plugins
