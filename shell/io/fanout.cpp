// SPDX-License-Identifier: Apache-2.0
#include "io/fanout.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/program.hpp"

namespace nacre::io {
namespace {

constexpr std::size_t kReadSize = std::size_t{256} << 10;  // bytes of one read, of the source or of the spill file
// The window is full if less than this part of it is free
constexpr std::size_t kFullness = 16;
constexpr event::Seconds kOthersTerminal{0.5};
constexpr std::uint64_t kEvicted = std::uint64_t{1} << 20;  // bytes of one write to the file

}  // namespace

Result<std::unique_ptr<Fanout>> Fanout::create(event::Loop& loop, int source, Options options,
                                               Callbacks callbacks) {
  std::unique_ptr<Fanout> fanout(new Fanout(loop, std::move(options), std::move(callbacks)));
  CHECK_OK(fanout->attach(source));
  return fanout;
}

Result<void> Fanout::attach(int source) {
  struct stat info {};
  if (::fstat(source, &info) < 0) return system_error(errno, "stdin");
  source_ = source;
  timer_ = TRY(event::Timer::create(loop_, [this] { on_stall(); }));
  if (S_ISREG(info.st_mode)) return {};
  if (::isatty(source) == 1) look_timer_ = TRY(event::Timer::create(loop_, [this] { go_on(); }));
  own_source_ = TRY(OwnDescription::of(source, O_RDONLY, "stdin"));
  source_ = own_source_->get();
  reads_on_ = S_ISFIFO(info.st_mode) && has_no_writer(source);
  source_poll_ = TRY(event::Poll::create(loop_, source_, [this](int) { go_on(); }));
  return {};
}

Result<void> Fanout::add(UniqueFd pipe) {
  auto reader = std::make_unique<Reader>();
  reader->pipe = std::move(pipe);
  reader->poll = TRY(event::Poll::create(loop_, reader->pipe.get(), [this, it = reader.get()](int) {
    it->waiting = false;
    it->poll->stop();
    serve(*it);
    go_on();
  }));
  readers_.push_back(std::move(reader));
  return {};
}

Result<void> Fanout::start() {
  if (source_poll_) {
    polling_ = true;
    CHECK_OK(source_poll_->start(event::Poll::kReadable));
    if (!reads_on_) return {};
  }
  go_on();
  return {};
}

void Fanout::stop() {
  ended_ = true;
  for (auto& reader : readers_) drop(*reader);
  await_source(false);
  timer_->stop();
  if (look_timer_) look_timer_->stop();
}

bool Fanout::done() const {
  return std::all_of(readers_.begin(), readers_.end(), [](const auto& reader) { return !reader->pipe; });
}

// Reads while there is something to read and room for it; a polled source once in each round.
void Fanout::go_on() {
  if (std::exchange(busy_, true)) return;
  if (full()) make_room();
  bool waits = waits_for_terminal();
  for (bool more = !waits; more && !ended_ && !full() && !done();) {
    more = read_some() && (!source_poll_ || reads_on_);
    if (full()) make_room();
  }
  if (done()) ended_ = true;
  await_source(!ended_ && !full() && !waits);
  bool impatient = !ended_ && full();
  if (impatient != timing_) {
    timing_ = impatient;
    timing_ ? timer_->start_grace(options_.stall_time) : timer_->stop();
  }
  busy_ = false;
  if (done() && !readers_.empty() && !std::exchange(reported_done_, true) && callbacks_.on_done)
    callbacks_.on_done();
}

// Returns whether there may be more to read.
bool Fanout::read_some() {
  std::size_t at = end_ % window_.size();
  std::size_t room =
      std::min({window_.size() - at, static_cast<std::size_t>(window_.size() - (end_ - base_)), kReadSize});
  if (options_.limit) room = static_cast<std::size_t>(std::min<std::uint64_t>(room, *options_.limit - end_ + 1));
  ssize_t got = ::read(source_, window_.data() + at, room);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return errno == EINTR;
  bool hung_up = got < 0 && errno == EIO && source_poll_;  // the end of a terminal
  if (got < 0 && !hung_up && callbacks_.on_error) callbacks_.on_error(system_error(errno, "cannot read stdin"));
  if (got <= 0) ended_ = true;
  end_ += static_cast<std::uint64_t>(std::max<ssize_t>(got, 0));
  if (options_.limit && end_ > *options_.limit) {
    end_ = *options_.limit;
    ended_ = true;
    if (callbacks_.on_limit) callbacks_.on_limit();
  }
  for (auto& reader : readers_) {
    if (!reader->waiting) serve(*reader);
  }
  return !ended_;
}

// Writes until its pipe is full.
void Fanout::serve(Reader& reader) {
  while (reader.pipe && reader.position < end_for(reader)) {
    ssize_t given = give(reader);
    if (given < 0 && errno == EINTR) continue;
    if (given < 0 && errno != EAGAIN) return drop(reader);  // EPIPE: it reads no more
    if (given < 0) {
      reader.waiting = true;
      if (!reader.poll->start(event::Poll::kWritable)) drop(reader);
      return;
    }
    reader.position += static_cast<std::uint64_t>(given);
  }
  if ((ended_ || reader.last) && reader.position >= end_for(reader)) drop(reader);
}

void Fanout::end(std::size_t reader) {
  if (reader >= readers_.size()) return;
  readers_[reader]->last = end_;
  serve(*readers_[reader]);
  go_on();
}

// Makes one write(2) to its pipe.
ssize_t Fanout::give(Reader& reader) {
  if (reader.position >= base_) {
    std::size_t at = reader.position % window_.size();
    auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(end_for(reader) - reader.position, window_.size() - at));
    return ::write(reader.pipe.get(), window_.data() + at, size);
  }
  spilled_.clear();
  std::uint64_t skip = reader.position - (base_ - spill_->size());
  if (Result<void> read = spill_->read(spilled_, skip, kReadSize); !read) {
    if (callbacks_.on_error) callbacks_.on_error(read.error());
    errno = EIO;
    return -1;
  }
  return ::write(reader.pipe.get(), spilled_.data(), spilled_.size());
}

void Fanout::drop(Reader& reader) {
  reader.poll.reset();
  reader.pipe.reset();
  reader.waiting = false;
}

void Fanout::await_source(bool wanted) {
  if (!source_poll_ || std::exchange(polling_, wanted) == wanted) return;
  if (!wanted) return source_poll_->stop();
  if (Result<void> started = source_poll_->start(event::Poll::kReadable); !started) {
    if (callbacks_.on_error) callbacks_.on_error(started.error());
    stop();
  }
}

bool Fanout::waits_for_terminal() {
  if (!look_timer_ || ended_ || done() || !is_in_background(source_)) return false;
  look_timer_->start(kOthersTerminal);
  return true;
}

std::uint64_t Fanout::slowest(bool of_all) const {
  std::uint64_t least = end_;
  for (const auto& reader : readers_) {
    if (reader->pipe && (of_all || reader->position >= base_)) least = std::min(least, reader->position);
  }
  return least;
}

// The window counts as full with some room left, so that reads do not become small.
bool Fanout::full() const { return window_.size() - (end_ - base_) < window_.size() / kFullness; }

bool Fanout::any(const std::function<bool(const Reader&)>& is) const {
  return std::any_of(readers_.begin(), readers_.end(), [&](const auto& each) { return each->pipe && is(*each); });
}

// Drops what all readers that keep up have got.
void Fanout::make_room() {
  if (any([this](const Reader& reader) { return reader.position >= base_; })) move_base(slowest(false));
}

// Moves to the file what some reader lacks. False if that fails.
bool Fanout::move_base(std::uint64_t to) {
  if (Result<void> trimmed = trim(); !trimmed) return complain(to, trimmed.error());
  if (slowest(true) >= to) {
    base_ = to;
    return true;
  }
  while (base_ < to) {
    std::size_t at = base_ % window_.size();
    std::uint64_t size = std::min({to - base_, kEvicted, static_cast<std::uint64_t>(window_.size() - at)});
    if (!spill_) {
      Result<SpillFile> made = SpillFile::create(options_.spill_directory);
      if (!made) return complain(to, made.error());
      spill_ = *std::move(made);
    }
    if (spill_->size() + size > options_.spill_limit) return complain(to, std::nullopt);
    Result<void> added = spill_->add(std::string_view(window_).substr(at, static_cast<std::size_t>(size)));
    if (!added) return complain(to, added.error());
    base_ += size;
  }
  return true;
}

// Drops from the file what no reader lacks.
Result<void> Fanout::trim() {
  if (!spill_ || spill_->size() == 0) return {};
  std::uint64_t first = base_ - spill_->size();
  std::uint64_t least = std::min(slowest(true), base_);
  if (least < base_ && least - first < kEvicted) return {};
  return spill_->forget(least - first);
}

// Readers that have not moved fall behind, if others wait for them.
void Fanout::on_stall() {
  timing_ = false;
  bool waited_for = any([this](const Reader& reader) { return reader.position == end_; });
  if (full() && waited_for) move_base(std::min(slowest(false) + window_.size() / 2, end_));
  go_on();
}

// The callback gets the readers whose missing bytes would have to go to the file.
bool Fanout::complain(std::uint64_t to, const std::optional<Error>& error) {
  if (std::exchange(complained_, true) || !callbacks_.on_wait) return false;
  std::vector<std::size_t> slow;
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    if (readers_[i]->pipe && readers_[i]->position < to) slow.push_back(i);
  }
  callbacks_.on_wait(slow, error);
  return false;
}

}  // namespace nacre::io
