// SPDX-License-Identifier: Apache-2.0
//
// pmi: serves what an MPI library requests from its launcher: ranks, keys, barriers. Each task has a socket to the
// shell, by PMI_FD or PMI_PORT, and uses PMI-1 or PMI-2 on it (see pmi/server.hpp).
//
// A task that ends after init without finalize, or by a signal in a job that uses PMI, ends the job: the others
// would wait for it for ever. With the option `fault-tolerance` they go on, barriers go on without it, and the key
// PMI_dead_processes lists the lost in their order.

#include "base/file.hpp"
#include "base/text.hpp"
#include "plugin/events.hpp"
#include "plugins/builtins.hpp"
#include "plugins/pmi/departures.hpp"
#include "plugins/pmi/doctor.hpp"
#include "plugins/pmi/group.hpp"
#include "plugins/pmi/options.hpp"
#include "plugins/pmi/spawns.hpp"
#include "plugins/pmi/start.hpp"

namespace nacre::plugins {
namespace {

// Variables of this shell's own launcher, which a task would take for its own.
constexpr const char* kInherited[] = {"PMI_FD",          "PMI_RANK",       "PMI_SIZE",  "PMI_SPAWNED",
                                      "PMI_ID",          "PMI_PORT",       "PMI_JOBID", "PMI_TOTALVIEW",
                                      "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

// A program of Flux, or a script that has started one. Flux's client refuses a server that answers with PMI 1.2
// (flux-core's simple_client.c).
bool runs_flux(pid_t pid, int depth = 0) {
  constexpr int kDeepest = 8;
  std::string name(trim(read_file(fmt::format("/proc/{}/comm", pid)).value_or("")));
  if (name == "flux" || name.starts_with("flux-")) return true;
  std::string children = read_file(fmt::format("/proc/{0}/task/{0}/children", pid)).value_or("");
  for (std::string_view each : split(children, ' ')) {
    auto child = parse_u64(trim(each));
    if (child && depth < kDeepest && runs_flux(static_cast<pid_t>(*child), depth + 1)) return true;
  }
  return false;
}

class Pmi final : public plugin::Plugin, private PmiProcesses {
 public:
  explicit Pmi(plugin::Host& host) : Plugin("pmi"), host_(host) {
    on("shell.init", [this] { return prepare(); });
    on("pmi.restart", [this](plugin::Call& call) {
      if (group_ || (spawns_ && spawns_->table().has_begun()))
        call.out[name()] = how_to_restart(call.in.value("rank", UINT32_MAX));
    });
    on("job.tasks-restart", [this](plugin::Call& call) {
      if (spawns_ && call.in.value("scope", "") == "job") await_start();
    });
    on("shell.restart", [this](plugin::Call& call) {
      if (group_ && next_ && call.in.value("all", false)) start_together();
    });
    on("task.init", [this] {
      task::Command& command = host_.current_task()->command();
      if (!needs_library() && options_.others.empty()) leave_alone(command.env, options_.pmix);
      if (spawns_) let_yield(host_, command);
      return group_ ? give(*host_.current_task()) : Result<void>();
    });
    on("task.fork", [this] { return group_ ? connect(*host_.current_task()) : Result<void>(); });
    on("task.exit", [this] {
      if (group_) exited(*host_.current_task());
    });
    on("pmi.namespace", [this](plugin::Call& call) { return name_for_pmix(call); });
    on("pmi.connected", [this](plugin::Call& call) {
      if (group_) call.out[name()] = connected().str();
    });
    serve_spawns(*this, spawns_);
    for (const char* topic : {"report.note", "doctor.note"}) {
      on(topic, [this](plugin::Call& call) {
        if (group_ && group_->server().in_use()) note(call);
      });
    }
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) {
      if (spawns_ && !lost.ends_job) lose_shell(lost.shell);
    });
    on("job.tasks-moved", [this](plugin::Call& call) {
      if (!call.in.value("all", false)) tasks_moved(call.in);
    });
    on<plugin::ShellLeft>([this](const plugin::ShellLeft& left) {
      if (spawns_) take_ranks_of(left.shell, false);
    });
    on("job.shrinking", [this](plugin::Call& call) -> Result<void> {
      auto shells = TRY(value::Idset::parse(TRY(TRY(JsonAt::root(call.in).at("shells")).string())));
      if (!shells.contains(host_.job().shell_rank)) return {};
      departures_.shell_leaves();
      if (spawns_) spawns_->shell_leaves();
      return {};
    });
    on("shell.post-init", [this] {
      warn_of_unknown(host_, *this, options_.others);
      if (doctor_) doctor_->all_listen();
    });
    on("shell.start", [this] { return doctor_ ? doctor_->tasks_started() : Result<void>(); });
    on("shell.finish", [this] {
      if (doctor_) doctor_->tasks_ended();
      if (group_) group_->close();
      if (spawns_) spawns_->tasks_ended();
    });
  }

 private:
  Result<void> prepare() {
    options_ = TRY(PmiOptions::read(host_.options()));
    has_others_ = host_.bulk() != nullptr && host_.job().shells() > 1;
    start_ = PmiStart::of_job(host_);
    quota_.limit = options_.max_size;
    parts_.emplace(host_);
    if (options_.on() && options_.port) {
      port_ = TRY(PmiPort::open(host_.loop(), options_.pmi2,
                                [this](const std::string& line) { log(host_, *this, Level::warn, "{}", line); }));
    }
    if (options_.on()) open_group();
    if (options_.on() || options_.pmix) separate_segments(host_);
    if (options_.on() || options_.pmix)
      spawns_.emplace(host_, *this, options_, names_, quota_, *parts_, port_.get()).begin(start_, has_others_);
    doctor_.emplace(host_, *this, options_, group_ ? &group_->server() : nullptr);
    return doctor_->watch();
  }

  // Whether tasks of Open MPI find each other by nacre's libpmi.so only.
  [[nodiscard]] bool needs_library() const { return options_.on() && !options_.pmix && host_.job().tasks() > 1; }

  void open_group() {
    for (const char* name : kInherited) host_.environment().unset(name);
    make_exchange();
    if (has_others_) announce_changes();
    make_group(callbacks());
    name_library(host_.environment(), options_.library);
  }

  void make_exchange() {
    const job::Job& job = host_.job();
    between_nodes_ = nullptr;
    if (!start_.takes_part) {
      exchange_ = std::make_unique<pmi::BrokenExchange>(
          Error{ENOTSUP, fmt::format("PMI: shell {} had no tasks when all have started", job.shell_rank)});
    } else if (has_others_) {
      auto exchange = std::make_unique<PmiExchange>(
          host_, options_.max_size, [this] { departures_.missed_barrier(); },
          [this](const value::Idset& missing, const value::Idset& absent) {
            return departures_.missing_elsewhere(missing) && departures_.absent_elsewhere(absent);
          },
          start_.barriers(), *parts_);
      between_nodes_ = exchange.get();
      exchange_ = std::move(exchange);
      if (start_.taskmap.ranks_on(job.shell_rank).empty()) between_nodes_->abstain({});
    } else if (host_.bulk() == nullptr && job.shells() > 1) {
      exchange_ = std::make_unique<pmi::BrokenExchange>(
          Error{ENOTSUP, fmt::format("PMI: this shell is one of {}, which do not know each other", job.shells())});
    } else {
      exchange_ = std::make_unique<pmi::NoExchange>();
    }
  }

  // Whether all tasks have to start again with a task whose process has ended.
  std::string how_to_restart(std::uint32_t rank) {
    if (spawns_->table().has_begun()) return "processes that tasks have spawned by PMI do not start again";
    const auto& ranks = group_->server().group().ranks;
    auto place = std::find(ranks.begin(), ranks.end(), rank);
    // its last message may tell that it joined
    if (place != ranks.end()) group_->drain(static_cast<std::uint32_t>(place - ranks.begin()));
    bool needs_others = group_->server().in_use() || moved_tasks_.one_has_called();
    if (needs_others && options_.fault_tolerant)
      return "tasks have called PMI init, and go on without it (fault-tolerance)";
    return needs_others ? "together" : "alone";
  }

  // All tasks are going to start again, and know nothing of the time before, so published names are dropped. Nobody
  // waits for a shell without tasks, which may be busy joining the job.
  void await_start() {
    if (!has_others_ && !host_.job().resizes.empty() && host_.bulk() != nullptr) {  // the job began with one shell
      has_others_ = true;
      if (group_) announce_changes();
    }
    next_ = PmiStart::again(host_);
    spawns_->begin(*next_, has_others_);
    if (!group_) return;
    departures_.all_start_again();
    names_.forget();
    if (next_->taskmap.ranks_on(host_.job().shell_rank).empty()) start_together();
  }

  void start_together() {
    start_ = *std::exchange(next_, std::nullopt);
    if (group_->server().barrier_begun()) doctor_->barrier(false, 0);
    departures_.forget();
    group_->close();
    moved_tasks_.forget();
    spawns_->forget(*group_);
    group_.reset();  // the group uses the exchange
    make_exchange();
    make_group(callbacks());
  }

  void make_group(PmiGroup::Callbacks callbacks) {
    pmi::ClientGroup facts = start_.group(host_, options_, quota_);
    // If an instance has started the shells, any task may be a program of Flux.
    const bool may_be_flux = host_.instance() != nullptr && host_.options().find("pmi.groups") == nullptr;
    if (options_.groups && !may_be_flux) {
      facts.takes_groups = [this](std::uint32_t client) { return !runs_flux(host_.tasks()[client]->pid()); };
    }
    group_.emplace(host_.loop(), std::move(facts), names_, *exchange_, std::move(callbacks), port_.get());
    departures_.attach(*group_);
    start_.set_attributes(group_->server(), options_);
  }

  void announce_changes() {
    departures_.when_lost([this](std::uint32_t rank) {
      Result<void> sent = host_.announce(kLost, fmt::format_int(rank).str());
      if (!sent) log(host_, *this, Level::warn, "rank {} is lost: {}", rank, sent.error().message);
    });
    announce_names(host_, *this, names_);
    announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == kLost) take_lost(bytes);
      if (topic == kNotReplaced) not_replaced(parse_u64(bytes).value_or(UINT32_MAX));
      if (topic == kMovedEnded && between_nodes_ != nullptr) take_moved_ended(bytes);
      take_announced_name(host_, *this, names_, topic, bytes);
    });
  }

  void take_lost(std::string_view bytes) {
    auto rank = parse_u64(bytes);
    if (rank && *rank < host_.job().tasks()) departures_.lost_elsewhere(static_cast<std::uint32_t>(*rank));
  }

  PmiGroup::Callbacks callbacks() {
    PmiGroup::Callbacks out = departures_.callbacks();
    out.on_spawn = [this](const pmi::SpawnRequest& request) {
      spawns_->start(*group_, request, rank_of(request.client), name_of(request.client));
    };
    out.on_full = [this](const pmi::Full& full) {
      log(host_, *this, Level::warn, "{}", text_of(full, full.client ? name_of(*full.client) : ""));
    };
    out.on_wait = [this](bool begins) {
      const bool of_all = !begins || group_->server().barrier_begun();
      if (begins && of_all) refuse_if_some_wait();
      const std::uint64_t number = between_nodes_ == nullptr ? 0 : between_nodes_->number();
      doctor_->barrier(begins, of_all ? number : kOfGroups | number << 16U | ++group_waits_);
    };
    if (host_.timeline().is_on()) {
      out.on_stage = [this](std::uint32_t client, pmi::ClientStage stage) {
        if (stage == pmi::ClientStage::joined) host_.timeline().add(timeline::Kind::pmi_init, rank_of(client));
        if (stage == pmi::ClientStage::finalized)
          host_.timeline().add(timeline::Kind::pmi_finalize, rank_of(client));
      };
    }
    if (host_.log().wants(Level::trace)) {
      out.on_bytes = [this](std::uint32_t client, bool to_client, std::string_view bytes) {
        while (!bytes.empty() && bytes.back() == '\n') bytes.remove_suffix(1);
        log(host_, *this, Level::trace, "{} {} {}", rank_of(client), to_client ? "<" : ">", bytes);
      };
    }
    return out;
  }

  // Tasks that start only when others have ended (at-most) would never enter the barrier.
  void refuse_if_some_wait() {
    if (host_.ending() || host_.options().find("at-most") == nullptr || host_.tasks().empty() ||
        host_.tasks().back()->state() != task::State::init)
      return;
    host_.raise({"exec", 0,
                 fmt::format("PMI: tasks wait for all {} of the job, and some of these start only when others have "
                             "ended: leave out --at-most, or give -o pmi=off for tasks that are on their own",
                             host_.job().tasks()),
                 std::nullopt});
  }

  Result<void> give(task::Task& task) {
    std::uint32_t client = task.local_id();
    task::Command& command = task.command();
    task_ends_[client] =
        TRY(has_moved(task) ? moved_tasks_.offer(task, port_.get()) : group_->offer(client, command));
    auto set = [&](const char* name, std::uint64_t value) { command.env.set(name, fmt::format_int(value).str()); };
    set("PMI_RANK", task.rank());
    set("PMI_SIZE", host_.job().tasks());
    set("MPI_LOCALRANKID", client);
    set("MPI_LOCALNRANKS", host_.tasks().size());
    return {};
  }

  Result<void> connect(const task::Task& task) {
    task_ends_.erase(task.local_id());
    return has_moved(task) ? moved_tasks_.watch(task) : group_->start(task.local_id());
  }

  void exited(const task::Task& task) {
    task_ends_.erase(task.local_id());
    if (has_moved(task)) return moved_task_ended(task);
    if (task.starts_again()) return starts_again(task);
    departures_.exited(task.local_id(), task.status());
    if (between_nodes_ == nullptr) return;
    auto tasks = host_.tasks().first(group_size());
    bool all = std::all_of(tasks.begin(), tasks.end(), [](const auto& each) {
      return each->state() == task::State::exited && !each->starts_again();
    });
    if (all) between_nodes_->abstain(departures_.missing_here());
  }

  void starts_again(const task::Task& task) {
    if (group_->server().in_use()) return;  // then all tasks start again
    departures_.starts_again(task.local_id());
    group_->reopen(task.local_id());
  }

  // libpmix trusts any local process that connects by TCP and knows the namespace, so nobody may guess that.
  Result<void> name_for_pmix(plugin::Call& call) {
    constexpr std::size_t kDigits = 32;  // 128 bits
    if (call.out.contains("namespace")) return {};
    std::string secret = TRY(host_.derived_secret("nacre PMIx namespace")).substr(0, kDigits);
    call.out["namespace"] = fmt::format("nacre-{}-{}", host_.job().id.decimal(), secret);
    return {};
  }

  [[nodiscard]] value::Idset connected() const {
    value::Idset out;
    const auto& clients = group_->server().clients();
    for (std::uint32_t client = 0; client < clients.size(); ++client) {
      if (clients[client].stage == pmi::ClientStage::joined) out.insert(rank_of(client));
    }
    return out;
  }

  // Notes how far a task is, or was when it ended.
  void note(plugin::Call& call) const {
    const auto& ranks = group_->server().group().ranks;
    auto rank = std::find(ranks.begin(), ranks.end(), call.in.value("rank", UINT32_MAX));
    if (rank == ranks.end()) return;
    const pmi::ClientProgress& client = group_->server().clients()[static_cast<std::size_t>(rank - ranks.begin())];
    Json& out = call.out["pmi"];
    out["by"] = client.version == 2 ? "PMI-2" : "PMI-1";
    out["state"] = client.stage == pmi::ClientStage::finalized ? "finalized"
                   : client.has_joined                         ? "connected"
                                                               : "none";
    if (client.waits || client.left_waiting) out["barrier"] = client.barriers + 1;
    if (!client.last_command.empty()) out["last"] = client.last_command;
  }

  void lose_shell(std::uint32_t shell) {
    if (options_.replaces && between_nodes_ != nullptr && !start_.taskmap.ranks_on(shell).empty())
      between_nodes_->hold(shell);
    take_ranks_of(shell, true);
  }

  // With fault-tolerance the others go on without such a task, as they could not know it again.
  void tasks_moved(const Json& call) {
    if (between_nodes_ == nullptr) return;
    auto ranks = value::Idset::parse(call.value("ranks", ""));
    if (ranks && !options_.fault_tolerant) between_nodes_->moved(*ranks);
    between_nodes_->release(call.value("from", UINT32_MAX));
  }

  void not_replaced(std::uint64_t shell) {
    if (between_nodes_ == nullptr || shell >= host_.job().shells()) return;
    const auto lost = static_cast<std::uint32_t>(shell);
    between_nodes_->moved_gone(host_.job().taskmap.ranks_on(lost));
    between_nodes_->release(lost);
  }

  // Only this shell knows how the task has ended, and all wait to know.
  void moved_task_ended(const task::Task& task) {
    moved_tasks_.drain(task.local_id());
    if (task.starts_again() || host_.ending() || !has_others_) return;
    Result<void> sent = host_.announce(kMovedEnded, fmt::format("{} {}", start_.number, task.rank()));
    if (!sent) log(host_, *this, Level::warn, "rank {} has ended: {}", task.rank(), sent.error().message);
  }

  void take_moved_ended(std::string_view bytes) {
    const auto words = split(bytes, ' ');
    if (words.size() != 2 || parse_u64(words[0]) != start_.number) return;
    if (auto rank = parse_u64(words[1]); rank && *rank < UINT32_MAX)
      between_nodes_->moved_ended(static_cast<std::uint32_t>(*rank));
  }

  void take_ranks_of(std::uint32_t shell, bool is_lost) {
    const job::Job& job = host_.job();
    if (shell >= job.shells()) return;
    spawns_->shell_gone(shell, is_lost);
    if (!group_) return;
    if (!is_lost) not_replaced(shell);
    if (between_nodes_ != nullptr) between_nodes_->shell_gone(shell);
    for (std::uint32_t rank : job.taskmap.ranks_on(shell).ids()) departures_.lost_with_shell(rank);
  }

  // ---- the tasks as processes of the group ----------------------------------------------------

  [[nodiscard]] std::size_t group_size() const { return group_->server().group().ranks.size(); }

  [[nodiscard]] bool has_moved(const task::Task& task) const { return task.local_id() >= group_size(); }

  [[nodiscard]] std::uint32_t rank_of(std::uint32_t client) const { return group_->server().group().ranks[client]; }

  [[nodiscard]] std::string name_of(std::uint32_t client) const override {
    return fmt::format("rank {}{}", rank_of(client), host_.job().node().on());
  }

  [[nodiscard]] std::optional<std::uint32_t> task_of(std::uint32_t client) const override {
    return rank_of(client);
  }

  [[nodiscard]] bool runs(std::uint32_t client) const override {
    return host_.tasks()[client]->state() == task::State::running;
  }

  void kill(std::uint32_t client, int signum) override { host_.tasks()[client]->kill(signum); }

  // Announcements: a rank, in decimal; the start of the tasks and a rank; from the core, a shell.
  static constexpr std::string_view kLost = "pmi.lost";
  static constexpr std::string_view kMovedEnded = "pmi.moved-ended";
  static constexpr std::string_view kNotReplaced = "shell.not-replaced";
  static constexpr std::uint64_t kOfGroups = std::uint64_t{1} << 63U;  // in the number of a barrier that hangs

  plugin::Host& host_;
  PmiOptions options_;
  PmiStart start_;                // the last one
  std::optional<PmiStart> next_;  // all tasks are going to start again
  pmi::Names names_;
  pmi::Quota quota_;
  std::optional<PmiGroupParts> parts_;
  std::unique_ptr<PmiPort> port_;
  std::unique_ptr<pmi::KeyExchange> exchange_;
  bool has_others_ = false;               // at the job's start, or since a resize; otherwise all tasks stay here
  PmiExchange* between_nodes_ = nullptr;  // the same, if it is a PmiExchange
  std::optional<PmiGroup> group_;
  std::optional<PmiDoctor> doctor_;
  PmiDepartures departures_{host_, *this, options_, *this};
  std::optional<PmiSpawns> spawns_;
  std::uint64_t group_waits_ = 0;
  std::map<std::uint32_t, UniqueFd> task_ends_;  // by client, until it runs
  PmiMovedTasks moved_tasks_{host_, *this, options_};
  plugin::Registration announcements_;
};

}  // namespace

PluginPtr make_pmi(plugin::Host& host) { return std::make_unique<Pmi>(host); }

}  // namespace nacre::plugins
