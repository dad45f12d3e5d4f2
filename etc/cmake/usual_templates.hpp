// SPDX-License-Identifier: Apache-2.0
//
// Uses once what most sources use of templates. It is part of the precompiled header: Clang instantiates templates
// with that (-fpch-instantiate-templates), and no source has to do it again. Nothing calls it, and no code is made
// of it.
#pragma once

#ifdef __clang__
#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace nacre::usual_templates {

using Json = nlohmann::json;

inline bool reading(const Json& json, std::string& text) {
  text = json.value("a", std::string()) + json.value("a", "") + json.get<std::string>();
  text =
      json.get_ref<const std::string&>() + json.dump() + json.dump(-1, ' ', false, Json::error_handler_t::replace);
  bool out =
      json.value("a", false) && json.value("a", 0) > 0 && json.value("a", 0U) > 0 && json.value("a", 0.0) > 0;
  out = out && json.value("a", std::uint64_t{}) > 0 && json.value("a", std::int64_t{}) > 0;
  out = out && json.get<bool>() && json.get<int>() > 0 && json.get<unsigned>() > 0 && json.get<double>() > 0;
  out = out && json.get<std::uint64_t>() > 0 && json.get<std::int64_t>() > 0;
  for (const auto& [key, value] : json.items()) out = out && key == text && value.is_null();
  for (const Json& each : json)
    out = out && each == "a" && each == text && each == 1 && each != json && each.contains("a") &&
          each.contains(text);
  auto found = json.find("a");
  return out && found != json.end() && found->is_string() && found.key() == text && json.find(text) != found &&
         json.at(text) == json.at(0) && json.front() == json.back() && json.size() > 1;
}

inline void writing(Json& json, std::string& text) {
  json = {{"", 1},         {"1", text}, {"12", true}, {"123", 1.0}, {"1234", 1U}, {"12345", Json::array()},
          {"123456", json}};
  json = {{"1234567", std::uint64_t{}}, {"12345678", std::int64_t{}}, {"123456789", nullptr}, {"1234567890", ""}};
  json = {{"12345678901", "1"}, {"123456789012", "12"}, {"a", "123"},
          {"a", "1234"},        {"a", "12345"},         {"a", "123456"}};
  json = {{"a", std::string_view(text)}, {"a", std::string()}, {"a", Json::object()}, {"a", "1234567"}};
  json["a"] = json;
  json["a"] = 1;
  json["a"] = 1U;
  json["a"] = std::uint64_t{};
  json["a"] = std::int64_t{};
  json["a"] = 1.0;
  json["a"] = true;
  json["a"] = "a";
  json["a"] = text;
  json["a"] = std::string_view(text);
  json[text] = std::move(json["a"]);
  json[0] = Json::object();
  json.push_back(json);
  json.push_back(text);
  json.emplace_back(text);
  json.erase("a");
  json.erase(text);
  json = Json::parse(text, nullptr, false);
  json = json.get<std::vector<std::string>>();
  json = json.get<std::map<std::string, std::string>>();
  Json copy(json), moved(std::move(copy));
  std::optional<Json> maybe = moved;
  std::vector<Json> several{*maybe};
  several.push_back(json);
  std::swap(json, moved);
}

inline void containers(const Json& json, std::string& text) {
  std::map<std::string, std::string> strings{{text, text}};
  strings[text] = text;
  strings.insert_or_assign(text, text);
  strings.emplace(text, text);
  strings.erase(strings.find(text));
  std::map<std::string, Json> documents{{text, json}};
  documents[text] = json;
  std::map<std::string, int> counts{{text, 1}};
  ++counts[text];
  std::map<std::uint32_t, std::string> by_number;
  by_number[1] = text;
  std::map<std::uint32_t, std::uint32_t> numbers;
  numbers[1] = 1;
  std::set<std::string> set{text};
  set.insert(text);
  set.erase(text);
  std::set<std::uint32_t> number_set{1U};
  number_set.insert(1U);
  std::vector<std::string> list{text};
  list.push_back(text);
  list.emplace_back("a");
  list.insert(list.end(), list.begin(), list.end());
  std::sort(list.begin(), list.end());
  std::erase(list, text);
  list = {list.front(), std::string(list.back())};
  std::vector<std::uint32_t> number_list{1U};
  number_list.push_back(1U);
  std::optional<std::string> maybe = text;
  maybe.reset();
  std::function<void()> call = [] {};
  std::function<void(const std::string&)> with_text = [](const std::string&) {};
  std::exchange(call, nullptr)();
  with_text(text);
  text = fmt::format("{} {} {} {} {}", text, "a", std::string_view(text), 1, 1U);
  text = fmt::format("{} {} {}", std::uint64_t{}, std::int64_t{}, 1.0);
  text = fmt::format("{}: {}", text, text) + fmt::format("{}", text) + fmt::format("{}", fmt::join(list, ","));
}

}  // namespace nacre::usual_templates
#endif
