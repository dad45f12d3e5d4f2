// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawns.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plugins/pmi/exchange.hpp"
#include "plugins/pmi/spawn_places.hpp"
#include "plugins/pmi/spawned_group.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kSpawnHold = "pmi-spawn";

// Of the leader: all tasks have ended.
constexpr std::string_view kSpawnTasksOver = "pmi.tasks-over";

PmiExchange::Barriers barriers_of(const SpawnRound& round) { return {round.name(), round.last, round.order.start}; }

bool has_several(const std::vector<std::uint32_t>& places) {
  return std::any_of(places.begin(), places.end(), [&](std::uint32_t shell) { return shell != places.front(); });
}

}  // namespace

PmiSpawns::PmiSpawns(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
                     pmi::Quota& quota)
    : host_(host),
      plugin_(plugin),
      options_(options),
      names_(names),
      quota_(quota),
      rounds_(host, {[this] { return room(); }, [this](const SpawnRound& round) { return start_part(round); },
                     [this](const SpawnRound& round, const Result<void>& outcome) { settled(round, outcome); }}),
      table_(host, plugin, options, [this](const PmiGroup& group) { forget(group); }) {}

// Processes that still run are not waited for.
PmiSpawns::~PmiSpawns() {
  tasks_ended_ = false;  // nobody is notified that they are over
  for (SpawnTable::Entry& entry : table_) release(entry);
  if (gave_room_) release_hold();
  // It is replaced.
  if (host_.job().shell_rank == 0 && !host_.ending()) all_tasks_ended();
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

// A spare is there until all tasks have ended. Other shells without tasks, on which programs count that start
// with few tasks, wait for that here; the leader does so anyway.
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
  return shell < job.nodes() && job.taskmap.tasks_on(shell) == 0;
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
  asked_.emplace(number, asked);  // it may be answered before the next call returns
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
  std::string out = fmt::format("nacre_{}_{}_{}", host_.job().id.value(), round.order.shell, round.number);
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
        host_, options_.max_size, [] {}, [](const value::Idset&) { return true; }, barriers_of(round));
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
                           &quota_, round.places, round.order.setup, barriers_of(round)},
      std::move(on));
}

// The start of those that this shell has.
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

// Until it is known what for, the job waits. Once the tasks of this shell have ended nothing else makes it wait
// than what has been spawned.
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

}  // namespace nacre::plugins
