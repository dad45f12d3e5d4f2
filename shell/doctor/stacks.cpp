// SPDX-License-Identifier: Apache-2.0
#include "doctor/stacks.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace nacre::doctor {
namespace {

constexpr std::size_t kMostFrames = 64;     // that are kept
constexpr std::size_t kMostTaken = 256;     // that a tool is asked for
constexpr std::size_t kMostFunction = 128;  // bytes of a name
constexpr std::array<std::string_view, 3> kTools = {"eu-stack", "gdb", "py-spy"};

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::any_of(list.begin(), list.end(), [&](std::string_view each) { return text.starts_with(each); });
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// "clock_nanosleep@@GLIBC_2.17" is clock_nanosleep.
std::string plain_function(std::string_view name) {
  std::string_view out = name.substr(0, name.find('@'));
  if (out == "??") return "";
  return std::string(out.substr(0, kMostFunction));
}

// "#1  0x000055e3555a3173 main - /tmp/r"; without symbols "#1  0x... - /tmp/r".
std::vector<StackFrame> frames_of_eu_stack(std::string_view text) {
  std::vector<StackFrame> out;
  for (std::string_view line : split(text, '\n')) {
    std::size_t address = line.find(" 0x");
    if (!line.starts_with('#') || address == std::string_view::npos) continue;
    std::string_view rest = line.substr(address + 1);
    rest = trim(rest.substr(std::min(rest.size(), rest.find(' '))));
    StackFrame frame;
    std::size_t dash = rest.rfind("- /");
    if (dash == std::string_view::npos) dash = rest.rfind("- [");  // [vdso: PID]
    if (dash != std::string_view::npos && (dash == 0 || rest[dash - 1] == ' ')) {
      frame.module = trim(rest.substr(dash + 2));
      rest = trim(rest.substr(0, dash));
    }
    frame.function = plain_function(rest);
    out.push_back(std::move(frame));
  }
  return out;
}

// "#1  0x... in main () at r.c:2", "#0  main (argc=1) at r.c:2", "#0  0x... in read () from /lib/libc.so.6".
std::vector<StackFrame> frames_of_gdb(std::string_view text) {
  std::vector<StackFrame> out;
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with('#')) continue;
    std::string_view rest = trim(line.substr(std::min(line.size(), line.find(' '))));
    if (rest.starts_with("0x")) {
      std::size_t in = rest.find(" in ");
      if (in == std::string_view::npos) continue;
      rest = rest.substr(in + 4);
    }
    StackFrame frame;
    std::size_t arguments = rest.find(" (");
    std::size_t from = rest.rfind(") from ");
    if (from != std::string_view::npos) frame.module = trim(rest.substr(from + 7));
    frame.function = plain_function(rest.substr(0, arguments));
    out.push_back(std::move(frame));
  }
  return out;
}

// "Thread 12 (idle): \"MainThread\"", then "    work (script.py:7)" for each frame; a blank line ends it.
std::vector<StackFrame> frames_of_py_spy(std::string_view text) {
  std::vector<StackFrame> out;
  bool in_main = false;
  for (std::string_view line : split(text, '\n')) {
    if (line.starts_with("Thread ")) {
      if (in_main) break;
      in_main = line.find("MainThread") != std::string_view::npos;
      continue;
    }
    if (!in_main || !line.starts_with("    ") || line.starts_with("        ")) continue;  // deeper: local variables
    std::string_view rest = trim(line);
    std::size_t place = rest.find(" (");
    StackFrame frame;
    frame.function = plain_function(rest.substr(0, place));
    if (place != std::string_view::npos && rest.ends_with(')')) {
      std::string_view where = rest.substr(place + 2, rest.size() - place - 3);
      frame.module = where.substr(0, where.rfind(':'));
    }
    out.push_back(std::move(frame));
  }
  return out;
}

bool is_before_main(std::string_view function) {
  return function == "_start" ||
         begins_with_any(function, {"__libc_start", "start_thread", "clone", "__clone", "generic_start_main"});
}

// What waits for other tasks inside.
bool is_communication(std::string_view function) {
  return begins_with_any(function, {"MPI_", "PMPI_", "mpi_", "pmpi_", "MPIX_", "PMI_", "PMI2_", "PMIx_", "shmem_",
                                    "nccl", "rccl", "gasnet", "upc_", "ucp_"});
}

bool is_of_system(std::string_view module) {
  std::string_view name = base_name(module);
  if (name.find(".so") == std::string_view::npos || name.starts_with("libpython")) return false;
  return begins_with_any(module, {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/lib32/"});
}

std::string text_of(const StackFrame& frame, std::string_view program) {
  std::string name = escape_controls(frame.function.empty() ? "?" : frame.function);
  if (frame.module.empty() || frame.module == program) return name;
  return fmt::format("{} ({})", name, escape_controls(base_name(frame.module)));
}

std::string_view module_in(std::string_view frame) {
  std::size_t at = frame.rfind(" (");
  return at == std::string_view::npos || !frame.ends_with(')') ? "" : frame.substr(at);
}

void add_text(const StackTree& node, std::size_t depth, std::string& out) {
  const StackTree* end = &node;
  std::vector<std::string> frames;
  if (!node.frame.empty()) frames.push_back(node.frame);
  while (end->below.size() == 1 && end->below[0].ranks == end->ranks) {
    end = &end->below[0];
    frames.push_back(end->frame);
  }
  std::string line = path_text(frames);
  constexpr std::size_t kMostRanks = 60;
  std::string ranks = node.ranks.str();
  if (ranks.size() > kMostRanks) ranks = ranks.substr(0, ranks.rfind(',', kMostRanks)) + ",...";
  if (!line.empty())
    out += fmt::format("{}{}  [{}: {}]\n", std::string(2 * depth, ' '), line, node.ranks.size(), ranks);
  for (const StackTree& each : end->below) add_text(each, line.empty() ? depth : depth + 1, out);
}

void sort(StackTree& node) {
  std::sort(node.below.begin(), node.below.end(), [](const StackTree& a, const StackTree& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : *a.ranks.first() < *b.ranks.first();
  });
  for (StackTree& each : node.below) sort(each);
}

}  // namespace

std::string_view name_of(StackTool tool) { return kTools.at(static_cast<std::size_t>(tool)); }

std::vector<std::string> command_of(StackTool tool, std::int64_t pid) {
  std::string number = std::to_string(pid);
  std::string most = std::to_string(kMostTaken);
  switch (tool) {
    case StackTool::eu_stack: return {"eu-stack", "-1", "-m", "-n", most, "-p", number};
    case StackTool::gdb:
      return {
          "gdb", "-p", number, "-batch", "-nx", "-iex", "set debuginfod enabled off", "-ex", "backtrace " + most};
    case StackTool::py_spy: break;
  }
  return {"py-spy", "dump", "--pid", number};
}

std::vector<StackFrame> frames_in(StackTool tool, std::string_view text) {
  switch (tool) {
    case StackTool::eu_stack: return frames_of_eu_stack(text);
    case StackTool::gdb: return frames_of_gdb(text);
    case StackTool::py_spy: break;
  }
  return frames_of_py_spy(text);
}

std::vector<std::string> comparable(const std::vector<StackFrame>& frames, std::string_view program) {
  std::vector<std::string> out;
  constexpr std::size_t kMostBeforeMain = 3;  // frames
  auto at = frames.rbegin();
  auto main =
      std::find_if(frames.rbegin(), frames.rend(), [](const StackFrame& each) { return each.function == "main"; });
  if (main != frames.rend()) {
    at = main;
  } else {  // without symbols: behind the last one that comes before it
    for (std::size_t i = 0; i < std::min(kMostBeforeMain, frames.size()); ++i) {
      if (is_before_main(frames[frames.size() - 1 - i].function)) at = frames.rbegin() + static_cast<int>(i) + 1;
    }
  }
  for (; at != frames.rend() && out.size() < kMostFrames; ++at) {
    out.push_back(text_of(*at, program));
    if (is_communication(at->function) || (at->module != program && is_of_system(at->module))) break;
  }
  return out;
}

std::string path_text(const std::vector<std::string>& stack) {
  std::string out;
  for (std::size_t i = 0; i < stack.size(); ++i) {
    std::string_view frame = stack[i];
    std::string_view module = module_in(frame);
    bool is_same = i + 1 < stack.size() && !module.empty() && module_in(stack[i + 1]) == module;
    if (is_same) frame.remove_suffix(module.size());
    out += fmt::format("{}{}", i == 0 ? "" : " > ", frame);
  }
  return out;
}

StackTree tree_of(const std::vector<TaskGroup>& groups) {
  StackTree root;
  for (const TaskGroup& group : groups) {
    if (group.fact.stack.empty()) continue;
    root.ranks.insert(group.ranks);
    StackTree* node = &root;
    for (const std::string& frame : group.fact.stack) {
      auto found = std::find_if(node->below.begin(), node->below.end(),
                                [&](const StackTree& each) { return each.frame == frame; });
      if (found == node->below.end()) found = node->below.insert(found, StackTree{frame, {}, {}});
      found->ranks.insert(group.ranks);
      node = &*found;
    }
  }
  sort(root);
  return root;
}

Json StackTree::json() const {
  Json out{{"frame", frame}, {"ranks", ranks.str()}, {"below", Json::array()}};
  for (const StackTree& each : below) out["below"].push_back(each.json());
  return out;
}

std::string StackTree::text() const {
  std::string out;
  add_text(*this, 0, out);
  return out;
}

}  // namespace nacre::doctor
