// SPDX-License-Identifier: Apache-2.0
//
// What each shell answers to a question of the doctor, and what the leader puts together from all of it. Pure.
#pragma once

#include "doctor/collectives.hpp"
#include "doctor/facts.hpp"
#include "doctor/findings.hpp"
#include "doctor/nccl_ras.hpp"
#include "doctor/pace.hpp"

namespace nacre::doctor {

// A record of doc/protocol.md, "Channels", up 5: a part of one shell's answer.
struct AnswerPart {
  std::uint64_t number = 0;  // of the question
  bool is_last = false;
  std::vector<TaskGroup> groups;
  std::set<std::string> notes;   // what could not be found out, for people; in the last part
  std::optional<double> silent;  // seconds since a task has done anything that can be seen; set if that was asked
  std::vector<CollectiveLog> collectives = {};
  std::vector<RasFinding> ras = {};  // in the last part

  [[nodiscard]] std::string text() const;
};
// At least one, each well below the limit of a record.
[[nodiscard]] std::vector<std::string> answer_of(std::uint64_t number, std::vector<TaskGroup> groups,
                                                 std::set<std::string> notes,
                                                 std::vector<CollectiveLog> collectives = {},
                                                 std::vector<RasFinding> ras = {});

// Reads answers. Most shells of a job find the same facts, so the text of each is read once.
class AnswerReader {
 public:
  // An error if anything cannot be read; then the shell counts as not having answered.
  Result<AnswerPart> read(std::string_view text);

 private:
  const Fact* fact_of(const std::string& text);  // null: it cannot be read

  std::map<std::string, Fact> facts_;  // by their text
};

// What has come from all shells so far.
class Gathered {
 public:
  using HostOf = std::function<std::string(std::uint32_t shell)>;

  void add(std::uint32_t shell, AnswerPart part);
  [[nodiscard]] const std::vector<TaskGroup>& groups() const { return groups_; }  // as they came
  [[nodiscard]] double silent() const { return silent_; }  // the least; infinity: no shell has said it
  // Puts the groups, nodes, collectives, RAS findings and notes into `examination`.
  void put_into(Examination& examination, const HostOf& host_of_shell) &&;

 private:
  std::vector<TaskGroup> groups_;
  double silent_ = std::numeric_limits<double>::infinity();
  std::map<std::string, value::Idset> notes_;  // with the shells
  std::map<std::uint32_t, NodePace> nodes_;    // by shell
  std::vector<CollectiveLog> collectives_;
  std::vector<RasFinding> ras_;
};

}  // namespace nacre::doctor
