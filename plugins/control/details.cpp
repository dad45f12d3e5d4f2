// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/details.hpp"

#include <gnu/libc-version.h>
#include <link.h>
#include <sys/utsname.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/environment.hpp"
#include "plugin/plan.hpp"
#include "plugin/tags.hpp"
#include "plugins/doctor/stack_taker.hpp"
#include "plugins/output/options.hpp"
#include "record/shareable.hpp"
#include "version.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kSink = "control.details";
constexpr std::size_t kMostPart = std::size_t{64} << 10;   // bytes of options, of an environment, of events
constexpr std::size_t kMostPlan = std::size_t{192} << 10;  // bytes of the plan
constexpr std::size_t kMostFiles = 64;                     // files of output that are named

// Files are named by what they are: libfoo.so.1.2.3.
int take_library(dl_phdr_info* info, std::size_t /*size*/, void* to) {
  std::unique_ptr<char, decltype(&std::free)> path(::realpath(info->dlpi_name, nullptr), std::free);
  if (info->dlpi_name[0] == '/' && path) static_cast<Json*>(to)->push_back(path.get());
  return 0;
}

Json versions() {
  Json out{{"nacre-shell", kVersion}, {"built_with", kBuiltWith}, {"libc", ::gnu_get_libc_version()}};
  utsname system{};
  if (::uname(&system) == 0)
    out["kernel"] = fmt::format("{} {} {} {}", system.sysname, system.release, system.version, system.machine);
  out["libraries"] = Json::array();
  ::dl_iterate_phdr(take_library, &out["libraries"]);
  return out;
}

Json environment_json(const job::Environment& environment) {
  Json names = Json::array(), values = Json::object();
  std::size_t bytes = 0;
  std::size_t left_out = 0;
  for (const auto& [name, value] : environment.all()) {
    bool shows = record::may_show(name, value);
    bytes += name.size() + (shows ? name.size() + value.size() : 0);
    if (bytes > kMostPart) {
      ++left_out;
      continue;
    }
    names.push_back(name);
    if (shows) values[std::string(name)] = value;
  }
  Json out{{"names", std::move(names)}, {"values", std::move(values)}};
  if (left_out > 0) out["names_left_out"] = left_out;
  return out;
}

// The values that are no objects, with their dotted paths.
void each_value(const Json& value, const std::string& path,
                const std::function<void(const std::string&, const Json&)>& take) {
  if (!value.is_object() || value.empty()) {
    if (!path.empty()) take(path, value);
    return;
  }
  for (const auto& [name, member] : value.items())
    each_value(member, path.empty() ? name : path + '.' + name, take);
}

// The first and the last of them.
Json events_json(const std::vector<Json>& events) {
  constexpr std::size_t kFirst = 16;
  Json out = Json::array();
  std::size_t bytes = 0;
  std::size_t first = events.size();
  while (first > kFirst && (bytes += dump_json(events[first - 1]).size()) <= kMostPart) --first;
  if (first <= kFirst) first = std::min(first, kFirst);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i < kFirst || i >= first) out.push_back(record::json_without_secrets(events[i]));
  }
  return out;
}

// Of lines: without the first ones, so that the rest is short enough.
void shorten(std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  std::size_t newline = text.find('\n', text.size() - most);
  text.erase(0, newline == std::string::npos ? text.size() - most : newline + 1);
}

// JSON is longer than what it stands for where that has bytes that are no text.
Json fitting(Json all, std::size_t most) {
  if (dump_json(all).size() <= most) return all;
  for (const char* part : {"output", "messages"}) {
    for (auto text = all[part].get<std::string>(); dump_json(all).size() > most && !text.empty();) {
      shorten(text, text.size() / 2);
      all[part] = text;
    }
  }
  for (const char* part : {"plan", "doctor", "events", "environment", "shell_environment", "options"}) {
    if (dump_json(all).size() <= most) break;
    all[part] = nullptr;
  }
  return all;
}

}  // namespace

Details::~Details() {
  if (keeps_) host_.log().remove_sink(kSink);
}

void Details::keep_messages() {
  keeps_ = true;
  host_.log().add_sink(kSink, [this](const LogEntry& entry) {
    std::string from = entry.shell ? fmt::format("[shell {}] ", *entry.shell) : "";
    std::string component = entry.component.empty() ? "" : entry.component + ": ";
    messages_.push_back(fmt::format("{}{}: {}{}\n", from, level_name(entry.level), component, entry.message));
    size_ += messages_.back().size();
    for (; size_ > kMostTail && !messages_.empty(); messages_.pop_front()) size_ -= messages_.front().size();
  });
}

Json Details::options() const {
  Json out = Json::array();
  job::Options given(host_.job().spec.options);
  const auto& setters = host_.options().setters();
  std::size_t bytes = 0;
  each_value(host_.options().json(), "", [&](const std::string& path, const Json& value) {
    std::string from;
    for (std::string part = path; from.empty() && !part.empty();) {
      if (auto setter = setters.find(part); setter != setters.end()) from = setter->second;
      std::size_t dot = part.rfind('.');
      part.resize(dot == std::string::npos ? 0 : dot);
    }
    const Json* asked = given.find(path);
    if (from.empty() && host_.options().is_of_argument(path)) from = "command line";
    if (from.empty()) from = asked != nullptr && *asked == value ? "jobspec" : "a plugin";
    Json shown = record::is_secret_name(path) ? Json(record::kLeftOut) : record::json_without_secrets(value);
    bytes += path.size() + dump_json(shown).size();
    out.push_back({{"name", path}, {"value", bytes > kMostPart ? Json("(too long)") : shown}, {"from", from}});
  });
  return out;
}

// The command may have secrets in it.
Json Details::plan(std::size_t tasks) const {
  plugin::PlanPartOptions options{tasks, record::may_show};
  const job::Job& job = host_.job();
  Json part = plugin::plan_part(host_, {}, options);
  part.erase("options");
  part.erase("setters");
  part["options"] = Json::object();
  part["setters"] = Json::object();
  std::string text = plugin::merged_plan(job, {}, {{job.shell_rank, part}}, true);
  std::size_t begin = text.find("\ncommand "), end = text.find("\ntasks ", begin);
  if (begin == std::string::npos || end == std::string::npos) return nullptr;
  std::string command;
  for (const std::string& each : record::words_without_secrets(job.spec.command)) command += " " + in_quotes(each);
  text.replace(begin, end - begin, "\ncommand  " + command);
  // Options have a place of their own.
  std::size_t own = text.find("\noptions, and where they come from\n");
  if (own != std::string::npos) text.erase(own, text.find("\nplugins, in order\n", own) - own);
  for (const char* each : {"options", "setters", "files"}) part.erase(each);
  Json out{{"shell", job.shell_rank}, {"host", job.node().hostname}, {"text", text}, {"part", std::move(part)}};
  if (host_.tasks().size() > tasks) out["tasks_left_out"] = host_.tasks().size() - tasks;
  std::size_t shown = std::min(tasks, host_.tasks().size());
  if (shown <= 1 || dump_json(out).size() <= kMostPlan) return out;
  return plan(shown / 2);
}

// Those of the tasks of this shell; a template where the others' cannot be named here.
Json Details::files() const {
  Json out = Json::array();
  auto options = OutputOptions::read(host_.options());
  if (!options) return out;
  std::error_code failed;
  std::filesystem::path directory = host_.job().spec.cwd.value_or(std::filesystem::current_path(failed).native());
  auto add = [&](io::Stream stream, const std::string& path) {
    Json file{{"stream", io::name_of(stream)}, {"path", (directory / path).lexically_normal().native()}};
    bool is_new = std::none_of(out.begin(), out.end(),
                               [&](const Json& each) { return member_of(each, "path") == file["path"]; });
    if (is_new && out.size() < kMostFiles) out.push_back(std::move(file));
  };
  for (io::Stream stream : io::kStreams) {
    const StreamOptions& of = options->streams.at(static_cast<std::size_t>(stream));
    if (!of.has(OutputType::file)) continue;
    auto differs = plugin::differs_by_rank(host_, of.path);
    if (!differs) continue;
    if (!*differs) {
      if (auto path = plugin::render_tags(host_, of.path)) add(stream, *path);
      continue;
    }
    for (const auto& task : host_.tasks()) {
      if (auto path = plugin::render_tags(host_, of.path, {std::nullopt, task.get()})) add(stream, *path);
    }
    if (host_.job().shells() > 1 || host_.tasks().size() > kMostFiles)
      out.push_back({{"stream", io::name_of(stream)}, {"template", of.path}});
  }
  return out;
}

Json Details::make(std::size_t most, std::size_t tasks, std::string output) const {
  std::string messages;
  for (const std::string& each : messages_) messages += each;
  shorten(output, kMostTail);
  Examiner* examiner = examiner_of(host_);
  return fitting({{"format", 1},
                  {"versions", versions()},
                  {"options", options()},
                  {"environment", environment_json(host_.environment())},
                  {"shell_environment", environment_json(job::Environment::own())},
                  {"plan", plan(tasks)},
                  {"files", files()},
                  {"events", events_json(host_.events().events())},
                  {"doctor", examiner == nullptr ? Json() : examiner->last_look()},
                  {"output", record::text_without_secrets(output)},
                  {"messages", record::text_without_secrets(messages)}},
                 most);
}

}  // namespace nacre::plugins
