// SPDX-License-Identifier: Apache-2.0
//
// The shell options of a job: attributes.system.shell.options of the jobspec, then -o on the command line, then
// what an initrc or a plugin sets. They are a JSON object; "a.b.c" names a member of a member. See
// nacre-shell-options(7).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/result.hpp"

namespace nacre::job {

// A switch: false for false, 0, and text of one of these. An error if it is neither boolean nor number nor text of
// one.
Result<bool> switch_of(const JsonAt& option);

class Options {
 public:
  Options() = default;
  explicit Options(Json object) : object_(std::move(object)) {}  // an object

  [[nodiscard]] const Json& json() const { return object_; }

  // The option at a dotted path; nullptr if it is not set.
  [[nodiscard]] const Json* find(std::string_view path) const;
  // The same, for reading with checks; its path() starts with the option's name.
  [[nodiscard]] std::optional<JsonAt> at(std::string_view path) const;
  // exit-on-error, exit-timeout and others: the option, or where it is an object the member that its value alone
  // would be.
  [[nodiscard]] std::optional<JsonAt> value_at(std::string_view name) const;
  // Whether it is set, and switch_of() is true.
  [[nodiscard]] Result<bool> flag(std::string_view path) const;
  // Of a switch that an object turns on, too (fault-tolerance, pty, signal, ...): whether it is on. What is no
  // value of its own is off here.
  [[nodiscard]] bool is_switched_on(std::string_view name) const;

  // Sets the option at a dotted path, making the objects on the way. A scalar on the way is replaced, but for
  // options whose value is a member too (exit-timeout is exit-timeout.timeout): set in any order, both are there. A
  // switch that is an object is on, and stays that object when it is turned on once more.
  void set(std::string_view path, Json value);
  void unset(std::string_view path);
  // Notes who has set the option at this path, for people: "site.lua:7". The command line and the jobspec need no
  // note.
  void note_setter(std::string_view path, std::string setter);
  [[nodiscard]] const std::map<std::string, std::string>& setters() const { return setters_; }

  // The first names of the paths that were asked for, set or not.
  [[nodiscard]] const std::set<std::string, std::less<>>& asked() const { return asked_; }
  void ask(std::string_view name) const;  // for callers that read json()

  // Sets "OPT" or "OPT=VAL" from the command line: the value is 1 without "=", else JSON if it is valid, else a
  // string. EINVAL: it is neither, or is an option without "=" for which 1 would be no sensible value.
  Result<void> set_from_argument(std::string_view argument);
  // Whether such an argument has set the option at this path, or an object that it is in.
  [[nodiscard]] bool is_of_argument(std::string_view path) const;

 private:
  Json object_ = Json::object();
  mutable std::set<std::string, std::less<>> asked_;
  std::vector<std::string> arguments_;  // their paths
  std::map<std::string, std::string> setters_;
};

}  // namespace nacre::job
