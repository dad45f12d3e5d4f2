// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/heap_buffer.hpp"
#include "event/clock.hpp"
#include "event/ready.hpp"
#include "launch/record.hpp"

namespace nacre::launch {
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

std::string launch_lines(const transport::Secret& secret, const LaunchRecord& record) {
  std::string hex = secret.hex();
  std::string line = record.line();
  std::string out;
  out.reserve(hex.size() + 1 + line.size());  // room for all: growing would leave a copy of the secret behind
  out += hex;
  out += '\n';
  out += line;
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
