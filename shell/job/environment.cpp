// SPDX-License-Identifier: Apache-2.0
#include "job/environment.hpp"

#include <unistd.h>

#include "base/text.hpp"

namespace nacre::job {

Environment Environment::over(const Environment& base) {
  Environment layer;
  layer.base_ = &base;
  return layer;
}

Environment Environment::own() {
  Environment out;
  for (char** each = ::environ; *each != nullptr; ++each) {
    std::string_view text = *each;
    std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    out.set(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

Result<void> Environment::check(std::string_view name, std::string_view value) {
  if (name.empty()) return invalid("expected a variable's name, got ''");
  if (name.find_first_of(std::string_view("=\0", 2)) != std::string_view::npos) {
    return invalid(fmt::format("expected a variable's name, without '=' and NUL, got {}", in_quotes(name)));
  }
  if (value.find('\0') != std::string_view::npos) {
    return invalid(fmt::format("expected a value without NUL for {}, got {}", in_quotes(name), in_quotes(value)));
  }
  return {};
}

std::optional<std::string_view> Environment::get(std::string_view name) const {
  for (const Environment* layer = this; layer != nullptr; layer = layer->base_) {
    if (auto found = layer->index_.find(name); found != layer->index_.end()) {
      return layer->entries_[found->second].value();
    }
  }
  return std::nullopt;
}

void Environment::set(std::string_view name, std::string_view value) {
  std::string text;
  text.reserve(name.size() + 1 + value.size());
  text.append(name).append("=").append(value);
  put(std::move(text), name.size());
}

void Environment::unset(std::string_view name) {
  // without a base, nothing has to be hidden
  if (base_ == nullptr && !index_.contains(name)) return;
  put(std::string(name), name.size());
}

void Environment::put(std::string text, std::size_t name_size) {
  auto found = index_.find(std::string_view(text).substr(0, name_size));
  if (found == index_.end()) {
    const Entry& added = entries_.emplace_back(Entry{std::move(text), name_size});
    index_.emplace(added.name(), entries_.size() - 1);
    return;
  }
  // the key refers to the text that is removed
  auto node = index_.extract(found);
  Entry& entry = entries_[node.mapped()];
  entry.text = std::move(text);
  node.key() = entry.name();
  index_.insert(std::move(node));
}

std::optional<std::size_t> Environment::slot(std::string_view name) const {
  if (base_ != nullptr) {
    if (auto inherited = base_->slot(name)) return inherited;
  }
  auto found = index_.find(name);
  if (found == index_.end()) return std::nullopt;
  return slots() - entries_.size() + found->second;
}

std::vector<const Environment::Entry*> Environment::collect() const {
  std::vector<const Entry*> out;
  if (base_ != nullptr) out = base_->collect();
  out.reserve(out.size() + entries_.size());
  for (const Entry& entry : entries_) {
    std::optional<std::size_t> inherited;
    if (base_ != nullptr) inherited = base_->slot(entry.name());
    if (inherited) out[*inherited] = &entry;
    out.push_back(inherited ? nullptr : &entry);
  }
  return out;
}

std::vector<std::pair<std::string_view, std::string_view>> Environment::all() const {
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (const Entry* entry : collect()) {
    if (entry == nullptr) continue;
    if (auto value = entry->value()) out.emplace_back(entry->name(), *value);
  }
  return out;
}

std::vector<const char*> Environment::block() const {
  std::vector<const char*> out;
  out.reserve(slots() + 1);
  for (const Entry* entry : collect()) {
    if (entry != nullptr && entry->value()) out.push_back(entry->text.c_str());
  }
  out.push_back(nullptr);
  return out;
}

}  // namespace nacre::job
