// SPDX-License-Identifier: Apache-2.0
#include "group/overlay_driver.hpp"

#include "group/codec.hpp"
#include "overlay/wire.hpp"
#include "transport/secret.hpp"

namespace nacre::group {
namespace {

overlay::OverlayOptions node_options(const Membership& membership, overlay::OverlayOptions bounds) {
  bounds.job = membership.job.value();
  bounds.self = membership.rank;
  bounds.members = membership.size;
  bounds.arity = membership.arity;
  bounds.newcomer = membership.is_newcomer;
  bounds.address = membership.is_newcomer ? membership.address : "";
  bounds.leader = membership.leader.value_or(0);
  bounds.hands_over = bounds.hands_over || membership.leader.has_value();
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

OpenCalls::WhenReleased when_counted(Group::WhenCounted done) {
  return [done = std::move(done)](Result<overlay::Value> value) {
    if (!value) return done(std::move(value).error());
    done(std::get<std::int64_t>(*value));
  };
}

Group::WhenAnswered when_ordered(Group::WhenOrdered done) {
  return [done = std::move(done)](const Result<overlay::Entry>& answer) {
    if (!answer) return done(answer.error());
    const auto* refused = std::get_if<overlay::Refused>(&answer->body);
    if (refused == nullptr) return done(value::ExecAnswer{answer->seq, {}});
    if (refused->members.empty()) return done(Error{EMSGSIZE, refused->why});
    done(value::ExecAnswer{0, refused->members});
  };
}

// Returns the collective's name.
Result<std::string> begin(overlay::Node& node, std::string name, overlay::Merge merge, overlay::Own mine,
                          overlay::Scope scope) {
  CHECK_OK(in(name, node.enter(name, merge, mine, scope)));
  return name;
}

}  // namespace

OverlayDriver::OverlayDriver(Membership&& membership, Log& log, const overlay::OverlayOptions& options)
    : log_(log),
      membership_(std::move(membership)),
      node_(options),
      timer_([this] {
        tick();
        pump();
      }),
      reports_(
          membership_, node_, log_, deferred_, open_calls_,
          [this](const JobException& exception) { raise(exception); },
          [this] {
            bulk_->lead(node_.term());
            pump();
          }) {}

Result<std::unique_ptr<OverlayDriver>> OverlayDriver::create(event::Loop& loop, Membership membership, Log& log,
                                                             overlay::OverlayOptions bounds) {
  overlay::OverlayOptions options = node_options(membership, std::move(bounds));
  std::unique_ptr<OverlayDriver> out(new OverlayDriver(std::move(membership), log, options));
  OverlayDriver& self = *out;
  self.link_table_ = TRY(LinkTable::create(loop, self.membership_, self.callbacks()));
  bulk::BulkOptions bulk;
  bulk.self = self.membership_.rank;
  bulk.newcomer = self.membership_.is_newcomer;
  NodeBulk::Callbacks on;
  on.broken = [&self](overlay::LinkName link, const Error& why) {
    self.sender_->give_up(link, why);
    self.pump();
  };
  on.arrived = [&self](overlay::Seq entry, std::string value) {
    self.tick();
    self.node_.arrived(entry, std::move(value));
    self.pump();
  };
  self.bulk_ = TRY(NodeBulk::create(loop, bulk, self.node_.leads(), *self.link_table_, std::move(on)));
  auto on_ends = [&self](overlay::LinkName link) { self.bulk_->gone(link); };
  self.sender_ = std::make_unique<LinkSender>(*self.link_table_, self.node_, log, on_ends);
  CHECK_OK(self.timer_.create(loop));
  self.tick();
  self.pump();
  return out;
}

// The leader's beats have its clock as their number, as Pulse::make() gives it.
Result<void> OverlayDriver::keep_alive() {
  auto beat = [this, job = membership_.job.value(), self = membership_.rank](overlay::Side side) -> std::string {
    overlay::Beat body;
    body.busy.insert(self);
    if (beats_.leads && side == overlay::Side::down)
      body.number =
          static_cast<std::uint64_t>(std::chrono::duration_cast<overlay::milliseconds>(present()).count());
    return overlay::encode({job, beats_.term, body}).value_or("");
  };
  note_for_beats();
  keep_alive_ = TRY(KeepAlive::create(node_.options().beat_interval, beat));
  link_table_->keep_alive(*keep_alive_);
  return {};
}

LinkTable::Callbacks OverlayDriver::callbacks() {
  // After joining, descriptors or memory may become free again; before, they do not.
  auto end_if_short = [this](const Error& why) {
    if ((why.code == EMFILE || why.code == ENOMEM) && !deferred_.serving()) end(why);
  };
  LinkTable::Callbacks out;
  out.on_linked = [this](overlay::LinkName link) {
    tick();
    sender_->forget(link);
    node_.linked(link);
    bulk_->linked(link);
    if (link.side == overlay::Side::down && hooks().on_child)
      deferred_.add([this, child = link.peer] { hooks().on_child(child); });
    pump();
  };
  out.on_message = [this](overlay::LinkName from, const overlay::Message& message) {
    tick();
    node_.step(from, message);
    pump();
  };
  out.on_bulk = [this](overlay::LinkName from, transport::StreamId stream, std::string_view bytes) {
    if (node_.leads() && node_.is_late(present())) {  // it stood still, and perhaps leads no more
      tick();
      pump();
    }
    bulk_->received(from, stream, bytes);
  };
  out.on_credit = [this](overlay::LinkName to, transport::StreamId stream) { bulk_->on_credit(to, stream); };
  out.on_room = [this](overlay::LinkName to) {
    sender_->go_on(to);
    pump();
  };
  out.on_unlinked = [this, end_if_short](overlay::LinkName link, const Error& why) {
    log_.log(Level::debug, "", "link {} shell {}: {}", link.side == overlay::Side::up ? "up to" : "down to",
             link.peer, why.message);
    tick();
    sender_->forget(link);
    unlinked(link);
    bulk_->gone(link);
    // Only its shell and that shell's guard remove its socket.
    bool refused = why.code == ECONNREFUSED || why.code == ENOENT;
    if (refused && link.peer == node_.tree().leader() && link.side == overlay::Side::up) node_.leader_refuses();
    end_if_short(why);
    pump();
  };
  out.on_closed = [this] { end_if_gone(); };
  out.on_misfit = [this](Rank rank, bool is_above, const Error& why) {
    if (is_above) return end(why);
    log_.log(Level::error, "", "{}", why.message);
    suspect(rank);
  };
  out.on_refused = [this, end_if_short](const Error& why) {
    log_.log(Level::debug, "", "refused: {}", why.message);
    end_if_short(why);
  };
  return out;
}

void OverlayDriver::unlinked(overlay::LinkName link) {
  bool waits = hooks().on_gone && link.side == overlay::Side::down && node_.has_left(link.peer);
  if (!waits) return node_.unlinked(link);
  deferred_.add([this, link] {
    hooks().on_gone(link.peer, [this, link] {
      tick();
      node_.unlinked(link);
      pump();
    });
  });
}

void OverlayDriver::serve(Callbacks callbacks) {
  reports_.callbacks = std::move(callbacks);
  deferred_.serve();
  pump();
}

// ---- collectives ---------------------------------------------------------------------------

template <typename Done, typename Begin>
void OverlayDriver::open(Done done, Begin begin) {
  if (cut_off_) return done(*cut_off_);
  tick();
  auto begun = begin();
  if (!begun) return done(std::move(begun).error());
  open_calls_.add(*std::move(begun), std::move(done));
  pump();
}

void OverlayDriver::enter(std::string_view barrier, std::function<void(Result<void>)> done) {
  open(when_passed(std::move(done)), [&] {
    return begin(node_, own_scope_.name_of(barrier), overlay::Merge::max, std::int64_t{0}, own_scope_.scope);
  });
}

void OverlayDriver::sum_with_all(std::string_view barrier, std::int64_t mine, WhenCounted done) {
  open(when_counted(std::move(done)),
       [&] { return begin(node_, std::string(barrier), overlay::Merge::sum, mine, overlay::Scope{}); });
}

void OverlayDriver::max_with_all(std::string_view barrier, std::int64_t mine, WhenCounted done) {
  open(when_counted(std::move(done)),
       [&] { return begin(node_, std::string(barrier), overlay::Merge::max, mine, overlay::Scope{}); });
}

void OverlayDriver::gather(std::string_view name, std::string mine, WhenGathered done) {
  open(when_gathered(std::move(done)), [&] {
    return begin(node_, own_scope_.name_of(name), overlay::Merge::gather, std::move(mine), own_scope_.scope);
  });
}

void OverlayDriver::gather_up_to(Rank last, std::string_view name, std::string mine, WhenGathered done) {
  open(when_gathered(std::move(done)), [&] {
    return begin(node_, std::string(name), overlay::Merge::gather, std::move(mine), {0, node_.tree().joined(last)});
  });
}

Rank OverlayDriver::last_come_with(Rank rank) const {
  const overlay::Seq view = node_.tree().joined(rank);
  return view == 0 ? membership_.size - 1 : node_.tree().last_joined(view);
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

void OverlayDriver::request(overlay::RequestBody body, WhenAnswered done) {
  if (!done) return ask(std::move(body));
  open(std::move(done), [&] { return node_.request(std::move(body)); });
}

void OverlayDriver::exec(value::ExecOrder order, WhenOrdered done) {
  open(when_ordered(std::move(done)),
       [&]() -> Result<std::uint64_t> { return node_.request(TRY(encode(std::move(order)))); });
}

void OverlayDriver::raise(const JobException& exception) {
  JobException mine = exception;
  mine.origin = membership_.rank;
  ask(encode(mine));
}

Result<void> OverlayDriver::announce(std::string_view topic, std::string_view bytes) {
  auto pieces = TRY(pieces_of(topic, bytes, membership_.rank));
  for (overlay::Event& piece : pieces) ask(std::move(piece));
  return {};
}

void OverlayDriver::tasks_started(const value::Idset& tasks) {
  tick();
  node_.started(tasks);
  pump();
}

void OverlayDriver::tasks_ended(const Ended& ended) {
  tick();
  node_.exited(ended.tasks, encode(ended));
  pump();
}

void OverlayDriver::suspect(Rank rank) {
  tick();
  node_.suspect(rank);
  pump();
}

void OverlayDriver::give_up_absent() {
  tick();
  reports_.give_up_absent();
  pump();
}

void OverlayDriver::leave(int code, std::function<void(std::optional<int>)> done) {
  when_gone_ = std::move(done);
  leaving_ = true;
  if (membership_.rank == leader()) end_job(code);
  if (removed_) {
    tick();
    node_.tasks_ended();
    pump();
  }
  end_if_gone();
}

// For a shell that a shrink takes out: the link over which it has reported that it goes.
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
  std::exchange(when_gone_, nullptr)(reports_.code());
}

// ---- overlay driver effects -------------------------------------------------------------
//
// How an OverlayDriver performs the effects of its node, by its parts or itself.

void OverlayDriver::pump() {
  if (!pump_.run([this] { return step(); })) return;
  note_for_beats();
  bulk_->look_at(node_);
}

bool OverlayDriver::step() {
  std::vector<overlay::Effect> effects = node_.take_effects();
  auto perform_it = [this](auto& effect) {
    if constexpr (requires { sender_->perform(effect); }) {
      sender_->perform(effect);
    } else if constexpr (requires { reports_.perform(effect); }) {
      reports_.perform(effect);
    } else if constexpr (requires { bulk_->perform(effect); }) {
      bulk_->perform(effect);
    } else if constexpr (requires { timer_.perform(effect); }) {
      timer_.perform(effect);
    } else {
      perform(effect);
    }
  };
  for (overlay::Effect& effect : effects) std::visit(perform_it, effect);
  std::vector<overlay::LinkName> failed = sender_->take_failed();
  for (overlay::LinkName link : failed) node_.unlinked(link);
  return !failed.empty() || !effects.empty() || deferred_.call_next();
}

// From now on shells that have joined later may feed this one.
void OverlayDriver::perform(overlay::Joined& joined) {
  own_scope_.scope = {joined.view, joined.view};
  const overlay::Tree& tree = node_.tree();
  reports_.begin_under(tree.leader());
  for (overlay::Slot slot = 0; slot < tree.size(); ++slot) {
    Rank rank = tree.at(slot);
    if (rank != membership_.rank && tree.joined(rank) != 0) reports_.note_address(rank, tree.address(rank));
  }
  if (hooks().on_member) deferred_.add([this] { hooks().on_member(); });
}

void OverlayDriver::perform(overlay::Leave& /*leave*/) {
  link_table_->keep_half_closed(true);
  removed_ = true;
  end(Error{ECANCELED, "this shell is taken out of the job"});
}

void OverlayDriver::perform(overlay::Die& die) {
  removed_ = false;
  end(Error{ENOTCONN, std::move(die.why)});
  deferred_.add([this] { end_if_gone(); });
}

void OverlayDriver::perform(overlay::Finished& finished) {
  finished_ = true;
  open_calls_.fail_requests({EPIPE, "the job has ended"});
  sender_->flush_all();
  link_table_->stop(last_link());
  for (Rank rank : finished.lost.ids()) {
    if (hooks().on_lost_at_end) deferred_.add([this, rank] { hooks().on_lost_at_end(rank); });
  }
  deferred_.add([this] { end_if_gone(); });
}

void OverlayDriver::end(Error why) {
  if (cut_off_) return;
  cut_off_ = std::move(why);
  bulk_->cut_off(*cut_off_);
  if (!removed_) link_table_->stop();
  deferred_.add_for_served([this, is_planned = removed_] {
    const Callbacks& owner = reports_.callbacks;
    if (is_planned && owner.on_leave) owner.on_leave();
    if (!is_planned && owner.on_cut_off) owner.on_cut_off(*cut_off_);
  });
  open_calls_.fail_collectives(*cut_off_);
  open_calls_.fail_requests(*cut_off_);
  pump();
}

// ---- node reports -----------------------------------------------------------------------

namespace {

constexpr std::uint32_t kMaxCode = 255;  // of a process that exits

}  // namespace

void NodeReports::perform(overlay::Deliver& deliver_it) {
  if (const overlay::Entry* entry = node_.entry(deliver_it.seq)) deliver(*entry);
}

void NodeReports::perform(overlay::Reported& reported) {
  if (leader_ != membership_.rank) return before_leading_.push_back(std::move(reported));
  std::vector<Ended> ended;
  for (const overlay::TaskReport& record : reported.exited) {
    auto each = decode(record);
    if (each) ended.push_back(*std::move(each));
    if (!each) log_.log(Level::warn, "", "{}", each.error().message);
  }
  deferred_.add_for_served([this, started = std::move(reported.started), ended = std::move(ended)] {
    if (callbacks.on_tasks) callbacks.on_tasks(started, ended);
  });
}

void NodeReports::perform(overlay::Unfit& unfit) {
  raise_({"exec", 0, fmt::format("{}: what the leader has sent is damaged: {}", unfit.name, unfit.why), 1});
}

void NodeReports::perform(overlay::TooLarge& overflow) {
  raise_({"exec", 0,
          fmt::format("{}: what the shells give is {} bytes together; at most {}", overflow.name, overflow.size,
                      node_.options().max_value),
          1});
}

// What cannot be read is found when the shell is dialled, and has no address.
// The leader says it with what follows from it, and the others by themselves.
void NodeReports::perform(overlay::AskArbiter& ask) {
  deferred_.add([this, others = ask.others] {
    if (callbacks.on_half) callbacks.on_half(others);
  });
}

void NodeReports::perform(overlay::Silent& silent) {
  log_.log(membership_.rank == leader_ ? Level::debug : Level::warn, "", "shell {} is suspected: {}", silent.peer,
           silent.why);
  silences_[static_cast<Rank>(silent.peer)] = std::move(silent.why);
}

std::string NodeReports::silence_of(Rank rank) const {
  auto found = silences_.find(rank);
  return found == silences_.end() ? "" : found->second;
}

void NodeReports::note_address(Rank rank, const std::string& address) {
  Result<void> known = membership_.directory.set(rank, transport::usable_on(transport::host_mark(), address));
  if (!known) log_.log(Level::warn, "", "the address of shell {}: {}", rank, known.error().message);
}

void NodeReports::give_up_absent() {
  gives_up_absent_ = true;
  if (code_) node_.suspect_absent();
}

// ---- entries of the log ---------------------------------------------------------------------

void NodeReports::deliver(const overlay::Entry& entry) {
  const bool is_campaign = std::holds_alternative<overlay::Campaign>(entry.body);
  if (is_campaign) tell(entry);
  if (entry.request.origin == membership_.rank) open_calls_.answer(entry);
  if (const auto* view = std::get_if<overlay::View>(&entry.body)) {
    deliver(*view);
  } else if (const auto* end = std::get_if<overlay::End>(&entry.body)) {
    deliver(*end);
  } else if (const auto* exception = std::get_if<overlay::ExceptionEntry>(&entry.body)) {
    deliver(*exception);
  } else if (const auto* event = std::get_if<overlay::Event>(&entry.body)) {
    deliver(*event);
  } else if (!is_campaign) {
    tell(entry);
  }
}

void NodeReports::tell(const overlay::Entry& entry) {
  auto call = told_of(entry, membership_.rank);
  if (call) deferred_.add_for_served([this, call = std::move(call)] { call(callbacks); });
}

void NodeReports::deliver(const overlay::View& view) {
  if (static_cast<Rank>(view.leader) != leader_) follow(static_cast<Rank>(view.leader));
  for (const overlay::Newcomer& each : view.add) note_address(each.id, each.address);
  if (!view.leave.empty() && !view.leave.contains(membership_.rank)) {
    deferred_.add_for_served([this, left = view.leave] {
      if (callbacks.on_left) callbacks.on_left(left);
    });
  }
  for (Rank rank : view.dead.ids()) {
    deferred_.add_for_served([this, rank] {
      if (callbacks.on_lost) callbacks.on_lost(rank);
    });
  }
}

void NodeReports::follow(Rank leader) {
  leader_ = leader;
  if (!deferred_.serving() && hooks.on_leader) deferred_.add([this] { hooks.on_leader(); });
  deferred_.add_for_served([this, leader] {
    if (callbacks.on_leader) callbacks.on_leader(leader);
  });
  if (leader != membership_.rank) return;
  for (overlay::Reported& each : std::exchange(before_leading_, {})) perform(each);
  deferred_.add_for_served([this] {
    if (callbacks.on_leading) callbacks.on_leading();
    lead_();
  });
}

void NodeReports::deliver(const overlay::End& end) {
  code_ = static_cast<int>(std::min<std::uint32_t>(end.code, kMaxCode));
  if (gives_up_absent_) node_.suspect_absent();
}

void NodeReports::deliver(const overlay::ExceptionEntry& exception) {
  JobException raised = decode(exception);
  if (raised.severity == 0) node_.expect_end(node_.options().fence);
  if (raised.severity == 0 && !deferred_.serving() && hooks.on_ended)
    deferred_.add([this, raised] { hooks.on_ended(raised); });
  deferred_.add_for_served([this, raised = std::move(raised)] {
    if (callbacks.on_exception) callbacks.on_exception(raised);
  });
}

void NodeReports::deliver(const overlay::Event& event) {
  auto whole = announcements_.take(event);
  if (!whole) return;
  if (whole->topic == kGiveUpSilent) {
    node_.wait_for_silent(std::min(Group::kSilentAtEnd, node_.options().silent_bound));
    return node_.expect_end(node_.options().silent_bound);
  }
  bool is_early = hooks.on_announced && !deferred_.serving();
  if (is_early && hooks.on_announced(whole->topic, whole->bytes)) return deferred_.drop_kept();
  deferred_.add_for_served([this, whole = *std::move(whole)] {
    if (callbacks.on_announcement) callbacks.on_announcement(whole.topic, whole.bytes);
  });
}

// ---- open calls -------------------------------------------------------------------------

namespace {

void fail(DeferredCalls& deferred, auto& open, const Error& why) {
  for (auto& [key, done] : std::exchange(open, {})) deferred.add([why, done = std::move(done)] { done(why); });
}

}  // namespace

void OpenCalls::answer(overlay::Released& released) {
  auto found = collectives_.extract(released.name);
  if (!found) return;
  deferred_.add(
      [done = std::move(found.mapped()), value = std::move(released.value)]() mutable { done(std::move(value)); });
}

// What a shrink or a grow begins with is no answer to it: that comes once it has ended.
void OpenCalls::answer(const overlay::Entry& entry) {
  if (std::holds_alternative<overlay::View>(entry.body)) return;
  auto found = requests_.extract(entry.request.number);
  if (found) deferred_.add([done = std::move(found.mapped()), entry] { done(entry); });
}

void OpenCalls::fail_collectives(const Error& why) { fail(deferred_, collectives_, why); }

void OpenCalls::fail_requests(const Error& why) { fail(deferred_, requests_, why); }

}  // namespace nacre::group
