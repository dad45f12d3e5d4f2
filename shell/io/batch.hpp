// SPDX-License-Identifier: Apache-2.0
//
// What a task wrote, on its way from the pipe to where it comes out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nacre::io {

enum class Stream : std::uint8_t { out, err };  // of a task: stdout, stderr
inline constexpr std::array kStreams{Stream::out, Stream::err};

[[nodiscard]] constexpr std::string_view name_of(Stream stream) {
  return stream == Stream::out ? "stdout" : "stderr";
}

// One stream of one task. Its address identifies it to those who keep something for it.
struct Source {
  std::uint32_t rank = 0;
  Stream stream = Stream::out;
  std::string label = {};  // comes before each of its lines if lines are labelled
  bool is_part = false;    // another source of the same rank and stream reports the stream's end
};

// Bytes of one source, in order: `head`, then `body`. They are valid during the call that passes them.
struct Batch {
  const Source* source = nullptr;
  double time = 0;  // seconds since the Epoch: when it was read
  std::string_view head = {};
  std::string_view body = {};
  bool continues = false;  // its first byte belongs to the line of the batch before
  bool open = false;       // its last byte is no newline, and what follows belongs to the same line

  [[nodiscard]] std::size_t size() const { return head.size() + body.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  // All bytes in one piece; they are joined in `room` if they are in two.
  [[nodiscard]] std::string_view joined(std::string& room) const {
    if (head.empty()) return body;
    room.assign(head).append(body);
    return room;
  }
  [[nodiscard]] char last() const { return body.empty() ? head.back() : body.back(); }
};

}  // namespace nacre::io
