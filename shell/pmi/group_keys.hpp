// SPDX-License-Identifier: Apache-2.0
//
// What the clients of a process group have stored on this node: keys, attributes of the job and of the node, and,
// with the other groups, names. All of it is charged to the quota.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "pmi/group.hpp"
#include "pmi/kvs.hpp"

namespace nacre::pmi {

class GroupKeys {
 public:
  // All have to outlive it; `quota` may be null: no limit. `events` gets a Full if something is refused.
  GroupKeys(Names& names, Quota* quota, std::vector<Event>& events)
      : names_(names), quota_(quota), events_(events) {}
  ~GroupKeys();
  GroupKeys(const GroupKeys&) = delete;
  GroupKeys& operator=(const GroupKeys&) = delete;

  Result<void> put(std::uint32_t client, std::string_view key, std::string_view value);
  [[nodiscard]] const std::string* get(std::string_view key) const;           // a key that was put, or an attribute
  [[nodiscard]] EntryRefs take_fresh() { return std::exchange(fresh_, {}); }  // put since this was called last
  // The n-th key that this node has come to know; null: there are not so many.
  [[nodiscard]] EntryRefs::value_type at(std::uint64_t n) const { return n < known_.size() ? known_[n] : nullptr; }
  // Stores what all nodes have put, or, if that is more than the quota allows, nothing.
  Result<void> take_over(Entries others);

  void set_attribute(std::string_view key, std::string_view value);  // of the job
  [[nodiscard]] const std::string* attribute(std::string_view key) const { return attributes_.find(key); }
  Result<void> put_node_attribute(std::uint32_t client, std::string_view key, std::string_view value);
  [[nodiscard]] const std::string* node_attribute(std::string_view key) const { return node_attributes_.find(key); }

  Result<void> publish(std::uint32_t client, std::string_view name, std::string_view port);
  [[nodiscard]] Names& names() { return names_; }

 private:
  Result<void> look_for_room(std::uint32_t client, std::string_view key, std::string_view value);
  Error refuse(std::optional<std::uint32_t> client, std::uint64_t bytes);
  void charge();  // updates the quota by what is stored now

  Names& names_;
  Quota* quota_;
  std::vector<Event>& events_;
  Kvs kvs_;
  Kvs attributes_;
  Kvs node_attributes_;
  EntryRefs known_;            // of kvs_, whose entries stay
  EntryRefs fresh_;            // of kvs_
  std::uint64_t charged_ = 0;  // to the quota
};

}  // namespace nacre::pmi
