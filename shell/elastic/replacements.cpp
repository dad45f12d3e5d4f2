// SPDX-License-Identifier: Apache-2.0
#include "elastic/replacements.hpp"

#include <fmt/format.h>

namespace nacre::elastic {
namespace {

std::string count_of(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string text_of(Replacements::Room room, bool with_gpus) {
  std::string out = count_of(room.cores, "core");
  return with_gpus ? fmt::format("{} and {}", out, count_of(room.gpus, "gpu")) : out;
}

}  // namespace

Result<std::uint32_t> Replacements::choose(std::span<const Spare> spares, Room needed) {
  std::string too_small;
  for (const Spare& each : spares) {
    if (promised_.contains(each.shell)) continue;
    if (each.room.cores >= needed.cores && each.room.gpus >= needed.gpus) {
      promised_.insert(each.shell);
      return each.shell;
    }
    if (too_small.empty())
      too_small = fmt::format("the spare shell {} has {}, and they need {}", each.shell,
                              text_of(each.room, needed.gpus > 0), text_of(needed, needed.gpus > 0));
  }
  return Error{ENOENT, too_small.empty() ? "there is no spare left" : too_small};
}

}  // namespace nacre::elastic
