// SPDX-License-Identifier: Apache-2.0
//
// What a leader that is no child of its launcher sends it besides the job's output: messages on named channels, as
// lines within the agent's standard error. Each line is written by one write(2), and has at most kMaxLine bytes, so
// that neither other writers nor srun, which passes on lines of up to 1024 bytes, cut it:
//
//   RS TOKEN " " NUMBER " " CHANNEL " " MARK CHECK " " BYTES LF
//
//   RS      the byte 0x1e; the line may begin after bytes that are no line
//   TOKEN   from the launch record (Carriage); no other process knows it
//   NUMBER  1, 2, ... for all lines, in decimal, so that the reader notices a missing line
//   MARK    + if more of the message follows in the next line, else a dot
//   CHECK   FNV-1a (32 bits, 8 hexadecimal digits) of NUMBER, CHANNEL, MARK and BYTES, one after the other
//   BYTES   the message; those below 0x20, 0x7f and % as %XX
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nacre::launch {

// The carriage as the launch record has it.
struct Carriage {
  static constexpr std::size_t kToken = 32;       // hexadecimal digits
  static constexpr std::size_t kMaxChannel = 32;  // bytes: lower-case letters, digits, dots and dashes
  static constexpr std::size_t kMaxChannels = 8;
  // Channels of one message each: the shells have come together; the leader leaves, and nothing more of the job
  // comes. The latter has the job's exit code in decimal, or nothing where the leader exits with another
  // (--exit-local).
  static constexpr std::string_view kJoined = "joined";
  static constexpr std::string_view kEnded = "ended";
  // A message for each signal that the leader has read, its number in decimal: an agent such as srun reads all that
  // is written to it, whether the leader does or not.
  static constexpr std::string_view kSignal = "signal";

  std::string token;
  std::vector<std::string>
      channels;  // options of the leader: the value of each is a descriptor whose bytes are carried

  static Result<Carriage> with_new_token();
  // EINVAL: the token or the channels are not valid.
  [[nodiscard]] Result<void> check() const;
  bool operator==(const Carriage&) const = default;
};

class CarriageWriter {
 public:
  static constexpr std::size_t kMaxLine = 900;  // bytes, with its newline

  explicit CarriageWriter(std::string token) : token_(std::move(token)) {}
  // At least one line; the caller writes each as a whole.
  std::vector<std::string> lines(std::string_view channel, std::string_view message);

 private:
  std::string token_;
  std::uint64_t number_ = 0;
};

class CarriageReader {
 public:
  static constexpr std::size_t kMaxMessage = std::size_t{16} << 20;  // bytes

  struct Callbacks {
    // All bytes that are in no line, unchanged and at once; but the start of RS TOKEN waits for the bytes after it.
    std::function<void(std::string_view)> on_other;
    std::function<void(std::string_view channel, std::string_view message)> on_message;
    std::function<void()> on_loss;  // lines are missing or broken: their messages never come; may be called again
  };

  CarriageReader(const std::string& token, Callbacks callbacks);
  void take(std::string_view bytes);
  // Nothing more comes.
  void end();

 private:
  void add(char byte);
  void let_go();
  bool take_line();
  void take_piece(std::uint64_t number, std::string_view channel, bool more, std::string bytes);

  std::string mark_;  // each line begins with it
  Callbacks callbacks_;
  std::string held_;  // a line, or the start of mark_
  std::uint64_t number_ = 0;
  std::string channel_, message_;  // a message whose rest has not come yet
  bool is_within_ = false;
  bool skips_ = false;  // ignores the rest of an incomplete message
};

}  // namespace nacre::launch
