// SPDX-License-Identifier: Apache-2.0
//
// Examinations of all tasks of a job: the leader asks the shells by an announcement. Each says at once that it
// is at it, looks twice at its tasks, and sends their facts, folded, up to the leader alone. A shell that has
// not answered in time is absent; one that has said nothing is told before, and not waited for as long.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bulk/record_queue.hpp"
#include "doctor/answers.hpp"
#include "plugin/host.hpp"
#include "plugin/open_questions.hpp"
#include "plugins/doctor/flight_dumps.hpp"
#include "plugins/doctor/nccl_ras_client.hpp"
#include "plugins/doctor/stack_taker.hpp"
#include "plugins/doctor/task_looks.hpp"

namespace nacre::plugins {

class Examinations {
 public:
  static constexpr std::size_t kMostOpen = 4;  // examinations

  explicit Examinations(plugin::Host& host) : host_(host) {}

  // Every shell's, in shell.init: from here on it answers.
  void serve();

  // The leader's; as Examiner::examine().
  using Silent = std::function<void(std::vector<doctor::Absent>)>;
  Result<void> examine(const ExaminationOrder& order, std::function<void(Examined)> done, Silent silent = nullptr);
  void lost(std::uint32_t shell) { open_.gone(shell); }               // it answers no more
  [[nodiscard]] const Json& last_look() const { return last_look_; }  // as Examiner::last_look()
  // Who knows for how long the tasks of this shell have done nothing that can be seen, in seconds.
  void when_silent(std::function<double()> silence) { silence_ = std::move(silence); }
  // Who has to know that the tasks of this shell have been traced, or asked for a dump, which wakes their threads.
  void when_traced(std::function<void()> traced) { traced_ = std::move(traced); }

 private:
  // What one shell has found.
  struct Answer {
    std::vector<doctor::TaskGroup> groups;
    std::vector<doctor::CollectiveLog> collectives;
    std::vector<doctor::RasFinding> ras;
    std::set<std::string> notes;
  };
  // What this shell finds out for one examination.
  struct Own {
    ExaminationOrder order;
    std::optional<TaskLooks> looks;
    std::optional<StackTaker> stacks;
    std::optional<FlightDumps> dumps;
    std::optional<NcclRasClient> ras;
    std::vector<TaskLooks::Examined> examined;
    std::optional<event::Timer> timer;
    bool is_examined = false;  // `answer` has all but what the dumps and NCCL's RAS say
    Answer answer;
    std::function<void(Answer)> done;
  };
  // What has come from all.
  struct Found {
    ExaminationOrder order;
    doctor::Gathered from_all;
  };
  // Who is silent, while the others are at it.
  struct Attendance {
    ExaminationOrder order;
    Silent tell;
    std::set<std::uint32_t> at_it;  // shells that have said so
    bool is_told = false;
    bool is_over = false;  // those that are silent are not waited for any more
    std::optional<event::Timer> timer;
  };

  static constexpr const char* kTopic = "doctor.ask";  // announcement: {"number", "order"}

  void asked(std::string_view bytes);
  Result<void> begin(std::uint64_t number, const ExaminationOrder& order);
  Result<void> look(std::uint64_t number, const ExaminationOrder& order, decltype(Own::done) done);
  void look_again(std::uint64_t number);
  void take_stacks(std::uint64_t number, Own& own);
  void complete(std::uint64_t number, const StackTaker::Stacks& stacks, const std::set<std::string>& notes);
  void answer_if_ready(std::uint64_t number);
  void take(std::uint32_t shell, std::string_view bytes);
  Result<void> watch_silent(std::uint64_t number, const ExaminationOrder& order, Silent silent);
  void silence_is_over(std::uint64_t number);
  void leave_silent(std::uint64_t number);
  [[nodiscard]] value::Idset silent_shells(std::uint64_t number) const;
  [[nodiscard]] Examined examined(Found found, const value::Idset& late);
  [[nodiscard]] std::string host_of_shell(std::uint32_t shell) const;
  [[nodiscard]] std::vector<doctor::Absent> absent(const value::Idset& late) const;

  plugin::Host& host_;
  plugin::Registration asked_;
  std::map<std::uint64_t, Own> own_;
  bulk::RecordQueue records_{bulk::up::kDoctor};
  plugin::OpenQuestions<Found> open_{host_, kTopic, kMostOpen, "the job is examined for"};
  std::map<std::uint64_t, Attendance> attendance_;  // by examination
  doctor::AnswerReader reader_;
  std::function<double()> silence_;
  std::function<void()> traced_;
  Json last_look_ = nullptr;
};

}  // namespace nacre::plugins
