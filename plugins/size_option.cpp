// SPDX-License-Identifier: Apache-2.0
#include "plugins/size_option.hpp"

#include <cctype>
#include <charconv>
#include <string>
#include <string_view>

namespace nacre::plugins {
namespace {

constexpr std::string_view kUnits = "KMGT";
constexpr double kStep = 1024;
constexpr double kMost = 1e18;  // bytes

}  // namespace

Result<std::uint64_t> size_option(const JsonAt& option) {
  auto wrong = [&] { return option.expected("a number of bytes, such as 4096 or \"10M\""); };
  double size = 0;
  if (option.json().is_number()) {
    size = TRY(option.number());
  } else {
    if (!option.json().is_string()) return wrong();
    std::string text = TRY(option.string());
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    std::string_view unit = std::string_view(text).substr(static_cast<std::size_t>(end - text.data()));
    if (error != std::errc() || unit.size() > 1) return wrong();
    if (!unit.empty()) {
      std::size_t power = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
      if (power == std::string_view::npos) return wrong();
      for (std::size_t i = 0; i <= power; ++i) size *= kStep;
    }
  }
  if (!(size >= 0 && size <= kMost)) return wrong();
  return static_cast<std::uint64_t>(size);
}

}  // namespace nacre::plugins
