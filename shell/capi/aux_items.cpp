// SPDX-License-Identifier: Apache-2.0
#include "capi/aux_items.hpp"

namespace nacre::capi {

Result<void> AuxItems::set(const char* key, void* value, flux_free_f free_fn) {
  if (value == nullptr && (key == nullptr || free_fn != nullptr)) return invalid("neither a key nor a value");
  if (key == nullptr && free_fn == nullptr) return invalid("a value without a key needs a function to free it");
  if (key != nullptr) {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (!items_[i].named || items_[i].key != key) continue;
      erase(i);
      break;
    }
  }
  if (value != nullptr) items_.push_back({key != nullptr, key != nullptr ? key : "", value, free_fn});
  return {};
}

void* AuxItems::get(std::string_view key) const {
  for (const Item& each : items_) {
    if (each.named && each.key == key) return each.value;
  }
  return nullptr;
}

void AuxItems::remove(const void* value) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].value == value) return erase(i);
  }
}

void AuxItems::clear() {
  while (!items_.empty()) erase(items_.size() - 1);
}

// Plugins cast functions of other types, such as flux_future_destroy, to this one, as plugins written for Flux do.
#ifdef __clang__
[[clang::no_sanitize("function")]]
#endif
void AuxItems::erase(std::size_t index) {
  // Taken out first, as its function may call this object.
  Item item = std::move(items_[index]);
  items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(index));
  if (item.free_fn != nullptr) item.free_fn(item.value);
}

}  // namespace nacre::capi
