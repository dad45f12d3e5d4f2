// SPDX-License-Identifier: Apache-2.0
#include "base/last_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>

#include "base/current_call.hpp"

namespace nacre {
namespace {

constexpr std::int64_t kNoRank = -1;
std::atomic<std::int64_t> rank_of_lines = kNoRank;

}  // namespace

LastLine::LastLine() {
  *this << "nacre-shell";
  if (std::int64_t rank = rank_of_lines.load(); rank != kNoRank) *this << "[" << static_cast<int>(rank) << "]";
  *this << ": ";
}

LastLine& LastLine::operator<<(std::string_view text) {
  std::size_t fits = std::min(text.size(), kSize - 1 - size_);
  std::memcpy(text_ + size_, text.data(), fits);
  size_ += fits;
  return *this;
}

LastLine& LastLine::operator<<(int number) {
  char digits[16];
  auto [end, failed] = std::to_chars(digits, digits + sizeof digits, number);
  return *this << std::string_view(digits, static_cast<std::size_t>(end - digits));
}

void LastLine::write() {
  if (std::string_view host = CallPage::own().host(); !host.empty()) *this << " (on " << host << ")";
  text_[size_] = '\n';
  if (::write(STDERR_FILENO, text_, size_ + 1) < 0) return;  // there is no place left to report it
}

void set_rank_of_last_lines(std::uint32_t shell_rank) { rank_of_lines.store(shell_rank); }

}  // namespace nacre
