// SPDX-License-Identifier: Apache-2.0
#include "io/format.hpp"

#include <cmath>
#include <ctime>

#include <fmt/format.h>

#include "io/encode.hpp"

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
  Pieces put(const Batch& batch) override {
    begin(*batch.source, batch.time);
    append_data(text_, batch.joined(joined_));
    text_ += "}}\n";
    return {text_};
  }

  Pieces end(const Source& source, double time) override {
    if (source.is_part) return {};
    begin(source, time);
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
  void begin(const Source& source, double time) {
    text_.clear();
    fmt::format_to(std::back_inserter(text_),
                   R"({{"timestamp":{:.6f},"name":"data","context":{{"stream":"{}","rank":"{}",)", time,
                   name_of(source.stream), source.rank);
  }

  std::string joined_;
  std::string text_;
};

}  // namespace

std::unique_ptr<Format> Format::create(const FormatOptions& options) {
  switch (options.form) {
    case Form::json: return std::make_unique<JsonFormat>();
    case Form::eventlog: return std::make_unique<EventlogFormat>();
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

}  // namespace nacre::io
