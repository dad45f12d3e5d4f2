// SPDX-License-Identifier: Apache-2.0
//
// One shell of several: it drives the overlay's node (doc/protocol.md) over links, and passes what the job's log
// has on to the shell.
//
// It dials as soon as it is made. Events of the whole job are kept until serve() is called.
#pragma once

#include <atomic>

#include "event/clock.hpp"
#include "event/loop.hpp"
#include "group/alone.hpp"
#include "group/bulk_driver.hpp"
#include "group/directory.hpp"
#include "group/group.hpp"
#include "group/link_sender.hpp"
#include "group/link_table.hpp"
#include "overlay/effect.hpp"
#include "overlay/entry.hpp"
#include "overlay/node.hpp"

namespace nacre::group {

// What an OverlayDriver tells whoever brings the shells of a job together, in addition to Group::Callbacks. Each
// may be unset. Called from the loop; they may call members of the driver, but not destroy it.
struct DriverHooks {
  // Called for each exception of severity 0 before serve(), which reports them again.
  std::function<void(const JobException&)> on_ended;
  std::function<void()> on_member;  // of a newcomer
  std::function<void()> on_leader;  // another shell has come to lead before serve()
  // Called for each announcement before serve(); true: serve() only reports what comes after this one.
  std::function<bool(std::string_view topic, std::string_view bytes)> on_announced;
  std::function<void(Rank)> on_child;  // that shell has dialled this one
  // A shell that a shrink has taken out has left, and its link has ended. It counts as gone once `done` is called,
  // which may be at once.
  std::function<void(Rank, std::function<void()> done)> on_gone;
  // The job has ended, and a shell that this one feeds is lost: nobody waits for it.
  std::function<void(Rank)> on_lost_at_end;
};

// What this shell has asked of the others and has no answer to yet: collectives by name, requests by their numbers.
// Each is answered once, by a deferred call.
class OpenCalls {
 public:
  using WhenReleased = std::function<void(Result<overlay::Value>)>;

  explicit OpenCalls(DeferredCalls& deferred) : deferred_(deferred) {}  // has to outlive this object

  void add(std::string collective, WhenReleased done) {
    collectives_.emplace(std::move(collective), std::move(done));
  }
  void add(std::uint64_t request, Group::WhenAnswered done) { requests_.emplace(request, std::move(done)); }

  void answer(overlay::Released& released);
  void answer(const overlay::Entry& entry);  // of a request of this shell
  void fail_collectives(const Error& why);
  void fail_requests(const Error& why);

 private:
  DeferredCalls& deferred_;
  std::map<std::string, WhenReleased, std::less<>> collectives_;
  std::map<std::uint64_t, Group::WhenAnswered> requests_;
};

// What the overlay's node reports to its owner: entries of the job's log, results of collectives, and how tasks
// start and end. All calls to the owner are deferred.
class NodeReports : Noncopyable {
 public:
  using Raise = std::function<void(const JobException&)>;

  // All have to outlive this object. `lead` is called once this shell has come to lead and its owner knows it.
  NodeReports(Membership& membership, overlay::Node& node, Log& log, DeferredCalls& deferred, OpenCalls& open_calls,
              Raise raise, std::function<void()> lead)
      : membership_(membership),
        node_(node),
        log_(log),
        deferred_(deferred),
        open_calls_(open_calls),
        raise_(std::move(raise)),
        lead_(std::move(lead)) {}

  Group::Callbacks callbacks;  // of the owner, once it serves
  DriverHooks hooks;

  void perform(overlay::Deliver& deliver_it);
  void perform(overlay::Released& released) { open_calls_.answer(released); }
  void perform(overlay::Reported& reported);
  void perform(overlay::Unfit& unfit);
  void perform(overlay::TooLarge& overflow);
  void perform(overlay::Completed& /*completed*/) {}
  void perform(overlay::Silent& silent);
  void perform(overlay::AskArbiter& ask);
  void perform(overlay::Note& note) { log_.log(Level::debug, "", "{}", note.text); }

  // For a child that was suspected because it was silent: since when, and how long this shell itself stood still;
  // otherwise "".
  [[nodiscard]] std::string silence_of(Rank rank) const;
  void begin_under(Rank leader) { leader_ = leader; }  // of a newcomer
  // Where that shell can be dialled.
  void note_address(Rank rank, const std::string& address);
  // The shells that are absent count as lost as soon as the job's code is known.
  void give_up_absent();
  [[nodiscard]] std::optional<int> code() const { return code_; }  // the job's, once the leader has decided
  [[nodiscard]] Rank leader() const { return leader_; }            // as the owner has been told

 private:
  void deliver(const overlay::Entry& entry);
  void deliver(const overlay::View& view);
  void follow(Rank leader);
  void deliver(const overlay::End& end);
  void deliver(const overlay::ExceptionEntry& exception);
  void deliver(const overlay::Event& event);
  void tell(const overlay::Entry& entry);

  Membership& membership_;
  overlay::Node& node_;
  Log& log_;
  DeferredCalls& deferred_;
  OpenCalls& open_calls_;
  Raise raise_;
  std::function<void()> lead_;
  Rank leader_ = 0;
  std::vector<overlay::Reported> before_leading_;  // until the owner knows that it leads
  Announcements announcements_;
  bool gives_up_absent_ = false;
  std::map<Rank, std::string> silences_;
  std::optional<int> code_;
};

// When the overlay's node wants its next tick.

inline overlay::Time present() { return std::chrono::duration_cast<overlay::Time>(event::clock_now()); }

class NodeTimer : Noncopyable {
 public:
  explicit NodeTimer(std::function<void()> on_due) : on_due_(std::move(on_due)) {}

  Result<void> create(event::Loop& loop) {
    timer_ = TRY(event::Timer::create(loop, [this] { fired(); }));
    return {};
  }
  void perform(const overlay::Arm& arm) {
    due_ = arm.at;
    start();
  }

 private:
  void start() { timer_->start(std::max(event::Seconds::zero(), event::Seconds(due_ - present()))); }
  // The loop's time is that of the round's beginning, so the timer may fire a little early, and the node would not
  // ask again.
  void fired() {
    if (present() < due_) return start();
    on_due_();
  }

  std::function<void()> on_due_;
  std::optional<event::Timer> timer_;
  overlay::Time due_{};
};

// The collectives of the shells that have joined with this one.
struct OwnScope {
  overlay::Scope scope{0, 0};

  // The name in the whole job.
  [[nodiscard]] std::string name_of(std::string_view collective) const {
    if (scope.from == 0) return std::string(collective);
    return fmt::format("{}@{}", collective, scope.from);
  }
};

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
  [[nodiscard]] Rank first_unused() const override { return node_.tree().first_unused(); }
  [[nodiscard]] std::vector<transport::Address> addresses_of(Rank rank) const override {
    return membership_.directory.find(rank);
  }
  void raise(const JobException& exception) override;
  void request(overlay::RequestBody body, WhenAnswered done) override;
  Result<void> announce(std::string_view topic, std::string_view bytes) override;
  void exec(value::ExecOrder order, WhenOrdered done) override;
  void tasks_started(const value::Idset& tasks) override;
  void tasks_ended(const Ended& ended) override;
  bulk::Port* bulk() override { return &bulk_->users(); }
  void close_bulk() override { bulk_->users().close(); }
  void wait_for_silent(std::chrono::milliseconds bound) override { node_.wait_for_silent(bound); }
  [[nodiscard]] std::string silence_of(Rank rank) const override { return reports_.silence_of(rank); }
  [[nodiscard]] bool has_ended(Rank rank) const override { return node_.has_ended(rank); }
  void suspect(Rank rank) override;
  void hand_over(bool has_arbiter, std::uint32_t silences) override { node_.hand_over(has_arbiter, silences); }
  void arbiter_agrees(const value::Idset& others) override {
    tick();
    node_.arbiter_agrees(others);
    pump();
  }
  void resign() override {
    node_.resign();
    pump();
  }
  [[nodiscard]] Rank leader() const override { return reports_.leader(); }
  void end_job(int code) override {
    if (!finished_) ask(overlay::End{static_cast<std::uint32_t>(code)});
  }
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
  // Calls `begin`, which returns the key of the expected answer, or an error; `done` gets the answer.
  template <typename Done, typename Begin>
  void open(Done done, Begin begin);
  void ask(overlay::RequestBody body);

  // Performs the node's effects, then calls the owner, until nothing is left.
  void pump();
  bool step();  // false: there was nothing to do
  void note_for_beats() {
    beats_.term = node_.term();
    beats_.leads = node_.leads();
  }
  void perform(overlay::Joined& joined);
  void perform(overlay::Leave& leave);
  void perform(overlay::Die& die);
  void perform(overlay::Finished& finished);
  void end(Error why);
  void end_if_gone();

  // What the thread's beats contain of the node.
  struct Beats {
    std::atomic<std::uint64_t> term{0};
    std::atomic<bool> leads{false};
  };

  Log& log_;
  Membership membership_;
  overlay::Node node_;
  Beats beats_;
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
