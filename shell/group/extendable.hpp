// SPDX-License-Identifier: Apache-2.0
//
// The only shell of a job that may get others while it runs. Until extend() it is as Alone: it has no
// socket, no thread and no log. Then it is the leader of a job of one shell that others can join.
#pragma once

#include "bulk/port.hpp"
#include "group/alone.hpp"
#include "group/overlay_driver.hpp"

namespace nacre::group {

// The bulk port of a shell that is alone so far. Once there are others the job has another port, and this one
// passes on to it who serves which channel, and all later calls. Until then there is nobody to send to.
class LaterPort final : public bulk::Port {
 public:
  // From now on `port` is used, which has to outlive this object. At most once.
  void become(bulk::Port& port);

  void serve(bulk::Channel channel, Upward owner) override;
  void serve(bulk::Channel channel, Downward owner) override;
  void serve_no_more() override;
  // ENOTCONN: there is no other shell yet.
  Result<bool> put(bulk::Channel channel, std::string_view bytes) override;
  Result<bool> broadcast(bulk::Channel channel, std::string_view bytes) override;
  Result<void> end_broadcast(bulk::Channel channel) override;
  void taken(bulk::Id origin, bulk::Numbered number) override;
  void consumed(bulk::Numbered number) override;

 private:
  bulk::Port* port_ = nullptr;  // none: the shell is alone
  std::map<bulk::Channel, Upward> upward_;
  std::map<bulk::Channel, Downward> downward_;
  bool serves_all_ = false;
};

class Extendable final : public Group {
 public:
  // The numbers of orders are used once in a job: those given before extend() are above all numbers that a log has.
  static constexpr std::uint64_t kFirstOrder = std::uint64_t{1} << 62;

  // At most once, after serve(), and before leave(). `membership`: of shell 0 of 1. After an error this shell is
  // alone as before. The driver is this object's; `log` has to outlive it.
  Result<OverlayDriver*> extend(event::Loop& loop, Membership membership, Log& log);

  void serve(Callbacks callbacks) override { now_->serve(std::move(callbacks)); }
  Result<const transport::Secret*> secret() override { return now_->secret(); }
  void enter(std::string_view barrier, std::function<void(Result<void>)> done) override {
    now_->enter(barrier, std::move(done));
  }
  void sum_with_all(std::string_view barrier, std::int64_t mine, WhenCounted done) override {
    now_->sum_with_all(barrier, mine, std::move(done));
  }
  void max_with_all(std::string_view barrier, std::int64_t mine, WhenCounted done) override {
    now_->max_with_all(barrier, mine, std::move(done));
  }
  void gather(std::string_view name, std::string mine, WhenGathered done) override {
    now_->gather(name, std::move(mine), std::move(done));
  }
  void gather_up_to(Rank last, std::string_view name, std::string mine, WhenGathered done) override {
    now_->gather_up_to(last, name, std::move(mine), std::move(done));
  }
  [[nodiscard]] Rank last_come_with(Rank rank) const override { return now_->last_come_with(rank); }
  void raise(const JobException& exception) override { now_->raise(exception); }
  void request(overlay::RequestBody body, WhenAnswered done) override {
    now_->request(std::move(body), std::move(done));
  }
  Result<void> announce(std::string_view topic, std::string_view bytes) override {
    return now_->announce(topic, bytes);
  }
  void exec(value::ExecOrder order, WhenOrdered done) override { now_->exec(std::move(order), std::move(done)); }
  [[nodiscard]] Rank first_unused() const override { return now_->first_unused(); }
  void tasks_started(const value::Idset& tasks) override { now_->tasks_started(tasks); }
  void tasks_ended(const Ended& ended) override { now_->tasks_ended(ended); }
  bulk::Port* bulk() override { return &port_; }
  void close_bulk() override { now_->close_bulk(); }
  void wait_for_silent(std::chrono::milliseconds bound) override;
  [[nodiscard]] std::string silence_of(Rank rank) const override { return now_->silence_of(rank); }
  [[nodiscard]] bool has_ended(Rank rank) const override { return now_->has_ended(rank); }
  void suspect(Rank rank) override { now_->suspect(rank); }
  void hand_over(bool has_arbiter, std::uint32_t silences) override { now_->hand_over(has_arbiter, silences); }
  void arbiter_agrees(const value::Idset& others) override { now_->arbiter_agrees(others); }
  void resign() override { now_->resign(); }
  [[nodiscard]] Rank leader() const override { return now_->leader(); }
  void end_job(int code) override { now_->end_job(code); }
  void hold_links(const value::Idset& shells) override;
  void give_up_absent() override { now_->give_up_absent(); }
  void give_up_silent() override { now_->give_up_silent(); }
  void leave(int code, std::function<void(std::optional<int>)> done) override {
    now_->leave(code, std::move(done));
  }
  std::optional<UniqueFd> take_last_link() override { return now_->take_last_link(); }
  void stay() override { now_->stay(); }

 private:
  Alone alone_{0, kFirstOrder};
  LaterPort port_;
  std::unique_ptr<OverlayDriver> driver_;  // once it is extended
  Group* now_ = &alone_;
  std::optional<std::chrono::milliseconds> silent_bound_;
  value::Idset held_;
};

}  // namespace nacre::group
