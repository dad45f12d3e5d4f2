// SPDX-License-Identifier: Apache-2.0
//
// The memory of another process, which changes while it is read and may hold anything: what is read has bounds.
// Pure: how it is read is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace nacre::doctor {

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
// Those of the text of /proc/PID/maps that `is_wanted` takes by their path, each once.
[[nodiscard]] std::vector<LoadedFile> loaded_files(std::string_view maps,
                                                   const std::function<bool(std::string_view path)>& is_wanted);

// The address of a symbol that a file exports, by its headers in the memory; 0: it exports none of this name.
[[nodiscard]] Result<std::uint64_t> exported_symbol(ProcessMemory& memory, std::uint64_t file,
                                                    std::string_view name);

}  // namespace nacre::doctor
