// SPDX-License-Identifier: Apache-2.0
#include "join_progress.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace nacre {
namespace {

constexpr std::size_t kNamed = 3;
constexpr event::Seconds kEach{1.0};
constexpr const char* kClear = "\r\033[K";  // ECMA-48: the cursor to the line's start, and the rest erased

}  // namespace

Result<JoinProgress> JoinProgress::show(event::Loop& loop, Missing missing) {
  auto state = std::make_unique<State>();
  state->missing = std::move(missing);
  state->timer = TRY(event::Timer::create(loop, [raw = state.get()] {
    fmt::print(stderr, "{}nacre launch: {} s: {}", kClear, ++raw->seconds, text(raw->missing()));
  }));
  state->timer->start(kEach, kEach);
  state->timer->unref();
  return JoinProgress(std::move(state));
}

JoinProgress::~JoinProgress() {
  if (state_ && state_->seconds > 0) fmt::print(stderr, "{}", kClear);
}

std::string JoinProgress::text(const std::vector<std::string>& missing) {
  if (missing.empty()) return "waiting for others";
  std::size_t named = std::min(missing.size(), kNamed);
  std::string out = fmt::format("waiting for {}", fmt::join(missing.begin(), missing.begin() + named, ", "));
  if (missing.size() > named) out += fmt::format(" and {} more", missing.size() - named);
  return out;
}

}  // namespace nacre
