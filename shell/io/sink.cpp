// SPDX-License-Identifier: Apache-2.0
#include "io/sink.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.hpp"
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

// ---- message file -----------------------------------------------------------------------

Result<std::unique_ptr<MessageFile>> MessageFile::open(event::Loop& loop, std::string path, Callbacks callbacks,
                                                       bool keeps) {
  std::unique_ptr<MessageFile> out(new MessageFile(loop, std::move(path), std::move(callbacks)));
  MessageFile* self = out.get();
  self->keeps_ = keeps;
  if (TRY(self->open_path())) return out;
  self->timer_ = TRY(event::Timer::create(loop, [self] { self->look_for_reader(); }));
  self->timer_->start(kLookForReader, kLookForReader);
  return out;
}

Result<std::unique_ptr<MessageFile>> MessageFile::of(event::Loop& loop, UniqueFd fd, std::string name,
                                                     Callbacks callbacks) {
  std::unique_ptr<MessageFile> out(new MessageFile(loop, std::move(name), std::move(callbacks)));
  CHECK_OK(out->attach(std::move(fd)));
  return out;
}

Result<void> MessageFile::attach(UniqueFd fd) {
  FdSink::Callbacks callbacks;
  callbacks.on_room = [this] {
    if (idle() && !failed_ && callbacks_.on_idle) callbacks_.on_idle();
  };
  callbacks.on_error = [this](const Error& error) { fail(error); };
  sink_ = TRY(FdSink::create(loop_, fd.get(), name_, {}, std::move(callbacks)));
  fd_ = std::move(fd);
  return {};
}

// False: a FIFO without a reader.
Result<bool> MessageFile::open_path() {
  const int behind = keeps_ ? O_APPEND : O_TRUNC;
  UniqueFd fd(::open(name_.c_str(), O_WRONLY | O_CREAT | behind | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  if (!fd && errno == ENXIO) return false;
  if (!fd) return system_error(errno, name_);
  if (keeps_) ::lseek(fd.get(), 0, SEEK_END);  // for has_others_text()
  CHECK_OK(attach(std::move(fd)));
  return true;
}

void MessageFile::look_for_reader() {
  auto opened = open_path();
  if (!opened) return fail(opened.error());
  if (!*opened) return;
  timer_->stop();
  write(std::exchange(kept_, {}));
  if (idle() && !failed_ && callbacks_.on_idle) callbacks_.on_idle();
}

void MessageFile::write(std::string_view bytes) {
  if (failed_) return;
  if (!sink_) {
    kept_ += bytes;
    return;
  }
  std::array<std::string_view, 1> pieces{bytes};
  if (Result<void> written = sink_->write(pieces); !written) fail(written.error());
}

bool MessageFile::has_others_text() const {
  struct stat info {};
  const off_t place = fd_ ? ::lseek(fd_.get(), 0, SEEK_CUR) : -1;
  return place >= 0 && ::fstat(fd_.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > place;
}

void MessageFile::fail(const Error& error) {
  if (std::exchange(failed_, true)) return;
  if (timer_) timer_->stop();
  kept_.clear();
  callbacks_.on_error(error);
}

// ---- spill file -------------------------------------------------------------------------

namespace {

Error failed(int code, const std::string& directory) {
  return system_error(code, fmt::format("cannot keep output in {}", directory));
}

}  // namespace

Result<SpillFile> SpillFile::create(const std::string& directory) {
  UniqueFd fd = open_nameless(directory);
  if (!fd) return failed(errno, directory);
  return SpillFile(std::move(fd), directory);
}

Result<void> SpillFile::add(std::string_view bytes) {
  if (int code = write_all_at(fd_.get(), bytes, end_); code != 0) return failed(code, directory_);
  end_ += bytes.size();
  return {};
}

Result<void> SpillFile::take(std::string& out, std::size_t most) {
  std::size_t before = out.size();
  CHECK_OK(read(out, 0, most));
  return forget(out.size() - before);
}

Result<void> SpillFile::read(std::string& out, std::uint64_t skip, std::size_t most) const {
  auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(most, size() - std::min(skip, size())));
  std::size_t before = out.size();
  out.resize(before + wanted);
  for (std::size_t done = 0; done < wanted;) {
    auto at = static_cast<off_t>(begin_ + skip + done);
    ssize_t got = ::pread(fd_.get(), out.data() + before + done, wanted - done, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      out.resize(before);
      return failed(got < 0 ? errno : EIO, directory_);
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Result<void> SpillFile::forget(std::uint64_t bytes) {
  begin_ += bytes;
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (::ftruncate(fd_.get(), 0) < 0) return failed(errno, directory_);
  } else if (bytes > 0) {
    // If the file system cannot do this only space is lost.
    static_cast<void>(
        ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(begin_)));
  }
  return {};
}

// ---- own description --------------------------------------------------------------------

UniqueFd reopen(int fd, int flags) {
  return UniqueFd(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), flags | O_NOCTTY | O_CLOEXEC));
}

Result<OwnDescription> OwnDescription::of(int fd, int access, const std::string& name) {
  struct stat info {};
  if (::fstat(fd, &info) < 0) return system_error(errno, name);
  if (!S_ISSOCK(info.st_mode)) {
    if (UniqueFd own = reopen(fd, access | O_NONBLOCK); own) return OwnDescription(std::move(own), std::nullopt);
  }
  int flags = ::fcntl(fd, F_GETFL);
  UniqueFd shared(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (flags < 0 || !shared || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return system_error(errno, name);
  bool changed = (flags & O_NONBLOCK) == 0;
  return OwnDescription(std::move(shared), changed ? std::optional(flags) : std::nullopt);
}

OwnDescription::~OwnDescription() {
  if (fd_ && shared_flags_) ::fcntl(fd_.get(), F_SETFL, *shared_flags_);
}

Result<void> Destination::put(const Batch& whole) {
  Batch batch = whole;
  if (limit_) CHECK_OK(cut(batch));
  if (batch.empty()) return {};
  if (!sink_->takes()) {
    count_dropped(batch);
    return {};
  }
  CHECK_OK(note_dropped(batch.time));
  return sink_->write(format_->put(batch));
}

Result<void> Destination::end(const Source& source, double time) {
  CHECK_OK(note_dropped(time));
  return sink_->write(format_->end(source, time));
}

Result<void> Destination::notice(std::string_view message, double time) {
  return sink_->write(format_->notice(message, time));
}

Result<void> Destination::cut(Batch& batch) {
  auto index = static_cast<std::size_t>(batch.source->stream);
  std::uint64_t room = *limit_ - taken_.at(index);
  std::uint64_t size = batch.size();
  if (size <= room) {
    taken_.at(index) += size;
    return {};
  }
  bool first = std::exchange(lost_.at(index).over_limit, lost_.at(index).over_limit + size - room) == 0;
  taken_.at(index) = *limit_;
  Batch kept = batch;
  kept.head = batch.head.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(room, batch.head.size())));
  kept.body = batch.body.substr(0, static_cast<std::size_t>(room - kept.head.size()));
  kept.open = false;
  batch = Batch();
  if (!first) return {};
  if (!kept.empty() && !sink_->takes()) {
    count_dropped(kept);
    kept.head = kept.body = {};
  }
  CHECK_OK(note_dropped(kept.time));
  if (!kept.empty()) CHECK_OK(sink_->write(format_->put(kept)));
  return notice(fmt::format("[{} is cut here: output.limit is {} bytes]", name_of(kept.source->stream), *limit_),
                kept.time);
}

Result<void> Destination::note_dropped(double time) {
  if (unnoted_.dropped == 0) return {};
  Lost lost = std::exchange(unnoted_, {});
  return notice(
      fmt::format("[{} lines, {} bytes dropped here: the reader is too slow]", lost.dropped_lines, lost.dropped),
      time);
}

void Destination::count_dropped(const Batch& batch) {
  auto newlines = std::count(batch.head.begin(), batch.head.end(), '\n') +
                  std::count(batch.body.begin(), batch.body.end(), '\n') + (batch.last() == '\n' ? 0 : 1);
  for (Lost* each : {&unnoted_, &lost_.at(static_cast<std::size_t>(batch.source->stream))}) {
    each->dropped += batch.size();
    each->dropped_lines += static_cast<std::uint64_t>(newlines);
  }
}

}  // namespace nacre::io
