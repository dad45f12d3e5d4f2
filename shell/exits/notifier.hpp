// SPDX-License-Identifier: Apache-2.0
//
// Which notices (exits/notice.hpp) of how the tasks of a job end its clients get, and when; each client reads at
// its own pace. Without clock and descriptor: times are seconds that the caller passes, of one clock that never
// goes back.
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
// kept, else a snapshot of all. So a client that stops reading costs nothing.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exits/notice.hpp"
#include "exits/policy.hpp"
#include "exits/record.hpp"

namespace nacre::exits {

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

  // The number that "5%" or "20" means for so many tasks, at least 1. EINVAL: it is neither.
  static Result<std::uint64_t> threshold_of(std::string_view text, std::uint64_t tasks);

  explicit Notifier(Options options) : options_(std::move(options)) {}

  // The job has so many tasks from now on, none of which has ended.
  void set_tasks(std::uint64_t tasks) { options_.tasks = tasks; }
  // Records how these tasks have ended. Tasks that have a record already are left out.
  void record(double now, const value::Idset& ranks, const Record& record);
  // The output of these tasks, of those in waiting(), has come out.
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

  // The next message for a client that has all up to message `after` (0: it has none); none: there is nothing at
  // the moment. Any number is allowed.
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
