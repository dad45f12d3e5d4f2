// SPDX-License-Identifier: Apache-2.0
#include "io/message_file.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <utility>

namespace nacre::io {

Result<std::unique_ptr<MessageFile>> MessageFile::open(event::Loop& loop, std::string path, Callbacks callbacks) {
  std::unique_ptr<MessageFile> out(new MessageFile(loop, std::move(path), std::move(callbacks)));
  MessageFile* self = out.get();
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
  UniqueFd fd(::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  if (!fd && errno == ENXIO) return false;
  if (!fd) return system_error(errno, name_);
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

void MessageFile::fail(const Error& error) {
  if (std::exchange(failed_, true)) return;
  if (timer_) timer_->stop();
  kept_.clear();
  callbacks_.on_error(error);
}

}  // namespace nacre::io
