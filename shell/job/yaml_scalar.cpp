// SPDX-License-Identifier: Apache-2.0
#include "job/yaml_scalar.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::job {
namespace {

constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 3> kTrue = {"true", "True", "TRUE"};
constexpr std::array<std::string_view, 3> kFalse = {"false", "False", "FALSE"};
constexpr std::array<std::string_view, 6> kNotInJson = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"};
constexpr std::string_view kDigits = "0123456789";

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_made_of(std::string_view set, std::string_view text) {
  return !text.empty() && text.find_first_not_of(set) == std::string_view::npos;
}

// Digits, possibly with a dot, then possibly an exponent. A sign was removed before.
bool is_number(std::string_view text) {
  if (auto e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view exponent = text.substr(e + 1);
    if (exponent.starts_with('+') || exponent.starts_with('-')) exponent.remove_prefix(1);
    if (!is_made_of(kDigits, exponent)) return false;
    text = text.substr(0, e);
  }
  auto dot = text.find('.');
  if (dot == std::string_view::npos) return is_made_of(kDigits, text);
  std::string_view whole = text.substr(0, dot);
  std::string_view fraction = text.substr(dot + 1);
  if (whole.empty()) return is_made_of(kDigits, fraction);
  return is_made_of(kDigits, whole) && (fraction.empty() || is_made_of(kDigits, fraction));
}

Result<Json> integer(std::string_view digits, int base) {
  std::uint64_t value = 0;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (code != std::errc{}) return invalid("a number of more than 64 bits");
  return Json(value);
}

// `text` may start with '-', but not with '+'.
Result<Json> number(std::string_view text) {
  if (auto value = parse_i64(text)) return Json(*value);
  if (auto value = parse_u64(text)) return Json(*value);
  double value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{}) return invalid("a number that a double cannot hold");
  return Json(value);
}

Result<Json> plain(std::string_view text) {
  if (is_one_of(kNull, text)) return Json();
  if (is_one_of(kTrue, text)) return Json(true);
  if (is_one_of(kFalse, text)) return Json(false);
  if (text.starts_with("0o") && is_made_of("01234567", text.substr(2))) return integer(text.substr(2), 8);
  if (text.starts_with("0x") && is_made_of("0123456789abcdefABCDEF", text.substr(2)))
    return integer(text.substr(2), 16);
  bool is_signed = text.starts_with('-') || text.starts_with('+');
  std::string_view magnitude = text.substr(is_signed ? 1 : 0);
  if (is_one_of(kNotInJson, magnitude)) return invalid(fmt::format("JSON has no number {}", text));
  if (!is_number(magnitude)) return Json(text);
  return number(text.starts_with('+') ? magnitude : text);
}

}  // namespace

Result<Json> yaml_scalar(std::string_view tag, std::string_view text) {
  constexpr std::string_view kStandard = "tag:yaml.org,2002:";
  if (tag == "?" || tag.empty()) return plain(text);
  if (tag == "!") return Json(text);
  if (tag.starts_with(kStandard)) {
    std::string_view type = tag.substr(kStandard.size());
    if (type == "str") return Json(text);
    Json value = TRY(plain(text));
    if (type == "int" && value.is_number_integer()) return value;
    if (type == "float" && value.is_number()) return Json(value.get<double>());
    if (type == "bool" && value.is_boolean()) return value;
    if (type == "null" && value.is_null()) return value;
  }
  return invalid(fmt::format("{} does not go with the tag {}", in_quotes(text), in_quotes(tag)));
}

}  // namespace nacre::job
