// SPDX-License-Identifier: Apache-2.0
#include "group/member.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "event/clock.hpp"
#include "group/statements.hpp"
#include "overlay/wire.hpp"

namespace nacre::group {
namespace {

constexpr std::uint32_t kMaxCode = 255;  // of a process that exits

overlay::Time present() { return std::chrono::duration_cast<overlay::Time>(event::clock_now()); }

overlay::Options node_options(const Membership& membership, overlay::Options bounds) {
  bounds.job = membership.job.value();
  bounds.self = membership.rank;
  bounds.members = membership.size;
  bounds.arity = membership.arity;
  return bounds;
}

}  // namespace

Member::Member(event::Loop& loop, Membership&& membership, Log& log, const overlay::Options& options)
    : loop_(loop), log_(log), membership_(std::move(membership)), node_(options), outgoing_(links()) {}

Result<std::unique_ptr<Member>> Member::create(event::Loop& loop, Membership membership, Log& log,
                                               overlay::Options bounds) {
  overlay::Options options = node_options(membership, std::move(bounds));
  std::unique_ptr<Member> out(new Member(loop, std::move(membership), log, options));
  Member& self = *out;
  self.wires_ = TRY(Wires::create(loop, self.membership_, self.callbacks()));
  self.carrier_ =
      std::make_unique<Carrier>(self.membership_.rank, *self.wires_, [&self](overlay::Link link, const Error& why) {
        self.give_up(link, why);
        self.pump();
      });
  self.timer_ = TRY(event::Timer::create(loop, [&self] { self.on_timer(); }));
  self.tick();
  self.pump();
  return out;
}

Wires::Callbacks Member::callbacks() {
  Wires::Callbacks out;
  out.on_linked = [this](overlay::Link link) {
    tick();
    outgoing_.forget(link);
    node_.linked(link);
    carrier_->linked(link);
    if (link.side == overlay::Side::down && on_child_) tell([this, child = link.peer] { on_child_(child); });
    pump();
  };
  out.on_message = [this](overlay::Link from, const overlay::Message& message) {
    tick();
    node_.step(from, message);
    pump();
  };
  out.on_bulk = [this](overlay::Link from, transport::StreamId stream, std::string_view bytes) {
    carrier_->received(from, stream, bytes);
  };
  out.on_credit = [this](overlay::Link to, transport::StreamId stream) { carrier_->on_credit(to, stream); };
  out.on_room = [this](overlay::Link to) {
    sent(to, outgoing_.go_on(to));
    pump();
  };
  out.on_unlinked = [this](overlay::Link link, const Error& why) {
    log_.log(Level::debug, "", "link {} shell {}: {}", link.side == overlay::Side::up ? "up to" : "down to",
             link.peer, why.message);
    tick();
    outgoing_.forget(link);
    node_.unlinked(link);
    carrier_->gone(link);
    bool refused = why.code == ECONNREFUSED || why.code == ENOENT;  // only its shell and guard remove its socket
    if (refused && link.peer == 0 && link.side == overlay::Side::up) node_.leader_refuses();
    end_if_short(why);
    pump();
  };
  out.on_closed = [this] { look_whether_it_may_go(); };
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

// Once it has joined, descriptors may be given back. Before, they are not.
void Member::end_if_short(const Error& why) {
  if (why.code == EMFILE && !serving_) end(why);
}

Outgoing::Links Member::links() {
  Outgoing::Links out;
  out.send = [this](overlay::Link to, std::string_view frame) { return wires_->send(to, frame); };
  out.has_room = [this](overlay::Link to) { return wires_->has_room(to); };
  out.half_close = [this](overlay::Link link) { wires_->half_close(link); };
  out.frame_of = [this](overlay::Seq seq) { return frame_of(seq); };
  return out;
}

// The loop's clock is the one of the round's beginning, so the timer may be a little early; the node would not ask again.
void Member::on_timer() {
  if (present() < due_) return start_timer();
  tick();
  pump();
}

void Member::start_timer() { timer_->start(std::max(event::Seconds::zero(), event::Seconds(due_ - present()))); }

void Member::tick() { node_.tick(present()); }

void Member::serve(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  serving_ = true;
  news_.take(kept_);
  pump();
}

// ---- collectives ---------------------------------------------------------------------------

void Member::enter(std::string_view barrier, std::function<void(Result<void>)> done) {
  open_collective(barrier, overlay::Merge::max, std::int64_t{0},
                  [done = std::move(done)](Result<overlay::Value> value) {
                    done(value ? Result<void>() : Result<void>(std::move(value).error()));
                  });
}

void Member::gather(std::string_view name, std::string mine, std::function<void(Result<Gathered>)> done) {
  open_collective(name, overlay::Merge::gather, std::move(mine),
                  [done = std::move(done)](Result<overlay::Value> value) {
                    if (!value) return done(std::move(value).error());
                    done(std::get<overlay::Gathered>(*std::move(value)));
                  });
}

void Member::open_collective(std::string_view name, overlay::Merge merge, const overlay::Own& mine,
                             WhenReleased done) {
  if (cut_off_) return done(*cut_off_);
  tick();
  Result<void> entered = node_.enter(std::string(name), merge, mine);
  if (!entered) return done(in(name, entered.error()));
  waiting_.emplace(name, std::move(done));
  pump();
}

// ---- what concerns the job ------------------------------------------------------------------

void Member::ask(overlay::RequestBody body) {
  if (cut_off_) return;
  tick();
  auto asked = node_.request(std::move(body));
  // EPIPE: the job has ended, so there is nobody to whom it matters.
  if (!asked && asked.error().code != EPIPE) log_.log(Level::warn, "", "not sent: {}", asked.error().message);
  pump();
}

void Member::raise(const Exception& exception) {
  Exception mine = exception;
  mine.origin = membership_.rank;
  ask(statement_of(mine));
}

Result<void> Member::announce(std::string_view topic, std::string_view bytes) {
  auto pieces = TRY(pieces_of(topic, bytes, membership_.rank));
  for (overlay::Event& piece : pieces) ask(std::move(piece));
  return {};
}

void Member::signal(int signum, const Targets& tasks) {
  ask(overlay::Signal{static_cast<std::uint32_t>(signum), tasks});
}

void Member::tasks_started(const value::Idset& tasks) {
  tick();
  node_.started(tasks);
  pump();
}

void Member::tasks_ended(const Ended& ended) {
  tick();
  node_.exited(ended.tasks, statement_of(ended));
  pump();
}

void Member::suspect(Rank rank) {
  tick();
  node_.suspect(rank);
  pump();
}

void Member::give_up_absent() {
  gives_up_absent_ = true;
  if (!code_) return;
  tick();
  node_.suspect_absent();
  pump();
}

void Member::leave(int code, std::function<void(std::optional<int>)> done) {
  when_gone_ = std::move(done);
  leaving_ = true;
  if (membership_.rank == 0 && !finished_) ask(overlay::End{static_cast<std::uint32_t>(code)});
  if (removed_) {
    tick();
    node_.tasks_ended();
    pump();
  }
  look_whether_it_may_go();
}

// The last words to others have to be out.
void Member::look_whether_it_may_go() {
  auto gone = [this](Rank rank) { return !node_.tree().has(rank); };
  bool is_over = finished_ ? wires_->idle(gone) : cut_off_ && !removed_;
  if (!leaving_ || !when_gone_ || !is_over) return;
  std::exchange(when_gone_, nullptr)(code_);
}

// ---- what the node wants --------------------------------------------------------------------

void Member::pump() {
  if (pumping_) return;
  pumping_ = true;
  for (;;) {
    std::vector<overlay::Effect> effects = node_.take_effects();
    for (overlay::Effect& effect : effects) act(std::move(effect));
    if (!failed_.empty()) {
      for (overlay::Link link : std::exchange(failed_, {})) node_.unlinked(link);
      continue;
    }
    if (!effects.empty()) continue;
    if (!news_.tell_next()) break;
  }
  carrier_->look_at(node_);
  pumping_ = false;
  carrier_->pump();
}

void Member::act(overlay::Effect effect) {
  std::visit([this](auto& each) { do_effect(each); }, effect);
}

void Member::do_effect(overlay::Send& message) {
  auto bytes = overlay::encode(message.message);
  if (bytes) {
    bool is_beat = std::holds_alternative<overlay::Beat>(message.message.body);
    return sent(message.to,
                is_beat ? outgoing_.send_first(message.to, *bytes) : outgoing_.send(message.to, *std::move(bytes)));
  }
  log_.log(Level::error, "", "a message to shell {} is too long: {}", message.to.peer, bytes.error().message);
}

void Member::do_effect(overlay::SendEntry& entry) { sent(entry.to, outgoing_.send_entry(entry.to, entry.seq)); }

// Most are sent to several, one after the other.
const std::string* Member::frame_of(overlay::Seq seq) {
  if (encoded_.first == seq) return &encoded_.second;
  if (node_.entry(seq) == nullptr) return nullptr;
  auto bytes = overlay::encode(node_.entry_message(seq));
  if (!bytes) {
    log_.log(Level::error, "", "entry {}: {}", seq, bytes.error().message);
    return nullptr;
  }
  encoded_ = {seq, *std::move(bytes)};
  return &encoded_.second;
}

void Member::sent(overlay::Link to, const Result<void>& how) {
  if (!how) give_up(to, how.error());
}

void Member::give_up(overlay::Link link, const Error& why) {
  log_.log(Level::debug, "", "shell {}: {}", link.peer, why.message);
  wires_->give_up(link);
  outgoing_.forget(link);
  failed_.push_back(link);
  carrier_->gone(link);
}

void Member::do_effect(overlay::HangUp& hang_up) {
  carrier_->gone(hang_up.link);
  outgoing_.flush(hang_up.link);
  wires_->hang_up(hang_up.link);
}

void Member::do_effect(overlay::HalfClose& half_close) {
  sent(half_close.link, outgoing_.half_close(half_close.link));
}

void Member::do_effect(overlay::Dial& dial) {
  Result<void> dialling = wires_->dial(dial.peer);
  if (dialling) return;
  log_.log(Level::debug, "", "{}", dialling.error().message);
  failed_.push_back({dial.peer, overlay::Side::up});
}

void Member::do_effect(overlay::Deliver& deliver_it) {
  if (const overlay::Entry* entry = node_.entry(deliver_it.seq)) deliver(*entry);
}

void Member::do_effect(overlay::Released& released) {
  auto found = waiting_.find(released.name);
  if (found == waiting_.end()) return;
  tell([done = std::move(found->second), value = std::move(released.value)]() mutable { done(std::move(value)); });
  waiting_.erase(found);
}

void Member::do_effect(overlay::Overflow& overflow) {
  raise({"exec", 0,
         fmt::format("{}: what the shells give is {} bytes together; at most {}", overflow.name, overflow.size,
                     node_.options().max_value),
         1});
}

void Member::do_effect(overlay::Reported& reported) {
  std::vector<Ended> ended;
  for (const overlay::Record& record : reported.exited) {
    auto each = ended_of(record);
    if (each) ended.push_back(*std::move(each));
    if (!each) log_.log(Level::warn, "", "{}", each.error().message);
  }
  tell_job([this, started = std::move(reported.started), ended = std::move(ended)] {
    if (callbacks_.on_tasks) callbacks_.on_tasks(started, ended);
  });
}

void Member::do_effect(overlay::Leave& /*leave*/) {
  wires_->keep_half_closed(true);
  removed_ = true;
  end(Error{ECANCELED, "this shell is taken out of the job"});
}

void Member::do_effect(overlay::Die& die) {
  removed_ = false;
  end(Error{ENOTCONN, std::move(die.why)});
  tell([this] { look_whether_it_may_go(); });
}

void Member::do_effect(overlay::Finished& /*finished*/) {
  finished_ = true;
  outgoing_.flush_all();
  wires_->stop();
  tell([this] { look_whether_it_may_go(); });
}

void Member::do_effect(overlay::Arm& arm) {
  due_ = arm.at;
  start_timer();
}

void Member::do_effect(overlay::Note& note) { log_.log(Level::debug, "", "{}", note.text); }

// ---- what the log says ------------------------------------------------------------------------

void Member::deliver(const overlay::Entry& entry) {
  if (const auto* view = std::get_if<overlay::View>(&entry.body)) {
    for (Rank rank : view->dead.ids()) {
      tell_job([this, rank] {
        if (callbacks_.on_lost) callbacks_.on_lost(rank);
      });
    }
  } else if (const auto* end = std::get_if<overlay::End>(&entry.body)) {
    code_ = static_cast<int>(std::min<std::uint32_t>(end->code, kMaxCode));
    if (gives_up_absent_) node_.suspect_absent();
  } else if (const auto* exception = std::get_if<overlay::Exception>(&entry.body)) {
    Exception raised = exception_of(*exception);
    if (raised.severity == 0 && !serving_ && on_ended_) tell([this, raised] { on_ended_(raised); });
    tell_job([this, raised = std::move(raised)] {
      if (callbacks_.on_exception) callbacks_.on_exception(raised);
    });
  } else if (const auto* event = std::get_if<overlay::Event>(&entry.body)) {
    auto whole = announcements_.take(*event);
    if (!whole) return;
    if (whole->topic == kGiveUpSilent)
      return node_.wait_for_silent(std::min(kSilentAtEnd, node_.options().silent_bound));
    tell_job([this, said = *std::move(whole)] {
      if (callbacks_.on_announcement) callbacks_.on_announcement(said.topic, said.bytes);
    });
  } else if (const auto* signal = std::get_if<overlay::Signal>(&entry.body)) {
    tell_job([this, signal = *signal] {
      if (callbacks_.on_signal) callbacks_.on_signal(static_cast<int>(signal.number), signal.ranks);
    });
  }
}

void Member::end(Error why) {
  if (cut_off_) return;
  cut_off_ = std::move(why);
  carrier_->cut_off(*cut_off_);
  if (!removed_) wires_->stop();
  tell_job([this] {
    if (callbacks_.on_cut_off) callbacks_.on_cut_off(*cut_off_);
  });
  for (auto& [name, done] : std::exchange(waiting_, {})) {
    tell([this, done = std::move(done)] { done(*cut_off_); });
  }
  pump();
}

}  // namespace nacre::group
