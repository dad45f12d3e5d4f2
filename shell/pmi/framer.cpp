// SPDX-License-Identifier: Apache-2.0
#include "pmi/framer.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "pmi/message.hpp"

namespace nacre::pmi {
namespace {

constexpr std::string_view kSpawn = "mcmd=";
constexpr std::string_view kEnd = "endcmd\n";

Error too_long(std::size_t limit, const char* missing) {
  return Error{EMSGSIZE, fmt::format("{} bytes without {}", limit, missing)};
}

}  // namespace

void Framer::add(std::string_view bytes) {
  if (at_ == bytes_.size()) {
    bytes_.clear();
    at_ = scanned_ = line_ = 0;
  } else if (at_ > kMaxMessage) {
    bytes_.erase(0, at_);
    scanned_ = std::max(scanned_, at_) - at_;
    line_ = std::max(line_, at_) - at_;
    at_ = 0;
  }
  bytes_ += bytes;
}

Result<std::optional<Frame>> Framer::next() {
  if (counted_) return next_body();
  return rest().starts_with(kSpawn) ? next_spawn() : next_line();
}

Result<std::optional<Frame>> Framer::next_line() {
  auto end = bytes_.find('\n', std::max(at_, scanned_));
  std::size_t size = (end == std::string::npos ? bytes_.size() : end) - at_;
  if (size > kMaxMessage) return too_long(kMaxMessage, "a newline");
  if (end == std::string::npos) {
    scanned_ = bytes_.size();
    return std::optional<Frame>();
  }
  Frame frame{Frame::Kind::line, std::string_view(bytes_).substr(at_, size)};
  at_ = scanned_ = end + 1;
  return std::optional(frame);
}

Result<std::optional<Frame>> Framer::next_spawn() {
  std::string_view all = bytes_;
  for (;;) {
    std::size_t line = std::max(at_, line_);
    auto end = all.find('\n', std::max(at_, scanned_));
    if (std::min(end, all.size()) - at_ > kMaxSpawn) return too_long(kMaxSpawn, "endcmd");
    scanned_ = std::min(end, all.size() - 1) + 1;
    if (end == std::string_view::npos) return std::optional<Frame>();
    line_ = scanned_;
    if (all.substr(line, scanned_ - line) != kEnd) continue;
    Frame frame{Frame::Kind::spawn, all.substr(at_, line - at_)};
    if (frame.text.ends_with('\n')) frame.text.remove_suffix(1);
    at_ = scanned_;
    return std::optional(frame);
  }
}

Result<std::optional<Frame>> Framer::next_body() {
  std::string_view all = rest();
  if (all.size() < kLengthSize) return std::optional<Frame>();
  auto length = parse_u64(trim(all.substr(0, kLengthSize)));
  if (!length) {
    return invalid(
        fmt::format("expected a length of {} digits, got {}", kLengthSize, in_quotes(all.substr(0, kLengthSize))));
  }
  if (*length > kMaxMessage) {
    return Error{EMSGSIZE, fmt::format("a message of {} bytes; at most {} are allowed", *length, kMaxMessage)};
  }
  if (all.size() - kLengthSize < *length) return std::optional<Frame>();
  at_ += kLengthSize + *length;
  return std::optional(Frame{Frame::Kind::body, all.substr(kLengthSize, *length)});
}

}  // namespace nacre::pmi
