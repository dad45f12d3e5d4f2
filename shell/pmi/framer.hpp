// SPDX-License-Identifier: Apache-2.0
//
// Cuts what one client sends into messages: lines, and several lines at once from "mcmd=spawn" to "endcmd", until
// counted() is called; from then on PMI-2 messages, each after its length.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nacre::pmi {

inline constexpr std::size_t kMaxMessage = std::size_t{64} << 10;  // bytes of a line, or of a PMI-2 message
inline constexpr std::size_t kMaxSpawn = std::size_t{1} << 20;     // bytes of a spawn in PMI-1

struct Frame {
  enum class Kind { line, spawn, body };
  Kind kind = Kind::line;
  std::string_view text;  // without newline, "endcmd" or length
};

class Framer {
 public:
  void add(std::string_view bytes);
  // The next message, whose text is valid until the next add(); none: more bytes have to come. After an error (a
  // message beyond the limits, or a length that is not one) every later call fails.
  Result<std::optional<Frame>> next();
  void counted() { counted_ = true; }
  // The bytes that have come of an incomplete message.
  [[nodiscard]] std::string_view rest() const { return std::string_view(bytes_).substr(at_); }

 private:
  Result<std::optional<Frame>> next_line();
  Result<std::optional<Frame>> next_spawn();
  Result<std::optional<Frame>> next_body();

  std::string bytes_;
  std::size_t at_ = 0;       // where the next message starts
  std::size_t scanned_ = 0;  // there is no end of a line before this
  std::size_t line_ = 0;     // in a spawn: where its last line starts
  bool counted_ = false;
};

}  // namespace nacre::pmi
