// SPDX-License-Identifier: Apache-2.0
//
// The memory of a process that may run Python, by pieces: the address of its file in 8 bytes, and then of each
// piece its address in 8 bytes, its size in 2, and its bytes. What is read of it has bounds.

#include "doctor/python_stacks.hpp"
#include "require.hpp"

using nacre::fuzz::require;
using namespace nacre::doctor;  // NOLINT

namespace {

template <typename T>
T taken(std::string_view& rest) {
  T out{};
  std::memcpy(&out, rest.data(), std::min(sizeof out, rest.size()));
  rest.remove_prefix(std::min(sizeof out, rest.size()));
  return out;
}

void check(const PythonStacks& found) {
  require(!found.threads.empty(), "at least one thread");
  require(found.threads.size() <= PythonStacks::kMostInterpreters * PythonStacks::kMostThreads, "so many threads");
  constexpr std::size_t kMostBytes = 4;  // of a character
  for (const ThreadStack& thread : found.threads) {
    require(!thread.frames.empty() && thread.frames.size() <= PythonStacks::kMostDepth, "so many functions");
    for (const StackFrame& each : thread.frames) {
      require(each.function.size() <= PythonStacks::kMostCharacters * kMostBytes, "a name");
      require(each.module.size() <= PythonStacks::kMostCharacters * kMostBytes, "a file");
    }
    static_cast<void>(comparable(thread.frames, "", true));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  static_cast<void>(python_line(rest, 1, size));
  auto file = taken<std::uint64_t>(rest);
  std::map<std::uint64_t, std::string_view> pieces;
  while (!rest.empty()) {
    auto address = taken<std::uint64_t>(rest);
    std::size_t bytes = std::min<std::size_t>(taken<std::uint16_t>(rest), rest.size());
    pieces[address] = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  std::size_t reads = 0;
  auto read = [&](std::uint64_t address, void* to, std::size_t count) -> nacre::Result<void> {
    require(++reads <= ProcessMemory::kMostReads && count <= ProcessMemory::kMostBytes, "so much is read");
    auto piece = pieces.upper_bound(address);
    if (piece == pieces.begin()) return nacre::invalid("no memory");
    --piece;
    std::uint64_t at = address - piece->first;
    if (at > piece->second.size() || piece->second.size() - at < count) return nacre::invalid("no memory");
    std::memcpy(to, piece->second.data() + at, count);
    return {};
  };
  auto found = python_stacks(read, {{"python3", file}});
  if (found) check(*found);
  if (!found) require(!found.error().message.empty(), "says why");
  return 0;
}
