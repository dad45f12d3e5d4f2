// SPDX-License-Identifier: Apache-2.0
#include "job/options.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/option_table.hpp"

namespace nacre::job {
namespace {

// Options that have one value, or an object with that value as a member, so that other members can be set too.
struct OneValue {
  std::string_view option;
  std::string_view member;
};
constexpr OneValue kOneValue[] = {
    {"cpu-affinity", "mode"},    {"epilog", "command"},     {"exit-notify", "to"}, {"exit-on-error", "when"},
    {"exit-timeout", "timeout"}, {"gpu-affinity", "mode"},  {"pmi", "use"},        {"prolog", "command"},
    {"task-epilog", "command"},  {"task-prolog", "command"}};
// Switches that an object turns on, too.
constexpr std::string_view kSwitches[] = {"fault-tolerance", "pty", "signal", "stage-in", "sysmon", "torch"};

// Empty: it is no such option.
std::string_view value_member(std::string_view option) {
  for (const OneValue& each : kOneValue) {
    if (each.option == option) return each.member;
  }
  return {};
}

// Whether `value` only turns on what the object `set` has turned on already.
bool is_said_by(const Json& set, std::string_view option, const Json& value) {
  if (!set.is_object() || std::find(std::begin(kSwitches), std::end(kSwitches), option) == std::end(kSwitches))
    return false;
  auto on = value.is_object() ? Result<bool>(false) : switch_of(JsonAt::root(value, std::string(option)));
  return on && *on;
}

}  // namespace

Result<bool> switch_of(const JsonAt& option) {
  const Json& json = option.json();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return json.get<double>() != 0;
  if (json == "on") return true;
  if (json == "off") return false;
  if (json.is_string()) {
    auto inner = parse_json(json.get_ref<const std::string&>());
    if (inner && inner->is_boolean()) return inner->get<bool>();
    if (inner && inner->is_number()) return inner->get<double>() != 0;
  }
  return option.expected("on or off");
}

void Options::ask(std::string_view name) const {
  if (asked_.find(name) == asked_.end()) asked_.emplace(name);
}

const Json* Options::find(std::string_view path) const {
  ask(path.substr(0, path.find('.')));
  const Json* at = &object_;
  for (std::string_view name : split(path, '.')) {
    if (!at->is_object()) return nullptr;
    auto it = at->find(std::string(name));
    if (it == at->end()) return nullptr;
    at = &*it;
  }
  return at;
}

std::optional<JsonAt> Options::at(std::string_view path) const {
  const Json* found = find(path);
  if (found == nullptr) return std::nullopt;
  return JsonAt::root(*found, std::string(path));
}

Result<bool> Options::flag(std::string_view path) const {
  auto option = at(path);
  if (!option) return false;
  return switch_of(*option);
}

bool Options::is_switched_on(std::string_view name) const {
  auto option = at(name);
  return option && (option->json().is_object() || switch_of(*option).value_or(false));
}

void Options::set(std::string_view path, Json value) {
  Json* at = &object_;
  auto names = split(path, '.');
  std::string_view member = value_member(names[0]);
  auto top = object_.find(names[0]);
  if (top != object_.end() && names.size() == 1 && is_said_by(*top, names[0], value)) return;
  if (top != object_.end() && !member.empty()) {
    if (names.size() > 1 && !top->is_object()) *top = Json{{member, std::move(*top)}};
    if (names.size() == 1 && top->is_object() && !value.is_object()) names.push_back(member);
  }
  for (std::string_view name : names) {
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[std::string(name)];
  }
  *at = std::move(value);
}

std::optional<JsonAt> Options::value_at(std::string_view name) const {
  auto option = at(name);
  std::string_view member = value_member(name);
  if (member.empty() || !option || !option->json().is_object()) return option;
  return at(fmt::format("{}.{}", name, member));
}

void Options::unset(std::string_view path) {
  Json* at = &object_;
  auto names = split(path, '.');
  for (std::size_t i = 0; at->is_object(); ++i) {
    std::string name(names[i]);
    if (i + 1 == names.size()) {
      at->erase(name);
      return;
    }
    auto it = at->find(name);
    if (it == at->end()) return;
    at = &*it;
  }
}

void Options::note_setter(std::string_view path, std::string setter) {
  setters_.insert_or_assign(std::string(path), std::move(setter));
}

bool Options::is_of_argument(std::string_view path) const {
  return std::any_of(arguments_.begin(), arguments_.end(), [path](const std::string& given) {
    return path.starts_with(given) && (path.size() == given.size() || path[given.size()] == '.');
  });
}

Result<void> Options::set_from_argument(std::string_view argument) {
  std::size_t equals = argument.find('=');
  std::string_view path = argument.substr(0, equals);
  auto names = split(path, '.');
  if (std::any_of(names.begin(), names.end(), [](std::string_view name) { return name.empty(); })) {
    return invalid(
        fmt::format("expected OPT or OPT=VAL, OPT being a name or "
                    "names joined by dots, got {}",
                    in_quotes(argument)));
  }
  if (names.size() > static_cast<std::size_t>(kMaxJsonDepth)) {
    return invalid(fmt::format("nested deeper than {} levels: {}", kMaxJsonDepth, in_quotes(argument)));
  }
  if (std::string missing = equals == std::string_view::npos ? missing_value(path) : ""; !missing.empty())
    return invalid(missing);
  arguments_.emplace_back(path);
  if (equals == std::string_view::npos) {
    set(path, 1);
    return {};
  }
  std::string_view text = argument.substr(equals + 1);
  auto json = parse_json(text);
  set(path, json ? *std::move(json) : Json(text));
  return {};
}

}  // namespace nacre::job
