// SPDX-License-Identifier: Apache-2.0
//
// The stacks of a program in Python, from the memory of its interpreter: CPython 3.11, 3.12 and 3.13 of 64
// bits. The process goes on while it is read, so each stack is read twice, and what differs is not reported.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "doctor/process_memory.hpp"
#include "doctor/stacks.hpp"

namespace nacre::doctor {

struct PythonStacks {
  static constexpr std::size_t kMostInterpreters = 16;
  static constexpr std::size_t kMostThreads = 256;                      // of one interpreter
  static constexpr std::size_t kMostDepth = 2048;                       // functions of one stack
  static constexpr std::size_t kMostCharacters = 1024;                  // of a name of a function or a file
  static constexpr std::size_t kMostLineTable = std::size_t{64} << 10;  // bytes, of one function
  static constexpr int kMostTries = 5;                                  // until a stack is twice the same

  std::vector<ThreadStack> threads;            // those that run functions of Python
  std::map<std::int64_t, std::string> unread;  // threads, and why they are not
  std::int64_t lock_holder = 0;  // the thread that has the interpreter's lock, the GIL; 0: none, or unknown
  bool may_have_more = false;    // there are more than is read
};

// `files`: those of the process in which an interpreter may be. An error says why its functions are not known.
[[nodiscard]] Result<PythonStacks> python_stacks(const ReadMemory& read, const std::vector<LoadedFile>& files);

// Whether an interpreter of Python may be in a program or library of this path.
[[nodiscard]] bool may_be_python(std::string_view path);

// The line of a function at so many bytes of its code, by the table that its code object has; 0: it has none
// there. None: the code ends before.
[[nodiscard]] std::optional<std::uint32_t> python_line(std::string_view table, std::uint32_t first_line,
                                                       std::uint64_t at);

}  // namespace nacre::doctor
