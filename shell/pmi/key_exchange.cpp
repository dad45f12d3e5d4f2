// SPDX-License-Identifier: Apache-2.0
#include "pmi/key_exchange.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

namespace nacre::pmi {
namespace {

std::string beginning_of(std::string_view text) {
  constexpr std::size_t kMost = 40;  // bytes
  return in_quotes(text.substr(0, kMost));
}

// A number or a range of them, as name() has it.
Result<void> add_ranks(std::string_view text, std::uint32_t size, std::vector<std::uint32_t>& out) {
  const auto dash = text.find('-');
  auto first = parse_u64(text.substr(0, dash));
  auto last = dash == std::string_view::npos ? first : parse_u64(text.substr(dash + 1));
  if (!first || !last || *first > *last)
    return invalid(fmt::format("group: expected ranks, got {}", beginning_of(text)));
  if (*last >= size) return invalid(fmt::format("group: there is no rank {}", *last));
  for (auto rank = *first; rank <= *last; ++rank) out.push_back(static_cast<std::uint32_t>(rank));
  return {};
}

std::string ranges_of(const std::vector<std::uint32_t>& ranks) {
  std::string out;
  for (std::size_t at = 0; at < ranks.size();) {
    std::size_t end = at + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    out += fmt::format("{}{}", out.empty() ? "" : ",", ranks[at]);
    if (end - at > 1) out += fmt::format("-{}", ranks[end - 1]);
    at = end;
  }
  return out;
}

}  // namespace

Result<BarrierGroup> BarrierGroup::parse(std::string_view text, std::uint32_t size) {
  BarrierGroup out;
  const auto colon = text.find(':');
  if (colon != std::string_view::npos) {
    auto tag = parse_i64(text.substr(colon + 1));
    if (!tag || *tag < INT32_MIN || *tag > INT32_MAX) {
      return invalid(fmt::format("group: expected a number as tag, got {}", beginning_of(text.substr(colon + 1))));
    }
    out.tag = static_cast<std::int32_t>(*tag);
  }
  out.members = text.substr(0, colon);
  if (out.is_world() || out.is_node()) return out;
  for (std::string_view each : split(text.substr(0, colon), ',')) CHECK_OK(add_ranks(each, size, out.ranks));
  if (out.ranks.empty()) return invalid("group: expected ranks");
  std::sort(out.ranks.begin(), out.ranks.end());
  out.ranks.erase(std::unique(out.ranks.begin(), out.ranks.end()), out.ranks.end());
  out.members = ranges_of(out.ranks);
  return out;
}

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
