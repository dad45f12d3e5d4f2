// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/store_requests.hpp"

#include "base/bytes.hpp"

namespace nacre::plugins {
namespace {

using Kind = StoreRequest::Kind;

constexpr std::uint32_t kGreeting = 0x3c85f7ce;

// What follows the first byte.
enum class Shape : std::uint8_t { nothing, key, key_value, key_two_values, key_number, keys, pairs, nonce };

constexpr Shape kShapes[] = {Shape::key_value, Shape::key_two_values, Shape::key,     Shape::key_number,
                             Shape::keys,      Shape::keys,           Shape::nothing, Shape::key,
                             Shape::key_value, Shape::keys,           Shape::pairs,   Shape::nothing,
                             Shape::nonce,     Shape::key_value,      Shape::key,     Shape::key};

constexpr Kind kSince22[] = {Kind::set,    Kind::compare_set, Kind::get,        Kind::add,
                             Kind::check,  Kind::wait,        Kind::count_keys, Kind::delete_key,
                             Kind::append, Kind::multi_get,   Kind::multi_set,  Kind::cancel_wait,
                             Kind::ping,   Kind::queue_push,  Kind::queue_pop,  Kind::queue_size};

constexpr Kind kBefore22[] = {Kind::set,    Kind::compare_set, Kind::get,        Kind::add,
                              Kind::check,  Kind::wait,        Kind::count_keys, Kind::delete_key,
                              Kind::append, Kind::multi_get,   Kind::multi_set,  Kind::cancel_wait};
constexpr std::size_t kWatchKey = 7;  // between count_keys and delete_key

// Takes values off the front of `bytes`; `is_short`: a value has not come completely.
struct StoreCursor {
  std::string_view bytes;
  bool is_short = false;

  template <typename T>
  T number() {
    T out{};
    if (bytes.size() < sizeof out) is_short = true;
    if (is_short) return out;
    std::memcpy(&out, bytes.data(), sizeof out);
    bytes.remove_prefix(sizeof out);
    return out;
  }

  Result<std::string_view> text(std::size_t most, const char* what) {
    const auto size = number<std::uint64_t>();
    if (!is_short && size > most) return invalid(fmt::format("a {} of {} bytes; at most {}", what, size, most));
    if (bytes.size() < size) is_short = true;
    if (is_short) return std::string_view();
    std::string_view out = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return out;
  }
};

// The fewest words that a request of this shape has.
std::size_t words_of(Shape shape) {
  if (shape == Shape::key_two_values) return 3;
  if (shape == Shape::key_value) return 2;
  return shape == Shape::key || shape == Shape::key_number ? 1 : 0;
}

// The words of a request; more bytes are needed if the cursor says so.
Result<std::vector<std::string_view>> read_words(StoreCursor& from, Shape shape) {
  std::uint64_t count = 1;
  if (shape == Shape::nothing || shape == Shape::nonce) count = 0;
  if (shape == Shape::keys || shape == Shape::pairs) {
    count = from.number<std::uint64_t>();
    if (count > StoreRequests::kMaxWords)
      return invalid(fmt::format("a request with {} keys; at most {}", count, StoreRequests::kMaxWords));
  }
  std::size_t values = shape == Shape::key_value || shape == Shape::pairs ? 1 : 0;
  if (shape == Shape::key_two_values) values = 2;
  std::vector<std::string_view> out;
  for (std::uint64_t i = 0; i < count && !from.is_short; ++i) {
    out.push_back(TRY(from.text(StoreRequests::kMaxKey, "key")));
    for (std::size_t value = 0; value < values; ++value)
      out.push_back(TRY(from.text(StoreRequests::kMaxValue, "value")));
  }
  return out;
}

Result<Kind> kind_of(std::uint8_t byte, bool is_old) {
  if (!is_old) {
    if (byte == 0 || byte > std::size(kSince22))
      return invalid(fmt::format("a request of the unknown kind {}", byte));
    return kSince22[byte - 1];
  }
  if (byte == kWatchKey) return invalid("a request to watch a key");
  const std::size_t place = byte < kWatchKey ? byte : byte - std::size_t{1};
  if (place >= std::size(kBefore22)) return invalid(fmt::format("a request of the unknown kind {}", byte));
  return kBefore22[place];
}

}  // namespace

bool StoreRequest::changes_keys() const {
  switch (kind) {
    case Kind::set:
    case Kind::compare_set:
    case Kind::add:
    case Kind::delete_key:
    case Kind::append:
    case Kind::multi_set:
    case Kind::queue_push:
    case Kind::queue_pop: return true;
    default: return false;
  }
}

void append_store_number(std::string& out, std::int64_t number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof bytes);
}

void append_store_text(std::string& out, std::string_view text) {
  append_store_number(out, static_cast<std::int64_t>(text.size()));
  out += text;
}

// Returns whether it is known which protocol the client speaks.
Result<bool> StoreRequests::greet() {
  StoreCursor from{std::string_view(bytes_).substr(begin_)};
  if (from.bytes.empty()) return false;
  const bool may_greet = from.number<std::uint8_t>() == 0;
  const auto greeting = may_greet ? from.number<std::uint32_t>() : 0;
  if (from.is_short) return false;
  const bool greets = may_greet && greeting == kGreeting;
  if (greets) begin_ += sizeof(std::uint8_t) + sizeof greeting;
  dialect_ = greets ? Dialect::since_2_2 : Dialect::before_2_2;
  return true;
}

Result<std::optional<StoreRequest>> StoreRequests::next() {
  if (dialect_ == Dialect::unknown && !TRY(greet())) return std::nullopt;
  StoreCursor from{std::string_view(bytes_).substr(begin_)};
  if (from.bytes.empty()) return std::nullopt;
  StoreRequest out;
  out.kind = TRY(kind_of(from.number<std::uint8_t>(), dialect_ == Dialect::before_2_2));
  const Shape shape = kShapes[static_cast<std::size_t>(out.kind)];
  const auto words = TRY(read_words(from, shape));
  if (shape == Shape::key_number) out.number = from.number<std::int64_t>();
  if (shape == Shape::nonce) out.number = from.number<std::uint32_t>();
  if (from.is_short && unread() > kMaxRequest)
    return invalid(fmt::format("a request of more than {} bytes", kMaxRequest));
  if (from.is_short) return std::nullopt;
  out.words.assign(words.begin(), words.end());
  begin_ = bytes_.size() - from.bytes.size();
  if (begin_ == bytes_.size()) {
    bytes_.clear();
    begin_ = 0;
  } else if (begin_ > bytes_.size() / 2) {
    bytes_.erase(0, std::exchange(begin_, 0));
  }
  return out;
}

void encode_store_request(std::string& out, const StoreRequest& request) {
  append_number(out, static_cast<std::uint8_t>(request.kind));
  append_number(out, static_cast<std::uint64_t>(request.number));
  append_number(out, static_cast<std::uint32_t>(request.words.size()));
  for (const std::string& each : request.words) {
    append_number(out, static_cast<std::uint32_t>(each.size()));
    out += each;
  }
}

Result<StoreRequest> decode_store_request(std::string_view& bytes) {
  const Error cut = invalid("a request that is cut");
  constexpr std::size_t kHead = sizeof(std::uint8_t) + sizeof(std::uint64_t) + sizeof(std::uint32_t);
  if (bytes.size() < kHead) return cut;
  StoreRequest out;
  out.kind = static_cast<Kind>(take_number<std::uint8_t>(bytes));
  out.number = static_cast<std::int64_t>(take_number<std::uint64_t>(bytes));
  for (auto words = take_number<std::uint32_t>(bytes); words > 0; --words) {
    if (bytes.size() < sizeof(std::uint32_t)) return cut;
    const auto size = take_number<std::uint32_t>(bytes);
    if (bytes.size() < size) return cut;
    out.words.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  if (!out.changes_keys() || out.words.size() < words_of(kShapes[static_cast<std::size_t>(out.kind)])) return cut;
  return out;
}

}  // namespace nacre::plugins
