// SPDX-License-Identifier: Apache-2.0
//
// The links of one shell to others, by rank and side: what the effects of overlay::Node are done with. A link that comes in is
// told from its first words (doc/protocol.md, "First words") and its HELLO; only then its owner hears of it.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "event/loop.hpp"
#include "group/membership.hpp"
#include "overlay/effect.hpp"
#include "transport/dialer.hpp"
#include "transport/link.hpp"
#include "transport/listener.hpp"

namespace nacre::group {

class LinkTable {
 public:
  // Called from the loop, never from within a call of a member; none may destroy the LinkTable. on_unlinked: a link that was
  // there, or a dial that has failed; not after hang_up().
  struct Callbacks {
    std::function<void(overlay::Link)> on_linked;
    std::function<void(overlay::Link, const overlay::Message&)> on_message;
    std::function<void(overlay::Link, transport::StreamId, std::string_view bytes)> on_bulk;  // as transport::Link
    std::function<void(overlay::Link, transport::StreamId)> on_credit;                        // likewise
    std::function<void(overlay::Link)> on_room;                                               // likewise
    std::function<void(overlay::Link, const Error& why)> on_unlinked;
    // A shell that can never be linked: it speaks another protocol. `is_above`: it was dialled.
    std::function<void(Rank, bool is_above, const Error& why)> on_misfit;
    std::function<void(const Error&)> on_refused;  // somebody who is no shell of this job, or no sound one
    std::function<void()> on_closed;               // a link has gone, after hang_up() too
  };
  static Result<std::unique_ptr<LinkTable>> create(event::Loop& loop, Membership& membership, Callbacks callbacks);
  ~LinkTable();

  // An error: it is not even tried, and on_unlinked is not called.
  Result<void> dial(Rank peer);
  // An error is a link that has to be given up. What is for a link that has gone is dropped: on_unlinked has reported it or
  // will, and it may be dialled again already.
  Result<void> send(overlay::Link to, std::string_view message);
  [[nodiscard]] bool has_room(overlay::Link to);  // as transport::Link; true if there is none
  // Bulk, as transport::Link; nothing is taken where there is no link.
  std::size_t write(overlay::Link to, transport::StreamId stream, std::string_view bytes);
  Result<void> grant(overlay::Link to, transport::StreamId stream, std::size_t bytes);
  void hang_up(overlay::Link link);     // after what was sent before
  void half_close(overlay::Link link);  // what the peer says is still heard
  void give_up(overlay::Link link);     // at once; on_unlinked is not called
  // While it is set, a link whose peer has said all is kept, so that this shell can still speak.
  void keep_half_closed(bool keep) { keep_half_closed_ = keep; }
  // No more links come or are made, and those that are there are hung up.
  void stop();
  // None is open or closing, but for those to shells that have `gone`.
  [[nodiscard]] bool idle(const std::function<bool(Rank)>& gone) const;

 private:
  struct Wire {
    transport::OwnedLink link;
    std::optional<overlay::Link> name;  // none: accepted, and HELLO has not been said
    bool introduced = false;            // its first words have come
    bool closing = false;               // hung up
    double deadline = 0;                // of an unnamed or closing one
  };
  using Place = std::list<Wire>::iterator;

  LinkTable(event::Loop& loop, Membership& membership, std::unique_ptr<transport::Credentials> credentials,
            Callbacks callbacks);
  Result<void> listen(std::vector<transport::BoundSocket> sockets);
  void add(transport::OwnedLink link, std::optional<overlay::Link> name);
  void dialled(Rank peer, Result<transport::OwnedLink> link);
  void heard(Place wire, std::string_view frame);
  Result<void> introduce(Place wire, std::string_view words);
  Result<void> name_it(Place wire, const overlay::Message& message);
  void heard_bulk(Place wire, transport::StreamId stream, std::string_view bytes);
  void finished(Place wire);
  void closed(Place wire, const std::optional<Error>& why);
  void refuse(Place wire, const Error& why);
  void close(Wire& wire);
  void expire();
  [[nodiscard]] Place find(overlay::Link name);

  event::Loop& loop_;
  Membership& membership_;
  Callbacks callbacks_;
  std::unique_ptr<transport::Credentials> credentials_;
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::map<Rank, std::unique_ptr<transport::Dialer>> dialers_;
  std::list<Wire> link_table_;
  std::optional<event::Timer> timer_;
  bool keep_half_closed_ = false;
};

}  // namespace nacre::group
