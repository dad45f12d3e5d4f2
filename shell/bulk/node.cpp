// SPDX-License-Identifier: Apache-2.0
#include "bulk/node.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre::bulk {
namespace {

constexpr std::size_t kMostStart = kHead + 2 * kMaxBroadcastChannels;  // bytes

// A record from above is taken at once, so the credit only has to be enough for one record.
std::size_t credit_down(const Limits& limits) { return std::max(kHead + limits.record, kMostStart); }

// EPROTO: there is less credit.
Result<void> spend(std::size_t& credit, std::size_t bytes, const char* stream) {
  if (bytes > credit) {
    return Error{EPROTO, fmt::format("{} bytes of {}, with credit for {}", bytes, stream, credit)};
  }
  credit -= bytes;
  return {};
}

}  // namespace

BulkNode::BulkNode(const BulkOptions& options)
    : options_(options),
      unacked_(options.self),
      origins_(options.limits.origins),
      children_(options.limits),
      started_(!options.newcomer) {}

std::vector<BulkEffect> BulkNode::take_effects() { return std::exchange(out_.effects, {}); }

void BulkNode::settle() {
  drop(stable_);  // also what came after it was known to be stable
  settle_consumed();
  send_up();
  notify_up();
  for (auto& [peer, child] : children_) {
    if (child.gone) continue;
    out_.grant({peer, Side::down}, kRecords, child.take_owed(options_.limits.link));
    feed(peer, child);
    notify_down(peer, child);
  }
  children_.forget_done();
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
  BulkChild& child = children_.add(peer);
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
  } else {
    children_.unlink(link.peer);
  }
}

Traffic* BulkNode::traffic(LinkName link) {
  if (link.side == Side::up) return up_ && up_->peer == link.peer ? &up_->traffic : nullptr;
  BulkChild* child = children_.linked(link.peer);
  return child == nullptr ? nullptr : &child->traffic;
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
  BulkChild* child = from.side == Side::down ? children_.linked(from.peer) : nullptr;
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
  CHECK_OK(spend(at.note_credit, bytes.size(), "notes"));
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
  CHECK_OK(spend(at.record_credit, bytes.size(), "records"));
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

}  // namespace nacre::bulk
