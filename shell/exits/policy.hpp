// SPDX-License-Identifier: Apache-2.0
//
// How a job's exit code follows from how its tasks have ended. nacre-exits(7) has the table of all policies.
#pragma once

#include "exits/record.hpp"

namespace nacre::exits {

// Whose failure it is, for those who decide by the exit code whether the job is to be started again.
enum class FailureClass : std::uint8_t {
  host,         // a shell or its node was lost, or cannot be reached
  user,         // tasks have failed by themselves
  no_progress,  // a time limit or hang-watch has ended the job, or restarts brought no progress
};

// Exit codes for whole classes: "host:75,user:cause,no-progress:93"; a class that is left out, or has "cause",
// keeps the usual code.
class ExitClasses {
 public:
  // EINVAL: the error has the wrong part, and the names.
  static Result<ExitClasses> parse(std::string_view text);
  static std::string_view name_of(FailureClass which);

  [[nodiscard]] std::optional<int> code_of(FailureClass which) const {
    return codes_.at(static_cast<std::size_t>(which));
  }

 private:
  std::array<std::optional<int>, 3> codes_;  // 1..255
};

class Policy {
 public:
  enum class Kind : std::uint8_t {
    max,           // the largest code of all tasks
    main,          // the main rank's; 1 if it has none
    all,           // 0 if each task succeeded, else 1
    main_and_all,  // the main rank's if that is not 0, else as `all`
    first,         // the code of the task that failed first; 0 if none did
  };

  static Policy max() { return {}; }
  // "max", "main", "all", "main+all", "first". EINVAL: another name; the error lists these.
  static Result<Kind> kind_of(std::string_view name);
  static std::string_view name_of(Kind kind);

  Policy() = default;
  // `ok`: exit codes, 1..255, that count as success, beside 0.
  Policy(Kind kind, value::Idset::Id main, value::Idset ok = {}) : kind_(kind), main_(main), ok_(std::move(ok)) {}

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] value::Idset::Id main() const { return main_; }  // the main rank
  [[nodiscard]] const value::Idset& ok() const { return ok_; }
  void set_classes(const ExitClasses& classes) { classes_ = classes; }
  [[nodiscard]] const ExitClasses& classes() const { return classes_; }

  // 0..255: the code of a job with only this task. 0 for a victim, which has no code.
  [[nodiscard]] int code_of(const Record& record) const;
  // Whether the record is neither a success nor a victim.
  [[nodiscard]] bool is_failure(const Record& record) const { return code_of(record) != 0; }

  // 0..255: the job's code. `outcomes` has a record of each task.
  [[nodiscard]] int code(const Outcomes& outcomes) const;

 private:
  [[nodiscard]] int largest(const Outcomes& outcomes) const;
  [[nodiscard]] int mains(const Outcomes& outcomes) const;
  [[nodiscard]] int any(const Outcomes& outcomes) const;
  [[nodiscard]] int first(const Outcomes& outcomes) const;

  Kind kind_ = Kind::max;
  value::Idset::Id main_ = 0;
  value::Idset ok_;
  ExitClasses classes_;
};

}  // namespace nacre::exits
