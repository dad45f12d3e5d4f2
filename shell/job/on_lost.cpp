// SPDX-License-Identifier: Apache-2.0
#include "job/on_lost.hpp"

namespace nacre::job {
namespace {

constexpr std::string_view kElse = "replace,else=";

Result<OnLost> of(const JsonAt& option) {
  std::string text = option.json().is_string() ? TRY(option.string()) : "";
  if (text == "end") return OnLost{};
  if (text == "go-on") return OnLost{false, true};
  if (text == "replace") return OnLost{true, false};
  if (std::string_view(text).starts_with(kElse)) {
    std::string_view otherwise = std::string_view(text).substr(kElse.size());
    if (otherwise == "end" || otherwise == "go-on") return OnLost{true, otherwise == "go-on"};
  }
  return option.expected("end, go-on, replace, replace,else=end or replace,else=go-on");
}

}  // namespace

Result<OnLost> OnLost::read(const Options& options) {
  auto option = options.at("on-lost");
  bool tolerates = TRY(options.flag("tolerate-loss"));
  if (!option) return OnLost{false, tolerates};
  OnLost out = TRY(of(*option));
  if (tolerates && out != OnLost{false, true}) {
    return option->error(
        "tolerate-loss is on-lost=go-on, and contradicts it: give one of them, or on-lost=replace,else=go-on");
  }
  return out;
}

Result<bool> outlives_launcher(const Options& options) {
  auto option = options.at("on-launcher-lost");
  if (!option || option->json() == "end") return false;
  if (option->json() == "go-on") return true;
  return option->expected("end or go-on");
}

}  // namespace nacre::job
