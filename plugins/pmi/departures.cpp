// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/departures.hpp"

#include "base/text.hpp"
#include "exits/record.hpp"

namespace nacre::plugins {
namespace {

constexpr event::Seconds kLeaveGrace{2};

}  // namespace

PmiGroup::Callbacks PmiDepartures::callbacks() {
  PmiGroup::Callbacks out;
  out.on_abort = [this](const pmi::Abort& abort) { aborted(abort); };
  out.on_dropped = [this](const pmi::Dropped& dropped) {
    log(host_, plugin_, Level::error, "{}: {}: its connection is closed", processes_.name_of(dropped.client),
        escape_controls(dropped.why));
    if (!options_.fault_tolerant) {
      if (client_of(dropped.client).stage != pmi::ClientStage::finalized) dropped_or_left(dropped.client);
      return;
    }
    // no barrier waits to learn how it ends
    if (!client_of(dropped.client).has_joined) leaving_.erase(dropped.client);
    lost(dropped.client);
  };
  out.on_left = [this](std::uint32_t client) { dropped_or_left(client); };
  out.on_barrier = [this] { return nobody_is_missing(nullptr); };
  out.on_group_barrier = [this](const std::vector<std::uint32_t>& clients) { return nobody_is_missing(&clients); };
  return out;
}

// Names the client as the cause in the report, although its end does not decide.
std::optional<exits::TaskEnd> PmiDepartures::as_cause(std::uint32_t client) const {
  auto rank = processes_.task_of(client);
  return rank ? std::optional(exits::TaskEnd{*rank, exits::Record::victim({})}) : std::nullopt;
}

// If all tasks may start again, the abort only ends this task, and its end decides whether they do. MPI libraries
// also abort when they find that another process has gone, which may be known here only later.
void PmiDepartures::aborted(const pmi::Abort& abort) {
  if (all_start_again_) return;
  std::string message =
      fmt::format("{} called PMI_Abort with code {}", processes_.name_of(abort.client), abort.exit_code);
  if (!abort.message.empty()) message += ": " + escape_controls(abort.message);
  plugin::RaisedException end{"exec", 0, message, value::WaitStatus::exited(exits::failure_code(abort.exit_code)),
                              as_cause(abort.client)};
  if (!end.task || !options_.starts_again) return host_.raise(end);
  aborted_.emplace(abort.client, std::move(end));
  leaving_.insert(abort.client);
  await_ends();
}

void PmiDepartures::attach(PmiGroup& group) {
  group_ = &group;
  // MPICH asks for the key whenever it shrinks a communicator or agrees, and does not expect that the key is
  // missing.
  publish_dead();
}

void PmiDepartures::exited(std::uint32_t client, const value::WaitStatus& status) {
  // The last message that it sent may tell that it joined, or has finalized.
  const pmi::ClientProgress& last = client_of(client);
  group_->drain(client);
  leaving_.erase(client);
  if (is_quiet()) return group_->end(client);
  if (auto abort = aborted_.extract(client)) {
    host_.raise(abort.mapped());
    ends_ = true;
    return group_->end(client);
  }
  bool finalized = last.stage == pmi::ClientStage::finalized;
  bool in_use = group_->server().in_use();
  if (!last.has_joined) absent_.emplace_back(client, status);
  if (options_.fault_tolerant) {
    if (last.has_joined ? !finalized : in_use) lost(client);
  } else if ((last.has_joined && !finalized) || (in_use && status.is_signal())) {
    end_job(client, status,
            finalized         ? "after PMI finalize"
            : last.has_joined ? "without PMI finalize"
                              : "before PMI init");
  } else if (barrier_waits_) {
    nobody_is_missing(nullptr);
  }
  group_->end(client);
}

// All shells learn this at one place in the order of the announcements, like losses.
void PmiDepartures::all_start_again() {
  all_start_again_ = true;
  dead_.clear();
  list_is_full_ = false;
}

void PmiDepartures::forget() {
  leaving_.clear();
  aborted_.clear();
  absent_.clear();
  barrier_waits_ = all_start_again_ = false;
  timer_.reset();
}

void PmiDepartures::end_job(std::uint32_t client, const value::WaitStatus& status, std::string_view when) {
  // its own record is that of a success, and would not show the failure
  const bool hides = status.success();
  host_.raise({"exec", 0,
               fmt::format("{} {} {}; the job ends (-o fault-tolerance lets the others go on)",
                           processes_.name_of(client), status.str(), when),
               hides ? value::WaitStatus::exited(1) : status, hides ? as_cause(client) : std::nullopt});
  ends_ = true;
}

void PmiDepartures::dropped_or_left(std::uint32_t client) {
  if (is_quiet()) return;
  bool joined = client_of(client).has_joined;
  if (joined && options_.fault_tolerant) return lost(client);
  leaving_.insert(client);
  if (joined) await_ends();
}

// A client that closes its connection usually ends soon. It is better to know how it ended before the job is ended.
void PmiDepartures::await_ends() {
  if (!timer_) {
    auto timer = event::Timer::create(host_.loop(), [this] { still_there(); });
    if (!timer) return log(host_, plugin_, Level::error, "{}", timer.error().message);
    timer_ = *std::move(timer);
    timer_->unref();
  }
  timer_->start_grace(kLeaveGrace);
}

void PmiDepartures::still_there() {
  if (is_quiet()) return;
  for (std::uint32_t client : leaving_) {
    bool joined = client_of(client).has_joined;
    auto abort = aborted_.find(client);
    if (!processes_.runs(client) || !(joined || barrier_waits_ || abort != aborted_.end())) continue;
    if (abort != aborted_.end()) {
      processes_.kill(client, SIGKILL);  // its end decides
      continue;
    }
    ends_ = true;
    host_.raise(
        {"exec", 0,
         fmt::format("{} has closed its connection without PMI {}; the job ends (-o fault-tolerance lets the "
                     "others go on)",
                     processes_.name_of(client),
                     joined ? "finalize" : "init, and the others wait for it in a barrier"),
         value::WaitStatus::exited(1), as_cause(client)});
  }
}

// Returns whether a barrier may go on without those of its clients that have gone; null: a barrier of all.
bool PmiDepartures::nobody_is_missing(const std::vector<std::uint32_t>* members) {
  if (is_quiet()) return false;
  auto is_member = [members](std::uint32_t client) {
    return members == nullptr || std::find(members->begin(), members->end(), client) != members->end();
  };
  if (options_.fault_tolerant) {
    for (const auto& [client, status] : absent_) {
      if (is_member(client)) lost(client);
    }
    for (std::uint32_t client : leaving_) {
      if (is_member(client)) lost(client);
    }
    return true;
  }
  auto absent =
      std::find_if(absent_.begin(), absent_.end(), [&](const auto& each) { return is_member(each.first); });
  if (!ends_ && absent != absent_.end()) {
    end_job(absent->first, absent->second, "without PMI init, and the others wait for it in a barrier");
  }
  if (ends_ || std::none_of(leaving_.begin(), leaving_.end(), is_member)) return !ends_;
  if (!std::exchange(barrier_waits_, true)) await_ends();
  return false;
}

void PmiDepartures::lost(std::uint32_t client) {
  std::uint32_t rank = group_->server().group().ranks[client];
  if (!goes_on_without(rank)) return;
  log(host_, plugin_, Level::warn, "{} is lost; the others go on", processes_.name_of(client));
  note_dead(rank);
  if (on_lost_) on_lost_(rank);
}

void PmiDepartures::lost_elsewhere(std::uint32_t rank) {
  if (goes_on_without(rank)) note_dead(rank);
}

bool PmiDepartures::missing_elsewhere(const value::Idset& ranks) {
  for (std::uint32_t rank : ranks.ids()) lost_elsewhere(rank);
  return ranks.empty() || options_.fault_tolerant;
}

bool PmiDepartures::absent_elsewhere(const value::Idset& ranks) {
  if (ranks.empty() || options_.fault_tolerant) return true;
  if (is_quiet() || std::exchange(ends_, true)) return false;
  host_.raise(
      {"exec", 0,
       fmt::format("rank {}, started again on another shell, has ended without PMI init, and the others wait "
                   "for it in a barrier; the job ends (-o fault-tolerance lets the others go on)",
                   ranks.str()),
       value::WaitStatus::exited(1), exits::TaskEnd{*ranks.first(), exits::Record::victim({})}});
  return false;
}

value::Idset PmiDepartures::missing_here() const {
  value::Idset out;
  if (shell_leaves_) return out;
  const auto& clients = group_->server().clients();
  for (std::uint32_t client = 0; client < clients.size(); ++client) {
    if (clients[client].stage != pmi::ClientStage::finalized) out.insert(group_->server().group().ranks[client]);
  }
  return out;
}

void PmiDepartures::lost_with_shell(std::uint32_t rank) {
  if (!host_.ending() && !is_dead(rank)) note_dead(rank);
}

bool PmiDepartures::is_dead(std::uint32_t rank) const {
  return std::find(dead_.begin(), dead_.end(), rank) != dead_.end();
}

// True once for each rank, and only if the others are to go on.
bool PmiDepartures::goes_on_without(std::uint32_t rank) const {
  return options_.fault_tolerant && !is_quiet() && !host_.ending() && !is_dead(rank);
}

void PmiDepartures::publish_dead() {
  std::string list = fmt::format("{}", fmt::join(dead_, ","));
  if (list.size() < pmi::kMaxValue) return group_->server().set_attribute(PmiGroup::kDead, list);
  if (std::exchange(list_is_full_, true)) return;
  log(host_, plugin_, Level::warn,
      "{} has no room for rank {} and those that are lost after it: it stays with the first {}", PmiGroup::kDead,
      dead_.back(), dead_.size() - 1);
}

void PmiDepartures::note_dead(std::uint32_t rank) {
  dead_.push_back(rank);
  publish_dead();
  if (options_.fault_signal == 0) return;
  const auto& clients = group_->server().clients();
  const auto& ranks = group_->server().group().ranks;
  for (std::uint32_t each = 0; each < clients.size(); ++each) {
    if (clients[each].stage == pmi::ClientStage::joined && ranks[each] != rank) {
      processes_.kill(each, options_.fault_signal);
    }
  }
}

}  // namespace nacre::plugins
