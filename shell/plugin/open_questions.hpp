// SPDX-License-Identifier: Apache-2.0
//
// The leader's side of what it asks other shells (shell_questions.hpp has theirs): questions that not all have
// answered yet. Each has a number, which the announcement and the answers have to carry, and an Answer, which is
// put together from what the shells send. A question is done when each shell that was asked has sent its last, or
// has gone, or when its time is over: then those that have not answered are late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugin/open_answers.hpp"
#include "value/idset.hpp"

namespace nacre::plugin {

template <typename Answer>
class OpenQuestions {
 public:
  using Answers = OpenAnswers<Answer, event::Timer>;
  using Number = typename Answers::Number;
  using Answered = typename Answers::Answered;
  struct Question {
    // Who is waited for. The leader may be among them: it is not asked, but gives its own part.
    value::Idset shells;
    event::Seconds time;  // until they are late: a grace
    Answer begun;
    std::function<std::string(Number)> text;  // that is announced
    std::function<void(Answered)> done;
  };

  static constexpr std::size_t kMostOpen = 1024;

  // Announces as `topic`; at most `most` questions are open at a time. `busy`: begins the error of one more, and is
  // followed by their number. The host has to outlive this object.
  OpenQuestions(Host& host, std::string topic, std::size_t most = kMostOpen,
                std::string busy = "the shells are asked by")
      : host_(host), topic_(std::move(topic)), most_(most), busy_(std::move(busy)) {}

  // All other shells but those that have gone; none if this one is alone.
  [[nodiscard]] value::Idset others() const {
    if (host_.bulk() == nullptr) return {};
    return host_.job().shells_that_came() - value::Idset::range(0, 0) - gone();
  }

  // `done` is called once, perhaps before this returns, unless this is an error or the question is dropped. EBUSY:
  // too many are open.
  Result<Number> ask(Question question) {
    if (open_.size() >= most_)
      return Error{EBUSY, fmt::format("{} {} others at the moment: try again", busy_, most_)};
    Number number = open_.next();
    auto timer = TRY(event::Timer::create(host_.loop(), [this, number] { open_.finish(number); }));
    timer.unref();
    timer.start_grace(question.time);
    value::Idset asked = question.shells - value::Idset::range(0, 0);
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

  // As OpenAnswers has them.
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
  Host& host_;
  std::string topic_;
  std::size_t most_;
  std::string busy_;
  Answers open_;
};

}  // namespace nacre::plugin
