// SPDX-License-Identifier: Apache-2.0
#include "overlay/cbor.hpp"

#include "base/text.hpp"
#include "overlay/wire.hpp"

namespace nacre::overlay {
namespace {

constexpr unsigned kFalse = 0xf4;
constexpr unsigned kTrue = 0xf5;
constexpr unsigned kInline = 24;  // larger numbers have bytes of their own

CborKind kind_of(unsigned first) { return static_cast<CborKind>(first >> 5); }

class CborCheck {
 public:
  explicit CborCheck(std::string_view bytes) : bytes_(bytes) {}

  Result<void> item(int depth) {
    if (at_ == bytes_.size()) return end();
    auto first = static_cast<unsigned char>(bytes_[at_]);
    if (first == kFalse || first == kTrue) {
      ++at_;
      return {};
    }
    std::uint64_t count = TRY(head());
    switch (kind_of(first)) {
      case CborKind::number: return {};
      case CborKind::negative: return count <= INT64_MAX ? Result<void>() : error("a number below the least");
      case CborKind::bytes:
      case CborKind::text: return skip(count);
      case CborKind::array: return array(count, depth);
      case CborKind::map: return map(count, depth);
      default: return error("a value of a kind that is not used");
    }
  }
  [[nodiscard]] Result<void> over() const {
    return at_ == bytes_.size() ? Result<void>() : error("bytes after the end");
  }

 private:
  // The number that belongs to the first byte. It has to be in as few bytes as it fits in.
  Result<std::uint64_t> head() {
    auto first = static_cast<unsigned char>(bytes_[at_++]);
    unsigned low = first & 31U;
    if (low < kInline) return std::uint64_t{low};
    unsigned shift = low - kInline;
    if (shift > 3) return error("a length that is not given").error();
    std::size_t size = std::size_t{1} << shift;
    if (bytes_.size() - at_ < size) return end().error();
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(bytes_[at_ + i]);
    std::uint64_t least = shift == 0 ? kInline : std::uint64_t{1} << (size * 4);
    if (value < least) return error("a number in more bytes than it needs").error();
    at_ += size;
    return value;
  }
  Result<void> skip(std::uint64_t count) {
    if (count > bytes_.size() - at_) return end();
    at_ += count;
    return {};
  }
  Result<void> array(std::uint64_t count, int depth) {
    if (depth == 0) return error("too deep");
    for (std::uint64_t i = 0; i < count; ++i) CHECK_OK(item(depth - 1));
    return {};
  }
  Result<void> map(std::uint64_t count, int depth) {
    if (depth == 0) return error("too deep");
    std::string_view last;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (at_ == bytes_.size()) return end();
      if (kind_of(static_cast<unsigned char>(bytes_[at_])) != CborKind::text) return error("a key that is no text");
      std::uint64_t size = TRY(head());
      std::size_t start = at_;
      CHECK_OK(skip(size));
      std::string_view key = bytes_.substr(start, size);
      if (i > 0 && key <= last) return error("keys that do not ascend");
      last = key;
      CHECK_OK(item(depth - 1));
    }
    return {};
  }
  [[nodiscard]] Result<void> error(std::string_view what) const {
    return invalid(fmt::format("CBOR: byte {}: {}", at_, what));
  }
  [[nodiscard]] Result<void> end() const { return error("the end of the frame in the middle of a value"); }

  std::string_view bytes_;
  std::size_t at_ = 0;
};

// The head of the first value; `bytes` is not empty.
CborItem take_head(std::string_view& bytes) {
  auto first = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  if (first >= kFalse) return {CborKind::flag, first == kTrue ? 1U : 0U, {}};
  CborItem out{kind_of(first), first & 31U, {}};
  if (out.count < kInline) return out;
  std::size_t size = std::size_t{1} << (out.count - kInline);
  out.count = 0;
  for (std::size_t i = 0; i < size; ++i) out.count = out.count << 8 | static_cast<unsigned char>(bytes[i]);
  bytes.remove_prefix(size);
  return out;
}

bool has_bytes(const CborItem& item) { return item.kind == CborKind::bytes || item.kind == CborKind::text; }

// How many values follow the head.
std::uint64_t inside(const CborItem& item) {
  if (item.kind == CborKind::array) return item.count;
  return item.kind == CborKind::map ? 2 * item.count : 0;
}

}  // namespace

const char* CborItem::name() const {
  static constexpr std::array kNames = {"number", "number", "bytes", "text", "array", "map", "flag"};
  return kNames.at(static_cast<std::size_t>(kind));
}

CborItem take_cbor(std::string_view& bytes) {
  CborItem out = take_head(bytes);
  std::string_view rest = bytes;
  if (has_bytes(out)) rest.remove_prefix(out.count);
  for (std::uint64_t left = inside(out); left > 0; --left) {
    CborItem each = take_head(rest);
    if (has_bytes(each)) rest.remove_prefix(each.count);
    left += inside(each);
  }
  out.body = bytes.substr(0, bytes.size() - rest.size());
  bytes = rest;
  return out;
}

void append_cbor(Bytes& out, CborKind kind, std::uint64_t count) {
  if (kind == CborKind::flag) {
    out += static_cast<char>(count == 0 ? kFalse : kTrue);
    return;
  }
  auto type = static_cast<unsigned>(kind) << 5;
  if (count < kInline) {
    out += static_cast<char>(type | count);
    return;
  }
  unsigned shift = count > UINT32_MAX ? 3 : count > UINT16_MAX ? 2 : count > UINT8_MAX ? 1 : 0;
  out += static_cast<char>(type | (kInline + shift));
  for (int bits = (8 << shift) - 8; bits >= 0; bits -= 8) out += static_cast<char>(count >> bits & 0xff);
}

void append_cbor(Bytes& out, CborKind kind, std::string_view body) {
  append_cbor(out, kind, body.size());
  out += body;
}

Result<void> check_cbor(std::string_view bytes) {
  CborCheck check(bytes);
  CHECK_OK(check.item(kMaxDepth));
  return check.over();
}

// ---- field reader -----------------------------------------------------------------------

FieldReader::FieldReader(const CborItem& map) {
  if (map.kind != CborKind::map) {
    error_ = invalid(fmt::format("expected a map, got {}", map.name()));
    return;
  }
  constexpr std::uint64_t kUsual = 16;
  pairs_.reserve(std::min(map.count, kUsual));
  for (std::string_view rest = map.body; !rest.empty();) {
    std::string_view key = take_cbor(rest).body;
    pairs_.emplace_back(key, take_cbor(rest));
  }
}

void FieldReader::fail(std::string_view key, std::string_view why) {
  if (!error_) error_ = invalid(fmt::format("{}: {}", key, why));
}

const CborItem* FieldReader::find(std::string_view key) const {
  auto found = std::find_if(pairs_.begin(), pairs_.end(), [&](const auto& each) { return each.first == key; });
  return found == pairs_.end() ? nullptr : &found->second;
}

const CborItem* FieldReader::take(std::string_view key) {
  if (error_) return nullptr;
  const CborItem* found = find(key);
  if (found == nullptr) {
    fail(key, "is not there");
  } else {
    ++taken_;
  }
  return found;
}

std::optional<std::string_view> FieldReader::text_of(std::string_view key) const {
  const CborItem* found = find(key);
  if (found == nullptr || found->kind != CborKind::text) return std::nullopt;
  return found->body;
}

std::uint64_t FieldReader::unsigned_number(std::string_view key, std::uint64_t most) {
  const CborItem* found = take(key);
  if (found == nullptr) return 0;
  if (found->kind != CborKind::number) {
    fail(key, fmt::format("expected a number from 0, got {}", found->name()));
    return 0;
  }
  if (found->count > most) fail(key, fmt::format("{} is over {}", found->count, most));
  return found->count;
}

void FieldReader::flag(std::string_view key, bool& value) {
  const CborItem* found = take(key);
  if (found == nullptr) return;
  if (found->kind != CborKind::flag) return fail(key, fmt::format("expected true or false, got {}", found->name()));
  value = found->count != 0;
}

void FieldReader::text(std::string_view key, std::string& value) {
  const CborItem* found = take(key);
  if (found == nullptr) return;
  if (found->kind != CborKind::text) return fail(key, fmt::format("expected text, got {}", found->name()));
  value = found->body;
  if (value.size() > kMaxText) return fail(key, fmt::format("{} bytes; at most {}", value.size(), kMaxText));
  bool is_plain = std::all_of(value.begin(), value.end(), [](char each) { return each >= ' ' && each <= '~'; });
  if (!is_plain) fail(key, fmt::format("{} is not all printable ASCII", in_quotes(value)));
}

void FieldReader::data(std::string_view key, Bytes& value) {
  const CborItem* found = take(key);
  if (found == nullptr) return;
  if (found->kind != CborKind::bytes) return fail(key, fmt::format("expected bytes, got {}", found->name()));
  if (found->count > kMaxData) return fail(key, fmt::format("{} bytes; at most {}", found->count, kMaxData));
  value = found->body;
}

void FieldReader::ids(std::string_view key, Idset& value) {
  const CborItem* found = take(key);
  if (found == nullptr) return;
  if (found->kind != CborKind::text) return fail(key, fmt::format("expected an idset, got {}", found->name()));
  std::string_view text = found->body;
  if (text.size() > kMaxIds)
    return fail(key, fmt::format("an idset of {} bytes; at most {}", text.size(), kMaxIds));
  auto parsed = Idset::parse(text);
  if (!parsed) return fail(key, parsed.error().message);
  if (parsed->str() != text)
    return fail(key, fmt::format("the idset {} is not in its shortest form", in_quotes(text)));
  value = *std::move(parsed);
}

std::size_t FieldReader::index_of(std::string_view key, const std::string_view* words, std::size_t count) {
  const CborItem* found = take(key);
  if (found == nullptr) return 0;
  if (found->kind != CborKind::text) {
    fail(key, fmt::format("expected a word, got {}", found->name()));
    return 0;
  }
  std::string_view text = found->body;
  const auto* word = std::find_if(words, words + count, [&](std::string_view each) { return text == each; });
  if (word != words + count) return static_cast<std::size_t>(word - words);
  fail(key, fmt::format("{} is not known", in_quotes(text)));
  return 0;
}

bool FieldReader::is_list(std::string_view key, const CborItem& array) {
  if (array.kind != CborKind::array) {
    fail(key, fmt::format("expected an array, got {}", array.name()));
  } else if (array.count > kMaxList) {
    fail(key, fmt::format("{} elements; at most {}", array.count, kMaxList));
  }
  return !error_;
}

bool FieldReader::adopt(std::string_view key, FieldReader& inner) {
  auto done = inner.done();
  if (!done) fail(key, done.error().message);
  return done.has_value();
}

Result<void> FieldReader::done() {
  if (error_) return *error_;
  if (taken_ == pairs_.size()) return {};
  return invalid(fmt::format("{} fields that are not known", pairs_.size() - taken_));
}

// ---- field writer -----------------------------------------------------------------------

Bytes& FieldWriter::begin(std::string_view key) {
  end_last();
  fields_.at(count_++) = {key, values_.size(), 0};
  return values_;
}

void FieldWriter::write(Bytes& out) {
  end_last();
  std::sort(fields_.begin(), fields_.begin() + count_,
            [](const Field& a, const Field& b) { return a.key < b.key; });
  append_cbor(out, CborKind::map, count_);
  for (std::size_t i = 0; i < count_; ++i) {
    const Field& each = fields_.at(i);
    append_cbor(out, CborKind::text, each.key);
    out.append(values_, each.begin, each.end - each.begin);
  }
}

}  // namespace nacre::overlay
