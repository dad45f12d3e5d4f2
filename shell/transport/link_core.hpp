// SPDX-License-Identifier: Apache-2.0
//
// What is behind a Link. It stays while one of the owner's callbacks runs, even if that destroys the link.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transport/link.hpp"
#include "transport/tls.hpp"

namespace nacre::transport {

class Link::Core {
 public:
  static Result<std::unique_ptr<Core>> create(event::Loop& loop, Start start, LinkLimits limits);

  void serve(Callbacks callbacks);
  void changed();  // the exchange has more to send
  std::size_t write(StreamId stream, std::string_view bytes);
  void close();                                   // without a word
  static void leave(std::unique_ptr<Core> core);  // by its link: nobody is to be called any more

  LinkSession exchange;
  [[nodiscard]] const std::string& peer() const { return start_.peer; }
  [[nodiscard]] bool is_closed() const { return closed_; }
  [[nodiscard]] std::size_t unsent() const { return out_.size() - sent_; }

 private:
  class Busy;  // while callbacks may run
  Core(Start start, LinkLimits limits);
  void set_socket_options() const;

  void on_events(int events);
  void on_timer();
  void turn(bool may_read);
  void read_some();
  void receive(std::string_view bytes);
  void decrypt();
  void dispatch();
  void deliver(const Arrival& arrival);
  template <typename F>
  void tell_in_turns(F tell_one);
  void tell_room();
  void tell_credit();
  void at_end(int code);

  void pump();
  bool refill();
  void watch(int events);
  [[nodiscard]] bool is_over() const;  // both ends have said all, and it is on its way
  void settle();
  void soon();
  void fail(Error error);
  void end_with(const std::optional<Error>& why);

  Start start_;
  LinkLimits limits_;
  Callbacks callbacks_;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;
  std::string plain_;  // to be encrypted
  std::string out_;    // to the socket
  std::size_t sent_ = 0;
  int watched_ = 0;               // event::Poll::Events
  int depth_ = 0;                 // callbacks that may run
  int broken_ = 0;                // the errno that writing ended with
  std::optional<Error> failure_;  // to be told from the loop
  bool serving_ = false;
  bool served_start_ = false;  // what came with the handshake has been looked at
  bool closed_ = false;
  bool left_ = false;
  bool shut_ = false;  // both ends have finished, and the socket's sending side is closed
};

}  // namespace nacre::transport
