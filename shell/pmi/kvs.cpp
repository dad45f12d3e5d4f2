// SPDX-License-Identifier: Apache-2.0
#include "pmi/kvs.hpp"

namespace nacre::pmi {

bool Kvs::add(std::string_view key, std::string_view value) {
  if (values_.find(key) != values_.end()) return false;
  values_.emplace(key, value);
  return true;
}

void Kvs::set(std::string_view key, std::string_view value) {
  auto it = values_.find(key);
  if (it != values_.end()) {
    it->second = value;
  } else {
    values_.emplace(key, value);
  }
}

bool Kvs::remove(std::string_view key) {
  auto it = values_.find(key);
  if (it == values_.end()) return false;
  values_.erase(it);
  return true;
}

const std::string* Kvs::find(std::string_view key) const {
  auto it = values_.find(key);
  return it != values_.end() ? &it->second : nullptr;
}

}  // namespace nacre::pmi
