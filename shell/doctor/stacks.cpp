// SPDX-License-Identifier: Apache-2.0
#include "doctor/stacks.hpp"

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

// "0x000055e3555a3173 main": 0 if it begins with no address.
std::uint64_t address_at(std::string_view text) {
  if (!text.starts_with("0x")) return 0;
  return std::strtoull(std::string(text.substr(0, text.find(' '))).c_str(), nullptr, 16);
}

// "#1  0x000055e3555a3173 main - /tmp/r"; without symbols "#1  0x... - /tmp/r".
std::optional<StackFrame> frame_of_eu_stack(std::string_view line) {
  std::size_t address = line.find(" 0x");
  if (!line.starts_with('#') || address == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(address + 1);
  StackFrame frame;
  frame.at = address_at(rest);
  rest = trim(rest.substr(std::min(rest.size(), rest.find(' '))));
  std::size_t dash = rest.rfind("- /");
  if (dash == std::string_view::npos) dash = rest.rfind("- [");  // [vdso: PID]
  if (dash != std::string_view::npos && (dash == 0 || rest[dash - 1] == ' ')) {
    frame.module = trim(rest.substr(dash + 2));
    rest = trim(rest.substr(0, dash));
  }
  frame.function = plain_function(rest);
  return frame;
}

// "#1  0x... in main () at r.c:2", "#0  main (argc=1) at r.c:2", "#0  0x... in read () from /lib/libc.so.6".
std::optional<StackFrame> frame_of_gdb(std::string_view line) {
  if (!line.starts_with('#')) return std::nullopt;
  std::string_view rest = trim(line.substr(std::min(line.size(), line.find(' '))));
  StackFrame frame;
  if (rest.starts_with("0x")) {
    std::size_t in = rest.find(" in ");
    if (in == std::string_view::npos) return std::nullopt;
    frame.at = address_at(rest);
    rest = rest.substr(in + 4);
  }
  std::size_t arguments = rest.find(" (");
  std::size_t from = rest.rfind(") from ");
  if (from != std::string_view::npos) frame.module = trim(rest.substr(from + 7));
  frame.function = plain_function(rest.substr(0, arguments));
  return frame;
}

// "    work (script.py:7)"; deeper are local variables.
std::optional<StackFrame> frame_of_py_spy(std::string_view line) {
  if (!line.starts_with("    ") || line.starts_with("        ")) return std::nullopt;
  std::string_view rest = trim(line);
  std::size_t place = rest.find(" (");
  StackFrame frame;
  frame.function = plain_function(rest.substr(0, place));
  if (place == std::string_view::npos || !rest.ends_with(')')) return frame;
  std::string_view where = rest.substr(place + 2, rest.size() - place - 3);
  std::size_t colon = where.rfind(':');
  frame.module = where.substr(0, colon);
  if (colon != std::string_view::npos)
    frame.line = static_cast<std::uint32_t>(parse_u64(where.substr(colon + 1)).value_or(0));
  return frame;
}

std::int64_t number_behind(std::string_view line, std::string_view words) {
  std::size_t at = line.find(words);
  if (at == std::string_view::npos) return 0;
  std::string_view rest = line.substr(at + words.size());
  return parse_i64(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(0);
}

// A line before the stack of a thread: "TID 5:"; "Thread 2 (Thread 0x7f3009e9d6c0 (LWP 5) "name"):", "Thread 1
// (process 5):"; "Thread 5 (idle): "MainThread"", in older versions with another number in hex.
std::optional<ThreadStack> thread_at(StackTool tool, std::string_view line) {
  ThreadStack out;
  if (!line.starts_with(tool == StackTool::eu_stack ? "TID " : "Thread ")) return std::nullopt;
  switch (tool) {
    case StackTool::eu_stack: out.tid = number_behind(line, "TID "); break;
    case StackTool::gdb: out.tid = std::max(number_behind(line, "(LWP "), number_behind(line, "(process ")); break;
    case StackTool::py_spy:
      if (!line.starts_with("Thread 0x")) out.tid = number_behind(line, "Thread ");
      out.is_main = line.find("\"MainThread\"") != std::string_view::npos;
      break;
  }
  return out;
}

std::optional<StackFrame> frame_at(StackTool tool, std::string_view line) {
  switch (tool) {
    case StackTool::eu_stack: return frame_of_eu_stack(line);
    case StackTool::gdb: return frame_of_gdb(line);
    case StackTool::py_spy: break;
  }
  return frame_of_py_spy(line);
}

bool is_before_main(std::string_view function) {
  return function == "_start" ||
         begins_with_any(function, {"__libc_start", "start_thread", "clone", "__clone", "generic_start_main"});
}

// Whether a function waits for other tasks inside.
bool is_communication(std::string_view function) {
  return begins_with_any(function, {"MPI_", "PMPI_", "mpi_", "pmpi_", "MPIX_", "PMI_", "PMI2_", "PMIx_", "shmem_",
                                    "nccl", "rccl", "gasnet", "upc_", "ucp_"});
}

constexpr std::string_view kTorchScript = "distributed_c10d.py";

// For a Python program there are only the functions of scripts.
bool is_communication(const StackFrame& frame) {
  return frame.line == 0 ? is_communication(frame.function) : base_name(frame.module) == kTorchScript;
}

bool is_python(std::string_view module) { return begins_with_any(base_name(module), {"python", "libpython"}); }

// Whether the interpreter itself calls the function to run a script.
bool is_interpreting(const StackFrame& frame) {
  if (!is_python(frame.module)) return false;
  return frame.function.empty() ||
         begins_with_any(
             frame.function,
             {"Py",      "_Py",          "pymain_",         "pyrun_",        "run_",        "cfunction_",
              "method_", "builtin_exec", "builtin___build", "vectorcall",    "_vectorcall", "object_",
              "slot_",   "partial_",     "type_call",       "call_function", "do_call",     "function_",
              "gen_",    "import_",      "trampoline_"});
}

bool is_of_system(std::string_view module) {
  std::string_view name = base_name(module);
  if (name.find(".so") == std::string_view::npos || name.starts_with("libpython")) return false;
  return begins_with_any(module, {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/lib32/"});
}

std::string text_of(const StackFrame& frame, std::string_view program) {
  std::string name = escape_controls(frame.function.empty() ? "?" : frame.function);
  if (frame.module.empty() || frame.module == program) return name;
  std::string line = frame.line == 0 ? "" : fmt::format(":{}", frame.line);
  return fmt::format("{} ({}{})", name, escape_controls(base_name(frame.module)), line);
}

// From the outermost function that is compared to the innermost one, both included.
std::vector<StackFrame> compared(const std::vector<StackFrame>& frames, std::string_view program) {
  std::vector<StackFrame> out;
  constexpr std::size_t kMostBeforeMain = 3;  // frames
  auto at = frames.rbegin();
  auto main =
      std::find_if(frames.rbegin(), frames.rend(), [](const StackFrame& each) { return each.function == "main"; });
  if (!frames.empty() && frames.back().line != 0) {
    at = frames.rbegin();  // a script begins with its module
  } else if (main != frames.rend()) {
    at = main;
  } else {  // without symbols: behind the last one that comes before it
    for (std::size_t i = 0; i < std::min(kMostBeforeMain, frames.size()); ++i) {
      if (is_before_main(frames[frames.size() - 1 - i].function)) at = frames.rbegin() + static_cast<int>(i) + 1;
    }
  }
  for (; at != frames.rend() && out.size() < kMostFrames; ++at) {
    out.push_back(*at);
    if (is_communication(*at) || (at->module != program && is_of_system(at->module))) break;
  }
  return out;
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
  constexpr std::size_t kMostBytes = 60;
  std::string ranks = node.ranks.str();
  if (ranks.size() > kMostBytes) ranks = ranks.substr(0, ranks.rfind(',', kMostBytes)) + ",...";
  if (!line.empty())
    out += fmt::format("{}{}  [{}: {}]\n", std::string(2 * depth, ' '), line, node.ranks.size(), ranks);
  for (const StackTree& each : end->below) add_text(each, line.empty() ? depth : depth + 1, out);
}

void add(StackTree& root, const value::Idset& ranks, const std::vector<std::string>& stack) {
  if (stack.empty()) return;
  root.ranks.insert(ranks);
  StackTree* node = &root;
  for (const std::string& frame : stack) {
    auto found = std::find_if(node->below.begin(), node->below.end(),
                              [&](const StackTree& each) { return each.frame == frame; });
    if (found == node->below.end()) found = node->below.insert(found, StackTree{frame, {}, {}});
    found->ranks.insert(ranks);
    node = &*found;
  }
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
    case StackTool::eu_stack: return {"eu-stack", "-m", "-n", most, "-p", number};
    case StackTool::gdb:
      return {"gdb",
              "-p",
              number,
              "-batch",
              "-nx",
              "-iex",
              "set debuginfod enabled off",
              "-ex",
              "thread apply all backtrace " + most};
    case StackTool::py_spy: break;
  }
  return {"py-spy", "dump", "--pid", number};
}

std::vector<ThreadStack> stacks_in(StackTool tool, std::string_view text) {
  std::vector<ThreadStack> out;
  bool may_begin = tool != StackTool::py_spy;  // a tool that is asked for one thread has no line for it
  for (std::string_view line : split(text, '\n')) {
    if (auto thread = thread_at(tool, line)) {
      out.push_back(*std::move(thread));
      continue;
    }
    auto frame = frame_at(tool, line);
    if (!frame || (out.empty() && !may_begin)) continue;
    if (out.empty()) out.emplace_back();
    out.back().frames.push_back(*std::move(frame));
  }
  std::erase_if(out, [](const ThreadStack& each) { return each.frames.empty(); });
  return out;
}

const ThreadStack* stack_of(const std::vector<ThreadStack>& stacks, std::int64_t tid) {
  auto found =
      std::find_if(stacks.begin(), stacks.end(), [&](const auto& each) { return each.tid == tid && tid != 0; });
  if (found == stacks.end())
    found = std::find_if(stacks.begin(), stacks.end(), [](const ThreadStack& each) { return each.is_main; });
  if (found != stacks.end()) return &*found;
  return stacks.empty() ? nullptr : stacks.data();
}

std::vector<std::string> comparable(const std::vector<StackFrame>& frames, std::string_view program, bool runs) {
  std::vector<std::string> out;
  bool has_interpreter = false;
  std::vector<StackFrame> all = compared(frames, program);
  if (runs && !all.empty() && !is_communication(all.back())) all.back().line = 0;
  for (StackFrame& each : all) {
    if (is_interpreting(each)) {
      if (std::exchange(has_interpreter, true)) continue;
      each.function = "_PyEval_EvalFrameDefault";
    }
    out.push_back(text_of(each, program));
  }
  return out;
}

std::string script_place(const std::vector<StackFrame>& frames) {
  for (const StackFrame& each : frames) {
    if (each.line != 0) return fmt::format("{}:{}", each.module, each.line);
  }
  return "";
}

Steps steps_between(const std::vector<StackFrame>& first, const std::vector<StackFrame>& second,
                    std::string_view program) {
  constexpr std::uint64_t kShortLoop = 64;  // bytes of code
  auto before = compared(first, program);
  auto after = compared(second, program);
  if (before.empty() || after.empty()) return Steps::unknown;
  if (before.size() != after.size()) return Steps::some;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const StackFrame &a = before[i], &b = after[i];
    if (a.function != b.function || a.module != b.module) return Steps::some;
    bool is_innermost = i + 1 == before.size();
    bool is_cut = is_innermost && (is_communication(a) || (a.module != program && is_of_system(a.module)));
    if (a.line != b.line && !is_cut) return Steps::some;
    if (a.at == 0 || b.at == 0) continue;
    std::uint64_t apart = a.at > b.at ? a.at - b.at : b.at - a.at;
    if (!is_cut && apart > (is_innermost ? kShortLoop : 0)) return Steps::some;
  }
  return Steps::none;
}

bool is_in_communication(const std::vector<std::string>& stack) {
  if (stack.empty()) return false;
  if (is_communication(stack.back())) return true;
  std::string_view module = module_in(stack.back());
  module.remove_prefix(std::min<std::size_t>(module.size(), 2));  // " ("
  return module.starts_with(kTorchScript) && module.find_first_of(":)") == kTorchScript.size();
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
    add(root, group.ranks, group.fact.stack);
    for (const auto& each : group.fact.others) add(root, group.ranks, each);
  }
  sort(root);
  return root;
}

std::string StackTree::text() const {
  std::string out;
  add_text(*this, 0, out);
  return out;
}

}  // namespace nacre::doctor
