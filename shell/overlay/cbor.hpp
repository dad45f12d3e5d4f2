// SPDX-License-Identifier: Apache-2.0
//
// CBOR (RFC 8949) as this protocol uses it: see doc/protocol.md, "Encoding". Each value has exactly one encoding,
// so the fields of a message can be read directly from its bytes, without building a tree of values. This matters:
// a barrier is a message or two for each shell.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "overlay/entry.hpp"

namespace nacre::overlay {

enum class CborKind : std::uint8_t { number, negative, bytes, text, array, map, flag };

// One value. It refers to bytes that the caller owns.
struct CborItem {
  CborKind kind = CborKind::number;
  // a number's value; of a negative one -1 minus the value; how many bytes, elements or pairs; of a flag 0 or 1
  std::uint64_t count = 0;
  std::string_view body;  // the bytes; or the elements or pairs, one after the other

  [[nodiscard]] const char* name() const;  // of the kind
};

// An error if these bytes are not one value in its only encoding.
Result<void> check_cbor(std::string_view bytes);
// Takes the first value off bytes that check_cbor() has accepted, or off the body of a value of theirs.
CborItem take_cbor(std::string_view& bytes);

// Appends the head of a value; the caller appends the body.
void append_cbor(Bytes& out, CborKind kind, std::uint64_t count);
// Appends a value of bytes or text.
void append_cbor(Bytes& out, CborKind kind, std::string_view body);

}  // namespace nacre::overlay
