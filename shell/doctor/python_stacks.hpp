// SPDX-License-Identifier: Apache-2.0
//
// The stacks of a program in Python, from the memory of its interpreter: CPython 3.11, 3.12 and 3.13 of 64
// bits. The process goes on while it is read, so each stack is read twice, and what differs is not reported.
// Pure.
#pragma once

#include "doctor/stacks.hpp"

namespace nacre::doctor {

// The memory of another process, which changes while it is read and may hold anything: reads have limits. Pure: the
// caller gives the function that reads.

// Copies all `size` bytes at `address`; an error if any of them cannot be read.
using ReadMemory = std::function<Result<void>(std::uint64_t address, void* to, std::size_t size)>;

class ProcessMemory {
 public:
  static constexpr std::size_t kMostReads = 100'000;                 // in all
  static constexpr std::size_t kMostBytes = std::size_t{256} << 10;  // of one read

  explicit ProcessMemory(ReadMemory read) : read_(std::move(read)) {}

  template <typename T>
  Result<T> at(std::uint64_t address) {
    static_assert(std::is_trivially_copyable_v<T>);
    T out{};
    CHECK_OK(copy(address, &out, sizeof out));
    return out;
  }
  Result<std::string> bytes(std::uint64_t address, std::size_t size);
  // Up to its zero byte, which is among the first `most`.
  Result<std::string> text(std::uint64_t address, std::size_t most);

 private:
  Result<void> copy(std::uint64_t address, void* to, std::size_t size);

  ReadMemory read_;
  std::size_t reads_ = 0;
};

// A program or library that a process has loaded.
struct LoadedFile {
  std::string path;
  std::uint64_t at = 0;  // where its first bytes are

  bool operator==(const LoadedFile&) const = default;
};
// The files in the text of /proc/PID/maps whose paths `is_wanted` accepts, each once.
[[nodiscard]] std::vector<LoadedFile> loaded_files(std::string_view maps,
                                                   const std::function<bool(std::string_view path)>& is_wanted);

// The address of a symbol that a file exports, by its headers in the memory; 0: it exports none of this name.
[[nodiscard]] Result<std::uint64_t> exported_symbol(ProcessMemory& memory, std::uint64_t file,
                                                    std::string_view name);

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
  bool may_have_more = false;    // there are more threads than were read
};

// `files`: the process's files that may have an interpreter. An error says why its functions are not known.
[[nodiscard]] Result<PythonStacks> python_stacks(const ReadMemory& read, const std::vector<LoadedFile>& files);

// Whether an interpreter of Python may be in a program or library of this path.
[[nodiscard]] bool may_be_python(std::string_view path);

// The line of a function at so many bytes of its code, by the table that its code object has; 0: it has none
// there. None: the code ends before.
[[nodiscard]] std::optional<std::uint32_t> python_line(std::string_view table, std::uint32_t first_line,
                                                       std::uint64_t at);

}  // namespace nacre::doctor
