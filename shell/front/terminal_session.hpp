// SPDX-License-Identifier: Apache-2.0
//
// This process's terminal, joined to one elsewhere by a request to the leader of a job: keys and the size of the
// window go there, and what is written there comes out here, unchanged. The terminal is raw from the leader's first
// answer on, and has its settings back when run() returns, or this process ends in any other way.
#pragma once

#include "control/client.hpp"
#include "io/terminal.hpp"

namespace nacre::front {

// The keys by which the user of a terminal elsewhere leaves it, as those of ssh: at the beginning of a line "~."
// leaves and "~~" is one "~". All other keys, Ctrl-C among them, are passed on.
class EscapeKeys {
 public:
  struct Typed {
    std::string keys;     // to pass on; with `leaves`, what came before
    bool leaves = false;  // what is typed after that is lost
  };
  // A "~" that may begin an escape is passed on with the next key.
  Typed take(std::string_view bytes);

 private:
  bool at_line_ = true;     // nothing has been typed since the line began
  bool has_tilde_ = false;  // a "~" that has not been passed on
};

class TerminalSession : Noncopyable {
 public:
  static constexpr std::uint64_t kCredit = std::uint64_t{64} << 10;  // bytes that are on their way
  static constexpr std::size_t kTypedAhead = std::size_t{64} << 10;  // bytes that the leader does not take yet
  static constexpr const char* kStream = "pty";

  struct Request {
    std::string action;
    Json arguments;                                    // the member "pty" gets the size
    std::function<Result<void>(const Json&)> on_part;  // of the answer
  };
  enum class How {
    answered,  // by the leader, and all output has come out
    left,      // by "~."
    hung_up,   // this terminal has gone
    signalled,
    link_lost,
  };
  struct End {
    How how = How::answered;
    Json answer = {};
    int signum = 0;
    std::string why = {};  // of a link that is lost
  };

  // `client` has to outlive this object, and has no other request with streams meanwhile.
  TerminalSession(control::Client& client, Request request) : client_(client), request_(std::move(request)) {}
  ~TerminalSession();

  // Once. An error: the leader has refused, has broken the protocol, or this terminal cannot be used.
  Result<End> run();

 private:
  Result<void> watch_signals();
  Result<void> wait();
  Result<void> take_signals();
  Result<void> stop_and_continue();
  Result<void> take_frames();
  Result<void> take(const control::Answer& answer);
  void read_keys();
  void send_keys();
  void write_output();
  void send_size();
  void end(How how, int signum = 0);

  control::Client& client_;
  Request request_;
  std::uint64_t id_ = 0;
  std::optional<std::uint64_t> resizes_;  // a request for the size that has no answer yet
  bool is_resized_ = false;               // since that request
  std::unique_ptr<io::Terminal> terminal_;
  sigset_t before_{};  // signals that were blocked
  UniqueFd signals_;
  EscapeKeys escape_;
  std::string keys_;    // that were not sent
  std::string output_;  // that was not written
  std::optional<Json> answer_;
  std::optional<End> end_;
};

}  // namespace nacre::front
