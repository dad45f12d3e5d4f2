// SPDX-License-Identifier: Apache-2.0
//
// Makes stacks of tasks, as debuggers print them, comparable, and folds them into one tree. Pure.
#pragma once

#include "doctor/facts.hpp"

namespace nacre::doctor {

enum class StackTool : std::uint8_t { eu_stack, gdb, py_spy };
[[nodiscard]] std::string_view name_of(StackTool tool);  // as the program is called: "eu-stack"

// The words that print the stacks of all threads of a process.
[[nodiscard]] std::vector<std::string> command_of(StackTool tool, std::int64_t pid);

struct StackFrame {
  std::string function;    // without arguments and symbol versions; "": unknown
  std::string module;      // the file of the program or library, or the script; "": unknown
  std::uint64_t at = 0;    // the address at which it goes on; 0: unknown
  std::uint32_t line = 0;  // of a script; 0: it is of none, or unknown

  bool operator==(const StackFrame&) const = default;
};
struct ThreadStack {
  std::int64_t tid = 0;            // 0: unknown
  bool is_main = false;            // if the tool says so
  std::vector<StackFrame> frames;  // the innermost first; at least one

  bool operator==(const ThreadStack&) const = default;
};
// Parses what such a command has printed.
[[nodiscard]] std::vector<ThreadStack> stacks_in(StackTool tool, std::string_view text);
// The stack of this thread, or else of the main thread, or else the first; null: there is none.
[[nodiscard]] const ThreadStack* stack_of(const std::vector<ThreadStack>& stacks, std::int64_t tid);

// "function (library)", for scripts "function (file:line)", from the outermost function on, so that tasks at the
// same place have equal stacks: without functions before main, without addresses, and cut below the first function
// of MPI and the like, or of a system library, as what happens inside changes from moment to moment. Functions that
// a Python interpreter calls for itself count as one. `program`: the file that the process executes, whose
// functions have no library. At most 64. `runs`: the innermost function has no line, as that changes from moment to
// moment.
[[nodiscard]] std::vector<std::string> comparable(const std::vector<StackFrame>& frames, std::string_view program,
                                                  bool runs = false);

// The innermost place in a script of these frames: "/home/me/train.py:12"; "": there is none.
[[nodiscard]] std::string script_place(const std::vector<StackFrame>& frames);

// What two stacks of one thread show, taken one after the other: nothing if they differ only in what comparable()
// cuts, or in the place within the innermost function by less than a short loop.
[[nodiscard]] Steps steps_between(const std::vector<StackFrame>& first, const std::vector<StackFrame>& second,
                                  std::string_view program);

// Whether a stack of comparable() ends in a function, of MPI and the like, that waits for other tasks inside.
[[nodiscard]] bool is_in_communication(const std::vector<std::string>& stack);

// "main > run (libapp.so) > read (libc.so.6)": of consecutive functions of one library only the last names it.
[[nodiscard]] std::string path_text(const std::vector<std::string>& stack);

// The stacks of all groups: each node has the ranks whose stacks go through it.
struct StackTree {
  std::string frame;  // "" of the root
  value::Idset ranks;
  std::vector<StackTree> below;  // those with the most ranks first

  [[nodiscard]] std::string text() const;  // a line for each frame at which stacks part
};
[[nodiscard]] StackTree tree_of(const std::vector<TaskGroup>& groups);

}  // namespace nacre::doctor
