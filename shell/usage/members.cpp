// SPDX-License-Identifier: Apache-2.0
#include "usage/members.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.hpp"

namespace nacre::usage {
namespace {

std::string with_units(double value, double step, std::string_view units) {
  if (value < step) return fmt::format("{:.0f}", value);
  std::size_t unit = 0;
  for (value /= step; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  return fmt::format("{:.1f}{}", value, units[unit]);
}

}  // namespace

std::optional<double> number_in(const Json& object, std::string_view name) {
  if (!object.is_object()) return std::nullopt;
  auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

// Without bytes that a terminal would take for commands.
std::string text_in(const Json& object, std::string_view name) {
  if (!object.is_object()) return "";
  auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return "";
  std::string out = found->get<std::string>().substr(0, kMostText);
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return out;
}

const Json& member_in(const Json& object, std::string_view name) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

std::string value_text(double value, Unit unit) {
  constexpr double kBinary = 1024;
  constexpr double kDecimal = 1000;
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kPercent = 100;
  if (unit == Unit::share) return fmt::format("{:.1f}%", value * kPercent);
  if (unit == Unit::bytes) return with_units(value, kBinary, "KMGTPE");
  if (unit == Unit::count)
    return value < 10 * kDecimal ? fmt::format("{:.0f}", value) : with_units(value, kDecimal, "kMGTPE");
  if (value < kMinute) return fmt::format("{:.{}f}s", value, value < 10 ? 3 : 1);
  if (value < 10 * kMinute) return fmt::format("{:.1f}m", value / kMinute);
  return fmt::format("{:.1f}h", value / kHour);
}

std::string who_in(const Json& extreme) {
  auto rank = number_in(extreme, "rank");
  std::string host = text_in(extreme, "host");
  if (!rank) return "";
  return fmt::format("{:.0f}{}", *rank, host.empty() ? "" : " on " + host);
}

}  // namespace nacre::usage
