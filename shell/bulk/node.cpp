// SPDX-License-Identifier: Apache-2.0
#include "bulk/node.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre::bulk {
namespace {

constexpr std::size_t kMostStart = kHead + 2 * kMaxBroadcastChannels;  // bytes

// A record from above is taken at once, so the credit only has to be enough for one record.
std::size_t credit_down(const Limits& limits) { return std::max(kHead + limits.record, kMostStart); }

}  // namespace

BulkNode::BulkNode(const BulkOptions& options)
    : options_(options), unacked_(options.self), origins_(options.limits.origins), started_(!options.newcomer) {}

std::vector<BulkEffect> BulkNode::take_effects() { return std::exchange(out_.effects, {}); }

std::size_t BulkNode::child_bytes(Id peer) const {
  auto found = children_.find(peer);
  return found == children_.end() ? 0 : found->second.queued + found->second.traffic.records.unread();
}

void BulkNode::settle() {
  drop(stable_);  // also what came after it was known to be stable
  settle_consumed();
  send_up();
  notify_up();
  for (auto& [peer, child] : children_) {
    if (child.gone) continue;
    feed(peer, child);
    notify_down(peer, child);
  }
  std::erase_if(children_, [](const auto& each) { return each.second.gone && each.second.queue.empty(); });
}

// ---- links -------------------------------------------------------------------------------

void BulkNode::view(ViewNumber number, const std::vector<Id>& children) {
  view_ = number;
  members_ = children;
  settle();
}

void BulkNode::up(Id peer) {
  if (leads()) return;
  std::size_t credit = credit_down(options_.limits);
  up_.emplace(peer, options_.limits, credit);
  out_.grant({peer, Side::up}, kNotes, kNotesCredit);
  out_.grant({peer, Side::up}, kRecords, credit);
  new_path();
  settle();
}

void BulkNode::no_up() {
  up_.reset();
  settle();
}

void BulkNode::child_up(Id peer) {
  children_.erase(peer);
  BulkChild& child = children_.emplace(peer, BulkChild(++serial_, options_.limits)).first->second;
  out_.grant({peer, Side::down}, kNotes, child.traffic.note_credit);
  out_.grant({peer, Side::down}, kRecords, child.traffic.record_credit);
  settle();
}

void BulkNode::child_gone(Id peer) {
  lose({peer, Side::down});
  settle();
}

void BulkNode::lose(LinkName link) {
  if (link.side == Side::up) {
    up_.reset();
  } else if (auto found = children_.find(link.peer); found != children_.end()) {
    found->second.gone = true;
    found->second.traffic.records = BulkRecordReader(Direction::up, options_.limits.record);
  }
}

Traffic* BulkNode::traffic(LinkName link) {
  if (link.side == Side::up) return up_ && up_->peer == link.peer ? &up_->traffic : nullptr;
  auto found = children_.find(link.peer);
  return found == children_.end() || found->second.gone ? nullptr : &found->second.traffic;
}

BulkChild* BulkNode::child_of(const OriginTable::Route& route) {
  auto found = children_.find(route.peer);
  bool there = found != children_.end() && found->second.serial == route.link && !found->second.gone;
  return there ? &found->second : nullptr;
}

Result<void> BulkNode::count(std::size_t& credit, std::size_t bytes, const char* stream) const {
  if (bytes > credit) {
    return Error{EPROTO, fmt::format("{} bytes of {}, with credit for {}", bytes, stream, credit)};
  }
  credit -= bytes;
  return {};
}

void BulkNode::write(LinkName to, StreamId stream, std::string bytes) {
  if (bytes.empty()) return;
  Traffic& at = *traffic(to);
  (stream == kNotes ? at.writes_notes : at.writes_records) = true;
  out_.put(Write{to, stream, std::move(bytes)});
}

void BulkNode::written(LinkName to, StreamId stream) {
  Traffic* at = traffic(to);
  if (at == nullptr) return;
  (stream == kNotes ? at->writes_notes : at->writes_records) = false;
  settle();
}

Result<void> BulkNode::received(LinkName from, StreamId stream, std::string_view bytes) {
  Traffic* at = traffic(from);
  if (at == nullptr) return {};
  BulkChild* child = from.side == Side::down ? &children_.at(from.peer) : nullptr;
  Result<void> done;
  if (stream == kNotes) {
    done = read_notes(from, *at, child, bytes);
  } else if (stream == kRecords) {
    done = read_records(from, *at, child, bytes);
  } else {
    done = Error{EPROTO, fmt::format("bytes of stream {}", stream)};
  }
  if (!done) lose(from);
  settle();
  if (done) return {};
  return in(fmt::format("bulk: shell {}", from.peer), std::move(done).error());
}

Result<void> BulkNode::read_notes(LinkName from, Traffic& at, BulkChild* child, std::string_view bytes) {
  CHECK_OK(count(at.note_credit, bytes.size(), "notes"));
  at.notes.add(bytes);
  for (;;) {
    std::optional<Note> note = TRY(at.notes.next());
    if (!note) break;
    CHECK_OK(child != nullptr ? take_note_up(*child, *note) : take_note_down(*note));
  }
  at.note_credit += bytes.size();
  out_.grant(from, kNotes, bytes.size());
  return {};
}

Result<void> BulkNode::read_records(LinkName from, Traffic& at, BulkChild* child, std::string_view bytes) {
  CHECK_OK(count(at.record_credit, bytes.size(), "records"));
  at.records.add(bytes);
  for (;;) {
    std::optional<BulkRecord> record = TRY(at.records.next());
    if (!record) break;
    CHECK_OK(child != nullptr ? take_record_up(from.peer, *child, *record) : take_record_down(*record));
  }
  if (child != nullptr) return {};
  at.record_credit += bytes.size();
  out_.grant(from, kRecords, bytes.size());
  return {};
}

// ---- what the owner wants ----------------------------------------------------------------

Result<void> BulkNode::check_put(const std::set<Channel>& ended, Channel channel, std::string_view bytes) const {
  if (bytes.empty()) return invalid(fmt::format("channel {}: a record without bytes", channel));
  if (bytes.size() > options_.limits.record) {
    return Error{EMSGSIZE, fmt::format("channel {}: a record of {} bytes; at most {} are allowed", channel,
                                       bytes.size(), options_.limits.record)};
  }
  if (ended.contains(channel)) return Error{EPIPE, fmt::format("channel {}: it has ended", channel)};
  return {};
}

}  // namespace nacre::bulk
