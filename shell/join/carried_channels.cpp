// SPDX-License-Identifier: Apache-2.0
#include "join/carried_channels.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include "base/bytes.hpp"

namespace nacre::join {
namespace {

constexpr std::size_t kPieceSize = std::size_t{64} << 10;  // bytes of a message

}  // namespace

Result<std::unique_ptr<CarriedChannels>> CarriedChannels::create(event::Loop& loop,
                                                                 const launch::Carriage& carriage, int to) {
  std::unique_ptr<CarriedChannels> out(new CarriedChannels(loop, carriage.token));
  io::FdSink::Callbacks callbacks;
  callbacks.on_room = [self = out.get()] { self->write(); };
  out->sink_ = TRY(io::FdSink::create(loop, to, "standard error", {}, std::move(callbacks)));
  for (const std::string& each : carriage.channels) CHECK_OK(out->add(each));
  return out;
}

// Executed programs inherit the writing end, as they do any descriptor with which the shell was started.
Result<void> CarriedChannels::add(const std::string& name) {
  Pipe pipe = TRY(make_pipe(O_CLOEXEC | O_NONBLOCK));
  ::fcntl(pipe.write.get(), F_SETFD, 0);
  Channel& channel = channels_.emplace_back();
  channel.name = name;
  channel.pipe = std::move(pipe.read);
  channel.poll = TRY(event::Poll::create(loop_, channel.pipe.get(), [this, &channel](int) { read(channel); }));
  channel.poll->keeps_running(false);
  CHECK_OK(channel.poll->start(event::Poll::kReadable));
  channel.writer = pipe.write.release();
  return {};
}

std::vector<std::string> CarriedChannels::options() const {
  std::vector<std::string> out;
  for (const Channel& each : channels_) out.push_back(fmt::format("{}={}", each.name, each.writer));
  return out;
}

// Reads more only when the lines of what was read before have come out.
void CarriedChannels::read(Channel& channel) {
  HeapBuffer<kPieceSize> buffer;
  ssize_t got = ::read(channel.pipe.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    channel.ended = true;
    return channel.poll->stop();
  }
  send(channel.name, {buffer.data(), static_cast<std::size_t>(got)});
}

void CarriedChannels::send(std::string_view channel, std::string_view message) {
  for (std::string& each : writer_.lines(channel, message)) lines_.push_back(std::move(each));
  write();
}

// A line that is not taken at once is kept as a whole, and the next one waits.
void CarriedChannels::write() {
  while (!lines_.empty() && sink_->flushed()) {
    std::array<std::string_view, 1> pieces{lines_.front()};
    if (!sink_->write(pieces)) lines_.clear();  // the launcher has gone
    if (!lines_.empty()) lines_.pop_front();
  }
  for (Channel& each : channels_) {
    if (!lines_.empty())
      each.poll->stop();
    else if (!each.ended)
      static_cast<void>(each.poll->start(event::Poll::kReadable));
  }
}

bool CarriedChannels::is_empty() const {
  return lines_.empty() && sink_->flushed() &&
         std::all_of(channels_.begin(), channels_.end(), [](const Channel& each) {
           int left = 0;
           return each.ended || ::ioctl(each.pipe.get(), FIONREAD, &left) < 0 || left == 0;
         });
}

void CarriedChannels::finish() {
  bool late = false;
  auto timer = event::Timer::create(loop_, [&late] { late = true; });
  if (!timer) return;
  timer->start(kFinish);
  loop_.run_until([&] { return late || is_empty(); });
}

}  // namespace nacre::join
