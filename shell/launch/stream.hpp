// SPDX-License-Identifier: Apache-2.0
//
// What a launcher says to the leader's shell after the launch record, over the shell's standard input: records of
// transport/wire.hpp.
//
//   frame          {"signal": N}: for all tasks of the job
//   bulk, stream 0 the launcher's own standard input
//   end, stream 0  its end
//
// The end of all, without which the job is not left, is that the launcher has gone.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "task/stream.hpp"
#include "transport/wire.hpp"

namespace nacre::launch {

inline constexpr std::uint32_t kInputStream = 0;

// The leader's end, or that of a shell that has nothing to do but to notice when who has started it goes.
class LaunchStream {
 public:
  static constexpr std::size_t kMaxFrame = 4096;                 // bytes
  static constexpr std::size_t kMaxHeld = std::size_t{4} << 20;  // bytes of input that nobody wants yet

  // Called from the loop; none may destroy the stream. Those that are unset are not missed.
  struct Callbacks {
    std::function<void(int signum)> on_signal;
    std::function<void(std::string_view)> on_input;
    std::function<void()> on_input_end;  // once
    std::function<void(const Error&)>
        on_gone;  // once, the last: the launcher has gone, or has said what it cannot say
  };

  // `behind`: what has been read already.
  static Result<std::unique_ptr<LaunchStream>> create(event::Loop& loop, UniqueFd fd, std::string behind,
                                                      Callbacks callbacks);
  // All that comes is let go: for a shell that is not the leader, until it has joined.
  static Result<std::unique_ptr<LaunchStream>> watch(event::Loop& loop, UniqueFd fd, std::function<void()> on_gone);
  LaunchStream(const LaunchStream&) = delete;
  LaunchStream& operator=(const LaunchStream&) = delete;

  // While input is not wanted it is held, up to kMaxHeld; behind that much a signal waits too, but that the launcher has gone
  // is noticed.
  void want_input(bool wanted);
  void keeps_running(bool keeps);  // the loop; it does, unless told otherwise

 private:
  LaunchStream(UniqueFd fd, Callbacks callbacks) : fd_(std::move(fd)), callbacks_(std::move(callbacks)) {}
  void start();
  void on_readable();
  void on_timer();
  void take(std::string_view bytes);
  Result<void> take_record(const transport::Record& record);
  void give();
  [[nodiscard]] std::size_t held() const { return held_.size() - given_; }
  void gone(const Error& why);
  void watch_again();

  UniqueFd fd_;
  Callbacks callbacks_;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;
  transport::RecordReader reader_{kMaxFrame};
  bool discards_ = false;
  bool wanted_ = true;
  std::string held_;
  std::size_t given_ = 0;     // of held_
  bool input_ended_ = false;  // the record has come
  bool end_given_ = false;
  bool gone_ = false;
};

// The launcher's end: reads its own standard input as fast as it is taken.
class LaunchFeed {
 public:
  // `to`: the standard input of the leader's agent, which must stay; its owner calls on_room(). `input` < 0: no input, as if
  // it had ended.
  static Result<std::unique_ptr<LaunchFeed>> create(event::Loop& loop, task::Stream& to, int input);
  ~LaunchFeed();
  LaunchFeed(const LaunchFeed&) = delete;
  LaunchFeed& operator=(const LaunchFeed&) = delete;

  void signal(int signum);
  void on_room();

 private:
  LaunchFeed(task::Stream& to, int input) : to_(to), input_(input) {}
  void pump();
  bool read_once();
  void end_input();
  void wait_for_input();

  task::Stream& to_;
  int input_;             // < 0: it has ended
  UniqueFd own_;          // a description of the input's own, if it can have one
  int flags_ = -1;        // of the input where it has none; put back
  bool is_file_ = false;  // always readable
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;  // a terminal that others have
};

}  // namespace nacre::launch
