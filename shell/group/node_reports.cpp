// SPDX-License-Identifier: Apache-2.0
#include "group/node_reports.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "group/statements.hpp"

namespace nacre::group {
namespace {

constexpr std::uint32_t kMaxCode = 255;  // of a process that exits

}  // namespace

void NodeReports::perform(overlay::Deliver& deliver_it) {
  if (const overlay::Entry* entry = node_.entry(deliver_it.seq)) deliver(*entry);
}

void NodeReports::perform(overlay::Reported& reported) {
  std::vector<Ended> ended;
  for (const overlay::TaskReport& record : reported.exited) {
    auto each = ended_of(record);
    if (each) ended.push_back(*std::move(each));
    if (!each) log_.log(Level::warn, "", "{}", each.error().message);
  }
  deferred_.add_for_served([this, started = std::move(reported.started), ended = std::move(ended)] {
    if (callbacks.on_tasks) callbacks.on_tasks(started, ended);
  });
}

void NodeReports::perform(overlay::Unfit& unfit) {
  raise_({"exec", 0, fmt::format("{}: what the leader has sent is damaged: {}", unfit.name, unfit.why), 1});
}

void NodeReports::perform(overlay::TooLarge& overflow) {
  raise_({"exec", 0,
          fmt::format("{}: what the shells give is {} bytes together; at most {}", overflow.name, overflow.size,
                      node_.options().max_value),
          1});
}

// What cannot be read is found when the shell is dialled, and has no address.
// The leader says it with what follows from it, and the others by themselves.
void NodeReports::perform(overlay::Silent& silent) {
  log_.log(membership_.rank == 0 ? Level::debug : Level::warn, "", "shell {} is suspected: {}", silent.peer,
           silent.why);
  silences_[static_cast<Rank>(silent.peer)] = std::move(silent.why);
}

std::string NodeReports::silence_of(Rank rank) const {
  auto found = silences_.find(rank);
  return found == silences_.end() ? "" : found->second;
}

void NodeReports::note_address(Rank rank, const std::string& address) {
  Result<void> known = membership_.directory.set(rank, transport::usable_on(transport::host_mark(), address));
  if (!known) log_.log(Level::warn, "", "the address of shell {}: {}", rank, known.error().message);
}

void NodeReports::give_up_absent() {
  gives_up_absent_ = true;
  if (code_) node_.suspect_absent();
}

// ---- entries of the log ---------------------------------------------------------------------

void NodeReports::deliver(const overlay::Entry& entry) {
  if (const auto* campaign = std::get_if<overlay::Campaign>(&entry.body)) deliver(*campaign);
  if (entry.request.origin == membership_.rank) open_calls_.answer(entry);
  if (const auto* view = std::get_if<overlay::View>(&entry.body)) {
    deliver(*view);
  } else if (const auto* end = std::get_if<overlay::End>(&entry.body)) {
    deliver(*end);
  } else if (const auto* exception = std::get_if<overlay::ExceptionEntry>(&entry.body)) {
    deliver(*exception);
  } else if (const auto* event = std::get_if<overlay::Event>(&entry.body)) {
    deliver(*event);
  } else if (const auto* signal = std::get_if<overlay::Signal>(&entry.body)) {
    deliver(*signal);
  } else if (const auto* exec = std::get_if<overlay::Exec>(&entry.body)) {
    deliver(*exec, entry.seq);
  }
}

void NodeReports::deliver(const overlay::Campaign& campaign) {
  if (campaign.grow) return;
  deferred_.add_for_served([this, shrunk = value::Shrunk{campaign.done, campaign.unconfirmed}] {
    if (callbacks.on_shrunk) callbacks.on_shrunk(shrunk);
  });
}

void NodeReports::deliver(const overlay::View& view) {
  for (const overlay::Newcomer& each : view.add) note_address(each.id, each.address);
  if (!view.leave.empty() && !view.leave.contains(membership_.rank)) {
    deferred_.add_for_served([this, left = view.leave] {
      if (callbacks.on_left) callbacks.on_left(left);
    });
  }
  for (Rank rank : view.dead.ids()) {
    deferred_.add_for_served([this, rank] {
      if (callbacks.on_lost) callbacks.on_lost(rank);
    });
  }
}

void NodeReports::deliver(const overlay::End& end) {
  code_ = static_cast<int>(std::min<std::uint32_t>(end.code, kMaxCode));
  if (gives_up_absent_) node_.suspect_absent();
}

void NodeReports::deliver(const overlay::ExceptionEntry& exception) {
  JobException raised = exception_of(exception);
  if (raised.severity == 0) node_.expect_end(node_.options().fence);
  if (raised.severity == 0 && !deferred_.serving() && hooks.on_ended)
    deferred_.add([this, raised] { hooks.on_ended(raised); });
  deferred_.add_for_served([this, raised = std::move(raised)] {
    if (callbacks.on_exception) callbacks.on_exception(raised);
  });
}

void NodeReports::deliver(const overlay::Event& event) {
  auto whole = announcements_.take(event);
  if (!whole) return;
  if (whole->topic == kGiveUpSilent) {
    node_.wait_for_silent(std::min(Group::kSilentAtEnd, node_.options().silent_bound));
    return node_.expect_end(node_.options().silent_bound);
  }
  bool is_early = hooks.on_announced && !deferred_.serving();
  if (is_early && hooks.on_announced(whole->topic, whole->bytes)) return deferred_.drop_kept();
  deferred_.add_for_served([this, whole = *std::move(whole)] {
    if (callbacks.on_announcement) callbacks.on_announcement(whole.topic, whole.bytes);
  });
}

void NodeReports::deliver(const overlay::Signal& signal) {
  deferred_.add_for_served([this, signal] {
    if (callbacks.on_signal) callbacks.on_signal(static_cast<int>(signal.number), signal.ranks);
  });
}

void NodeReports::deliver(const overlay::Exec& exec, overlay::Seq seq) {
  auto share = share_of(exec, seq, membership_.rank);
  if (!share) return;
  deferred_.add_for_served([this, share = *std::move(share)] {
    if (callbacks.on_exec) callbacks.on_exec(share);
  });
}

}  // namespace nacre::group
