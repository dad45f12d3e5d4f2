// SPDX-License-Identifier: Apache-2.0
//
// Messages as bytes: a CBOR map in a frame, before which a link puts its length. doc/protocol.md defines it byte by
// byte.
//
// Each message has one encoding, and decode() refuses any other: encode() of a decoded message gives the same
// bytes.
#pragma once

#include "overlay/message.hpp"

namespace nacre::overlay {

inline constexpr std::size_t kMaxFrame = std::size_t{1} << 20;   // bytes
inline constexpr std::size_t kMaxData = std::size_t{512} << 10;  // bytes of one data field
inline constexpr std::size_t kMaxText = 1024;                    // bytes of one text field, printable ASCII
inline constexpr std::size_t kMaxIds = std::size_t{256} << 10;   // bytes of the text of an idset
inline constexpr std::size_t kSplitIds = kMaxIds / 2;            // a longer idset is sent in parts
inline constexpr std::size_t kMaxList = std::size_t{1} << 16;    // elements
inline constexpr int kMaxDepth = 8;                              // maps and arrays within each other

// EMSGSIZE if it would be longer than kMaxFrame.
Result<Bytes> encode(const Message& message);
// Decodes one frame. An error reads `TYPE: FIELD: why`.
Result<Message> decode(std::string_view frame);

}  // namespace nacre::overlay
