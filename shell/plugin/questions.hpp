// SPDX-License-Identifier: Apache-2.0
//
// Questions of the leader to the shells of all nodes: it asks by an announcement, and they answer by records that
// come up to it.
#pragma once

#include "bulk/port.hpp"
#include "event/loop.hpp"
#include "exits/blame.hpp"
#include "exits/record.hpp"
#include "plugin/host.hpp"
#include "task/task.hpp"

namespace nacre::plugin {

// The leader's side of what it asks other shells: questions that not all have answered yet. Each has a number,
// which the announcement and the answers have to carry, and an Answer, which is put together from what the shells
// send. A question is done when each shell that was asked has sent its last part or has gone, or when the
// question's time is over; shells that have not answered then are late.

// The bookkeeping of OpenQuestions: which shells each question still waits for, and the answer so far. It has no
// clock, and sends nothing.

// `Kept` is destroyed once the question is not open any more.
template <typename Answer, typename Kept = std::monostate>
class OpenAnswers {
 public:
  using Number = std::uint64_t;  // of a question: not 0

  struct Answered {
    Number number = 0;
    Answer answer;
    value::Idset late;  // shells
  };
  struct Awaited {
    value::Idset shells;  // that are waited for
    Answer begun;         // so far
    std::function<void(Answered)> done;
  };

  [[nodiscard]] std::size_t size() const { return open_.size(); }
  // The number of a new question. No other shell gives the same number, as answers to a lost leader may come to the
  // next one.
  [[nodiscard]] Number next(std::uint32_t shell = 0) { return (Number{shell} << 32U) + ++last_; }
  void open(Number number, Awaited question, Kept kept = {}) {
    open_.emplace(number, Open{std::move(question), std::move(kept)});
  }

  // Where to put what the shell has sent; null: it came too late, or the question does not wait for the shell.
  [[nodiscard]] Answer* find(Number number, std::uint32_t shell) {
    auto found = open_.find(number);
    bool waits = found != open_.end() && found->second.question.shells.contains(shell);
    return waits ? &found->second.question.begun : nullptr;
  }

  // The shells that the question still waits for; none: it is not open.
  [[nodiscard]] value::Idset awaited(Number number) const {
    auto found = open_.find(number);
    return found == open_.end() ? value::Idset() : found->second.question.shells;
  }

  // The shell has sent the last part of its answer; the question may be done now.
  void complete(Number number, std::uint32_t shell) {
    auto found = open_.find(number);
    if (found == open_.end()) return;
    found->second.question.shells.remove(shell);
    finish_if_complete(number);
  }
  void finish_if_complete(Number number) {
    auto found = open_.find(number);
    if (found != open_.end() && found->second.question.shells.empty()) finish(number);
  }
  // Ends the question: shells that have not answered are late.
  void finish(Number number) {
    auto taken = open_.extract(number);
    if (!taken) return;
    Awaited& question = taken.mapped().question;
    question.done({number, std::move(question.begun), std::move(question.shells)});
  }

  // The shell answers no more: no question waits for it from now on.
  void gone(std::uint32_t shell) {
    gone_.insert(shell);
    std::vector<Number> numbers;
    for (const auto& [number, open] : open_) numbers.push_back(number);
    for (Number each : numbers) complete(each, shell);
  }
  [[nodiscard]] const value::Idset& gone() const { return gone_; }

  // Calls `act` with the number of each open question, and its answer so far.
  template <typename Act>
  void each(const Act& act) const {
    for (const auto& [number, open] : open_) act(open.question.begun);
  }

  // Ends the question without a call of `done`.
  void drop(Number number) { open_.erase(number); }
  void drop_all() { open_.clear(); }

 private:
  struct Open {
    Awaited question;
    Kept kept;
  };

  std::map<Number, Open> open_;
  value::Idset gone_;
  Number last_ = 0;
};

template <typename Answer>
class OpenQuestions {
 public:
  using Answers = OpenAnswers<Answer, event::Timer>;
  using Number = typename Answers::Number;
  using Answered = typename Answers::Answered;
  struct Question {
    // The shells that are waited for. The leader may be among them: it is not asked, but gives its own part.
    value::Idset shells;
    event::Seconds time;  // until shells are late: a grace
    Answer begun;
    std::function<std::string(Number)> text;  // that is announced
    std::function<void(Answered)> done;
  };

  static constexpr std::size_t kMostOpen = 1024;

  // Announces questions as `topic`; at most `most` are open at a time. The error for one more is `busy` and their
  // number. The host has to outlive this object.
  OpenQuestions(Host& host, std::string topic, std::size_t most = kMostOpen,
                std::string busy = "the shells are asked by")
      : host_(host), topic_(std::move(topic)), most_(most), busy_(std::move(busy)) {}

  // All other shells but those that have gone; none if this one is alone.
  [[nodiscard]] value::Idset others() const {
    if (host_.bulk() == nullptr) return {};
    return host_.job().shells_that_came() - own() - gone();
  }

  // `done` is called once, perhaps before this returns, unless this is an error or the question is dropped. EBUSY:
  // too many are open.
  Result<Number> ask(Question question) {
    if (open_.size() >= most_)
      return Error{EBUSY, fmt::format("{} {} others at the moment: try again", busy_, most_)};
    Number number = open_.next(host_.job().shell_rank);
    auto timer = TRY(event::Timer::create(host_.loop(), [this, number] { open_.finish(number); }));
    timer.unref();
    timer.start_grace(question.time);
    value::Idset asked = question.shells - own();
    std::string text = asked.empty() ? std::string() : question.text(number);
    open_.open(number, {std::move(question.shells), std::move(question.begun), std::move(question.done)},
               std::move(timer));
    if (!asked.empty()) {
      Result<void> sent = host_.announce(topic_, text);
      if (!sent) {
        drop(number);
        return sent.error();
      }
    }
    open_.finish_if_complete(number);
    return number;
  }

  // As the members of OpenAnswers.
  [[nodiscard]] Answer* find(Number number, std::uint32_t shell) { return open_.find(number, shell); }
  [[nodiscard]] value::Idset awaited(Number number) const { return open_.awaited(number); }
  void complete(Number number, std::uint32_t shell) { open_.complete(number, shell); }
  void finish(Number number) { open_.finish(number); }
  void gone(std::uint32_t shell) { open_.gone(shell); }
  [[nodiscard]] const value::Idset& gone() const { return open_.gone(); }
  template <typename Act>
  void each(const Act& act) const {
    open_.each(act);
  }
  void drop(Number number) { open_.drop(number); }
  void drop_all() { open_.drop_all(); }

 private:
  [[nodiscard]] value::Idset own() const {
    return value::Idset::range(host_.job().shell_rank, host_.job().shell_rank);
  }

  Host& host_;
  std::string topic_;
  std::size_t most_;
  std::string busy_;
  Answers open_;
};

// What this shell knows of why and when its task has failed, for exits::first_of(). The task has ended as `record`;
// times are those of clock_now(). `error`: what it has written to its error file. What waits in its pipes is read
// first.
[[nodiscard]] exits::FailureFacts failure_of(Host& host, const task::Task& task, const exits::Record& record,
                                             std::string_view error = {});

// The ranks of this shell's tasks that are connected to PMI, through any plugin (topic pmi.connected). A wrong
// answer is named in a warning of `component`.
[[nodiscard]] value::Idset pmi_connected(Host& host, std::string_view component);
// Whether spawned processes of this shell are connected to PMI (topic pmi.spawned).
[[nodiscard]] bool spawned_connected(Host& host);

// Called in shell.init of every shell: serves the channel of `records`, with `take` as for RecordQueue::serve(). On
// all shells but the leader, `asked` gets what is announced as `topic` until the registration ends. Nothing is
// served if this shell is the only one. `records` has to outlive the job.
[[nodiscard]] Registration serve_questions(Host& host, bulk::RecordQueue& records, std::string topic,
                                           std::function<void(bulk::Id origin, std::string_view bytes)> take,
                                           std::function<void(std::string_view question)> asked);

}  // namespace nacre::plugin
