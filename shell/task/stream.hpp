// SPDX-License-Identifier: Apache-2.0
//
// This side's end of a pipe or a socket to another process. What the other side writes is kept until it is read
// here; what is written here is kept until the other side takes it. Both buffers are limited: a full input buffer
// stops the other side, as a full pipe does; a full output buffer refuses more.
#pragma once

#include "base/unique_fd.hpp"
#include "event/loop.hpp"

namespace nacre::task {

class BufferedStream : Noncopyable {
 public:
  static constexpr std::size_t kBufferSize = std::size_t{4} << 20;  // bytes, in each direction

  struct Options {
    bool readable = true;
    bool writable = false;
    bool by_line = true;  // call on_ready only for a whole line, a full buffer, or the end
    std::size_t buffer_size = kBufferSize;
  };
  // Only on_end may destroy the stream.
  struct Callbacks {
    // There is something to read, or the end; repeated while the owner reads
    std::function<void()> on_ready;
    std::function<void()> on_end;              // once, after the last on_ready
    std::function<void(std::size_t)> on_room;  // this many written bytes have been taken
  };

  // Sets O_NONBLOCK on `fd`. Starts reading at once.
  static Result<std::unique_ptr<BufferedStream>> create(event::Loop& loop, UniqueFd fd, Options options,
                                                        Callbacks callbacks);

  // Returns and removes bytes; they are valid until the next call of a member. Empty: there are none now.
  std::string_view read(std::size_t most = SIZE_MAX);
  std::string_view read_line();  // one whole line with its newline
  // The same; at the end also a last line without a newline, and a line longer than the buffer in parts
  std::string_view get_line();
  [[nodiscard]] std::size_t unread() const { return in_.size() - taken_; }
  [[nodiscard]] bool at_end() const { return at_end_; }  // the other side has closed; some bytes may be unread
  Result<void> resume();
  void pause();  // the other side stops once its pipe is full
  [[nodiscard]] bool paused() const { return paused_; }

  // Takes all bytes or none. ENOSPC: the other side has not taken enough of the earlier ones; EPIPE: it has gone,
  // or close() was called; EBADF: not writable.
  Result<void> write(std::string_view bytes);
  // Bytes that write() would take
  [[nodiscard]] std::size_t room() const { return options_.buffer_size - out_.size(); }
  void close();    // ends writing once what is kept is written
  void abandon();  // ends writing at once, and drops what is kept
  void hang_up();  // closes both directions at once; what has come can still be read, and there is no on_end
  // Bytes that write() has taken; of these, those that the other side of a pipe has read, or the kernel has taken.
  [[nodiscard]] std::uint64_t written() const { return written_; }
  [[nodiscard]] std::uint64_t taken() const;
  [[nodiscard]] bool closed() const { return closing_; }

 private:
  BufferedStream(UniqueFd fd, Options options, Callbacks callbacks)
      : fd_(std::move(fd)), options_(options), callbacks_(std::move(callbacks)) {}

  void on_events(int events);
  void fill();
  void flush();
  void deliver();
  void end_reading();
  void end_writing();
  [[nodiscard]] bool ready() const;
  [[nodiscard]] bool has_line() const { return in_.find('\n', taken_) != std::string::npos; }
  std::string_view take(std::size_t size);
  Result<void> watch();

  UniqueFd fd_;
  Options options_;
  Callbacks callbacks_;
  std::optional<event::Poll> poll_;
  std::string in_;
  std::size_t taken_ = 0;  // of in_
  std::string out_;
  bool at_end_ = false;
  std::uint64_t written_ = 0;
  bool paused_ = false;
  bool closing_ = false;  // close() was called, or the other side takes no more
  bool delivering_ = false;
  int watched_ = 0;  // event::Poll::Events
};

}  // namespace nacre::task
