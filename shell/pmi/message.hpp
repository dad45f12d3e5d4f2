// SPDX-License-Identifier: Apache-2.0
//
// One message of the process management interface, in either wire protocol: a command and fields.
//
// PMI-1 (Flux RFC 13, MPICH's pmi-1.1.txt): a line "cmd=NAME KEY=VALUE ...", in any order. Words are separated by
// blanks; the value of `value`, `message` and `error_msg` is the rest of the line, passed on unchanged. A spawn
// has several lines, from "mcmd=spawn" to "endcmd", each of them one field.
// PMI-2 (MPICH's pmi-2.0.txt): six characters of length, then "cmd=NAME;KEY=VALUE;...". A ';' within a value is
// doubled.
#pragma once

#include "base/result.hpp"

namespace nacre::pmi {

inline constexpr std::size_t kLengthSize = 6;  // of PMI-2: decimal digits, blanks around them allowed

class PmiMessage {
 public:
  struct Field {
    std::string_view key;
    std::string_view value;
  };

  // For all three: the message has views into `text`, which has to outlive it. An error is one line, with the
  // faulty text.
  static Result<PmiMessage> parse_line(std::string_view text);   // PMI-1, without its newline
  static Result<PmiMessage> parse_spawn(std::string_view text);  // lines from "mcmd=spawn", without "endcmd"
  static Result<PmiMessage> parse_body(std::string_view text);   // PMI-2, without its length

  [[nodiscard]] std::string_view command() const { return command_; }
  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  // The first field of that name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key) const;
  // Errors name the command and the key.
  [[nodiscard]] Result<std::string_view> word(std::string_view key) const;  // not empty
  [[nodiscard]] Result<std::string_view> text(std::string_view key) const;  // may be empty
  [[nodiscard]] Result<std::int64_t> integer(std::string_view key) const;

 private:
  std::string_view command_;
  std::vector<Field> fields_;
  std::list<std::string> unescaped_;  // values of fields that are not in the text as they are
};

// A PMI-2 message: add() its fields, then finish().
class BodyWriter {
 public:
  // Appends to `out`.
  BodyWriter(std::string& out, std::string_view command);
  BodyWriter& add(std::string_view key, std::string_view value);  // doubles each ';'
  BodyWriter& add(std::string_view key, std::int64_t value);
  BodyWriter& flag(std::string_view key, bool value);  // writes TRUE or FALSE
  void finish();                                       // writes the length in front

 private:
  std::string& out_;
  std::size_t start_;
};

// `text` without the backslashes that escape a character: this is how MPICH 4.1 and later read PMI-1.
[[nodiscard]] std::string unescape(std::string_view text);

// Cuts what one client sends into messages: lines (from "mcmd=spawn" to "endcmd" several lines are one) until
// counted() is called; from then on PMI-2 messages, each after its length.

inline constexpr std::size_t kMaxMessage = std::size_t{64} << 10;  // bytes of a line, or of a PMI-2 message
inline constexpr std::size_t kMaxSpawn = std::size_t{1} << 20;     // bytes of a spawn in PMI-1
inline constexpr std::size_t kMaxGroup = std::size_t{1} << 20;     // bytes of a line that names a barrier's ranks

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
