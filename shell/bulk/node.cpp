// SPDX-License-Identifier: Apache-2.0
#include "bulk/node.hpp"

#include <algorithm>
#include <utility>

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
      children_(options.limits),
      broadcast_(options_, out_),
      upward_(options_, children_, out_) {}

std::vector<BulkEffect> BulkNode::take_effects() { return std::exchange(out_.effects, {}); }

void BulkNode::settle() {
  broadcast_.drop_stable();
  if (auto all = leads() ? consumed_by_all() : std::nullopt) broadcast_.all_have(*all);
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

std::optional<Numbered> BulkNode::consumed_by_all() {
  return broadcast_.started() ? children_.heard_by_all(broadcast_.consumed()) : std::nullopt;
}

// ---- what the owner wants ----------------------------------------------------------------

Result<bool> BulkNode::put(Channel channel, std::string_view bytes) {
  bool is_put = TRY(upward_.put(channel, bytes));
  if (is_put) settle();
  return is_put;
}

Result<void> BulkNode::end(Channel channel) {
  CHECK_OK(upward_.end(channel));
  settle();
  return {};
}

void BulkNode::taken(Id origin, Numbered number) {
  if (!leads()) return;
  upward_.taken(origin, number);
  settle();
}

void BulkNode::waited() {
  if (upward_.waited()) settle();
}

Result<bool> BulkNode::broadcast(Channel channel, std::string_view bytes) {
  bool is_sent = TRY(broadcast_.broadcast(channel, bytes));
  if (is_sent) settle();
  return is_sent;
}

Result<void> BulkNode::end_broadcast(Channel channel) {
  CHECK_OK(broadcast_.end(channel));
  settle();
  return {};
}

void BulkNode::consumed(Numbered number) {
  broadcast_.consumed(number);
  settle();
}

// ---- links -------------------------------------------------------------------------------

void BulkNode::view(ViewNumber number, const std::vector<Id>& children) {
  children_.set_view(number, children);
  settle();
}

void BulkNode::up(Id peer) {
  if (leads()) return;
  std::size_t credit = credit_down(options_.limits);
  up_.emplace(peer, options_.limits, credit);
  out_.grant({peer, Side::up}, kNotes, kNotesCredit);
  out_.grant({peer, Side::up}, kRecords, credit);
  upward_.new_path();
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
    CHECK_OK(child != nullptr ? upward_.take(from.peer, *child, *record) : broadcast_.take(*record));
  }
  if (child != nullptr) return {};
  at.record_credit += bytes.size();
  out_.grant(from, kRecords, bytes.size());
  return {};
}

// ---- what goes over links ----------------------------------------------------------------

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
  if (leads() && heard.number > broadcast_.have()) {
    return Error{EPROTO, fmt::format("broadcast record {} was acknowledged; {} is the last one", heard.number,
                                     broadcast_.have())};
  }
  child.heard = heard;
  return {};
}

Result<void> BulkNode::take_note_down(const Note& note) {
  if (const auto* taken = std::get_if<Taken>(&note)) return upward_.take_note(*taken);
  if (std::holds_alternative<Path>(note)) {
    upward_.new_path();
  } else if (const auto* stable = std::get_if<Stable>(&note)) {
    broadcast_.drop(stable->number);
  }
  return {};
}

void BulkNode::send_up() {
  if (!up_ || up_->traffic.writes_records) return;
  std::string out;
  upward_.send(out);
  write({up_->peer, Side::up}, kRecords, std::move(out));
}

void BulkNode::notify_up() {
  if (!up_ || up_->traffic.writes_notes) return;
  std::string out;
  if (!std::exchange(up_->greeted, true)) append_note(out, BulkHello{!broadcast_.started(), broadcast_.have()});
  auto all = consumed_by_all();
  if (all) {
    Heard heard{*children_.view(), *all};
    if (up_->sent != heard) append_note(out, heard);
    up_->sent = heard;
  }
  write({up_->peer, Side::up}, kNotes, std::move(out));
}

// Only the newest note of each kind is kept, so that waiting notes take little room.
void BulkNode::notify_down(Id peer, BulkChild& child) {
  if (child.traffic.writes_notes) return;
  std::string out;
  if (std::exchange(child.path, false)) append_note(out, Path{});
  broadcast_.notify(child, out);
  while (!child.taken.empty() && out.size() < options_.limits.write) {
    auto next = child.taken.begin();
    append_note(out, Taken{next->first, next->second});
    child.taken.erase(next);
  }
  write({peer, Side::down}, kNotes, std::move(out));
}

void BulkNode::feed(Id peer, BulkChild& child) {
  if (child.traffic.writes_records) return;
  std::string out;
  broadcast_.feed(child, out);
  write({peer, Side::down}, kRecords, std::move(out));
}

}  // namespace nacre::bulk
