// SPDX-License-Identifier: Apache-2.0
//
// One shell of several: it drives the overlay's node (doc/protocol.md) over links, and passes what the job's log
// has on to the shell.
//
// It dials as soon as it is made. What concerns the whole job is kept until serve() is called.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/log.hpp"
#include "base/pump.hpp"
#include "event/loop.hpp"
#include "group/announcements.hpp"
#include "group/bulk_driver.hpp"
#include "group/deferred_calls.hpp"
#include "group/driver_hooks.hpp"
#include "group/group.hpp"
#include "group/keep_alive.hpp"
#include "group/link_table.hpp"
#include "group/membership.hpp"
#include "group/open_calls.hpp"
#include "group/send_queue.hpp"
#include "group/value_carrier.hpp"
#include "overlay/node.hpp"

namespace nacre::group {

class OverlayDriver final : public Group {
 public:
  // `bounds`: the overlay's bounds; `membership` has this shell's place in it. `log` has to outlive this object.
  static Result<std::unique_ptr<OverlayDriver>> create(event::Loop& loop, Membership membership, Log& log,
                                                       overlay::OverlayOptions bounds = {});

  void serve(Callbacks callbacks) override;
  void enter(std::string_view barrier, std::function<void(Result<void>)> done) override;
  void enter_with_all(std::string_view barrier, std::function<void(Result<void>)> done) override;
  void gather(std::string_view name, std::string mine, WhenGathered done) override;
  void gather_up_to(Rank last, std::string_view name, std::string mine, WhenGathered done) override;
  [[nodiscard]] Rank last_come_with(Rank rank) const override;
  void raise(const JobException& exception) override;
  void signal(int signum, const Targets& tasks) override;
  Result<void> announce(std::string_view topic, std::string_view bytes) override;
  void exec(value::ExecOrder order, WhenOrdered done) override;
  void shrink(const value::Idset& shells, WhenShrunk done) override;
  void grow(const value::Idset& shells, std::chrono::milliseconds wait, WhenGrown done) override;
  void tasks_started(const value::Idset& tasks) override;
  void tasks_ended(const Ended& ended) override;
  bulk::Port* bulk() override { return bulk_driver_.get(); }
  void close_bulk() override { bulk_driver_->close(); }
  void wait_for_silent(std::chrono::milliseconds bound) override { node_.wait_for_silent(bound); }
  void suspect(Rank rank) override;
  void hold_links(const value::Idset& shells) override { link_table_->hold(shells); }
  void give_up_absent() override;
  void give_up_silent() override { static_cast<void>(announce(kGiveUpSilent, "")); }
  void leave(int code, std::function<void(std::optional<int>)> done) override;
  std::optional<UniqueFd> take_last_link() override;
  void stay() override;

  // While a handler runs a thread sends beats, so that the others do not count this shell as lost (KeepAlive).
  Result<void> keep_alive();
  [[nodiscard]] DriverHooks& hooks() { return hooks_; }
  [[nodiscard]] const Membership& membership() const { return membership_; }
  [[nodiscard]] Directory& directory() { return membership_.directory; }
  [[nodiscard]] const overlay::Node& node() const { return node_; }

 private:
  OverlayDriver(Membership&& membership, Log& log, const overlay::OverlayOptions& options);
  [[nodiscard]] LinkTable::Callbacks callbacks();
  void on_timer();
  void start_timer();
  void start_bulk();
  void bulk_gone(overlay::LinkName link);
  void unlinked(overlay::LinkName link);
  [[nodiscard]] std::optional<overlay::LinkName> last_link() const;
  void tick();
  void open_collective(std::string name, overlay::Merge merge, const overlay::Own& mine, overlay::Scope scope,
                       OpenCalls::WhenReleased done);
  [[nodiscard]] std::string own_name(std::string_view collective) const;
  void ask(overlay::RequestBody body);

  // Performs the node's effects, then calls the owner, until nothing is left.
  void pump();
  bool step();  // false: there was nothing to do
  void do_effect(overlay::Send& send);
  void do_effect(overlay::SendEntry& send);
  void do_effect(overlay::Dial& dial);
  void do_effect(overlay::HangUp& hang_up);
  void do_effect(overlay::HalfClose& half_close);
  void do_effect(overlay::Deliver& deliver);
  void do_effect(overlay::Released& released);
  void do_effect(overlay::Publish& publish);
  void do_effect(overlay::Unfit& unfit);
  void do_effect(overlay::TooLarge& overflow);
  void do_effect(overlay::Completed& /*completed*/) {}
  void do_effect(overlay::Reported& reported);
  void do_effect(overlay::Joined& joined);
  void do_effect(overlay::Leave& leave);
  void do_effect(overlay::Die& die);
  void do_effect(overlay::Finished& finished);
  void do_effect(overlay::Arm& arm);
  void do_effect(overlay::Note& note);
  [[nodiscard]] SendQueue::Links links();
  const std::string* frame_of(overlay::Seq seq);
  void sent(overlay::LinkName to, const Result<void>& how);
  void give_up(overlay::LinkName link, const Error& why);
  void deliver(const overlay::Entry& entry);
  void deliver(const overlay::View& view);
  void deliver(const overlay::Event& event);
  void note_address(Rank rank, const std::string& address);
  void end(Error why);
  void end_if_short(const Error& why);  // of descriptors or memory
  void end_if_gone();

  Log& log_;
  Membership membership_;
  overlay::Node node_;
  std::unique_ptr<KeepAlive> keep_alive_;
  std::unique_ptr<LinkTable> link_table_;
  SendQueue send_queue_;
  std::unique_ptr<BulkDriver> bulk_driver_;
  std::unique_ptr<BulkDriver> value_driver_;  // with a broadcast of its own
  std::optional<ValueCarrier> value_carrier_;
  std::optional<event::Timer> timer_, answers_timer_;  // the latter of bulk_driver_
  overlay::Time due_{};                                // when the node wants its next tick
  Callbacks callbacks_;
  DriverHooks hooks_;
  overlay::Scope own_scope_{0, 0};  // of the collectives of the shells that have joined with this one
  DeferredCalls deferred_;          // for the owner
  OpenCalls open_calls_{deferred_};
  std::vector<overlay::LinkName> failed_;  // links that have ended, which the node does not know yet
  Announcements announcements_;
  Pump pump_;
  std::pair<overlay::Seq, std::string> encoded_{0, {}};  // the entry that was sent last, as a frame
  std::optional<Error> cut_off_;
  bool removed_ = false;  // by a shrink, and not finished yet
  bool finished_ = false;
  bool leaving_ = false;
  bool gives_up_absent_ = false;
  std::optional<int> code_;  // the job's, once the leader has decided
  std::function<void(std::optional<int>)> when_gone_;
};

}  // namespace nacre::group
