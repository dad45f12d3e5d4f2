// SPDX-License-Identifier: Apache-2.0
#include "launch/carriage.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "transport/secret.hpp"

namespace nacre::launch {
namespace {

constexpr char kStart = '\x1e';
constexpr char kMore = '+';
constexpr char kLast = '.';
constexpr std::size_t kCheckDigits = 8;
constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::size_t kEscape = 3;  // bytes: %XX

std::string check_of(std::string_view number, std::string_view channel, char mark, std::string_view bytes) {
  std::uint32_t hash = 2166136261U;
  auto add = [&hash](std::string_view text) {
    for (char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 16777619U;
  };
  add(number);
  add(channel);
  add({&mark, 1});
  add(bytes);
  return fmt::format("{:08x}", hash);
}

bool is_plain(char byte) {
  auto value = static_cast<unsigned char>(byte);
  return value >= 0x20 && value != 0x7f && byte != '%';
}

// Takes from `bytes` as much as fits into `room`.
std::string escaped(std::string_view& bytes, std::size_t room) {
  std::string out;
  std::size_t taken = 0;
  for (; taken < bytes.size(); ++taken) {
    char each = bytes[taken];
    bool plain = is_plain(each);
    if (out.size() + (plain ? 1 : kEscape) > room) break;
    if (plain) {
      out += each;
    } else {
      auto value = static_cast<unsigned char>(each);
      out += '%';
      out += kHex[value >> 4];
      out += kHex[value & 0xF];
    }
  }
  bytes.remove_prefix(taken);
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 2 >= text.size()) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(kHex.find(text[i + 1]) << 4 | kHex.find(text[i + 2]));
    i += 2;
  }
  return out;
}

bool is_hex(std::string_view text) { return text.find_first_not_of(kHex) == text.npos; }

bool is_channel(std::string_view text) {
  return !text.empty() && text.size() <= Carriage::kMaxChannel &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == text.npos;
}

}  // namespace

Result<Carriage> Carriage::with_new_token() {
  auto secret = TRY(transport::Secret::generate());
  Carriage out;
  out.token = secret.hex().substr(0, kToken);
  return out;
}

Result<void> Carriage::check() const {
  if (token.size() != kToken || !is_hex(token))
    return invalid(fmt::format("token: expected {} hexadecimal digits", kToken));
  if (channels.size() > kMaxChannels) return invalid(fmt::format("channels: expected at most {}", kMaxChannels));
  for (const std::string& each : channels) {
    if (!is_channel(each))
      return invalid(fmt::format("channels: expected names of options, got {}", in_quotes(each)));
  }
  return {};
}

std::vector<std::string> CarriageWriter::lines(std::string_view channel, std::string_view message) {
  std::vector<std::string> out;
  do {
    std::string number = std::to_string(++number_);
    std::string head = fmt::format("{}{} {} {} ", kStart, token_, number, channel);
    constexpr std::size_t kBehind = 1 + kCheckDigits + 1 + 1;  // mark, check, blank and newline
    std::string bytes = escaped(message, kMaxLine - head.size() - kBehind);
    char mark = message.empty() ? kLast : kMore;
    out.push_back(fmt::format("{}{}{} {}\n", head, mark, check_of(number, channel, mark, bytes), bytes));
  } while (!message.empty());
  return out;
}

CarriageReader::CarriageReader(const std::string& token, Callbacks callbacks)
    : mark_(kStart + token + ' '), callbacks_(std::move(callbacks)) {}

void CarriageReader::take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (held_.empty()) {
      std::size_t start = std::min(bytes.find(kStart), bytes.size());
      if (start > 0) callbacks_.on_other(bytes.substr(0, start));
      bytes.remove_prefix(start);
      if (bytes.empty()) return;
    }
    add(bytes.front());
    bytes.remove_prefix(1);
  }
}

void CarriageReader::add(char byte) {
  held_ += byte;
  std::size_t last = held_.size() - 1;
  if (last < mark_.size() ? byte != mark_[last] : held_.size() > CarriageWriter::kMaxLine) return let_go();
  if (last < mark_.size() || byte != '\n') return;
  if (!take_line()) return let_go();
  held_.clear();
}

// The held bytes are no line. Another line may begin within them.
void CarriageReader::let_go() {
  bool was_line = held_.size() > mark_.size();
  std::string held = std::exchange(held_, {});
  if (was_line) {
    skips_ = true;
    callbacks_.on_loss();
  }
  callbacks_.on_other(std::string_view(held).substr(0, 1));
  take(std::string_view(held).substr(1));
}

void CarriageReader::end() {
  while (!held_.empty()) {
    std::string held = std::exchange(held_, {});
    callbacks_.on_other(std::string_view(held).substr(0, 1));
    take(std::string_view(held).substr(1));
  }
}

// False: the line is broken.
bool CarriageReader::take_line() {
  std::string_view line = std::string_view(held_).substr(mark_.size());
  line.remove_suffix(1);
  auto word = [&line] {
    std::size_t end = std::min(line.find(' '), line.size());
    std::string_view out = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return out;
  };
  std::string_view number = word();
  std::string_view channel = word();
  std::string_view check = word();
  auto value = parse_u64(number);
  if (!value || !is_channel(channel) || check.empty()) return false;
  char mark = check.front();
  if ((mark != kMore && mark != kLast) || check.substr(1) != check_of(number, channel, mark, line)) return false;
  take_piece(*value, channel, mark == kMore, unescaped(line));
  return true;
}

void CarriageReader::take_piece(std::uint64_t number, std::string_view channel, bool more, std::string bytes) {
  bool follows = number == number_ + 1;
  number_ = number;
  if (!follows) {
    if (!skips_) callbacks_.on_loss();
    // Only after the end of a message is it certain that a message begins here.
    skips_ = true;
    is_within_ = false;
  }
  if (!is_within_) message_.clear();
  is_within_ = more;
  channel_ = channel;
  message_ += bytes;
  if (message_.size() > kMaxMessage && !std::exchange(skips_, true)) callbacks_.on_loss();
  if (skips_) message_.clear();
  if (more) return;
  if (!std::exchange(skips_, false)) callbacks_.on_message(channel_, message_);
  message_.clear();
}

}  // namespace nacre::launch
