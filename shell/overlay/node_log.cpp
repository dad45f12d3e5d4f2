// SPDX-License-Identifier: Apache-2.0
//
// The log: an entry is accepted in turn, forwarded to all below, delivered, and then applied.
#include <fmt/format.h>

#include "base/invariant.hpp"
#include "overlay/node.hpp"

namespace nacre::overlay {
namespace {

// No member waits for the acknowledgement of a release or of an event, so it goes with the next message. Until then
// those above keep these entries, so events are few, and have at most `most` bytes. `unacked`: entries, with this.
bool ack_can_wait(const Entry& entry, Seq unacked, std::size_t most) {
  constexpr Seq kMostUnacked = 64;
  if (std::holds_alternative<Release>(entry.body) || std::holds_alternative<Promise>(entry.body)) return true;
  const auto* event = std::get_if<Event>(&entry.body);
  return event != nullptr && event->data.size() <= most && unacked <= kMostUnacked;
}

}  // namespace

void Node::take(LinkName from, const Entry& entry) {
  if (from.side == Side::down) return refuse(from, Farewell::refused, "entries come from above");
  if (leads() || stage_ != Stage::member || entry.seq <= applied()) return;
  if (entry.seq == applied() + 1) return accept(entry);
  out_.put(Note{fmt::format("member {} skips entries: {} after {}", from.peer, entry.seq, applied())});
  uplink_.drop(from.peer);
}

void Node::accept(const Entry& entry) {
  INVARIANT(stage_ == Stage::member || leads());
  log_.append(entry);
  for (DownLink& each : child_table_.down_links()) {
    if (each.welcomed) feed(each);
  }
  requests_.answered(entry.request);
  constexpr std::size_t kSmall = 64;  // a piece has as many small events
  if (!ack_can_wait(entry, entry.seq - sent_standing_.acked, options_.piece / kSmall)) wants_ack_ = entry.seq;
  out_.put(Deliver{entry.seq});
  std::visit([&](const auto& body) { apply(entry, body); }, entry.body);
}

void Node::apply(const Entry& entry, const View& change) {
  if (change.dead.contains(options_.self)) return die("the others hold this member for dead");
  leaving_ = leaving_ | change.leave;
  if (change.leave.contains(options_.self)) return begin_leaving(change);
  INVARIANT(entry.seq > view_);
  tree_.apply(entry.seq, change);
  INVARIANT(tree_.has(options_.self));
  view_ = entry.seq;
  child_table_.set_children(options_.self, tree_);
  // Drops a collective when none of its members is left: no newcomer can be in a scope that has ended.
  std::erase_if(collectives_,
                [&](const Collective& each) { return each.scope.to <= entry.seq && !tree_.any_in(0, each.scope); });
  for (Collective& each : collectives_) {
    each.below.assign(child_table_.children().size(), {});
    each.sent = false;
    each.changed = true;
  }
  uplink_.route(tree_.ancestors(options_.self));
  for (DownLink& each : child_table_.down_links()) {
    if (each.welcomed && !each.closed && std::exchange(each.ahead, false)) {
      out_.send({each.peer, Side::down}, Welcome{applied(), view_, std::nullopt});
    }
  }
}

// The way up stays that of the view before.
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
  out_.put(Released{piece.name, piece.merge, *std::move(value)});
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

void Node::apply(const Entry& /*entry*/, const Campaign& end) {
  if (end.grow) return;
  Idset over = end.done | end.unconfirmed;
  leaving_ = leaving_ - over;
  reports_.forget_gone(over);
}

void Node::apply(const Entry& entry, const End& /*end*/) { end_ = entry.seq; }

void Node::settle_ending() {
  auto up = uplink_.current();
  if (!up || stage_ != Stage::member || acked() < end_) return;
  out_.send({*up, Side::up}, Bye{Farewell::finished, ""});
  stage_ = Stage::over;
  out_.put(Finished{child_table_.lost()});
}

}  // namespace nacre::overlay
