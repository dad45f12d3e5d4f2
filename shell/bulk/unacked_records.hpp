// SPDX-License-Identifier: Apache-2.0
//
// The records of this shell that the leader has not taken. They are kept, to be sent again when the way to the
// leader is new.
#pragma once

#include <deque>
#include <set>
#include <string>

#include "bulk/wire.hpp"

namespace nacre::bulk {

class UnackedRecords {
 public:
  explicit UnackedRecords(Id self) : self_(self) {}

  // Returns the record's number. With `keep` its bytes are kept here; without, only its size counts.
  Numbered add(Channel channel, std::string_view bytes, bool keep, bool is_answer);
  void end(Channel channel) { ended_.insert(channel); }
  [[nodiscard]] const std::set<Channel>& ended() const { return ended_; }
  // Forgets those up to this number.
  void taken(Numbered number);

  // All records that are here will be sent again, as another attempt.
  void rewind() {
    next_ = 0;
    ++attempt_;
  }
  // Appends the next record to be sent; false: there is none.
  bool send_next(std::string& out);

  [[nodiscard]] Numbered last() const { return first_ + records_.size() - 1; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return records_.empty(); }
  [[nodiscard]] bool all_sent() const { return next_ == records_.size(); }
  // Among those that are to be sent is one that is no answer.
  [[nodiscard]] bool is_urgent() const { return last_urgent_ >= first_ + next_; }

 private:
  struct Kept {
    BulkKind kind;
    Channel channel;
    std::size_t size;
    std::string bytes;
  };

  Id self_;
  std::deque<Kept> records_;
  Numbered first_ = 1;         // of records_
  Numbered last_urgent_ = 0;   // the last one that is no answer
  std::size_t next_ = 0;       // index in records_ of the next one to be sent
  std::size_t bytes_ = 0;      // of all records_, with heads
  std::uint32_t attempt_ = 0;  // how many times the way was new
  std::set<Channel> ended_;
};

}  // namespace nacre::bulk
