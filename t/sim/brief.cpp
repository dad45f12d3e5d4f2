// SPDX-License-Identifier: Apache-2.0
#include "brief.hpp"

#include "overlay/cbor.hpp"
#include "overlay/wire.hpp"

namespace nacre::sim {
namespace {

using namespace overlay;  // NOLINT

std::string in_words(std::string_view pairs, std::uint64_t count);

// "" for what says nothing: a number 0, an empty text or list, a flag that is not set.
std::string word_of(const CborItem& item) {
  switch (item.kind) {
    case CborKind::number:
    case CborKind::flag: return item.count == 0 ? "" : std::to_string(item.count);
    case CborKind::negative: return fmt::format("-{}", item.count + 1);
    case CborKind::text: return std::string(item.body);
    case CborKind::bytes: return item.body.empty() ? "" : fmt::format("{} bytes", item.body.size());
    case CborKind::map: {
      const std::string words = in_words(item.body, item.count);
      return words.empty() ? "" : '{' + words + '}';
    }
    case CborKind::array: break;
  }
  std::string out;
  for (std::string_view rest = item.body; !rest.empty();)
    out += (out.empty() ? "" : ", ") + word_of(take_cbor(rest));
  return out;
}

// What it is comes first.
std::string in_words(std::string_view pairs, std::uint64_t count) {
  std::string type, kind, out;
  for (; count > 0; --count) {
    const std::string key(take_cbor(pairs).body);
    const std::string word = word_of(take_cbor(pairs));
    if (key == "type") {
      type = word;
    } else if (key == "kind") {
      kind = ' ' + word;
    } else if (!word.empty() && key != "job" && key != "term") {
      out += fmt::format(" {}={}", key, word);
    }
  }
  out = type + kind + out;
  return out.starts_with(' ') ? out.substr(1) : out;
}

}  // namespace

std::string brief(const Message& message) {
  auto bytes = encode(message);
  if (!bytes) return bytes.error().message;
  std::string_view rest = *bytes;
  const CborItem all = take_cbor(rest);
  return fmt::format("[{}] {}", message.term, in_words(all.body, all.count));
}

std::string brief(const Entry& entry) { return brief(Message{0, 0, entry}).substr(sizeof "[0]"); }

}  // namespace nacre::sim
