// SPDX-License-Identifier: Apache-2.0
#include "event/clock.hpp"

#include <poll.h>
#include <unistd.h>
#include <uv.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::event {

Seconds clock_now() { return std::chrono::nanoseconds(uv_hrtime()); }

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

const std::string& clock_of_host() {
  static const std::string clock = [] {
    constexpr std::size_t kMostText = 64;
    auto boot = read_file("/proc/sys/kernel/random/boot_id", kMostText);
    if (!boot) return std::string();
    std::array<char, PATH_MAX> space{};
    ssize_t size = ::readlink("/proc/self/ns/time", space.data(), space.size());  // none: the kernel has no such
    return fmt::format("{} {}", trim(*boot),
                       std::string_view(space.data(), size > 0 ? static_cast<std::size_t>(size) : 0));
  }();
  return clock;
}

Result<bool> ready_by(int fd, short events, Seconds until) {
  pollfd state{fd, events, 0};
  for (;;) {
    double left = std::max((until - clock_now()).count(), 0.0);
    int ready = ::poll(&state, 1, static_cast<int>(std::ceil(left * 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return system_error(errno, "poll");
    if (ready == 0 && left <= 0) return false;
  }
}

}  // namespace nacre::event
