// SPDX-License-Identifier: Apache-2.0
#include "io/format.hpp"

#include <bit>

#include "base/bytes.hpp"
#include "base/json.hpp"

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
      const std::size_t newline = part.find('\n');
      const std::size_t size = newline == std::string_view::npos ? part.size() : newline + 1;
      if (starts) text_ += prefix;
      starts = newline != std::string_view::npos;
      const bool ends_otherwise = starts && options_.carriage_return;
      text_ += part.substr(0, ends_otherwise ? newline : size);
      if (ends_otherwise) text_ += newline_;
      part.remove_prefix(size);
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
    static_cast<void>(append_json_string(text_, message));
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
    static_cast<void>(append_json_string(text_, message));
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

constexpr std::size_t kLanes = 16;
using Lanes [[gnu::vector_size(kLanes)]] = signed char;

// Of each byte that is not plain all bits are set: it needs an escape ('"', '\\', below 0x20) or is beyond ASCII.
Lanes specials_of(Lanes bytes) {
  return (bytes < 0x20) | (bytes == '"') | (bytes == '\\');  // signed: also from 0x80 on
}

Lanes lanes_at(const char* from) {
  Lanes bytes;
  std::memcpy(&bytes, from, kLanes);
  return bytes;
}

using Halves = std::array<std::uint64_t, 2>;
Halves halves_of(Lanes bytes) { return std::bit_cast<Halves>(bytes); }

// Copies the first bytes that are plain, at most as many as are a multiple of 16 and fit; returns their number. It
// may write more.
std::size_t copy_plain(std::string_view from, std::span<char> to) {
  const std::size_t most = std::min(from.size(), to.size()) / kLanes * kLanes;
  for (std::size_t at = 0; at < most; at += kLanes) {
    const Lanes bytes = lanes_at(from.data() + at);
    std::memcpy(to.data() + at, &bytes, kLanes);
    const Halves special = halves_of(specials_of(bytes));
    if ((special[0] | special[1]) == 0) continue;
    constexpr bool kIsLittle = std::endian::native == std::endian::little;
    const std::uint64_t half = special[0] != 0 ? special[0] : special[1];
    const int bits = kIsLittle ? std::countr_zero(half) : std::countl_zero(half);
    return at + (special[0] != 0 ? 0 : sizeof half) + static_cast<std::size_t>(bits) / 8;
  }
  return most;
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

// Returns its length.
std::size_t put_escape(char* to, char byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kShort = "\"\"\\\\\nn\tt\rr";  // a byte, and what stands for it
  to[0] = '\\';
  for (std::size_t i = 0; i < kShort.size(); i += 2) {
    if (kShort[i] != byte) continue;
    to[1] = kShort[i + 1];
    return 2;
  }
  std::memcpy(to + 1, "u00", 3);
  to[4] = kHex[static_cast<std::uint8_t>(byte) >> 4];
  to[5] = kHex[static_cast<std::uint8_t>(byte) & 0xF];
  return 6;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t size = sequence(bytes);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

bool append_json_string(std::string& out, std::string_view text) {
  constexpr std::size_t kLongest = 6;  // of one escape, or of one sequence
  const std::size_t before = out.size();
  std::array<char, 4096> piece;  // what is appended at once; not cleared
  std::size_t used = 0;
  out += '"';
  while (!text.empty()) {
    const std::size_t plain = copy_plain(text, std::span(piece).subspan(used));
    text.remove_prefix(plain);
    used += plain;
    if (used + kLongest > piece.size()) {
      out.append(piece.data(), std::exchange(used, 0));
    } else if (!text.empty()) {
      const auto first = static_cast<std::uint8_t>(text.front());
      const bool needs_escape = first < 0x20 || first == '"' || first == '\\';
      const std::size_t size = sequence(text);
      if (size == 0) break;
      if (!needs_escape) std::memcpy(&piece[used], text.data(), size);
      used += needs_escape ? put_escape(&piece[used], text.front()) : size;
      text.remove_prefix(size);
    }
  }
  if (!text.empty()) {
    out.resize(before);
    return false;
  }
  out.append(piece.data(), used);
  out += '"';
  return true;
}

void append_data(std::string& out, std::string_view bytes) {
  out += "\"data\":";
  if (append_json_string(out, bytes)) return;
  out += '"';
  append_base64(out, bytes);
  out += "\",\"encoding\":\"base64\"";
}

namespace {

// Each record: its kind, the number of the source, the size of the body, the body.
enum class WireKind : std::uint8_t { source = 1, batch = 2, end = 3, event = 4, complete = 5 };
constexpr std::size_t kWireHead = 9;
constexpr std::size_t kSourceBytes = 5;  // rank, flags; then the label
constexpr std::size_t kTimeBytes = 8;
constexpr std::size_t kRankBytes = 4;
constexpr std::size_t kBatchBytes = kTimeBytes + 1;  // time, flags; then the text
constexpr std::size_t kMaxWireBody = kMaxWireText + kBatchBytes;

constexpr double kMaxTime = 2e11;  // seconds since the Epoch: the year 8307

constexpr std::uint8_t kIsStderr = 1;
constexpr std::uint8_t kIsPart = 2;
constexpr std::uint8_t kContinues = 1;
constexpr std::uint8_t kOpen = 2;
constexpr std::uint8_t kFlags = 3;

std::uint8_t flags(bool first, bool second) {
  return static_cast<std::uint8_t>((first ? 1 : 0) | (second ? 2 : 0));
}

void append_head(std::string& out, WireKind kind, std::uint32_t number, std::size_t size) {
  out += static_cast<char>(kind);
  append_number(out, number);
  append_number(out, static_cast<std::uint32_t>(size));
}

void append_time(std::string& out, double time) { append_number(out, std::bit_cast<std::uint64_t>(time)); }
double take_time(std::string_view& bytes) { return std::bit_cast<double>(take_number<std::uint64_t>(bytes)); }

Error broken_record(std::string what) { return Error{EPROTO, std::move(what)}; }

}  // namespace

// ---- writing ---------------------------------------------------------------------------------

std::uint32_t WireFormat::introduce(const Source& source) {
  auto [place, is_new] = numbers_.emplace(&source, next_);
  std::uint32_t number = place->second;
  if (is_new) next_ += static_cast<std::uint32_t>(kStreams.size());
  // The reader may know it as what reports the stream's end, before its task has started again.
  if (!is_new && !repeats_ && !source.is_part) return number;
  append_head(head_, WireKind::source, number, kSourceBytes + source.label.size());
  append_number(head_, source.rank);
  append_number(head_, flags(source.stream == Stream::err, source.is_part));
  head_ += source.label;
  return number;
}

Pieces WireFormat::put(const Batch& batch) {
  head_.clear();
  std::uint32_t number = introduce(*batch.source);
  append_head(head_, WireKind::batch, number, kBatchBytes + batch.size());
  append_time(head_, batch.time);
  append_number(head_, flags(batch.continues, batch.open));
  return {head_, batch.head, batch.body};
}

Pieces WireFormat::end(const Source& source, double time) {
  head_.clear();
  std::uint32_t number = introduce(source);
  numbers_.erase(&source);
  append_head(head_, WireKind::end, number, kTimeBytes);
  append_time(head_, time);
  return {head_, {}, {}};
}

Pieces WireFormat::notice(std::string_view message, double time) {
  head_ = event(dump_json({{"timestamp", time}, {"name", "notice"}, {"context", {{"note", message}}}}));
  return {head_, {}, {}};
}

std::string WireFormat::event(std::string_view line) {
  std::string out;
  append_head(out, WireKind::event, 0, line.size());
  return out.append(line);
}

std::string WireFormat::complete(std::uint32_t rank) {
  std::string out;
  append_head(out, WireKind::complete, 0, kRankBytes);
  append_number(out, rank);
  return out;
}

// ---- reading ---------------------------------------------------------------------------------

Result<void> BatchReader::add(std::string_view bytes) {
  bool joined = !bytes_.empty();
  if (joined) bytes_ += bytes;
  std::string_view left = joined ? std::string_view(bytes_) : bytes;
  while (TRY(take_one(left))) {
  }
  if (!joined || left.size() < bytes_.size()) bytes_ = std::string(left);
  return {};
}

Result<bool> BatchReader::take_one(std::string_view& bytes) {
  if (bytes.size() < kWireHead) return false;
  std::string_view rest = bytes;
  auto kind = static_cast<WireKind>(take_number<std::uint8_t>(rest));
  auto number = take_number<std::uint32_t>(rest);
  std::size_t size = take_number<std::uint32_t>(rest);
  std::size_t least = kind == WireKind::source ? kSourceBytes : kind == WireKind::batch ? kBatchBytes + 1 : 0;
  if (kind < WireKind::source || kind > WireKind::complete || size < least || size > kMaxWireBody ||
      (kind == WireKind::end && size != kTimeBytes) || (kind == WireKind::complete && size != kRankBytes) ||
      (kind >= WireKind::event && number != 0)) {
    return broken_record(fmt::format("output: a record of kind {} with {} bytes", static_cast<int>(kind), size));
  }
  if (rest.size() < size) return false;
  std::string_view body = rest.substr(0, size);
  bytes = rest.substr(size);
  if (kind == WireKind::event) {
    take_.event(body);
    return true;
  }
  if (kind == WireKind::complete) {
    CHECK_OK(take_.complete(take_number<std::uint32_t>(body)));
    return true;
  }
  if (kind == WireKind::source) {
    CHECK_OK(introduce(number, body));
    return true;
  }
  const Source* source = TRY(find(number));
  double time = take_time(body);
  if (!(time >= 0 && time < kMaxTime)) return broken_record("output: a time that is none");
  if (kind == WireKind::end) {
    take_.end(*source, time);
    sources_.erase(number);
    return true;
  }
  auto flag = take_number<std::uint8_t>(body);
  if (flag > kFlags) return broken_record(fmt::format("output: flags {} of a batch", flag));
  take_.batch({source, time, {}, body, (flag & kContinues) != 0, (flag & kOpen) != 0});
  return true;
}

Result<void> BatchReader::introduce(std::uint32_t number, std::string_view bytes) {
  auto source = std::make_unique<Source>();
  source->rank = take_number<std::uint32_t>(bytes);
  auto flag = take_number<std::uint8_t>(bytes);
  if (flag > kFlags) return broken_record(fmt::format("output: flags {} of a source", flag));
  source->stream = (flag & kIsStderr) != 0 ? Stream::err : Stream::out;
  source->is_part = (flag & kIsPart) != 0;
  source->label = bytes;
  if (auto known = sources_.find(number); known != sources_.end()) {
    if (known->second->rank == source->rank && known->second->stream == source->stream) {
      *known->second = *std::move(source);  // it may have become a part, as its task has started again
      return {};
    }
    return broken_record(fmt::format("output: source {} comes twice", number));
  }
  CHECK_OK(take_.source(*source));
  sources_.emplace(number, std::move(source));
  return {};
}

Result<const Source*> BatchReader::find(std::uint32_t number) const {
  auto found = sources_.find(number);
  if (found == sources_.end()) return broken_record(fmt::format("output: source {} has not come", number));
  return found->second.get();
}

void BatchReader::end_all(double time) {
  for (const auto& [number, source] : sources_) take_.end(*source, time);
  sources_.clear();
}

}  // namespace nacre::io
