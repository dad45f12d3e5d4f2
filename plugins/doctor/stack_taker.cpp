// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/stack_taker.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "plugins/doctor/looks.hpp"
#include "plugins/doctor/nccl.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {
namespace {

Error not_allowed(int code) {
  std::string setting = trace_setting();
  return Error{code,
               fmt::format("the shell may not read their memory{}", setting.empty() ? "" : " (" + setting + ")")};
}

Result<void> copy_from(pid_t pid, std::uint64_t address, void* to, std::size_t size) {
  iovec here{to, size};
  iovec there{reinterpret_cast<void*>(address), size};  // in the other process
  ssize_t copied = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
  if (copied == static_cast<ssize_t>(size)) return {};
  if (copied >= 0 || errno == EFAULT) return Error{EFAULT, "their memory is not what it seemed to be"};
  if (errno == EPERM || errno == EACCES) return not_allowed(errno);
  return Error{errno, std::strerror(errno)};
}

}  // namespace

Result<std::optional<doctor::PythonStacks>> python_stacks_of(pid_t pid, const std::string& program) {
  auto maps = read_file(fmt::format("/proc/{}/maps", pid));
  if (!maps) {
    if (!doctor::may_be_python(program)) return std::optional<doctor::PythonStacks>();
    int code = maps.error().code;
    return code == EPERM || code == EACCES ? not_allowed(code) : Error{code, std::strerror(code)};
  }
  auto files = doctor::loaded_files(*maps, doctor::may_be_python);
  if (files.empty()) return std::optional<doctor::PythonStacks>();
  auto read = [pid](std::uint64_t address, void* to, std::size_t size) {
    return copy_from(pid, address, to, size);
  };
  return std::optional(TRY(doctor::python_stacks(read, files)));
}

namespace {

using doctor::StackTool;

constexpr event::Seconds kAfterTracer{0.1};  // after the last tracer: its SIGSTOP may still be on its way

std::string program_of(pid_t pid) {
  char path[PATH_MAX];
  ssize_t size = ::readlink(fmt::format("/proc/{}/exe", pid).c_str(), path, sizeof path);
  return size <= 0 ? "" : std::string(path, static_cast<std::size_t>(size));
}

std::string error_shown(std::string_view text) {
  std::string_view all = trim(text);
  constexpr std::size_t kMost = 160;  // bytes
  return escape_controls(all.substr(all.rfind('\n') + 1).substr(0, kMost));
}

}  // namespace

StackTaker::~StackTaker() {
  for (auto& [rank, run] : running_) {
    if (run->process && !run->process->exited()) static_cast<void>(run->process->kill(SIGKILL));
    suspects_.push_back(run->target);
  }
  let_go_on();
}

void StackTaker::start(std::vector<Target> targets, Done done) {
  waiting_.assign(targets.begin(), targets.end());
  done_ = std::move(done);
  until_ = event::clock_now() + kMostInAll;
  auto timer = event::Timer::create(host_.loop(), [this] { is_again_ ? finish() : begin_again(); });
  if (!timer) {
    notes_.insert(timer.error().message);
    waiting_.clear();
    return done_(stacks_, notes_);
  }
  timer_ = *std::move(timer);
  timer_->unref();
  begin_more();
}

bool StackTaker::is_there(StackTool tool) { return is_in_path(name_of(tool)); }

std::optional<StackTool> StackTaker::tool_for(const std::string& program) const {
  std::optional<StackTool> only;
  if (way_ == StackWay::eu_stack) only = StackTool::eu_stack;
  if (way_ == StackWay::gdb) only = StackTool::gdb;
  if (way_ == StackWay::py_spy) only = StackTool::py_spy;
  if (only) return is_there(*only) ? only : std::nullopt;
  if (doctor::may_be_python(program) && is_there(StackTool::py_spy)) return StackTool::py_spy;
  for (StackTool tool : {StackTool::eu_stack, StackTool::gdb}) {
    if (is_there(tool)) return tool;
  }
  return std::nullopt;
}

std::string StackTaker::why_no_tool() const {
  switch (way_) {
    case StackWay::eu_stack: return "no stacks: eu-stack is not in the shell's PATH; elfutils has it";
    case StackWay::gdb: return "no stacks: gdb is not in the shell's PATH";
    case StackWay::py_spy: return "no stacks: py-spy is not in the shell's PATH";
    default: break;
  }
  return "no stacks: neither eu-stack, which elfutils has, nor gdb is in the shell's PATH";
}

void StackTaker::begin_more() {
  if (event::clock_now() >= until_ && !waiting_.empty()) {
    if (!is_again_)
      notes_.insert(fmt::format("the stacks of {} tasks have not been taken, as those of the others took {:g} s",
                                waiting_.size(), kMostInAll.count()));
    waiting_.clear();
  }
  while (running_.size() < kMostAtOnce && !waiting_.empty()) {
    Target target = waiting_.front();
    waiting_.pop_front();
    std::string program = program_of(target.pid);
    bool is_read = is_again_ && !firsts_[target.rank].tool;
    if ((is_read || (!is_again_ && way_ == StackWay::automatic)) && read_python(target, program)) continue;
    if (is_read) continue;
    auto tool = is_again_ ? firsts_[target.rank].tool : tool_for(program);
    if (!tool) {
      notes_.insert(why_no_tool());
      waiting_.clear();
      break;
    }
    begin(target, *tool);
  }
  if (!running_.empty() || !waiting_.empty()) return;
  bool is_first_done = !is_again_ && !firsts_.empty() && event::clock_now() < until_;
  if (is_first_done) return timer_->start(kBetween);
  is_again_ = true;
  let_go_on();
  timer_->start(suspects_.empty() ? event::Seconds::zero() : kAfterTracer);
}

// Of targets with the same first stack a few are enough.
void StackTaker::begin_again() {
  is_again_ = true;
  for (const auto& [rank, first] : firsts_) alike_[stacks_[rank].stack].push_back(rank);
  for (const auto& [stack, ranks] : alike_) {
    std::size_t count = std::min(ranks.size(), kMostAlike);
    for (std::size_t i = 0; i < count; ++i) waiting_.push_back(firsts_[ranks[i * ranks.size() / count]].target);
  }
  begin_more();
}

// A target without a second stack gets the steps of those with the same first stack.
void StackTaker::share_steps() {
  for (const auto& [stack, ranks] : alike_) {
    doctor::Steps steps = doctor::Steps::unknown;
    for (std::uint32_t rank : ranks) steps = std::max(steps, stacks_[rank].steps);
    for (std::uint32_t rank : ranks) {
      if (stacks_[rank].steps == doctor::Steps::unknown) stacks_[rank].steps = steps;
    }
  }
}

void StackTaker::begin(const Target& target, StackTool tool) {
  auto run = std::make_unique<Run>();
  run->target = target;
  run->tool = tool;
  run->program = program_of(target.pid);
  task::Command command{doctor::command_of(tool, target.pid), job::Environment::own(), {}};
  command.env.unset("DEBUGINFOD_URLS");  // so that nothing is fetched for it
  command.setup.ends_with_parent = true;
  std::uint32_t rank = target.rank;
  task::Subprocess::Callbacks callbacks;
  callbacks.on_ready = [run = run.get()](const std::string&) { read(*run); };
  callbacks.on_complete = [this, rank] { complete(rank); };
  auto limit = event::Timer::create(host_.loop(), [run = run.get()] {
    run->is_late = true;
    static_cast<void>(run->process->kill(SIGKILL));  // the process may have ended without having been reaped
  });
  auto started =
      task::Subprocess::start(host_.loop(), host_.children(), std::move(command), {}, std::move(callbacks));
  if (!started || !limit) {
    notes_.insert(fmt::format("no stacks by {}: {}", name_of(tool),
                              !started ? started.error().error.message : limit.error().message));
    return;
  }
  run->process = *std::move(started);
  run->limit = *std::move(limit);
  run->limit->start_grace(kMostTime);
  running_[rank] = std::move(run);
}

void StackTaker::read(Run& run) {
  for (auto [name, kept] : {std::pair("stdout", &run.out), {"stderr", &run.err}}) {
    task::BufferedStream* stream = run.process->stream(name);
    for (std::string_view some = stream->read(); !some.empty(); some = stream->read())
      kept->append(some.substr(0, kMostText - kept->size()));
  }
}

void StackTaker::complete(std::uint32_t rank) {
  auto taken = running_.extract(rank);
  if (!taken) return;
  std::unique_ptr<Run> run = std::move(taken.mapped());  // keeps it alive to the end of this call
  read(*run);
  run->limit.reset();
  if (run->is_late || !run->process->status().success()) suspects_.push_back(run->target);
  auto threads = doctor::stacks_in(run->tool, run->out);
  if (threads.empty() && !is_again_) {
    note_failure(*run);
    bool may_retry = run->tool == StackTool::py_spy && way_ == StackWay::automatic;
    if (may_retry && is_there(StackTool::eu_stack)) begin(run->target, StackTool::eu_stack);
  } else if (!threads.empty()) {
    // py-spy prints only the script's functions.
    take({run->target, run->tool, {}}, run->tool == StackTool::py_spy ? "" : run->program, threads);
  }
  begin_more();
}

// Returns false if only a tool that traces the process can tell its stack. Takes at most some milliseconds.
bool StackTaker::read_python(const Target& target, const std::string& program) {
  auto read = python_stacks_of(target.pid, program);
  if (!read) {
    notes_.insert("the functions of Python are not read: " + read.error().message);
    return false;
  }
  if (!*read) return false;  // it is no Python
  const doctor::PythonStacks& found = **read;
  bool has_own = std::any_of(found.threads.begin(), found.threads.end(), [&](const doctor::ThreadStack& each) {
    return each.tid == target.tid || each.is_main;
  });
  auto unread = found.unread.find(target.tid);
  if (!has_own || unread != found.unread.end()) {
    notes_.insert("the functions of Python are not read: " +
                  (unread != found.unread.end() ? unread->second
                                                : "neither those of the main thread nor of the one that "
                                                  "stands for the task"));
    return false;
  }
  First from{target, std::nullopt, {}};
  auto holder = static_cast<pid_t>(found.lock_holder);
  bool holds = holder != 0 && found.threads.size() > 1 &&
               (target.waiting.contains(holder) || (holder == target.tid && !target.is_busy));
  if (holds) from.target.tid = holder;
  take(from, "", found.threads);
  if (!is_again_) stacks_[target.rank].holds_lock = holds;
  return true;
}

void StackTaker::take(const First& from, const std::string& program,
                      const std::vector<doctor::ThreadStack>& threads) {
  constexpr std::size_t kMostOthers = 8;
  const Target& target = from.target;
  const doctor::ThreadStack& own = *doctor::stack_of(threads, target.tid);
  Taken& taken = stacks_[target.rank];
  if (is_again_) {
    taken.steps = doctor::steps_between(firsts_[target.rank].frames, own.frames, program);
    return;
  }
  taken.stack = doctor::comparable(own.frames, program, target.is_busy);
  if (target.is_busy) taken.place = doctor::script_place(own.frames);
  std::set<std::vector<std::string>> others;
  for (const doctor::ThreadStack& each : threads) {
    if (&each == &own || !target.waiting.contains(static_cast<pid_t>(each.tid))) continue;
    auto stack = doctor::comparable(each.frames, program);
    if (stack != taken.stack && !stack.empty() && others.size() < kMostOthers) others.insert(std::move(stack));
  }
  taken.others.assign(others.begin(), others.end());
  if (!target.was_stopped) firsts_[target.rank] = {target, from.tool, own.frames};
}

void StackTaker::note_failure(const Run& run) {
  if (run.is_late) {
    notes_.insert(fmt::format("{} took longer than {:g} s", name_of(run.tool), kMostTime.count()));
    return;
  }
  std::string why = error_shown(run.err);
  std::size_t number = why.find(std::to_string(run.target.pid));  // removed, so that equal notes of several tasks
                                                                  // become one
  if (number != std::string::npos) why.replace(number, std::to_string(run.target.pid).size(), "PID");
  std::string setting = trace_setting();
  notes_.insert(fmt::format("no stack by {}: {}{}", name_of(run.tool),
                            why.empty() ? run.process->status().str() : why,
                            setting.empty() ? "" : " (" + setting + ")"));
}

void StackTaker::let_go_on() {
  for (const Target& each : suspects_) {
    auto look = look_at(each.pid);
    if (!each.was_stopped && look && look->first().state == 'T') ::kill(each.pid, SIGCONT);
  }
}

void StackTaker::finish() {
  let_go_on();
  share_steps();
  auto done = std::exchange(done_, nullptr);
  if (done) done(stacks_, notes_);
}

// ---- trace rights -----------------------------------------------------------------------

std::string trace_setting(const std::string& scope_file) {
  auto text = read_file(scope_file);
  auto scope = text ? parse_u64(trim(*text)) : std::nullopt;
  if (!scope || *scope == 0) return "";
  return fmt::format("kernel.yama.ptrace_scope is {} there{}", *scope,
                     *scope == 1 ? "; -o doctor.trace=on allows it for a job" : "");
}

// ---- examiner ---------------------------------------------------------------------------

namespace {

constexpr std::array<std::string_view, 5> kWays = {"none", "auto", "eu-stack", "gdb", "py-spy"};  // StackWay

}  // namespace

void fields(auto& io, wire::Of<ExaminationOrder> auto& m) {
  io.may_lack("interval", m.interval, [](const JsonAt& at, double interval) -> Result<void> {
    constexpr double kLeast = ExaminationOrder::kLeastInterval, kMost = ExaminationOrder::kMostInterval;
    if (interval >= kLeast && interval <= kMost) return {};
    return at.expected(fmt::format("{} to {} seconds", kLeast, kMost));
  });
  io.may_lack("by-rank", m.by_rank);
  io.may_lack("only-silence", m.only_silence);
  io.may_lack("stacks", m.stacks, wire::Words(kWays));
}

Json ExaminationOrder::json() const { return wire::to_json(*this); }

Result<ExaminationOrder> ExaminationOrder::parse(const Json& json) {
  return wire::from_json<ExaminationOrder>(json);
}

double ExaminationOrder::most_time() const {
  double for_stacks = stacks == StackWay::none ? 0 : StackTaker::kMostInAll.count() + StackTaker::kMostTime.count();
  double most = std::max({for_stacks, FlightDumps::kMostTime.count(), NcclRasClient::kMostTime.count()});
  return interval + most + kMostAnswerTime;
}

Json json_of(const Examined& examined, std::size_t most) {
  Json out = examined.examination.json();
  Json groups = Json::array();
  std::size_t bytes = 0;
  for (const doctor::TaskGroup& each : examined.examination.groups) {
    Json group = each.json();
    group["hosts"] = doctor::hosts_of(each.ranks, examined.examination);
    bytes += dump_json(group).size();
    if (bytes > most) break;
    groups.push_back(std::move(group));
  }
  if (std::size_t left = examined.examination.groups.size() - groups.size(); left > 0)
    out["groups_left_out"] = left;
  out["groups"] = std::move(groups);
  for (const doctor::Verdict& each : examined.verdicts) out["verdicts"].push_back(each.json());
  return out;
}

Examiner* examiner_of(plugin::Host& host) {
  for (const auto& each : host.stack().plugins()) {
    if (each->name() == "doctor") return dynamic_cast<Examiner*>(each.get());
  }
  return nullptr;
}

}  // namespace nacre::plugins
