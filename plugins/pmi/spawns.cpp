// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawns.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/text.hpp"
#include "job/options.hpp"
#include "plugins/pmi/departures.hpp"
#include "plugins/pmi/group.hpp"
#include "plugins/pmi/spawn_order.hpp"
#include "plugins/pmi/start.hpp"

namespace nacre::plugins {

// ---- spawned group ----------------------------------------------------------------------
//
// A process group that a client of PMI has spawned: its server, and its processes on this node. Each other node
// with processes of the group has its own object for them.

namespace {

// The shells with processes of the group are the nodes, in the order of their first ranks.
value::Taskmap map_of_places(const std::vector<std::uint32_t>& places) {
  std::map<std::uint32_t, std::uint32_t> nodes;
  std::vector<std::uint32_t> node_of;
  for (std::uint32_t shell : places) {
    auto next = static_cast<std::uint32_t>(nodes.size());
    node_of.push_back(nodes.try_emplace(shell, next).first->second);
  }
  return value::Taskmap::of(node_of);
}

}  // namespace

class SpawnedGroup final : public SpawnedPart, public PmiProcesses {
 public:
  struct Origin {
    std::string kvsname;   // of this group
    std::string spawner;   // of the requesting client's group
    std::uint64_t number;  // counted from 1
    std::uint32_t task;    // the rank of the task that their output is shown as
    std::optional<std::uint32_t> universe_size;
    pmi::Quota* quota;                  // the job's
    std::vector<std::uint32_t> places;  // by rank: its shell
    task::ChildSetup setup;             // a task's, for a shell that has none
    PmiExchange::Barriers barriers;     // if other shells have processes of the group
    PmiGroupParts* parts;
    PmiPort* port;  // where they connect; null: they get a descriptor
  };
  struct Callbacks {
    std::function<void(SpawnedGroup&, const pmi::SpawnRequest&)> on_spawn;
    std::function<void(std::uint32_t rank)> on_lost;  // a process of this node is lost; set if other shells have
                                                      // some
    // All processes of this node have ended. The callback may destroy this object.
    std::function<void()> on_over;
  };

  // All of them have to outlive this object.
  SpawnedGroup(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
               const pmi::Spawn& spawn, Origin origin, Callbacks on)
      : host_(host),
        plugin_(plugin),
        origin_(std::move(origin)),
        callbacks_(std::move(on)),
        departures_(host, plugin, options, *this),
        exchange_(make_exchange(options.max_size)),
        group_(host.loop(), members(spawn, options), names, *exchange_, callbacks(), origin_.port),
        processes_(host, origin_.task, origin_.setup,
                   {[this](std::uint32_t client) { exited(client); }, [this] { finish(); }}) {
    departures_.attach(group_);
    for (const auto& [key, value] : spawn.preput) group_.server().set_attribute(key, value);
    set_process_map(group_.server(), map_of_places(origin_.places), options);
    set_universe(group_.server(), origin_.universe_size);
    if (between_nodes_ != nullptr) departures_.when_lost(callbacks_.on_lost);
  }

  Result<void> start(const pmi::Spawn& spawn) override {
    for (std::uint32_t program : group_.server().group().appnums) CHECK_OK(start_one(spawn.programs[program]));
    return {};
  }

  void cancel() override {
    cancelled_ = true;
    departures_.shell_leaves();
    signal(SIGKILL);
    if (running() == 0) finish();
  }

  void signal(int signum) override {
    for (std::uint32_t client = 0; client < processes_.size(); ++client) kill(client, signum);
  }

  [[nodiscard]] PmiGroup& own_group() { return group_; }
  [[nodiscard]] const PmiGroup* group() const override { return &group_; }
  [[nodiscard]] std::uint32_t output_task() const override { return origin_.task; }
  [[nodiscard]] std::uint32_t running() const override { return processes_.running(); }
  [[nodiscard]] std::vector<SpawnedProcess> that_run() const override {
    return processes_.that_run(group_.server().group().ranks);
  }
  [[nodiscard]] bool over() const override {
    return is_over_ && (between_nodes_ == nullptr || between_nodes_->over());
  }

  [[nodiscard]] bool is_connected() const override {
    const auto& clients = group_.server().clients();
    return std::any_of(clients.begin(), clients.end(),
                       [](const auto& each) { return each.stage == pmi::ClientStage::joined; });
  }

  void shell_leaves() override { departures_.shell_leaves(); }
  void lost_elsewhere(std::uint32_t rank) override { departures_.lost_elsewhere(rank); }
  void lost_with_shell(std::uint32_t rank) override { departures_.lost_with_shell(rank); }
  void shell_gone(std::uint32_t shell) override {
    if (between_nodes_ != nullptr) between_nodes_->shell_gone(shell);
  }

  [[nodiscard]] std::string name_of(std::uint32_t client) const override {
    return fmt::format("rank {} of spawn {}{}", group_.server().group().ranks[client], origin_.number,
                       host_.job().node().on());
  }

  [[nodiscard]] std::optional<std::uint32_t> task_of(std::uint32_t /*client*/) const override { return {}; }
  [[nodiscard]] bool runs(std::uint32_t client) const override { return processes_.runs(client); }

  void kill(std::uint32_t client, int signum) override {
    Result<void> sent = processes_.kill(client, signum);
    if (!sent) log(host_, plugin_, Level::debug, "{}: {}", name_of(client), sent.error().message);
  }

 private:
  [[nodiscard]] std::unique_ptr<pmi::KeyExchange> make_exchange(std::uint64_t most) {
    const std::uint32_t own = host_.job().shell_rank;
    const auto& places = origin_.places;
    bool all_here = std::all_of(places.begin(), places.end(), [&](std::uint32_t shell) { return shell == own; });
    if (all_here) return std::make_unique<pmi::NoExchange>();
    auto out = std::make_unique<PmiExchange>(
        host_, most, [this] { departures_.missed_barrier(); },
        [this](const value::Idset& missing, const value::Idset&) { return departures_.missing_elsewhere(missing); },
        origin_.barriers, *origin_.parts);
    between_nodes_ = out.get();
    return out;
  }

  [[nodiscard]] pmi::ClientGroup members(const pmi::Spawn& spawn, const PmiOptions& options) const {
    pmi::ClientGroup out;
    out.kvsname = origin_.kvsname;
    out.spawner = origin_.spawner;
    out.size = spawn.processes();
    out.universe_size = origin_.universe_size;
    out.quota = origin_.quota;
    out.pmi1 = options.simple;
    out.pmi2 = options.pmi2;
    if (options.groups) out.takes_groups = [](std::uint32_t) { return true; };
    for (std::uint32_t rank : ranks_placed_on(origin_.places, host_.job().shell_rank).ids()) {
      out.ranks.push_back(rank);
      out.appnums.push_back(spawn.program_of(rank));
    }
    return out;
  }

  PmiGroup::Callbacks callbacks() {
    PmiGroup::Callbacks out = departures_.callbacks();
    out.on_spawn = [this](const pmi::SpawnRequest& request) { callbacks_.on_spawn(*this, request); };
    out.on_full = [this](const pmi::Full& full) {
      log(host_, plugin_, Level::warn, "{}", text_of(full, full.client ? name_of(*full.client) : ""));
    };
    out.on_wait = [](bool) {};
    return out;
  }

  // ---- the start -----------------------------------------------------------------------

  Result<void> start_one(const pmi::SpawnProgram& program) {
    const std::uint32_t client = processes_.size();
    Result<UniqueFd> end = UniqueFd();
    CHECK_OK(processes_.start(program, [&](task::Command& command) {
      end = group_.offer(client, command);
      auto set = [&](const char* name, std::uint64_t value) {
        command.env.set(name, fmt::format_int(value).str());
      };
      set("PMI_RANK", group_.server().group().ranks[client]);
      set("PMI_SIZE", group_.server().group().size);
      set("PMI_SPAWNED", 1);
      set("MPI_LOCALRANKID", client);
      set("MPI_LOCALNRANKS", group_.server().group().ranks.size());
    }));
    TRY(std::move(end));
    return group_.start(client);
  }

  // ---- the processes -------------------------------------------------------------------

  void exited(std::uint32_t client) {
    if (cancelled_) return;
    const value::WaitStatus& status = processes_.status(client);
    departures_.exited(client, status);
    const pmi::ClientProgress& last = group_.server().clients()[client];
    bool lost = last.has_joined && last.stage != pmi::ClientStage::finalized;
    if (!lost && !status.success() && !host_.ending()) {
      log(host_, plugin_, Level::warn, "{} {}", name_of(client), status.str());
    }
  }

  void finish() {
    if (std::exchange(is_over_, true)) return;
    if (between_nodes_ != nullptr)
      between_nodes_->abstain(cancelled_ ? value::Idset() : departures_.missing_here());
    callbacks_.on_over();
  }

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  Origin origin_;
  Callbacks callbacks_;
  PmiDepartures departures_;
  PmiExchange* between_nodes_ = nullptr;  // the next, if other shells have processes of the group
  std::unique_ptr<pmi::KeyExchange> exchange_;
  PmiGroup group_;
  SpawnedProcesses processes_;  // by client
  bool cancelled_ = false;
  bool is_over_ = false;  // on_over was called
};

// ---- spawns -----------------------------------------------------------------------------

namespace {

constexpr const char* kSpawnHold = "pmi-spawn";

// From the leader: all tasks have ended.
constexpr std::string_view kSpawnTasksOver = "pmi.tasks-over";

PmiExchange::Barriers barriers_of(const SpawnRound& round) {
  return {round.name(), round.last, round.order.start,
          [places = round.places](std::uint32_t shell) { return ranks_placed_on(places, shell); }};
}

bool has_several(const std::vector<std::uint32_t>& places) {
  return std::any_of(places.begin(), places.end(), [&](std::uint32_t shell) { return shell != places.front(); });
}

}  // namespace

PmiSpawns::PmiSpawns(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
                     pmi::Quota& quota, PmiGroupParts& parts, PmiPort* port)
    : host_(host),
      plugin_(plugin),
      options_(options),
      names_(names),
      quota_(quota),
      parts_(parts),
      port_(port),
      rounds_(host, {[this] { return room(); }, [this](const SpawnRound& round) { return start_part(round); },
                     [this](const SpawnRound& round, const Result<void>& outcome) { settled(round, outcome); }}),
      table_(host, plugin, options, [this](const PmiGroup& group) { forget(group); }) {}

// Processes that still run are not waited for.
PmiSpawns::~PmiSpawns() {
  tasks_ended_ = false;  // so that nobody is told that they are over
  for (SpawnTable::Entry& entry : table_) release(entry);
  if (gave_room_) release_hold();
  // this plugin is replaced
  if (host_.job().leads() && !host_.ending()) all_tasks_ended();
  stop_waiting();
}

void PmiSpawns::begin(const PmiStart& start, bool several) {
  start_ = start;
  several_ = several && start.takes_part;
  rounds_.begin(start, several_);
  if (several && !announcements_.active()) {
    announcements_ =
        host_.on_announcement([this](std::string_view topic, std::string_view bytes) { announced(topic, bytes); });
    wait_if_idle();
  }
}

// A spare stays until all tasks have ended. Other shells without tasks wait for that here, as programs that start
// with few tasks count on them; the leader waits anyway.
void PmiSpawns::wait_if_idle() {
  const std::uint32_t own = host_.job().shell_rank;
  is_idle_ = several_ && has_no_tasks(own);
  if (!is_idle_ || own == 0) return;
  idle_waits_ = true;
  host_.hold(kSpawnHold);
  take_signals();
}

bool PmiSpawns::has_no_tasks(std::uint32_t shell) const {
  const job::Job& job = host_.job();
  return shell < job.nodes() && job.taskmap.tasks_on(shell) == 0 && !job.is_spare(shell);
}

void PmiSpawns::all_tasks_ended() {
  bool some_wait = false;
  for (std::uint32_t shell = 1; shell <= start_.last; ++shell) some_wait = some_wait || has_no_tasks(shell);
  if (!some_wait || !several_ || std::exchange(told_end_, true)) return;
  Result<void> sent = host_.announce(kSpawnTasksOver, "");
  if (!sent) log(host_, plugin_, Level::debug, "{}: {}", kSpawnTasksOver, sent.error().message);
}

void PmiSpawns::stop_waiting() {
  is_idle_ = false;
  if (std::exchange(idle_waits_, false)) release_hold();
}

// ---- a request of this shell -------------------------------------------------------------------

void PmiSpawns::start(PmiGroup& spawner, const pmi::SpawnRequest& request, std::uint32_t task,
                      const std::string& name) {
  const pmi::Spawn& spawn = request.spawn;
  Asked asked{&spawner, request.client, name, spawn.processes(),
              spawn.programs.empty() ? "" : spawn.programs.front().argv.front()};
  SpawnOrder order;
  order.task = task;
  order.spawner = spawner.server().group().kvsname;
  order.spawn = spawn;
  perform(std::move(order), asked);
}

void PmiSpawns::start(PmixRequest request) {
  Asked asked;
  asked.client = request.number;
  perform(std::move(request.order), asked);
}

void PmiSpawns::perform(SpawnOrder order, const Asked& asked) {
  if (host_.ending()) return answer(asked, Error{ECANCELED, "the job is being ended"});
  if (order.spawn.processes() == 0) return answer(asked, invalid("expected one process or more"));
  order.start = start_.number;
  order.shell = host_.job().shell_rank;
  order.request = ++requests_;
  if (!host_.tasks().empty()) copy_common_setup(host_.tasks().front()->command().setup, order.setup);
  if (!several_) return answer(asked, start_alone(std::move(order)));
  const std::uint64_t number = order.request;
  asked_.emplace(number, asked);  // the request may be answered before the next call returns
  Result<void> sent = rounds_.announce(std::move(order));
  if (sent) return;
  asked_.erase(number);
  answer(asked, std::move(sent).error());
}

void PmiSpawns::answer(const Asked& asked, const Result<SpawnRound>& round) {
  if (asked.spawner == nullptr) {
    return notify_settled(host_, round ? round->order.start : start_.number, round ? round->number : 0,
                          asked.client, round ? Result<void>() : Result<void>(round.error()));
  }
  if (!round) {
    log(host_, plugin_, Level::error, "{}: spawn of {}: {}", asked.name, asked.program, round.error().message);
    return asked.spawner->spawned(static_cast<std::uint32_t>(asked.client), round.error(), {});
  }
  const std::string kvsname = kvsname_of(*round);
  log(host_, plugin_, Level::debug, "{} has spawned {} processes: {}", asked.name, asked.processes, kvsname);
  asked.spawner->spawned(static_cast<std::uint32_t>(asked.client), kvsname, std::vector<int>(asked.processes));
}

void PmiSpawns::forget(const PmiGroup& spawner) {
  std::erase_if(asked_, [&](const auto& each) { return each.second.spawner == &spawner; });
}

// Returns the new group's kvsname, which is unique among the groups of the job.
std::string PmiSpawns::kvsname_of(const SpawnRound& round) const {
  std::string out = fmt::format("{}_{}_{}", host_.job().f58(), round.order.shell, round.number);
  return round.order.start > 1 ? fmt::format("{}_{}", out, round.order.start) : out;
}

Result<SpawnRound> PmiSpawns::start_alone(SpawnOrder order) {
  const std::uint32_t own = order.shell;
  auto places = TRY(place_spawn(order.spawn, {{own, host_.job().node().hostname, order.spawn.processes()}}, own));
  auto universe = universe_of_spawn(places, {{own, host_.job().node().hostname, free_here()}});
  SpawnRound round{std::move(order), ++count_, own, std::move(places), universe};
  Result<void> started = start_part(round);
  settle(*table_.find(round.order.start, round.number), round, started);
  if (!started) return std::move(started).error();
  return round;
}

// ---- the processes of a spawn --------------------------------------------------------------------

SpawnTable::Entry& PmiSpawns::make_entry(const SpawnRound& round) {
  auto place = table_.add(round);
  if (round.has(host_.job().shell_rank)) {
    place->here = make_part(round, place);
  } else if (!round.order.by_pmix() && has_several(round.places)) {
    place->bystands = std::make_unique<PmiExchange>(
        host_, options_.max_size, [] {}, [](const auto&, const auto&) { return true; }, barriers_of(round), parts_);
    place->bystands->abstain({});
  }
  return *place;
}

std::unique_ptr<SpawnedPart> PmiSpawns::make_part(const SpawnRound& round, SpawnTable::Place place) {
  if (round.order.by_pmix())
    return std::make_unique<PmixPart>(host_, plugin_, round, [this, place] { part_over(place); });
  SpawnedGroup::Callbacks on;
  on.on_spawn = [this](SpawnedGroup& group, const pmi::SpawnRequest& request) {
    start(group.own_group(), request, group.output_task(), group.name_of(request.client));
  };
  on.on_lost = [this, place](std::uint32_t rank) { table_.announce_lost(*place, rank); };
  on.on_over = [this, place] { part_over(place); };
  return std::make_unique<SpawnedGroup>(
      host_, plugin_, options_, names_, round.order.spawn,
      SpawnedGroup::Origin{kvsname_of(round), round.order.spawner, round.number, round.order.task, round.universe,
                           &quota_, round.places, round.order.setup, barriers_of(round), &parts_, port_},
      std::move(on));
}

// Starts the processes that this shell has.
Result<void> PmiSpawns::start_part(const SpawnRound& round) {
  if (round.order.start != start_.number) return Error{ECANCELED, "all tasks of the job start again"};
  table_.drop_those_over();
  SpawnTable::Entry& entry = make_entry(round);
  if (!entry.here && round.order.by_pmix()) TRY(notify_begin(host_, round));
  if (!entry.here) return {};
  take_signals();
  hold(entry);
  if (host_.ending()) return Error{ECANCELED, "the job is being ended"};
  return entry.here->start(round.order.spawn);
}

// The job waits until it is known what the room is for. After the tasks of this shell have ended, only spawned
// processes make it wait.
std::optional<std::uint32_t> PmiSpawns::room() {
  if (host_.ending() || shell_leaves_ || (tasks_ended_ && table_.running() == 0 && !is_idle_)) return std::nullopt;
  host_.hold(kSpawnHold);
  gave_room_ = true;
  return free_here();
}

std::uint32_t PmiSpawns::free_here() const {
  auto tasks = std::count_if(host_.tasks().begin(), host_.tasks().end(),
                             [](const auto& each) { return each->state() != task::State::exited; });
  const auto all =
      static_cast<std::uint32_t>(host_.job().node().all_cores().size() / host_.job().spec.cores_per_slot);
  return all - std::min(all, static_cast<std::uint32_t>(tasks) + table_.running());
}

void PmiSpawns::settled(const SpawnRound& round, const Result<void>& outcome) {
  if (SpawnTable::Entry* entry = table_.find(round.order.start, round.number)) settle(*entry, round, outcome);
  if (std::exchange(gave_room_, false)) release_hold();
  if (round.order.shell != host_.job().shell_rank) return;
  auto asked = asked_.extract(round.order.request);
  if (!asked) return;
  answer(asked.mapped(), outcome ? Result<SpawnRound>(round) : outcome.error());
}

void PmiSpawns::settle(SpawnTable::Entry& entry, const SpawnRound& round, const Result<void>& outcome) {
  entry.is_settled = true;
  if (round.order.by_pmix()) notify_settled(host_, round.order.start, round.number, std::nullopt, outcome);
  table_.settled(entry, outcome.has_value());
}

// ---- what other shells tell ------------------------------------------------------------------------

void PmiSpawns::announced(std::string_view topic, std::string_view bytes) {
  if (topic == SpawnRounds::kTopic) return rounds_.announced(bytes);
  if (topic == kSpawnTasksOver) return stop_waiting();
  table_.announced(topic, bytes);
}

void PmiSpawns::shell_leaves() {
  shell_leaves_ = true;
  stop_waiting();
  table_.shell_leaves();
}

// ---- the end -----------------------------------------------------------------------------------------

void PmiSpawns::take_signals() {
  if (!signals_.active()) signals_ = host_.signal_also([this](int signum) { signal(signum); });
}

void PmiSpawns::signal(int signum) {
  if (host_.ending()) stop_waiting();
  table_.signal(signum);
}

void PmiSpawns::part_over(SpawnTable::Place place) {
  release(*place);
  table_.ended_here(place, several_);
}

void PmiSpawns::hold(SpawnTable::Entry& entry) {
  entry.is_held = true;
  host_.hold(kSpawnHold);
}

void PmiSpawns::release(SpawnTable::Entry& entry) {
  if (std::exchange(entry.is_held, false)) release_hold();
}

void PmiSpawns::release_hold() {
  Result<void> released = host_.release(kSpawnHold);
  if (!released) log(host_, plugin_, Level::error, "{}", released.error().message);
  if (tasks_ended_ && !has_some()) notify_over(host_);
}

// ---- spawn table ------------------------------------------------------------------------

namespace {

// Announcements about a spawn: the start of the tasks, the spawn's number in it, and a lost rank of it, or a shell
// whose processes of it have all ended.
constexpr std::string_view kSpawnLost = "pmi.spawn-lost";
constexpr std::string_view kSpawnEnded = "pmi.spawn-ended";

}  // namespace

SpawnTable::Place SpawnTable::add(const SpawnRound& round) {
  auto place = entries_.emplace(entries_.end());
  place->start = round.order.start;
  place->number = round.number;
  place->places = round.places;
  return place;
}

SpawnTable::Entry* SpawnTable::find(std::uint64_t start, std::uint64_t number) {
  auto found = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& each) { return each.start == start && each.number == number; });
  return found == entries_.end() ? nullptr : &*found;
}

SpawnTable::Place SpawnTable::drop(Place place) {
  if (place->here && place->here->group() != nullptr) before_drop_(*place->here->group());
  return entries_.erase(place);
}

// A spawn stays as long as others may wait for this shell in its barriers, or the loss of a shell may matter.
void SpawnTable::drop_those_over() {
  auto is_over = [this](const Entry& entry) {
    if (entry.here) return entry.here->over();
    if (entry.bystands) return entry.bystands->over();
    return std::all_of(entry.places.begin(), entry.places.end(),
                       [&](std::uint32_t shell) { return entry.ended.contains(shell) || !is_missed(shell); });
  };
  for (auto place = entries_.begin(); place != entries_.end();) place = is_over(*place) ? drop(place) : ++place;
}

// ---- what becomes of them ----------------------------------------------------------------------

void SpawnTable::settled(Entry& entry, bool all_started) {
  if (!all_started) {
    if (entry.here) entry.here->cancel();
    return;
  }
  has_settled_ = true;
  for (std::uint32_t shell : std::set<std::uint32_t>(entry.places.begin(), entry.places.end())) {
    if (gone_.contains(shell)) lose(entry, shell, lost_.contains(shell));
  }
}

void SpawnTable::ended_here(Place place, bool several) {
  const std::uint32_t own = host_.job().shell_rank;
  if (several && is_missed(own)) announce(kSpawnEnded, *place, own);
  place->ended.insert(own);
  if (place->here->over()) drop(place);
}

void SpawnTable::announce_lost(const Entry& entry, std::uint32_t rank) { announce(kSpawnLost, entry, rank); }

void SpawnTable::announce(std::string_view topic, const Entry& entry, std::uint32_t what) {
  Result<void> sent = host_.announce(topic, fmt::format("{} {} {}", entry.start, entry.number, what));
  if (!sent) log(host_, plugin_, Level::warn, "{}: {}", topic, sent.error().message);
}

void SpawnTable::announced(std::string_view topic, std::string_view bytes) {
  if (topic != kSpawnLost && topic != kSpawnEnded) return;
  auto parts = split(bytes, ' ');
  if (parts.size() != 3) return;
  auto start = parse_u64(parts[0]), number = parse_u64(parts[1]), what = parse_u64(parts[2]);
  if (!start || !number || !what) return;
  Entry* entry = find(*start, *number);
  if (entry == nullptr) return;
  if (topic == kSpawnEnded) {
    entry->ended.insert(static_cast<std::uint32_t>(*what));
  } else if (entry->here && *what < entry->places.size()) {
    entry->here->lost_elsewhere(static_cast<std::uint32_t>(*what));
  }
}

void SpawnTable::signal(int signum) {
  for (const Entry& entry : entries_) {
    if (entry.here) entry.here->signal(signum);
  }
}

void SpawnTable::shell_leaves() {
  for (Entry& entry : entries_) {
    if (entry.here) entry.here->shell_leaves();
  }
}

void SpawnTable::shell_gone(std::uint32_t shell, bool is_lost) {
  gone_.insert(shell);
  if (is_lost) lost_.insert(shell);
  for (Entry& entry : entries_) {
    if (entry.is_settled) lose(entry, shell, is_lost);
  }
}

// The processes of a shell that is lost while the job goes on are lost one by one, like tasks. The leader ends the
// job if such a loss ends it.
void SpawnTable::lose(Entry& entry, std::uint32_t shell, bool is_lost) {
  if (entry.ended.contains(shell)) return;
  const value::Idset ranks = ranks_placed_on(entry.places, shell);
  if (ranks.empty()) return;
  entry.ended.insert(shell);
  if (entry.here) {
    for (std::uint32_t rank : ranks.ids()) entry.here->lost_with_shell(rank);
    entry.here->shell_gone(shell);
  }
  if (!is_lost || !is_missed(shell) || !host_.job().leads()) return;
  host_.raise(
      {"exec", 0,
       fmt::format("rank {} of spawn {}{} is lost with its shell; the job ends (-o fault-tolerance lets the "
                   "others go on)",
                   ranks.short_str(), entry.number, host_.job().resources.nodes[shell].on()),
       value::WaitStatus::exited(1)});
}

// Whether the job would go on without the shell if there were no spawned processes on it.
bool SpawnTable::is_missed(std::uint32_t shell) const {
  auto on_lost = job::OnLost::read(host_.options());
  if (options_.fault_tolerant || !on_lost || on_lost->goes_on) return false;
  return on_lost->replaces || host_.job().is_spare(shell);
}

// ---- what there is -----------------------------------------------------------------------------

std::uint32_t SpawnTable::running() const {
  std::uint32_t out = 0;
  for (const Entry& entry : entries_) out += entry.here ? entry.here->running() : 0;
  return out;
}

void SpawnTable::each_process(const TakeProcess& take) const {
  for (const Entry& entry : entries_) {
    if (!entry.here) continue;
    for (const SpawnedProcess& each : entry.here->that_run()) take(entry.number, entry.here->output_task(), each);
  }
}

bool SpawnTable::has_begun() const {
  return has_settled_ ||
         std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return !entry.is_settled; });
}

bool SpawnTable::is_connected() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.here && entry.here->is_connected(); });
}

// ---- spawned processes ------------------------------------------------------------------

namespace {

// Of the keys of MPI_Comm_spawn only "path" and "wdir" have an effect here, as it is decided already where it runs.
// "path": directories that are searched before PATH for a program without a slash.
std::string executable_of(const pmi::SpawnProgram& program) {
  const std::string& name = program.argv.front();
  const std::string* path = program.find_info("path");
  if (path == nullptr || name.find('/') != std::string::npos) return name;
  for (std::string_view directory : split(*path, ':')) {
    std::string file = fmt::format("{}/{}", directory, name);
    if (!directory.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return name;
}

}  // namespace

// Opens stdout and stderr. If no plugin answers they are the shell's own.
Result<std::pair<UniqueFd, UniqueFd>> SpawnedProcesses::open_output() {
  plugin::Call call("output.open");
  call.in["rank"] = task_;
  TRY(host_.stack().call(call));
  auto end = [&](const char* stream, int own) {
    return UniqueFd(call.out.contains(stream) ? call.out[stream].get<int>() : ::fcntl(own, F_DUPFD_CLOEXEC, 0));
  };
  return std::pair(end("stdout", STDOUT_FILENO), end("stderr", STDERR_FILENO));
}

Result<void> SpawnedProcesses::start(const pmi::SpawnProgram& program,
                                     const std::function<void(task::Command&)>& complete) {
  const Index index = size();
  auto [out, err] = TRY(open_output());
  task::Command command{program.argv, job::Environment::over(host_.environment()), {}};
  command.argv.front() = executable_of(program);
  if (const std::string* directory = program.find_info("wdir")) command.setup.cwd = *directory;
  // The process has a task's limits, but not its cpus, which belong to one task only.
  copy_common_setup(host_.tasks().empty() ? setup_ : host_.tasks().front()->command().setup, command.setup);
  command.setup.ends_with_parent = true;
  command.setup.fds = {{STDOUT_FILENO, out.get()}, {STDERR_FILENO, err.get()}};
  complete(command);
  if (!host_.tasks().empty()) {
    if (const auto& container = host_.tasks().front()->command().setup.container) task::enter(command, *container);
  }
  task::Subprocess::Callbacks on;
  on.on_exit = [this, index] {
    --running_;
    callbacks_.on_exit(index);
  };
  on.on_complete = [this] {
    if (running_ > 0) return;
    auto none_runs = callbacks_.on_none_runs;
    none_runs();
  };
  auto started =
      task::Subprocess::start(host_.loop(), host_.children(), std::move(command), {.streams = {}}, std::move(on));
  if (!started) return std::move(started).error().error;
  processes_.push_back(*std::move(started));
  ++running_;
  return {};
}

std::vector<SpawnedProcess> SpawnedProcesses::that_run(const std::vector<std::uint32_t>& ranks) const {
  std::vector<SpawnedProcess> out;
  for (Index index = 0; index < size(); ++index) {
    if (runs(index)) out.push_back({ranks[index], pid(index)});
  }
  return out;
}

Result<void> SpawnedProcesses::kill(Index index, int signum) {
  return runs(index) ? processes_[index]->kill(signum) : Result<void>();
}

// ---- spawn topics -----------------------------------------------------------------------

void serve_spawns(plugin::Plugin& plugin, std::optional<PmiSpawns>& spawns) {
  plugin.on("pmi.spawned", [&plugin, &spawns](plugin::Call& call) {
    if (spawns && spawns->table().is_connected()) call.out[plugin.name()] = true;
  });
  plugin.on("pmi.processes", [&spawns](plugin::Call& call) {
    Json out = Json::array();
    auto take = [&out](std::uint64_t spawn, std::uint32_t task, const SpawnedProcess& process) {
      out.push_back({{"spawn", spawn}, {"rank", process.rank}, {"task", task}, {"pid", process.pid}});
    };
    if (spawns) spawns->table().each_process(take);
    if (!out.empty()) call.out["processes"] = std::move(out);
  });
  plugin.on("shell.tasks-complete", [&spawns] {
    if (spawns) spawns->all_tasks_ended();
  });
  plugin.on("pmi.spawn", [&spawns](plugin::Call& call) -> Result<void> {
    if (!spawns) return {};
    PmixRequest request = TRY(PmixRequest::read(call.in));
    call.out["taken"] = true;
    spawns->start(std::move(request));
    return {};
  });
  plugin.on("pmi.spawning", [&spawns](plugin::Call& call) {
    if (!spawns) return Result<void>();
    call.out["takes_part"] = spawns->takes_part();
    call.out["goes_on"] = spawns->has_some();
    if (auto size = spawns->universe_size()) call.out["universe_size"] = *size;
    return Result<void>();
  });
}

// ---- pmix part --------------------------------------------------------------------------

namespace {

constexpr std::string_view kVariable = "env";  // info key of a program: NAME=VALUE

Result<pmi::SpawnProgram> read_spawn_program(const JsonAt& in) {
  pmi::SpawnProgram out;
  out.processes = static_cast<std::uint32_t>(TRY(TRY(in.at("processes")).integer(1, pmi::kMaxSpawned)));
  for (const JsonAt& each : TRY(TRY(in.at("argv")).elements())) out.argv.push_back(TRY(each.string()));
  if (out.argv.empty()) return in.expected("a program");
  for (const JsonAt& each : TRY(TRY(in.at("env")).elements())) out.info.emplace_back(kVariable, TRY(each.string()));
  for (const char* key : {"wdir", "host"}) {
    if (auto value = TRY(in.find(key))) out.info.emplace_back(key, TRY(value->string()));
  }
  return out;
}

// The answer of the plugin, under its name.
Result<SpawnEnvironments> read_environments(const JsonAt& answer, std::size_t processes) {
  if (auto error = TRY(answer.find("error"))) return invalid(TRY(error->string()));
  SpawnEnvironments out;
  for (const JsonAt& each : TRY(TRY(answer.at("environments")).elements())) {
    auto& variables = out.emplace_back();
    for (const auto& [name, value] : each.json().items()) variables[name] = value.get<std::string>();
  }
  if (out.size() != processes) return answer.expected("an environment for each process");
  return out;
}

void call_pmix(plugin::Host& host, plugin::Call& call) {
  if (Result<int> called = host.stack().call(call); !called)
    host.log().log(Level::error, kPmixLibrary, "{}", called.error().message);
}

}  // namespace

Result<PmixRequest> PmixRequest::read(const Json& in) {
  JsonAt at = JsonAt::root(in);
  PmixRequest out;
  out.number = static_cast<std::uint64_t>(TRY(TRY(at.at("request")).integer(1)));
  out.order.library = kPmixLibrary;
  out.order.spawner = TRY(TRY(at.at("nspace")).string());
  out.order.client = static_cast<std::uint32_t>(TRY(TRY(at.at("rank")).integer(0, UINT32_MAX)));
  out.order.task = static_cast<std::uint32_t>(TRY(TRY(at.at("task")).integer(0, UINT32_MAX)));
  for (const JsonAt& each : TRY(TRY(at.at("programs")).elements()))
    out.order.spawn.programs.push_back(TRY(read_spawn_program(each)));
  if (out.order.spawn.programs.empty()) return at.expected("a program");
  if (out.order.spawn.processes() > pmi::kMaxSpawned)
    return invalid(fmt::format("expected at most {} processes in one call", pmi::kMaxSpawned));
  return out;
}

Result<SpawnEnvironments> notify_begin(plugin::Host& host, const SpawnRound& round) {
  plugin::Call call("pmi.spawn-begins");
  call.in["start"] = round.order.start;
  call.in["number"] = round.number;
  call.in["nspace"] = round.order.spawner;
  call.in["rank"] = round.order.client;
  call.in["task"] = round.order.task;
  call.in["places"] = round.places;
  if (round.universe) call.in["universe"] = *round.universe;
  Json& programs = call.in["programs"] = Json::array();
  for (const pmi::SpawnProgram& each : round.order.spawn.programs)
    programs.push_back({{"name", each.argv.front()}, {"processes", each.processes}});
  TRY(host.stack().call(call));
  const std::size_t here = ranks_placed_on(round.places, host.job().shell_rank).size();
  if (here == 0 && !call.out.contains(kPmixLibrary)) return SpawnEnvironments();
  return read_environments(TRY(JsonAt::root(call.out, call.topic).at(kPmixLibrary)), here);
}

void notify_settled(plugin::Host& host, std::uint64_t start, std::uint64_t round,
                    std::optional<std::uint64_t> asked, const Result<void>& outcome) {
  plugin::Call call("pmi.spawn-settled");
  call.in["start"] = start;
  call.in["number"] = round;
  if (asked) call.in["request"] = *asked;
  if (!outcome) {
    call.in["error"] = outcome.error().message;
    call.in["errnum"] = outcome.error().code;
  }
  call_pmix(host, call);
}

void notify_over(plugin::Host& host) {
  plugin::Call call("pmi.spawns-over");
  call_pmix(host, call);
}

PmixPart::PmixPart(plugin::Host& host, const plugin::Plugin& plugin, const SpawnRound& round,
                   std::function<void()> on_over)
    : host_(host),
      plugin_(plugin),
      round_(round),
      on_over_(std::move(on_over)),
      ranks_(ranks_placed_on(round.places, host.job().shell_rank).ids()),
      processes_(host, round.order.task, round.order.setup,
                 {[this](std::uint32_t index) { exited(index); }, [this] { finish(); }}) {}

Result<void> PmixPart::start(const pmi::Spawn& spawn) {
  SpawnEnvironments environments = TRY(notify_begin(host_, round_));
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const pmi::SpawnProgram& program = spawn.programs[spawn.program_of(ranks_[i])];
    CHECK_OK(processes_.start(program, [&](task::Command& command) {
      for (const auto& [key, text] : program.info) {
        std::size_t equals = text.find('=');
        if (key == kVariable && equals != std::string::npos && equals > 0)
          command.env.set(text.substr(0, equals), text.substr(equals + 1));
      }
      for (const auto& [name, value] : environments[i]) command.env.set(name, value);
    }));
  }
  plugin::Call call("pmi.spawn-started");
  call.in["start"] = round_.order.start;
  call.in["number"] = round_.number;
  Json& processes = call.in["processes"] = Json::array();
  for (std::uint32_t i = 0; i < processes_.size(); ++i)
    processes.push_back({{"rank", ranks_[i]}, {"pid", processes_.pid(i)}});
  TRY(host_.stack().call(call));
  return {};
}

void PmixPart::cancel() {
  signal(SIGKILL);
  if (running() == 0) finish();
}

void PmixPart::signal(int signum) {
  for (std::uint32_t index = 0; index < processes_.size(); ++index) {
    Result<void> sent = processes_.kill(index, signum);
    if (!sent) log(host_, plugin_, Level::debug, "a process of spawn {}: {}", round_.number, sent.error().message);
  }
}

void PmixPart::exited(std::uint32_t index) {
  plugin::Call call("pmi.spawn-exited");
  call.in["start"] = round_.order.start;
  call.in["number"] = round_.number;
  call.in["rank"] = ranks_[index];
  call.in["wait_status"] = processes_.status(index).raw();
  call.in["ending"] = host_.ending();
  call_pmix(host_, call);
}

void PmixPart::finish() {
  if (!std::exchange(is_over_, true)) on_over_();
}

}  // namespace nacre::plugins
