// SPDX-License-Identifier: Apache-2.0
//
// Reports: merges what children report, and passes on what is new.
#include <algorithm>

#include <fmt/format.h>

#include "overlay/node.hpp"

namespace nacre::overlay {

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

}  // namespace nacre::overlay
