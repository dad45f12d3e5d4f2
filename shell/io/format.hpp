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

#include "base/result.hpp"
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

// What tasks write, on its way to another shell: doc/protocol.md, "Output". WireFormat writes it, BatchReader reads
// it.

inline constexpr std::size_t kMaxWireText = std::size_t{4} << 20;  // bytes of a batch, a label, an event

// Writes bytes for a BatchReader. A source is identified by its address until it ends.
class WireFormat final : public Format {
 public:
  // For sources of one stream: sources of the two streams get different numbers. `repeats`: each batch has its
  // source with it, so that a reader can begin with any of them.
  explicit WireFormat(Stream stream, bool repeats = false)
      : next_(static_cast<std::uint32_t>(stream)), repeats_(repeats) {}

  Pieces put(const Batch& batch) override;
  Pieces end(const Source& source, double time) override;
  Pieces notice(std::string_view message, double time) override;  // as an event "notice"

  // One line of an eventlog, without its newline.
  static std::string event(std::string_view line);
  // The task has ended, and so have its streams.
  static std::string complete(std::uint32_t rank);

 private:
  std::uint32_t introduce(const Source& source);

  std::map<const Source*, std::uint32_t> numbers_;
  std::uint32_t next_;
  bool repeats_;
  std::string head_;
};

class BatchReader {
 public:
  struct Take {
    std::function<Result<void>(const Source&)> source;  // a new source; an error refuses it
    std::function<void(const Batch&)> batch;
    std::function<void(const Source&, double time)> end;
    std::function<void(std::string_view line)> event;
    std::function<Result<void>(std::uint32_t rank)> complete;  // an error refuses it
  };

  explicit BatchReader(Take take) : take_(std::move(take)) {}

  // Bytes in any pieces. EPROTO: they are not what a WireFormat writes, and no more can be read.
  Result<void> add(std::string_view bytes);
  // Nothing more comes: ends all sources that are left.
  void end_all(double time);
  [[nodiscard]] std::size_t unread() const { return bytes_.size(); }

 private:
  Result<bool> take_one(std::string_view& bytes);
  Result<void> introduce(std::uint32_t number, std::string_view bytes);
  Result<const Source*> find(std::uint32_t number) const;

  Take take_;
  std::string bytes_;  // of a record that is not complete yet
  std::map<std::uint32_t, std::unique_ptr<Source>> sources_;
};

}  // namespace nacre::io
