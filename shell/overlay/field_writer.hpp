// SPDX-License-Identifier: Apache-2.0
//
// The fields of a message, listed once for writing and reading: fields(io, struct) names each field, and `io` is a
// FieldWriter, which makes a map of them, or a FieldReader, which takes them out of a map and checks them. Internal
// to wire.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "overlay/cbor.hpp"

namespace nacre::overlay {

class FieldWriter {
 public:
  template <typename T>
  void number(std::string_view key, const T& value, std::uint64_t /*most*/ = UINT64_MAX) {
    append_cbor(begin(key), CborKind::number, std::uint64_t{value});
  }
  void flag(std::string_view key, bool value) { append_cbor(begin(key), CborKind::flag, std::uint64_t{value}); }
  void text(std::string_view key, std::string_view value) { append_cbor(begin(key), CborKind::text, value); }
  void data(std::string_view key, const Bytes& value) { append_cbor(begin(key), CborKind::bytes, value); }
  void ids(std::string_view key, const Idset& value) { text(key, value.str()); }
  template <typename E, std::size_t N>
  void word(std::string_view key, const E& value, const std::array<std::string_view, N>& words) {
    text(key, words.at(static_cast<std::size_t>(value)));
  }
  template <typename T>
  void list(std::string_view key, const std::vector<T>& values) {
    Bytes& out = begin(key);
    append_cbor(out, CborKind::array, values.size());
    for (const T& each : values) append_map(out, each);
  }
  template <typename T>
  void object(std::string_view key, const T& value) {
    append_map(begin(key), value);
  }
  // Left out if there is none.
  void maybe_ids(std::string_view key, const std::optional<Idset>& value) {
    if (value) ids(key, *value);
  }
  template <typename T>
  void maybe(std::string_view key, const std::optional<T>& value) {
    if (value) object(key, *value);
  }
  template <typename... T>
  void choice(std::string_view key, const std::variant<T...>& value,
              const std::array<std::string_view, sizeof...(T)>& names) {
    text(key, names.at(value.index()));
    std::visit([this](const auto& body) { fields(*this, body); }, value);
  }

  // Appends the map of all fields.
  void write(Bytes& out);

 private:
  struct Field {
    std::string_view key;
    std::size_t begin = 0;  // of its value
    std::size_t end = 0;
  };
  static constexpr std::size_t kMaxFields = 16;

  Bytes& begin(std::string_view key);  // the caller appends the value
  void end_last() {
    if (count_ > 0) fields_.at(count_ - 1).end = values_.size();
  }
  template <typename T>
  static void append_map(Bytes& out, const T& value) {
    FieldWriter io;
    fields(io, value);
    io.write(out);
  }

  std::array<Field, kMaxFields> fields_;
  std::size_t count_ = 0;
  Bytes values_;
};

}  // namespace nacre::overlay
