// SPDX-License-Identifier: Apache-2.0
#include "transport/wire.hpp"

#include <fmt/format.h>

#include "base/big_endian.hpp"

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

void append_head(std::string& out, Kind kind, std::size_t body) {
  append_u32(out, body + 1);
  out += static_cast<char>(kind);
}

// The lengths that a record of this kind may have, without its kind byte.
struct Sizes {
  std::size_t least;
  std::size_t most;
};

std::optional<Sizes> sizes_of(Kind kind, std::size_t max_frame) {
  switch (kind) {
    case Kind::frame: return Sizes{0, max_frame};
    case Kind::bulk: return Sizes{kStreamBytes + 1, kStreamBytes + kMaxChunk};
    case Kind::credit: return Sizes{kStreamBytes + kCreditBytes, kStreamBytes + kCreditBytes};
    case Kind::end: return Sizes{kStreamBytes, kStreamBytes};
    case Kind::ended: return Sizes{kStreamBytes, kStreamBytes};
    case Kind::finish: return Sizes{0, 0};
  }
  return std::nullopt;
}

Record record_of(Kind kind, std::string_view body) {
  Record record;
  record.kind = kind;
  if (kind == Kind::frame || kind == Kind::finish) {
    record.body = body;
    return record;
  }
  record.stream = u32_at(body, 0);
  if (kind == Kind::credit) record.credit = u32_at(body, kStreamBytes);
  if (kind == Kind::bulk) record.body = body.substr(kStreamBytes);
  return record;
}

}  // namespace

void append_frame_head(std::string& out, std::size_t size) { append_head(out, Kind::frame, size); }

void append_bulk_head(std::string& out, std::uint32_t stream, std::size_t size) {
  append_head(out, Kind::bulk, kStreamBytes + size);
  append_u32(out, stream);
}

void append_credit(std::string& out, std::uint32_t stream, std::uint32_t credit) {
  append_head(out, Kind::credit, kStreamBytes + kCreditBytes);
  append_u32(out, stream);
  append_u32(out, credit);
}

void append_stream_record(std::string& out, Kind kind, std::uint32_t stream) {
  append_head(out, kind, kStreamBytes);
  append_u32(out, stream);
}

void append_finish(std::string& out) { append_head(out, Kind::finish, 0); }

void RecordReader::add(std::string_view bytes) {
  if (at_ > kMostTaken) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  bytes_ += bytes;
}

// All has been read: an idle link keeps little memory.
void RecordReader::forget() {
  bytes_.clear();
  at_ = 0;
  if (bytes_.capacity() > kKeptMemory) bytes_.shrink_to_fit();
}

Result<Kind> RecordReader::check_head(std::string_view bytes, std::uint32_t length) const {
  auto kind = static_cast<Kind>(bytes[kLengthBytes]);
  std::optional<Sizes> sizes = sizes_of(kind, max_frame_);
  if (!sizes) {
    return Error{EPROTO, fmt::format("a record of unknown kind {}: is it another version of nacre?",
                                     static_cast<unsigned>(kind))};
  }
  std::size_t body = std::size_t{length} - 1;
  if (kind == Kind::frame && body > sizes->most) {
    return Error{EMSGSIZE, fmt::format("a frame of {} bytes; at most {} are allowed", body, sizes->most)};
  }
  if (body < sizes->least || body > sizes->most) {
    return Error{EPROTO, fmt::format("a record of kind {} with {} bytes; it has {} to {}",
                                     static_cast<unsigned>(kind), body, sizes->least, sizes->most)};
  }
  return kind;
}

Result<std::optional<Record>> RecordReader::next() {
  if (at_ == bytes_.size()) forget();
  std::string_view rest = std::string_view(bytes_).substr(at_);
  if (rest.size() < kRecordHead) return std::optional<Record>();
  std::uint32_t length = u32_at(rest, 0);
  if (length == 0) return Error{EPROTO, "a record of no bytes: is it another version of nacre?"};
  Kind kind = TRY(check_head(rest, length));
  if (rest.size() - kLengthBytes < length) return std::optional<Record>();
  at_ += kLengthBytes + length;
  Record record = record_of(kind, rest.substr(kRecordHead, length - 1));
  if (kind == Kind::credit && (record.credit == 0 || record.credit > kMaxCredit)) {
    return Error{EPROTO, fmt::format("a credit of {} bytes; it is 1 to {}", record.credit, kMaxCredit)};
  }
  return std::optional(record);
}

}  // namespace nacre::transport
