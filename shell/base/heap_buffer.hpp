// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace nacre {

// `N` bytes for one read, which are not set before. On the heap: a shell has the stack that its user's limit leaves
// it, which may be 64 KiB (`ulimit -s`), and -Wframe-larger-than refuses an array of that size on it.
template <std::size_t N>
class HeapBuffer {
 public:
  [[nodiscard]] char* data() { return bytes_.get(); }
  [[nodiscard]] static constexpr std::size_t size() { return N; }

 private:
  std::unique_ptr<char[]> bytes_ = std::make_unique_for_overwrite<char[]>(N);
};

}  // namespace nacre
