// SPDX-License-Identifier: Apache-2.0
//
// How an OverlayDriver performs the effects of its node, by its parts or itself.
#include "group/overlay_driver.hpp"

namespace nacre::group {

void OverlayDriver::pump() {
  if (pump_.run([this] { return step(); })) bulk_->look_at(node_);
}

bool OverlayDriver::step() {
  std::vector<overlay::Effect> effects = node_.take_effects();
  auto perform_it = [this](auto& effect) {
    if constexpr (requires { sender_->perform(effect); }) {
      sender_->perform(effect);
    } else if constexpr (requires { reports_.perform(effect); }) {
      reports_.perform(effect);
    } else if constexpr (requires { bulk_->perform(effect); }) {
      bulk_->perform(effect);
    } else if constexpr (requires { timer_.perform(effect); }) {
      timer_.perform(effect);
    } else {
      perform(effect);
    }
  };
  for (overlay::Effect& effect : effects) std::visit(perform_it, effect);
  std::vector<overlay::LinkName> failed = sender_->take_failed();
  for (overlay::LinkName link : failed) node_.unlinked(link);
  return !failed.empty() || !effects.empty() || deferred_.call_next();
}

// From now on this shell may be fed by others that have joined later.
void OverlayDriver::perform(overlay::Joined& joined) {
  own_scope_.scope = {joined.view, joined.view};
  const overlay::Tree& tree = node_.tree();
  for (overlay::Slot slot = 0; slot < tree.size(); ++slot) {
    Rank rank = tree.at(slot);
    if (rank != membership_.rank && tree.joined(rank) != 0) reports_.note_address(rank, tree.address(rank));
  }
  if (hooks().on_member) deferred_.add([this] { hooks().on_member(); });
}

void OverlayDriver::perform(overlay::Leave& /*leave*/) {
  link_table_->keep_half_closed(true);
  removed_ = true;
  end(Error{ECANCELED, "this shell is taken out of the job"});
}

void OverlayDriver::perform(overlay::Die& die) {
  removed_ = false;
  end(Error{ENOTCONN, std::move(die.why)});
  deferred_.add([this] { end_if_gone(); });
}

void OverlayDriver::perform(overlay::Finished& finished) {
  finished_ = true;
  open_calls_.fail_requests({EPIPE, "the job has ended"});
  sender_->flush_all();
  link_table_->stop(last_link());
  for (Rank rank : finished.lost.ids()) {
    if (hooks().on_lost_at_end) deferred_.add([this, rank] { hooks().on_lost_at_end(rank); });
  }
  deferred_.add([this] { end_if_gone(); });
}

void OverlayDriver::end(Error why) {
  if (cut_off_) return;
  cut_off_ = std::move(why);
  bulk_->cut_off(*cut_off_);
  if (!removed_) link_table_->stop();
  deferred_.add_for_served([this, is_planned = removed_] {
    const Callbacks& owner = reports_.callbacks;
    if (is_planned && owner.on_leave) owner.on_leave();
    if (!is_planned && owner.on_cut_off) owner.on_cut_off(*cut_off_);
  });
  open_calls_.fail_collectives(*cut_off_);
  open_calls_.fail_requests(*cut_off_);
  pump();
}

}  // namespace nacre::group
