// SPDX-License-Identifier: Apache-2.0
//
// What is in the store: keys with their values, and queues. Each shell of the job has all of it, and makes the same
// changes in the same order, so all have the same.
#pragma once

#include "plugins/torch/store_requests.hpp"

namespace nacre::plugins {

class StoreKeys {
 public:
  static constexpr std::size_t kMost = std::size_t{64} << 20;  // bytes of keys and values, and a few for each

  // Makes a change. Returns the client's answer, "" for none. An error: nothing has changed.
  Result<std::string> change(StoreRequest request);
  // The answer to a request that changes nothing.
  [[nodiscard]] std::string answer(const StoreRequest& request) const;
  // Whether there is a value, or something in the queue.
  [[nodiscard]] bool has(const std::string& key) const { return values_.contains(key) || queues_.contains(key); }
  [[nodiscard]] bool has_all(const std::vector<std::string>& keys) const;

  // All of it, in pieces of about that many bytes, at least one.
  void write(std::size_t piece, const std::function<void(std::string bytes)>& take) const;
  Result<void> read(std::string_view bytes);  // adds the keys of one piece

 private:
  Result<void> make_room(std::size_t more);
  Result<void> set(const std::string& key, std::string value);
  void drop(const std::string& key);
  Result<std::string> compare_set(std::vector<std::string>& words);
  Result<void> multi_set(std::vector<std::string>& words);
  Result<std::string> add(const StoreRequest& request);
  Result<void> append(const std::string& key, std::string_view value);
  std::string pop(const std::string& queue);

  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // those that are not empty
  std::size_t bytes_ = 0;
};

}  // namespace nacre::plugins
