// SPDX-License-Identifier: Apache-2.0
//
// What the leader says to all shells when nobody takes a stream's output any more: one byte, as doc/protocol.md, "Channels".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/batch.hpp"

namespace nacre::plugins {

[[nodiscard]] inline std::string closing(io::Stream stream) { return {static_cast<char>(stream)}; }

// None: it is no such record.
[[nodiscard]] inline std::optional<io::Stream> closed_stream(std::string_view record) {
  for (io::Stream stream : io::kStreams) {
    if (record == closing(stream)) return stream;
  }
  return std::nullopt;
}

}  // namespace nacre::plugins
