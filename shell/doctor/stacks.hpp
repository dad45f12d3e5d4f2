// SPDX-License-Identifier: Apache-2.0
//
// Stacks of tasks: what debuggers print of them, made comparable, and folded into one tree. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.hpp"
#include "doctor/facts.hpp"
#include "value/idset.hpp"

namespace nacre::doctor {

enum class StackTool : std::uint8_t { eu_stack, gdb, py_spy };
[[nodiscard]] std::string_view name_of(StackTool tool);  // as the program is called: "eu-stack"

// The words that print the stack of a process's first thread (py-spy: of its main thread).
[[nodiscard]] std::vector<std::string> command_of(StackTool tool, std::int64_t pid);

struct StackFrame {
  std::string function;  // without arguments and symbol versions; "": unknown
  std::string module;    // the file of the program or library, or the script; "": unknown

  bool operator==(const StackFrame&) const = default;
};
// From what such a command has printed: the innermost frame first. Empty: there is no stack in it.
[[nodiscard]] std::vector<StackFrame> frames_in(StackTool tool, std::string_view text);

// "function (library)" from the outermost function on, so that tasks at the same place have equal stacks: without
// what comes before main, without addresses, and cut below the first function of MPI and the like, or of a library
// of the system, as what that does inside changes from moment to moment. `program`: the file that the process
// executes, whose functions have no library. At most 64.
[[nodiscard]] std::vector<std::string> comparable(const std::vector<StackFrame>& frames, std::string_view program);

// "main > run (libapp.so) > read (libc.so.6)": of functions of one library that follow each other the last has it.
[[nodiscard]] std::string path_text(const std::vector<std::string>& stack);

// The stacks of all groups: each node has the ranks whose stacks go through it.
struct StackTree {
  std::string frame;  // "" of the root
  value::Idset ranks;
  std::vector<StackTree> below;  // those with the most ranks first

  [[nodiscard]] Json json() const;         // {"frame", "ranks", "below"}
  [[nodiscard]] std::string text() const;  // a line for each frame at which stacks part
};
[[nodiscard]] StackTree tree_of(const std::vector<TaskGroup>& groups);

}  // namespace nacre::doctor
