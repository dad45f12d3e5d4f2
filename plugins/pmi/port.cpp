// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/port.hpp"

#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMaxGuests = 1024;
constexpr std::size_t kMaxIntroduction = 4096;  // bytes
constexpr double kGuestTime = 30;               // seconds in which a guest has to introduce itself
constexpr event::Seconds kLookAtTimes{1};

Result<std::int32_t> random_id() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    return system_error(errno, "no random bytes for PMI_ID");
  }
  return static_cast<std::int32_t>(number & INT32_MAX);
}

// A new connection has room for this text.
void send_first(int fd, std::string_view text) {
  [[maybe_unused]] ssize_t sent = ::send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

Result<std::unique_ptr<PmiPort>> PmiPort::open(event::Loop& loop, bool pmi2, Refused refused) {
  std::unique_ptr<PmiPort> out(new PmiPort(loop, pmi2, std::move(refused)));
  CHECK_OK(in("pmi.port", out->listen()));
  return out;
}

Result<void> PmiPort::listen() {
  timer_ = TRY(event::Timer::create(loop_, [this] { check_times(); }));
  timer_->unref();
  port_ =
      TRY(LoopbackPort::open(loop_, 0,
                             {[this] { return kMaxGuests - guests_.size(); },
                              [this](UniqueFd connection) { take_in(std::move(connection)); },
                              [this](const std::string& why) {
                                refused_(fmt::format("PMI_PORT {}: {}: refused", address(), escape_controls(why)));
                              }}));
  return {};
}

Result<std::int32_t> PmiPort::expect(std::uint32_t rank, std::uint32_t size, Admit admit) {
  for (;;) {
    const std::int32_t id = TRY(random_id());
    if (expected_.try_emplace(id, Expected{rank, size, admit}).second) return id;
  }
}

void PmiPort::take_in(UniqueFd fd) {
  guests_.push_back({std::move(fd), loop_.now(), {}, {}, {}});
  const Place guest = std::prev(guests_.end());
  auto poll = event::Poll::create(loop_, guest->fd.get(), [this, guest](int) { read(guest); });
  if (!poll) {
    port_->refuse(poll.error().message);
    return void(guests_.erase(guest));
  }
  guest->poll = *std::move(poll);
  guest->poll->keeps_running(false);
  static_cast<void>(guest->poll->start(event::Poll::kReadable));
  timer_->start(kLookAtTimes, kLookAtTimes);
}

void PmiPort::read(Place guest) {
  std::array<char, kMaxIntroduction> buffer;
  const ssize_t size = ::recv(guest->fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return void(guests_.erase(guest));
  guest->framer.add({buffer.data(), static_cast<std::size_t>(size)});
  Result<bool> is_done = understand(*guest);
  if (is_done && !*is_done && guest->framer.rest().size() < kMaxIntroduction) return;
  if (!is_done) port_->refuse(is_done.error().message);
  if (is_done && !*is_done) port_->refuse("a process connects, and gives no PMI_ID");
  guests_.erase(guest);
}

// Returns whether the guest has introduced itself.
Result<bool> PmiPort::understand(Guest& guest) {
  auto frame = TRY(in("a process connects", guest.framer.next()));
  if (!frame) return false;
  const bool is_body = frame->kind == pmi::Frame::Kind::body;
  auto message = TRY(in("a process connects", is_body ? pmi::PmiMessage::parse_body(frame->text)
                                                      : pmi::PmiMessage::parse_line(frame->text)));
  if (is_body) {
    const std::string body(frame->text);
    const char* key = message.find("srcid") ? "srcid" : "pmirank";
    return admit(guest, TRY(in("a process connects", message.integer(key))),
                 fmt::format("{}\n{:<6}{}{}", guest.greeting, body.size(), body, guest.framer.rest()));
  }
  if (message.command() == "init") return greet(guest, message);
  return admit(guest, TRY(in("a process connects", message.integer("pmiid"))), std::string(guest.framer.rest()));
}

// The guest's first line is PMI-2's, which is answered before the guest says who it is.
Result<bool> PmiPort::greet(Guest& guest, const pmi::PmiMessage& message) {
  if (message.find("pmi_version") != "2" || !pmi2_) {
    send_first(guest.fd.get(), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
    return invalid("a process connects, and gives no PMI_ID in its first message");
  }
  guest.greeting = "cmd=init pmi_version=2 pmi_subversion=0";
  guest.framer.counted();
  send_first(guest.fd.get(), "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
  return understand(guest);
}

Result<bool> PmiPort::admit(Guest& guest, std::int64_t id, std::string said) {
  auto found = id >= 0 && id <= INT32_MAX ? expected_.extract(static_cast<std::int32_t>(id))
                                          : decltype(expected_)::node_type();
  if (!found) return invalid("a process connects whose PMI_ID is not that of one that may");
  guest.poll.reset();
  const bool is_greeted = !guest.greeting.empty();
  const Expected& expected = found.mapped();
  if (!is_greeted) {
    send_first(guest.fd.get(), fmt::format("cmd=initack rc=0\ncmd=set size={}\ncmd=set rank={}\ncmd=set debug=0\n",
                                           expected.size, expected.rank));
  }
  expected.admit(std::move(guest.fd), is_greeted, std::move(said));
  return true;
}

void PmiPort::look() {
  port_->look();
  for (auto guest = guests_.begin(); guest != guests_.end();) read(guest++);
}

void PmiPort::check_times() {
  const std::size_t before = guests_.size();
  guests_.remove_if([this](const Guest& each) { return loop_.now() - each.since > kGuestTime; });
  if (guests_.size() < before) port_->refuse("a process connects, and gives no PMI_ID");
  if (guests_.empty()) timer_->stop();
}

}  // namespace nacre::plugins
