// SPDX-License-Identifier: Apache-2.0
//
// The broadcast: from the leader to all, and how the leader learns which shells have it.
#include <algorithm>

#include <fmt/format.h>

#include "bulk/node.hpp"

namespace nacre::bulk {
namespace {

// Ends may exceed the window.
constexpr std::size_t kEnds = kMaxBroadcastChannels * kHead;

}  // namespace

// ---- the leader's ------------------------------------------------------------------------

Result<bool> BulkNode::broadcast(Channel channel, std::string_view bytes) {
  if (!leads()) return Error{EPERM, "only the leader broadcasts"};
  CHECK_OK(check_record(options_.limits, store_.ended(), channel, bytes));
  std::size_t size = kHead + bytes.size();
  if (store_.bytes() + size > options_.limits.broadcast) {
    wants_broadcast_ = size;
    return false;
  }
  broadcast_record(BulkKind::data, channel, bytes);
  return true;
}

Result<void> BulkNode::end_broadcast(Channel channel) {
  if (!leads()) return Error{EPERM, "only the leader broadcasts"};
  if (store_.ended().contains(channel)) return Error{EPIPE, fmt::format("channel {}: it has ended", channel)};
  if (store_.ended().size() == kMaxBroadcastChannels) {
    return Error{ENOSPC, fmt::format("channel {}: {} channels have ended; no more are allowed", channel,
                                     kMaxBroadcastChannels)};
  }
  broadcast_record(BulkKind::end, channel, {});
  return {};
}

void BulkNode::broadcast_record(BulkKind kind, Channel channel, std::string_view bytes) {
  Head head{kind, channel, store_.stable(), store_.have() + 1, static_cast<std::uint32_t>(bytes.size())};
  out_.put(Announce{head.number, channel, store_.add(head, bytes).bytes});
  settle();
}

// ---- what comes from above ---------------------------------------------------------------

Result<void> BulkNode::take_record_down(const BulkRecord& record) {
  if (cut_off_) return {};
  const Head& head = record.head;
  if (head.kind == BulkKind::start) return start(record);
  if (!started_) return Error{EPROTO, "a broadcast record before a newcomer's start"};
  if (head.number != store_.have() + 1) {
    return Error{EPROTO, fmt::format("broadcast record {} after {}", head.number, store_.have())};
  }
  if (head.tag >= head.number)
    return Error{EPROTO, fmt::format("record {} is stable before it comes", head.number)};
  drop(head.tag);
  if (cut_off_) return {};
  if (store_.bytes() + record.whole.size() > options_.limits.broadcast + kEnds) {
    return Error{EPROTO, fmt::format("broadcast record {}: more than {} bytes that not all have", head.number,
                                     options_.limits.broadcast)};
  }
  const BroadcastStore::Kept& kept = store_.add(head, record.bytes);
  if (head.number > first_) out_.put(Announce{head.number, head.channel, kept.bytes});
  return {};
}

// Records up to the start's number are no longer available. A newcomer that begins after them does not need them.
// Another shell that gets such a start is no longer of the view, as its members never get one.
Result<void> BulkNode::start(const BulkRecord& record) {
  std::vector<Channel> ended = TRY(ended_channels(record.bytes));
  Numbered kept = record.head.number;
  if (started_ && kept <= store_.have()) {
    return Error{EPROTO, fmt::format("a start after {} for a shell that has {}", kept, store_.have())};
  }
  if (started_ && kept > first_) {
    cut_off();
    return {};
  }
  store_.start_after(kept);
  if (std::exchange(started_, true)) return {};
  first_ = consumed_ = record.head.tag;
  for (Channel channel : ended) {
    store_.end(channel);
    out_.put(Announce{first_, channel, {}});
  }
  return {};
}

Result<void> BulkNode::take_note_down(const Note& note) {
  if (const auto* taken = std::get_if<Taken>(&note)) {
    if (taken->origin == options_.self) return own_taken(taken->number);
    note_taken(taken->origin, taken->number);
  } else if (std::holds_alternative<Path>(note)) {
    new_path();
  } else if (const auto* stable = std::get_if<Stable>(&note)) {
    drop(stable->number);
  }
  return {};
}

void BulkNode::cut_off() {
  if (!std::exchange(cut_off_, true)) out_.put(CutOff{});
}

// Keeps what the owner has not consumed. But if all members have taken that, this shell is no member.
void BulkNode::drop(Numbered stable) {
  stable_ = std::max(stable_, stable);
  if (started_ && stable_ > consumed_) cut_off();
  store_.drop(std::min(stable_, consumed_));
}

// ---- which shells have it -------------------------------------------------------------------------

void BulkNode::consumed(Numbered number) {
  consumed_ = std::max(consumed_, std::min(number, store_.have()));
  settle();
}

// None: some child of the view has not reported in this view.
std::optional<Numbered> BulkNode::consumed_by_all() {
  if (!view_ || !started_) return std::nullopt;
  Numbered all = std::min(consumed_, store_.have());
  for (Id id : members_) {
    const BulkChild* child = children_.linked(id);
    if (child == nullptr || !child->heard || child->heard->view != *view_) return std::nullopt;
    all = std::min(all, child->heard->number);
  }
  return all;
}

void BulkNode::settle_consumed() {
  if (!leads()) return;
  auto all = consumed_by_all();
  if (!all) return;
  drop(*all);
  if (wants_broadcast_ == 0 || store_.bytes() + wants_broadcast_ > options_.limits.broadcast) return;
  wants_broadcast_ = 0;
  out_.put(BroadcastRoom{});
}

Result<void> BulkNode::take_note_up(BulkChild& child, const Note& note) {
  if (const auto* hello = std::get_if<BulkHello>(&note)) {
    if (std::exchange(child.greeted, true)) return Error{EPROTO, "a second hello"};
    child.unstarted = hello->newcomer;
    child.fed = hello->have;
    return {};
  }
  if (!child.greeted) return Error{EPROTO, "hello comes first"};
  const auto& heard = std::get<Heard>(note);
  if (child.heard && heard.view < child.heard->view) return Error{EPROTO, "a view older than the one before"};
  if (leads() && heard.number > store_.have()) {
    return Error{EPROTO, fmt::format("broadcast record {} was acknowledged; {} is the last one", heard.number,
                                     store_.have())};
  }
  child.heard = heard;
  return {};
}

void BulkNode::notify_up() {
  if (!up_ || up_->traffic.writes_notes) return;
  std::string out;
  if (!std::exchange(up_->greeted, true)) append_note(out, BulkHello{!started_, store_.have()});
  auto all = consumed_by_all();
  if (all) {
    Heard heard{*view_, *all};
    if (up_->sent != heard) append_note(out, heard);
    up_->sent = heard;
  }
  write({up_->peer, Side::up}, kNotes, std::move(out));
}

// ---- what goes down ----------------------------------------------------------------------

void BulkNode::feed(Id peer, BulkChild& child) {
  if (!child.greeted || !started_ || child.traffic.writes_records) return;
  std::string out;
  if (child.unstarted || child.fed < store_.stable()) {
    std::string ended;
    for (Channel channel : store_.ended()) append_channel(ended, channel);
    append_record(out, {BulkKind::start, 0, std::max(store_.have(), first_), store_.stable(), 0}, ended);
    child.fed = store_.stable();
    child.unstarted = false;
  }
  for (const BroadcastStore::Kept* each = nullptr; out.size() < options_.limits.write; ++child.fed) {
    each = store_.find(child.fed + 1);
    if (each == nullptr) break;
    append_record(out, each->head, each->bytes);
    child.stable_sent = std::max(child.stable_sent, each->head.tag);
  }
  write({peer, Side::down}, kRecords, std::move(out));
}

// Only the newest note of each kind is kept, so that waiting notes take little room.
void BulkNode::notify_down(Id peer, BulkChild& child) {
  if (child.traffic.writes_notes) return;
  std::string out;
  if (std::exchange(child.path, false)) append_note(out, Path{});
  if (child.greeted && started_ && store_.stable() > child.stable_sent) {
    child.stable_sent = store_.stable();
    append_note(out, Stable{child.stable_sent});
  }
  while (!child.taken.empty() && out.size() < options_.limits.write) {
    auto next = child.taken.begin();
    append_note(out, Taken{next->first, next->second});
    child.taken.erase(next);
  }
  write({peer, Side::down}, kNotes, std::move(out));
}

}  // namespace nacre::bulk
