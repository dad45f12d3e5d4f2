// SPDX-License-Identifier: Apache-2.0
//
// The bookkeeping of open_questions.hpp: which shells each question still waits for, and what there is of the
// answer. It has no clock, and sends nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "value/idset.hpp"

namespace nacre::plugin {

// `Kept`: is destroyed once the question is not open any more.
template <typename Answer, typename Kept = std::monostate>
class OpenAnswers {
 public:
  using Number = std::uint64_t;  // of a question, from 1

  struct Answered {
    Number number = 0;
    Answer answer;
    value::Idset late;  // shells
  };
  struct Awaited {
    value::Idset shells;  // that are waited for
    Answer begun;         // what there is of the answer
    std::function<void(Answered)> done;
  };

  [[nodiscard]] std::size_t size() const { return open_.size(); }
  [[nodiscard]] Number next() { return ++last_; }  // the number of a new question
  void open(Number number, Awaited question, Kept kept = {}) {
    open_.emplace(number, Open{std::move(question), std::move(kept)});
  }

  // To put in what the shell has sent; null if it came too late, or the shell is not waited for (any more).
  [[nodiscard]] Answer* find(Number number, std::uint32_t shell) {
    auto found = open_.find(number);
    bool waits = found != open_.end() && found->second.question.shells.contains(shell);
    return waits ? &found->second.question.begun : nullptr;
  }

  // Those that it still waits for; none: it is not open (any more).
  [[nodiscard]] value::Idset awaited(Number number) const {
    auto found = open_.find(number);
    return found == open_.end() ? value::Idset() : found->second.question.shells;
  }

  // The shell has sent its last for this question, which may be done now.
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
  // Those that have not answered are late.
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

  // What there is of the answers of those that are open.
  template <typename Act>
  void each(const Act& act) const {
    for (const auto& [number, open] : open_) act(open.question.begun);
  }

  // Without calling what waits for the answer.
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

}  // namespace nacre::plugin
