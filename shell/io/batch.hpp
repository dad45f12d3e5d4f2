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

// One stream of one task. Those who keep something for it know it by its address.
struct Source {
  std::uint32_t rank = 0;
  Stream stream = Stream::out;
  std::string label = {};  // before each of its lines where lines are labelled
  bool is_part = false;    // of what another source, of the same rank and stream, tells the end of
};

// Bytes of one source, in order, and no byte of another: `head`, then `body`. Valid during the call that passes it.
struct Batch {
  const Source* source = nullptr;
  double time = 0;  // seconds since the Epoch: when it was read
  std::string_view head = {};
  std::string_view body = {};
  bool continues = false;  // its first byte belongs to the line of the batch before
  bool open = false;       // its last byte is no newline, and what follows belongs to the same line

  [[nodiscard]] std::size_t size() const { return head.size() + body.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  // All of it in one piece, put together in `room` if it is in two.
  [[nodiscard]] std::string_view joined(std::string& room) const {
    if (head.empty()) return body;
    room.assign(head).append(body);
    return room;
  }
  [[nodiscard]] char last() const { return body.empty() ? head.back() : body.back(); }
};

}  // namespace nacre::io
