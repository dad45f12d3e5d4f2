// SPDX-License-Identifier: Apache-2.0
#include "core/initrc_check.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/fingerprint.hpp"
#include "base/text.hpp"
#include "job/leavers.hpp"

namespace nacre::core {
namespace {

constexpr const char* kOption = "initrc-check";
constexpr std::string_view kOff = "off";
constexpr std::string_view kNone = "-";  // the fingerprint of nothing

struct Mark {
  std::string_view initrc;
  std::string_view drop_ins;

  static Mark of(std::string_view text) {
    std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return {text, ""};
    return {text.substr(0, blank), text.substr(blank + 1)};
  }
};

// "shell 1,3 on n[1,3]", or "shell 1,3" where R does not name all of these hosts.
std::string shells_text(const value::Idset& shells, const job::Job& job) {
  const value::Hostlist hosts = job::hosts_of(shells, job);
  if (hosts.size() < shells.size()) return "shell " + shells.short_str();
  return fmt::format("shell {} on {}", shells.short_str(), hosts.str());
}

std::string what_differs(const Mark& mark, const Mark& of_leader, const std::string& files) {
  if (mark.initrc == kNone) return fmt::format("has read none, and shell 0 has read {}", files);
  if (of_leader.initrc == kNone) return fmt::format("has read one, and shell 0 has no {}", files);
  return mark.initrc != of_leader.initrc ? "has another than shell 0" : "has other files in lua.d than shell 0";
}

}  // namespace

Result<std::string> initrc_mark(const job::Options& options, const script::Interpreter* interpreter) {
  if (auto option = options.at(kOption); option && option->json() != "on") {
    if (option->json() == kOff) return std::string(kOff);
    if (!TRY(options.flag(kOption))) return std::string(kOff);
  }
  Fingerprint initrc;
  Fingerprint drop_ins;
  if (interpreter != nullptr) {
    for (const auto& file : interpreter->files()) {
      if (file.of == script::Interpreter::FileOf::others) continue;
      Fingerprint& print = file.of == script::Interpreter::FileOf::initrc ? initrc : drop_ins;
      if (file.of == script::Interpreter::FileOf::drop_ins)
        print.add(std::filesystem::path(file.path).filename().native());
      print.add(TRY(read_file(file.path)));
    }
  }
  return fmt::format("{} {}", initrc.str(), drop_ins.str());
}

std::string initrc_files(const script::Interpreter* interpreter, const std::string& installed) {
  std::vector<std::string> out;
  if (interpreter != nullptr) {
    for (const auto& file : interpreter->files()) {
      if (file.of == script::Interpreter::FileOf::initrc) out.push_back(file.path);
    }
  }
  return out.empty() ? installed : fmt::format("{}", fmt::join(out, " and "));
}

Result<void> compare_initrcs(const plugin::Gathered& marks, const job::Job& job, const std::string& files) {
  std::string_view first;
  for (const auto& [text, shells] : marks) {
    if (shells.contains(0)) first = text;
  }
  if (first.empty() || first == kOff) return {};
  std::string differ;
  for (const auto& [text, shells] : marks) {
    if (text == first || text == kOff) continue;
    differ += fmt::format("{}{} {}", differ.empty() ? "" : "; ", shells_text(shells, job),
                          what_differs(Mark::of(text), Mark::of(first), files));
  }
  if (differ.empty()) return {};
  return invalid(fmt::format("initrc: {}: install the same on all hosts, or run with -o initrc-check=off", differ));
}

}  // namespace nacre::core
