// SPDX-License-Identifier: Apache-2.0
//
// Reads standard input of a front end for a job: as fast as it is taken, without changing its flags for other
// processes that share it, and not while it is a terminal that another process group has.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"

namespace nacre::launch {

class InputReader {
 public:
  // Called from the loop; none may destroy the reader.
  struct Callbacks {
    std::function<std::size_t()> room;               // bytes that may be read now; 0: it pauses until go_on()
    std::function<void(std::string_view)> on_bytes;  // at most what there was room for
    std::function<void()> on_end;                    // once, unless stop() is called before
  };

  // The caller keeps `input` open. It does not keep the loop running. EBADF: it is not open.
  static Result<std::unique_ptr<InputReader>> create(event::Loop& loop, int input, Callbacks callbacks);
  ~InputReader() { stop(); }
  InputReader(const InputReader&) = delete;
  InputReader& operator=(const InputReader&) = delete;

  void go_on();  // there is room again
  void stop();   // nothing more is read, and the descriptor is as before

 private:
  explicit InputReader(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  Result<void> open(event::Loop& loop, int input);
  void pump();
  bool read_once(std::size_t room);
  void await();
  void pause();

  Callbacks callbacks_;
  int input_ = -1;        // < 0: it has ended
  UniqueFd own_;          // a separate description of the input, if there can be one
  int flags_ = -1;        // of the shared description otherwise; restored at the end
  bool is_file_ = false;  // always readable
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;  // for a file, and for a terminal that is another process group's
};

}  // namespace nacre::launch
