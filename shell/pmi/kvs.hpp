// SPDX-License-Identifier: Apache-2.0
//
// Keys and values of a process group, and the names that its processes publish.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nacre::pmi {

using Entries = std::vector<std::pair<std::string, std::string>>;  // keys and values
using EntryRefs = std::vector<const std::pair<const std::string, std::string>*>;

// What all process groups of a job may store on one node, and do.
struct Quota {
  std::uint64_t limit = 0;  // bytes, as Kvs::bytes() counts them
  std::uint64_t used = 0;
  bool reported = false;  // that something was refused
};

class Kvs {
 public:
  static constexpr std::uint64_t kEntryCost = 64;  // bytes that a key counts for, beside its own and its value's
  [[nodiscard]] static std::uint64_t cost_of(std::string_view key, std::string_view value) {
    return key.size() + value.size() + kEntryCost;
  }

  // The new entry, which stays where it is until it is removed; nullptr, and nothing changed, if the key is there.
  EntryRefs::value_type add(std::string key, std::string value);
  void set(std::string_view key, std::string_view value);
  bool remove(std::string_view key);  // whether it was there
  [[nodiscard]] const std::string* find(std::string_view key) const;
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  // the cost of all

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> values_;
  std::uint64_t bytes_ = 0;
};

// Service names and the ports that they stand for, MPI_Publish_name's. Where processes of the job are on several nodes, each
// node has a copy: a change counts at once on its own node, and what all nodes agree on is the order in which they hear of changes.
class Names {
 public:
  // False, and nothing changed, if the name is there.
  bool publish(std::string_view name, std::string_view port);
  bool unpublish(std::string_view name);  // whether it was there
  [[nodiscard]] const std::string* find(std::string_view name) const { return here_.find(name); }
  [[nodiscard]] std::uint64_t bytes() const { return here_.bytes() + agreed_.bytes(); }

  // Called for each change that is made here; of a name that is taken back there is no port.
  using Tell = std::function<void(std::string_view name, const std::optional<std::string_view>& port)>;
  void tell_others(Tell tell) { tell_ = std::move(tell); }
  // A change that some node has told, this one too; to be called in the same order on all.
  void heard(std::string_view name, const std::optional<std::string_view>& port);

 private:
  Kvs here_;
  Kvs agreed_;
  Tell tell_;
};

}  // namespace nacre::pmi
