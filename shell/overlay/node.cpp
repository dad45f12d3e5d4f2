// SPDX-License-Identifier: Apache-2.0
#include "overlay/node.hpp"

#include <algorithm>

#include <fmt/format.h>

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
  if (options_.newcomer) stage_ = Stage::joining;
}

Message Node::entry_message(Seq seq) const {
  const Entry* entry = log_.find(seq);
  return {out_.job, out_.term, entry != nullptr ? Body(*entry) : Body(Bye{})};
}

std::vector<Effect> Node::take_effects() { return std::exchange(out_.effects, {}); }

void Node::begin() {
  begun_ = true;
  pulse_.begin(out_.now);
  sent_up_at_ = out_.now;
  fed_at_ = out_.now + options_.first_hello_bound;  // until then it is normal that no node has come
  if (stage_ == Stage::joining) {
    uplink_.route({0});
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
    if (now >= pulse_.made() + options_.beat_interval || pulse_.number() == 0) beat();
  } else {
    if (now >= pulse_.fence_at()) return fence();
    uplink_.starve(now >= starving_at());
    if (now >= sent_up_at_ + options_.beat_interval) send_up_beat();
  }
  child_table_.tick(tree_);
  for (Id id : child_table_.take_silent()) note_silence(id);
  uplink_.tick();
  settle();
  arm();
}

// When a node was stopped, every bound has passed, and what the others have sent meanwhile is yet to be read.
void Node::stood_still(Time gap) {
  child_table_.excuse(gap);
  uplink_.excuse(gap);
  campaigns_.excuse(gap);
  if (leave_deadline_ != Outbox::kNever) leave_deadline_ += gap;
  fed_at_ += gap;
  pulse_.wake(out_.now);
}

// What explains it is of now: the view that takes the child out comes later.
void Node::note_silence(Id id) {
  const Child* child = child_table_.child(id);
  if (child == nullptr) return;
  const Time since = child->heard.any() ? child->heard.last() : out_.now;
  const Time late = lateness_.most_since(since);
  out_.put(Silent{
      id, fmt::format("{}; the timers of this shell were at most {:g} s late then", child->heard.text(out_.now),
                      static_cast<double>(std::chrono::duration_cast<milliseconds>(late).count()) / 1000)});
}

Time Node::starving_at() const { return pulse_.starving_at(tree_.depth(options_.self)); }

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
  if (message.job != out_.job || message.term != out_.term) {
    refuse(from, Farewell::refused,
           message.job != out_.job ? fmt::format("this is job {}, not {}", out_.job, message.job)
                                   : fmt::format("this is term {} of the job, not {}", out_.term, message.term));
    return settle();
  }
  bool is_hello = std::holds_alternative<Hello>(message.body);
  if (down != nullptr && !is_hello && !down->welcomed && !std::holds_alternative<Bye>(message.body)) {
    if (!down->knocks) refuse(from, Farewell::refused, "HELLO comes first");
    return settle();
  }
  const Beat* beat = std::get_if<Beat>(&message.body);
  bool is_busy = beat != nullptr && beat->busy.contains(from.peer);
  if (down != nullptr && !is_busy) child_table_.received(from.peer);
  std::visit([&](const auto& body) { take(from, body); }, message.body);
  settle();
}

void Node::settle() {
  if (stage_ == Stage::over) return;
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

}  // namespace nacre::overlay
