// SPDX-License-Identifier: Apache-2.0
//
// The library's reader recurses as deep as its input says and takes several encodings of one value. This looks first.
#include <fmt/format.h>

#include "overlay/wire.hpp"

namespace nacre::overlay {
namespace {

constexpr unsigned kUnsigned = 0;
constexpr unsigned kNegative = 1;
constexpr unsigned kBytes = 2;
constexpr unsigned kText = 3;
constexpr unsigned kArray = 4;
constexpr unsigned kMap = 5;
constexpr unsigned kFalse = 0xf4;
constexpr unsigned kTrue = 0xf5;

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
    unsigned type = first >> 5;
    std::uint64_t count = TRY(head());
    switch (type) {
      case kUnsigned: return {};
      case kNegative: return count <= INT64_MAX ? Result<void>() : error("a number below the least");
      case kBytes:
      case kText: return skip(count);
      case kArray: return array(count, depth);
      case kMap: return map(count, depth);
      default: return error("a value of a kind that is not used");
    }
  }
  [[nodiscard]] Result<void> over() const {
    return at_ == bytes_.size() ? Result<void>() : error("bytes after the end");
  }

 private:
  // The number that goes with the first byte, in as few bytes as it fits.
  Result<std::uint64_t> head() {
    auto first = static_cast<unsigned char>(bytes_[at_++]);
    unsigned low = first & 31U;
    constexpr unsigned kInline = 24;
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
      if (static_cast<unsigned char>(bytes_[at_]) >> 5 != kText) return error("a key that is no text");
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

}  // namespace

Result<void> check_cbor(std::string_view bytes) {
  CborCheck check(bytes);
  CHECK_OK(check.item(kMaxDepth));
  return check.over();
}

}  // namespace nacre::overlay
