// SPDX-License-Identifier: Apache-2.0
//
// A made-up front end: it finds the job in the list of jobs, and asks its leader for something, as `nacre shrink`
// and others do, by the messages of shell/control. It never waits: the simulator lets it go on after each step.
#pragma once

#include "control/message.hpp"
#include "shells/plan.hpp"

namespace nacre::shells {

class FrontEnd {
 public:
  // `looks_again`: the leader may be lost, and another shell may lead a moment later.
  FrontEnd(const Order& order, Kernel& kernel, bool looks_again)
      : order_(order), kernel_(kernel), looks_again_(looks_again) {}
  ~FrontEnd();
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;

  // The time from which on the job can be reached.
  void allow(Nanoseconds at) { due_ = at + order_.after; }
  [[nodiscard]] Nanoseconds due() const { return is_asked_ || is_over_ ? kNever : due_; }
  // `address`: the path of the leader's socket; "": nobody can be reached.
  void go_on(const std::string& address);
  // Nothing more comes.
  void end() { is_over_ = true; }

  [[nodiscard]] const Order& order() const { return order_; }
  [[nodiscard]] bool is_asked() const { return is_asked_; }
  [[nodiscard]] Nanoseconds asked_at() const { return asked_at_; }
  [[nodiscard]] int answers() const { return answers_; }
  [[nodiscard]] bool is_hung_up() const { return is_hung_up_; }  // by the leader, or by a cut of the link
  [[nodiscard]] bool is_refused() const { return is_refused_; }
  // The leader's parts and its answer, without errors.
  [[nodiscard]] const std::vector<Json>& said() const { return said_; }
  [[nodiscard]] const std::string& broken() const {
    return broken_;
  }  // how the leader has broken the protocol;
     // "": it has not

 private:
  void dial(const std::string& address);
  void miss();
  void ask();
  void take(const Json& frame);
  void take_answer(const control::Answer& answer);

  const Order& order_;
  Kernel& kernel_;
  const bool looks_again_;
  int looks_ = 0;
  int fd_ = -1;
  Nanoseconds due_ = kNever;
  bool is_greeted_ = false, is_asked_ = false, is_refused_ = false, is_over_ = false, is_hung_up_ = false;
  Nanoseconds asked_at_ = kNever;
  int answers_ = 0;
  control::FrameReader reader_;
  std::vector<Json> said_;
  std::string broken_;
};

// The address of the leader of the only job in the list of jobs; "": it is not there yet, or any more.
std::string leader_address(const std::string& jobs);

}  // namespace nacre::shells
