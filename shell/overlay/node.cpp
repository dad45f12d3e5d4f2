// SPDX-License-Identifier: Apache-2.0
#include "overlay/node.hpp"

#include "overlay/wire.hpp"

namespace nacre::overlay {

Node::Node(OverlayOptions options)
    : options_(std::move(options)),
      pulse_(options_),
      tree_(options_.members, options_.arity),
      uplink_(options_, out_),
      child_table_(options_, out_) {
  out_.job = options_.job;
  out_.term = options_.term;
  log_.start_after(0, options_.term);
  quorums_.add(0, tree_.members());
  if (options_.newcomer) stage_ = Stage::joining;
}

Message Node::entry_message(Seq seq) const {
  const Entry* entry = log_.find(seq);
  return {out_.job, log_.term_of(seq), entry != nullptr ? Body(*entry) : Body(Bye{})};
}

void Node::begin() {
  begun_ = true;
  pulse_.begin(out_.now);
  sent_up_at_ = out_.now;
  fed_at_ = out_.now + options_.first_hello_bound;  // until then it is normal that no node has come
  if (stage_ == Stage::joining) {
    uplink_.route({options_.leader});
  } else {
    child_table_.set_children(options_.self, tree_, true);
    uplink_.route(tree_.ancestors(options_.self));
  }
  for (Collective& each : collectives_) each.below.assign(child_table_.children().size(), {});
}

void Node::tick(Time now) {
  Time late = begun_ && out_.due != Outbox::kNever ? now - out_.due : Time(0);
  out_.now = now;
  lateness_.note(now, late);
  if (late > options_.beat_interval) stood_still(late + options_.beat_interval);
  if (stage_ == Stage::over) return;
  if (begun_ && now < out_.due) return;
  if (!begun_) begin();
  out_.due = Outbox::kNever;
  if (leads()) {
    if (now >= cut_off_until_ && reached_since_ == Outbox::kNever)
      return die(fmt::format("cut off from {} of the shells, which may have another leader by now",
                             has_arbiter() ? "half or more" : "more than half"));
    if (now >= pulse_.made() + options_.beat_interval || pulse_.number() == 0) beat();
  } else {
    if (now >= pulse_.fence_at()) return fence();
    uplink_.starve(!election_.is_open() && now >= starving_at());
    if (now >= sent_up_at_ + options_.beat_interval) send_up_beat();
    watch_leader();
    if (stage_ == Stage::over) return;
  }
  child_table_.tick(tree_);
  for (Id id : child_table_.take_silent()) note_silence(id);
  uplink_.tick();
  settle();
  arm();
}

// When a node was stopped every bound has passed, but what the others have sent meanwhile is still to be read.
void Node::stood_still(Time gap) {
  child_table_.excuse(gap);
  uplink_.excuse(gap);
  campaigns_.excuse(gap);
  Outbox::postpone(leave_deadline_, gap);
  fed_at_ += gap;
  pulse_.wake(out_.now);
  stood_still_at_ = out_.now;
  // The others may have another leader: what this one tells its owner next waits until they have a new entry.
  is_in_doubt_ = leads() && options_.hands_over && tree_.size() > 1 && gap >= options_.silent_bound / 2;
  cut_off_until_ = std::max(cut_off_until_, out_.now + options_.hello_bound);
}

// Notes the reason for the silence now, as the view that takes the child out comes later.
void Node::note_silence(Id id) {
  const Child* child = child_table_.child(id);
  if (child == nullptr) return;
  const Time since = child->heard.any() ? child->heard.last() : out_.now;
  const Time late = lateness_.most_since(since);
  out_.put(Silent{
      id, fmt::format("{}; the timers of this shell were at most {:g} s late then", child->heard.text(out_.now),
                      static_cast<double>(std::chrono::duration_cast<milliseconds>(late).count()) / 1000)});
}

void Node::send_up_beat() {
  wants_ack_ = applied();
  flush_up();
  if (sent_up_at_ == out_.now) return;
  sent_up_at_ = out_.now;
  if (auto up = uplink_.current()) out_.send({*up, Side::up}, Beat{pulse_.number(), 0, {}});
}

void Node::fence() {
  if (end_ == 0) return die(fmt::format("nothing from the leader for {} ms", options_.fence.count()));
  stage_ = Stage::over;
  out_.put(Finished{});
}

void Node::arm() {
  if (stage_ == Stage::over) return;
  Time due = std::min({child_table_.due(), uplink_.due(), leave_deadline_});
  if (leads()) {
    due = std::min({due, pulse_.made() + options_.beat_interval, campaigns_.due(out_.now)});
  } else {
    due = std::min({due, pulse_.fence_at(), sent_up_at_ + options_.beat_interval});
    if (starving_at() > out_.now) due = std::min(due, starving_at());
  }
  out_.wake(due);
}

void Node::die(std::string why) {
  stage_ = Stage::over;
  out_.put(Die{std::move(why)});
}

void Node::step(LinkName from, const Message& message) {
  if (stage_ == Stage::over) return;
  DownLink* down = from.side == Side::down ? child_table_.down(from.peer) : nullptr;
  if (from.side == Side::down && down == nullptr) return;  // its link is closed already
  if (is_of_another(from, message)) return settle();
  bool is_hello = std::holds_alternative<Hello>(message.body);
  if (down != nullptr && !is_hello && !down->welcomed && !std::holds_alternative<Bye>(message.body)) {
    if (!down->knocks) refuse(from, Farewell::refused, "HELLO comes first");
    return settle();
  }
  const Beat* beat = std::get_if<Beat>(&message.body);
  bool is_busy = beat != nullptr && beat->busy.contains(from.peer);
  if (down != nullptr && !is_busy) child_table_.received(from.peer);
  std::visit(
      [&](const auto& body) {
        if constexpr (std::is_same_v<decltype(body), const Entry&>) {
          take(from, body, message.term);
        } else {
          take(from, body);
        }
      },
      message.body);
  settle();
}

// Whether the message is of another job, of an earlier start of this one, or of a term that this member has left
// behind.
bool Node::is_of_another(LinkName from, const Message& message) {
  const bool is_old = options_.hands_over ? message.term < options_.term : message.term != out_.term;
  if (message.job != out_.job || is_old) {
    refuse(from, Farewell::refused,
           message.job != out_.job ? fmt::format("this is job {}, not {}", out_.job, message.job)
                                   : fmt::format("this is term {} of the job, not {}", out_.term, message.term));
    return true;
  }
  if (message.term > out_.term && leads()) {
    die(fmt::format("another shell leads this job by now, in its term {}", message.term));
    return true;
  }
  promise(message.term, std::nullopt);
  if (from.side == Side::down || std::holds_alternative<Entry>(message.body)) return false;
  if (message.term < out_.term) {  // its sender may still follow the former leader
    if (std::holds_alternative<Welcome>(message.body)) uplink_.drop(from.peer);
    return !std::holds_alternative<Bye>(message.body);
  }
  if (uplink_.current() == from.peer) feeder_term_ = message.term;
  return false;
}

void Node::settle() {
  if (stage_ == Stage::over) return;
  if (election_.is_open()) {
    watch_leader();
    if (stage_ == Stage::over) return;
  }
  if (leads()) return lead();
  flush_up();
  if (stage_ == Stage::leaving) settle_leaving();
  if (end_ != 0) settle_ending();
}

// ---- what the owner wants ----------------------------------------------------------------

Result<void> Node::enter(std::string name, Merge merge, const Own& part, Scope scope) {
  if (name.empty() || name.size() > kMaxText)
    return invalid(fmt::format("a collective's name has 1 to {} bytes", kMaxText));
  Value value = TRY(in(name, value_of(merge, options_.self, part)));
  if (released_.contains(name)) return invalid(fmt::format("{}: it has been released", name));
  Collective& here = collective(name, scope, merge);
  if (here.scope != scope || here.merge != merge) {
    return invalid(fmt::format("{}: others have entered it with another scope or kind", name));
  }
  if (here.own) return invalid(fmt::format("{}: it was entered before", name));
  here.own = std::move(value);
  here.changed = true;
  settle();
  return {};
}

Result<std::uint64_t> Node::request(RequestBody body) {
  if (stage_ == Stage::over || end_ != 0) return Error{EPIPE, "the job has ended"};
  Request request{{options_.self, next_request_}, std::move(body)};
  CHECK_OK(encode({out_.job, out_.term, request}));
  ++next_request_;
  if (leads()) {
    accept_request(request);
  } else {
    requests_.add(request);
    auto up = uplink_.current();
    if (stage_ == Stage::member && up) out_.send({*up, Side::up}, request);
  }
  settle();
  return request.id.number;
}

void Node::started(const Idset& tasks) {
  reports_.add_started(tasks);
  settle();
}

void Node::exited(const Idset& tasks, Bytes record) {
  reports_.add_exited({tasks, std::move(record)});
  settle();
}

void Node::tasks_ended() {
  tasks_done_ = true;
  settle();
}

void Node::stays() {
  auto up = uplink_.current();
  if (stage_ != Stage::over || !up || !reports_.gone().contains(options_.self)) return;
  out_.send({*up, Side::up}, Bye{Farewell::gone, ""});
  out_.put(HangUp{{*up, Side::up}});
}

void Node::suspect(Id child) {
  if (Child* found = child_table_.child(child)) found->suspected = found->ended = true;
  if (leaving_.contains(child)) {
    processes_over_.insert(child);
    if (child_table_.down(child) == nullptr) reports_.add_gone(Idset::range(child, child));
  }
  if (leads()) campaigns_.give_up(child);
  settle();
}

// A node that has an entry got it from a leader, which took connections by then.
void Node::leader_refuses() {
  if (leads() || stage_ == Stage::over || stage_ == Stage::leaving || applied() == 0) return;
  if (options_.hands_over) {
    election_.is_sure = true;
    watch_leader();
    return stage_ == Stage::over ? void() : settle();
  }
  if (end_ == 0) return die("the leader has ended: no connections are taken there any more");
  stage_ = Stage::over;
  out_.put(Finished{});
}

void Node::wait_for_silent(milliseconds bound) {
  milliseconds before = options_.silent_bound;
  options_.wait_for_silent(bound);
  child_table_.shift_silence(options_.silent_bound - before);
}

void Node::expect_end(milliseconds busy_bound) {
  child_table_.bear_busy_until(out_.now + busy_bound);
  child_table_.wait_for_absent(options_.silent_bound);
}

void Node::suspect_absent() {
  for (Child& each : child_table_.children()) {
    if (!each.was_linked) each.suspected = true;
  }
  settle();
}

// ---- node links -------------------------------------------------------------------------
//
// Links: HELLO and its answer, which entries a peer is sent, beats, and the end of a link.

void Node::linked(LinkName link) {
  if (stage_ == Stage::over) return;
  if (link.side == Side::down) return child_table_.linked(link.peer);
  bool joining = stage_ == Stage::joining;
  if (!uplink_.linked(link.peer, joining)) return;
  Hello hello{options_.self, Standing::member, applied(), view_, "", uplink_.lost(), log_.last_term()};
  if (joining) {
    hello.standing = Standing::joining;
    hello.address = options_.address;
  } else if (stage_ == Stage::leaving) {
    hello.standing = Standing::leaving;
  }
  out_.send(link, std::move(hello));
}

void Node::unlinked(LinkName link) {
  if (stage_ == Stage::over || has_let_go(link)) return;
  lose(link);
  settle();
}

// Whether the last tick has given the link up: then this is not the end of a link that may have replaced it.
bool Node::has_let_go(LinkName link) const {
  return std::any_of(out_.effects.begin(), out_.effects.end(), [&](const Effect& each) {
    const auto* hang_up = std::get_if<HangUp>(&each);
    return hang_up != nullptr && hang_up->link == link;
  });
}

void Node::lose(LinkName link) {
  if (link.side == Side::up) return uplink_.unlinked(link.peer);
  bool is_over = has_left(link.peer) || processes_over_.contains(link.peer);
  if (is_over && leaving_.contains(link.peer)) reports_.add_gone(Idset::range(link.peer, link.peer));
  child_table_.unlinked(link.peer);
}

bool Node::has_left(Id peer) {
  const DownLink* down = child_table_.down(peer);
  return down != nullptr && down->has_left;
}

void Node::refuse(LinkName link, Farewell why, std::string text) {
  out_.put(Note{fmt::format("member {} is sent away: {}", link.peer, text)});
  out_.send(link, Bye{why, std::move(text)});
  out_.put(HangUp{link});
  lose(link);
}

void Node::take(LinkName from, const Hello& hello) {
  DownLink* down = from.side == Side::down ? child_table_.down(from.peer) : nullptr;
  if (down == nullptr || hello.from != from.peer || down->welcomed || down->knocks) {
    return refuse(from, Farewell::refused, "HELLO is sent once, by the end that dialled, with its own number");
  }
  child_table_.doubted(hello.suspects);
  if (hello.standing == Standing::leaving) {
    down->closed = true;  // it needs nothing more, and only reports
    child_table_.welcome(*down);
    return out_.send(from, Welcome{applied(), view_, std::nullopt, log_.last_term()});
  }
  if (hello.standing == Standing::member) return admit(*down, hello);
  if (!leads()) return refuse(from, Farewell::refused, "newcomers dial the leader");
  down->knocks = true;
  down->address = hello.address;
}

void Node::admit(DownLink& down, const Hello& hello) {
  LinkName link{down.peer, Side::down};
  bool known = tree_.has(down.peer) || hello.applied > applied() || leaving_.contains(down.peer);
  if (!known || hello.applied + 1 < log_.first() || log_.parts_from(hello.log_term, hello.applied))
    return send_away(down.peer);
  down.fed = hello.applied;
  down.fed_term = hello.log_term;
  down.ahead = hello.view > view_;
  child_table_.welcome(down);
  out_.send(link, Welcome{applied(), view_, std::nullopt, log_.last_term()});
  // A node that waited for a beat in vain gets one now, but only from the leader: another node's last beat can be
  // old.
  if (leads() && pulse_.number() > 0) {
    out_.send(link, Beat{pulse_.number(), campaigns_.stable(complete_), {}, complete_});
    fed_at_ = std::max(fed_at_, out_.now);
  }
  feed(down);
  const std::optional<Claim>& claim = election_.claim;
  const bool passes = claim && !down.closed && (claim->trial || election_.votes.contains(options_.self));
  if (passes) out_.send(link, *claim);
}

// This log has one more entry. At its place a peer may have an entry of a lost leader.
void Node::feed_all() {
  std::vector<Id> parted;
  for (DownLink& each : child_table_.down_links()) {
    if (!each.welcomed) continue;
    if (!each.closed && log_.parts_from(each.fed_term, each.fed)) {
      parted.push_back(each.peer);
    } else {
      feed(each);
    }
  }
  for (Id peer : parted) send_away(peer);
}

void Node::feed(DownLink& down) {
  LinkName link{down.peer, Side::down};
  while (!down.closed && down.fed < applied()) {
    const Entry* entry = log_.find(down.fed + 1);
    if (entry == nullptr) return;
    out_.put(SendEntry{link, entry->seq});
    down.fed = entry->seq;
    down.fed_term = log_.term_of(entry->seq);
    const auto* change = std::get_if<View>(&entry->body);
    if (change == nullptr || !(change->leave | change->dead).contains(down.peer)) continue;
    down.closed = true;
    out_.put(HalfClose{link});
  }
}

void Node::take(LinkName from, const Welcome& welcome) {
  if (from.side == Side::down)
    return refuse(from, Farewell::refused, "WELCOME is sent by the end that was dialled");
  if (stage_ == Stage::joining) {
    if (welcome.snapshot) join(*welcome.snapshot, welcome);
    return;
  }
  if (log_.parts_from(welcome.log_term, welcome.applied)) return uplink_.drop(from.peer);
  if (!uplink_.welcomed(from.peer)) return;
  feeder_term_ = out_.term;
  election_.heard_at = out_.now;
  offer_again();
}

void Node::join(const Snapshot& snapshot, const Welcome& welcome) {
  if (!Tree(snapshot).has(options_.self)) return out_.put(Note{"the leader's snapshot lacks this member"});
  uplink_.welcomed(options_.leader);
  tree_ = Tree(snapshot);
  log_.start_after(welcome.applied, welcome.log_term);
  quorums_.start_from(snapshot.quorums);
  for (const OpenView& each : snapshot.open) campaigns_.follow(each);
  view_ = welcome.view;
  leaving_ = snapshot.leaving;
  for (RequestId each : snapshot.answered) requests_.answered(each);
  stage_ = Stage::member;
  feeder_term_ = out_.term;
  child_table_.set_children(options_.self, tree_);
  for (Collective& each : collectives_) each.below.assign(child_table_.children().size(), {});
  out_.put(Joined{view_});
  uplink_.route(tree_.ancestors(options_.self));
  offer_again();
}

void Node::offer_again() {
  reports_.offer_again();
  sent_standing_.view = kNoEnd;
  for (Collective& each : collectives_) {
    each.sent = false;
    each.changed = true;
  }
  auto up = uplink_.current();
  if (!up || stage_ != Stage::member) return;
  for (const Request& each : requests_.pending()) out_.send({*up, Side::up}, each);
}

void Node::beat() {
  forget(campaigns_.stable(complete_));
  send_beat();
}

void Node::send_beat() {
  const Beat beat{pulse_.make(out_.now), campaigns_.stable(complete_), {}, complete_};
  const bool is_cut_off = cut_off_since_ != Outbox::kNever && reached_since_ == Outbox::kNever &&
                          out_.now >= cut_off_since_ + options_.silent_bound;
  if (is_cut_off) return;
  if (pass_on(beat)) fed_at_ = std::max(fed_at_, out_.now);
}

// Whether there is a node to send it to.
bool Node::pass_on(const Beat& beat) {
  bool any = false;
  for (const DownLink& each : child_table_.down_links()) {
    // A newcomer that no grow waits for gets no beat, and gives up.
    bool awaited = each.knocks && campaigns_.awaits(each.peer);
    if (each.closed || !(each.welcomed || awaited)) continue;
    out_.send({each.peer, Side::down}, beat);
    any = true;
  }
  return any;
}

void Node::forget(Seq stable) {
  log_.drop(stable);
  std::erase_if(released_, [&](const auto& each) { return each.second <= stable; });
}

void Node::take(LinkName from, const Beat& beat) {
  if (from.side == Side::down) return take_busy(beat.busy);
  if (leads()) return;
  if (!beat.busy.empty() && beat.number == 0) {
    if (uplink_.current() != from.peer || stage_ != Stage::member) return;
    pulse_.feeder_lives(out_.now);
    return pass_on(beat), void();
  }
  if (!pulse_.receive(beat.number, out_.now)) return;
  if (election_.is_open()) watch_leader();
  uplink_.starve(!election_.is_open() && out_.now >= starving_at());
  if (stage_ != Stage::member) return;
  quorums_.complete(beat.complete);
  forget(beat.stable);
  pass_on({beat.number, beat.stable, {}, beat.complete});
}

// A member that has become busy cannot dial a new parent. The node that still feeds it reports it up to that
// parent, or to the leader. A member that leaves is no parent any more.
void Node::take_busy(const Idset& busy) {
  Idset elsewhere;
  for (Id id : busy.ids()) {
    if (!child_table_.busy(id) || stage_ == Stage::leaving) elsewhere.insert(id);
  }
  if (elsewhere.empty() || leads()) return;
  if (auto up = uplink_.current()) out_.send({*up, Side::up}, Beat{pulse_.number(), 0, elsewhere});
}

void Node::take(LinkName from, const Bye& bye) {
  if (from.side == Side::up) {
    if (bye.why == Farewell::removed) return die("the job goes on without this member");
    if (bye.why == Farewell::refused)
      out_.put(Note{fmt::format("member {} sends this one away: {}", from.peer, bye.text)});
    return;
  }
  if (DownLink* down = child_table_.down(from.peer)) down->parted = true;
  Child* child = child_table_.child(from.peer);
  if (child != nullptr && bye.why == Farewell::finished) child->finished = true;
  if (bye.why == Farewell::gone) lose(from);
}

// ---- node up ----------------------------------------------------------------------------
//
// Reports: merges what children report, and passes on what is new.

void Node::take(LinkName from, const Up& up) {
  if (from.side == Side::up) return refuse(from, Farewell::refused, "UP is sent by the end that dialled");
  Idset gone = up.view > view_ ? up.gone : up.gone & leaving_;
  if (up.gone.contains(from.peer)) {
    child_table_.down(from.peer)->has_left = true;
    gone.remove(from.peer);
  }
  reports_.add_gone(gone);
  reports_.add_started(up.started);
  for (const TaskReport& each : up.exited) reports_.add_exited(each);
  if (up.view > view_) child_table_.down(from.peer)->ahead = true;
  Child* child = child_table_.child(from.peer);
  if (child == nullptr || up.view != view_) return;
  child->reported = true;
  child->acked = std::max(child->acked, up.acked);
  child->suspects = up.suspects;
  child->ended_below = up.ended;
  auto index = static_cast<std::size_t>(child - child_table_.children().data());
  for (const Part& each : up.parts) take_part(index, each);
}

void Node::take(LinkName from, const Request& request) {
  if (from.side == Side::up) return refuse(from, Farewell::refused, "requests go up");
  if (leads()) return accept_request(request);
  if (!requests_.add(request)) return;
  auto up = uplink_.current();
  if (up) out_.send({*up, Side::up}, request);
}

Collective& Node::collective(const std::string& name, Scope scope, Merge merge) {
  for (Collective& each : collectives_) {
    if (each.name == name) return each;
  }
  Collective fresh;
  fresh.name = name;
  fresh.scope = scope;
  fresh.merge = merge;
  fresh.below.resize(child_table_.children().size());
  return collectives_.emplace_back(std::move(fresh));
}

void Node::take_part(std::size_t child, const Part& part) {
  if (released_.contains(part.name)) return;
  Collective& here = collective(part.name, part.scope, part.merge);
  if (here.scope != part.scope || here.merge != part.merge) {
    return out_.put(Note{fmt::format("{}: members have entered it with different scopes or kinds", part.name)});
  }
  Below& below = here.below[child];
  if (!below.pieces.add(part.at, part.total, part.data)) return;
  auto value = decode_value(part.merge, below.pieces.take());
  if (!value) return out_.put(Note{fmt::format("{}: {}", part.name, value.error().message)});
  below.value = *std::move(value);
  here.changed = true;
}

bool Node::is_whole(const Collective& each) const {
  bool any = each.own.has_value();
  if (!any && tree_.in(options_.self, each.scope)) return false;
  for (std::size_t i = 0; i < each.below.size(); ++i) {
    any = any || each.below[i].value;
    if (each.below[i].value) continue;
    auto slot = tree_.slot_of(child_table_.children()[i].id);
    if (slot && tree_.any_in(*slot, each.scope)) return false;
  }
  return any;
}

Seq Node::acked() const { return std::min(applied(), child_table_.acked(end_ != 0)); }

// The records of tasks go before the parts: a node that has all parts of a collective then also has what their
// members reported before they entered it.
void Node::flush_up() {
  auto up = uplink_.current();
  if (!up || stage_ == Stage::joining) return;
  LinkName link{*up, Side::up};
  bool with_standing = stage_ == Stage::member && uplink_.at_parent();
  Up report;
  for (bool unsent = reports_.take_unsent(report); unsent; unsent = reports_.take_unsent(report)) {
    send_up(link, std::exchange(report, {}), with_standing);
  }
  if (!with_standing) return;
  flush_parts(link);
  bool acks = acked() != sent_standing_.acked && sent_standing_.acked < wants_ack_;
  if (acks || view_ != sent_standing_.view || child_table_.suspects(tree_) != sent_standing_.suspects ||
      child_table_.ended(tree_) != sent_standing_.ended)
    send_up(link, {}, true);
}

bool Node::overflows(const Collective& each, std::size_t size) {
  if (size <= options_.max_value) return false;
  out_.put(TooLarge{each.name, size});
  return true;
}

void Node::flush_parts(LinkName parent) {
  for (Collective& each : collectives_) {
    if (each.sent || !std::exchange(each.changed, false) || !is_whole(each)) continue;
    each.sent = true;
    Bytes encoded = encode_value(merged(each.merge, each.own, each.below));
    if (overflows(each, encoded.size())) continue;
    cut(encoded, options_.piece, [&](std::size_t at, std::size_t total, Bytes data) {
      Up up;
      up.parts.push_back({each.name, each.scope, each.merge, at, total, std::move(data)});
      send_up(parent, std::move(up), true);
    });
  }
}

void Node::send_up(LinkName to, Up up, bool with_standing) {
  sent_up_at_ = out_.now;
  if (with_standing) {
    up.view = view_;
    up.acked = acked();
    up.suspects = child_table_.suspects(tree_);
    up.ended = child_table_.ended(tree_);
    sent_standing_ = {up.view, up.acked, up.suspects, {}, {}, {}, {}, up.ended};
  }
  out_.send(to, std::move(up));
}

// ---- node log ---------------------------------------------------------------------------
//
// The log: an entry is accepted in turn, forwarded to all below, delivered, and then applied.

namespace {

// What an owner does by this entry is seen by others, or ends something.
bool waits_for_all(const Entry& entry) {
  return !std::holds_alternative<Release>(entry.body) && !std::holds_alternative<Promise>(entry.body) &&
         !std::holds_alternative<Signal>(entry.body) && !std::holds_alternative<End>(entry.body);
}

// No member waits for the acknowledgement of a release or of an event, so it goes with the next message. Until then
// those above keep these entries, so events are few, and have at most `most` bytes. `unacked`: entries, with this.
bool ack_can_wait(const Entry& entry, Seq unacked, std::size_t most) {
  constexpr Seq kMostUnacked = 64;
  if (std::holds_alternative<Release>(entry.body) || std::holds_alternative<Promise>(entry.body)) return true;
  const auto* event = std::get_if<Event>(&entry.body);
  return event != nullptr && event->data.size() <= most && unacked <= kMostUnacked;
}

}  // namespace

void Node::take(LinkName from, const Entry& entry, std::uint64_t term) {
  if (from.side == Side::down && !options_.hands_over)
    return refuse(from, Farewell::refused, "entries come from above");
  if (from.side == Side::down) return take_from_below(entry, term);
  if (leads() || stage_ != Stage::member) return;
  if (entry.seq <= applied()) {  // if it is another entry, of a later leader, the next HELLO shows it
    if (log_.term_of(entry.seq) < term) uplink_.drop(from.peer);
    return;
  }
  const bool is_followed = !options_.hands_over || std::max(feeder_term_, term) >= out_.term;
  if (!is_followed || term < log_.last_term()) return;
  if (entry.seq == applied() + 1) return accept(entry, term);
  out_.put(Note{fmt::format("member {} skips entries: {} after {}", from.peer, entry.seq, applied())});
  uplink_.drop(from.peer);
}

void Node::accept(const Entry& entry, std::uint64_t term) {
  INVARIANT(stage_ == Stage::member || leads());
  log_.append(entry, term);
  feed_all();
  requests_.answered(entry.request);
  constexpr std::size_t kSmall = 64;  // a piece has as many small events
  const bool waits = ack_can_wait(entry, entry.seq - sent_standing_.acked, options_.piece / kSmall) &&
                     !(options_.hands_over && waits_for_all(entry));
  if (!waits) wants_ack_ = entry.seq;
  tell(waits_for_all(entry) ? entry.seq : 0, Deliver{entry.seq});
  std::visit([&](const auto& body) { apply(entry, body); }, entry.body);
}

// Where another shell may come to lead, nobody may see what this leader does by an entry that could be lost with
// it. All effects follow in the order of the log.
void Node::tell(Seq until, Effect effect) {
  const bool waits = (leads() || takes_over_) && options_.hands_over && (until > complete_ || !withheld_.empty());
  if (waits) return withheld_.add(until, std::move(effect));
  out_.put(std::move(effect));
}

void Node::apply(const Entry& entry, const View& change) {
  const Id leader = tree_.leader();
  if (change.dead.contains(options_.self)) return die("the others hold this member for dead");
  leaving_ = leaving_ | change.leave;
  if (change.leave.contains(options_.self)) return begin_leaving(change);
  INVARIANT(entry.seq > view_);
  tree_.apply(entry.seq, change);
  INVARIANT(tree_.has(options_.self));
  view_ = entry.seq;
  quorums_.add(view_, tree_.members());
  if (!leads()) campaigns_.follow(entry, change);
  if (leader != tree_.leader() && !leads()) {
    election_.close();
    pulse_.follow(out_.now);
  }
  child_table_.set_children(options_.self, tree_);
  // Drops a collective when none of its members is left: no newcomer can be in a scope that has ended.
  std::erase_if(collectives_,
                [&](const Collective& each) { return each.scope.to <= entry.seq && !tree_.any_in(0, each.scope); });
  for (Collective& each : collectives_) {
    each.below.assign(child_table_.children().size(), {});
    each.sent = false;
    each.changed = true;
  }
  uplink_.route(election_.is_open() ? above_without_leader() : tree_.ancestors(options_.self));
  for (DownLink& each : child_table_.down_links()) {
    if (each.welcomed && !each.closed && std::exchange(each.ahead, false)) {
      out_.send({each.peer, Side::down}, Welcome{applied(), view_, std::nullopt, log_.last_term()});
    }
  }
}

// The way up stays that of the former view.
void Node::begin_leaving(const View& change) {
  stage_ = Stage::leaving;
  for (const Child& each : child_table_.children()) {
    if (change.leave.contains(each.id)) doomed_.insert(each.id);
  }
  child_table_.drop_children();
  collectives_.clear();
  promises_ = {};
  leave_deadline_ = out_.now + options_.leave_bound;
  out_.wake(leave_deadline_);
  out_.put(Leave{});
}

void Node::settle_leaving() {
  bool late = out_.now >= leave_deadline_;
  if (late && !tasks_done_) return die("the tasks did not end in time for this member to leave");
  if (!tasks_done_ || (!late && !(doomed_ - reports_.gone()).empty())) return;
  if (!late && child_table_.any_ends()) return;
  auto up = uplink_.current();
  if (!up && !late) return;
  reports_.add_gone(Idset::range(options_.self, options_.self));
  flush_up();
  stage_ = Stage::over;
  out_.put(Finished{});
}

void Node::apply(const Entry& entry, const Release& piece) {
  bool whole = incoming_.add(piece.at, piece.total, piece.data);
  if (piece.at + piece.data.size() < piece.total) return;
  released_.emplace(piece.name, entry.seq);
  std::erase_if(collectives_, [&](const Collective& each) { return each.name == piece.name; });
  if (!whole || !tree_.in(options_.self, piece.scope)) return;
  auto value = decode_value(piece.merge, incoming_.take());
  if (!value) return out_.put(Note{fmt::format("{}: {}", piece.name, value.error().message)});
  tell(0, Released{piece.name, piece.merge, *std::move(value)});
}

void Node::apply(const Entry& entry, const Promise& promise) {
  released_.emplace(promise.name, entry.seq);
  std::erase_if(collectives_, [&](const Collective& each) { return each.name == promise.name; });
  bool is_awaited = !leads() && tree_.in(options_.self, promise.scope);
  if (is_awaited) promises_.promised(entry.seq, promise);
  promises_.settle(applied(), options_, out_);
}

void Node::arrived(Seq entry, Bytes value) {
  if (stage_ != Stage::member) return;
  promises_.arrived(entry, std::move(value));
  promises_.settle(applied(), options_, out_);
}

void Node::apply(const Entry& entry, const Campaign& end) {
  if (!leads()) campaigns_.follow(entry, end);
  if (end.grow) return;
  Idset over = end.done | end.unconfirmed;
  leaving_ = leaving_ - over;
  reports_.forget_gone(over);
}

void Node::settle_ending() {
  auto up = uplink_.current();
  if (!up || stage_ != Stage::member || acked() < end_) return;
  out_.send({*up, Side::up}, Bye{Farewell::finished, ""});
  stage_ = Stage::over;
  out_.put(Finished{child_table_.lost()});
}

// ---- node leader ------------------------------------------------------------------------
//
// The leader's decisions: each one is an entry.

void Node::append(RequestId request, EntryBody body) {
  if (auto* change = std::get_if<View>(&body)) change->leader = options_.self;
  accept({applied() + 1, request, std::move(body)}, out_.term);
}

// Runs at the end of every call: appends what is due, until nothing more is.
void Node::lead() {
  if (std::exchange(is_in_doubt_, false) && end_ == 0) append({}, Event{});
  bool changed = true;
  while (changed && end_ == 0) {
    changed = bury();
    changed = seat_newcomers() || changed;
    changed = release_collectives() || changed;
    note_complete();
    while (auto end = campaigns_.over(out_.now, complete_, reports_.gone() | ended_, tree_)) {
      append(end->first, std::move(end->second));
      changed = true;
    }
  }
  note_complete();
  report();
  out_.wake(campaigns_.due(out_.now));
  if (end_ == 0 || complete_ < end_) return;
  stage_ = Stage::over;
  out_.put(Finished{child_table_.lost()});
}

void Node::note_complete() {
  Seq all = acked();
  const bool are_enough = !options_.hands_over || quorums_.may_lead(tree_.members(), reports_.gone());
  if (all >= view_ && are_enough) quorums_.complete(view_);
  if (options_.hands_over && quorums_.first_open() <= view_) return;  // too few members have acknowledged it
  if (all <= complete_) return;
  const bool has_new_view = complete_ < view_ && view_ <= all;
  complete_ = all;
  out_.put(Completed{all});
  withheld_.release(complete_, out_);
  // If this leader is lost next, the others choose by this view alone.
  if (options_.hands_over && has_new_view) send_beat();
}

// With an arbiter the other half may have its word to choose another leader.
bool Node::reaches_enough(const Idset& suspects) {
  const Idset missing = suspects | child_table_.away(tree_);
  const Idset reached = tree_.members() - missing;
  if (!quorums_.may_lead(reached, reports_.gone())) return false;
  const bool needs_arbiter = has_arbiter() && !suspects.empty() && quorums_.is_half(reached, reports_.gone());
  if (!needs_arbiter || (missing - agreed_).empty()) return true;
  if (missing == suspects) ask_arbiter(suspects);  // else some may come back
  return false;
}

// A leader that reaches less than half of the members appends no view, and sends no beat once that lasts: the
// others may have another leader.
bool Node::may_lead(const Idset& suspects) {
  if (!options_.hands_over) return true;
  if (reaches_enough(suspects)) {
    if (cut_off_since_ == Outbox::kNever) return true;
    if (reached_since_ == Outbox::kNever) reached_since_ = out_.now;
    // Not at once: what was delayed on its way proves nothing.
    if (out_.now >= reached_since_ + options_.silent_bound)
      cut_off_since_ = cut_off_until_ = reached_since_ = Outbox::kNever;
    return true;
  }
  reached_since_ = Outbox::kNever;
  if (cut_off_since_ == Outbox::kNever) {
    const bool stood_still = out_.now < stood_still_at_ + options_.hello_bound;
    cut_off_since_ = out_.now;
    cut_off_until_ = stood_still ? stood_still_at_ + options_.hello_bound : out_.now + options_.fence;
    out_.put(Note{"too few members can be reached"});
  }
  out_.wake(cut_off_until_);
  return false;
}

bool Node::bury() {
  View change;
  // Only the leader sends beats. If it could send none for so long, all others have ended by rule 10.
  bool is_alone =
      !options_.hands_over && tree_.size() > 1 && out_.now >= fed_at_ + options_.fence + options_.beat_interval;
  Idset suspects = is_alone ? Idset::range(0, Idset::kMaxId) : child_table_.suspects(tree_);
  for (Id id : tree_.members_of(suspects)) {
    if (id != options_.self) change.dead.insert(id);
  }
  if (!may_lead(change.dead) || change.dead.empty()) return false;
  change.dead = change.dead.take_first(kSplitIds);  // the others are found again
  if (!is_alone) ended_ = ended_ | (child_table_.ended(tree_) & change.dead);
  append({}, std::move(change));
  return true;
}

bool Node::seat_newcomers() {
  bool changed = false;
  for (OpenCampaign& each : campaigns_.open()) {
    if (!each.grow || each.view != 0) continue;
    View change;
    Idset waits_for = each.targets - each.missing;
    for (const DownLink& down : child_table_.down_links()) {
      if (!down.knocks || !each.targets.contains(down.peer)) continue;
      change.add.push_back({down.peer, down.address});
      waits_for.remove(down.peer);
    }
    if (!waits_for.empty() && out_.now < each.deadline) continue;
    changed = true;
    if (change.add.empty()) {
      append(each.request, Campaign{true, 0, {}, each.targets});
      each.targets = {};
      continue;
    }
    append(each.request, change);
    each.view = applied();
    welcome_newcomers(change);
  }
  std::erase_if(campaigns_.open(), [](const OpenCampaign& each) { return each.targets.empty(); });
  return changed;
}

void Node::welcome_newcomers(const View& change) {
  Snapshot snapshot;
  tree_.write(snapshot);
  snapshot.leaving = leaving_;
  snapshot.answered = requests_.all_answered();
  snapshot.open = campaigns_.views();
  snapshot.quorums = quorums_.all();
  for (const Newcomer& each : change.add) {
    DownLink* down = child_table_.down(each.id);
    down->knocks = false;
    down->fed = applied();
    down->fed_term = log_.last_term();
    child_table_.welcome(*down);
    out_.send({each.id, Side::down}, Welcome{applied(), view_, snapshot, log_.last_term()});
  }
}

bool Node::release_collectives() {
  auto found = std::find_if(collectives_.begin(), collectives_.end(),
                            [&](Collective& each) { return std::exchange(each.changed, false) && is_whole(each); });
  if (found == collectives_.end()) return false;
  Collective whole = std::move(*found);
  collectives_.erase(found);
  Value value = merged(whole.merge, std::move(whole.own), std::move(whole.below));
  Bytes encoded = encode_value(value);
  if (overflows(whole, encoded.size())) return true;
  if (auto digest = digest_of(encoded, whole.scope)) {
    append({}, Promise{whole.name, whole.scope, whole.merge, encoded.size(), *std::move(digest)});
    out_.put(Publish{applied(), std::move(encoded)});
    if (tree_.in(options_.self, whole.scope)) tell(0, Released{whole.name, whole.merge, std::move(value)});
    return true;
  }
  value = {};
  cut(encoded, options_.piece, [&](std::size_t at, std::size_t total, Bytes data) {
    append({}, Release{whole.name, whole.scope, whole.merge, at, total, std::move(data)});
  });
  return true;
}

// None: the value goes in the log. A newcomer needs it there, as it does not get values published before it is fed,
// and so does a member that comes to lead.
std::optional<Bytes> Node::digest_of(const Bytes& encoded, Scope scope) {
  if (encoded.size() <= options_.max_logged || !options_.digest) return std::nullopt;
  if (options_.hands_over || tree_.any_in(0, {std::max(scope.from, Seq{1}), scope.to})) return std::nullopt;
  auto digest = options_.digest(encoded);
  if (digest) return *std::move(digest);
  out_.put(Note{digest.error().message});
  return std::nullopt;
}

// Only the first record of a task counts.
void Node::report() {
  Up unsent;
  while (reports_.take_unsent(unsent)) {
    Reported reported{unsent.started, {}};
    for (TaskReport& each : unsent.exited) {
      each.tasks = each.tasks - exited_;
      exited_.insert(each.tasks);
      if (!each.tasks.empty()) reported.exited.push_back(std::move(each));
    }
    unsent = {};
    if (!reported.started.empty() || !reported.exited.empty()) out_.put(std::move(reported));
  }
}

// ---- requests ----------------------------------------------------------------------------

void Node::accept_request(const Request& request) {
  if (end_ != 0 || !campaigns_.take(request.id)) return;
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { answer(request.id, body); }) {
          answer(request.id, body);
        } else {
          append(request.id, body);
        }
      },
      request.body);
}

void Node::answer(RequestId id, const Exec& body) {
  if (body.strict) {
    Idset lost = not_members(body.map, tree_);
    if (!lost.empty()) return append(id, Refused{"exec: a shell that it names is not of the job any more", lost});
  }
  Exec mapped{view_, remap(body.map, tree_), body.command, body.strict, body.kind};
  // When ranks go to other members, their text becomes longer.
  auto frame = encode({out_.job, out_.term, Entry{applied() + 1, id, mapped}});
  Result<Message> fits = frame ? decode(*frame) : Result<Message>(std::move(frame).error());
  if (!fits) return append(id, Refused{"exec: " + fits.error().message.substr(0, kMaxText / 2), {}});
  append(id, std::move(mapped));
}

void Node::answer(RequestId id, const Shrink& body) {
  if (body.leave.contains(options_.self)) return append(id, Refused{"shrink: the leader cannot leave", {}});
  View change;
  for (Id each : tree_.members_of(body.leave)) change.leave.insert(each);
  if (change.leave.empty()) return append(id, Refused{"shrink: none of these is a member", {}});
  Idset targets = change.leave;
  ended_ = ended_ | (child_table_.ended(tree_) & targets);  // they were lost before, and answer no more
  Seq hold = complete_;
  append(id, std::move(change));
  campaigns_.open({id, false, applied(), hold, std::move(targets), out_.now + options_.campaign_bound, {}});
}

void Node::answer(RequestId id, const Grow& body) {
  if (body.add.empty()) return append(id, Refused{"grow: no members named", {}});
  if (body.add.size() > kMaxNewcomers) {
    return append(id, Refused{fmt::format("grow: {} at once; at most {}", body.add.size(), kMaxNewcomers), {}});
  }
  for (Id each : body.add.ids()) {
    bool used = each < options_.members || tree_.joined(each) != 0 || campaigns_.awaits(each);
    if (used) return append(id, Refused{fmt::format("grow: {} is in use, or was", each), {}});
  }
  campaigns_.open({id, true, 0, 0, body.add, out_.now + milliseconds(body.wait), {}});
}

// ---- campaigns --------------------------------------------------------------------------

bool Campaigns::awaits(Id id) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](const auto& each) { return each.grow && each.view == 0 && each.targets.contains(id); });
}

void Campaigns::give_up(Id id) {
  for (OpenCampaign& each : open_) {
    if (each.grow && each.targets.contains(id)) each.missing.insert(id);
  }
}

std::optional<std::pair<RequestId, Campaign>> Campaigns::over(Time now, Seq complete, const Idset& gone,
                                                              const Tree& tree) {
  for (auto each = open_.begin(); each != open_.end(); ++each) {
    Campaign end{each->grow, each->view, {}, {}};
    if (each->view == 0 || complete < each->view) continue;
    if (each->grow) {
      for (Id id : each->targets.ids()) {
        if (tree.joined(id) == each->view && tree.has(id)) end.done.insert(id);
      }
    } else {
      end.done = each->targets & gone;
      if (end.done != each->targets && now < each->deadline) continue;
    }
    end.unconfirmed = each->targets - end.done;
    RequestId request = each->request;
    open_.erase(each);
    return std::pair(request, std::move(end));
  }
  return std::nullopt;
}

void Campaigns::follow(const OpenView& open) {
  open_.push_back({open.request, open.grow, open.view, 0, open.targets, Outbox::kNever, {}});
}

void Campaigns::follow(const Entry& entry, const View& change) {
  if (entry.request.number == 0) return;
  Idset added;
  for (const Newcomer& each : change.add) added.insert(each.id);
  follow({entry.request, !change.add.empty(), entry.seq, change.add.empty() ? change.leave : added});
}

void Campaigns::follow(const Entry& entry, const Campaign& /*end*/) {
  std::erase_if(open_, [&](const OpenCampaign& each) { return each.request == entry.request; });
}

void Campaigns::wait_until(Time deadline) {
  for (OpenCampaign& each : open_) each.deadline = deadline;
}

std::vector<OpenView> Campaigns::views() const {
  std::vector<OpenView> out;
  for (const OpenCampaign& each : open_) {
    if (each.view != 0) out.push_back({each.request, each.grow, each.view, each.targets});
  }
  return out;
}

Seq Campaigns::stable(Seq complete) const {
  for (const OpenCampaign& each : open_) {
    if (!each.grow) complete = std::min(complete, each.hold);
  }
  return complete;
}

void Campaigns::excuse(Time gap) {
  for (OpenCampaign& each : open_) Outbox::postpone(each.deadline, gap);
}

Time Campaigns::due(Time now) const {
  Time due = Outbox::kNever;
  for (const OpenCampaign& each : open_) {
    bool waits = (each.view == 0 || !each.grow) && each.deadline > now;
    if (waits) due = std::min(due, each.deadline);
  }
  return due;
}

// ---- the log's terms --------------------------------------------------------------------

std::uint64_t EntryLog::term_of(Seq seq) const {
  auto next = std::find_if(terms_.begin(), terms_.end(), [&](const auto& each) { return each.first > seq; });
  return next == terms_.begin() ? terms_.front().second : std::prev(next)->second;
}

bool EntryLog::parts_from(std::uint64_t term, Seq seq) const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [&](const auto& each) { return each.second > term && each.first <= seq; });
}

Idset not_members(const std::vector<RankShare>& map, const Tree& tree) {
  Idset out;
  for (const RankShare& each : map) {
    if (!tree.has(each.member)) out.insert(each.member);
  }
  if (auto beyond = out.nth(kMaxNamed)) out.remove(*beyond, Idset::kMaxId);
  return out;
}

std::vector<RankShare> remap(const std::vector<RankShare>& map, const Tree& tree) {
  std::vector<RankShare> out;
  Idset homeless;
  for (const RankShare& each : map) {
    if (tree.has(each.member)) {
      out.push_back(each);
    } else {
      homeless = homeless | each.ranks;
    }
  }
  if (homeless.empty()) return out;
  if (out.empty()) out.push_back({tree.at(0), {}});
  std::size_t next = 0;
  for (const auto& range : homeless.ranges()) {
    for (std::uint64_t rank = range.first; rank <= range.last; ++rank) {
      out[next++ % out.size()].ranks.insert(static_cast<Id>(rank));
    }
  }
  return out;
}

// ---- promises ---------------------------------------------------------------------------

namespace {

Result<Value> value_promised(const Promise& promise, const Bytes& bytes, const OverlayOptions& options) {
  if (bytes.size() != promise.size) {
    return invalid(fmt::format("{} bytes have come; {} were announced", bytes.size(), promise.size));
  }
  if (!options.digest) return invalid("this member has no digest to check it by");
  Bytes digest = TRY(options.digest(bytes));
  if (digest != promise.digest) return invalid("it has another digest than was announced");
  return decode_value(promise.merge, bytes);
}

}  // namespace

void Promises::settle(Seq applied, const OverlayOptions& options, Outbox& out) {
  while (!values_.empty() && values_.begin()->first <= applied) {
    auto arrived = values_.extract(values_.begin());
    auto promise = promises_.extract(arrived.key());
    if (promise.empty()) continue;
    auto value = value_promised(promise.mapped(), arrived.mapped(), options);
    std::string& name = promise.mapped().name;
    if (value) {
      out.put(Released{std::move(name), promise.mapped().merge, *std::move(value)});
    } else {
      out.put(Unfit{std::move(name), value.error().message});
    }
  }
}

// ---- pulse ------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kLatest = std::uint64_t{1}
                                  << 50;  // milliseconds: larger numbers would not fit as microseconds

}  // namespace

std::uint64_t Pulse::make(Time now) {
  made_ = now;
  auto clock = static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(now).count());
  return number_ = std::max(number_ + 1, clock);
}

bool Pulse::receive(std::uint64_t number, Time now) {
  if (number <= number_) return false;
  number_ = number;
  // The beat was made at its number plus the least delay of all beats: a beat that was delayed proves little.
  Time made = milliseconds(std::min(number, kLatest));
  least_delay_ = std::min(least_delay_, now - made);
  made_ = std::max(made_, made + least_delay_);
  return true;
}

void Pulse::wake(Time now) {
  if (woke_ <= made_) woke_ = now;
}

Time Pulse::starving_at(std::uint32_t depth) const {
  return std::max(made_, woke_) + options_.beat_bound + depth * options_.beat_bound_per_level;
}

Time Pulse::lost_at(std::uint32_t depth) const {
  return starving_at(depth) + options_.leader_silences * options_.silent_bound - options_.beat_bound;
}

void Pulse::follow(Time now) {
  number_ = 0;
  least_delay_ = Time::max();
  made_ = now;
}

Time Pulse::fence_at() const {
  return std::max(made_ + options_.fence, std::max(woke_, lives_) + options_.hello_bound);
}

void OverlayOptions::wait_for_silent(milliseconds bound) {
  const OverlayOptions usual;
  double factor = static_cast<double>(bound.count()) / static_cast<double>(usual.silent_bound.count());
  for (auto each : {&OverlayOptions::silent_bound, &OverlayOptions::beat_bound,
                    &OverlayOptions::beat_bound_per_level, &OverlayOptions::fence, &OverlayOptions::hello_bound,
                    &OverlayOptions::relink_bound, &OverlayOptions::welcome_bound}) {
    this->*each = milliseconds(static_cast<std::int64_t>(static_cast<double>((usual.*each).count()) * factor));
  }
}

}  // namespace nacre::overlay
