// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/doctor.hpp"

#include <fstream>

#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "event/children.hpp"
#include "pmi/key_exchange.hpp"

namespace nacre::plugins {
namespace {

constexpr std::string_view kRollCall = "pmi.roll-call";  // an announcement, as entries: its name and its reason

constexpr std::string_view kSignal = "SIGUSR2";

// Soon for tasks that end soon, and later for tasks that start slowly.
constexpr event::Seconds kLookTimes[] = {event::Seconds(0.1), event::Seconds(1), event::Seconds(5)};

bool any_starts_with(const std::vector<std::string>& names, std::string_view start) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& each) { return each.starts_with(start); });
}

// The remedy, for the library that has not found its peers.
std::string_view remedy(const std::vector<std::string>& libraries) {
  if (any_starts_with(libraries, "libmpich")) return "MPICH starts by PMI-1: -o pmi=simple, which is the default";
  if (any_starts_with(libraries, "libopen-rte") || any_starts_with(libraries, "libpmix")) {
    return "Open MPI starts by PMIx: -o pmi=pmix";
  }
  return "see nacre-pmi(7) for what each MPI needs";
}

std::string version_of(const pmi::ClientProgress& client) {
  if (client.version == 0) {
    return client.asked.empty() ? "no PMI init"
                                : fmt::format("asked for PMI {}, which is not offered", client.asked);
  }
  return fmt::format("PMI-{}, {} barriers, {}", client.version, client.barriers,
                     client.stage == pmi::ClientStage::finalized ? "finalized" : "not finalized");
}

}  // namespace

Result<void> PmiDoctor::watch() {
  signal_ = TRY(event::SignalWatcher::create(host_.loop(), SIGUSR2, [this](int) { asked(); }));
  signal_->keeps_running(false);
  if (is_alone()) return {};
  announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kRollCall) give_part(bytes);
  });
  return {};
}

// A shell that does not take part yet would not give its part, and the roll call would never end.
void PmiDoctor::asked() {
  ++signals_;
  if (all_listen_ || is_alone()) ask_for_roll_call(fmt::format("{}.{}", host_.job().shell_rank, signals_), kSignal);
}

void PmiDoctor::all_listen() {
  all_listen_ = true;
  if (signals_ > 0 && !is_alone()) asked();
}

Result<void> PmiDoctor::tasks_started() {
  if (server_ == nullptr || host_.tasks().empty()) return {};
  library_timer_ = TRY(event::Timer::create(host_.loop(), [this] { look_for_libraries(); }));
  library_timer_->unref();
  library_timer_->start(kLookTimes[0]);
  if (options_.hang_report.is_infinite()) return {};
  barrier_timer_ = TRY(event::Timer::create(host_.loop(), [this] {
    ask_for_roll_call(fmt::format("barrier.{}.{}", barrier_number_, ++barrier_reports_),
                      fmt::format("a barrier has lasted {}", options_.hang_report.str()));
  }));
  barrier_timer_->unref();
  return {};
}

void PmiDoctor::barrier(bool begins, std::uint64_t number) {
  if (!barrier_timer_) return;
  barrier_number_ = number;
  barrier_reports_ = 0;
  event::Seconds time(options_.hang_report.seconds());
  begins ? barrier_timer_->start(time, time) : barrier_timer_->stop();
}

void PmiDoctor::tasks_ended() {
  barrier_timer_.reset();
  library_timer_.reset();
  if (server_ == nullptr) return;
  if (options_.explain) return explain();
  if (server_->in_use() || options_.pmix || libraries_.empty() || host_.job().tasks() == 1) return;
  const auto& [rank, libraries] = *libraries_.begin();
  log_line(Level::warn,
           fmt::format("rank {} has {} and has not called PMI init: each task is a job of its own; {} (see more "
                       "with -o pmi.explain)",
                       rank, fmt::join(libraries, ", "), remedy(libraries)));
}

// Examines one task for all, unless all are to be shown.
void PmiDoctor::look_for_libraries() {
  bool missing = false;
  for (const auto& task : host_.tasks()) {
    if (task->state() != task::State::running || libraries_.contains(task->rank())) continue;
    std::vector<std::string> found = mpi_libraries_of(task->pid());
    if (!found.empty()) libraries_[task->rank()] = std::move(found);
    missing = missing || !libraries_.contains(task->rank());
    if (!options_.explain) break;
  }
  if (++looks_ < static_cast<int>(std::size(kLookTimes)) && missing) library_timer_->start(kLookTimes[looks_]);
}

std::string PmiDoctor::doing(const task::Task& task) const {
  if (task.state() == task::State::init) return "not started";
  if (task.state() == task::State::exited) return "ended: " + task.status().str();
  if (!knows(task)) return activity_of(task.pid());
  const pmi::ClientProgress& client = server_->clients()[task.local_id()];
  if (client.waits) return fmt::format("in PMI barrier {}", client.barriers + 1);
  if (client.group_barriers > 0) return "in a PMI barrier of some tasks";
  std::string activity = activity_of(task.pid());
  switch (client.stage) {
    case pmi::ClientStage::joined: return fmt::format("after PMI {}: {}", client.last_command, activity);
    case pmi::ClientStage::finalized: return "after PMI finalize: " + activity;
    case pmi::ClientStage::left: return "without its PMI connection: " + activity;
    default: return (server_->in_use() ? "before PMI init: " : "") + activity;
  }
}

// Tasks that have come from a lost shell are no clients.
bool PmiDoctor::knows(const task::Task& task) const {
  return server_ != nullptr && task.local_id() < server_->clients().size();
}

std::vector<Said> PmiDoctor::roll() const {
  std::vector<Said> out;
  for (const auto& task : host_.tasks()) out.emplace_back(task->rank(), doing(*task));
  return out;
}

// `what` names the roll call, the same on all shells: several nodes may request it, and one call is enough.
void PmiDoctor::ask_for_roll_call(std::string_view what, std::string_view why) {
  if (is_alone()) return log_roll_call(why, roll());
  pmi::Entries asked{{std::string(what), std::string(why)}};
  if (Result<void> sent = host_.announce(kRollCall, pmi::encode_entries(asked)); !sent) {
    log_line(Level::warn, fmt::format("roll call: {}", sent.error().message));
  }
}

// All shells get the same announcement, and all give their part.
void PmiDoctor::give_part(std::string_view announced) {
  auto asked = pmi::decode_entries(announced);
  if (!asked || asked->size() != 1) return;
  const auto& [what, why] = asked->front();
  if (!reported_.insert(what).second) return;
  pmi::Entries mine;
  for (const auto& [rank, text] : roll()) mine.emplace_back(fmt::format_int(rank).str(), text);
  auto log_all = [this, why = why](const Result<plugin::Gathered>& gathered) {
    if (!gathered || !host_.job().leads()) return;
    std::vector<Said> all;
    for (const auto& [bytes, shells] : *gathered) {
      for (const auto& [rank, text] : pmi::decode_entries(bytes).value_or(pmi::Entries())) {
        all.emplace_back(static_cast<std::uint32_t>(parse_u64(rank).value_or(0)), text);
      }
    }
    std::sort(all.begin(), all.end());
    log_roll_call(why, std::move(all));
  };
  std::erase_if(gathers_, [](const plugin::Registration& each) { return !each.active(); });
  const std::uint32_t last = host_.last_with_tasks();
  if (host_.job().shell_rank > last) return;
  gathers_.push_back(host_.gather_up_to(last, fmt::format("{}.{}", kRollCall, what), pmi::encode_entries(mine),
                                        std::move(log_all)));
}

void PmiDoctor::log_roll_call(std::string_view why, std::vector<Said> all) {
  log_line(Level::notice, fmt::format("roll call of {} tasks ({}):", all.size(), why));
  for (const std::string& line : folded(all)) log_line(Level::notice, "  " + line);
}

void PmiDoctor::explain() {
  std::vector<Said> all;
  for (const auto& task : host_.tasks()) {
    const auto& libraries = libraries_[task->rank()];
    std::string version = knows(*task) ? version_of(server_->clients()[task->local_id()]) : "no PMI";
    all.emplace_back(task->rank(), fmt::format("{}; {}", version,
                                               libraries.empty() ? "no MPI library seen"
                                                                 : fmt::format("{}", fmt::join(libraries, ", "))));
  }
  for (const std::string& line : folded(all)) log_line(Level::notice, line);
}

// ---- process facts ----------------------------------------------------------------------

namespace {

std::string first_line(pid_t pid, const char* file) {
  std::string line;
  std::ifstream in(fmt::format("/proc/{}/{}", pid, file));
  std::getline(in, line);
  return line;
}

// The kernel's function in which the process waits; "": unknown.
std::string place_of(pid_t pid) {
  std::string place = first_line(pid, "wchan");
  if (!place.empty() && place != "0") return place;
  // "[<0>] futex_wait_queue+0x60/0x90"
  std::string top = first_line(pid, "stack");
  auto start = top.find("] ");
  return start == std::string::npos ? "" : top.substr(start + 2, top.find('+', start) - start - 2);
}

std::string_view verb_of(char state) {
  switch (state) {
    case 'R': return "runs";
    case 'S': return "sleeps";
    case 'D': return "waits for a device";
    case 'T': return "is stopped";
    case 't': return "is traced";
    case 'Z':
    case 'X': return "has ended";
    default: return "is idle";
  }
}

bool is_mpi_library(std::string_view name) {
  return name.find(".so") != std::string_view::npos &&
         (name.starts_with("libmpi") || name.starts_with("libpmi") || name.starts_with("libopen-rte"));
}

}  // namespace

std::string activity_of(pid_t pid) {
  std::string place = place_of(pid);
  if (place == "do_wait") {
    std::vector<pid_t> below = event::descendants_of(pid, event::best_lookup());
    if (!below.empty()) {
      pid = below.front();
      place = place_of(pid);
    }
  }
  auto process = ProcessStat::of(pid);
  if (!process || process->name.empty()) return "gone";
  std::string out = fmt::format("{} {}", process->name, verb_of(process->state));
  if (!place.empty() && process->state != 'R') out += " in " + place;
  return out;
}

std::vector<std::string> mpi_libraries_of(pid_t pid) {
  std::set<std::string> found;
  std::ifstream in(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(in, line);) {
    auto slash = line.rfind('/');
    if (slash == std::string::npos) continue;
    std::string name = line.substr(slash + 1);
    if (is_mpi_library(name)) found.insert(std::move(name));
  }
  return {found.begin(), found.end()};
}

std::vector<std::string> folded(const std::vector<Said>& all) {
  std::vector<std::pair<value::Idset, const std::string*>> groups;
  for (const Said& said : all) {
    auto it =
        std::find_if(groups.begin(), groups.end(), [&](const auto& each) { return *each.second == said.second; });
    if (it == groups.end()) it = groups.insert(groups.end(), {value::Idset(), &said.second});
    it->first.insert(said.first);
  }
  std::vector<std::string> out;
  out.reserve(groups.size());
  for (const auto& [ranks, text] : groups) out.push_back(fmt::format("{}: {}", ranks.short_str(), *text));
  return out;
}

}  // namespace nacre::plugins
