// SPDX-License-Identifier: Apache-2.0
//
// Performs what the overlay's node wants of its links: messages, entries of the log, dials and ends.
#pragma once

#include "base/log.hpp"
#include "group/link_table.hpp"
#include "overlay/effect.hpp"
#include "overlay/node.hpp"

namespace nacre::group {

// Messages that wait until their link has room. The log can be far ahead of a link, so its entries wait here as
// their numbers, not as a copy for each link. Beats do not wait, so that a busy link is not mistaken for a lost
// leader.
class SendQueue {
 public:
  // Access to a link: see LinkTable.
  struct Links {
    std::function<Result<void>(overlay::LinkName, std::string_view frame)> send;
    std::function<bool(overlay::LinkName)> has_room;
    std::function<void(overlay::LinkName)> half_close;
    // The entry as a frame, valid until the next call; null: no member needs it any more.
    std::function<const std::string*(overlay::Seq)> frame_of;
  };
  explicit SendQueue(Links links) : links_(std::move(links)) {}

  // A link's messages go in this order, except for send_first(). An error: the link has to be given up.
  Result<void> send(overlay::LinkName to, std::string frame);
  Result<void> send_entry(overlay::LinkName to, overlay::Seq seq) { return add(to, seq); }
  Result<void> half_close(overlay::LinkName link) { return add(link, Close()); }
  Result<void> send_first(overlay::LinkName to, std::string_view frame) { return links_.send(to, frame); }

  Result<void> go_on(overlay::LinkName link) { return drain(link, true); }  // the link has room again
  // The queue is about to be destroyed: sends all that waits, as far as the link takes it.
  void flush(overlay::LinkName link);
  void flush_all();
  void forget(overlay::LinkName link) { waiting_.erase(link); }
  [[nodiscard]] bool holds(overlay::LinkName link) const { return waiting_.contains(link); }

 private:
  struct Close {};
  using Item = std::variant<std::string, overlay::Seq, Close>;
  struct Less {
    bool operator()(overlay::LinkName a, overlay::LinkName b) const {
      return a.peer != b.peer ? a.peer < b.peer : a.side < b.side;
    }
  };

  Result<void> add(overlay::LinkName link, Item item);
  Result<void> put(overlay::LinkName link, const Item& item);
  Result<void> drain(overlay::LinkName link, bool needs_room);

  Links links_;
  std::map<overlay::LinkName, std::deque<Item>, Less> waiting_;  // without empty queues
};

class LinkSender : Noncopyable {
 public:
  // All have to outlive this object. `on_ends`: a link is given up, or is about to be hung up.
  LinkSender(LinkTable& links, overlay::Node& node, Log& log, std::function<void(overlay::LinkName)> on_ends)
      : links_(links), node_(node), log_(log), on_ends_(std::move(on_ends)), queue_(access()) {}

  void perform(overlay::Send& message);
  void perform(overlay::SendEntry& entry) { sent(entry.to, queue_.send_entry(entry.to, entry.seq)); }
  void perform(overlay::Dial& dial);
  void perform(overlay::HangUp& hang_up);
  void perform(overlay::HalfClose& half_close) { sent(half_close.link, queue_.half_close(half_close.link)); }

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
