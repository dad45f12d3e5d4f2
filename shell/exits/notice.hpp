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

#include "exits/policy.hpp"
#include "exits/record.hpp"

namespace nacre::exits {

inline constexpr std::string_view kNoRecord = "r";  // the class of ranks whose records were not sent

// A summary of the codes of all tasks.
struct NoticeCodes {
  std::uint64_t failed = 0;  // the number of tasks whose code is not 0
  int min = 0, max = 0;
  double mean = 0;

  bool operator==(const NoticeCodes&) const = default;
};

// Members of the last message only.
struct NoticeSummary {
  int code = 0;             // the job's exit code
  std::string policy = {};  // the exit policy; empty: max
  std::optional<value::Idset::Id> main = {};
  std::optional<NoticeCodes> codes = {};  // none: they follow from the records

  bool operator==(const NoticeSummary&) const = default;
};

struct Notice {
  static constexpr std::size_t kMaxPart = std::size_t{64} << 10;  // bytes of a line, with its newline
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

  // Moves the largest class to `rest`, the default.
  void leave_out_largest();
  // Lines with their newlines, each of at most `most` bytes; `most` has to be at least 4096. Sets `more` as needed.
  [[nodiscard]] std::vector<std::string> encode(std::size_t most = kMaxPart) const;

  bool operator==(const Notice&) const = default;
};

// Decides which notices about the ends of a job's tasks clients get, and when; each client reads at its own pace.
// It has no clock and no descriptor: times are seconds that the caller passes, by one clock that never goes back.
//
//   - If all tasks succeed only the last message is sent.
//   - kGather after the first failure, or after as many as the threshold: a message with all that is recorded so
//     far. Then messages with what is new, at most one each kInterval. Message k has what came after message k-1:
//     the messages are disjoint, and the union of all is the map of the job.
//   - The end of the job is the last message, at once.
//   - Output comes first: a failure is sent once the task's output has come out (drained), or its shell is lost, or
//     kDrainLimit is over. Successes, and victims of the job's end, never wait.
//
// A client is represented only by the number of the last message that it has. It gets the next message if that is
// kept, otherwise a snapshot of all. So a client that stops reading costs nothing.

// The codes of tasks that have ended as `records`.
[[nodiscard]] NoticeCodes codes_of(const Notice::Classes& records, const Policy& policy);

class Notifier {
 public:
  static constexpr double kGather = 0.1;     // seconds
  static constexpr double kInterval = 0.5;   // seconds between two messages, except before the last one
  static constexpr double kDrainLimit = 10;  // seconds from a failure's record on
  static constexpr double kTogether = 0.25;  // seconds: equal failures within this time share one limit
  static constexpr std::size_t kKept = 64;   // messages, and at most kKeptBytes, but always the newest one
  static constexpr std::size_t kKeptBytes = std::size_t{64} << 10;

  struct Options {
    std::uint64_t tasks = 0;
    Policy policy = {};
    std::uint64_t threshold = 1;  // of failures
  };
  struct Message {
    std::uint64_t seq = 0;
    std::vector<std::string> lines;  // with their newlines

    [[nodiscard]] std::size_t bytes() const;
  };

  // The number that "5%" or "20" means for `tasks` tasks, at least 1. EINVAL: the text is neither.
  static Result<std::uint64_t> threshold_of(std::string_view text, std::uint64_t tasks);

  explicit Notifier(Options options) : options_(std::move(options)) {}

  // The job has so many tasks from now on, none of which has ended.
  void set_tasks(std::uint64_t tasks) { options_.tasks = tasks; }
  // Records how these tasks have ended. Tasks that have a record already are left out.
  void record(double now, const value::Idset& ranks, const Record& record);
  // The output of these tasks, which are in waiting(), has come out.
  void drained(double now, const value::Idset& ranks);
  // No more output of these tasks will come, because their shell is lost.
  void lost(double now, const value::Idset& ranks);
  // The job has ended with this exit code. Tasks that have no record by now never started.
  void end(double now, int code);

  // The tasks whose failures are not sent yet, because their output may not have come out.
  [[nodiscard]] value::Idset waiting() const;
  [[nodiscard]] bool is_waiting() const { return !waiting_.empty(); }  // whether there are any
  // When tick() has to be called next; none: not before another call.
  [[nodiscard]] std::optional<double> due() const;
  void tick(double now);

  // The next message for a client that has all up to message `after` (0: it has none); none: there is nothing now.
  // Any number is allowed.
  [[nodiscard]] std::optional<Message> next(std::uint64_t after) const;
  [[nodiscard]] std::uint64_t seq() const { return seq_; }  // of the newest message; 0: none yet
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  // Failures that wait for their output.
  struct Waiting {
    double since;
    double until;
    value::Idset ranks;
    Record record;
  };

  void add_waiting(double now, const value::Idset& ranks, const Record& record);
  value::Idset take_waiting(double now, const value::Idset& ranks);
  void release(double now, const value::Idset& ranks, const Record& record);
  void make_message(double now, std::optional<int> code);
  void keep(Message message);
  [[nodiscard]] Message snapshot() const;
  [[nodiscard]] value::Idset all() const;
  [[nodiscard]] NoticeSummary summary(int code) const;

  Options options_;
  value::Idset recorded_;  // tasks
  std::vector<Waiting> waiting_;
  Notice::Classes fresh_;  // records for the next message
  value::Idset fresh_open_, fresh_cut_;
  Notice::Classes sent_;  // records of the messages up to seq_
  value::Idset sent_ranks_, open_, cut_;
  std::uint64_t failed_ = 0;               // failures that are sent, or are to be sent
  std::optional<value::Idset::Id> first_;  // the task that failed first
  std::optional<double> last_;             // when the newest message was made
  std::optional<double> due_;              // when the next message has to be made
  std::uint64_t seq_ = 0;
  std::optional<NoticeSummary> summary_;
  bool ended_ = false;
  std::deque<Message> kept_;  // the newest last
  std::size_t kept_bytes_ = 0;
};

}  // namespace nacre::exits
