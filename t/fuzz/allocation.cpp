// SPDX-License-Identifier: Apache-2.0
//
// The first byte says which form the rest is read in. What is read has each host once, as a name that can be
// written down and read again; an error names where it is.
#include "boot/allocation.hpp"

#include <fstream>

#include <unistd.h>

#include "require.hpp"

using nacre::fuzz::require;
using namespace nacre::boot;  // NOLINT

namespace {

void require_sound(const Allocation& found) {
  require(!found.hosts.empty() && found.hosts.size() <= Allocation::kMaxHosts, "as many hosts as there may be");
  std::set<std::string> names;
  for (const auto& [name, slots] : found.hosts) {
    require(names.insert(name).second, "named once: " + name);
    require(slots <= Allocation::kMaxSlots, "slots within the limit: " + name);
    auto again = hosts_of_list(name);
    require(again && again->hosts.size() == 1 && again->hosts[0].name == name, "a name: " + name);
    if (names.size() == 64) return;
  }
}

// The file of one process, written anew for each input.
const std::string& file_of(std::string_view text) {
  static const std::string path = "/tmp/nacre-fuzz-allocation." + std::to_string(::getpid());
  static const int removed = std::atexit([] { std::remove(path.c_str()); });
  require(removed == 0, "room for an exit handler");
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
  return path;
}

void read_variable(const char* variable, const std::string& value, const std::string& more) {
  auto found = allocation_of([&](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == variable) return value;
    if (std::string_view(name) == "SLURM_TASKS_PER_NODE" && !more.empty()) return more;
    return std::nullopt;
  });
  if (!found) return require(found.error().message.find(": ") != std::string::npos, found.error().message);
  require(found->has_value(), "the variable is looked at");
  require_sound(**found);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0: {
      std::size_t newline = text.find('\n');
      read_variable("SLURM_JOB_NODELIST", text.substr(0, newline),
                    newline == std::string::npos ? "" : text.substr(newline + 1));
      break;
    }
    case 1: read_variable("PBS_NODEFILE", file_of(text), ""); break;
    case 2: read_variable("PE_HOSTFILE", file_of(text), ""); break;
    case 3: read_variable("LSB_MCPU_HOSTS", text, ""); break;
    case 4: {
      if (auto found = hosts_of_list(text)) require_sound(*found);
      break;
    }
    default: {
      if (auto found = hosts_of_file(file_of(text))) require_sound(*found);
    }
  }
  return 0;
}
