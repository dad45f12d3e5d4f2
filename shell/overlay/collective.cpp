// SPDX-License-Identifier: Apache-2.0
#include "overlay/collective.hpp"

#include "overlay/cbor.hpp"

namespace nacre::overlay {
namespace {

Result<Bytes> bytes_of(const CborItem& item) {
  if (item.kind != CborKind::bytes) return invalid(fmt::format("value: expected bytes, got {}", item.name()));
  return Bytes(item.body);
}

Result<Value> decode_gathered(std::string_view pairs) {
  Gathered out;
  const Bytes* last = nullptr;
  while (!pairs.empty()) {
    CborItem pair = take_cbor(pairs);
    std::string_view rest = pair.body;
    bool is_pair = pair.kind == CborKind::array && pair.count == 2;
    CborItem whose = is_pair ? take_cbor(rest) : CborItem();
    if (whose.kind != CborKind::text) return invalid("value: expected pairs of an idset and bytes");
    Bytes bytes = TRY(bytes_of(take_cbor(rest)));
    if (last != nullptr && bytes <= *last) return invalid("value: the bytes do not ascend");
    Idset ids = TRY(in("value", Idset::parse(whose.body)));
    if (ids.str() != whose.body) return invalid("value: an idset that is not in its shortest form");
    last = &out.emplace_hint(out.end(), std::move(bytes), std::move(ids))->first;
  }
  return Value(std::move(out));
}

Result<Value> decode_unique(std::string_view elements) {
  Unique out;
  while (!elements.empty()) {
    Bytes bytes = TRY(bytes_of(take_cbor(elements)));
    if (!out.empty() && bytes <= *out.rbegin()) return invalid("value: the bytes do not ascend");
    out.insert(out.end(), std::move(bytes));
  }
  return Value(std::move(out));
}

Result<Value> decode_number(const CborItem& item) {
  constexpr std::uint64_t kMost = INT64_MAX;
  if (item.kind == CborKind::negative) return Value(-1 - static_cast<std::int64_t>(item.count));
  if (item.kind == CborKind::number && item.count <= kMost) return Value(static_cast<std::int64_t>(item.count));
  return invalid("value: expected a number of 64 bits with a sign");
}

// An estimate of the size of its encoding.
std::size_t size_of(const Gathered& gathered) {
  constexpr std::size_t kHeads = 32;
  std::size_t size = kHeads;
  for (const auto& [bytes, ids] : gathered) size += bytes.size() + kHeads;
  return size;
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
    auto& more = std::get<Gathered>(other);
    gathered->merge(more);  // keeps the keys that both have
    for (const auto& [bytes, ids] : more) {
      Idset& here = gathered->find(bytes)->second;
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

Value merged(Merge merge, std::optional<Value> own, std::vector<Below> below) {
  std::optional<Value> out = std::move(own);
  for (Below& each : below) {
    if (!each.value) continue;
    if (out) {
      merge_into(merge, *out, *std::move(each.value));
    } else {
      out = std::move(each.value);
    }
  }
  return *std::move(out);
}

Bytes encode_value(const Value& value) {
  Bytes out;
  if (const auto* gathered = std::get_if<Gathered>(&value)) {
    out.reserve(size_of(*gathered));
    append_cbor(out, CborKind::array, gathered->size());
    for (const auto& [bytes, ids] : *gathered) {
      append_cbor(out, CborKind::array, std::uint64_t{2});
      append_cbor(out, CborKind::text, ids.str());
      append_cbor(out, CborKind::bytes, bytes);
    }
  } else if (const auto* unique = std::get_if<Unique>(&value)) {
    append_cbor(out, CborKind::array, unique->size());
    for (const Bytes& bytes : *unique) append_cbor(out, CborKind::bytes, bytes);
  } else {
    auto number = std::get<std::int64_t>(value);
    bool is_negative = number < 0;
    append_cbor(out, is_negative ? CborKind::negative : CborKind::number,
                static_cast<std::uint64_t>(is_negative ? -1 - number : number));
  }
  return out;
}

Result<Value> decode_value(Merge merge, std::string_view bytes) {
  CHECK_OK(in("value", check_cbor(bytes)));
  CborItem item = take_cbor(bytes);
  if (merge == Merge::max || merge == Merge::sum) return decode_number(item);
  if (item.kind != CborKind::array) return invalid(fmt::format("value: expected an array, got {}", item.name()));
  return merge == Merge::gather ? decode_gathered(item.body) : decode_unique(item.body);
}

bool Pieces::add(std::uint64_t at, std::uint64_t total, std::string_view data) {
  if (at == 0) {
    bytes_.clear();
    bytes_.reserve(total);
    whole_ = false;
  }
  if (whole_ || at != bytes_.size() || data.size() > total - at) return false;
  bytes_ += data;
  whole_ = bytes_.size() == total;
  return whole_;
}

}  // namespace nacre::overlay
