// SPDX-License-Identifier: Apache-2.0
//
// Files that are read and written as a whole: jobspecs, R, hostfiles.
#pragma once

#include "base/result.hpp"

namespace nacre {

class UniqueFd;

inline constexpr std::size_t kMaxInputFile = std::size_t{256} << 20;  // bytes

// All bytes of `path` ("-": standard input). Errors name the path: missing, a directory, larger than `limit`.
Result<std::string> read_file(const std::string& path, std::size_t limit = kMaxInputFile);

// The same for a descriptor, from its position on; errors call it `name`.
Result<std::string> read_file(int fd, const std::string& name, std::size_t limit = kMaxInputFile);

// Writes all of `text` to `fd`, with as many write(2)s as needed; waits for room if it is non-blocking. Returns 0,
// or the errno of the write that failed.
[[nodiscard]] int write_all(int fd, std::string_view text);

// The same at an offset of a file, by pwrite(2).
[[nodiscard]] int write_all_at(int fd, std::string_view text, std::uint64_t offset);

// A new file of that directory, for reading and writing, that has no name: neither another process nor another host
// that shares the directory meets it, and nothing of it stays. Empty, with errno, if none can be made.
[[nodiscard]] UniqueFd open_nameless(const std::string& directory);

// Whether a file of this name can be made or replaced; whether a device, FIFO or link can be written. An error
// names it.
Result<void> check_replaceable(const std::string& path);

// Whether this is the reading end of a pipe or FIFO that no process has open for writing any more. A FIFO that is
// opened anew then, as /proc/self/fd/N, is never reported as readable: reading it returns its rest, and its end.
[[nodiscard]] bool has_no_writer(int fd);

// Whether the descriptor is closed, or /dev/null.
[[nodiscard]] bool is_null(int fd);

// Removes a directory of this process's user with all that is in it, at any depth, with one or two descriptors.
// Follows no link, leaves file systems that are mounted there alone, and makes directories writable that their
// owner may not write to. Continues after an error, and returns the first one.
Result<void> remove_tree(const std::string& path);

// A short text that shows whether two hosts have the same bytes: FNV-1a of 64 bits. It is no protection against
// forgery.
class Fingerprint {
 public:
  // Each piece counts by itself: ("ab", "c") is not ("a", "bc").
  void add(std::string_view piece);
  [[nodiscard]] std::string str() const;  // 16 hexadecimal digits; "-" if nothing was added

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
  bool is_empty_ = true;
};

}  // namespace nacre
