// SPDX-License-Identifier: Apache-2.0
//
// Drives a shell's bulk::BulkNode: the bulk streams of its links, and the users of its channels. OverlayDriver owns
// it, and reports links and views to it.
#pragma once

#include "base/pump.hpp"
#include "base/usual.hpp"
#include "bulk/node.hpp"
#include "bulk/port.hpp"
#include "event/loop.hpp"
#include "group/directory.hpp"
#include "group/link_table.hpp"
#include "overlay/collective.hpp"
#include "overlay/node.hpp"

namespace nacre::group {

// Calls to the owner that wait until the caller has nothing else to do: the owner may call back at once. Some of
// them also wait until the owner serves.

class DeferredCalls {
 public:
  using Call = std::function<void()>;

  void add(Call call) { waiting_.push_back(std::move(call)); }
  void add_for_served(Call call) { (serving_ ? waiting_ : kept_).push_back(std::move(call)); }
  // The owner serves from now on: calls kept for that come behind those that wait already.
  void serve() {
    serving_ = true;
    for (Call& each : std::exchange(kept_, {})) add(std::move(each));
  }
  // Drops the calls that wait for the owner to serve.
  void drop_kept() { kept_.clear(); }
  [[nodiscard]] bool serving() const { return serving_; }
  // Makes the first call; false: there is none.
  bool call_next() {
    if (waiting_.empty()) return false;
    Call first = std::move(waiting_.front());
    waiting_.pop_front();
    first();
    return true;
  }

 private:
  std::deque<Call> waiting_;
  std::deque<Call> kept_;
  bool serving_ = false;
};

class BulkDriver final : public bulk::Port {
 public:
  // `before`: the streams of a link up to this one belong to others. `broken` is called for a link that has to end
  // because of bulk data; the link's owner then calls gone(). `wait` is for channels of answers: waited() is to be
  // called kAnswerWait after the last call of it.
  BulkDriver(const bulk::BulkOptions& options, BulkStreams& streams, bulk::StreamId before,
             std::function<void(overlay::LinkName, const Error&)> broken, std::function<void()> wait = {});

  // ---- called by OverlayDriver; the next pump() performs what follows from it
  void look_at(const overlay::Node& node);  // after each change: which node feeds this one, and which ones it feeds
  void linked(overlay::LinkName link);      // down links
  void gone(overlay::LinkName link);
  void cut_off(const Error& why);
  void lead(std::uint64_t term);  // this shell has come to lead, in this term of the overlay
  // ---- likewise, but performed at once
  void pump() {
    pump_.run([this] { return step(); });
  }
  void received(overlay::LinkName from, bulk::StreamId stream, std::string_view bytes);
  void on_credit(overlay::LinkName to, bulk::StreamId stream);
  void waited();
  void close();  // no record is put from now on: ends the channels that can end

  // ---- Port
  void serve(bulk::Channel channel, Upward owner) override;
  void serve(bulk::Channel channel, Downward owner) override;
  void serve_no_more() override;
  Result<bool> put(bulk::Channel channel, std::string_view bytes) override;
  Result<bool> broadcast(bulk::Channel channel, std::string_view bytes) override;
  Result<void> end_broadcast(bulk::Channel channel) override;
  void taken(bulk::Id origin, bulk::Numbered number) override;
  void consumed(bulk::Numbered number) override;

 private:
  using Stream = std::pair<bulk::LinkName, bulk::StreamId>;
  struct Outgoing {
    std::string bytes;
    std::size_t at = 0;  // all before it has been taken
  };

  bool step();  // false: there was nothing to do
  void do_effect(bulk::Write& write);
  void do_effect(bulk::Grant& grant);
  void do_effect(bulk::DeliverRecord& deliver);
  void do_effect(bulk::Announce& announce);
  void do_effect(bulk::Room& room);
  void do_effect(bulk::BroadcastRoom& room);
  void do_effect(bulk::CutOff& /*cut_off*/) { cut_off(Error{ECANCELED, "this shell is taken out of the job"}); }
  void do_effect(bulk::Drained& /*drained*/) {}
  void do_effect(bulk::WaitForMore& /*wait*/) { wait_(); }
  void write_on(const Stream& stream);
  void receive(bulk::DeliverRecord record);
  void deliver(const bulk::DeliverRecord& record);
  void announce(const bulk::Announce& record);
  void call_later(std::function<void()> what) { deferred_.add(std::move(what)); }

  BulkStreams& streams_;
  bulk::StreamId before_;
  std::function<void(overlay::LinkName, const Error&)> broken_;
  std::function<void()> wait_;
  bulk::BulkNode node_;
  std::optional<overlay::Seq> view_;
  std::optional<Rank> feeder_;
  std::map<Stream, Outgoing> outgoing_;
  std::vector<Stream> written_;  // streams that were written, which the node does not know yet
  std::map<bulk::Channel, Upward> upward_;
  std::map<bulk::Channel, Downward> downward_;
  bool serves_all_ = false;
  std::vector<bulk::DeliverRecord> unserved_up_;
  // Records of shells that may know an entry of the log before the leader's own users do (Node::withholds).
  std::vector<bulk::DeliverRecord> early_up_;
  bool withholds_ = false;
  std::vector<bulk::Announce> unserved_down_;
  std::map<bulk::Id, bulk::InOrder> delivered_;
  bulk::InOrder announced_;
  DeferredCalls deferred_;  // callbacks of users
  std::optional<Error> cut_off_;
  Pump pump_;
};

// The values of collectives that go beside the log, from the leader to all. They have a broadcast of their own, as
// that of the job's input stops while tasks do not read. doc/protocol.md, "Values beside the log", has the records.
class ValueCarrier : Noncopyable {
 public:
  using Arrived = std::function<void(overlay::Seq entry, std::string value)>;

  // `port` has to outlive it. `arrived` is empty on the leader, which has the values.
  ValueCarrier(bulk::Port& port, Arrived arrived);

  void publish(overlay::Seq entry, std::string value);  // leader

 private:
  struct Outgoing {
    overlay::Seq entry = 0;
    std::string value;
    std::size_t at = 0;  // all before it has been sent
  };

  void send_more();
  void take(std::string_view record);

  bulk::Port& port_;
  Arrived arrived_;
  std::deque<Outgoing> outgoing_;
  overlay::Pieces incoming_;
  overlay::Seq entry_ = 0;  // the entry whose value is coming in
};

// Bulk data beside the overlay's log: that of the shell's users, and the values of collectives, which have a
// broadcast of their own.
class NodeBulk {
 public:
  struct Callbacks {
    std::function<void(overlay::LinkName, const Error&)> broken;  // a link has to be ended; its owner then calls
                                                                  // gone()
    // A value that the leader has published has come. Not called on the leader, which has it.
    std::function<void(overlay::Seq entry, std::string value)> arrived;
  };

  // `links` has to outlive it. `leads`: this shell is the leader.
  static Result<std::unique_ptr<NodeBulk>> create(event::Loop& loop, const bulk::BulkOptions& options, bool leads,
                                                  LinkTable& links, Callbacks callbacks);

  [[nodiscard]] BulkDriver& users() { return users_; }
  void perform(overlay::Publish& publish) { carrier_.publish(publish.entry, std::move(publish.value)); }
  // After each step of the node: hands on to bulk data which nodes are where now.
  void look_at(const overlay::Node& node);

  void linked(overlay::LinkName link);
  void gone(overlay::LinkName link);
  // From then on values go in the log, but those published before may still be on their way.
  void lead(std::uint64_t term);
  void received(overlay::LinkName from, transport::StreamId stream, std::string_view bytes);
  void on_credit(overlay::LinkName to, transport::StreamId stream) { of(stream).on_credit(to, stream); }
  void cut_off(const Error& why);

 private:
  NodeBulk(const bulk::BulkOptions& options, bool leads, LinkTable& links, const Callbacks& callbacks);
  BulkDriver& of(transport::StreamId stream) { return stream > bulk::kRecords ? values_ : users_; }

  std::optional<event::Timer> answers_timer_;  // of users_
  BulkDriver users_;
  BulkDriver values_;
  ValueCarrier carrier_;
};

}  // namespace nacre::group
