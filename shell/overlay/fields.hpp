// SPDX-License-Identifier: Apache-2.0
//
// The fields of a message, said once for both ways: fields(io, struct) names each, and `io` is a FieldWriter, which puts
// them into a JSON object, or a FieldReader, which takes them out and checks them. Internal to wire and collective.
#pragma once

#include <array>
#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "overlay/wire.hpp"

namespace nacre::overlay {

template <typename M, typename T>
concept Of = std::same_as<std::remove_const_t<M>, T>;

class FieldWriter {
 public:
  explicit FieldWriter(Json& object) : object_(object) { object_ = Json::object(); }

  template <typename T>
  void number(const char* key, const T& value, std::uint64_t /*most*/ = UINT64_MAX) {
    object_[key] = value;
  }
  void flag(const char* key, bool value) { object_[key] = value; }
  void text(const char* key, const std::string& value) { object_[key] = value; }
  void data(const char* key, const Bytes& value) {
    object_[key] = Json::binary(std::vector<std::uint8_t>(value.begin(), value.end()));
  }
  void ids(const char* key, const Idset& value) { object_[key] = value.str(); }
  template <typename E, std::size_t N>
  void word(const char* key, const E& value, const std::array<const char*, N>& words) {
    object_[key] = words.at(static_cast<std::size_t>(value));
  }
  template <typename T>
  void list(const char* key, const std::vector<T>& values) {
    Json& array = object_[key] = Json::array();
    for (const T& each : values) {
      FieldWriter io(array.emplace_back());
      fields(io, each);
    }
  }
  template <typename T>
  void object(const char* key, const T& value) {
    FieldWriter io(object_[key]);
    fields(io, value);
  }
  // Left out if there is none.
  template <typename T>
  void maybe(const char* key, const std::optional<T>& value) {
    if (value) object(key, *value);
  }
  template <typename... T>
  void choice(const char* key, const std::variant<T...>& value,
              const std::array<const char*, sizeof...(T)>& names) {
    object_[key] = names.at(value.index());
    std::visit([this](const auto& body) { fields(*this, body); }, value);
  }

 private:
  Json& object_;
};

// The first error is kept; what is read after it is of no meaning.
class FieldReader {
 public:
  explicit FieldReader(const Json& object);

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
    const Json* array = take(key);
    if (array == nullptr || !is_list(key, *array)) return;
    for (const Json& each : *array) {
      FieldReader io(each);
      fields(io, values.emplace_back());
      if (!adopt(key, io)) return;
    }
  }
  template <typename T>
  void object(const char* key, T& value) {
    const Json* found = take(key);
    if (found == nullptr) return;
    FieldReader io(*found);
    fields(io, value);
    adopt(key, io);
  }
  template <typename T>
  void maybe(const char* key, std::optional<T>& value) {
    if (object_.is_object() && object_.contains(key)) object(key, value.emplace());
  }
  template <typename... T>
  void choice(const char* key, std::variant<T...>& value, const std::array<const char*, sizeof...(T)>& names) {
    std::size_t index = index_of(key, names.data(), names.size());
    std::size_t at = 0;
    ((at++ == index ? fields(*this, value.template emplace<T>()) : void()), ...);
  }

  void fail(const char* key, std::string_view why);
  // Whether all was well, and no field is left over.
  Result<void> done();

 private:
  const Json* take(const char* key);
  std::uint64_t unsigned_number(const char* key, std::uint64_t most);
  std::size_t index_of(const char* key, const char* const* words, std::size_t count);
  bool is_list(const char* key, const Json& array);
  bool adopt(const char* key, FieldReader& inner);

  const Json& object_;
  std::size_t taken_ = 0;
  std::optional<Error> error_;
};

}  // namespace nacre::overlay
