// SPDX-License-Identifier: Apache-2.0
//
// What waits until its link has room: the log can be far ahead of what a link can carry, and then it is kept as numbers of
// entries here and not once more for each link. Beats do not wait, so a link that carries much is not taken for a lost leader.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "overlay/effect.hpp"

namespace nacre::group {

class SendQueue {
 public:
  // What is done with a link: see LinkTable.
  struct Links {
    std::function<Result<void>(overlay::Link, std::string_view frame)> send;
    std::function<bool(overlay::Link)> has_room;
    std::function<void(overlay::Link)> half_close;
    // The entry as a frame; null: nobody needs it any more. Good until the next call.
    std::function<const std::string*(overlay::Seq)> frame_of;
  };
  explicit SendQueue(Links links) : links_(std::move(links)) {}

  // All of a link's in this order, but for send_first(). An error is a link that has to be given up.
  Result<void> send(overlay::Link to, std::string frame);
  Result<void> send_entry(overlay::Link to, overlay::Seq seq);
  Result<void> half_close(overlay::Link link);
  Result<void> send_first(overlay::Link to, std::string_view frame) { return links_.send(to, frame); }

  Result<void> go_on(overlay::Link link);  // it has room again
  // There will be no later: all that waits goes now, as far as the link takes it.
  void flush(overlay::Link link);
  void flush_all();
  void forget(overlay::Link link) { waiting_.erase(link); }
  [[nodiscard]] bool holds(overlay::Link link) const { return waiting_.contains(link); }

 private:
  struct Close {};
  using Item = std::variant<std::string, overlay::Seq, Close>;
  struct Less {
    bool operator()(overlay::Link a, overlay::Link b) const {
      return a.peer != b.peer ? a.peer < b.peer : a.side < b.side;
    }
  };

  Result<void> add(overlay::Link link, Item item);
  Result<void> put(overlay::Link link, const Item& item);
  Result<void> drain(overlay::Link link, bool needs_room);

  Links links_;
  std::map<overlay::Link, std::deque<Item>, Less> waiting_;  // none of them empty
};

}  // namespace nacre::group
