// SPDX-License-Identifier: Apache-2.0
//
// What a task wrote, on its way from the pipe to where it comes out.
#pragma once

#include "base/usual.hpp"

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

// Cuts what one source writes into batches: whole lines, blocks, or each read as it comes. It adds nothing and
// loses nothing.

// none: each read is a batch. line: whole lines. block: whole lines, once there are kBlock bytes of them.
enum class Buffering { none, line, block };

class Assembler {
 public:
  // A longer line comes in parts, of which all but the last are `open`.
  static constexpr std::size_t kMaxLine = std::size_t{1} << 20;  // bytes
  static constexpr std::size_t kBlock = std::size_t{64} << 10;   // bytes

  using Take = std::function<void(const Batch&)>;

  // `source` must outlive it.
  Assembler(const Source& source, Buffering buffering) : source_(source), buffering_(buffering) {}

  // Passes on what is ready, in at most two batches, and keeps the rest.
  void add(std::string_view bytes, double time, const Take& take);
  // Passes on the whole lines that it keeps, if anything.
  void put_lines(double time, const Take& take);
  // Passes on what is left, if anything.
  void end(double time, const Take& take);

  [[nodiscard]] std::size_t kept() const { return kept_.size(); }

 private:
  void pass(std::string_view body, double time, bool open, const Take& take);

  const Source& source_;
  Buffering buffering_;
  bool midline_ = false;  // the last byte that was passed on was not a newline
  std::string kept_;
};

}  // namespace nacre::io
