// SPDX-License-Identifier: Apache-2.0
#include "plugins/input/job_input.hpp"

#include <fcntl.h>

#include <array>

#include "base/heap_buffer.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kPiece = std::size_t{60} << 10;  // bytes of one record

}  // namespace

Result<std::unique_ptr<JobInput>> JobInput::create(event::Loop& loop, bulk::Port& port, Options options,
                                                   Callbacks callbacks) {
  std::unique_ptr<JobInput> out(new JobInput(loop, port, std::move(options), std::move(callbacks)));
  if (out->options_.wanted) CHECK_OK(out->open());
  out->serve();
  return out;
}

JobInput::~JobInput() {
  port_.serve(bulk::down::kInput, bulk::Port::Downward());
  let_go();
}

Result<void> JobInput::open() {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  pipe_ = std::move(pipe.read);
  to_pipe_ = std::move(pipe.write);
  io::FdSink::Options options{io::Overflow::spill, options_.spill_directory, options_.spill_limit};
  io::FdSink::Callbacks callbacks;
  callbacks.on_room = [this] { go_on(); };
  callbacks.on_error = [this](const Error&) {
    failed_ = true;
    go_on();
  };
  callbacks.on_spill = callbacks_.on_error;
  sink_ = TRY(io::FdSink::create(loop_, to_pipe_.get(), "stdin of tasks", options, std::move(callbacks)));
  end_timer_ = TRY(event::Timer::create(loop_, [this] {
    sink_.reset();
    to_pipe_.reset();
  }));
  return {};
}

void JobInput::serve() {
  bulk::Port::Downward owner;
  owner.on_record = [this](bulk::Numbered number, std::string_view bytes) { take(number, bytes); };
  owner.on_room = [this] { read_some(); };
  port_.serve(bulk::down::kInput, std::move(owner));
}

// ---- on the leader -------------------------------------------------------------------------

Result<void> JobInput::broadcast(UniqueFd source) {
  source_ = std::move(source);
  poll_ = TRY(event::Poll::create(loop_, source_.get(), [this](int) { read_some(); }));
  return poll_->start(event::Poll::kReadable);
}

void JobInput::read_some() {
  if (!poll_ || !send()) return;
  HeapBuffer<kPiece> buffer;
  ssize_t got = ::read(source_.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) {
    unsent_.assign(buffer.data(), static_cast<std::size_t>(got));
    send();
    return;
  }
  poll_.reset();
  source_.reset();
  Result<void> ended = port_.end_broadcast(bulk::down::kInput);
  if (!ended) callbacks_.on_error(ended.error());
}

// Returns whether nothing is left to send.
bool JobInput::send() {
  if (unsent_.empty()) return true;
  Result<bool> sent = port_.broadcast(bulk::down::kInput, unsent_);
  if (!sent) {  // cut off: no other shell will read it
    poll_.reset();
    return false;
  }
  if (*sent) unsent_.clear();
  Result<void> set = *sent ? poll_->start(event::Poll::kReadable) : Result<void>();
  if (!*sent) poll_->stop();
  if (!set) callbacks_.on_error(set.error());
  return *sent;
}

// ---- on every shell ------------------------------------------------------------------------

void JobInput::take(bulk::Numbered number, std::string_view bytes) {
  if (!sink_ || failed_) return port_.consumed(number);
  if (bytes.empty()) {
    ended_ = true;
    port_.consumed(number);
    return end_soon();
  }
  std::array pieces{bytes};
  if (!sink_->write(pieces)) failed_ = true;
  if (failed_ || !sink_->full()) return port_.consumed(number);
  if (!std::exchange(waited_, true)) callbacks_.on_wait();
  unconsumed_.push_back(number);
}

void JobInput::go_on() {
  if (failed_ || !sink_ || !sink_->full()) {
    for (bulk::Numbered number : std::exchange(unconsumed_, {})) port_.consumed(number);
  }
  end_soon();
}

void JobInput::let_go() {
  failed_ = true;
  go_on();
}

// Must not happen within a call of the sink.
void JobInput::end_soon() {
  if (sink_ && ended_ && (failed_ || sink_->flushed())) end_timer_->start(event::Seconds::zero());
}

}  // namespace nacre::plugins
