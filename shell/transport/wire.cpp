// SPDX-License-Identifier: Apache-2.0
#include "transport/wire.hpp"

#include "base/bytes.hpp"

namespace nacre::transport {
namespace {

constexpr std::size_t kKeptMemory = std::size_t{16} << 10;  // bytes that a reader keeps between records
constexpr std::size_t kMostTaken = std::size_t{128} << 10;  // bytes that have been read and are still kept
constexpr std::size_t kCreditBytes = 4;

void append_u32(std::string& out, std::size_t number) { append_number(out, static_cast<std::uint32_t>(number)); }

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  bytes.remove_prefix(at);
  return take_number<std::uint32_t>(bytes);
}

void append_head(std::string& out, LinkRecordKind kind, std::size_t body) {
  append_u32(out, body + 1);
  out += static_cast<char>(kind);
}

// The lengths that a record of this kind may have, without its kind byte.
struct Sizes {
  std::size_t least;
  std::size_t most;
};

std::optional<Sizes> sizes_of(LinkRecordKind kind, std::size_t max_frame) {
  switch (kind) {
    case LinkRecordKind::frame: return Sizes{0, max_frame};
    case LinkRecordKind::bulk: return Sizes{kStreamBytes + 1, kStreamBytes + kMaxChunk};
    case LinkRecordKind::credit: return Sizes{kStreamBytes + kCreditBytes, kStreamBytes + kCreditBytes};
    case LinkRecordKind::end: return Sizes{kStreamBytes, kStreamBytes};
    case LinkRecordKind::ended: return Sizes{kStreamBytes, kStreamBytes};
    case LinkRecordKind::finish: return Sizes{0, 0};
  }
  return std::nullopt;
}

LinkRecord record_of(LinkRecordKind kind, std::string_view body) {
  LinkRecord record;
  record.kind = kind;
  if (kind == LinkRecordKind::frame || kind == LinkRecordKind::finish) {
    record.body = body;
    return record;
  }
  record.stream = u32_at(body, 0);
  if (kind == LinkRecordKind::credit) record.credit = u32_at(body, kStreamBytes);
  if (kind == LinkRecordKind::bulk) record.body = body.substr(kStreamBytes);
  return record;
}

}  // namespace

void append_frame_head(std::string& out, std::size_t size) { append_head(out, LinkRecordKind::frame, size); }

void append_bulk_head(std::string& out, std::uint32_t stream, std::size_t size) {
  append_head(out, LinkRecordKind::bulk, kStreamBytes + size);
  append_u32(out, stream);
}

void append_credit(std::string& out, std::uint32_t stream, std::uint32_t credit) {
  append_head(out, LinkRecordKind::credit, kStreamBytes + kCreditBytes);
  append_u32(out, stream);
  append_u32(out, credit);
}

void append_stream_record(std::string& out, LinkRecordKind kind, std::uint32_t stream) {
  append_head(out, kind, kStreamBytes);
  append_u32(out, stream);
}

void append_finish(std::string& out) { append_head(out, LinkRecordKind::finish, 0); }

void LinkRecordReader::add(std::string_view bytes) {
  if (at_ > kMostTaken) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  bytes_ += bytes;
}

// All has been read: an idle link keeps little memory.
void LinkRecordReader::forget() {
  bytes_.clear();
  at_ = 0;
  if (bytes_.capacity() > kKeptMemory) bytes_.shrink_to_fit();
}

Result<LinkRecordKind> LinkRecordReader::check_head(std::string_view bytes, std::uint32_t length) const {
  auto kind = static_cast<LinkRecordKind>(bytes[kLengthBytes]);
  std::optional<Sizes> sizes = sizes_of(kind, max_frame_);
  if (!sizes) {
    return Error{EPROTO, fmt::format("a record of unknown kind {}: is it another version of nacre?",
                                     static_cast<unsigned>(kind))};
  }
  std::size_t body = std::size_t{length} - 1;
  if (kind == LinkRecordKind::frame && body > sizes->most) {
    return Error{EMSGSIZE, fmt::format("a frame of {} bytes; at most {} are allowed", body, sizes->most)};
  }
  if (body < sizes->least || body > sizes->most) {
    return Error{EPROTO, fmt::format("a record of kind {} with {} bytes; it has {} to {}",
                                     static_cast<unsigned>(kind), body, sizes->least, sizes->most)};
  }
  return kind;
}

Result<std::optional<LinkRecord>> LinkRecordReader::next() {
  if (at_ == bytes_.size()) forget();
  std::string_view rest = std::string_view(bytes_).substr(at_);
  if (rest.size() < kRecordHead) return std::optional<LinkRecord>();
  std::uint32_t length = u32_at(rest, 0);
  if (length == 0) return Error{EPROTO, "a record of no bytes: is it another version of nacre?"};
  LinkRecordKind kind = TRY(check_head(rest, length));
  if (rest.size() - kLengthBytes < length) return std::optional<LinkRecord>();
  at_ += kLengthBytes + length;
  LinkRecord record = record_of(kind, rest.substr(kRecordHead, length - 1));
  if (kind == LinkRecordKind::credit && (record.credit == 0 || record.credit > kMaxCredit)) {
    return Error{EPROTO, fmt::format("a credit of {} bytes; it is 1 to {}", record.credit, kMaxCredit)};
  }
  return std::optional(record);
}

}  // namespace nacre::transport
