// SPDX-License-Identifier: Apache-2.0
#include "overlay/fields.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::overlay {

FieldReader::FieldReader(const Json& object) : object_(object) {
  if (!object.is_object()) error_ = invalid(fmt::format("expected a map, got {}", object.type_name()));
}

void FieldReader::fail(const char* key, std::string_view why) {
  if (!error_) error_ = invalid(fmt::format("{}: {}", key, why));
}

const Json* FieldReader::take(const char* key) {
  if (error_) return nullptr;
  auto found = object_.find(key);
  if (found == object_.end()) {
    fail(key, "is not there");
    return nullptr;
  }
  ++taken_;
  return &*found;
}

std::uint64_t FieldReader::unsigned_number(const char* key, std::uint64_t most) {
  const Json* found = take(key);
  if (found == nullptr) return 0;
  if (!found->is_number_unsigned()) {
    fail(key, fmt::format("expected a number from 0, got {}", found->type_name()));
    return 0;
  }
  auto value = found->get<std::uint64_t>();
  if (value > most) fail(key, fmt::format("{} is over {}", value, most));
  return value;
}

void FieldReader::flag(const char* key, bool& value) {
  const Json* found = take(key);
  if (found == nullptr) return;
  if (!found->is_boolean()) return fail(key, fmt::format("expected true or false, got {}", found->type_name()));
  value = found->get<bool>();
}

void FieldReader::text(const char* key, std::string& value) {
  const Json* found = take(key);
  if (found == nullptr) return;
  if (!found->is_string()) return fail(key, fmt::format("expected text, got {}", found->type_name()));
  value = found->get_ref<const std::string&>();
  if (value.size() > kMaxText) return fail(key, fmt::format("{} bytes; at most {}", value.size(), kMaxText));
  bool is_plain = std::all_of(value.begin(), value.end(), [](char each) { return each >= ' ' && each <= '~'; });
  if (!is_plain) fail(key, fmt::format("{} is not all printable ASCII", in_quotes(value)));
}

void FieldReader::data(const char* key, Bytes& value) {
  const Json* found = take(key);
  if (found == nullptr) return;
  if (!found->is_binary()) return fail(key, fmt::format("expected bytes, got {}", found->type_name()));
  const auto& bytes = found->get_binary();
  if (bytes.size() > kMaxData) return fail(key, fmt::format("{} bytes; at most {}", bytes.size(), kMaxData));
  value.assign(bytes.begin(), bytes.end());
}

void FieldReader::ids(const char* key, Idset& value) {
  const Json* found = take(key);
  if (found == nullptr) return;
  if (!found->is_string()) return fail(key, fmt::format("expected an idset, got {}", found->type_name()));
  const auto& text = found->get_ref<const std::string&>();
  if (text.size() > kMaxIds)
    return fail(key, fmt::format("an idset of {} bytes; at most {}", text.size(), kMaxIds));
  auto parsed = Idset::parse(text);
  if (!parsed) return fail(key, parsed.error().message);
  if (parsed->str() != text)
    return fail(key, fmt::format("the idset {} is not in its shortest form", in_quotes(text)));
  value = *std::move(parsed);
}

std::size_t FieldReader::index_of(const char* key, const char* const* words, std::size_t count) {
  const Json* found = take(key);
  if (found == nullptr) return 0;
  if (!found->is_string()) {
    fail(key, fmt::format("expected a word, got {}", found->type_name()));
    return 0;
  }
  const auto& text = found->get_ref<const std::string&>();
  const auto* word = std::find_if(words, words + count, [&](const char* each) { return text == each; });
  if (word != words + count) return static_cast<std::size_t>(word - words);
  fail(key, fmt::format("{} is not known", in_quotes(text)));
  return 0;
}

bool FieldReader::is_list(const char* key, const Json& array) {
  if (!array.is_array()) {
    fail(key, fmt::format("expected an array, got {}", array.type_name()));
  } else if (array.size() > kMaxList) {
    fail(key, fmt::format("{} elements; at most {}", array.size(), kMaxList));
  }
  return !error_;
}

bool FieldReader::adopt(const char* key, FieldReader& inner) {
  auto done = inner.done();
  if (!done) fail(key, done.error().message);
  return done.has_value();
}

Result<void> FieldReader::done() {
  if (error_) return *error_;
  if (taken_ == object_.size()) return {};
  return invalid(fmt::format("{} fields that are not known", object_.size() - taken_));
}

}  // namespace nacre::overlay
