// SPDX-License-Identifier: Apache-2.0
#include "overlay/cbor.hpp"

#include <array>

#include <fmt/format.h>

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
  // The number that belongs to the first byte. It has to be in as few bytes as it fits.
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

}  // namespace nacre::overlay
