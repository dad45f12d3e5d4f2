// SPDX-License-Identifier: Apache-2.0
//
// Where output comes out: sinks, which take formatted bytes and never wait, and the destinations that write to
// them.
#pragma once

#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "io/format.hpp"

namespace nacre::io {

// Where formatted output goes: a descriptor of this process (FdSink), or another shell that collects the
// output of all.
class Sink {
 public:
  static constexpr std::size_t kMostPieces = 8;

  virtual ~Sink() = default;

  // Takes all of the pieces, at most kMostPieces, in order. After an error the sink has ended: what has not come
  // out never will, and each further write returns the same error.
  virtual Result<void> write(std::span<const std::string_view> pieces) = 0;

  // False: the caller should drop what it has. Only a sink whose policy is to drop returns that. It keeps what it
  // is given nevertheless.
  [[nodiscard]] virtual bool takes() = 0;
  // Whether its writers should wait.
  [[nodiscard]] virtual bool full() const = 0;
  // Whether all that was written has come out, or never will.
  [[nodiscard]] virtual bool flushed() const = 0;
  // How many bytes have come out.
  [[nodiscard]] virtual std::uint64_t written() const = 0;
  // How many bytes it has taken: those that came out, and those that wait.
  [[nodiscard]] virtual std::uint64_t taken() const = 0;
};

// What happens to output when its reader is slower than its writers.
enum class Overflow {
  block,  // writers wait
  spill,  // it is kept in a file, up to a limit; then writers wait
  drop,   // nothing more is taken until the reader has caught up
};

// One place where output comes out: a format in front of a sink, and a limit. Bytes that are lost here are counted,
// and a notice is written where they are missing.
class Destination {
 public:
  struct Lost {
    std::uint64_t over_limit = 0;     // bytes
    std::uint64_t dropped = 0;        // bytes
    std::uint64_t dropped_lines = 0;  // of these, whole or not
  };

  // `limit`: how many bytes each stream may have, as its tasks wrote them.
  Destination(std::unique_ptr<Format> format, std::unique_ptr<Sink> sink, std::optional<std::uint64_t> limit)
      : format_(std::move(format)), sink_(std::move(sink)), limit_(limit) {}

  Result<void> put(const Batch& batch);
  Result<void> end(const Source& source, double time);
  // Writes a line of the shell's own, without its newline.
  Result<void> notice(std::string_view message, double time);

  [[nodiscard]] Sink& sink() { return *sink_; }
  [[nodiscard]] const Sink& sink() const { return *sink_; }
  [[nodiscard]] const Lost& lost(Stream stream) const { return lost_[static_cast<std::size_t>(stream)]; }

 private:
  Result<void> cut(Batch& batch);
  Result<void> note_dropped(double time);
  void count_dropped(const Batch& batch);

  std::unique_ptr<Format> format_;
  std::unique_ptr<Sink> sink_;
  std::optional<std::uint64_t> limit_;
  std::array<std::uint64_t, kStreams.size()> taken_{};  // bytes
  std::array<Lost, kStreams.size()> lost_{};
  Lost unnoted_;  // dropped since the last notice
};

// A sink that is a descriptor. A file takes all at once. A sink never waits for a pipe, terminal or socket: what it
// does not take is kept, or handled as the policy for overflow demands. It can be redirected to a file.

// A private copy of a descriptor that is shared with other processes: it can be non-blocking without giving those
// EAGAIN.

// The same file, pipe or terminal, opened anew with these flags of open(2); none if that fails (see errno).
[[nodiscard]] UniqueFd reopen(int fd, int flags);

// A non-blocking descriptor of what `fd` is. If that cannot be opened anew, such as a socket, O_NONBLOCK is set for
// all that share it, and restored at the end.
class OwnDescription {
 public:
  // `access`: O_RDONLY or O_WRONLY. Errors name it `name`.
  static Result<OwnDescription> of(int fd, int access, const std::string& name);
  OwnDescription(OwnDescription&& other) noexcept
      : fd_(std::move(other.fd_)), shared_flags_(std::exchange(other.shared_flags_, std::nullopt)) {}
  OwnDescription& operator=(OwnDescription&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(shared_flags_, other.shared_flags_);
    return *this;
  }
  ~OwnDescription();

  [[nodiscard]] int get() const { return fd_.get(); }

 private:
  OwnDescription(UniqueFd fd, std::optional<int> shared_flags) : fd_(std::move(fd)), shared_flags_(shared_flags) {}

  UniqueFd fd_;
  std::optional<int> shared_flags_;  // to be restored
};

// Bytes kept on disk, first in, first out, in a file without a name.
class SpillFile {
 public:
  static Result<SpillFile> create(const std::string& directory);

  // Adds all of it or, after an error, nothing.
  Result<void> add(std::string_view bytes);
  // Appends the first bytes to `out`, at most `most`, and forgets them: their disk space is given back.
  Result<void> take(std::string& out, std::size_t most);
  // take() in two steps: read() appends the first bytes after `skip`; forget() drops the first ones (at most all).
  Result<void> read(std::string& out, std::uint64_t skip, std::size_t most) const;
  Result<void> forget(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t size() const { return end_ - begin_; }  // bytes that are kept

 private:
  SpillFile(UniqueFd fd, std::string directory) : fd_(std::move(fd)), directory_(std::move(directory)) {}

  UniqueFd fd_;
  std::string directory_;  // for messages
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

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
  [[nodiscard]] std::uint64_t kept() const { return queue_.size() + tail_.size() + (spill_ ? spill_->size() : 0); }
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

// A place for messages to another program: a file, a FIFO, or a descriptor. It never waits for the reader, not even
// for one that has yet to open the FIFO. It keeps what the reader has not taken; so to use little memory, write the
// next message only when it is idle.
class MessageFile : Noncopyable {
 public:
  static constexpr event::Seconds kLookForReader{0.1};  // of a FIFO

  // Called from the loop; none may destroy this.
  struct Callbacks {
    std::function<void()> on_idle;               // all that was written was taken; may be unset
    std::function<void(const Error&)> on_error;  // called once: nothing more is written
  };

  // Makes the file, or empties it, unless it `keeps` what it has: then all goes behind that. Errors name it.
  static Result<std::unique_ptr<MessageFile>> open(event::Loop& loop, std::string path, Callbacks callbacks,
                                                   bool keeps = false);
  // `fd` is open for writing.
  static Result<std::unique_ptr<MessageFile>> of(event::Loop& loop, UniqueFd fd, std::string name,
                                                 Callbacks callbacks);

  // May call on_error before it returns.
  void write(std::string_view bytes);
  // Nothing is kept: the system has all of it, or writing failed.
  [[nodiscard]] bool idle() const { return failed_ || (sink_ ? sink_->flushed() : kept_.empty()); }
  [[nodiscard]] bool failed() const { return failed_; }
  // A FIFO that no process has opened for reading.
  [[nodiscard]] bool lacks_reader() const { return !sink_ && !failed_; }
  // A regular file, in which others have written behind what is from here.
  [[nodiscard]] bool has_others_text() const;

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
  bool keeps_ = false;
  UniqueFd fd_;
  std::unique_ptr<FdSink> sink_;  // none: a FIFO without a reader
  std::optional<event::Timer> timer_;
  std::string kept_;
  bool failed_ = false;
};

}  // namespace nacre::io
