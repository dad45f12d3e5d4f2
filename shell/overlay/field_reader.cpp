// SPDX-License-Identifier: Apache-2.0
#include "overlay/field_reader.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "overlay/wire.hpp"

namespace nacre::overlay {

FieldReader::FieldReader(const CborItem& map) {
  if (map.kind != CborKind::map) {
    error_ = invalid(fmt::format("expected a map, got {}", map.name()));
    return;
  }
  constexpr std::uint64_t kUsual = 16;
  pairs_.reserve(std::min(map.count, kUsual));
  for (std::string_view rest = map.body; !rest.empty();) {
    std::string_view key = take_cbor(rest).body;
    pairs_.emplace_back(key, take_cbor(rest));
  }
}

void FieldReader::fail(std::string_view key, std::string_view why) {
  if (!error_) error_ = invalid(fmt::format("{}: {}", key, why));
}

const CborItem* FieldReader::find(std::string_view key) const {
  auto found = std::find_if(pairs_.begin(), pairs_.end(), [&](const auto& each) { return each.first == key; });
  return found == pairs_.end() ? nullptr : &found->second;
}

const CborItem* FieldReader::take(std::string_view key) {
  if (error_) return nullptr;
  const CborItem* found = find(key);
  if (found == nullptr) {
    fail(key, "is not there");
  } else {
    ++taken_;
  }
  return found;
}

std::optional<std::string_view> FieldReader::text_of(std::string_view key) const {
  const CborItem* found = find(key);
  if (found == nullptr || found->kind != CborKind::text) return std::nullopt;
  return found->body;
}

std::uint64_t FieldReader::unsigned_number(std::string_view key, std::uint64_t most) {
  const CborItem* found = take(key);
  if (found == nullptr) return 0;
  if (found->kind != CborKind::number) {
    fail(key, fmt::format("expected a number from 0, got {}", found->name()));
    return 0;
  }
  if (found->count > most) fail(key, fmt::format("{} is over {}", found->count, most));
  return found->count;
}

void FieldReader::flag(std::string_view key, bool& value) {
  const CborItem* found = take(key);
  if (found == nullptr) return;
  if (found->kind != CborKind::flag) return fail(key, fmt::format("expected true or false, got {}", found->name()));
  value = found->count != 0;
}

void FieldReader::text(std::string_view key, std::string& value) {
  const CborItem* found = take(key);
  if (found == nullptr) return;
  if (found->kind != CborKind::text) return fail(key, fmt::format("expected text, got {}", found->name()));
  value = found->body;
  if (value.size() > kMaxText) return fail(key, fmt::format("{} bytes; at most {}", value.size(), kMaxText));
  bool is_plain = std::all_of(value.begin(), value.end(), [](char each) { return each >= ' ' && each <= '~'; });
  if (!is_plain) fail(key, fmt::format("{} is not all printable ASCII", in_quotes(value)));
}

void FieldReader::data(std::string_view key, Bytes& value) {
  const CborItem* found = take(key);
  if (found == nullptr) return;
  if (found->kind != CborKind::bytes) return fail(key, fmt::format("expected bytes, got {}", found->name()));
  if (found->count > kMaxData) return fail(key, fmt::format("{} bytes; at most {}", found->count, kMaxData));
  value = found->body;
}

void FieldReader::ids(std::string_view key, Idset& value) {
  const CborItem* found = take(key);
  if (found == nullptr) return;
  if (found->kind != CborKind::text) return fail(key, fmt::format("expected an idset, got {}", found->name()));
  std::string_view text = found->body;
  if (text.size() > kMaxIds)
    return fail(key, fmt::format("an idset of {} bytes; at most {}", text.size(), kMaxIds));
  auto parsed = Idset::parse(text);
  if (!parsed) return fail(key, parsed.error().message);
  if (parsed->str() != text)
    return fail(key, fmt::format("the idset {} is not in its shortest form", in_quotes(text)));
  value = *std::move(parsed);
}

std::size_t FieldReader::index_of(std::string_view key, const std::string_view* words, std::size_t count) {
  const CborItem* found = take(key);
  if (found == nullptr) return 0;
  if (found->kind != CborKind::text) {
    fail(key, fmt::format("expected a word, got {}", found->name()));
    return 0;
  }
  std::string_view text = found->body;
  const auto* word = std::find_if(words, words + count, [&](std::string_view each) { return text == each; });
  if (word != words + count) return static_cast<std::size_t>(word - words);
  fail(key, fmt::format("{} is not known", in_quotes(text)));
  return 0;
}

bool FieldReader::is_list(std::string_view key, const CborItem& array) {
  if (array.kind != CborKind::array) {
    fail(key, fmt::format("expected an array, got {}", array.name()));
  } else if (array.count > kMaxList) {
    fail(key, fmt::format("{} elements; at most {}", array.count, kMaxList));
  }
  return !error_;
}

bool FieldReader::adopt(std::string_view key, FieldReader& inner) {
  auto done = inner.done();
  if (!done) fail(key, done.error().message);
  return done.has_value();
}

Result<void> FieldReader::done() {
  if (error_) return *error_;
  if (taken_ == pairs_.size()) return {};
  return invalid(fmt::format("{} fields that are not known", pairs_.size() - taken_));
}

}  // namespace nacre::overlay
