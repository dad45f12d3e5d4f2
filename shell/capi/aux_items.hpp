// SPDX-License-Identifier: Apache-2.0
//
// Data that plugins attach to a handle: a pointer under a key, with the function that frees it. The rules are those
// of flux_shell_aux_set(3).
#pragma once

#include <flux/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nacre::capi {

class AuxItems {
 public:
  AuxItems() = default;
  ~AuxItems() { clear(); }
  AuxItems(const AuxItems&) = delete;
  AuxItems& operator=(const AuxItems&) = delete;

  // Stores `value` under `key` (nullptr: without a key), and frees the value that was there. A null value only
  // frees. EINVAL if both are null, or if `free_fn` comes without a value.
  Result<void> set(const char* key, void* value, flux_free_f free_fn);
  [[nodiscard]] void* get(std::string_view key) const;  // nullptr: none
  // Frees the first item with this value.
  void remove(const void* value);
  // Frees all, the newest first, and those that are added meanwhile.
  void clear();

 private:
  struct Item {
    bool named = false;
    std::string key;
    void* value = nullptr;
    flux_free_f free_fn = nullptr;
  };

  void erase(std::size_t index);

  std::vector<Item> items_;
};

}  // namespace nacre::capi
