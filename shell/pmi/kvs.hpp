// SPDX-License-Identifier: Apache-2.0
//
// Keys and values of a process group, and the names that its processes publish.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nacre::pmi {

using Entries = std::vector<std::pair<std::string, std::string>>;  // keys and values

class Kvs {
 public:
  // False, and nothing changed, if the key is there.
  bool add(std::string_view key, std::string_view value);
  void set(std::string_view key, std::string_view value);
  bool remove(std::string_view key);  // whether it was there
  [[nodiscard]] const std::string* find(std::string_view key) const;
  [[nodiscard]] std::size_t size() const { return values_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> values_;
};

// Service names and the ports that they stand for, MPI_Publish_name's.
using Names = Kvs;

}  // namespace nacre::pmi
