// SPDX-License-Identifier: Apache-2.0
//
// How the leader gets what all shells have kept. It asks them by an announcement, for what they have kept since
// their last answer or for nothing but their clocks: the delay of each answer bounds the difference between the
// two clocks. At its end a shell sends the rest unasked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bulk/record_queue.hpp"
#include "plugin/host.hpp"
#include "plugin/open_questions.hpp"
#include "timeline/facts.hpp"

namespace nacre::plugins {

class TimelineGatherer {
 public:
  static constexpr std::size_t kMostOpen = 4;                      // questions
  static constexpr event::Seconds kMostAnswerTime{1};              // until a shell is late
  static constexpr std::size_t kMostInAll = std::size_t{8} << 20;  // events of all shells that the leader keeps

  enum class Wanted { clocks, events };

  explicit TimelineGatherer(plugin::Host& host) : host_(host) {}

  // Every shell's, in shell.init.
  void serve();

  // ---- a shell that is not the leader
  // Sends what it has kept and not sent. `is_all`: nothing more comes.
  void send_rest(bool is_all);
  [[nodiscard]] bool has_unsent() const { return records_.waiting() > 0; }
  // `act` is called when all is sent that had to wait.
  void when_sent(std::function<void()> act) { records_.when_empty(std::move(act)); }
  [[nodiscard]] std::uint64_t answers() const { return answers_; }  // so far
  // By the leader's last question.
  [[nodiscard]] bool has_leaders_clock() const { return has_leaders_clock_; }
  void when_answered(std::function<void()> act) { on_answered_ = std::move(act); }

  // ---- the leader
  // `done` is called once, when all shells have answered, or are lost or late.
  Result<void> ask(Wanted wanted, std::function<void(const value::Idset& late)> done);
  [[nodiscard]] bool is_one_clock() const;          // all shells that are there have this one's, as far as is known
  void note_shells();                               // also later, when shells have joined the job
  void gone(std::uint32_t shell, bool as_planned);  // it is lost, or has left: nothing more comes from it
  // All that is here by now. `late`: shells that have not answered the last question for events.
  [[nodiscard]] timeline::JobTimeline timelines(bool is_over, const value::Idset& late) const;

 private:
  static constexpr const char* kTopic = "timeline.ask";  // announcement: {"number", "events", "clock"}

  void asked(std::string_view bytes);
  void send(std::uint64_t number, timeline::Time received, bool has_events, bool is_last);
  void take(std::uint32_t shell, std::string_view bytes);
  void over(std::uint32_t shell);
  [[nodiscard]] bool is_of(std::uint32_t shell, const timeline::TimelineBatch& batch) const;

  plugin::Host& host_;
  plugin::Registration asked_;
  bulk::RecordQueue records_{bulk::up::kTimeline};
  std::size_t sent_ = 0;  // events
  std::uint64_t answers_ = 0;
  bool has_leaders_clock_ = false;
  std::function<void()> on_answered_;
  std::string clock_;  // of this host

  plugin::OpenQuestions<timeline::Time> open_{host_, kTopic, kMostOpen};  // with when it was asked
  std::vector<timeline::ShellTimeline> shells_;                           // of all but this one, by rank
  value::Idset over_;     // shells that send nothing more, as planned
  std::size_t kept_ = 0;  // events of all others
};

}  // namespace nacre::plugins
