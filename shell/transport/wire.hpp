// SPDX-License-Identifier: Apache-2.0
//
// What goes over a link once its ends trust each other: records. A record is its length (4 bytes, big-endian,
// counting all that follows it), its kind (1 byte) and a body. A stream is a number that the owners of the two ends
// agree upon; each direction has its own.
//
//   kind  name    body
//   1     frame   a control frame: any bytes, up to kMaxFrame
//   2     bulk    stream (4 bytes, big-endian), then 1 to kMaxChunk bytes of it
//   3     credit  stream, then how many more bytes of it the other end may send (4 bytes, 1 to kMaxCredit)
//   4     end     stream: no more of it will come
//   5     ended   stream: its end has been seen; no credit for it follows
//   6     finish  none: the last record of this direction
#pragma once

#include "base/result.hpp"

namespace nacre::transport {

inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kStreamBytes = 4;
inline constexpr std::size_t kRecordHead = kLengthBytes + 1;
inline constexpr std::size_t kMaxFrame = std::size_t{16} << 20;  // bytes of a control frame
inline constexpr std::size_t kMaxChunk = (std::size_t{16} << 10) - kRecordHead - kStreamBytes;  // one record of TLS
inline constexpr std::uint32_t kMaxCredit = std::uint32_t{1} << 30;  // bytes that a stream may be ahead

enum class LinkRecordKind : std::uint8_t { frame = 1, bulk = 2, credit = 3, end = 4, ended = 5, finish = 6 };

struct LinkRecord {
  LinkRecordKind kind = LinkRecordKind::frame;
  std::uint32_t stream = 0;  // of bulk, credit, end, ended
  std::uint32_t credit = 0;  // bytes
  std::string_view body;     // of frame and bulk
};

// The first bytes of a record whose body, without the stream number, has `size` bytes.
void append_frame_head(std::string& out, std::size_t size);
void append_bulk_head(std::string& out, std::uint32_t stream, std::size_t size);
// These append whole records.
void append_credit(std::string& out, std::uint32_t stream, std::uint32_t credit);
void append_stream_record(std::string& out, LinkRecordKind kind, std::uint32_t stream);  // end, ended
void append_finish(std::string& out);

// Cuts a stream of bytes into records. It keeps no more than what has come, whatever length a record announces.
class LinkRecordReader {
 public:
  explicit LinkRecordReader(std::size_t max_frame = kMaxFrame) : max_frame_(max_frame) {}

  void add(std::string_view bytes);
  // None: more bytes have to come. A view is valid until the next call of a member. After an error the reader is of
  // no use.
  Result<std::optional<LinkRecord>> next();
  [[nodiscard]] std::size_t unread() const { return bytes_.size() - at_; }

 private:
  Result<LinkRecordKind> check_head(std::string_view bytes, std::uint32_t length) const;
  void forget();

  std::size_t max_frame_;
  std::string bytes_;
  std::size_t at_ = 0;  // what is before it has been read
};

}  // namespace nacre::transport
