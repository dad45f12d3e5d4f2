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
#include "group/deferred_calls.hpp"
#include "group/driver_hooks.hpp"
#include "group/group.hpp"
#include "group/keep_alive.hpp"
#include "group/link_sender.hpp"
#include "group/link_table.hpp"
#include "group/membership.hpp"
#include "group/node_bulk.hpp"
#include "group/node_reports.hpp"
#include "group/node_timer.hpp"
#include "group/open_calls.hpp"
#include "group/own_scope.hpp"
#include "overlay/node.hpp"

namespace nacre::group {

class OverlayDriver final : public Group {
 public:
  // `bounds`: the overlay's bounds; `membership` has this shell's place in it. `log` has to outlive this object.
  static Result<std::unique_ptr<OverlayDriver>> create(event::Loop& loop, Membership membership, Log& log,
                                                       overlay::OverlayOptions bounds = {});

  void serve(Callbacks callbacks) override;
  void enter(std::string_view barrier, std::function<void(Result<void>)> done) override;
  void sum_with_all(std::string_view barrier, std::int64_t mine, WhenCounted done) override;
  void max_with_all(std::string_view barrier, std::int64_t mine, WhenCounted done) override;
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
  bulk::Port* bulk() override { return &bulk_->users(); }
  void close_bulk() override { bulk_->users().close(); }
  void wait_for_silent(std::chrono::milliseconds bound) override { node_.wait_for_silent(bound); }
  [[nodiscard]] std::string silence_of(Rank rank) const override { return reports_.silence_of(rank); }
  [[nodiscard]] bool has_ended(Rank rank) const override { return node_.has_ended(rank); }
  void suspect(Rank rank) override;
  void hold_links(const value::Idset& shells) override { link_table_->hold(shells); }
  void give_up_absent() override;
  void give_up_silent() override { static_cast<void>(announce(kGiveUpSilent, "")); }
  void leave(int code, std::function<void(std::optional<int>)> done) override;
  std::optional<UniqueFd> take_last_link() override;
  void stay() override;

  // While a handler runs a thread sends beats, so that the others do not count this shell as lost (KeepAlive).
  Result<void> keep_alive();
  [[nodiscard]] DriverHooks& hooks() { return reports_.hooks; }
  [[nodiscard]] Membership& membership() { return membership_; }
  Result<const transport::Secret*> secret() override { return &membership_.secret; }
  [[nodiscard]] const overlay::Node& node() const { return node_; }

 private:
  OverlayDriver(Membership&& membership, Log& log, const overlay::OverlayOptions& options);
  [[nodiscard]] LinkTable::Callbacks callbacks();
  void unlinked(overlay::LinkName link);
  [[nodiscard]] std::optional<overlay::LinkName> last_link() const;
  void tick() { node_.tick(present()); }
  // Calls `begin`, which gives the key of what is to be answered, or an error; `done` gets the answer.
  template <typename Done, typename Begin>
  void open(Done done, Begin begin);
  void ask(overlay::RequestBody body);

  // Performs the node's effects, then calls the owner, until nothing is left.
  void pump();
  bool step();  // false: there was nothing to do
  void perform(overlay::Joined& joined);
  void perform(overlay::Leave& leave);
  void perform(overlay::Die& die);
  void perform(overlay::Finished& finished);
  void end(Error why);
  void end_if_gone();

  Log& log_;
  Membership membership_;
  overlay::Node node_;
  std::unique_ptr<KeepAlive> keep_alive_;
  std::unique_ptr<LinkTable> link_table_;
  std::unique_ptr<LinkSender> sender_;
  std::unique_ptr<NodeBulk> bulk_;
  NodeTimer timer_;
  OwnScope own_scope_;
  DeferredCalls deferred_;  // for the owner
  OpenCalls open_calls_{deferred_};
  NodeReports reports_;
  Pump pump_;
  std::optional<Error> cut_off_;
  bool removed_ = false;  // by a shrink, and not finished yet
  bool finished_ = false;
  bool leaving_ = false;
  std::function<void(std::optional<int>)> when_gone_;
};

}  // namespace nacre::group
