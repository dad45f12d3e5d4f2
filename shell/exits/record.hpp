// SPDX-License-Identifier: Apache-2.0
//
// How one task ended. Every task of a job ends as exactly one record (Outcomes). As text, KIND[VALUE][/RAW]:
//
//   xN    exited with code N
//   sN    killed by signal N; sN+ with a core dump
//   fN    could not be started: 127 no such command, 126 not executable
//   t     ended because it was over a time limit
//   l     lost with its shell or its node, or its process has not ended though it was killed
//   c     a victim: ended because the job was being ended, or never started
//   g     gone: its shell has left the job as somebody asked for (nacre shrink), so it is no failure
//
// t, c and g may have the task's status behind them: c/s15, t/x0.
#pragma once

#include "value/idset.hpp"
#include "value/wait_status.hpp"

namespace nacre::exits {

// Turns a failure's code into an exit code of 8 bits: 1..255 stay; 0 becomes 1; of any other number the low 8 bits
// count, or 255 if these are 0. So a failure never becomes 0.
[[nodiscard]] int failure_code(std::int64_t code);

class Record {
 public:
  enum class Kind : std::uint8_t { ended, not_started, over_time, lost, victim, gone };

  static Record of(value::WaitStatus status) { return {Kind::ended, status}; }
  static Record not_started(int code) { return {Kind::not_started, value::WaitStatus::exited(code)}; }  // 126, 127
  static Record over_time(value::WaitStatus status) { return {Kind::over_time, status}; }
  static Record lost() { return {Kind::lost, std::nullopt}; }
  static Record victim(std::optional<value::WaitStatus> status) { return {Kind::victim, status}; }
  static Record gone(std::optional<value::WaitStatus> status) { return {Kind::gone, status}; }
  // EINVAL: it is not such a text.
  static Result<Record> parse(std::string_view text);

  [[nodiscard]] Kind kind() const { return kind_; }
  // How the process ended; none: there was no process, or nobody saw its end.
  [[nodiscard]] const std::optional<value::WaitStatus>& status() const { return status_; }
  // 0..255: the exit code that stands for the record. 0 for `g`, and for a victim, which has no code.
  [[nodiscard]] int code() const;
  [[nodiscard]] std::string str() const;

  bool operator==(const Record&) const = default;

 private:
  Record(Kind kind, std::optional<value::WaitStatus> status) : kind_(kind), status_(status) {}

  Kind kind_;
  std::optional<value::WaitStatus> status_;
};

// The end of one task.
struct TaskEnd {
  value::Idset::Id rank = 0;
  Record record = Record::lost();

  bool operator==(const TaskEnd&) const = default;
};

// How the tasks of a job have ended so far. Each rank has at most one record, the first that came; so the sets of
// ranks are disjoint. If each record comes once the result does not depend on their order, except for in_order().
class Outcomes {
 public:
  // Ranks that all ended in the same way.
  using Class = std::pair<Record, value::Idset>;

  // Adds a record; returns those of `ranks` that had none before.
  value::Idset add(const value::Idset& ranks, const Record& record);
  // These ranks have no record any more.
  void forget(const value::Idset& ranks);

  [[nodiscard]] const value::Idset& ranks() const { return ranks_; }  // ranks that have a record
  [[nodiscard]] std::vector<Class> classes() const;                   // in the order of their texts
  // The same classes, in the order in which their first ranks came.
  [[nodiscard]] std::vector<Class> in_order() const;
  // The record of one rank; none: it has none yet.
  [[nodiscard]] std::optional<Record> of(value::Idset::Id rank) const;

 private:
  std::map<std::string, Class> classes_;  // by the record's text
  std::vector<std::string> arrivals_;     // keys of classes_
  value::Idset ranks_;
};

}  // namespace nacre::exits
