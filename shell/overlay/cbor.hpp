// SPDX-License-Identifier: Apache-2.0
//
// CBOR (RFC 8949) as this protocol uses it: see doc/protocol.md, "Encoding". Each value has exactly one encoding,
// so the fields of a message can be read directly from its bytes, without building a tree of values. This matters:
// a barrier is a message or two for each shell.
#pragma once

#include "overlay/entry.hpp"

namespace nacre::overlay {

enum class CborKind : std::uint8_t { number, negative, bytes, text, array, map, flag };

// One value. It refers to bytes that the caller owns.
struct CborItem {
  CborKind kind = CborKind::number;
  // a number's value; of a negative one -1 minus the value; how many bytes, elements or pairs; of a flag 0 or 1
  std::uint64_t count = 0;
  std::string_view body;  // the bytes; or the elements or pairs, one after the other

  [[nodiscard]] const char* name() const;  // of the kind
};

// An error if these bytes are not one value in its only encoding.
Result<void> check_cbor(std::string_view bytes);
// Takes the first value off bytes that check_cbor() has accepted, or off the body of a value of theirs.
CborItem take_cbor(std::string_view& bytes);

// Appends the head of a value; the caller appends the body.
void append_cbor(Bytes& out, CborKind kind, std::uint64_t count);
// Appends a value of bytes or text.
void append_cbor(Bytes& out, CborKind kind, std::string_view body);

// Reads the fields that FieldWriter writes.

// Keeps the first error; what is read after it has no meaning.
class FieldReader {
 public:
  // `map` refers to bytes that outlive this object.
  explicit FieldReader(const CborItem& map);

  template <typename T>
  void number(std::string_view key, T& value, std::uint64_t most = std::numeric_limits<T>::max()) {
    value = static_cast<T>(unsigned_number(key, most));
  }
  void flag(std::string_view key, bool& value);
  void text(std::string_view key, std::string& value);
  void data(std::string_view key, Bytes& value);
  void ids(std::string_view key, Idset& value);
  template <typename E, std::size_t N>
  void word(std::string_view key, E& value, const std::array<std::string_view, N>& words) {
    value = static_cast<E>(index_of(key, words.data(), N));
  }
  template <typename T>
  void list(std::string_view key, std::vector<T>& values) {
    const CborItem* array = take(key);
    if (array == nullptr || !is_list(key, *array)) return;
    for (std::string_view rest = array->body; !rest.empty();) {
      FieldReader io(take_cbor(rest));
      fields(io, values.emplace_back());
      if (!adopt(key, io)) return;
    }
  }
  template <typename T>
  void object(std::string_view key, T& value) {
    const CborItem* found = take(key);
    if (found == nullptr) return;
    FieldReader io(*found);
    fields(io, value);
    adopt(key, io);
  }
  void maybe_ids(std::string_view key, std::optional<Idset>& value) {
    if (find(key) != nullptr) ids(key, value.emplace());
  }
  template <typename T>
  void maybe(std::string_view key, std::optional<T>& value) {
    if (find(key) != nullptr) object(key, value.emplace());
  }
  template <typename... T>
  void choice(std::string_view key, std::variant<T...>& value,
              const std::array<std::string_view, sizeof...(T)>& names) {
    std::size_t index = index_of(key, names.data(), names.size());
    std::size_t at = 0;
    ((at++ == index ? fields(*this, value.template emplace<T>()) : void()), ...);
  }

  void fail(std::string_view key, std::string_view why);
  // The text of a field if it is there, even after an error.
  [[nodiscard]] std::optional<std::string_view> text_of(std::string_view key) const;
  // An error if one was kept, or if a field was not read.
  Result<void> done();

 private:
  [[nodiscard]] const CborItem* find(std::string_view key) const;
  const CborItem* take(std::string_view key);
  std::uint64_t unsigned_number(std::string_view key, std::uint64_t most);
  std::size_t index_of(std::string_view key, const std::string_view* words, std::size_t count);
  bool is_list(std::string_view key, const CborItem& array);
  bool adopt(std::string_view key, FieldReader& inner);

  std::vector<std::pair<std::string_view, CborItem>> pairs_;
  std::size_t taken_ = 0;
  std::optional<Error> error_;
};

// The fields of a message, listed once for writing and reading: fields(io, struct) names each field, and `io` is a
// FieldWriter, which makes a map of them, or a FieldReader, which takes them out of a map and checks them. Internal
// to wire.
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
