// SPDX-License-Identifier: Apache-2.0
#include "io/batch_wire.hpp"

#include <bit>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/json.hpp"

namespace nacre::io {
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
  if (!is_new && !repeats_) return number;
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
