// SPDX-License-Identifier: Apache-2.0
//
// What clients are told of how the tasks of a job end, and when: it makes the job's notices (exits/notice.hpp), of which each client
// reads at its own pace. Without clock and descriptor: times are seconds that the caller passes, of one clock that never goes back.
//
//   - Nothing is sent while all tasks succeed, but the last message.
//   - From the first failure on, or from as many as the threshold says: all that is recorded so far, kGather later; then what is
//     new, at most one message each kInterval. Message k holds what came after message k-1: they are disjoint, and the union of all is
//     the map of the job.
//   - The end of the job is the last message, at once.
//   - Output first: a failure is sent once the task's output has come out (drained), or its shell is lost, or kDrainLimit is over.
//     Successes, and victims of the job's end, never wait.
//
// A client is only the number of the last message that it has: what it lacks is a message that is kept or, if that is not,
// a snapshot of all. So one that stops reading costs nothing.
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

// Of tasks that have ended so. Not 0 of more than one, or of what counts as success: not to be left out of the last message.
[[nodiscard]] NoticeCodes codes_of(const Notice::Classes& records, const Policy& policy);

class Notifier {
 public:
  static constexpr double kGather = 0.1;     // seconds
  static constexpr double kInterval = 0.5;   // seconds between two messages, but before the last one
  static constexpr double kDrainLimit = 10;  // seconds from a failure's record on
  static constexpr double kTogether = 0.25;  // seconds: equal failures within these have one limit
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

  // "5%" or "20", of so many tasks; at least 1. EINVAL.
  static Result<std::uint64_t> threshold_of(std::string_view text, std::uint64_t tasks);

  explicit Notifier(Options options) : options_(std::move(options)) {}

  // These tasks have ended so; those that had a record before are left out.
  void record(double now, const value::Idset& ranks, const Record& record);
  // Those of waiting() whose output has come out.
  void drained(double now, const value::Idset& ranks);
  // Nothing more comes of these tasks, as their shell is lost.
  void lost(double now, const value::Idset& ranks);
  // The job has ended with this exit code. What has no record by now never started.
  void end(double now, int code);

  // Failures that are not sent yet, as their output may not have come out.
  [[nodiscard]] value::Idset waiting() const;
  [[nodiscard]] bool is_waiting() const { return !waiting_.empty(); }  // whether there are any
  // When tick() is to be called next; none: not before something else happens.
  [[nodiscard]] std::optional<double> due() const;
  void tick(double now);

  // What a client gets that has all up to message `after`, 0 for none; none: nothing at the moment. Any number will do.
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
  Notice::Classes fresh_;  // to be sent with the next message
  value::Idset fresh_open_, fresh_cut_;
  Notice::Classes sent_;  // by messages up to seq_
  value::Idset sent_ranks_, open_, cut_;
  std::uint64_t failed_ = 0;               // of what is sent, or to be sent
  std::optional<value::Idset::Id> first_;  // that failed
  std::optional<double> last_;             // when the newest message was made
  std::optional<double> due_;              // the next message
  std::uint64_t seq_ = 0;
  std::optional<NoticeSummary> summary_;
  bool ended_ = false;
  std::deque<Message> kept_;  // the newest last
  std::size_t kept_bytes_ = 0;
};

}  // namespace nacre::exits
