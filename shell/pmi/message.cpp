// SPDX-License-Identifier: Apache-2.0
#include "pmi/message.hpp"

#include "base/text.hpp"

namespace nacre::pmi {
namespace {

constexpr std::size_t kShown = 40;  // bytes of the faulty text that an error shows

std::string shown(std::string_view text) { return in_quotes(text.substr(0, kShown)); }

std::string_view first_word(std::string_view text) { return text.substr(0, text.find_first_of(" \t\r\n")); }

std::string_view without_blanks(std::string_view text) {
  auto start = text.find_first_not_of(" \t\r");
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

bool goes_to_the_end(std::string_view key) { return key == "value" || key == "message" || key == "error_msg"; }

Error no_command(std::string_view text) {
  return invalid(fmt::format("expected cmd=NAME, got {}", text.empty() ? "an empty message" : shown(text)));
}

// MPICH 4.0's client of PMI-2 counts the length field as part of the message: the last six bytes of its messages
// are whatever was in its memory. An unknown field there does no harm, but a ';' would join the field before it.
std::string_view without_stray_half(std::string_view text) {
  if (text.size() < kLengthSize || text.ends_with(';')) return text;
  std::size_t kept = text.size() - kLengthSize;
  return text.substr(0, kept).ends_with(';') && text[kept] == ';' ? text.substr(0, kept) : text;
}

// "KEY=VALUE", or KEY alone: its value is empty.
PmiMessage::Field field_of(std::string_view text) {
  auto equals = text.find('=');
  if (equals == std::string_view::npos) return {text, {}};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

Result<PmiMessage> PmiMessage::parse_line(std::string_view text) {
  PmiMessage out;
  for (std::string_view rest = without_blanks(text); !rest.empty();) {
    Field field = field_of(first_word(rest));
    if (goes_to_the_end(field.key)) {
      field.value = rest.substr(field.key.size() + (rest.size() > field.key.size() ? 1 : 0));
      rest = {};
    } else {
      rest = without_blanks(rest.substr(first_word(rest).size()));
    }
    if (field.key.empty()) return invalid(fmt::format("a field without a name, in {}", shown(text)));
    if (out.command_.empty() && field.key == "cmd") {
      out.command_ = field.value;
    } else {
      out.fields_.push_back(field);
    }
  }
  if (out.command_.empty()) return no_command(text);
  return out;
}

Result<PmiMessage> PmiMessage::parse_spawn(std::string_view text) {
  PmiMessage out;
  for (std::string_view line : split(text, '\n')) {
    Field field = field_of(line);
    if (out.command_.empty()) {
      if (field.key != "mcmd" || field.value != "spawn") return no_command(text);
      out.command_ = field.value;
    } else if (field.key.empty()) {
      return invalid(fmt::format("mcmd=spawn: expected KEY=VALUE, got {}", shown(line)));
    } else {
      out.fields_.push_back(field);
    }
  }
  return out;
}

Result<PmiMessage> PmiMessage::parse_body(std::string_view whole) {
  PmiMessage out;
  std::string_view text = without_stray_half(whole);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    bool doubled = false;
    while (end < text.size() && (text[end] != ';' || text.substr(end).starts_with(";;"))) {
      doubled = doubled || text[end] == ';';
      end += text[end] == ';' ? 2 : 1;
    }
    std::string_view part = text.substr(at, end - at);
    bool is_stray = at + kLengthSize >= whole.size();
    at = end + 1;
    if (doubled) {
      std::string& single = out.unescaped_.emplace_back();
      for (std::size_t i = 0; i < part.size(); ++i) {
        single += part[i];
        if (part[i] == ';') ++i;
      }
      part = single;
    }
    Field field = field_of(part);
    if (field.key.empty() && is_stray && !out.command_.empty()) break;
    if (field.key.empty()) return invalid(fmt::format("a field without a name, in {}", shown(text)));
    if (!out.command_.empty()) {
      out.fields_.push_back(field);
    } else if (field.key == "cmd" && !field.value.empty()) {
      out.command_ = field.value;
    } else {
      return no_command(text);
    }
  }
  if (out.command_.empty()) return no_command(text);
  return out;
}

std::optional<std::string_view> PmiMessage::find(std::string_view key) const {
  auto it = std::find_if(fields_.begin(), fields_.end(), [&](const Field& each) { return each.key == key; });
  if (it == fields_.end()) return std::nullopt;
  return it->value;
}

Result<std::string_view> PmiMessage::text(std::string_view key) const {
  auto value = find(key);
  if (!value) return invalid(fmt::format("{}: no field '{}'", command_, key));
  return *value;
}

Result<std::string_view> PmiMessage::word(std::string_view key) const {
  std::string_view value = TRY(text(key));
  if (value.empty()) return invalid(fmt::format("{}: the field '{}' is empty", command_, key));
  return value;
}

Result<std::int64_t> PmiMessage::integer(std::string_view key) const {
  std::string_view value = TRY(text(key));
  auto number = parse_i64(value);
  if (!number) return invalid(fmt::format("{}: {}: expected a number, got {}", command_, key, shown(value)));
  return *number;
}

BodyWriter::BodyWriter(std::string& out, std::string_view command) : out_(out), start_(out.size()) {
  out_.append(kLengthSize, ' ');
  add("cmd", command);
}

BodyWriter& BodyWriter::add(std::string_view key, std::string_view value) {
  out_.append(key).append("=");
  for (char c : value) {
    out_ += c;
    if (c == ';') out_ += c;
  }
  out_ += ';';
  return *this;
}

BodyWriter& BodyWriter::add(std::string_view key, std::int64_t value) {
  return add(key, std::string_view(fmt::format_int(value).c_str()));
}

BodyWriter& BodyWriter::flag(std::string_view key, bool value) { return add(key, value ? "TRUE" : "FALSE"); }

void BodyWriter::finish() {
  std::array<char, kLengthSize + 1> length{};
  auto written = fmt::format_to_n(length.data(), kLengthSize, "{:<6}", out_.size() - start_ - kLengthSize);
  std::copy_n(length.data(), std::min(written.size, kLengthSize),
              out_.begin() + static_cast<std::ptrdiff_t>(start_));
}

std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

// ---- framer -----------------------------------------------------------------------------

namespace {

constexpr std::string_view kSpawn = "mcmd=";
constexpr std::string_view kEnd = "endcmd\n";
constexpr std::string_view kGroup = "cmd=barrier_in group=";

Error too_long(std::size_t limit, const char* missing) {
  return Error{EMSGSIZE, fmt::format("{} bytes without {}", limit, missing)};
}

}  // namespace

void Framer::add(std::string_view bytes) {
  if (at_ == bytes_.size()) {
    bytes_.clear();
    at_ = scanned_ = line_ = 0;
  } else if (at_ > kMaxMessage) {
    bytes_.erase(0, at_);
    scanned_ = std::max(scanned_, at_) - at_;
    line_ = std::max(line_, at_) - at_;
    at_ = 0;
  }
  bytes_ += bytes;
}

Result<std::optional<Frame>> Framer::next() {
  if (counted_) return next_body();
  return rest().starts_with(kSpawn) ? next_spawn() : next_line();
}

Result<std::optional<Frame>> Framer::next_line() {
  auto end = bytes_.find('\n', std::max(at_, scanned_));
  std::size_t size = (end == std::string::npos ? bytes_.size() : end) - at_;
  const std::size_t most = rest().starts_with(kGroup) ? kMaxGroup : kMaxMessage;
  if (size > most) return too_long(most, "a newline");
  if (end == std::string::npos) {
    scanned_ = bytes_.size();
    return std::optional<Frame>();
  }
  Frame frame{Frame::Kind::line, std::string_view(bytes_).substr(at_, size)};
  at_ = scanned_ = end + 1;
  return std::optional(frame);
}

Result<std::optional<Frame>> Framer::next_spawn() {
  std::string_view all = bytes_;
  for (;;) {
    std::size_t line = std::max(at_, line_);
    auto end = all.find('\n', std::max(at_, scanned_));
    if (std::min(end, all.size()) - at_ > kMaxSpawn) return too_long(kMaxSpawn, "endcmd");
    scanned_ = std::min(end, all.size() - 1) + 1;
    if (end == std::string_view::npos) return std::optional<Frame>();
    line_ = scanned_;
    if (all.substr(line, scanned_ - line) != kEnd) continue;
    Frame frame{Frame::Kind::spawn, all.substr(at_, line - at_)};
    if (frame.text.ends_with('\n')) frame.text.remove_suffix(1);
    at_ = scanned_;
    return std::optional(frame);
  }
}

Result<std::optional<Frame>> Framer::next_body() {
  std::string_view all = rest();
  if (all.size() < kLengthSize) return std::optional<Frame>();
  auto length = parse_u64(trim(all.substr(0, kLengthSize)));
  if (!length) {
    return invalid(
        fmt::format("expected a length of {} digits, got {}", kLengthSize, in_quotes(all.substr(0, kLengthSize))));
  }
  if (*length > kMaxMessage) {
    return Error{EMSGSIZE, fmt::format("a message of {} bytes; at most {} are allowed", *length, kMaxMessage)};
  }
  if (all.size() - kLengthSize < *length) return std::optional<Frame>();
  at_ += kLengthSize + *length;
  return std::optional(Frame{Frame::Kind::body, all.substr(kLengthSize, *length)});
}

}  // namespace nacre::pmi
