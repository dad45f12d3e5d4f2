// SPDX-License-Identifier: Apache-2.0
#include "io/format.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "base/bytes.hpp"

namespace nacre::io {
namespace {

constexpr long long kMicroseconds = 1'000'000;  // in a second

class TextFormat final : public Format {
 public:
  explicit TextFormat(const FormatOptions& options)
      : options_(options), newline_(options.carriage_return ? "\r\n" : "\n") {}

  Pieces put(const Batch& batch) override {
    bool glued = owner_ == batch.source && batch.continues;
    std::string_view newline = owner_ != nullptr && !glued ? newline_ : "";
    owner_ = batch.last() != '\n' ? batch.source : nullptr;
    if (!has_prefix() && !options_.carriage_return) return {newline, batch.head, batch.body};
    text_ = newline;
    std::string prefix = prefix_of(batch);
    bool starts = !glued;
    for (std::string_view part : {batch.head, batch.body}) starts = add_lines(part, prefix, starts);
    return {text_};
  }

  // The line of a labelled source always ends here: the next line has its own label.
  Pieces end(const Source& source, double /*time*/) override {
    if (owner_ != &source) return {};
    if (has_prefix()) {
      owner_ = nullptr;
      return {newline_};
    }
    owner_ = &kNobody;
    return {};
  }

  Pieces notice(std::string_view message, double /*time*/) override {
    text_ = owner_ != nullptr ? newline_ : "";
    owner_ = nullptr;
    text_ += message;
    text_ += newline_;
    return {text_};
  }

 private:
  [[nodiscard]] bool has_prefix() const { return options_.label || options_.timestamps != Timestamps::none; }

  [[nodiscard]] std::string prefix_of(const Batch& batch) const {
    std::string prefix;
    if (options_.timestamps == Timestamps::iso) prefix = iso_time(batch.time) + ' ';
    if (options_.timestamps == Timestamps::unix) prefix = fmt::format("{:.6f} ", batch.time);
    if (options_.label) prefix += batch.source->label;
    return prefix;
  }

  // Whether the next byte starts a line.
  bool add_lines(std::string_view part, const std::string& prefix, bool starts) {
    while (!part.empty()) {
      std::size_t newline = part.find('\n');
      std::string_view line = part.substr(0, newline);
      if (starts) text_ += prefix;
      text_ += line;
      starts = newline != std::string_view::npos;
      if (starts) text_ += newline_;
      part.remove_prefix(line.size() + (starts ? 1 : 0));
    }
    return starts;
  }

  static inline const Source kNobody;

  FormatOptions options_;
  std::string_view newline_;
  // The source whose line has begun and not ended; kNobody: a source that has ended
  const Source* owner_ = nullptr;
  std::string text_;
};

class JsonFormat final : public Format {
 public:
  Pieces put(const Batch& batch) override {
    text_.clear();
    std::string_view all = batch.joined(joined_);
    std::string front = fmt::format(R"({{"time":{:.6f},"rank":{},"stream":"{}",)", batch.time, batch.source->rank,
                                    name_of(batch.source->stream));
    while (!all.empty()) {
      std::size_t newline = all.find('\n');
      bool ends = newline != std::string_view::npos;
      std::string_view line = all.substr(0, newline);
      text_ += front;
      append_data(text_, line);
      text_ += ends ? "}\n" : ",\"eol\":false}\n";
      all.remove_prefix(line.size() + (ends ? 1 : 0));
    }
    return {text_};
  }

  Pieces end(const Source& /*source*/, double /*time*/) override { return {}; }

  Pieces notice(std::string_view message, double time) override {
    text_ = fmt::format(R"({{"time":{:.6f},"notice":)", time);
    append_json_string(text_, message);
    text_ += "}\n";
    return {text_};
  }

 private:
  std::string joined_;
  std::string text_;
};

class EventlogFormat final : public Format {
 public:
  explicit EventlogFormat(bool by_line) : by_line_(by_line) {}

  Pieces put(const Batch& batch) override {
    text_.clear();
    std::string_view all = batch.joined(joined_);
    const std::string front = front_of(*batch.source, batch.time);
    while (!all.empty()) {
      const std::size_t newline = by_line_ ? all.find('\n') : std::string_view::npos;
      const std::string_view data = all.substr(0, newline == std::string_view::npos ? newline : newline + 1);
      text_ += front;
      append_data(text_, data);
      text_ += "}}\n";
      all.remove_prefix(data.size());
    }
    return {text_};
  }

  Pieces end(const Source& source, double time) override {
    if (source.is_part) return {};
    text_ = front_of(source, time);
    text_ += "\"eof\":true}}\n";
    return {text_};
  }

  Pieces notice(std::string_view message, double time) override {
    constexpr int kWarning = 4;  // RFC 5424
    text_ = fmt::format(R"({{"timestamp":{:.6f},"name":"log","context":{{"level":{},"program":"nacre-shell",)"
                        R"("component":"output","message":)",
                        time, kWarning);
    append_json_string(text_, message);
    text_ += "}}\n";
    return {text_};
  }

 private:
  static std::string front_of(const Source& source, double time) {
    return fmt::format(R"({{"timestamp":{:.6f},"name":"data","context":{{"stream":"{}","rank":"{}",)", time,
                       name_of(source.stream), source.rank);
  }

  bool by_line_;
  std::string joined_;
  std::string text_;
};

}  // namespace

std::unique_ptr<Format> Format::create(const FormatOptions& options) {
  switch (options.form) {
    case Form::json: return std::make_unique<JsonFormat>();
    case Form::eventlog: return std::make_unique<EventlogFormat>(options.by_line);
    case Form::text: break;
  }
  return std::make_unique<TextFormat>(options);
}

std::string iso_time(double time) {
  long long total = std::llround(time * static_cast<double>(kMicroseconds));
  std::time_t whole = total / kMicroseconds;
  std::tm utc{};
  ::gmtime_r(&whole, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, total % kMicroseconds);
}

// ---- encode -----------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101;
constexpr std::uint64_t kHighs = 0x8080808080808080;
constexpr std::size_t kWord = sizeof(std::uint64_t);

std::uint64_t word_at(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, kWord);
  return word;
}

// How many of the first bytes are ASCII; it stops at the 8 bytes that hold the first other one, or before.
std::size_t ascii_words(std::string_view bytes) {
  std::size_t at = 0;
  while (at + kWord <= bytes.size() && (word_at(bytes.data() + at) & kHighs) == 0) at += kWord;
  return at;
}

// Whether one of eight bytes needs an escape: '"', '\\', or below 0x20. It may also be true for a byte beyond
// ASCII.
bool has_special(std::uint64_t word) {
  auto zero_in = [](std::uint64_t value) { return (value - kOnes) & ~value & kHighs; };
  std::uint64_t low = (word - kOnes * 0x20) & ~word & kHighs;
  return (low | zero_in(word ^ kOnes * '"') | zero_in(word ^ kOnes * '\\')) != 0;
}

// The length of the UTF-8 sequence at the beginning; 0 if there is none.
std::size_t sequence(std::string_view bytes) {
  auto at = [&](std::size_t i) { return i < bytes.size() ? static_cast<std::uint8_t>(bytes[i]) : 0U; };
  auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return at(i) >= low && at(i) <= high;
  };
  unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    unsigned low = first == 0xE0 ? 0xA0 : 0x80;   // nothing overlong
    unsigned high = first == 0xED ? 0x9F : 0xBF;  // no surrogates
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    unsigned low = first == 0xF0 ? 0x90 : 0x80;
    unsigned high = first == 0xF4 ? 0x8F : 0xBF;  // up to U+10FFFF
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void append_escape(std::string& out, char byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (byte) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\t': out += "\\t"; return;
    case '\r': out += "\\r"; return;
    default:
      out += "\\u00";
      out += kHex[static_cast<std::uint8_t>(byte) >> 4];
      out += kHex[static_cast<std::uint8_t>(byte) & 0xF];
  }
}

bool is_special(char byte) { return static_cast<std::uint8_t>(byte) < 0x20 || byte == '"' || byte == '\\'; }

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    bytes.remove_prefix(ascii_words(bytes));
    for (std::size_t i = 0; i < kWord && !bytes.empty(); ++i) {
      std::size_t size = sequence(bytes);
      if (size == 0) return false;
      bytes.remove_prefix(size);
    }
  }
  return true;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain + kWord <= text.size() && !has_special(word_at(text.data() + plain))) plain += kWord;
    std::size_t end = std::min(plain + kWord, text.size());
    while (plain < end && !is_special(text[plain])) ++plain;
    out.append(text.data(), plain);
    if (plain < end) append_escape(out, text[plain++]);
    text.remove_prefix(plain);
  }
  out += '"';
}

void append_data(std::string& out, std::string_view bytes) {
  out += "\"data\":";
  if (is_utf8(bytes)) return append_json_string(out, bytes);
  out += '"';
  append_base64(out, bytes);
  out += "\",\"encoding\":\"base64\"";
}

}  // namespace nacre::io
