// SPDX-License-Identifier: Apache-2.0
#include "overlay/collective.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/json.hpp"
#include "overlay/wire.hpp"

namespace nacre::overlay {
namespace {

Json binary(const Bytes& bytes) { return Json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end())); }

Result<Bytes> bytes_of(const Json& json) {
  if (!json.is_binary()) return invalid(fmt::format("value: expected bytes, got {}", json.type_name()));
  const auto& bytes = json.get_binary();
  return Bytes(bytes.begin(), bytes.end());
}

Result<Value> decode_gathered(const Json& json) {
  Gathered out;
  const Bytes* last = nullptr;
  for (const Json& pair : json) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) {
      return invalid("value: expected pairs of an idset and bytes");
    }
    Bytes bytes = TRY(bytes_of(pair[1]));
    if (last != nullptr && bytes <= *last) return invalid("value: the bytes do not ascend");
    const auto& text = pair[0].get_ref<const std::string&>();
    Idset ids = TRY(in("value", Idset::parse(text)));
    if (ids.str() != text) return invalid("value: an idset that is not in its shortest form");
    last = &out.emplace(std::move(bytes), std::move(ids)).first->first;
  }
  return Value(std::move(out));
}

Result<Value> decode_unique(const Json& json) {
  Unique out;
  for (const Json& each : json) {
    Bytes bytes = TRY(bytes_of(each));
    if (!out.empty() && bytes <= *out.rbegin()) return invalid("value: the bytes do not ascend");
    out.insert(out.end(), std::move(bytes));
  }
  return Value(std::move(out));
}

std::int64_t held_sum(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (!__builtin_add_overflow(a, b, &out)) return out;
  return a > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

}  // namespace

Result<Value> value_of(Merge merge, Id origin, const Own& part) {
  bool is_number = merge == Merge::max || merge == Merge::sum;
  const auto* number = std::get_if<std::int64_t>(&part);
  if (is_number != (number != nullptr))
    return invalid(is_number ? "the part has to be a number" : "the part has to be bytes");
  if (number != nullptr) return Value(*number);
  const auto& bytes = std::get<Bytes>(part);
  if (bytes.size() > kMaxPart) {
    return Error{EMSGSIZE, fmt::format("a part of {} bytes; at most {}", bytes.size(), kMaxPart)};
  }
  if (merge == Merge::set) return Value(Unique{bytes});
  return Value(Gathered{{bytes, Idset::range(origin, origin)}});
}

void merge_into(Merge merge, Value& value, Value other) {
  if (auto* gathered = std::get_if<Gathered>(&value)) {
    for (auto& [bytes, ids] : std::get<Gathered>(other)) {
      Idset& here = (*gathered)[bytes];
      here = here | ids;
    }
  } else if (auto* unique = std::get_if<Unique>(&value)) {
    unique->merge(std::get<Unique>(other));
  } else {
    auto& number = std::get<std::int64_t>(value);
    auto more = std::get<std::int64_t>(other);
    number = merge == Merge::sum ? held_sum(number, more) : std::max(number, more);
  }
}

Bytes encode_value(const Value& value) {
  Json json;
  if (const auto* gathered = std::get_if<Gathered>(&value)) {
    json = Json::array();
    for (const auto& [bytes, ids] : *gathered) {
      Json pair = Json::array();
      pair.push_back(ids.str());
      pair.push_back(binary(bytes));
      json.push_back(std::move(pair));
    }
  } else if (const auto* unique = std::get_if<Unique>(&value)) {
    json = Json::array();
    for (const Bytes& bytes : *unique) json.push_back(binary(bytes));
  } else {
    json = std::get<std::int64_t>(value);
  }
  Bytes out;
  Json::to_cbor(json, out);
  return out;
}

Result<Value> decode_value(Merge merge, std::string_view bytes) {
  CHECK_OK(in("value", check_cbor(bytes)));
  Json json = Json::from_cbor(bytes, true, false);
  if (json.is_discarded()) return invalid("value: it cannot be read");
  if (merge == Merge::max || merge == Merge::sum) {
    bool fits = json.is_number_integer() && !(json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX);
    if (!fits) return invalid("value: expected a number of 64 bits with a sign");
    return Value(json.get<std::int64_t>());
  }
  if (!json.is_array()) return invalid(fmt::format("value: expected an array, got {}", json.type_name()));
  return merge == Merge::gather ? decode_gathered(json) : decode_unique(json);
}

bool Pieces::add(std::uint64_t at, std::uint64_t total, std::string_view data) {
  if (at == 0) {
    bytes_.clear();
    whole_ = false;
  }
  if (whole_ || at != bytes_.size() || data.size() > total - at) return false;
  bytes_ += data;
  whole_ = bytes_.size() == total;
  return whole_;
}

}  // namespace nacre::overlay
