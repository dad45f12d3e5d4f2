// SPDX-License-Identifier: Apache-2.0
//
// A sink that is a descriptor. A file takes all at once. A sink never waits for a pipe, terminal or socket: what it
// does not take is kept, or handled as the policy for overflow demands. It can be redirected to a file.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "io/own_description.hpp"
#include "io/sink.hpp"
#include "io/spill_file.hpp"

namespace nacre::io {

// Bytes that wait, in blocks: neither adding bytes nor dropping the first ones moves those that stay.
class ByteQueue {
 public:
  static constexpr std::size_t kBlock = std::size_t{256} << 10;  // bytes

  void add(std::string_view bytes);
  void clear();
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  // The first blocks, as many as `out` has room for: returns those of its elements that are set. They are valid
  // until the next call of another member.
  [[nodiscard]] std::span<std::string_view> first(std::span<std::string_view> out) const;
  void drop(std::size_t bytes);  // the first ones

 private:
  static constexpr std::size_t kMostSpare = 4;  // blocks that are kept for later

  std::deque<std::string> blocks_;
  std::vector<std::string> spare_;  // empty, with the room of a block
  std::size_t begin_ = 0;           // of the first block's bytes that are left
  std::size_t size_ = 0;
};

class FdSink final : public Sink {
 public:
  static constexpr std::size_t kQueue = std::size_t{1} << 20;           // bytes kept in memory before it is full
  static constexpr std::uint64_t kSpillLimit = std::uint64_t{1} << 30;  // bytes kept on disk, by default

  struct Options {
    Overflow overflow = Overflow::block;
    std::string spill_directory = "/tmp";
    std::uint64_t spill_limit = kSpillLimit;
  };
  // What becomes of bytes that could not be written.
  enum class AfterError {
    fail,   // the sink has failed
    again,  // they are written again: it has been redirected meanwhile
    drop    // they are lost, and the sink goes on
  };
  // None may destroy the sink.
  struct Callbacks {
    std::function<void()> on_room;               // it is no longer full, or has failed, or all has come out
    std::function<void(const Error&)> on_error;  // it has failed, but not within a write
    std::function<void(const Error&)> on_spill;  // it cannot spill, and blocks instead
    // A write has failed, and `bytes` are at stake; it may call redirect(). Unset: the sink fails.
    std::function<AfterError(const Error&, std::size_t bytes)> after_error = {};
  };

  // The caller keeps `fd`, and keeps it open; messages use `name`. If O_NONBLOCK can only be set for all that share
  // the descriptor, it is restored at the end.
  static Result<std::unique_ptr<FdSink>> create(event::Loop& loop, int fd, std::string name, Options options,
                                                Callbacks callbacks);

  // From now on it writes to `fd`, a file that the caller keeps open: first what it has kept.
  void redirect(int fd);

  Result<void> write(std::span<const std::string_view> pieces) override;
  [[nodiscard]] bool takes() override;
  [[nodiscard]] bool full() const override;
  [[nodiscard]] bool flushed() const override { return failure_ || kept() == 0; }
  [[nodiscard]] std::uint64_t written() const override { return written_; }  // with what was lost
  [[nodiscard]] std::uint64_t taken() const override { return written_ + kept(); }

 private:
  FdSink(event::Loop& loop, std::string name, Options options, Callbacks callbacks)
      : loop_(loop), name_(std::move(name)), options_(std::move(options)), callbacks_(std::move(callbacks)) {}

  Result<void> attach(int fd);
  [[nodiscard]] std::uint64_t kept() const;
  [[nodiscard]] bool spilled() const { return spill_ && spill_->size() > 0; }
  Result<bool> write_some(std::span<std::string_view> pieces);
  void keep(std::span<const std::string_view> pieces);
  bool keep_on_disk(std::span<const std::string_view> pieces);
  Result<void> await_room();
  Result<void> write_kept();
  void go_on();
  Error fail(Error error);

  event::Loop& loop_;
  std::string name_;
  Options options_;
  Callbacks callbacks_;
  int fd_ = -1;                        // the descriptor that is written to
  std::optional<OwnDescription> own_;  // the same, if it is not the owner's
  bool waits_ = false;                 // a write to it can block
  bool writing_ = false;               // within after_error
  ByteQueue queue_;                    // kept bytes: first those here, ...
  std::optional<SpillFile> spill_;     // ... then those here, ...
  ByteQueue tail_;                     // ... then those here
  bool spill_failed_ = false;
  bool dropping_ = false;
  std::uint64_t written_ = 0;
  std::optional<Error> failure_;
  std::optional<event::Poll> poll_;
};

}  // namespace nacre::io
