// SPDX-License-Identifier: Apache-2.0
//
// The leader's end of the channels of its launch record (launch/carriage.hpp): each is a pipe whose writing end is the value of an
// option, and what comes out of it goes to the launcher, among all else that is written to standard error.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "io/fd_sink.hpp"
#include "launch/carriage.hpp"

namespace nacre::join {

class CarriedChannels {
 public:
  static constexpr event::Seconds kFinish{3};  // for a launcher that reads slowly

  // `to`: standard error, which has to stay open.
  static Result<std::unique_ptr<CarriedChannels>> create(event::Loop& loop, const launch::Carriage& carriage,
                                                         int to);
  CarriedChannels(const CarriedChannels&) = delete;
  CarriedChannels& operator=(const CarriedChannels&) = delete;

  // "CHANNEL=FD": the descriptors belong to who reads these options.
  [[nodiscard]] std::vector<std::string> options() const;
  // Runs the loop until all has come out that the pipes hold, at most for kFinish.
  void finish();

 private:
  struct Channel {
    std::string name;
    int writer = -1;  // its owner's
    UniqueFd pipe;
    std::optional<event::Poll> poll;
    bool ended = false;
  };

  CarriedChannels(event::Loop& loop, const std::string& token) : loop_(loop), writer_(token) {}
  Result<void> add(const std::string& name);
  void read(Channel& channel);
  void write();
  [[nodiscard]] bool is_empty() const;

  event::Loop& loop_;
  launch::CarriageWriter writer_;
  std::deque<Channel> channels_;
  std::unique_ptr<io::FdSink> sink_;
  std::deque<std::string> lines_;  // to be written, each as a whole
};

}  // namespace nacre::join
