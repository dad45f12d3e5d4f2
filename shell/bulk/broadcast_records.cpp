// SPDX-License-Identifier: Apache-2.0
#include "bulk/broadcast_records.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace nacre::bulk {
namespace {

// Ends may exceed the window.
constexpr std::size_t kEnds = kMaxBroadcastChannels * kHead;

}  // namespace

// ---- the leader's ------------------------------------------------------------------------

Result<bool> BroadcastRecords::broadcast(Channel channel, std::string_view bytes) {
  if (!options_.leads()) return Error{EPERM, "only the leader broadcasts"};
  CHECK_OK(check_record(options_.limits, store_.ended(), channel, bytes));
  std::size_t size = kHead + bytes.size();
  if (store_.bytes() + size > options_.limits.broadcast) {
    wants_ = size;
    return false;
  }
  add(BulkKind::data, channel, bytes);
  return true;
}

Result<void> BroadcastRecords::end(Channel channel) {
  if (!options_.leads()) return Error{EPERM, "only the leader broadcasts"};
  if (store_.ended().contains(channel)) return Error{EPIPE, fmt::format("channel {}: it has ended", channel)};
  if (store_.ended().size() == kMaxBroadcastChannels) {
    return Error{ENOSPC, fmt::format("channel {}: {} channels have ended; no more are allowed", channel,
                                     kMaxBroadcastChannels)};
  }
  add(BulkKind::end, channel, {});
  return {};
}

void BroadcastRecords::add(BulkKind kind, Channel channel, std::string_view bytes) {
  Head head{kind, channel, store_.stable(), store_.have() + 1, static_cast<std::uint32_t>(bytes.size())};
  out_.put(Announce{head.number, channel, store_.add(head, bytes).bytes});
}

// ---- what comes from above ---------------------------------------------------------------

Result<void> BroadcastRecords::take(const BulkRecord& record) {
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
Result<void> BroadcastRecords::start(const BulkRecord& record) {
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

void BroadcastRecords::cut_off() {
  if (!std::exchange(cut_off_, true)) out_.put(CutOff{});
}

// Keeps what the owner has not consumed. But if all members have taken that, this shell is no member.
void BroadcastRecords::drop(Numbered stable) {
  stable_ = std::max(stable_, stable);
  if (started_ && stable_ > consumed_) cut_off();
  store_.drop(std::min(stable_, consumed_));
}

// ---- which shells have it -------------------------------------------------------------------------

void BroadcastRecords::consumed(Numbered number) {
  consumed_ = std::max(consumed_, std::min(number, store_.have()));
}

void BroadcastRecords::all_have(Numbered number) {
  drop(number);
  if (wants_ == 0 || store_.bytes() + wants_ > options_.limits.broadcast) return;
  wants_ = 0;
  out_.put(BroadcastRoom{});
}

// ---- what goes down ----------------------------------------------------------------------

void BroadcastRecords::feed(BulkChild& child, std::string& out) const {
  if (!child.greeted || !started_) return;
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
}

void BroadcastRecords::notify(BulkChild& child, std::string& out) const {
  if (!child.greeted || !started_ || store_.stable() <= child.stable_sent) return;
  child.stable_sent = store_.stable();
  append_note(out, Stable{child.stable_sent});
}

}  // namespace nacre::bulk
