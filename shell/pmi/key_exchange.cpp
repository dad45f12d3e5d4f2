// SPDX-License-Identifier: Apache-2.0
#include "pmi/key_exchange.hpp"

#include "base/bytes.hpp"

namespace nacre::pmi {
namespace {

using Length = std::uint32_t;

void append_text(std::string& out, std::string_view text) {
  append_number(out, static_cast<Length>(text.size()));
  out += text;
}

// Takes one text off the front of `bytes`; false if there is no complete one.
bool take_text(std::string_view& bytes, std::string& text) {
  if (bytes.size() < sizeof(Length)) return false;
  auto length = take_number<Length>(bytes);
  if (bytes.size() < length) return false;
  text = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return true;
}

}  // namespace

std::string encode_entries(const Entries& entries) {
  std::string out;
  for (const auto& [key, value] : entries) {
    append_text(out, key);
    append_text(out, value);
  }
  return out;
}

std::string encode_refs(const EntryRefs& entries) {
  std::size_t size = 0;
  for (const auto* each : entries) size += 2 * sizeof(Length) + each->first.size() + each->second.size();
  std::string out;
  out.reserve(size);
  for (const auto* each : entries) {
    append_text(out, each->first);
    append_text(out, each->second);
  }
  return out;
}

Result<Entries> decode_entries(std::string_view bytes, std::uint64_t most) {
  if (bytes.size() > most) {
    return Error{EMSGSIZE, fmt::format("keys of {} bytes; at most {}", bytes.size(), most)};
  }
  Entries out;
  while (!bytes.empty()) {
    auto& [key, value] = out.emplace_back();
    if (!take_text(bytes, key) || !take_text(bytes, value)) return invalid("the keys of a node are cut short");
  }
  return out;
}

}  // namespace nacre::pmi
