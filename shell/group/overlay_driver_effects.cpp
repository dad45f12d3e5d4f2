// SPDX-License-Identifier: Apache-2.0
//
// How an OverlayDriver performs the effects of its node, and what it does with the log's entries.
#include <algorithm>

#include <fmt/format.h>

#include "group/overlay_driver.hpp"
#include "group/statements.hpp"
#include "overlay/wire.hpp"

namespace nacre::group {
namespace {

constexpr std::uint32_t kMaxCode = 255;  // of a process that exits

}  // namespace

// ---- effects of the node --------------------------------------------------------------------

void OverlayDriver::pump() {
  if (!pump_.run([this] { return step(); })) return;
  for (BulkDriver* each : {bulk_driver_.get(), value_driver_.get()}) each->look_at(node_);
  for (BulkDriver* each : {bulk_driver_.get(), value_driver_.get()}) each->pump();
}

bool OverlayDriver::step() {
  std::vector<overlay::Effect> effects = node_.take_effects();
  for (overlay::Effect& effect : effects) std::visit([this](auto& each) { do_effect(each); }, effect);
  std::vector<overlay::LinkName> failed = std::exchange(failed_, {});
  for (overlay::LinkName link : failed) node_.unlinked(link);
  return !failed.empty() || !effects.empty() || deferred_.call_next();
}

void OverlayDriver::do_effect(overlay::Send& message) {
  auto bytes = overlay::encode(message.message);
  if (bytes) {
    bool is_beat = std::holds_alternative<overlay::Beat>(message.message.body);
    return sent(message.to, is_beat ? send_queue_.send_first(message.to, *bytes)
                                    : send_queue_.send(message.to, *std::move(bytes)));
  }
  log_.log(Level::error, "", "a message to shell {} is too long: {}", message.to.peer, bytes.error().message);
}

void OverlayDriver::do_effect(overlay::SendEntry& entry) {
  sent(entry.to, send_queue_.send_entry(entry.to, entry.seq));
}

// Keeps the last frame: most entries are sent to several peers, one after the other.
const std::string* OverlayDriver::frame_of(overlay::Seq seq) {
  if (encoded_.first == seq) return &encoded_.second;
  if (node_.entry(seq) == nullptr) return nullptr;
  auto bytes = overlay::encode(node_.entry_message(seq));
  if (!bytes) {
    log_.log(Level::error, "", "entry {}: {}", seq, bytes.error().message);
    return nullptr;
  }
  encoded_ = {seq, *std::move(bytes)};
  return &encoded_.second;
}

void OverlayDriver::sent(overlay::LinkName to, const Result<void>& how) {
  if (!how) give_up(to, how.error());
}

void OverlayDriver::give_up(overlay::LinkName link, const Error& why) {
  log_.log(Level::debug, "", "shell {}: {}", link.peer, why.message);
  link_table_->give_up(link);
  send_queue_.forget(link);
  failed_.push_back(link);
  bulk_gone(link);
}

void OverlayDriver::do_effect(overlay::HangUp& hang_up) {
  bulk_gone(hang_up.link);
  send_queue_.flush(hang_up.link);
  link_table_->hang_up(hang_up.link);
}

void OverlayDriver::do_effect(overlay::HalfClose& half_close) {
  sent(half_close.link, send_queue_.half_close(half_close.link));
}

void OverlayDriver::do_effect(overlay::Dial& dial) {
  Result<void> dialling = link_table_->dial(dial.peer);
  if (dialling) return;
  log_.log(Level::debug, "", "{}", dialling.error().message);
  failed_.push_back({dial.peer, overlay::Side::up});
}

void OverlayDriver::do_effect(overlay::Deliver& deliver_it) {
  if (const overlay::Entry* entry = node_.entry(deliver_it.seq)) deliver(*entry);
}

void OverlayDriver::do_effect(overlay::Released& released) { open_calls_.answer(released); }

void OverlayDriver::do_effect(overlay::Publish& publish) {
  value_carrier_->publish(publish.entry, std::move(publish.value));
}

void OverlayDriver::do_effect(overlay::Unfit& unfit) {
  raise({"exec", 0, fmt::format("{}: what the leader has sent is damaged: {}", unfit.name, unfit.why), 1});
}

void OverlayDriver::do_effect(overlay::TooLarge& overflow) {
  raise({"exec", 0,
         fmt::format("{}: what the shells give is {} bytes together; at most {}", overflow.name, overflow.size,
                     node_.options().max_value),
         1});
}

void OverlayDriver::do_effect(overlay::Reported& reported) {
  std::vector<Ended> ended;
  for (const overlay::TaskReport& record : reported.exited) {
    auto each = ended_of(record);
    if (each) ended.push_back(*std::move(each));
    if (!each) log_.log(Level::warn, "", "{}", each.error().message);
  }
  deferred_.add_for_served([this, started = std::move(reported.started), ended = std::move(ended)] {
    if (callbacks_.on_tasks) callbacks_.on_tasks(started, ended);
  });
}

// From now on this shell may be fed by others that have joined later.
void OverlayDriver::do_effect(overlay::Joined& joined) {
  own_scope_ = {joined.view, joined.view};
  const overlay::Tree& tree = node_.tree();
  for (overlay::Slot slot = 0; slot < tree.size(); ++slot) {
    Rank rank = tree.at(slot);
    if (rank != membership_.rank && tree.joined(rank) != 0) note_address(rank, tree.address(rank));
  }
  if (hooks_.on_member) deferred_.add([this] { hooks_.on_member(); });
}

void OverlayDriver::do_effect(overlay::Leave& /*leave*/) {
  link_table_->keep_half_closed(true);
  removed_ = true;
  end(Error{ECANCELED, "this shell is taken out of the job"});
}

void OverlayDriver::do_effect(overlay::Die& die) {
  removed_ = false;
  end(Error{ENOTCONN, std::move(die.why)});
  deferred_.add([this] { end_if_gone(); });
}

void OverlayDriver::do_effect(overlay::Finished& /*finished*/) {
  finished_ = true;
  open_calls_.fail_requests({EPIPE, "the job has ended"});
  send_queue_.flush_all();
  link_table_->stop(last_link());
  deferred_.add([this] { end_if_gone(); });
}

void OverlayDriver::do_effect(overlay::Arm& arm) {
  due_ = arm.at;
  start_timer();
}

void OverlayDriver::do_effect(overlay::Note& note) { log_.log(Level::debug, "", "{}", note.text); }

// ---- entries of the log ---------------------------------------------------------------------

void OverlayDriver::deliver(const overlay::Entry& entry) {
  if (const auto* campaign = std::get_if<overlay::Campaign>(&entry.body); campaign != nullptr && !campaign->grow) {
    deferred_.add_for_served([this, shrunk = value::Shrunk{campaign->done, campaign->unconfirmed}] {
      if (callbacks_.on_shrunk) callbacks_.on_shrunk(shrunk);
    });
  }
  if (entry.request.origin == membership_.rank) open_calls_.answer(entry);
  if (const auto* view = std::get_if<overlay::View>(&entry.body)) {
    deliver(*view);
  } else if (const auto* end = std::get_if<overlay::End>(&entry.body)) {
    code_ = static_cast<int>(std::min<std::uint32_t>(end->code, kMaxCode));
    if (gives_up_absent_) node_.suspect_absent();
  } else if (const auto* exception = std::get_if<overlay::ExceptionEntry>(&entry.body)) {
    JobException raised = exception_of(*exception);
    if (raised.severity == 0) node_.wait_for_busy(node_.options().fence);
    if (raised.severity == 0 && !deferred_.serving() && hooks_.on_ended)
      deferred_.add([this, raised] { hooks_.on_ended(raised); });
    deferred_.add_for_served([this, raised = std::move(raised)] {
      if (callbacks_.on_exception) callbacks_.on_exception(raised);
    });
  } else if (const auto* event = std::get_if<overlay::Event>(&entry.body)) {
    deliver(*event);
  } else if (const auto* signal = std::get_if<overlay::Signal>(&entry.body)) {
    deferred_.add_for_served([this, signal = *signal] {
      if (callbacks_.on_signal) callbacks_.on_signal(static_cast<int>(signal.number), signal.ranks);
    });
  } else if (const auto* exec = std::get_if<overlay::Exec>(&entry.body)) {
    auto share = share_of(*exec, entry.seq, membership_.rank);
    if (!share) return;
    deferred_.add_for_served([this, share = *std::move(share)] {
      if (callbacks_.on_exec) callbacks_.on_exec(share);
    });
  }
}

void OverlayDriver::deliver(const overlay::View& view) {
  for (const overlay::Newcomer& each : view.add) note_address(each.id, each.address);
  if (!view.leave.empty() && !view.leave.contains(membership_.rank)) {
    deferred_.add_for_served([this, left = view.leave] {
      if (callbacks_.on_left) callbacks_.on_left(left);
    });
  }
  for (Rank rank : view.dead.ids()) {
    deferred_.add_for_served([this, rank] {
      if (callbacks_.on_lost) callbacks_.on_lost(rank);
    });
  }
}

void OverlayDriver::deliver(const overlay::Event& event) {
  auto whole = announcements_.take(event);
  if (!whole) return;
  if (whole->topic == kGiveUpSilent) {
    node_.wait_for_silent(std::min(kSilentAtEnd, node_.options().silent_bound));
    return node_.wait_for_busy(node_.options().silent_bound);
  }
  bool is_early = hooks_.on_announced && !deferred_.serving();
  if (is_early && hooks_.on_announced(whole->topic, whole->bytes)) return deferred_.drop_kept();
  deferred_.add_for_served([this, whole = *std::move(whole)] {
    if (callbacks_.on_announcement) callbacks_.on_announcement(whole.topic, whole.bytes);
  });
}

// What cannot be read is found when the shell is dialled, and has no address.
void OverlayDriver::note_address(Rank rank, const std::string& address) {
  Result<void> known = membership_.directory.set(rank, transport::usable_on(transport::host_mark(), address));
  if (!known) log_.log(Level::warn, "", "the address of shell {}: {}", rank, known.error().message);
}

void OverlayDriver::end(Error why) {
  if (cut_off_) return;
  cut_off_ = std::move(why);
  bulk_driver_->cut_off(*cut_off_);
  value_driver_->cut_off(*cut_off_);
  if (!removed_) link_table_->stop();
  deferred_.add_for_served([this, is_planned = removed_] {
    if (is_planned && callbacks_.on_leave) callbacks_.on_leave();
    if (!is_planned && callbacks_.on_cut_off) callbacks_.on_cut_off(*cut_off_);
  });
  open_calls_.fail_collectives(*cut_off_);
  open_calls_.fail_requests(*cut_off_);
  pump();
}

}  // namespace nacre::group
