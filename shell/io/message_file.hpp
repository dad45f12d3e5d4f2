// SPDX-License-Identifier: Apache-2.0
//
// A place for messages to another program: a file, a FIFO, or a descriptor. It never waits for the reader, not even
// for one that has yet to open the FIFO. It keeps what the reader has not taken; so to use little memory, write the
// next message only when it is idle.
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
    std::function<void()> on_idle;               // all that was written was taken; may be unset
    std::function<void(const Error&)> on_error;  // called once: nothing more is written
  };

  // Makes or empties the file. Errors name it.
  static Result<std::unique_ptr<MessageFile>> open(event::Loop& loop, std::string path, Callbacks callbacks);
  // `fd` is open for writing.
  static Result<std::unique_ptr<MessageFile>> of(event::Loop& loop, UniqueFd fd, std::string name,
                                                 Callbacks callbacks);
  MessageFile(const MessageFile&) = delete;
  MessageFile& operator=(const MessageFile&) = delete;

  // May call on_error before it returns.
  void write(std::string_view bytes);
  // Nothing is kept: the system has all of it, or writing failed.
  [[nodiscard]] bool idle() const { return failed_ || (sink_ ? sink_->flushed() : kept_.empty()); }
  [[nodiscard]] bool failed() const { return failed_; }
  // A FIFO that no process has opened for reading.
  [[nodiscard]] bool lacks_reader() const { return !sink_ && !failed_; }

 private:
  MessageFile(event::Loop& loop, std::string name, Callbacks callbacks)
      : loop_(loop), name_(std::move(name)), callbacks_(std::move(callbacks)) {}
  Result<void> attach(UniqueFd fd);
  Result<bool> open_path();
  void look_for_reader();
  void fail(const Error& error);

  event::Loop& loop_;
  std::string name_;  // the path, if there is one
  Callbacks callbacks_;
  UniqueFd fd_;
  std::unique_ptr<FdSink> sink_;  // none: a FIFO without a reader
  std::optional<event::Timer> timer_;
  std::string kept_;
  bool failed_ = false;
};

}  // namespace nacre::io
