// SPDX-License-Identifier: Apache-2.0
//
// A notice: one message to a client about how the tasks of a job have ended. Its text is one line of JSON, or several if it is
// large (its parts). nacre-exits(7) has the format for people; this is all of it:
//
//   seq    1, 2, ...: the number of the message among the job's. Message k holds what was recorded after message k-1
//   n      the tasks of the job
//   done   those of them whose records have been sent, this message's included; left out of the last message, where it is n
//   d      the largest class: all ranks that were sent in no message before, and are not in x, belong to it
//   x      the other classes. {CLASS: RANKS, ...} or, where that is shorter, [FIRST, [CLASS, ...], BASE64]
//   end    1: the job has ended, nothing follows; else 0
// and where they are not empty or 0:
//   more   1: another part of the same message follows. Of all parts d is the same, and counts after the last one
//   base   1: what the client has is void, as it lacks messages that are not kept any more; this is all up to seq
//   open   RANKS that have failed and whose output has not come out within the drain limit
//   cut    RANKS that have failed and whose output has not come out, since their shell was lost
//   first  the rank that failed first, where this message has its record, and in the last one
//   try    the number of the EXEC that has started the tasks, if not the first
//   code, main, policy   of the last message: the job's exit code; the main rank, where the policy looks at it; its policy, unless
//          that is max
//   failed, min, max, mean   of the last message: how many tasks have failed; the least, largest and mean code of all tasks.
//          Where at most one task has a code that is not 0 these, and `first`, follow from the records and are left out
//
// A CLASS is a record's text, or "r": no record of these ranks has been sent. RANKS are an RFC 22 idset ("0-3,7"), or a bitmap
// ("@FIRST:BASE64"): bit i, the least of each byte first, is the rank FIRST + i. The array has for each rank from FIRST on
// w bits, the least first, w being the bits that the number of its classes needs: 0 for none of them, else i for the i-th.
// The encoder takes what is shorter, but idsets as long as they are short. Members that are unknown are passed over.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "value/idset.hpp"

namespace nacre::exits {

inline constexpr std::string_view kNoRecord = "r";  // the class of ranks whose records have not been sent

// The codes of all tasks.
struct NoticeCodes {
  std::uint64_t failed = 0;  // of how many it is not 0
  int min = 0, max = 0;
  double mean = 0;

  bool operator==(const NoticeCodes&) const = default;
};

// Of the last message.
struct NoticeSummary {
  int code = 0;             // the job's exit code
  std::string policy = {};  // by which it follows; empty: max
  std::optional<value::Idset::Id> main = {};
  std::optional<NoticeCodes> codes = {};  // none: they follow from the records

  bool operator==(const NoticeSummary&) const = default;
};

struct Notice {
  static constexpr std::size_t kMaxPart = std::size_t{64} << 10;  // bytes of a line, with its newline
  static constexpr std::size_t kMaxText = std::size_t{16} << 20;  // bytes that decode() takes
  using Classes = std::map<std::string, value::Idset, std::less<>>;

  std::uint64_t seq = 0;
  std::uint64_t tasks = 0;
  std::uint64_t done = 0;
  std::string rest;  // a class: d
  Classes classes;   // disjoint: x
  bool end = false;
  bool more = false;
  bool base = false;
  value::Idset open, cut;
  std::optional<value::Idset::Id> first = {};
  std::uint32_t attempt = 0;
  std::optional<NoticeSummary> summary = {};

  // The largest class becomes `rest`.
  void leave_out_largest();
  // Lines, with their newlines, each at most `most` bytes, which has to be at least 4096; `more` is set as needed.
  [[nodiscard]] std::vector<std::string> encode(std::size_t most = kMaxPart) const;
  // One line, with or without its newline. EINVAL: `notice: ` and what is wrong.
  static Result<Notice> decode(std::string_view line);

  bool operator==(const Notice&) const = default;
};

// What a client knows from notices: the records of all tasks, once the last message has come.
class NoticeMap {
 public:
  // The next line. EINVAL: it does not follow what came before; nothing of it is taken.
  Result<void> take(const Notice& part);
  // The link has broken: the parts of a message that is not complete are dropped.
  void drop_parts() { parts_.reset(); }

  [[nodiscard]] std::uint64_t seq() const {
    return seq_;
  }  // of the last whole message; to ask for what comes after
  [[nodiscard]] const Notice::Classes& records() const { return records_; }  // disjoint
  [[nodiscard]] const value::Idset& ranks() const { return ranks_; }         // that have a record
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  Result<void> check(const Notice& part, const value::Idset& named) const;
  Result<void> complete();

  std::uint64_t seq_ = 0;
  Notice::Classes records_;
  value::Idset ranks_;
  bool ended_ = false;
  std::optional<Notice> parts_;  // of the message that is not complete
  value::Idset named_;           // by its classes
};

}  // namespace nacre::exits
