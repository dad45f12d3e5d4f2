// SPDX-License-Identifier: Apache-2.0
//
// How batches look where they come out.
//
//   text      the bytes as they are; each line may begin with the time and the source's label. If a line of
//             another source comes before the end of one, a newline is put between.
//   json      one object a line: {"time", "rank", "stream", "data"}. `data` is the line without its newline, in
//             base64 if there is "encoding" (it is not UTF-8). "eol": false if the line did not end there.
//   eventlog  RFC 24: events "data" of any number of lines, or one for each, one with "eof" for each source, after
//             a header.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "io/batch.hpp"

namespace nacre::io {

enum class Form { text, json, eventlog };
enum class Timestamps { none, iso, unix };  // "2026-01-31T12:00:00.000000Z ", "1769860800.000000 "

struct FormatOptions {
  Form form = Form::text;
  bool label = false;                        // text only
  Timestamps timestamps = Timestamps::none;  // text only
  bool carriage_return = false;              // text only: before each newline, for a terminal in raw mode
  bool by_line = false;                      // eventlog only: an event for each line
};

// Pieces of text, in order; valid until the next call of the format, and while the batch is.
using Pieces = std::array<std::string_view, 3>;

class Format {
 public:
  static std::unique_ptr<Format> create(const FormatOptions& options);
  virtual ~Format() = default;

  virtual Pieces put(const Batch& batch) = 0;
  // A source has ended.
  virtual Pieces end(const Source& source, double time) = 0;
  // A notice of the shell's own, such as that output was lost here: a line without its newline.
  virtual Pieces notice(std::string_view message, double time) = 0;
};

// "2026-01-31T12:00:00.123456Z", for any time from 1970 on.
[[nodiscard]] std::string iso_time(double time);

// Bytes as JSON text, fast: output goes through here at hundreds of megabytes a second.

// Whether `bytes` is UTF-8 (RFC 3629: no surrogates, nothing overlong).
[[nodiscard]] bool is_utf8(std::string_view bytes);

// Appends `text` as a JSON string with its quotes (RFC 8259). False: it is no UTF-8, and nothing is
// appended.
[[nodiscard]] bool append_json_string(std::string& out, std::string_view text);

// Appends the members `"data":"..."`, and `,"encoding":"base64"` if the bytes are no UTF-8.
void append_data(std::string& out, std::string_view bytes);

}  // namespace nacre::io
