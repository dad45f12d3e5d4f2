// SPDX-License-Identifier: Apache-2.0
#include "pmi/kvs.hpp"

#include "base/invariant.hpp"

namespace nacre::pmi {
namespace {

Error not_published(std::string_view name) { return {ENOENT, fmt::format("the name {} is not published", name)}; }

}  // namespace

EntryRefs::value_type Kvs::add(std::string key, std::string value) {
  auto [it, added] = values_.try_emplace(std::move(key), std::move(value));
  if (!added) return nullptr;
  bytes_ += cost_of(it->first, it->second);
  return &*it;
}

void Kvs::set(std::string_view key, std::string_view value) {
  remove(key);
  add(std::string(key), std::string(value));
}

bool Kvs::remove(std::string_view key) {
  auto it = values_.find(key);
  if (it == values_.end()) return false;
  INVARIANT(bytes_ >= cost_of(it->first, it->second));
  bytes_ -= cost_of(it->first, it->second);
  values_.erase(it);
  return true;
}

const std::string* Kvs::find(std::string_view key) const {
  auto it = values_.find(key);
  return it != values_.end() ? &it->second : nullptr;
}

Result<void> Names::publish(std::string_view name, std::string_view port) {
  if (here_.add(std::string(name), std::string(port)) == nullptr) {
    return invalid(fmt::format("the name {} is published already", name));
  }
  if (on_change_) on_change_(name, port);
  return {};
}

Result<void> Names::unpublish(std::string_view name) {
  if (!here_.remove(name)) return not_published(name);
  if (on_change_) on_change_(name, std::nullopt);
  return {};
}

Result<std::string_view> Names::look_up(std::string_view name) const {
  const std::string* port = here_.find(name);
  if (port == nullptr) return not_published(name);
  return std::string_view(*port);
}

// If two nodes publish a name at once, the first change in the common order counts.
void Names::changed(std::string_view name, const std::optional<std::string_view>& port) {
  if (!port) {
    agreed_.remove(name);
    here_.remove(name);
  } else if (agreed_.add(std::string(name), std::string(*port)) != nullptr) {
    here_.set(name, *port);
  }
}

}  // namespace nacre::pmi
