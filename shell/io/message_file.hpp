// SPDX-License-Identifier: Apache-2.0
//
// A place for messages to another program: a file, a FIFO, or a descriptor. Whoever reads it is never waited for: not one that is
// slow, nor one that has not opened the FIFO yet. What it has not taken is kept, so a writer that is to use little memory writes
// the next message once the place is idle.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "io/fd_sink.hpp"

namespace nacre::io {

class MessageFile {
 public:
  static constexpr event::Seconds kLookForReader{0.1};  // of a FIFO

  // Called from the loop; none may destroy this.
  struct Callbacks {
    std::function<void()> on_idle;               // all that was written has been taken; may be unset
    std::function<void(const Error&)> on_error;  // once: nothing is written any more
  };

  // The file is made, or emptied. Errors name it.
  static Result<std::unique_ptr<MessageFile>> open(event::Loop& loop, std::string path, Callbacks callbacks);
  // `fd` is open for writing.
  static Result<std::unique_ptr<MessageFile>> of(event::Loop& loop, UniqueFd fd, std::string name,
                                                 Callbacks callbacks);
  MessageFile(const MessageFile&) = delete;
  MessageFile& operator=(const MessageFile&) = delete;

  // May call on_error before it returns.
  void write(std::string_view bytes);
  // Nothing is kept: the system has it all, or it failed.
  [[nodiscard]] bool idle() const { return failed_ || (sink_ ? sink_->flushed() : kept_.empty()); }
  [[nodiscard]] bool failed() const { return failed_; }
  // A FIFO that nobody has opened for reading.
  [[nodiscard]] bool lacks_reader() const { return !sink_ && !failed_; }

 private:
  MessageFile(event::Loop& loop, std::string name, Callbacks callbacks)
      : loop_(loop), name_(std::move(name)), callbacks_(std::move(callbacks)) {}
  Result<void> attach(UniqueFd fd);
  Result<bool> open_path();
  void look_for_reader();
  void fail(const Error& error);

  event::Loop& loop_;
  std::string name_;  // the path, where there is one
  Callbacks callbacks_;
  UniqueFd fd_;
  std::unique_ptr<FdSink> sink_;  // none: a FIFO without a reader
  std::optional<event::Timer> timer_;
  std::string kept_;
  bool failed_ = false;
};

}  // namespace nacre::io
