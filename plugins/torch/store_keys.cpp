// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/store_keys.hpp"

#include "base/text.hpp"

namespace nacre::plugins {
namespace {

using Kind = StoreRequest::Kind;

constexpr std::size_t kForEach = 64;  // bytes that a key or an element of a queue takes in addition to its own

constexpr char kReady = 0, kNotReady = 1;  // answers to check

std::size_t size_of(std::string_view key, std::string_view value) { return key.size() + value.size() + kForEach; }

std::string number_answer(std::int64_t number) {
  std::string out;
  append_store_number(out, number);
  return out;
}

std::string text_answer(std::string_view text) {
  std::string out;
  append_store_text(out, text);
  return out;
}

}  // namespace

Result<void> StoreKeys::make_room(std::size_t more) {
  if (bytes_ + more <= kMost) return {};
  return Error{ENOSPC,
               fmt::format("the store is full: {} MiB are in it, and at most {}", bytes_ >> 20, kMost >> 20)};
}

Result<void> StoreKeys::set(const std::string& key, std::string value) {
  auto place = values_.find(key);
  const std::size_t before = place == values_.end() ? 0 : size_of(key, place->second);
  const std::size_t size = size_of(key, value);
  if (size > before) CHECK_OK(make_room(size - before));
  bytes_ += size - before;
  if (place == values_.end()) {
    values_.emplace(key, std::move(value));
  } else {
    place->second = std::move(value);
  }
  return {};
}

void StoreKeys::drop(const std::string& key) {
  auto place = values_.find(key);
  bytes_ -= size_of(key, place->second);
  values_.erase(place);
}

// Like PyTorch's own store: for a missing key the caller gets the value that it has expected.
Result<std::string> StoreKeys::compare_set(std::vector<std::string>& words) {
  const std::string &key = words[0], &expected = words[1];
  auto place = values_.find(key);
  if (place == values_.end() && !expected.empty()) return text_answer(expected);
  if (place == values_.end() || place->second == expected) CHECK_OK(set(key, std::move(words[2])));
  return text_answer(values_.at(key));
}

// Sets all of them or none.
Result<void> StoreKeys::multi_set(std::vector<std::string>& words) {
  std::size_t size = 0;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) size += size_of(words[i], words[i + 1]);
  CHECK_OK(make_room(size));
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) CHECK_OK(set(words[i], std::move(words[i + 1])));
  return {};
}

Result<std::string> StoreKeys::add(const StoreRequest& request) {
  const std::string& key = request.words[0];
  auto place = values_.find(key);
  std::int64_t sum = request.number;
  if (place != values_.end()) {
    auto before = parse_i64(place->second);
    if (!before || __builtin_add_overflow(*before, sum, &sum))
      return invalid(fmt::format("{} is added to the key {}, which has {}", request.number, in_quotes(key),
                                 in_quotes(place->second)));
  }
  CHECK_OK(set(key, fmt::format("{}", sum)));
  return number_answer(sum);
}

Result<void> StoreKeys::append(const std::string& key, std::string_view value) {
  auto place = values_.find(key);
  if (place == values_.end()) return set(key, std::string(value));
  CHECK_OK(make_room(value.size()));
  bytes_ += value.size();
  place->second += value;
  return {};
}

std::string StoreKeys::pop(const std::string& queue) {
  auto place = queues_.find(queue);
  if (place == queues_.end()) return number_answer(0);
  std::string out = number_answer(static_cast<std::int64_t>(place->second.size()));
  append_store_text(out, place->second.front());
  bytes_ -= size_of(queue, place->second.front());
  place->second.pop_front();
  if (place->second.empty()) queues_.erase(place);
  return out;
}

Result<std::string> StoreKeys::change(StoreRequest request) {
  std::vector<std::string>& words = request.words;
  switch (request.kind) {
    case Kind::set: CHECK_OK(set(words[0], std::move(words[1]))); return std::string();
    case Kind::multi_set: CHECK_OK(multi_set(words)); return std::string();
    case Kind::compare_set: return compare_set(words);
    case Kind::add: return add(request);
    case Kind::append: CHECK_OK(append(words[0], words[1])); return std::string();
    case Kind::queue_push:
      CHECK_OK(make_room(size_of(words[0], words[1])));
      bytes_ += size_of(words[0], words[1]);
      queues_[words[0]].push_back(std::move(words[1]));
      return std::string();
    case Kind::queue_pop: return pop(words[0]);
    default: break;
  }
  const bool is_there = values_.contains(words[0]);  // delete_key
  if (is_there) drop(words[0]);
  return number_answer(is_there ? 1 : 0);
}

std::string StoreKeys::answer(const StoreRequest& request) const {
  std::string out;
  auto value_of = [&](const std::string& key) {
    auto place = values_.find(key);
    return place == values_.end() ? std::string_view() : std::string_view(place->second);
  };
  switch (request.kind) {
    case Kind::get: return text_answer(value_of(request.words[0]));
    case Kind::multi_get:
      for (const std::string& each : request.words) append_store_text(out, value_of(each));
      return out;
    case Kind::check: return std::string(1, has_all(request.words) ? kReady : kNotReady);
    case Kind::count_keys: return number_answer(static_cast<std::int64_t>(values_.size()));
    case Kind::queue_size: {
      auto queue = queues_.find(request.words[0]);
      return number_answer(queue == queues_.end() ? 0 : static_cast<std::int64_t>(queue->second.size()));
    }
    default: break;
  }
  return number_answer(request.number).substr(0, sizeof(std::uint32_t));  // ping
}

bool StoreKeys::has_all(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [this](const std::string& key) { return has(key); });
}

void StoreKeys::write(std::size_t piece, const std::function<void(std::string bytes)>& take) const {
  std::string out;
  auto add = [&](Kind kind, const std::string& key, const std::string& value) {
    encode_store_request(out, {kind, {key, value}, 0});
    if (out.size() >= piece) take(std::exchange(out, {}));
  };
  for (const auto& [key, value] : values_) add(Kind::set, key, value);
  for (const auto& [key, queue] : queues_) {
    for (const std::string& each : queue) add(Kind::queue_push, key, each);
  }
  take(std::move(out));
}

Result<void> StoreKeys::read(std::string_view bytes) {
  while (!bytes.empty()) TRY(change(TRY(decode_store_request(bytes))));
  return {};
}

}  // namespace nacre::plugins
