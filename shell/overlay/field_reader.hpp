// SPDX-License-Identifier: Apache-2.0
//
// Reads the fields that FieldWriter writes.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "overlay/cbor.hpp"

namespace nacre::overlay {

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

}  // namespace nacre::overlay
