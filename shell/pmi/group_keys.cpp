// SPDX-License-Identifier: Apache-2.0
#include "pmi/group_keys.hpp"

#include <utility>

#include <fmt/format.h>

namespace nacre::pmi {
namespace {

Result<void> fits(std::string_view key, std::string_view value) {
  if (key.size() >= kMaxKey) return invalid(fmt::format("a key has at most {} bytes", kMaxKey - 1));
  if (value.size() >= kMaxValue) return invalid(fmt::format("a value has at most {} bytes", kMaxValue - 1));
  return {};
}

}  // namespace

GroupKeys::~GroupKeys() {
  if (quota_ != nullptr) quota_->used -= charged_;
}

Result<void> GroupKeys::put(std::uint32_t client, std::string_view key, std::string_view value) {
  CHECK_OK(fits(key, value));
  if (get(key) != nullptr) return invalid(fmt::format("the key {} is there already", key));
  CHECK_OK(look_for_room(client, key, value));
  fresh_.push_back(known_.emplace_back(kvs_.add(std::string(key), std::string(value))));
  charge();
  return {};
}

// All nodes then have the same keys and quota, so the barrier fails on all of them or on none.
Result<void> GroupKeys::take_over(Entries others) {
  std::uint64_t bytes = kvs_.bytes();
  for (const auto& [key, value] : others) bytes += Kvs::cost_of(key, value);
  if (quota_ != nullptr && bytes > quota_->limit) return refuse(std::nullopt, bytes);
  for (auto& [key, value] : others) {
    if (auto entry = kvs_.add(std::move(key), std::move(value)); entry != nullptr) known_.push_back(entry);
  }
  charge();
  return {};
}

Result<void> GroupKeys::look_for_room(std::uint32_t client, std::string_view key, std::string_view value) {
  if (quota_ == nullptr) return {};
  std::uint64_t bytes = quota_->used + names_.bytes() + Kvs::cost_of(key, value);
  if (bytes > quota_->limit) return refuse(client, bytes);
  return {};
}

Error GroupKeys::refuse(std::optional<std::uint32_t> client, std::uint64_t bytes) {
  std::uint64_t limit = quota_->limit;
  if (!std::exchange(quota_->reported, true)) events_.emplace_back(Full{client, bytes, limit});
  return Error{ENOSPC, fmt::format("the keys of the job would have {} bytes, and may have {}", bytes, limit)};
}

void GroupKeys::charge() {
  if (quota_ == nullptr) return;
  std::uint64_t now = kvs_.bytes() + attributes_.bytes() + node_attributes_.bytes();
  quota_->used += now - std::exchange(charged_, now);
}

const std::string* GroupKeys::get(std::string_view key) const {
  const std::string* value = kvs_.find(key);
  return value != nullptr ? value : attributes_.find(key);
}

void GroupKeys::set_attribute(std::string_view key, std::string_view value) {
  attributes_.set(key, value);
  charge();
}

Result<void> GroupKeys::publish(std::uint32_t client, std::string_view name, std::string_view port) {
  if (port.size() >= kMaxValue) return invalid(fmt::format("a port has at most {} bytes", kMaxValue - 1));
  CHECK_OK(look_for_room(client, name, port));
  return names_.publish(name, port);
}

Result<void> GroupKeys::put_node_attribute(std::uint32_t client, std::string_view key, std::string_view value) {
  CHECK_OK(fits(key, value));
  CHECK_OK(look_for_room(client, key, value));
  node_attributes_.set(key, value);
  charge();
  return {};
}

}  // namespace nacre::pmi
