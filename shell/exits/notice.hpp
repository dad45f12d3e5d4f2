// SPDX-License-Identifier: Apache-2.0
//
// A notice: one message to a client about how the tasks of a job have ended. Its text is one line of JSON, or
// several if it is large (its parts). nacre-exits(7) has the format for people; this is all of it:
//
//   seq    1, 2, ...: the number of the message among the job's. Message k holds what was recorded after message
//          k-1
//   n      the tasks of the job
//   done   the number of those whose records have been sent, with this message; not in the last message: it is n
//          then
//   d      the largest class: it has all ranks that no message before has had, and that are not in x
//   x      the other classes. {CLASS: RANKS, ...} or, where that is shorter, [FIRST, [CLASS, ...], BASE64]
//   end    1: the job has ended, nothing follows; else 0
// and where they are not empty or 0:
//   more   1: another part of the same message follows. d is the same in all parts, and is applied after the last
//          one
//   base   1: this message has all records up to seq, and replaces what the client has. It is sent to a client that
//          lacks messages which are not kept any more
//   open   RANKS that have failed, and whose output was not complete within the drain limit
//   cut    RANKS that have failed, and whose output is not complete because their shell was lost
//   first  the rank that failed first: in the message that has its record, and in the last one
//   try    the number of the EXEC that has started the tasks, if not the first
//   code, main, policy   of the last message: the job's exit code; the main rank, where the policy looks at it; its
//                        policy, unless
//          that is max
//   failed, min, max, mean   of the last message: how many tasks have failed; the least, largest and mean code of
//                            all tasks.
//          If at most one task has a code that is not 0 these, and `first`, follow from the records and are left
//          out
//
// A CLASS is a record's text, or "r": no record of these ranks has been sent. RANKS are an RFC 22 idset ("0-3,7"),
// or a bitmap ("@FIRST:BASE64"): bit i, the least of each byte first, is the rank FIRST + i. The array has w bits
// for each rank from FIRST on, the least first: 0 for a rank in none of its classes, i for a rank in the i-th. w is
// the number of bits that the number of classes needs. The encoder takes the shorter form, but always an idset if
// that is short. Members that are not known are ignored.
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

// A summary of the codes of all tasks.
struct NoticeCodes {
  std::uint64_t failed = 0;  // the number of tasks whose code is not 0
  int min = 0, max = 0;
  double mean = 0;

  bool operator==(const NoticeCodes&) const = default;
};

// What only the last message has.
struct NoticeSummary {
  int code = 0;             // the job's exit code
  std::string policy = {};  // the exit policy; empty: max
  std::optional<value::Idset::Id> main = {};
  std::optional<NoticeCodes> codes = {};  // none: they follow from the records

  bool operator==(const NoticeSummary&) const = default;
};

struct Notice {
  static constexpr std::size_t kMaxPart = std::size_t{64} << 10;  // bytes of a line, with its newline
  static constexpr std::size_t kMaxText = std::size_t{16} << 20;  // the longest line that decode() takes, in bytes
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

  // Moves the largest class to `rest`.
  void leave_out_largest();
  // Lines with their newlines, each of at most `most` bytes; `most` has to be at least 4096. Sets `more` as needed.
  [[nodiscard]] std::vector<std::string> encode(std::size_t most = kMaxPart) const;
  // Reads one line, with or without its newline. EINVAL: the message is `notice: ` and what is wrong.
  static Result<Notice> decode(std::string_view line);

  bool operator==(const Notice&) const = default;
};

// What a client has learned from notices: the records of all tasks, once the last message has come.
class NoticeMap {
 public:
  // Takes the next line. EINVAL: it does not follow the lines before; nothing of it is taken.
  Result<void> take(const Notice& part);
  // To be called when the link has broken: drops the parts of a message that is not complete.
  void drop_parts() { parts_.reset(); }

  [[nodiscard]] std::uint64_t seq() const {
    return seq_;
  }  // the number of the last complete message: a client asks for those after it
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
  std::optional<Notice> parts_;  // the message that is not complete, as far as it has come
  value::Idset named_;           // the ranks in its classes
};

}  // namespace nacre::exits
