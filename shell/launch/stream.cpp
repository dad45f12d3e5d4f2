// SPDX-License-Identifier: Apache-2.0
#include "launch/stream.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "event/clock.hpp"
#include "launch/record.hpp"
#include "transport/wire.hpp"

namespace nacre::launch {
namespace {

constexpr event::Seconds kLook{0.25};  // between looks whether the launcher has gone, while nothing is read
constexpr std::size_t kReadSize = std::size_t{64} << 10;

struct Frame {
  int signum = 0;                           // 0: the launcher wants to leave
  bool ends = false;                        // the job
  std::optional<value::Idset> agreed = {};  // without these the job may go on
};

Result<Frame> frame_of(std::string_view text) {
  Json json = TRY(parse_json(text));
  JsonAt root = JsonAt::root(json);
  if (auto leaves = TRY(root.find("detach"))) {
    CHECK_OK(root.only_keys({"detach"}));
    if (!TRY(leaves->boolean())) return leaves->expected("true");
    return Frame{};
  }
  if (auto shells = TRY(root.find("agreed"))) {
    CHECK_OK(root.only_keys({"agreed"}));
    return Frame{0, false, TRY(in(shells->path(), value::Idset::parse(TRY(shells->string()))))};
  }
  bool ends = TRY(root.find("end")).has_value();
  const char* key = ends ? "end" : "signal";
  CHECK_OK(root.only_keys({key}));
  return Frame{static_cast<int>(TRY(TRY(root.at(key)).integer(1, SIGRTMAX))), ends};
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
    Frame frame = TRY(frame_of(record.body));
    if (frame.agreed) {
      if (callbacks_.on_agreed) callbacks_.on_agreed(*frame.agreed);
      return {};
    }
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

// ---- input tail -------------------------------------------------------------------------

void InputTail::add(std::string_view bytes) {
  bytes_ += bytes;
  end_ += bytes.size();
  if (bytes_.size() > 2 * kMost) bytes_.erase(0, bytes_.size() - kMost);
}

std::string_view InputTail::piece(std::uint64_t at, std::size_t most) const {
  return std::string_view(bytes_).substr(at - first(), most);
}

// ---- feed -------------------------------------------------------------------------------

namespace {

// Bytes that are read before the leader's agent has taken them
constexpr std::size_t kAhead = std::size_t{256} << 10;

}  // namespace

Result<std::unique_ptr<LaunchFeed>> LaunchFeed::create(event::Loop& loop, task::BufferedStream& to, int input,
                                                       InputTail* tail) {
  std::unique_ptr<LaunchFeed> out(new LaunchFeed(to, tail));
  LaunchFeed* self = out.get();
  if (input == kOpenInput) return out;
  InputReader::Callbacks callbacks;
  callbacks.room = [self]() -> std::size_t { return self->unsent() < kAhead ? transport::kMaxChunk : 0; };
  callbacks.on_bytes = [self](std::string_view bytes) { self->send_input(bytes); };
  callbacks.on_end = [self] { self->end_input(); };
  auto reader = InputReader::create(loop, input, std::move(callbacks));
  if (!reader && reader.error().code != EBADF) return std::move(reader).error();
  if (reader) self->input_ = *std::move(reader);
  if (!reader) self->end_input();
  return out;
}

void LaunchFeed::signal(int signum) { send("signal", signum); }

void LaunchFeed::end(int signum) { send("end", signum); }

void LaunchFeed::detach() { send_frame(R"({"detach":true})"); }

void LaunchFeed::agree(const value::Idset& shells) {
  send_frame(fmt::format(R"({{"agreed":"{}"}})", shells.str()));
}

void LaunchFeed::send(std::string_view what, int signum) { send_frame(fmt::format("{{\"{}\":{}}}", what, signum)); }

void LaunchFeed::send_frame(const std::string& body) {
  std::string record;
  transport::append_frame_head(record, body.size());
  // If it fails the shell has gone, and the end of its agent reports that.
  static_cast<void>(to_.write(record + body));
}

std::size_t LaunchFeed::unsent() const {
  return task::BufferedStream::kBufferSize - std::min(to_.room(), task::BufferedStream::kBufferSize);
}

void LaunchFeed::on_room() {
  if (input_) input_->go_on();
}

void LaunchFeed::send_input(std::string_view bytes) {
  if (tail_ != nullptr) tail_->add(bytes);
  std::string record;
  transport::append_bulk_head(record, kInputStream, bytes.size());
  record += bytes;
  if (to_.write(record)) return;
  input_->stop();
  send_end();
}

void LaunchFeed::end_input() {
  if (tail_ != nullptr) tail_->end();
  send_end();
}

void LaunchFeed::send_end() {
  std::string record;
  transport::append_stream_record(record, transport::LinkRecordKind::end, kInputStream);
  static_cast<void>(to_.write(record));
}

// ---- input reader -----------------------------------------------------------------------

namespace {

constexpr event::Seconds kOthersTerminal{0.5};

}  // namespace

Result<std::unique_ptr<InputReader>> InputReader::create(event::Loop& loop, int input, Callbacks callbacks) {
  std::unique_ptr<InputReader> out(new InputReader(std::move(callbacks)));
  CHECK_OK(out->open(loop, input));
  out->await();
  return out;
}

Result<void> InputReader::open(event::Loop& loop, int input) {
  struct stat status {};
  if (input < 0 || ::fstat(input, &status) < 0) return system_error(EBADF, "standard input");
  timer_ = TRY(event::Timer::create(loop, [this] { pump(); }));
  timer_->unref();
  input_ = input;
  is_file_ = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
  if (is_file_) return {};
  // Other processes share the description, so its flags must not be set for them.
  own_ = UniqueFd(
      ::open(fmt::format("/proc/self/fd/{}", input).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (own_) input_ = own_.get();
  if (!own_) flags_ = ::fcntl(input, F_GETFL);
  is_file_ = S_ISFIFO(status.st_mode) && has_no_writer(input);
  auto poll = event::Poll::create(loop, input_, [this](int) { pump(); });
  if (poll) {
    poll->keeps_running(false);
    poll_ = std::move(*poll);
  } else {
    is_file_ = true;  // /dev/null, /dev/zero and the like
  }
  return {};
}

void InputReader::go_on() {
  if (input_ >= 0) await();
}

void InputReader::await() {
  if (is_file_) {
    timer_->start(event::Seconds::zero());
  } else {
    static_cast<void>(poll_->start(event::Poll::kReadable));
  }
}

void InputReader::pause() {
  if (poll_) poll_->stop();
}

void InputReader::pump() {
  if (input_ < 0) return;
  std::size_t room = callbacks_.room();
  if (room == 0) return pause();
  if (is_in_background(input_)) {
    pause();
    timer_->start(kOthersTerminal);
    return;
  }
  if (read_once(room) && input_ >= 0) await();
}

// False: nothing can be read now, or ever again.
bool InputReader::read_once(std::size_t room) {
  HeapBuffer<transport::kMaxChunk> buffer;
  ssize_t got = ::read(input_, buffer.data(), std::min(buffer.size(), room));
  if (got < 0 && errno == EAGAIN && poll_) is_file_ = false;  // a FIFO that has a writer again
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got < 0 && errno == EIO && ::isatty(input_) == 1) {
    pause();
    timer_->start(kOthersTerminal);
    return false;
  }
  if (got > 0) {
    callbacks_.on_bytes({buffer.data(), static_cast<std::size_t>(got)});
    return true;
  }
  stop();
  callbacks_.on_end();
  return false;
}

void InputReader::stop() {
  poll_.reset();
  if (timer_) timer_->stop();
  if (flags_ >= 0) ::fcntl(input_, F_SETFL, flags_);
  flags_ = -1;
  input_ = -1;
}

// ---- input ------------------------------------------------------------------------------

namespace {

Result<void> wait_for_input(int fd, double until, double timeout) {
  if (TRY(in("standard input", event::ready_by(fd, POLLIN, event::Seconds(until))))) return {};
  return Error{ETIMEDOUT,
               fmt::format("standard input: no secret and launch record came within {} s; shells that are started "
                           "by hand need --standalone, or --secret-file",
                           timeout)};
}

// A line, and the bytes that were read with it; none: the input ended before the line began.
Result<std::optional<std::pair<std::string, std::string>>> take_line(int fd, double until, double timeout) {
  std::string text;
  HeapBuffer<(64 << 10)> buffer;
  for (;;) {
    CHECK_OK(wait_for_input(fd, until, timeout));
    ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return system_error(errno, "standard input");
    if (got == 0 && text.empty()) return std::optional<std::pair<std::string, std::string>>();
    if (got == 0) return invalid("the launch record: standard input has ended within it");
    std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    std::size_t newline = bytes.find('\n');
    text += bytes.substr(0, newline);
    if (newline != std::string_view::npos)
      return std::optional(std::pair(std::move(text), std::string(bytes.substr(newline + 1))));
    if (text.size() > LaunchRecord::kMaxLine) {
      return Error{EFBIG, fmt::format("the launch record: more than {} bytes", LaunchRecord::kMaxLine)};
    }
  }
}

}  // namespace

Result<LaunchInput> read_launch_input(int fd, double timeout) {
  double until = event::clock_now().count() + timeout;
  CHECK_OK(wait_for_input(fd, until, timeout));
  LaunchInput out{TRY(in("standard input", transport::Secret::from_descriptor(fd))), {}, {}};
  if (auto line = TRY(take_line(fd, until, timeout))) {
    out.record = TRY(LaunchRecord::parse(line->first));
    out.behind = std::move(line->second);
  }
  return out;
}

std::string launch_lines(const transport::Secret& secret, std::string_view record) {
  std::string hex = secret.hex();
  std::string out;
  out.reserve(hex.size() + 1 + record.size());  // room for all: growing would leave a copy of the secret behind
  out += hex;
  out += '\n';
  out += record;
  transport::wipe(hex);
  return out;
}

Result<UniqueFd> take_input(int fd) {
  UniqueFd out(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!out) return system_error(errno, "standard input");
  UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return system_error(errno, "/dev/null");
  if (::dup2(nothing.get(), fd) < 0) return system_error(errno, "standard input");
  return out;
}

}  // namespace nacre::launch
