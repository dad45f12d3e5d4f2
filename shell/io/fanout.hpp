// SPDX-License-Identifier: Apache-2.0
//
// One stream to many readers: each gets all of its bytes, in order, at its own pace and in constant memory. What has
// been read is kept in a window. A reader that does not move while the others wait for it falls behind: what it has
// not read yet goes to a file, up to a limit. Only then do all wait for it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "io/own_description.hpp"
#include "io/spill_file.hpp"

namespace nacre::io {

class Fanout {
 public:
  struct Options {
    std::size_t window = std::size_t{4} << 20;  // bytes
    event::Seconds stall_time{0.1};             // with a reader that does not move
    std::string spill_directory = "/tmp";
    std::uint64_t spill_limit = std::uint64_t{1} << 30;  // bytes
    std::optional<std::uint64_t> limit;                  // bytes that are passed on; then it ends as if at the end
  };
  // None may destroy the fanout.
  struct Callbacks {
    std::function<void(const Error&)> on_error;  // the source can't be read: the readers have come to its end
    std::function<void()> on_limit;              // there was more than the limit
    std::function<void()> on_done;               // once, if there was a reader: none is left
    // All have to wait for these readers (their numbers), once; the error if it is not for the limit of the file.
    std::function<void(const std::vector<std::size_t>&, const std::optional<Error>&)> on_wait;
  };

  // `source` stays its owner's, and open; its O_NONBLOCK flag is left alone where it can be opened anew, and else
  // given back at the end.
  static Result<std::unique_ptr<Fanout>> create(event::Loop& loop, int source, Options options,
                                                Callbacks callbacks);
  Fanout(const Fanout&) = delete;
  Fanout& operator=(const Fanout&) = delete;

  // Adds a reader: our end of its pipe, which is closed when it has got all. Readers are numbered from 0.
  Result<void> add(UniqueFd pipe);
  Result<void> start();
  // Closes all pipes and reads no more.
  void stop();
  // Whether all readers have got all, or have gone.
  [[nodiscard]] bool done() const;

 private:
  struct Reader {
    UniqueFd pipe;
    std::uint64_t position = 0;  // bytes that it has got
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
  [[nodiscard]] bool full() const;
  [[nodiscard]] bool any(const std::function<bool(const Reader&)>& is) const;
  void make_room();
  bool move_base(std::uint64_t to);
  void on_stall();
  Result<void> trim();
  bool complain(std::uint64_t to, const std::optional<Error>& error);  // false
  [[nodiscard]] std::uint64_t slowest(bool of_all) const;

  event::Loop& loop_;
  Options options_;
  Callbacks callbacks_;
  int source_ = -1;
  std::optional<OwnDescription> own_source_;
  std::optional<event::Poll> source_poll_;  // none: a file
  std::optional<event::Timer> timer_;       // stall_time
  bool polling_ = false;
  bool timing_ = false;
  bool ended_ = false;  // the source has
  bool complained_ = false;
  bool told_done_ = false;
  bool busy_ = false;               // in go_on()
  std::string window_;              // the byte at position p is at p % window
  std::uint64_t base_ = 0;          // positions that are in the window: base_ up to ...
  std::uint64_t end_ = 0;           // ... this one
  std::optional<SpillFile> spill_;  // the bytes before base_ that some reader lacks
  std::string spilled_;             // read from it
  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace nacre::io
