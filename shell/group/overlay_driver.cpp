// SPDX-License-Identifier: Apache-2.0
#include "group/overlay_driver.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "event/clock.hpp"
#include "group/statements.hpp"
#include "overlay/wire.hpp"
#include "transport/digest.hpp"

namespace nacre::group {
namespace {

overlay::Time present() { return std::chrono::duration_cast<overlay::Time>(event::clock_now()); }

overlay::OverlayOptions node_options(const Membership& membership, overlay::OverlayOptions bounds) {
  bounds.job = membership.job.value();
  bounds.self = membership.rank;
  bounds.members = membership.size;
  bounds.arity = membership.arity;
  bounds.newcomer = membership.is_newcomer;
  bounds.address = membership.is_newcomer ? membership.address : "";
  if (!bounds.digest) bounds.digest = transport::sha256;
  return bounds;
}

OpenCalls::WhenReleased when_passed(std::function<void(Result<void>)> done) {
  return [done = std::move(done)](Result<overlay::Value> value) {
    done(value ? Result<void>() : Result<void>(std::move(value).error()));
  };
}

OpenCalls::WhenReleased when_gathered(Group::WhenGathered done) {
  return [done = std::move(done)](Result<overlay::Value> value) {
    if (!value) return done(std::move(value).error());
    done(std::get<overlay::Gathered>(*std::move(value)));
  };
}

}  // namespace

OverlayDriver::OverlayDriver(Membership&& membership, Log& log, const overlay::OverlayOptions& options)
    : log_(log), membership_(std::move(membership)), node_(options), send_queue_(links()) {}

Result<std::unique_ptr<OverlayDriver>> OverlayDriver::create(event::Loop& loop, Membership membership, Log& log,
                                                             overlay::OverlayOptions bounds) {
  overlay::OverlayOptions options = node_options(membership, std::move(bounds));
  std::unique_ptr<OverlayDriver> out(new OverlayDriver(std::move(membership), log, options));
  OverlayDriver& self = *out;
  self.link_table_ = TRY(LinkTable::create(loop, self.membership_, self.callbacks()));
  self.answers_timer_ = TRY(event::Timer::create(loop, [&self] { self.bulk_driver_->waited(); }));
  self.answers_timer_->unref();
  self.start_bulk();
  self.timer_ = TRY(event::Timer::create(loop, [&self] { self.on_timer(); }));
  self.tick();
  self.pump();
  return out;
}

void OverlayDriver::start_bulk() {
  auto broken = [this](overlay::LinkName link, const Error& why) {
    give_up(link, why);
    pump();
  };
  bulk::BulkOptions options;
  options.self = membership_.rank;
  options.newcomer = membership_.is_newcomer;
  bulk::BulkOptions with_answers = options;
  with_answers.answers = bulk::answer_channels();
  bulk_driver_ = std::make_unique<BulkDriver>(with_answers, *link_table_, 0, broken,
                                              [this] { answers_timer_->start(bulk::kAnswerWait); });
  value_driver_ = std::make_unique<BulkDriver>(options, *link_table_, bulk::kRecords, broken);
  auto arrived = [this](overlay::Seq entry, std::string value) {
    tick();
    node_.arrived(entry, std::move(value));
    pump();
  };
  value_carrier_.emplace(*value_driver_, node_.leads() ? ValueCarrier::Arrived() : arrived);
}

// The leader's beats have its clock as their number, as Pulse::make() gives it.
Result<void> OverlayDriver::keep_alive() {
  auto beat = [job = membership_.job.value(), term = node_.options().term, self = membership_.rank,
               leads = node_.leads()](overlay::Side side) -> std::string {
    overlay::Beat body;
    body.busy.insert(self);
    if (leads && side == overlay::Side::down)
      body.number =
          static_cast<std::uint64_t>(std::chrono::duration_cast<overlay::milliseconds>(present()).count());
    return overlay::encode({job, term, body}).value_or("");
  };
  keep_alive_ = TRY(KeepAlive::create(node_.options().beat_interval, beat));
  link_table_->keep_alive(*keep_alive_);
  return {};
}

void OverlayDriver::bulk_gone(overlay::LinkName link) {
  bulk_driver_->gone(link);
  value_driver_->gone(link);
}

LinkTable::Callbacks OverlayDriver::callbacks() {
  LinkTable::Callbacks out;
  out.on_linked = [this](overlay::LinkName link) {
    tick();
    send_queue_.forget(link);
    node_.linked(link);
    bulk_driver_->linked(link);
    value_driver_->linked(link);
    if (link.side == overlay::Side::down && hooks_.on_child)
      deferred_.add([this, child = link.peer] { hooks_.on_child(child); });
    pump();
  };
  out.on_message = [this](overlay::LinkName from, const overlay::Message& message) {
    tick();
    node_.step(from, message);
    pump();
  };
  out.on_bulk = [this](overlay::LinkName from, transport::StreamId stream, std::string_view bytes) {
    (stream > bulk::kRecords ? value_driver_ : bulk_driver_)->received(from, stream, bytes);
  };
  out.on_credit = [this](overlay::LinkName to, transport::StreamId stream) {
    (stream > bulk::kRecords ? value_driver_ : bulk_driver_)->on_credit(to, stream);
  };
  out.on_room = [this](overlay::LinkName to) {
    sent(to, send_queue_.go_on(to));
    pump();
  };
  out.on_unlinked = [this](overlay::LinkName link, const Error& why) {
    log_.log(Level::debug, "", "link {} shell {}: {}", link.side == overlay::Side::up ? "up to" : "down to",
             link.peer, why.message);
    tick();
    send_queue_.forget(link);
    unlinked(link);
    bulk_gone(link);
    // Only its shell and that shell's guard remove its socket
    bool refused = why.code == ECONNREFUSED || why.code == ENOENT;
    if (refused && link.peer == 0 && link.side == overlay::Side::up) node_.leader_refuses();
    end_if_short(why);
    pump();
  };
  out.on_closed = [this] { end_if_gone(); };
  out.on_misfit = [this](Rank rank, bool is_above, const Error& why) {
    if (is_above) return end(why);
    log_.log(Level::error, "", "{}", why.message);
    suspect(rank);
  };
  out.on_refused = [this](const Error& why) {
    log_.log(Level::debug, "", "refused: {}", why.message);
    end_if_short(why);
  };
  return out;
}

void OverlayDriver::unlinked(overlay::LinkName link) {
  bool waits = hooks_.on_gone && link.side == overlay::Side::down && node_.has_left(link.peer);
  if (!waits) return node_.unlinked(link);
  deferred_.add([this, link] {
    hooks_.on_gone(link.peer, [this, link] {
      tick();
      node_.unlinked(link);
      pump();
    });
  });
}

// After joining, descriptors or memory may become free again. Before, they do not.
void OverlayDriver::end_if_short(const Error& why) {
  if ((why.code == EMFILE || why.code == ENOMEM) && !deferred_.serving()) end(why);
}

SendQueue::Links OverlayDriver::links() {
  SendQueue::Links out;
  out.send = [this](overlay::LinkName to, std::string_view frame) { return link_table_->send(to, frame); };
  out.has_room = [this](overlay::LinkName to) { return link_table_->has_room(to); };
  out.half_close = [this](overlay::LinkName link) { link_table_->half_close(link); };
  out.frame_of = [this](overlay::Seq seq) { return frame_of(seq); };
  return out;
}

// The loop's clock is that of the round's beginning, so the timer may fire a little early; the node would not ask
// again.
void OverlayDriver::on_timer() {
  if (present() < due_) return start_timer();
  tick();
  pump();
}

void OverlayDriver::start_timer() {
  timer_->start(std::max(event::Seconds::zero(), event::Seconds(due_ - present())));
}

void OverlayDriver::tick() { node_.tick(present()); }

void OverlayDriver::serve(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  deferred_.serve();
  pump();
}

// ---- collectives ---------------------------------------------------------------------------

// A name counts in the whole job.
std::string OverlayDriver::own_name(std::string_view collective) const {
  if (own_scope_.from == 0) return std::string(collective);
  return fmt::format("{}@{}", collective, own_scope_.from);
}

void OverlayDriver::enter(std::string_view barrier, std::function<void(Result<void>)> done) {
  open_collective(own_name(barrier), overlay::Merge::max, std::int64_t{0}, own_scope_,
                  when_passed(std::move(done)));
}

void OverlayDriver::enter_with_all(std::string_view barrier, std::function<void(Result<void>)> done) {
  open_collective(std::string(barrier), overlay::Merge::max, std::int64_t{0}, overlay::Scope{},
                  when_passed(std::move(done)));
}

void OverlayDriver::gather(std::string_view name, std::string mine, WhenGathered done) {
  open_collective(own_name(name), overlay::Merge::gather, std::move(mine), own_scope_,
                  when_gathered(std::move(done)));
}

void OverlayDriver::gather_up_to(Rank last, std::string_view name, std::string mine, WhenGathered done) {
  open_collective(std::string(name), overlay::Merge::gather, std::move(mine), {0, node_.tree().joined(last)},
                  when_gathered(std::move(done)));
}

Rank OverlayDriver::last_come_with(Rank rank) const {
  const overlay::Seq view = node_.tree().joined(rank);
  return view == 0 ? membership_.size - 1 : node_.tree().last_joined(view);
}

void OverlayDriver::open_collective(std::string name, overlay::Merge merge, const overlay::Own& mine,
                                    overlay::Scope scope, OpenCalls::WhenReleased done) {
  if (cut_off_) return done(*cut_off_);
  tick();
  Result<void> entered = node_.enter(name, merge, mine, scope);
  if (!entered) return done(in(name, entered.error()));
  open_calls_.add(std::move(name), std::move(done));
  pump();
}

// ---- what concerns the job ------------------------------------------------------------------

void OverlayDriver::ask(overlay::RequestBody body) {
  if (cut_off_) return;
  tick();
  auto asked = node_.request(std::move(body));
  // EPIPE: the job has ended, so the request matters to no shell.
  if (!asked && asked.error().code != EPIPE) log_.log(Level::warn, "", "not sent: {}", asked.error().message);
  pump();
}

void OverlayDriver::exec(value::ExecOrder order, WhenOrdered done) {
  if (cut_off_) return done(*cut_off_);
  auto statement = statement_of(std::move(order));
  if (!statement) return done(std::move(statement).error());
  tick();
  auto asked = node_.request(*std::move(statement));
  if (!asked) return done(std::move(asked).error());
  open_calls_.add(*asked, std::move(done));
  pump();
}

void OverlayDriver::shrink(const value::Idset& shells, WhenShrunk done) {
  if (cut_off_) return done(*cut_off_);
  tick();
  auto asked = node_.request(overlay::Shrink{shells});
  if (!asked) return done(std::move(asked).error());
  open_calls_.add(*asked, std::move(done));
  pump();
}

void OverlayDriver::grow(const value::Idset& shells, std::chrono::milliseconds wait, WhenGrown done) {
  if (cut_off_) return done(*cut_off_);
  tick();
  auto asked = node_.request(overlay::Grow{shells, static_cast<std::uint64_t>(wait.count())});
  if (!asked) return done(std::move(asked).error());
  open_calls_.add(*asked, std::move(done));
  pump();
}

void OverlayDriver::raise(const JobException& exception) {
  JobException mine = exception;
  mine.origin = membership_.rank;
  ask(statement_of(mine));
}

Result<void> OverlayDriver::announce(std::string_view topic, std::string_view bytes) {
  auto pieces = TRY(pieces_of(topic, bytes, membership_.rank));
  for (overlay::Event& piece : pieces) ask(std::move(piece));
  return {};
}

void OverlayDriver::signal(int signum, const Targets& tasks) {
  auto number = static_cast<std::uint32_t>(signum);
  if (!tasks || tasks->empty()) return ask(overlay::Signal{number, tasks});
  for (value::Idset rest = *tasks; !rest.empty();)
    ask(overlay::Signal{number, rest.take_first(overlay::kSplitIds)});
}

void OverlayDriver::tasks_started(const value::Idset& tasks) {
  tick();
  node_.started(tasks);
  pump();
}

void OverlayDriver::tasks_ended(const Ended& ended) {
  tick();
  node_.exited(ended.tasks, statement_of(ended));
  pump();
}

void OverlayDriver::suspect(Rank rank) {
  tick();
  node_.suspect(rank);
  pump();
}

void OverlayDriver::give_up_absent() {
  gives_up_absent_ = true;
  if (!code_) return;
  tick();
  node_.suspect_absent();
  pump();
}

void OverlayDriver::leave(int code, std::function<void(std::optional<int>)> done) {
  when_gone_ = std::move(done);
  leaving_ = true;
  if (membership_.rank == 0 && !finished_) ask(overlay::End{static_cast<std::uint32_t>(code)});
  if (removed_) {
    tick();
    node_.tasks_ended();
    pump();
  }
  end_if_gone();
}

// Of a shell that a shrink takes out: over which it has reported that.
std::optional<overlay::LinkName> OverlayDriver::last_link() const {
  auto up = node_.feeder();
  if (!removed_ || !finished_ || !up) return std::nullopt;
  return overlay::LinkName{*up, overlay::Side::up};
}

std::optional<UniqueFd> OverlayDriver::take_last_link() {
  auto link = last_link();
  return link ? link_table_->release(*link) : UniqueFd();
}

void OverlayDriver::stay() {
  node_.stays();
  pump();
}

// The last messages to others have to be out.
void OverlayDriver::end_if_gone() {
  auto gone = [this](Rank rank) { return removed_ || !node_.tree().has(rank); };
  bool is_over = finished_ ? link_table_->idle(gone) : cut_off_ && !removed_;
  if (!leaving_ || !when_gone_ || !is_over) return;
  std::exchange(when_gone_, nullptr)(code_);
}

}  // namespace nacre::group
