// SPDX-License-Identifier: Apache-2.0
#include "join/progress.hpp"

#include <algorithm>

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

}  // namespace

Result<std::unique_ptr<JoinProgress>> JoinProgress::show(event::Loop& loop, const std::string& front,
                                                         Missing missing) {
  std::unique_ptr<JoinProgress> out(new JoinProgress(std::move(missing)));
  out->timer_ = TRY(event::Timer::create(loop, [self = out.get(), front] {
    std::string line = fmt::format("{}: {} s: waiting for {}", front, ++self->seconds_, text_of(self->missing_()));
    print_err(kClear + escape_controls(line));
  }));
  out->timer_->start(kEach, kEach);
  out->timer_->unref();
  return out;
}

JoinProgress::~JoinProgress() {
  if (seconds_ > 0) print_err(kClear);
}

}  // namespace nacre::join
