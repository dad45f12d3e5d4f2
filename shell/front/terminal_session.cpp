// SPDX-License-Identifier: Apache-2.0
#include "front/terminal_session.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace nacre::front {
namespace {

constexpr std::array kLeave{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kOfTerminal{SIGWINCH, SIGTSTP, SIGCONT};
constexpr unsigned short kRows = 24, kColumns = 80;  // of a terminal that does not know its size
constexpr std::size_t kKeysInFrame = std::size_t{4} << 10;

Json size_here() {
  winsize size = io::terminal_size().value_or(winsize{});
  return {{"rows", size.ws_row > 0 ? size.ws_row : kRows}, {"columns", size.ws_col > 0 ? size.ws_col : kColumns}};
}

}  // namespace

TerminalSession::~TerminalSession() {
  if (signals_) ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

Result<TerminalSession::End> TerminalSession::run() {
  CHECK_OK(watch_signals());
  request_.arguments["pty"].update(size_here());
  id_ = client_.begin(request_.action, request_.arguments, kCredit);
  while (!end_) CHECK_OK(wait());
  terminal_.reset();
  return *std::exchange(end_, std::nullopt);
}

Result<void> TerminalSession::watch_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signum : kLeave) ::sigaddset(&set, signum);
  for (int signum : kOfTerminal) ::sigaddset(&set, signum);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return system_error(errno, "cannot wait for signals");
  ::sigprocmask(SIG_BLOCK, &set, &before_);
  return {};
}

// Keys are read even while the leader takes none, so that the user can leave then.
Result<void> TerminalSession::wait() {
  bool reads = terminal_ && keys_.size() < kTypedAhead;
  std::array<pollfd, 5> polled{{{client_.receives_from(), POLLIN, 0},
                                {client_.has_unsent() ? client_.sends_to() : -1, POLLOUT, 0},
                                {signals_.get(), POLLIN, 0},
                                {reads ? terminal_->input() : -1, POLLIN, 0},
                                {terminal_ && !output_.empty() ? terminal_->output() : -1, POLLOUT, 0}}};
  if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return system_error(errno, "cannot wait");
  if (polled[2].revents != 0) CHECK_OK(take_signals());
  if (polled[3].revents != 0) read_keys();
  send_keys();
  Result<void> exchanged = client_.exchange();
  CHECK_OK(take_frames());
  send_keys();  // a frame may have made room for those that wait
  write_output();
  if (end_) return {};
  if (answer_ && output_.empty()) {
    end(How::answered);
    end_->answer = *std::move(answer_);
  } else if (!exchanged && !answer_) {
    end(How::link_lost);
    end_->why = exchanged.error().message;
  }
  return {};
}

Result<void> TerminalSession::take_signals() {
  signalfd_siginfo got{};
  while (::read(signals_.get(), &got, sizeof got) == sizeof got) {
    auto signum = static_cast<int>(got.ssi_signo);
    if (std::find(kLeave.begin(), kLeave.end(), signum) != kLeave.end()) end(How::signalled, signum);
    if (signum == SIGTSTP) CHECK_OK(stop_and_continue());
    if (signum == SIGCONT && terminal_) CHECK_OK(terminal_->resume());
    if (signum == SIGWINCH || signum == SIGCONT) send_size();
  }
  return {};
}

// The signal comes from outside: Ctrl-Z is a key like any other.
Result<void> TerminalSession::stop_and_continue() {
  if (terminal_) terminal_->suspend();
  ::kill(::getpid(), SIGSTOP);
  return terminal_ ? terminal_->resume() : Result<void>();
}

Result<void> TerminalSession::take_frames() {
  while (auto frame = TRY(client_.take())) {
    if (auto* answer = std::get_if<control::Answer>(&*frame)) {
      CHECK_OK(take(*answer));
    } else if (auto* data = std::get_if<control::StreamData>(&*frame)) {
      if (data->id == id_ && data->stream == kStream) output_ += data->data;
    }
  }
  return {};
}

Result<void> TerminalSession::take(const control::Answer& answer) {
  if (answer.id == resizes_) {  // an error: the program on the terminal has ended
    resizes_.reset();
    if (std::exchange(is_resized_, false)) send_size();
  }
  if (answer.id != id_) return {};
  if (answer.error) {
    terminal_.reset();
    return *answer.error;
  }
  if (!answer.more) {
    answer_ = answer.value;
    return {};
  }
  if (!terminal_) terminal_ = TRY(io::Terminal::borrow(nullptr));
  return in("what the leader answers", request_.on_part(answer.value));
}

void TerminalSession::read_keys() {
  std::array<char, kKeysInFrame> buffer;
  ssize_t got = ::read(terminal_->input(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return end(How::hung_up);
  EscapeKeys::Typed typed = escape_.take({buffer.data(), static_cast<std::size_t>(got)});
  keys_ += typed.keys;
  if (typed.leaves) end(How::left);
}

void TerminalSession::send_keys() {
  while (!keys_.empty()) {
    std::string some = keys_.substr(0, std::min<std::uint64_t>(client_.may_send(id_), kKeysInFrame));
    if (some.empty() || !client_.put({id_, kStream, some, Json::object()})) return;
    keys_.erase(0, some.size());
  }
}

// Lets the leader send as much again as has come out.
void TerminalSession::write_output() {
  while (terminal_ && !output_.empty()) {
    ssize_t written = ::write(terminal_->output(), output_.data(), output_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0) return end(How::hung_up);
    output_.erase(0, static_cast<std::size_t>(written));
    client_.grant(id_, static_cast<std::uint64_t>(written));
  }
}

// One request at a time: while a window is dragged larger its size changes more often than a distant leader can
// answer.
void TerminalSession::send_size() {
  if (resizes_) {
    is_resized_ = true;
    return;
  }
  Json arguments = size_here();
  arguments["request"] = id_;
  resizes_ = client_.begin("size", arguments);
}

void TerminalSession::end(How how, int signum) {
  if (!end_) end_ = End{.how = how, .signum = signum};
}

// ---- escape keys ------------------------------------------------------------------------

EscapeKeys::Typed EscapeKeys::take(std::string_view bytes) {
  Typed out;
  for (char each : bytes) {
    bool is_escaped = std::exchange(has_tilde_, false);
    if (is_escaped && each == '.') {
      out.leaves = true;
      return out;
    }
    if (is_escaped) out.keys += '~';
    if (is_escaped && each == '~') {
      at_line_ = false;
      continue;
    }
    has_tilde_ = !is_escaped && at_line_ && each == '~';
    if (has_tilde_) continue;
    at_line_ = each == '\r' || each == '\n';
    out.keys += each;
  }
  return out;
}

}  // namespace nacre::front
