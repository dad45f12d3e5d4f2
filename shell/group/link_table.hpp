// SPDX-License-Identifier: Apache-2.0
//
// The links of one shell to others, by rank and side: the effects of overlay::Node are performed on them. An
// incoming link is identified by its first words (doc/protocol.md, "First words") and its HELLO; only then is it
// reported to the owner.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <mutex>

#include "base/current_call.hpp"
#include "bulk/options.hpp"
#include "event/loop.hpp"
#include "group/directory.hpp"
#include "overlay/effect.hpp"
#include "transport/dialer.hpp"
#include "transport/link.hpp"

namespace nacre::group {

// The bulk streams of the links of a shell, as BulkDriver writes them.
class BulkStreams {
 public:
  virtual ~BulkStreams() = default;
  // As transport::Link; takes nothing if there is no link.
  virtual std::size_t write(value::LinkName to, bulk::StreamId stream, std::string_view bytes) = 0;
  virtual Result<void> grant(value::LinkName to, bulk::StreamId stream, std::size_t bytes) = 0;
};

// While a handler of a plugin runs this shell handles nothing else, so the others would count it as lost. A thread
// notices the handler, and sends busy beats on the shell's links until the handler returns (rule 16 of
// doc/protocol.md). It also writes a line to stderr about a handler that takes long.
//
// On a link the thread only uses Link::send_beside(). While no handler runs it waits, without a timer.
class KeepAlive : Noncopyable {
 public:
  static constexpr std::int64_t kFirstLine = 10'000;  // milliseconds; when a handler counts as one that takes long
  static constexpr std::int64_t kNextLine = 600'000;  // milliseconds between two lines about the same call

  // `beat`: the message for a link of this side; called in the thread. Two are sent in each interval. A process has
  // one such object at a time.
  static Result<std::unique_ptr<KeepAlive>> create(std::chrono::milliseconds interval,
                                                   std::function<std::string(value::Side)> beat);
  ~KeepAlive();

  // While it lives, beats go out on the link, which has to live longer.
  class Share {
   public:
    Share() = default;
    Share(KeepAlive& owner, transport::Link& link, value::Side side);

   private:
    struct Leave {
      transport::Link* link;
      void operator()(KeepAlive* owner) const { owner->remove(link); }
    };
    std::unique_ptr<KeepAlive, Leave> owner_;
  };

 private:
  KeepAlive(std::chrono::milliseconds interval, std::function<std::string(value::Side)> beat)
      : interval_(interval), beat_(std::move(beat)) {}
  void remove(transport::Link* link);
  void begun();
  static void* serve(void* self);
  void run();
  bool look();
  // A call that a line was written about. Times are of CallPage::clock().
  struct LongCall {
    CallPage::Place place;
    std::string plugin;
    std::string topic;
    std::int64_t since = 0;
    std::int64_t next_line = 0;
  };
  void report(const CallPage& page);
  void report_return();

  const std::chrono::milliseconds interval_;  // of beats
  const std::function<std::string(value::Side)> beat_;
  std::optional<pthread_t> thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<transport::Link*, value::Side> links_;
  bool waits_ = false;  // for a call to begin
  bool ending_ = false;
  std::optional<LongCall> reported_;  // of the thread
};

class LinkTable final : public BulkStreams {
 public:
  // Called from the loop, never from within a call of a member; none may destroy the LinkTable. on_unlinked: a link
  // has ended, or a dial has failed; it is not called after hang_up().
  struct Callbacks {
    std::function<void(overlay::LinkName)> on_linked;
    std::function<void(overlay::LinkName, const overlay::Message&)> on_message;
    std::function<void(overlay::LinkName, transport::StreamId, std::string_view bytes)>
        on_bulk;                                                            // as transport::Link
    std::function<void(overlay::LinkName, transport::StreamId)> on_credit;  // likewise
    std::function<void(overlay::LinkName)> on_room;                         // likewise
    std::function<void(overlay::LinkName, const Error& why)> on_unlinked;
    // A shell that can never be linked, as it has another protocol. `is_above`: this shell dialled it.
    std::function<void(Rank, bool is_above, const Error& why)> on_misfit;
    std::function<void(const Error&)> on_refused;  // a peer that is no shell of this job, or is faulty
    std::function<void()> on_closed;               // a link has gone; also called after hang_up()
  };
  static Result<std::unique_ptr<LinkTable>> create(event::Loop& loop, Membership& membership, Callbacks callbacks);
  ~LinkTable() override;

  // After an error no connection is tried, and on_unlinked is not called.
  Result<void> dial(Rank peer);
  // After an error the caller gives the link up. A message for a link that has gone is dropped: on_unlinked has
  // reported the link or will, and the peer may already be dialled again.
  Result<void> send(overlay::LinkName to, std::string_view message);
  [[nodiscard]] bool has_room(overlay::LinkName to);  // as transport::Link; true if there is no such link
  std::size_t write(overlay::LinkName to, transport::StreamId stream, std::string_view bytes) override;
  Result<void> grant(overlay::LinkName to, transport::StreamId stream, std::size_t bytes) override;
  void hang_up(overlay::LinkName link);     // once all that was sent is out
  void half_close(overlay::LinkName link);  // this shell still receives from the peer
  void give_up(overlay::LinkName link);     // at once; on_unlinked is not called
  // While set, a link whose peer has finished is kept, so that this shell can still send.
  void keep_half_closed(bool keep) { keep_half_closed_ = keep; }
  // From now on the links to these shells, and only these, are held (transport::Link::hold), also links made later.
  void hold(value::Idset peers);
  // Beats of `sender`, which has to outlive this object, go out on all links.
  void keep_alive(KeepAlive& sender);
  // Hangs up all links except `but`; no link is accepted or dialled any more.
  void stop(std::optional<overlay::LinkName> but = {});
  // Takes the socket out of a link, which stays open for the peer. None: not all that was sent is out yet. Empty:
  // there is no such link.
  std::optional<UniqueFd> release(overlay::LinkName link);
  // Whether no link is open or closing. These do not count: links to shells that have `gone`, hung-up links to
  // shells below that have acknowledged all that they need, and the link that stop() has kept.
  [[nodiscard]] bool idle(const std::function<bool(Rank)>& gone) const;

 private:
  struct Wire {
    transport::OwnedLink link;
    KeepAlive::Share share;
    std::optional<overlay::LinkName> name;  // none: an accepted link whose HELLO has not come
    bool introduced = false;                // its first words have come
    bool closing = false;                   // hung up
    double deadline = 0;                    // while it is unnamed or closing
  };
  using Place = std::list<Wire>::iterator;

  LinkTable(event::Loop& loop, Membership& membership, std::unique_ptr<transport::Credentials> credentials,
            Callbacks callbacks);
  Result<void> listen(std::vector<transport::BoundSocket> sockets);
  void hold_if_asked(Wire& wire) const;
  void share(Wire& wire);
  void add(transport::OwnedLink link, std::optional<overlay::LinkName> name);
  void dialled(Rank peer, Result<transport::OwnedLink> link);
  void receive(Place wire, std::string_view frame);
  Result<void> introduce(Place wire, std::string_view words);
  Result<void> name_it(Place wire, const overlay::Message& message);
  void receive_bulk(Place wire, transport::StreamId stream, std::string_view bytes);
  void finished(Place wire);
  void closed(Place wire, const std::optional<Error>& why);
  void refuse(Place wire, const Error& why);
  void close(Wire& wire);
  void expire();
  [[nodiscard]] Place find(overlay::LinkName name);

  event::Loop& loop_;
  Membership& membership_;
  Callbacks callbacks_;
  std::unique_ptr<transport::Credentials> credentials_;
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::map<Rank, std::unique_ptr<transport::Dialer>> dialers_;
  std::list<Wire> link_table_;
  std::optional<event::Timer> timer_;
  bool keep_half_closed_ = false;
  std::optional<overlay::LinkName> kept_;  // the link kept when all others were hung up
  value::Idset held_;                      // peers
  KeepAlive* keep_alive_ = nullptr;
};

}  // namespace nacre::group
