// SPDX-License-Identifier: Apache-2.0
//
// Keys and values of a process group, and the names that its processes publish.
#pragma once

#include "base/result.hpp"

namespace nacre::pmi {

using Entries = std::vector<std::pair<std::string, std::string>>;  // keys and values
using EntryRefs = std::vector<const std::pair<const std::string, std::string>*>;

// How much all process groups of a job may store on one node, and how much they have stored.
struct Quota {
  std::uint64_t limit = 0;  // bytes, as Kvs::bytes() counts them
  std::uint64_t used = 0;
  bool reported = false;  // it has been reported that something was refused
};

class Kvs {
 public:
  // Bytes that a key counts for, besides those of the key and of its value
  static constexpr std::uint64_t kEntryCost = 64;
  [[nodiscard]] static std::uint64_t cost_of(std::string_view key, std::string_view value) {
    return key.size() + value.size() + kEntryCost;
  }

  // The new entry, which does not move until it is removed; nullptr, and no change, if the key exists.
  EntryRefs::value_type add(std::string key, std::string value);
  void set(std::string_view key, std::string_view value);
  bool remove(std::string_view key);  // false: it was not there
  [[nodiscard]] const std::string* find(std::string_view key) const;
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  // the cost of all entries

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> values_;
  std::uint64_t bytes_ = 0;
};

// Service names and their ports, for MPI_Publish_name. If processes of the job are on several nodes, each node has
// a copy. A change counts at once on its own node; all nodes receive the changes in one order, and agree by it.
class Names {
 public:
  Result<void> publish(std::string_view name, std::string_view port);  // EINVAL: the name is published already
  Result<void> unpublish(std::string_view name);                       // ENOENT
  [[nodiscard]] Result<std::string_view> look_up(
      std::string_view name) const;  // ENOENT; valid until the next change
  [[nodiscard]] std::uint64_t bytes() const { return here_.bytes() + agreed_.bytes(); }

  // Called for each change that is made here; without a port if a name was unpublished.
  using OnChange = std::function<void(std::string_view name, const std::optional<std::string_view>& port)>;
  void when_changed(OnChange on_change) { on_change_ = std::move(on_change); }
  // A change that any node has announced, this one too. Has to be called in the same order on all nodes.
  void changed(std::string_view name, const std::optional<std::string_view>& port);
  // Called at one place in that order: all names are free again.
  void forget() { here_ = agreed_ = Kvs(); }

 private:
  Kvs here_;
  Kvs agreed_;
  OnChange on_change_;
};

}  // namespace nacre::pmi
