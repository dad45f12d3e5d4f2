// SPDX-License-Identifier: Apache-2.0
#include "bulk/unacked_records.hpp"

#include <algorithm>

#include "base/invariant.hpp"

namespace nacre::bulk {

Numbered UnackedRecords::add(Channel channel, std::string_view bytes, bool keep, bool is_answer) {
  records_.push_back(
      {bytes.empty() ? BulkKind::end : BulkKind::data, channel, bytes.size(), std::string(keep ? bytes : "")});
  bytes_ += kHead + bytes.size();
  if (!is_answer) last_urgent_ = last();
  return last();
}

void UnackedRecords::taken(Numbered number) {
  for (; first_ <= number && !records_.empty(); ++first_) {
    INVARIANT(bytes_ >= kHead + records_.front().size);
    bytes_ -= kHead + records_.front().size;
    records_.pop_front();
    next_ -= std::min<std::size_t>(next_, 1);
  }
}

bool UnackedRecords::send_next(std::string& out) {
  if (all_sent()) return false;
  const Kept& each = records_[next_];
  append_record(out, {each.kind, each.channel, tag_of(self_, attempt_), first_ + next_, 0}, each.bytes);
  ++next_;
  return true;
}

}  // namespace nacre::bulk
