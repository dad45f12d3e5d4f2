// SPDX-License-Identifier: Apache-2.0
//
// The keys that a manager keeps for the processes that it has started, by any protocol. With them the shells send
// each other:
//
//   nacre.shell  of each shell: its addresses
//   nacre.job    of shell 0: {"version", "protocol", "jobid", "arity", "secret"}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "boot/boot.hpp"

namespace nacre::boot {

class Keys {
 public:
  virtual ~Keys() = default;
  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t size() const = 0;
  // Values are printable ASCII. All processes can read what was put once all have passed the barrier.
  virtual Result<void> put(std::string_view key, std::string_view value) = 0;
  virtual Result<void> barrier() = 0;
  virtual Result<std::string> get(std::uint32_t owner, std::string_view key) = 0;
  virtual Result<void> finish() = 0;
};

// The whole way, also for a job of one shell. `seen` is the beginning of Boot::how: "pmi: PMI_FD is set".
Result<Boot> boot_by_keys(const BootRequest& request, Keys& keys, Way way, const char* seen);

}  // namespace nacre::boot
