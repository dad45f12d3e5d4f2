// SPDX-License-Identifier: Apache-2.0
//
// Drives a shell's bulk::BulkNode: the bulk streams of its links, and the users of its channels. OverlayDriver owns
// it, and reports links and views to it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/pump.hpp"
#include "bulk/in_order.hpp"
#include "bulk/node.hpp"
#include "bulk/port.hpp"
#include "group/bulk_streams.hpp"
#include "group/deferred_calls.hpp"
#include "group/directory.hpp"
#include "overlay/node.hpp"

namespace nacre::group {

class BulkDriver final : public bulk::Port {
 public:
  // `before`: the link's streams up to this one belong to others. `broken` is called for a link that bulk has to
  // end; its owner then calls gone(). `wait`, if there are channels of answers: waited() is to be called after
  // kAnswerWait, which begins anew.
  BulkDriver(const bulk::BulkOptions& options, BulkStreams& streams, bulk::StreamId before,
             std::function<void(overlay::LinkName, const Error&)> broken, std::function<void()> wait = {});

  // ---- called by OverlayDriver; the next pump() performs what follows from it
  void look_at(const overlay::Node& node);  // after each change: which node feeds this one, and which ones it feeds
  void linked(overlay::LinkName link);      // down links
  void gone(overlay::LinkName link);
  void cut_off(const Error& why);
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
    std::size_t at = 0;  // what is before it has been taken
  };

  bool step();  // false: there was nothing to do
  void do_effect(bulk::Write& write);
  void do_effect(bulk::Grant& grant);
  void do_effect(bulk::DeliverRecord& deliver);
  void do_effect(bulk::Announce& announce);
  void do_effect(bulk::Room& room);
  void do_effect(bulk::BroadcastRoom& room);
  void do_effect(bulk::CutOff& cut_off);
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
  std::vector<bulk::Announce> unserved_down_;
  std::map<bulk::Id, bulk::InOrder> delivered_;
  bulk::InOrder announced_;
  DeferredCalls deferred_;  // callbacks of users
  std::optional<Error> cut_off_;
  Pump pump_;
};

}  // namespace nacre::group
