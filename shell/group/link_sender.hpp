// SPDX-License-Identifier: Apache-2.0
//
// What the overlay's node has for its links: messages, entries of the log, dials and ends.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "group/link_table.hpp"
#include "group/send_queue.hpp"
#include "overlay/node.hpp"

namespace nacre::group {

class LinkSender {
 public:
  // All have to outlive this object. `on_ends`: a link is given up, or is about to be hung up.
  LinkSender(LinkTable& links, overlay::Node& node, Log& log, std::function<void(overlay::LinkName)> on_ends)
      : links_(links), node_(node), log_(log), on_ends_(std::move(on_ends)), queue_(access()) {}
  LinkSender(const LinkSender&) = delete;
  LinkSender& operator=(const LinkSender&) = delete;

  void perform(overlay::Send& message);
  void perform(overlay::SendEntry& entry);
  void perform(overlay::Dial& dial);
  void perform(overlay::HangUp& hang_up);
  void perform(overlay::HalfClose& half_close);

  void go_on(overlay::LinkName link) { sent(link, queue_.go_on(link)); }  // it has room again
  void forget(overlay::LinkName link) { queue_.forget(link); }
  void flush_all() { queue_.flush_all(); }
  void give_up(overlay::LinkName link, const Error& why);
  // Links that have ended, which the node does not know yet.
  [[nodiscard]] std::vector<overlay::LinkName> take_failed() { return std::exchange(failed_, {}); }

 private:
  [[nodiscard]] SendQueue::Links access();
  const std::string* frame_of(overlay::Seq seq);
  void sent(overlay::LinkName to, const Result<void>& how);

  LinkTable& links_;
  overlay::Node& node_;
  Log& log_;
  std::function<void(overlay::LinkName)> on_ends_;
  SendQueue queue_;
  std::vector<overlay::LinkName> failed_;
  std::pair<overlay::Seq, std::string> encoded_{0, {}};  // the entry that was sent last, as a frame
};

}  // namespace nacre::group
