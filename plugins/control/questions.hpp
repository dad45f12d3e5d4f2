// SPDX-License-Identifier: Apache-2.0
//
// What the leader asks the shells of all nodes, and what they answer: an announcement to all, and records of bulk
// data that come up to the leader alone. A shell that has not answered in time is left out, and named.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bulk/record_queue.hpp"
#include "plugin/host.hpp"
#include "plugin/open_questions.hpp"
#include "plugins/control/gpu_answers.hpp"
#include "plugins/control/processes.hpp"
#include "plugins/control/task_places.hpp"

namespace nacre::plugins {

class Questions {
 public:
  static constexpr event::Seconds kMostAnswerTime{2};
  static constexpr std::size_t kMostOpen = 16;  // questions

  explicit Questions(plugin::Host& host) : host_(host), gpus_(host) {}

  // Every shell's, in shell.init: from here on it answers.
  void serve();

  // The leader's. `done` is called once, perhaps before this returns: a row for each process that runs, in
  // their order, the shells that are late, and what is wrong, for people. EBUSY: too many are open.
  using Notes = std::set<std::string>;
  template <typename Row>
  using Done = std::function<void(std::vector<Row> rows, const value::Idset& late, const Notes& notes)>;
  Result<void> ask_processes(Done<TaskProcess> done);
  // With what they use of GPUs. It takes longer, so the error comes to `refused`.
  void ask_processes_with_gpus(Done<TaskProcess> done, std::function<void(const Error&)> refused);
  Result<void> ask_places(Done<TaskPlace> done);
  // The job ends: no GPU is looked at any more.
  Result<void> stop() {
    gpus_.stop();
    return {};
  }
  // That shell answers no more.
  void lost(std::uint32_t shell) { open_.gone(shell); }
  [[nodiscard]] const value::Idset& gone() const { return open_.gone(); }

 private:
  // Announcement: what is asked for, a word, and the question's number.
  static constexpr const char* kTopic = "control.ask";

  struct ShellAnswers {
    std::vector<Json> rows;
    Notes notes;
  };

  void answer(std::string_view question);
  void send(std::uint64_t number, std::vector<Json> rows, const Notes& notes);
  template <typename Row>
  Result<void> ask(std::string_view word, const std::vector<Row>& own, const Notes& notes, Done<Row> done);
  void take(std::uint32_t shell, std::string_view bytes);

  plugin::Host& host_;
  plugin::Registration asked_;
  bulk::RecordQueue records_{bulk::up::kControl};
  plugin::OpenQuestions<ShellAnswers> open_{host_, kTopic, kMostOpen};
  GpuAnswers gpus_;
};

}  // namespace nacre::plugins
