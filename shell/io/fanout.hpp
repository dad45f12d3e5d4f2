// SPDX-License-Identifier: Apache-2.0
//
// One stream to many readers: each gets all of its bytes, in order, at its own pace and in constant memory. What
// has been read is kept in a window. A reader that does not move while others wait for it falls behind: what it
// lacks goes to a file, up to a limit. Only when the file is full do all wait for it. A terminal is read only while
// no other process group has it: it would stop this process.
#pragma once

#include "event/loop.hpp"
#include "io/sink.hpp"

namespace nacre::io {

class Fanout : Noncopyable {
 public:
  struct Options {
    std::size_t window = std::size_t{4} << 20;  // bytes
    event::Seconds stall_time{0.1};             // how long the others wait for a reader that does not move
    std::string spill_directory = "/tmp";
    std::uint64_t spill_limit = std::uint64_t{1} << 30;  // bytes
    // Bytes that are passed on; after them the readers get an end
    std::optional<std::uint64_t> limit;
  };
  // None may destroy the fanout.
  struct Callbacks {
    std::function<void(const Error&)> on_error;  // the source cannot be read: the readers get an end
    std::function<void()> on_limit;              // there was more than the limit
    std::function<void()> on_done;               // called once, if there was a reader: none is left
    // Called once: all have to wait for these readers (their numbers). The error is why, unless the file has
    // reached its limit.
    std::function<void(const std::vector<std::size_t>&, const std::optional<Error>&)> on_wait;
  };

  // The caller keeps `source`, and keeps it open. If it can be opened anew its O_NONBLOCK flag stays as it is, else
  // the flag is restored at the end.
  static Result<std::unique_ptr<Fanout>> create(event::Loop& loop, int source, Options options,
                                                Callbacks callbacks);

  // Adds a reader: our end of its pipe, which is closed when the reader has got all. Readers are numbered from 0.
  Result<void> add(UniqueFd pipe);
  Result<void> start();
  // That reader gets no more than what has been read so far.
  void end(std::size_t reader);
  // Closes all pipes, and stops reading.
  void stop();
  // Whether each reader has got all, or has gone.
  [[nodiscard]] bool done() const;

 private:
  struct Reader {
    UniqueFd pipe;
    std::uint64_t position = 0;         // bytes that it got
    std::optional<std::uint64_t> last;  // none: it gets all
    std::optional<event::Poll> poll;
    bool waiting = false;  // its pipe is full
  };

  Fanout(event::Loop& loop, Options options, Callbacks callbacks)
      : loop_(loop),
        options_(std::move(options)),
        callbacks_(std::move(callbacks)),
        window_(options_.window, '\0') {}

  Result<void> attach(int source);
  void go_on();
  bool read_some();
  void serve(Reader& reader);
  ssize_t give(Reader& reader);
  void drop(Reader& reader);
  void await_source(bool wanted);
  bool waits_for_terminal();
  [[nodiscard]] bool full() const;
  [[nodiscard]] std::uint64_t end_for(const Reader& reader) const {
    return std::min(end_, reader.last.value_or(end_));
  }
  [[nodiscard]] bool any(const std::function<bool(const Reader&)>& is) const;
  void make_room();
  bool move_base(std::uint64_t to);
  void on_stall();
  Result<void> trim();
  bool complain(std::uint64_t to, const std::optional<Error>& error);  // returns false
  [[nodiscard]] std::uint64_t slowest(bool of_all) const;

  event::Loop& loop_;
  Options options_;
  Callbacks callbacks_;
  int source_ = -1;
  std::optional<OwnDescription> own_source_;
  std::optional<event::Poll> source_poll_;  // none: a file
  std::optional<event::Timer> timer_;       // stall_time
  std::optional<event::Timer> look_timer_;  // of a terminal: whether it is still another's
  bool polling_ = false;
  bool reads_on_ = false;  // until there is nothing: the source may never be reported as readable
  bool timing_ = false;
  bool ended_ = false;  // the source has ended
  bool complained_ = false;
  bool reported_done_ = false;
  bool busy_ = false;               // in go_on()
  std::string window_;              // the byte at position p is at p % window
  std::uint64_t base_ = 0;          // the window has the positions base_ up to ...
  std::uint64_t end_ = 0;           // ... this one
  std::optional<SpillFile> spill_;  // the bytes before base_ that some reader lacks
  std::string spilled_;             // read from it
  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace nacre::io
