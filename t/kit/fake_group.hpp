// SPDX-License-Identifier: Apache-2.0
//
// The group of a shell under test, without other shells: the test acts for them, and reads what the shell has done.
// As with group::OverlayDriver, the leader gets its own exceptions and signals at once, others from the loop.
#pragma once

#include "catch.hpp"

#include "event/loop.hpp"
#include "group/group.hpp"

namespace nacre::kit {

class FakeGroup : public group::Group {
 public:
  using Exception = group::JobException;
  FakeGroup(event::Loop& loop, group::Rank rank)
      : rank_(rank), turn_(event::Timer::create(loop, [this] { deliver(); }).value()) {}

  // What the other shells do.
  std::set<std::string> never_entered;                      // barriers that some of the others do not come to
  std::map<std::string, std::function<void()>> at_barrier;  // what happens once this shell waits there
  std::optional<int> decided;  // the job's code, by the leader; none: this shell never learns it. If this shell
                               // leads: its own code
  bool answers_leave = true;
  std::int64_t others_sum = 0, others_max = 0;  // what the others give to sum_with_all() and max_with_all()
  std::optional<group::Ended> others;  // leader: how the others' tasks end, once all have passed the start barrier
  void raise_elsewhere(const Exception& exception) {
    if (callbacks_.on_exception) callbacks_.on_exception(exception);
  }
  void lose(group::Rank rank) { callbacks_.on_lost(rank); }
  void signal_elsewhere(int signum, const group::Targets& tasks) { callbacks_.on_signal(signum, tasks); }
  void end_elsewhere(const group::Ended& tasks) { callbacks_.on_tasks({}, {tasks}); }
  void cut_off(const std::string& why) {
    is_cut_off_ = true;
    callbacks_.on_cut_off({EPIPE, why});
    for (auto& [name, done] : std::exchange(waiting_, {})) done(Error{EPIPE, why});
  }
  // What the shell has done, in order: "enter init", "raise TYPE SEVERITY CODE: MESSAGE", "signal 15", "announce
  // TOPIC", "close bulk", "give up absent", "silent 3000", "suspect 2", "leave 1".
  std::vector<std::string> acts;
  value::Idset started;
  std::vector<group::Ended> ended;
  [[nodiscard]] std::size_t count(std::string_view act) const {
    return std::count_if(acts.begin(), acts.end(), [&](const std::string& each) { return each.find(act) == 0; });
  }
  [[nodiscard]] std::vector<std::string> raised() const {
    std::vector<std::string> out(acts);
    std::erase_if(out, [](const std::string& act) { return !act.starts_with("raise "); });
    return out;
  }
  Result<const transport::Secret*> secret() override { return invalid("this group has none"); }
  void serve(Callbacks callbacks) override {
    callbacks_ = std::move(callbacks);
    serving_ = static_cast<bool>(callbacks_.on_exception);
  }
  [[nodiscard]] bool serving() const { return serving_; }
  void enter_barrier(const std::string& name) {
    if (auto done = waiting_.extract(name)) done.mapped()({});
  }
  void enter(std::string_view barrier, std::function<void(Result<void>)> done) override {
    wait_at("enter", std::string(barrier), std::move(done));
  }
  void sum_with_all(std::string_view name, std::int64_t mine, WhenCounted done) override {
    enter(name, [this, mine, done](const Result<void>& passed) {
      done(passed ? Result<std::int64_t>(mine + others_sum) : passed.error());
    });
  }
  void max_with_all(std::string_view name, std::int64_t mine, WhenCounted done) override {
    enter(name, [this, mine, done](const Result<void>& passed) {
      done(passed ? Result<std::int64_t>(std::max(mine, others_max)) : passed.error());
    });
  }
  void gather(std::string_view name, std::string mine, WhenGathered done) override {
    wait_at("gather", std::string(name),
            [this, mine = std::move(mine), done = std::move(done)](const Result<void>& passed) {
              done(passed ? Result<Gathered>(Gathered{{mine, value::Idset::range(rank_, rank_)}}) : passed.error());
            });
  }
  void gather_up_to(group::Rank /*last*/, std::string_view name, std::string mine, WhenGathered done) override {
    gather(name, std::move(mine), std::move(done));
  }
  [[nodiscard]] group::Rank last_come_with(group::Rank rank) const override { return std::max(rank, rank_); }
  void raise(const Exception& exception) override {
    acts.push_back(fmt::format("raise {} {} {}: {}", exception.of_shell ? "shell" : exception.type,
                               exception.severity, exception.exit_code.value_or(-1), exception.message));
    Exception mine = exception;
    mine.origin = rank_;
    in_order([this, mine] { raise_elsewhere(mine); });
  }
  void request(overlay::RequestBody body, WhenAnswered done) override {
    overlay::Entry entry;
    std::visit(
        [&]<typename T>(const T& asked) {
          acts.emplace_back(T::kName);
          if constexpr (std::is_constructible_v<overlay::EntryBody, T>) entry.body = asked;
        },
        body);
    if (done) return done(Error{ENOTSUP, "no requests with an answer here"});
    if (const auto* signal = std::get_if<overlay::Signal>(&entry.body))
      acts.back() += fmt::format(" {}", signal->number);
    if (auto tell = group::told_of(entry, rank_)) in_order([this, tell] { tell(callbacks_); });
  }
  Result<void> announce(std::string_view topic, std::string_view bytes) override {
    acts.push_back(fmt::format("announce {}", topic));
    in_order([this, topic = std::string(topic), bytes = std::string(bytes)] {
      if (callbacks_.on_announcement) callbacks_.on_announcement(topic, bytes);
    });
    return {};
  }
  void exec(value::ExecOrder, WhenOrdered done) override { done(Error{ENOTSUP, "no orders here"}); }
  void tasks_started(const value::Idset& tasks) override { started = started | tasks; }
  void tasks_ended(const group::Ended& tasks) override {
    ended.push_back(tasks);
    if (rank_ == 0) callbacks_.on_tasks({}, {tasks});
  }
  bulk::Port* bulk() override { return nullptr; }
  void close_bulk() override { acts.emplace_back("close bulk"); }
  void wait_for_silent(std::chrono::milliseconds ms) override {
    acts.push_back(fmt::format("silent {}", ms.count()));
  }
  void suspect(group::Rank of) override { acts.push_back(fmt::format("suspect {}", of)); }
  void give_up_absent() override { acts.emplace_back("give up absent"); }
  void give_up_silent() override { acts.emplace_back("give up silent"); }
  void leave(int code, std::function<void(std::optional<int>)> done) override {
    acts.push_back(fmt::format("leave {}", code));
    if (rank_ == 0 && !decided) decided = code;
    if (!answers_leave) return;
    later([this, done = std::move(done)] { done(is_cut_off_ ? std::nullopt : decided); });
  }

 private:
  void wait_at(std::string_view act, const std::string& barrier, std::function<void(Result<void>)> done) {
    acts.push_back(fmt::format("{} {}", act, barrier));
    if (is_cut_off_) return done(Error{EPIPE, "cut off"});
    CHECK(waiting_.emplace(barrier, std::move(done)).second);
    later([this, barrier] {
      if (auto found = at_barrier.find(barrier); found != at_barrier.end()) found->second();
      if (barrier == "start" && others) end_elsewhere(*others);
      if (!never_entered.contains(barrier)) enter_barrier(barrier);
    });
  }
  void in_order(std::function<void()> what) { rank_ == 0 ? what() : later(std::move(what)); }
  void later(std::function<void()> what) {
    calls_.push_back(std::move(what));
    turn_.start(event::Seconds::zero());
  }
  void deliver() {
    for (auto& call : std::exchange(calls_, {})) call();
  }

  group::Rank rank_;
  Callbacks callbacks_;
  bool serving_ = false;
  bool is_cut_off_ = false;
  std::map<std::string, std::function<void(Result<void>)>> waiting_;  // in which barriers the shell is
  std::deque<std::function<void()>> calls_;
  event::Timer turn_;
};

}  // namespace nacre::kit
