// SPDX-License-Identifier: Apache-2.0
//
// Why a task has failed, where its last words are those of NCCL, CUDA, HIP, the driver, Gloo, torch.distributed
// or a framework that has run out of memory: a table of texts, each of which stands for a reason. nacre-exits(7),
// "REASONS", has the reasons for people.
#pragma once

#include <span>
#include <string_view>

#include "exits/blame.hpp"

namespace nacre::exits {

struct KnownReason {
  std::string_view name;   // one word: "gpu-memory"
  std::string_view words;  // for people, what it means
  Origin origin;           // of a failure of this reason
};

// All that there are. Those come first that others follow from.
[[nodiscard]] std::span<const KnownReason> known_reasons();
// null: there is none of this name.
[[nodiscard]] const KnownReason* reason_named(std::string_view name);
// The first of them that one of the last lines says; null: none does. `err`: the last bytes of standard error.
[[nodiscard]] const KnownReason* reason_in(std::string_view err);

}  // namespace nacre::exits
