// SPDX-License-Identifier: Apache-2.0
#include "launch/stream.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/heap_buffer.hpp"
#include "base/json.hpp"

namespace nacre::launch {
namespace {

constexpr event::Seconds kLook{0.25};  // between looks whether the launcher has gone, while nothing is read
constexpr std::size_t kReadSize = std::size_t{64} << 10;

struct SignalFrame {
  int signum;  // 0: the launcher wants to leave
  bool ends;   // the job
};

Result<SignalFrame> signal_in(std::string_view frame) {
  Json json = TRY(parse_json(frame));
  JsonAt root = JsonAt::root(json);
  if (auto leaves = TRY(root.find("detach"))) {
    CHECK_OK(root.only_keys({"detach"}));
    if (!TRY(leaves->boolean())) return leaves->expected("true");
    return SignalFrame{0, false};
  }
  bool ends = TRY(root.find("end")).has_value();
  const char* key = ends ? "end" : "signal";
  CHECK_OK(root.only_keys({key}));
  return SignalFrame{static_cast<int>(TRY(TRY(root.at(key)).integer(1, SIGRTMAX))), ends};
}

bool is_hung_up(int fd) {
  pollfd state{fd, 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace

Result<std::unique_ptr<LaunchStream>> LaunchStream::create(event::Loop& loop, UniqueFd fd, std::string behind,
                                                           Callbacks callbacks) {
  int number = fd.get();
  std::unique_ptr<LaunchStream> out(new LaunchStream(std::move(fd), std::move(callbacks)));
  LaunchStream* self = out.get();
  self->poll_ = TRY(in("standard input", event::Poll::create(loop, number, [self](int) { self->on_readable(); })));
  self->timer_ = TRY(event::Timer::create(loop, [self] { self->on_timer(); }));
  self->reader_.add(behind);
  self->timer_->start(event::Seconds::zero());  // what has come is reported from the loop
  return out;
}

Result<std::unique_ptr<LaunchStream>> LaunchStream::watch(event::Loop& loop, UniqueFd fd,
                                                          std::function<void()> on_gone) {
  Callbacks callbacks;
  callbacks.on_gone = [on_gone = std::move(on_gone)](const Error&) { on_gone(); };
  auto out = TRY(create(loop, std::move(fd), "", std::move(callbacks)));
  out->discards_ = true;
  return out;
}

void LaunchStream::keeps_running(bool keeps) {
  if (poll_) poll_->keeps_running(keeps);
  timer_->keeps_running(keeps);
}

void LaunchStream::want_input(bool wanted) {
  wanted_ = wanted;
  if (wanted && !gone_) timer_->start(event::Seconds::zero());
}

void LaunchStream::on_timer() {
  take("");
  give();
  if (!gone_) watch_again();
}

void LaunchStream::watch_again() {
  if (held() < kMaxHeld) {
    static_cast<void>(poll_->start(event::Poll::kReadable));
    return;
  }
  poll_->stop();
  if (has_hung_up()) return gone(Error{EPIPE, "the launcher has gone"});
  timer_->start(kLook);
}

void LaunchStream::on_readable() {
  HeapBuffer<kReadSize> buffer;
  ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got < 0) return gone(system_error(errno, "the launcher's stream"));
  if (got == 0) return gone(Error{EPIPE, "the launcher has gone"});
  if (discards_) return;
  take({buffer.data(), static_cast<std::size_t>(got)});
  give();
  if (!gone_) watch_again();
}

void LaunchStream::take(std::string_view bytes) {
  reader_.add(bytes);
  while (!gone_) {
    auto record = reader_.next();
    if (!record) return gone(in("the launcher's stream", Error(record.error())));
    if (!*record) return;
    Result<void> taken = take_record(**record);
    if (!taken) return gone(in("the launcher's stream", Error(taken.error())));
  }
}

Result<void> LaunchStream::take_record(const transport::LinkRecord& record) {
  if (record.kind == transport::LinkRecordKind::frame) {
    SignalFrame frame = TRY(signal_in(record.body));
    if (frame.signum == 0) {
      if (callbacks_.on_detach) callbacks_.on_detach();
      return {};
    }
    const auto& receive = frame.ends ? callbacks_.on_end : callbacks_.on_signal;
    if (receive) receive(frame.signum);
    return {};
  }
  bool is_input = record.kind == transport::LinkRecordKind::bulk || record.kind == transport::LinkRecordKind::end;
  if (!is_input || record.stream != kInputStream || input_ended_)
    return invalid("a record that has no place there");
  if (record.kind == transport::LinkRecordKind::end) {
    input_ended_ = true;
  } else if (wanted_ && held() == 0) {
    if (callbacks_.on_input) callbacks_.on_input(record.body);
  } else {
    held_ += record.body;
  }
  return {};
}

void LaunchStream::give() {
  while (wanted_ && !gone_ && held() > 0) {
    std::string_view piece = std::string_view(held_).substr(given_, kReadSize);
    given_ += piece.size();
    if (callbacks_.on_input) callbacks_.on_input(piece);
  }
  if (given_ > held_.size() / 2) held_.erase(0, std::exchange(given_, 0));
  if (gone_ || !input_ended_ || held() > 0 || !wanted_ || std::exchange(end_given_, true)) return;
  if (callbacks_.on_input_end) callbacks_.on_input_end();
}

LaunchStream::Held LaunchStream::take_held() {
  Held out{held_.substr(given_), input_ended_ && !end_given_};
  held_.clear();
  given_ = 0;
  end_given_ = end_given_ || out.ended;
  return out;
}

bool LaunchStream::has_hung_up() const { return gone_ || is_hung_up(fd_.get()); }

void LaunchStream::let_go() {
  if (std::exchange(gone_, true)) return;
  timer_->stop();
  poll_.reset();
  fd_.reset();
}

void LaunchStream::gone(const Error& why) {
  if (std::exchange(gone_, true)) return;
  poll_->stop();
  timer_->stop();
  if (callbacks_.on_gone) callbacks_.on_gone(why);
}

}  // namespace nacre::launch
