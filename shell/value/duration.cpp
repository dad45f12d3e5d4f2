// SPDX-License-Identifier: Apache-2.0
#include "value/duration.hpp"

#include "base/text.hpp"

namespace nacre::value {
namespace {

constexpr int kDecimals = 3;               // that str() writes at most, in any unit except seconds
constexpr double kLargestShortened = 1e9;  // in units; a larger value is written in seconds with an exponent

struct Unit {
  std::string_view name;
  double seconds;
  // Milliseconds are divided: 2ms has to be the double nearest to 0.002, which 2 * 1e-3 need not be.
  [[nodiscard]] double in_seconds(double n) const { return name == "ms" ? n / 1000 : n * seconds; }
  [[nodiscard]] double of_seconds(double s) const { return name == "ms" ? s * 1000 : s / seconds; }
};

constexpr std::array<Unit, 5> kUnits = {{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"ms", 1e-3}}};

const Unit* find_unit(std::string_view name) {
  for (const Unit& unit : kUnits) {
    if (unit.name == (name.empty() ? "s" : name)) return &unit;
  }
  return nullptr;
}

// `n` with at most kDecimals decimals, none of them a trailing zero.
std::string shortened(double n) {
  std::string text = fmt::format("{:.{}f}", n, kDecimals);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Takes the number off the start of `text`. Works like strtod(3), but in the C locale, and refuses leading blanks
// and a minus.
Result<double> take_number(std::string_view& text) {
  std::string_view rest = text;
  if (rest.starts_with('-')) return invalid("expected a duration that is not negative");
  if (rest.starts_with('+')) rest.remove_prefix(1);
  auto format = std::chars_format::general;
  bool hex = rest.starts_with("0x") || rest.starts_with("0X");
  if (hex && rest.size() > 2 && rest.find_first_of("0123456789abcdefABCDEF.", 2) == 2) {
    rest.remove_prefix(2);
    format = std::chars_format::hex;
  }
  double number = 0;
  auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), number, format);
  if (code == std::errc::result_out_of_range) return invalid("the number is out of range");
  if (code != std::errc{} || std::isnan(number) || std::signbit(number)) {
    return invalid("expected a number with a unit (ms, s, m, h or d) or infinity");
  }
  text = rest.substr(static_cast<std::size_t>(end - rest.data()));
  return number;
}

Result<double> parse_seconds(std::string_view text) {
  if (text.size() > Duration::kMaxText) return invalid(fmt::format("longer than {} bytes", Duration::kMaxText));
  double number = TRY(take_number(text));
  if (std::isinf(number)) {
    if (!text.empty()) return invalid("infinity has no unit");
    return number;
  }
  const Unit* unit = find_unit(text);
  if (unit == nullptr) return invalid(fmt::format("unknown unit {}, expected ms, s, m, h or d", in_quotes(text)));
  double seconds = unit->in_seconds(number);
  if (std::isinf(seconds)) return invalid("the number is out of range");
  return seconds;
}

}  // namespace

Result<Duration> Duration::parse(std::string_view text) {
  auto seconds = parse_seconds(text);
  if (!seconds) return in(fmt::format("duration {}", in_quotes(text)), std::move(seconds).error());
  return Duration(*seconds);
}

std::string Duration::str() const {
  if (is_infinite()) return "infinity";
  for (const Unit& unit : kUnits) {
    double n = unit.of_seconds(seconds_);
    if (n < 1 || n > kLargestShortened) continue;
    std::string text = shortened(n) += unit.name;
    auto again = parse_seconds(text);
    if (again && *again == seconds_) return text;
  }
  return fmt::format("{}s", seconds_);
}

}  // namespace nacre::value
