// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/process_facts.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "event/process_tree.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {
namespace {

std::string first_line(pid_t pid, const char* file) {
  std::string line;
  std::ifstream in(fmt::format("/proc/{}/{}", pid, file));
  std::getline(in, line);
  return line;
}

// The function of the kernel in which it waits; "" if unknown.
std::string place_of(pid_t pid) {
  std::string place = first_line(pid, "wchan");
  if (!place.empty() && place != "0") return place;
  // "[<0>] futex_wait_queue+0x60/0x90"
  std::string top = first_line(pid, "stack");
  auto start = top.find("] ");
  return start == std::string::npos ? "" : top.substr(start + 2, top.find('+', start) - start - 2);
}

std::string_view verb_of(char state) {
  switch (state) {
    case 'R': return "runs";
    case 'S': return "sleeps";
    case 'D': return "waits for a device";
    case 'T': return "is stopped";
    case 't': return "is traced";
    case 'Z':
    case 'X': return "has ended";
    default: return "is idle";
  }
}

bool is_mpi_library(std::string_view name) {
  return name.find(".so") != std::string_view::npos &&
         (name.starts_with("libmpi") || name.starts_with("libpmi") || name.starts_with("libopen-rte"));
}

}  // namespace

std::string activity_of(pid_t pid) {
  std::string place = place_of(pid);
  if (place == "do_wait") {
    std::vector<pid_t> below = event::descendants_of(pid, event::best_lookup());
    if (!below.empty()) {
      pid = below.front();
      place = place_of(pid);
    }
  }
  auto process = ProcessStat::of(pid);
  if (!process || process->name.empty()) return "gone";
  std::string out = fmt::format("{} {}", process->name, verb_of(process->state));
  if (!place.empty() && process->state != 'R') out += " in " + place;
  return out;
}

std::vector<std::string> mpi_libraries_of(pid_t pid) {
  std::set<std::string> found;
  std::ifstream in(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(in, line);) {
    auto slash = line.rfind('/');
    if (slash == std::string::npos) continue;
    std::string name = line.substr(slash + 1);
    if (is_mpi_library(name)) found.insert(std::move(name));
  }
  return {found.begin(), found.end()};
}

std::vector<std::string> folded(const std::vector<Said>& all) {
  std::vector<std::pair<value::Idset, const std::string*>> groups;
  for (const Said& said : all) {
    auto it =
        std::find_if(groups.begin(), groups.end(), [&](const auto& each) { return *each.second == said.second; });
    if (it == groups.end()) it = groups.insert(groups.end(), {value::Idset(), &said.second});
    it->first.insert(said.first);
  }
  std::vector<std::string> out;
  out.reserve(groups.size());
  for (const auto& [ranks, text] : groups) out.push_back(fmt::format("{}: {}", ranks.short_str(), *text));
  return out;
}

}  // namespace nacre::plugins
