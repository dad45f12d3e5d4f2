// SPDX-License-Identifier: Apache-2.0
//
// CBOR (RFC 8949) as this protocol has it: see doc/protocol.md, "Encoding". Each value has one encoding, so what a message is
// made of can be taken from its bytes as they are, without a tree of values between: a barrier is a message or two for each shell.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "overlay/entry.hpp"

namespace nacre::overlay {

enum class CborKind : std::uint8_t { number, negative, bytes, text, array, map, flag };

// One value, whose bytes belong to whoever gave them.
struct CborItem {
  CborKind kind = CborKind::number;
  std::uint64_t count = 0;  // the number; of a negative one -1 less it; bytes, elements or pairs; of a flag 0 or 1
  std::string_view body;    // the bytes; elements or pairs, one after the other

  [[nodiscard]] const char* name() const;  // of its kind
};

// Whether these bytes are one value, encoded as it has to be.
Result<void> check_cbor(std::string_view bytes);
// Takes the first value off bytes of which check_cbor() has said so, or off the body of one of theirs.
CborItem take_cbor(std::string_view& bytes);

// The head of a value: its body is to follow.
void append_cbor(Bytes& out, CborKind kind, std::uint64_t count);
// A value of bytes or text.
void append_cbor(Bytes& out, CborKind kind, std::string_view body);

}  // namespace nacre::overlay
