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

bool Names::publish(std::string_view name, std::string_view port) {
  if (!here_.add(name, port)) return false;
  if (tell_) tell_(name, port);
  return true;
}

bool Names::unpublish(std::string_view name) {
  if (!here_.remove(name)) return false;
  if (tell_) tell_(name, std::nullopt);
  return true;
}

// Of two nodes that publish a name at once the first that is heard has it.
void Names::heard(std::string_view name, const std::optional<std::string_view>& port) {
  if (!port) {
    agreed_.remove(name);
    here_.remove(name);
  } else if (agreed_.add(name, *port)) {
    here_.set(name, *port);
  }
}

}  // namespace nacre::pmi
