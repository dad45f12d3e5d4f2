// SPDX-License-Identifier: Apache-2.0
#include "peer_message.hpp"

#include <cstddef>

namespace nacre::pmix {
namespace {

template <typename Number>
void append(std::string& out, Number number) {
  auto bits = static_cast<std::uint64_t>(number);
  for (std::size_t i = sizeof number; i-- > 0;) out += static_cast<char>(bits >> (8 * i) & 0xff);
}

// False if there are too few bytes.
template <typename Number>
bool take(std::string_view& bytes, Number& number) {
  if (bytes.size() < sizeof number) return false;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) bits = bits << 8 | static_cast<unsigned char>(bytes[i]);
  number = static_cast<Number>(bits);
  bytes.remove_prefix(sizeof number);
  return true;
}

bool take_text(std::string_view& bytes, std::string& text) {
  std::uint32_t length = 0;
  if (!take(bytes, length) || bytes.size() < length) return false;
  text = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return true;
}

}  // namespace

std::string encode(const PeerMessage& message) {
  std::string out;
  append(out, static_cast<std::uint8_t>(message.kind));
  append(out, message.start);
  append(out, message.shell);
  append(out, message.to);
  append(out, message.number);
  append(out, message.rank);
  append(out, static_cast<std::uint32_t>(message.status));
  for (const std::string& text : message.texts) {
    append(out, static_cast<std::uint32_t>(text.size()));
    out += text;
  }
  return out;
}

std::optional<PeerMessage> decode(std::string_view bytes) {
  PeerMessage message;
  std::uint8_t kind = 0;
  if (!take(bytes, kind) || kind >= PeerMessage::kKinds || !take(bytes, message.start) ||
      !take(bytes, message.shell) || !take(bytes, message.to) || !take(bytes, message.number) ||
      !take(bytes, message.rank) || !take(bytes, message.status)) {
    return std::nullopt;
  }
  message.kind = static_cast<PeerMessage::Kind>(kind);
  while (!bytes.empty()) {
    if (!take_text(bytes, message.texts.emplace_back())) return std::nullopt;
  }
  return message;
}

}  // namespace nacre::pmix
