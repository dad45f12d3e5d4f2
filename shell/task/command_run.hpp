// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "event/loop.hpp"
#include "task/subprocess.hpp"

namespace nacre::task {

// One command at a time, with the shell's own environment. It is killed when it takes too long, and with this
// object.
class CommandRun {
 public:
  static constexpr event::Seconds kMostTime{20};
  static constexpr std::size_t kMostText = 1 << 20;  // bytes of its output and of standard error that are kept

  // Both have to outlive it.
  CommandRun(event::Loop& loop, event::Children& children) : loop_(loop), children_(children) {}
  ~CommandRun();

  struct What {
    std::string name;  // for messages
    std::vector<std::string> argv;
    std::vector<std::pair<std::string, std::string>> variables = {};
    event::Seconds most = kMostTime;
    bool is_told_by_output = false;  // why it fails is on standard output where standard error is empty
    bool ends_with_shell = false;    // also where the shell is killed
  };
  // With what it has written to standard output; an error has the command, and the last line of standard error.
  using WhenDone = std::function<void(Result<std::string>)>;
  // `done` is called once, from the loop. An error that is returned: it has not been started.
  Result<void> start(What what, WhenDone done);
  [[nodiscard]] bool runs() const { return process_ != nullptr; }

 private:
  void read();
  void complete();

  event::Loop& loop_;
  event::Children& children_;
  std::unique_ptr<Subprocess> process_;
  std::optional<event::Timer> limit_;
  WhenDone done_;
  std::string command_;
  event::Seconds most_{};
  std::string out_, err_;
  bool is_late_ = false, is_told_by_output_ = false;
};

}  // namespace nacre::task
