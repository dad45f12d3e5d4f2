// SPDX-License-Identifier: Apache-2.0
//
// Converts between our Json and jansson's json_t, which C plugins pack and unpack.
#pragma once

#include <jansson.h>

#include <cstdarg>

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "base/result.hpp"

namespace nacre::capi {

// One counted reference to a json_t.
class JsonRef {
 public:
  JsonRef() = default;
  explicit JsonRef(json_t* owned) : json_(owned) {}
  JsonRef(JsonRef&& other) noexcept : json_(std::exchange(other.json_, nullptr)) {}
  JsonRef& operator=(JsonRef&& other) noexcept {
    std::swap(json_, other.json_);
    return *this;
  }
  ~JsonRef() { json_decref(json_); }

  [[nodiscard]] json_t* get() const { return json_; }
  [[nodiscard]] json_t* release() { return std::exchange(json_, nullptr); }
  explicit operator bool() const { return json_ != nullptr; }

 private:
  json_t* json_ = nullptr;
};

// Integers above INT64_MAX keep their 64 bits, as C code expects of a job id; values that jansson cannot hold (NaN,
// infinity) become null; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] JsonRef to_jansson(const Json& value);
[[nodiscard]] Json from_jansson(const json_t* value);

// json_vpack_ex(3), json_vunpack_ex(3). An error is EINVAL with jansson's text.
Result<JsonRef> pack(const char* format, va_list args);
Result<void> unpack(json_t* root, const char* format, va_list args);

// Values that C gets by reference, each under a name. As long as the value does not change, the same object is
// returned.
class KeptJson {
 public:
  enum class Older { keep, drop };  // what happens to the object of an older value

  json_t* get(const std::string& name, Json value, Older older = Older::keep);

 private:
  struct Item {
    Json value;
    JsonRef object;
  };

  std::unordered_map<std::string, Item> items_;
  std::vector<JsonRef> older_;
};

}  // namespace nacre::capi
