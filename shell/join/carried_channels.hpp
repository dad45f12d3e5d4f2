// SPDX-License-Identifier: Apache-2.0
//
// The leader's end of the channels of its launch record (launch/record.hpp). Each is a pipe whose writing end is
// the value of an option; what is read from it goes to the launcher, within standard error.
#pragma once

#include "event/loop.hpp"
#include "io/sink.hpp"
#include "launch/record.hpp"

namespace nacre::join {

class CarriedChannels : Noncopyable {
 public:
  static constexpr event::Seconds kFinish{3};  // for a slow launcher

  // `to`: standard error, which has to stay open.
  static Result<std::unique_ptr<CarriedChannels>> create(event::Loop& loop, const launch::Carriage& carriage,
                                                         int to);

  // "CHANNEL=FD" for each. The plugins that read these options own the descriptors.
  [[nodiscard]] std::vector<std::string> options() const;
  // Sends a message on a channel that no option has.
  void send(std::string_view channel, std::string_view message);
  // Runs the loop until all that the pipes hold has come out, but at most for kFinish.
  void finish();

 private:
  struct Channel {
    std::string name;
    int writer = -1;  // owned by the plugin that reads the option
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
