// SPDX-License-Identifier: Apache-2.0
#include "join/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/print.hpp"

namespace nacre::join {
namespace {

constexpr std::size_t kNamed = 3;
constexpr event::Seconds kEach{1.0};
constexpr const char* kClear = "\r\033[K";  // ECMA-48: moves the cursor to the line's start and erases the line

// "A, B and 3 more".
std::string text_of(const std::vector<std::string>& missing) {
  if (missing.empty()) return "others";
  std::size_t named = std::min(missing.size(), kNamed);
  std::string out = fmt::format("{}", fmt::join(missing.begin(), missing.begin() + named, ", "));
  if (missing.size() > named) out += fmt::format(" and {} more", missing.size() - named);
  return out;
}

// In one line of the terminal, as it could not be erased otherwise.
std::string fitting(std::string line) {
  constexpr std::string_view kCut = "...";
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col <= kCut.size() || line.size() < size.ws_col)
    return line;
  std::size_t end = size.ws_col - kCut.size() - 1;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;  // within a character
  return line.substr(0, end).append(kCut);
}

}  // namespace

Result<std::unique_ptr<JoinProgress>> JoinProgress::show(event::Loop& loop, const std::string& front,
                                                         Missing missing) {
  std::unique_ptr<JoinProgress> out(new JoinProgress(std::move(missing)));
  out->timer_ = TRY(event::Timer::create(loop, [self = out.get(), front] {
    std::string line = fmt::format("{}: {} s: waiting for {}", front, ++self->seconds_, text_of(self->missing_()));
    print_err(kClear + fitting(escape_controls(line)));
  }));
  out->timer_->start(kEach, kEach);
  out->timer_->unref();
  return out;
}

JoinProgress::~JoinProgress() {
  if (seconds_ > 0) print_err(kClear);
}

}  // namespace nacre::join
