// SPDX-License-Identifier: Apache-2.0
//
// JSON written by people: parses it, and reads it with checks whose errors name the place.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "base/result.hpp"

// A member of a constant value that may lack it: operator[] would abort the process, or worse, so it does not
// compile. Use find(), value() or JsonAt; at() throws. That of arrays is as it was.
template <>
nlohmann::json::const_reference nlohmann::json::operator[](const nlohmann::json::object_t::key_type& key) const =
    delete;

extern template class nlohmann::basic_json<>;  // in json_instance.cpp: otherwise each file would compile its own

namespace nacre {

inline constexpr int kMaxJsonDepth = 128;  // levels of nesting

// Parses one JSON document. An error reads `line L, column C: why`. More than kMaxJsonDepth levels are an error.
Result<Json> parse_json(std::string_view text);

// A member of an object, or what is at an RFC 6901 pointer; null if this is no object or has none.
[[nodiscard]] const Json& member_of(const Json& value, std::string_view name);
[[nodiscard]] const Json& find_at(const Json& value, const Json::json_pointer& pointer);

// One line, without blanks. Bytes that are not UTF-8 become U+FFFD, so this never fails.
[[nodiscard]] std::string dump_json(const Json& value);

// A value and its place. Refers to the document, which must outlive it.
//
//   auto spec = JsonAt::root(document);
//   auto count = TRY(TRY(spec.at("resources")).at(0)...);  // error: "resources[0].count: expected ..."
class JsonAt {
 public:
  [[nodiscard]] static JsonAt root(const Json& value, std::string path = "") { return {value, std::move(path)}; }

  [[nodiscard]] const Json& json() const { return *value_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // The member `key` of an object; an error if this is no object or lacks it.
  Result<JsonAt> at(std::string_view key) const;
  // As at(); none if there is no such key (or it is null).
  Result<std::optional<JsonAt>> find(std::string_view key) const;
  // The elements of an array.
  Result<std::vector<JsonAt>> elements() const;
  // The members of an object, in the order of their keys; the last name of each path() is its key.
  Result<std::vector<std::pair<std::string, JsonAt>>> members() const;

  // The value as a type, or an error `PATH: expected a TYPE, got VALUE`.
  Result<std::int64_t> integer(std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                               std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  Result<double> number() const;
  Result<bool> boolean() const;
  Result<std::string> string() const;
  Result<std::vector<std::string>> strings() const;  // an array of strings
  // An object whose keys are all in `known`; an error names the first that is not.
  Result<void> only_keys(std::span<const std::string_view> known) const;
  Result<void> only_keys(std::initializer_list<std::string_view> known) const {
    return only_keys(std::span(known.begin(), known.size()));
  }

  // An error about this value: `PATH: message`.
  [[nodiscard]] Error error(std::string_view message) const { return in(path_, invalid(std::string(message))); }
  // The usual error: `PATH: expected WANT, got VALUE` (VALUE cut to 40 bytes).
  [[nodiscard]] Error expected(std::string_view want) const;

 private:
  JsonAt(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const Json* value_;
  std::string path_;
};

}  // namespace nacre
