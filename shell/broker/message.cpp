// SPDX-License-Identifier: Apache-2.0
#include "broker/message.hpp"

#include "base/bytes.hpp"

namespace nacre::broker {
namespace {

constexpr std::uint32_t kMagic = 0xffee0012;
constexpr std::uint8_t kFixedMagic = 0x8e;
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kFixedSize = 20;
constexpr std::uint8_t kHasTopic = 0x01;
constexpr std::uint8_t kHasPayload = 0x02;
constexpr std::uint8_t kHasRoute = 0x08;
constexpr std::uint8_t kLong = 0xff;

void append_frame(std::string& out, std::string_view bytes) {
  if (bytes.size() < kLong) {
    append_number(out, static_cast<std::uint8_t>(bytes.size()));
  } else {
    append_number(out, kLong);
    append_number(out, static_cast<std::uint32_t>(bytes.size()));
  }
  out += bytes;
}

std::optional<std::string_view> take_frame(std::string_view& bytes) {
  if (bytes.empty()) return std::nullopt;
  std::size_t size = take_number<std::uint8_t>(bytes);
  if (size == kLong) {
    if (bytes.size() < sizeof(std::uint32_t)) return std::nullopt;
    size = take_number<std::uint32_t>(bytes);
  }
  if (bytes.size() < size) return std::nullopt;
  std::string_view out = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return out;
}

bool is_kind(std::uint8_t number) { return number == 1 || number == 2 || number == 4 || number == 8; }

// The last frame. Returns its flags; none: it is wrong.
std::optional<std::uint8_t> take_fixed(std::string_view bytes, BrokerMessage& to) {
  if (bytes.size() != kFixedSize || take_number<std::uint8_t>(bytes) != kFixedMagic) return std::nullopt;
  if (take_number<std::uint8_t>(bytes) != kVersion) return std::nullopt;
  const auto kind = take_number<std::uint8_t>(bytes);
  if (!is_kind(kind)) return std::nullopt;
  to.kind = static_cast<BrokerMessage::Kind>(kind);
  const auto flags = take_number<std::uint8_t>(bytes);
  to.flags = flags & static_cast<std::uint8_t>(~(kHasTopic | kHasPayload | kHasRoute));
  to.userid = take_number<std::uint32_t>(bytes);
  to.rolemask = take_number<std::uint32_t>(bytes);
  to.first = take_number<std::uint32_t>(bytes);
  to.tag = take_number<std::uint32_t>(bytes);
  return flags;
}

std::string fixed_of(const BrokerMessage& message) {
  std::string out;
  std::uint8_t flags = message.flags;
  if (message.topic) flags |= kHasTopic;
  if (message.payload) flags |= kHasPayload;
  if (message.route) flags |= kHasRoute;
  append_number(out, kFixedMagic);
  append_number(out, kVersion);
  append_number(out, static_cast<std::uint8_t>(message.kind));
  append_number(out, flags);
  append_number(out, message.userid);
  append_number(out, message.rolemask);
  append_number(out, message.first);
  append_number(out, message.tag);
  return out;
}

Error broken(std::string_view what) { return Error{EPROTO, fmt::format("a message of the broker: {}", what)}; }

}  // namespace

std::string_view BrokerMessage::text() const {
  std::string_view out = payload ? std::string_view(*payload) : std::string_view();
  if (out.ends_with('\0')) out.remove_suffix(1);
  return out;
}

namespace {

void append_encoded(std::string& out, const BrokerMessage& message) {
  if (message.route) {
    for (const std::string& id : *message.route) append_frame(out, id);
    append_frame(out, {});
  }
  if (message.topic) append_frame(out, *message.topic);
  if (message.payload) append_frame(out, *message.payload);
  append_frame(out, fixed_of(message));
}

}  // namespace

std::string encode(const BrokerMessage& message) {
  std::string out;
  append_encoded(out, message);
  return out;
}

Result<BrokerMessage> decode(std::string_view bytes) {
  std::vector<std::string_view> frames;
  while (!bytes.empty()) {
    auto frame = take_frame(bytes);
    if (!frame) return broken("a frame is longer than the message");
    frames.push_back(*frame);
  }
  BrokerMessage out;
  auto flags = frames.empty() ? std::nullopt : take_fixed(frames.back(), out);
  if (!flags) return broken("its last frame is not as in RFC 3");
  std::size_t at = 0;
  const std::size_t end = frames.size() - 1;
  if ((*flags & kHasRoute) != 0) {
    out.route.emplace();
    while (at < end && !frames[at].empty()) out.route->emplace_back(frames[at++]);
    if (at++ >= end) return broken("its route has no end");
  }
  for (auto [bit, to] : {std::pair{kHasTopic, &out.topic}, std::pair{kHasPayload, &out.payload}}) {
    if ((*flags & bit) == 0) continue;
    if (at >= end) return broken("a frame is missing");
    to->emplace(frames[at++]);
  }
  if (at != end) return broken("it has more frames than its flags say");
  return out;
}

void append_framed(std::string& out, const BrokerMessage& message) {
  char magic[sizeof kMagic];
  std::memcpy(magic, &kMagic, sizeof kMagic);
  out.append(magic, sizeof magic);
  const std::size_t start = out.size();
  std::string size;
  append_number(size, std::uint32_t{0});
  out += size;  // replaced below, when the size is known
  append_encoded(out, message);
  const std::size_t bytes = out.size() - start - size.size();
  size.clear();
  append_number(size, static_cast<std::uint32_t>(bytes));
  out.replace(start, size.size(), size);
}

Result<std::optional<BrokerMessage>> BrokerFrames::next() {
  constexpr std::size_t kHead = sizeof kMagic + sizeof(std::uint32_t);
  std::string_view rest = std::string_view(bytes_).substr(begin_);
  if (rest.size() < kHead) return std::optional<BrokerMessage>();
  if (std::memcmp(rest.data(), &kMagic, sizeof kMagic) != 0) return broken("it does not begin as one");
  rest.remove_prefix(sizeof kMagic);
  const std::size_t size = take_number<std::uint32_t>(rest);
  if (size > kMaxMessage) return broken(fmt::format("{} bytes, more than {}", size, kMaxMessage));
  if (rest.size() < size) return std::optional<BrokerMessage>();
  BrokerMessage out = TRY(decode(rest.substr(0, size)));
  begin_ += kHead + size;
  if (begin_ == bytes_.size() || begin_ > (std::size_t{1} << 20)) {
    bytes_.erase(0, begin_);
    begin_ = 0;
  }
  return std::optional(std::move(out));
}

}  // namespace nacre::broker
