// SPDX-License-Identifier: Apache-2.0
#include "bulk/upward_records.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace nacre::bulk {

// ---- own records -------------------------------------------------------------------------

Result<bool> UpwardRecords::put(Channel channel, std::string_view bytes) {
  CHECK_OK(check_record(options_.limits, unacked_.ended(), channel, bytes));
  std::size_t size = kHead + bytes.size();
  if (unacked_.bytes() + size > options_.limits.window) {
    wants_ = size;
    return false;
  }
  add(channel, bytes);
  return true;
}

Result<void> UpwardRecords::end(Channel channel) {
  if (unacked_.ended().contains(channel)) return Error{EPIPE, fmt::format("channel {}: it has ended", channel)};
  unacked_.end(channel);
  add(channel, {});
  return {};
}

void UpwardRecords::add(Channel channel, std::string_view bytes) {
  BulkKind kind = bytes.empty() ? BulkKind::end : BulkKind::data;
  Numbered number = unacked_.add(channel, bytes, !options_.leads(), is_answer(kind, channel));
  if (options_.leads()) out_.put(DeliverRecord{options_.self, number, channel, std::string(bytes)});
}

Result<void> UpwardRecords::own_taken(Numbered number) {
  if (number > unacked_.last()) {
    return Error{EPROTO, fmt::format("record {} was taken; {} is the last one", number, unacked_.last())};
  }
  bool had = !unacked_.empty();
  unacked_.taken(number);
  if (had && unacked_.empty()) out_.put(Drained{});
  if (wants_ == 0 || unacked_.bytes() + wants_ > options_.limits.window) return {};
  wants_ = 0;
  out_.put(Room{});
  return {};
}

// ---- the way up --------------------------------------------------------------------------

// What is under way may be lost. All origins whose records have passed here send them again, so the records that
// wait here need not go.
void UpwardRecords::new_path() {
  unacked_.rewind();
  if (!std::exchange(dirty_, false)) return;
  for (auto& [peer, child] : children_) {
    if (child.gone) continue;  // its records would not be sent again
    child.path = true;
    child.owed += child.queued;
    child.drop_queue();
  }
}

Result<void> UpwardRecords::take(Id peer, BulkChild& child, const BulkRecord& record) {
  OriginTable::Route from{peer, child.serial};
  bool goes_on = origin_of(record.head) != options_.self && TRY(origins_.came(record.head, from));
  if (goes_on && options_.leads()) goes_on = deliver(from, record);
  if (!goes_on) {
    child.owed += record.whole.size();
  } else if (!options_.leads()) {
    child.enqueue(record.whole, is_answer(record.head.kind, record.head.channel));
  }
  return {};
}

// True: the record is the owner's until it calls taken().
bool UpwardRecords::deliver(OriginTable::Route from, const BulkRecord& record) {
  Id origin = origin_of(record.head);
  switch (origins_.judge(origin, record.head.number)) {
    case OriginTable::Verdict::ahead: return false;
    case OriginTable::Verdict::again:  // the origin may have missed the note
      note_taken(origin, origins_.taken(origin));
      return false;
    case OriginTable::Verdict::next: break;
  }
  origins_.delivered(origin, record.head.number, from, record.whole.size(),
                     is_answer(record.head.kind, record.head.channel));
  out_.put(DeliverRecord{origin, record.head.number, record.head.channel, std::string(record.bytes)});
  return true;
}

bool UpwardRecords::has_some_to_send() const {
  return !unacked_.all_sent() || std::any_of(children_.begin(), children_.end(),
                                             [](const auto& each) { return !each.second.queue.empty(); });
}

// Only answers are to be sent, and this shell's or those of a child of the view are still to come.
bool UpwardRecords::waits_for_answers() const {
  if (options_.answers.empty() || unacked_.is_urgent()) return false;
  for (const auto& [peer, child] : children_) {
    if (child.urgent > 0) return false;
  }
  auto lacks = [this](Id member) {
    auto found = children_.find(member);
    return found != children_.end() && !found->second.gone && found->second.queue.empty();
  };
  return unacked_.all_sent() || std::any_of(children_.members().begin(), children_.members().end(), lacks);
}

bool UpwardRecords::waited() {
  if (!waits_) return false;
  go_ = true;
  return true;
}

void UpwardRecords::send(std::string& out) {
  if (!has_some_to_send()) {
    waits_ = go_ = false;
    return;
  }
  if (!go_ && waits_for_answers()) {
    if (!std::exchange(waits_, true)) out_.put(WaitForMore{});
    return;
  }
  waits_ = false;
  go_ = true;
  while (out.size() < options_.limits.write && send_next(out)) {
  }
}

// Sends one record of the origin whose turn it is: this shell's, then each child's.
bool UpwardRecords::send_next(std::string& out) {
  auto waits = [](const auto& each) { return !each.second.queue.empty(); };
  auto begin = last_ ? children_.after(*last_) : children_.begin();
  auto next = std::find_if(begin, children_.end(), waits);
  if (next == children_.end()) {
    if (unacked_.send_next(out)) {
      last_ = std::nullopt;
      return true;
    }
    next = std::find_if(children_.begin(), begin, waits);
    if (next == begin) return false;
  }
  auto& [peer, child] = *next;
  std::size_t size = child.take_first(out);
  last_ = peer;
  if (child.gone) return true;
  dirty_ = true;
  child.owed += size;
  return true;
}

// ---- acknowledgements of records -----------------------------------------------------------------

// Bytes of answers of which an origin need not be notified: it has room for one record beside them.
std::size_t UpwardRecords::most_unnoted() const {
  constexpr std::size_t kMostUnnoted = std::size_t{16} << 10;
  return std::min(kMostUnnoted,
                  options_.limits.window - std::min(options_.limits.window, kHead + options_.limits.record));
}

void UpwardRecords::taken(Id origin, Numbered number) {
  if (origin == options_.self) {
    (void)own_taken(std::min(number, unacked_.last()));
  } else {
    bool any = false;
    while (auto credit = origins_.take(origin, number)) {
      any = true;
      BulkChild* child = children_.linked(credit->to.peer, credit->to.link);
      if (child != nullptr) child->owed += credit->bytes;
    }
    if (any && origins_.note_is_due(origin, most_unnoted())) note_taken(origin, origins_.taken(origin));
  }
}

Result<void> UpwardRecords::take_note(const Taken& note) {
  if (note.origin == options_.self) return own_taken(note.number);
  note_taken(note.origin, note.number);
  return {};
}

void UpwardRecords::note_taken(Id origin, Numbered number) {
  auto route = origins_.route(origin);
  BulkChild* child = route ? children_.linked(route->peer, route->link) : nullptr;
  if (child == nullptr || number == 0) return;  // its records will come another way, and the note again
  Numbered& last = child->taken[origin];
  last = std::max(last, number);
}

}  // namespace nacre::bulk
