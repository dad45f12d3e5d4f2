// SPDX-License-Identifier: Apache-2.0
//
// The fields of a message, said once for both ways: fields(io, struct) names each, and `io` is a FieldWriter, which makes
// a map of them, or a FieldReader, which takes them out of one and checks them. Internal to wire and collective.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "overlay/cbor.hpp"
#include "overlay/wire.hpp"

namespace nacre::overlay {

template <typename M, typename T>
concept Of = std::same_as<std::remove_const_t<M>, T>;

class FieldWriter {
 public:
  template <typename T>
  void number(const char* key, const T& value, std::uint64_t /*most*/ = UINT64_MAX) {
    append_cbor(begin(key), CborKind::number, std::uint64_t{value});
  }
  void flag(const char* key, bool value) { append_cbor(begin(key), CborKind::flag, std::uint64_t{value}); }
  void text(const char* key, std::string_view value) { append_cbor(begin(key), CborKind::text, value); }
  void data(const char* key, const Bytes& value) { append_cbor(begin(key), CborKind::bytes, value); }
  void ids(const char* key, const Idset& value) { text(key, value.str()); }
  template <typename E, std::size_t N>
  void word(const char* key, const E& value, const std::array<const char*, N>& words) {
    text(key, words.at(static_cast<std::size_t>(value)));
  }
  template <typename T>
  void list(const char* key, const std::vector<T>& values) {
    Bytes& out = begin(key);
    append_cbor(out, CborKind::array, values.size());
    for (const T& each : values) append_map(out, each);
  }
  template <typename T>
  void object(const char* key, const T& value) {
    append_map(begin(key), value);
  }
  // Left out if there is none.
  template <typename T>
  void maybe(const char* key, const std::optional<T>& value) {
    if (value) object(key, *value);
  }
  template <typename... T>
  void choice(const char* key, const std::variant<T...>& value,
              const std::array<const char*, sizeof...(T)>& names) {
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

  Bytes& begin(const char* key);  // its value is to be appended
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

// The first error is kept; what is read after it is of no meaning.
class FieldReader {
 public:
  // An item of bytes that outlive this.
  explicit FieldReader(const CborItem& map);

  template <typename T>
  void number(const char* key, T& value, std::uint64_t most = std::numeric_limits<T>::max()) {
    value = static_cast<T>(unsigned_number(key, most));
  }
  void flag(const char* key, bool& value);
  void text(const char* key, std::string& value);
  void data(const char* key, Bytes& value);
  void ids(const char* key, Idset& value);
  template <typename E, std::size_t N>
  void word(const char* key, E& value, const std::array<const char*, N>& words) {
    value = static_cast<E>(index_of(key, words.data(), N));
  }
  template <typename T>
  void list(const char* key, std::vector<T>& values) {
    const CborItem* array = take(key);
    if (array == nullptr || !is_list(key, *array)) return;
    for (std::string_view rest = array->body; !rest.empty();) {
      FieldReader io(take_cbor(rest));
      fields(io, values.emplace_back());
      if (!adopt(key, io)) return;
    }
  }
  template <typename T>
  void object(const char* key, T& value) {
    const CborItem* found = take(key);
    if (found == nullptr) return;
    FieldReader io(*found);
    fields(io, value);
    adopt(key, io);
  }
  template <typename T>
  void maybe(const char* key, std::optional<T>& value) {
    if (find(key) != nullptr) object(key, value.emplace());
  }
  template <typename... T>
  void choice(const char* key, std::variant<T...>& value, const std::array<const char*, sizeof...(T)>& names) {
    std::size_t index = index_of(key, names.data(), names.size());
    std::size_t at = 0;
    ((at++ == index ? fields(*this, value.template emplace<T>()) : void()), ...);
  }

  void fail(const char* key, std::string_view why);
  // The text of a field, whatever else was wrong, if it is there.
  [[nodiscard]] std::optional<std::string_view> text_of(std::string_view key) const;
  // Whether all was well, and no field is left over.
  Result<void> done();

 private:
  [[nodiscard]] const CborItem* find(std::string_view key) const;
  const CborItem* take(const char* key);
  std::uint64_t unsigned_number(const char* key, std::uint64_t most);
  std::size_t index_of(const char* key, const char* const* words, std::size_t count);
  bool is_list(const char* key, const CborItem& array);
  bool adopt(const char* key, FieldReader& inner);

  std::vector<std::pair<std::string_view, CborItem>> pairs_;
  std::size_t taken_ = 0;
  std::optional<Error> error_;
};

}  // namespace nacre::overlay
