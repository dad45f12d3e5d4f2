// SPDX-License-Identifier: Apache-2.0
#include "bulk/wire.hpp"

#include "base/bytes.hpp"

namespace nacre::bulk {
namespace {

constexpr std::size_t kChannelBytes = 2;
constexpr std::size_t kMostRead = std::size_t{64} << 10;  // bytes that have been read and are still kept

Error broken(std::string message) { return Error{EPROTO, std::move(message)}; }

// The first byte of each note, and how many bytes follow.
struct NoteForm {
  char kind;
  std::size_t size;
  Direction way;
};
constexpr NoteForm kNoteForms[] = {{1, 9, Direction::up},
                                   {2, 16, Direction::up},
                                   {3, 12, Direction::down},
                                   {4, 0, Direction::down},
                                   {5, 8, Direction::down}};
static_assert(std::size(kNoteForms) == std::variant_size_v<Note>);

void append_body(std::string& out, const BulkHello& m) {
  out += static_cast<char>(m.newcomer ? 1 : 0);
  append_number(out, m.have);
}
void append_body(std::string& out, const Heard& m) {
  append_number(out, m.view);
  append_number(out, m.number);
}
void append_body(std::string& out, const Taken& m) {
  append_number(out, m.origin);
  append_number(out, m.number);
}
void append_body(std::string& /*out*/, const Path& /*m*/) {}
void append_body(std::string& out, const Stable& m) { append_number(out, m.number); }

Result<Note> note_of(std::size_t index, std::string_view body) {
  switch (index) {
    case 0: {
      auto newcomer = take_number<std::uint8_t>(body);
      auto have = take_number<Numbered>(body);
      if (newcomer > 1) return broken(fmt::format("hello: a flag of {}; 0 or 1", newcomer));
      if (newcomer == 1 && have != 0) return broken("hello: a newcomer that has something");
      return Note(BulkHello{newcomer == 1, have});
    }
    case 1: {
      auto view = take_number<ViewNumber>(body);
      return Note(Heard{view, take_number<Numbered>(body)});
    }
    case 2: {
      auto origin = take_number<Id>(body);
      return Note(Taken{origin, take_number<Numbered>(body)});
    }
    case 3: return Note(Path{});
    default: return Note(Stable{take_number<Numbered>(body)});
  }
}

}  // namespace

// ---- records -----------------------------------------------------------------------------

void append_record(std::string& out, Head head, std::string_view bytes) {
  out += static_cast<char>(head.kind);
  append_number(out, head.channel);
  append_number(out, head.tag);
  append_number(out, head.number);
  append_number(out, static_cast<std::uint32_t>(bytes.size()));
  out += bytes;
}

void BulkRecordReader::add(std::string_view bytes) {
  if (at_ == bytes_.size() || at_ > kMostRead) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  bytes_ += bytes;
}

Result<void> BulkRecordReader::check_head(const Head& head) const {
  if (head.number == 0 && head.kind != BulkKind::start) return broken("a record with the number 0");
  switch (head.kind) {
    case BulkKind::data:
      if (head.size >= 1 && head.size <= most_) return {};
      return broken(fmt::format("a record of {} bytes; 1 to {} are allowed", head.size, most_));
    case BulkKind::end:
      if (head.size == 0) return {};
      return broken(fmt::format("the end of channel {} with {} bytes", head.channel, head.size));
    case BulkKind::start:
      if (head.channel != 0) return broken("a start with a channel");
      if (way_ == Direction::up && head.number == 0) return broken("a start with the number 0");
      if (way_ == Direction::up && head.size > kChannelBytes * kMaxEndedUp)
        return broken(fmt::format("a start from below of {} bytes; at most {} are allowed", head.size,
                                  kChannelBytes * kMaxEndedUp));
      if (way_ == Direction::down && head.tag < head.number)
        return broken("a start that begins before what is kept");
      if (head.size % kChannelBytes == 0 && head.size <= kChannelBytes * kMaxBroadcastChannels) return {};
      return broken(fmt::format("a start of {} bytes; an even number up to {} is allowed", head.size,
                                kChannelBytes * kMaxBroadcastChannels));
  }
  return broken(fmt::format("a record of kind {}; 1, 2 and 3 are known", static_cast<unsigned>(head.kind)));
}

Result<std::optional<BulkRecord>> BulkRecordReader::next() {
  std::string_view left = std::string_view(bytes_).substr(at_);
  if (left.size() < kHead) return std::optional<BulkRecord>();
  std::string_view from = left;
  BulkRecord record;
  record.head.kind = static_cast<BulkKind>(take_number<std::uint8_t>(from));
  record.head.channel = take_number<Channel>(from);
  record.head.tag = take_number<std::uint64_t>(from);
  record.head.number = take_number<Numbered>(from);
  record.head.size = take_number<std::uint32_t>(from);
  CHECK_OK(check_head(record.head));
  if (from.size() < record.head.size) return std::optional<BulkRecord>();
  record.bytes = from.substr(0, record.head.size);
  record.whole = left.substr(0, kHead + record.head.size);
  at_ += record.whole.size();
  return std::optional(record);
}

void append_channel(std::string& out, Channel channel) { append_number(out, channel); }

Result<std::vector<Channel>> ended_channels(std::string_view bytes) {
  std::vector<Channel> out;
  while (bytes.size() >= kChannelBytes) {
    auto channel = take_number<Channel>(bytes);
    if (!out.empty() && channel <= out.back()) return broken("channels that do not ascend");
    out.push_back(channel);
  }
  return out;
}

Result<void> check_record(const Limits& limits, const std::set<Channel>& ended, Channel channel,
                          std::string_view bytes) {
  if (bytes.empty()) return invalid(fmt::format("channel {}: a record without bytes", channel));
  if (bytes.size() > limits.record) {
    return Error{EMSGSIZE, fmt::format("channel {}: a record of {} bytes; at most {} are allowed", channel,
                                       bytes.size(), limits.record)};
  }
  if (ended.contains(channel)) return Error{EPIPE, fmt::format("channel {}: it has ended", channel)};
  return {};
}

// ---- notes -------------------------------------------------------------------------------

void append_note(std::string& out, const Note& note) {
  out += kNoteForms[note.index()].kind;
  std::visit([&](const auto& body) { append_body(out, body); }, note);
}

Result<std::optional<Note>> NoteReader::next() {
  if (bytes_.empty()) return std::optional<Note>();
  for (std::size_t index = 0; index < std::size(kNoteForms); ++index) {
    const NoteForm& form = kNoteForms[index];
    if (form.kind != bytes_[0] || form.way != way_) continue;
    if (bytes_.size() < 1 + form.size) return std::optional<Note>();
    Note note = TRY(note_of(index, std::string_view(bytes_).substr(1)));
    bytes_.erase(0, 1 + form.size);
    return std::optional(note);
  }
  return broken(fmt::format("a note of kind {} from {}", static_cast<unsigned char>(bytes_[0]),
                            way_ == Direction::up ? "below" : "above"));
}

}  // namespace nacre::bulk
