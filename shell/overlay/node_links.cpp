// SPDX-License-Identifier: Apache-2.0
//
// Links: HELLO and its answer, which entries a peer is sent, beats, and the end of a link.
#include <algorithm>

#include <fmt/format.h>

#include "overlay/node.hpp"

namespace nacre::overlay {

void Node::linked(LinkName link) {
  if (stage_ == Stage::over) return;
  if (link.side == Side::down) return child_table_.linked(link.peer);
  bool joining = stage_ == Stage::joining;
  if (!uplink_.linked(link.peer, joining)) return;
  Hello hello{options_.self, Standing::member, applied(), view_, "", uplink_.lost()};
  if (joining) {
    hello.standing = Standing::joining;
    hello.address = options_.address;
  } else if (stage_ == Stage::leaving) {
    hello.standing = Standing::leaving;
  }
  out_.send(link, std::move(hello));
}

void Node::unlinked(LinkName link) {
  if (stage_ == Stage::over) return;
  lose(link);
  settle();
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
    return out_.send(from, Welcome{applied(), view_, std::nullopt});
  }
  if (hello.standing == Standing::member) return admit(*down, hello);
  if (!leads()) return refuse(from, Farewell::refused, "newcomers dial the leader");
  down->knocks = true;
  down->address = hello.address;
}

void Node::admit(DownLink& down, const Hello& hello) {
  LinkName link{down.peer, Side::down};
  bool known = tree_.has(down.peer) || hello.applied > applied() || leaving_.contains(down.peer);
  if (!known || hello.applied + 1 < log_.first()) {
    return refuse(link, Farewell::removed, "the job goes on without this member");
  }
  down.fed = hello.applied;
  down.ahead = hello.view > view_;
  child_table_.welcome(down);
  out_.send(link, Welcome{applied(), view_, std::nullopt});
  // A node that waited for a beat in vain gets one now. Only from the leader: another node's last beat can be old.
  if (leads() && pulse_.number() > 0) {
    out_.send(link, Beat{pulse_.number(), campaigns_.stable(complete_), {}});
    fed_at_ = std::max(fed_at_, out_.now);
  }
  feed(down);
}

void Node::feed(DownLink& down) {
  LinkName link{down.peer, Side::down};
  while (!down.closed && down.fed < applied()) {
    const Entry* entry = log_.find(down.fed + 1);
    if (entry == nullptr) return;
    out_.put(SendEntry{link, entry->seq});
    down.fed = entry->seq;
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
  if (uplink_.welcomed(from.peer)) offer_again();
}

void Node::join(const Snapshot& snapshot, const Welcome& welcome) {
  if (!Tree(snapshot).has(options_.self)) return out_.put(Note{"the leader's snapshot lacks this member"});
  uplink_.welcomed(0);
  tree_ = Tree(snapshot);
  log_.start_after(welcome.applied);
  view_ = welcome.view;
  leaving_ = snapshot.leaving;
  for (RequestId each : snapshot.answered) requests_.answered(each);
  stage_ = Stage::member;
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
  Beat beat{pulse_.make(out_.now), campaigns_.stable(complete_), {}};
  forget(beat.stable);
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
  uplink_.starve(out_.now >= starving_at());
  if (stage_ != Stage::member) return;
  forget(beat.stable);
  pass_on({beat.number, beat.stable, {}});
}

// One that has become busy cannot dial a new parent: who still feeds it reports it up to that parent, or to the
// leader. Who leaves is no parent any more.
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

}  // namespace nacre::overlay
