// SPDX-License-Identifier: Apache-2.0
//
// pmi: what an MPI library asks of whoever started it: ranks, keys, barriers. Each task has a socket to the shell,
// PMI_FD, and speaks PMI-1 or PMI-2 over it (see pmi/server.hpp).
//
// A task that ends after init without finalize, or by a signal in a job that uses PMI, ends the job: the others
// would wait for it for ever. With the option `fault-tolerance` they go on instead, barriers do without it, and the key
// PMI_dead_processes lists the lost in the order in which they were.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "builtins.hpp"
#include "pmi_doctor.hpp"
#include "pmi_group.hpp"
#include "pmi_options.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kDead = "PMI_dead_processes";
constexpr event::Seconds kLeaveGrace{2};

// Of whoever started this shell: a task would take them for its own.
constexpr const char* kInherited[] = {"PMI_FD",          "PMI_RANK",       "PMI_SIZE",  "PMI_SPAWNED",
                                      "PMI_ID",          "PMI_PORT",       "PMI_JOBID", "PMI_TOTALVIEW",
                                      "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

class Pmi final : public plugin::Plugin {
 public:
  explicit Pmi(plugin::Host& host) : Plugin("pmi"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return prepare(); });
    on("task.init", [this](plugin::Call&) { return group_ ? give(*host_.current_task()) : Result<void>(); });
    on("task.fork", [this](plugin::Call&) { return group_ ? connect(*host_.current_task()) : Result<void>(); });
    on("task.exit", [this](plugin::Call&) {
      if (group_) task_exited(*host_.current_task());
      return Result<void>();
    });
    on("shell.start", [this](plugin::Call&) { return doctor_ ? doctor_->tasks_started() : Result<void>(); });
    on("shell.finish", [this](plugin::Call&) {
      if (doctor_) doctor_->tasks_ended();
      if (group_) group_->close();
      timer_.reset();
      return Result<void>();
    });
  }

 private:
  Result<void> prepare() {
    options_ = TRY(PmiOptions::read(host_.options()));
    if (options_.on()) open_group();
    doctor_.emplace(host_, *this, options_, group_ ? &group_->server() : nullptr);
    return doctor_->watch_signal();
  }

  void open_group() {
    for (const char* name : kInherited) host_.environment().unset(name);
    const job::Job& job = host_.job();
    if (job.shells() > 1) {
      exchange_ = std::make_unique<pmi::BrokenExchange>(
          Error{ENOTSUP, fmt::format("PMI: this shell is one of {}, which do not know each other", job.shells())});
    } else {
      exchange_ = std::make_unique<pmi::NoExchange>();
    }
    pmi::Group group;
    group.kvsname = fmt::format("nacre_{}", job.id.value());
    group.size = static_cast<std::uint32_t>(job.tasks());
    for (const auto& task : host_.tasks()) group.ranks.push_back(task->rank());
    group.pmi1 = options_.simple;
    group.pmi2 = options_.pmi2;
    group_.emplace(host_.loop(), std::move(group), names_, *exchange_, callbacks());
    set_attributes();
  }

  // MPICH 4.0 aborts where the map is there and empty, and asserts where a line is too long for it.
  void set_attributes() {
    const job::Job& job = host_.job();
    std::string map = job.taskmap.pmi();
    if (!options_.nomap && !map.empty() && map.size() <= kMaxMap) group_->server().set_attribute(kMap, map);
    std::string taskmap = job.taskmap.str();
    if (taskmap.size() < pmi::kMaxValue) group_->server().set_attribute("flux.taskmap", taskmap);
    group_->server().set_attribute("flux.instance-level", "0");
  }

  PmiGroup::Callbacks callbacks() {
    PmiGroup::Callbacks out;
    out.on_abort = [this](const pmi::Abort& abort) { aborted(abort); };
    out.on_dropped = [this](const pmi::Dropped& dropped) {
      log(host_, *this, Level::error, "{}: {}: its connection is closed", name_of(dropped.client), dropped.why);
      lost(dropped.client);
    };
    out.on_spawn = [this](pmi::SpawnRequest&& request) {
      group_->spawned(request.client, Error{ENOTSUP, "spawn is not offered"}, {});
    };
    out.on_left = [this](std::uint32_t client) { options_.fault_tolerant ? lost(client) : await_end(client); };
    out.on_wait = [this](bool begins) { doctor_->barrier(begins); };
    out.on_barrier = [this] { return nobody_is_missing(); };
    if (host_.log().wants(Level::trace)) {
      out.on_bytes = [this](std::uint32_t client, bool to_client, std::string_view bytes) {
        while (!bytes.empty() && bytes.back() == '\n') bytes.remove_suffix(1);
        log(host_, *this, Level::trace, "{} {} {}", rank_of(client), to_client ? "<" : ">", bytes);
      };
    }
    return out;
  }

  Result<void> give(task::Task& task) {
    std::uint32_t client = task.local_id();
    UniqueFd& end = task_ends_[client] = TRY(group_->open(client));
    task::Command& command = task.command();
    int target = command.setup.unused_target();
    command.setup.fds.push_back({target, end.get()});
    auto set = [&](const char* name, std::uint64_t value) { command.env.set(name, fmt::format_int(value).str()); };
    set("PMI_FD", static_cast<std::uint64_t>(target));
    set("PMI_RANK", task.rank());
    set("PMI_SIZE", host_.job().tasks());
    set("MPI_LOCALRANKID", client);
    set("MPI_LOCALNRANKS", host_.tasks().size());
    return {};
  }

  Result<void> connect(const task::Task& task) {
    task_ends_.erase(task.local_id());
    return group_->start(task.local_id());
  }

  // ---- the end of tasks --------------------------------------------------------------------

  [[nodiscard]] std::uint32_t rank_of(std::uint32_t client) const { return group_->server().group().ranks[client]; }

  [[nodiscard]] std::string name_of(std::uint32_t client) const {
    const std::string& host = host_.job().node().hostname;
    return fmt::format("rank {}{}{}", rank_of(client), host.empty() ? "" : " on ", host);
  }

  void aborted(const pmi::Abort& abort) {
    std::string message = fmt::format("{} called PMI_Abort with code {}", name_of(abort.client), abort.exit_code);
    if (!abort.message.empty()) message += ": " + abort.message;
    host_.raise({"exec", 0, message, value::WaitStatus::exited(abort.exit_code & 0xff)});
  }

  void task_exited(const task::Task& task) {
    std::uint32_t client = task.local_id();
    task_ends_.erase(client);
    const value::WaitStatus& status = task.status();
    // What it had said may be that it joined, or has finalized.
    const pmi::Client& said = group_->server().clients()[client];
    group_->drain(client);
    bool finalized = said.stage == pmi::Stage::finalized;
    bool in_use = group_->server().in_use();
    if (!said.has_joined) absent_.emplace_back(client, status);
    if (options_.fault_tolerant) {
      if (said.has_joined ? !finalized : in_use) lost(client);
    } else if ((said.has_joined && !finalized) || (in_use && status.is_signal())) {
      end_job(client, status,
              finalized         ? "after PMI finalize"
              : said.has_joined ? "without PMI finalize"
                                : "before PMI init");
    }
    group_->end(client);
  }

  void end_job(std::uint32_t client, const value::WaitStatus& status, std::string_view when) {
    host_.raise({"exec", 0,
                 fmt::format("{} {} {}; the job ends (-o fault-tolerance lets the others go on)", name_of(client),
                             status.str(), when),
                 status.success() ? value::WaitStatus::exited(1) : status});
    ends_ = true;
  }

  // One that has closed its connection mostly ends, and how it ends is better known before the job is ended.
  void await_end(std::uint32_t client) {
    leaving_.insert(client);
    if (!timer_) {
      auto timer = event::Timer::create(host_.loop(), [this] { still_there(); });
      if (!timer) return log(host_, *this, Level::error, "{}", timer.error().message);
      timer_ = *std::move(timer);
      timer_->unref();
    }
    timer_->start(kLeaveGrace);
  }

  void still_there() {
    for (std::uint32_t client : leaving_) {
      if (host_.tasks()[client]->state() != task::State::running) continue;
      host_.raise(
          {"exec", 0,
           fmt::format("{} has closed its connection without PMI finalize; the job ends (-o fault-tolerance "
                       "lets the others go on)",
                       name_of(client)),
           value::WaitStatus::exited(1)});
      ends_ = true;
    }
  }

  // Whether a barrier may do without those that have gone.
  bool nobody_is_missing() {
    if (options_.fault_tolerant) {
      for (const auto& [client, status] : absent_) lost(client);
      return true;
    }
    if (!ends_ && !absent_.empty()) {
      const auto& [client, status] = absent_.front();
      end_job(client, status, "without PMI init, and the others wait for it in a barrier");
    }
    return !ends_ && leaving_.empty();
  }

  // Once for each; only where the others are to go on.
  void lost(std::uint32_t client) {
    std::uint32_t rank = rank_of(client);
    if (!options_.fault_tolerant || std::find(dead_.begin(), dead_.end(), rank) != dead_.end()) return;
    dead_.push_back(rank);
    std::string list = fmt::format("{}", fmt::join(dead_, ","));
    if (list.size() < pmi::kMaxValue) group_->server().set_attribute(kDead, list);
    log(host_, *this, Level::warn, "{} is lost; the others go on", name_of(client));
    if (options_.fault_signal == 0) return;
    for (const auto& task : host_.tasks()) {
      if (group_->server().clients()[task->local_id()].stage == pmi::Stage::joined)
        task->kill(options_.fault_signal);
    }
  }

  static constexpr const char* kMap = "PMI_process_mapping";
  static constexpr std::size_t kMaxMap = 672;  // what fits into the line that MPICH 4.0's get reads

  plugin::Host& host_;
  PmiOptions options_;
  pmi::Names names_;
  std::unique_ptr<pmi::Exchange> exchange_;
  std::optional<PmiGroup> group_;
  std::optional<PmiDoctor> doctor_;
  std::map<std::uint32_t, UniqueFd> task_ends_;  // by client, until it runs
  std::vector<std::uint32_t> dead_;              // ranks, in the order in which they were lost
  std::set<std::uint32_t> leaving_;              // clients that have closed their connection without finalize
  std::vector<std::pair<std::uint32_t, value::WaitStatus>> absent_;  // clients that ended without init
  std::optional<event::Timer> timer_;                                // of leaving_
  bool ends_ = false;                                                // the job, for what became of a client
};

}  // namespace

PluginPtr make_pmi(plugin::Host& host) { return std::make_unique<Pmi>(host); }

}  // namespace nacre::plugins
