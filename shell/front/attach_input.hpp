// SPDX-License-Identifier: Apache-2.0
//
// What `nacre attach --input` does besides showing output: it owns the job's standard input and sends its own
// there, and its keys do what those of `nacre run` do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "control/client.hpp"
#include "event/loop.hpp"
#include "front/launch_signals.hpp"
#include "launch/input_reader.hpp"

namespace nacre::front {

class AttachInput {
 public:
  struct Callbacks {
    std::function<void()> on_own;   // the leader has accepted: this is the owner
    std::function<void()> on_sent;  // there may be something to send
    std::function<void(const Error&)> on_error;
    // A line of this program's own; `context`: of the event `input`.
    std::function<void(const std::string& text, const Json& context)> on_notice;
  };

  // Asks for the input. `client` has to outlive this object. None of the callbacks may destroy it.
  AttachInput(event::Loop& loop, control::Client& client, bool takes, Callbacks callbacks);
  AttachInput(const AttachInput&) = delete;
  AttachInput& operator=(const AttachInput&) = delete;

  // Of any request of the link: what is not about this one is passed over.
  void take(const control::Answer& answer);
  // The leader may have given credit.
  void go_on();

  // Somebody else has taken it: from now on this only watches.
  [[nodiscard]] bool is_taken() const { return is_taken_; }

  // SIGINT: passed on to the tasks; a second one soon after it ends the job, a third one kills the tasks.
  void interrupt();
  // SIGTSTP. True: this process leaves the job.
  bool stop();

 private:
  void begin();
  void report_interrupt(const Json& status);
  void taken(const std::string& by);

  event::Loop& loop_;
  control::Client& client_;
  Callbacks callbacks_;
  std::unique_ptr<launch::InputReader> reader_;
  LaunchSignals signals_;
  std::uint64_t id_;
  std::optional<std::uint64_t> status_;  // a request whose answer is awaited
  bool is_taken_ = false;
};

}  // namespace nacre::front
