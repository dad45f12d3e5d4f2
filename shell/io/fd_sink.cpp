// SPDX-License-Identifier: Apache-2.0
#include "io/fd_sink.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/invariant.hpp"

namespace nacre::io {
namespace {

std::size_t size_of(std::span<const std::string_view> pieces) {
  std::size_t size = 0;
  for (std::string_view piece : pieces) size += piece.size();
  return size;
}

}  // namespace

Result<std::unique_ptr<FdSink>> FdSink::create(event::Loop& loop, int fd, std::string name, Options options,
                                               Callbacks callbacks) {
  std::unique_ptr<FdSink> sink(new FdSink(loop, std::move(name), std::move(options), std::move(callbacks)));
  CHECK_OK(sink->attach(fd));
  return sink;
}

Result<void> FdSink::attach(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) < 0) return system_error(errno, name_);
  fd_ = fd;
  waits_ = S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || ::isatty(fd) == 1;
  if (!waits_) return {};
  own_ = TRY(OwnDescription::of(fd, O_WRONLY, name_));
  fd_ = own_->get();
  return {};
}

void FdSink::redirect(int fd) {
  bool waited = poll_.has_value();
  poll_.reset();
  own_.reset();
  fd_ = fd;
  waits_ = false;
  if (!waited || failure_ || writing_) return;
  Result<void> written = write_kept();
  if (!written && callbacks_.on_error) callbacks_.on_error(written.error());
  if (callbacks_.on_room) callbacks_.on_room();
}

Result<void> FdSink::write(std::span<const std::string_view> pieces) {
  if (failure_) return *failure_;
  if (kept() > 0) {
    keep(pieces);
    return {};
  }
  INVARIANT(pieces.size() <= kMostPieces);
  std::array<std::string_view, kMostPieces> left{};
  std::copy(pieces.begin(), pieces.end(), left.begin());
  std::span<std::string_view> rest(left.data(), pieces.size());
  if (TRY(write_some(rest))) return {};
  keep(rest);
  return await_room();
}

bool FdSink::takes() {
  if (options_.overflow != Overflow::drop) return true;
  if (kept() >= kQueue) dropping_ = true;
  if (kept() <= kQueue / 2) dropping_ = false;
  return !dropping_;
}

bool FdSink::full() const {
  if (failure_) return false;
  switch (options_.overflow) {
    case Overflow::drop: return false;
    case Overflow::block: return kept() >= kQueue;
    case Overflow::spill: break;
  }
  return !tail_.empty() || (spill_failed_ && kept() >= kQueue);
}

std::uint64_t FdSink::kept() const { return queue_.size() + tail_.size() + (spill_ ? spill_->size() : 0); }

// Writes until all is written (true) or nothing more is taken.
Result<bool> FdSink::write_some(std::span<std::string_view> pieces) {
  while (size_of(pieces) > 0) {
    std::array<iovec, kMostPieces> vectors{};
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      vectors.at(i) = {const_cast<char*>(pieces[i].data()), pieces[i].size()};
    }
    ssize_t written = ::writev(fd_, vectors.data(), static_cast<int>(pieces.size()));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return false;
    if (written < 0) {
      Error why = system_error(errno, "cannot write " + name_);
      std::size_t size = size_of(pieces);
      writing_ = true;
      AfterError what = callbacks_.after_error ? callbacks_.after_error(why, size) : AfterError::fail;
      writing_ = false;
      if (what == AfterError::fail) return fail(std::move(why));
      if (what == AfterError::again) continue;
      written_ += size;
      std::fill(pieces.begin(), pieces.end(), std::string_view());
      return true;
    }
    auto taken = static_cast<std::size_t>(written);
    written_ += taken;
    for (std::string_view& piece : pieces) {
      std::size_t part = std::min(taken, piece.size());
      piece.remove_prefix(part);
      taken -= part;
    }
  }
  return true;
}

void FdSink::keep(std::span<const std::string_view> pieces) {
  bool in_memory = options_.overflow != Overflow::spill || (!spilled() && tail_.empty() && kept() < kQueue);
  if (!in_memory && keep_on_disk(pieces)) return;
  bool over_limit = !in_memory && !spill_failed_;
  ByteQueue& end = over_limit || spilled() || !tail_.empty() ? tail_ : queue_;
  for (std::string_view piece : pieces) end.add(piece);
}

bool FdSink::keep_on_disk(std::span<const std::string_view> pieces) {
  if (!tail_.empty() || spill_failed_) return false;
  auto complain = [this](const Error& error) {
    spill_failed_ = true;
    if (callbacks_.on_spill) callbacks_.on_spill(error);
    return false;
  };
  if (!spill_) {
    Result<SpillFile> made = SpillFile::create(options_.spill_directory);
    if (!made) return complain(made.error());
    spill_ = *std::move(made);
  }
  if (spill_->size() + size_of(pieces) > options_.spill_limit) return false;
  std::string joined;
  for (std::string_view piece : pieces) joined += piece;
  Result<void> added = spill_->add(joined);
  return added || complain(added.error());
}

Result<void> FdSink::await_room() {
  if (!poll_) poll_ = TRY(event::Poll::create(loop_, fd_, [this](int) { go_on(); }));
  return poll_->start(event::Poll::kWritable);
}

// Writes what is kept, as far as it is taken.
Result<void> FdSink::write_kept() {
  while (kept() > 0) {
    if (queue_.empty() && spilled()) {
      std::string taken;
      if (Result<void> done = spill_->take(taken, kQueue); !done) return fail(done.error());
      queue_.add(taken);
    } else if (queue_.empty()) {
      std::swap(queue_, tail_);
    }
    std::array<std::string_view, kMostPieces> blocks{};
    std::span<std::string_view> rest = queue_.first(blocks);
    std::size_t before = size_of(rest);
    bool all = TRY(write_some(rest));
    queue_.drop(before - size_of(rest));
    if (!all) break;
  }
  return {};
}

void FdSink::go_on() {
  bool was_full = full();
  Result<void> written = write_kept();
  if (written && kept() > 0) written = await_room();
  if (!written || kept() == 0) poll_.reset();
  if (!written && callbacks_.on_error) callbacks_.on_error(written.error());
  if (callbacks_.on_room && (!written || kept() == 0 || (was_full && !full()))) callbacks_.on_room();
}

Error FdSink::fail(Error error) {
  failure_ = error;
  queue_.clear();
  tail_.clear();
  spill_.reset();
  return error;
}

// ---- byte queue -------------------------------------------------------------------------

void ByteQueue::add(std::string_view bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (blocks_.empty() || blocks_.back().size() == kBlock) {
      std::string& block = blocks_.emplace_back();
      if (!spare_.empty()) {
        block = std::move(spare_.back());
        spare_.pop_back();
      }
      block.reserve(kBlock);
    }
    std::size_t part = std::min(bytes.size(), kBlock - blocks_.back().size());
    blocks_.back().append(bytes.substr(0, part));
    bytes.remove_prefix(part);
  }
}

void ByteQueue::clear() {
  blocks_.clear();
  spare_.clear();
  begin_ = size_ = 0;
}

std::span<std::string_view> ByteQueue::first(std::span<std::string_view> out) const {
  std::size_t count = std::min(out.size(), blocks_.size());
  for (std::size_t i = 0; i < count; ++i) out[i] = std::string_view(blocks_[i]).substr(i == 0 ? begin_ : 0);
  return out.first(count);
}

void ByteQueue::drop(std::size_t bytes) {
  bytes = std::min(bytes, size_);
  size_ -= bytes;
  begin_ += bytes;
  while (!blocks_.empty() && begin_ >= blocks_.front().size()) {
    std::string& block = blocks_.front();
    begin_ -= block.size();
    block.clear();
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(block));
    blocks_.pop_front();
  }
}

}  // namespace nacre::io
