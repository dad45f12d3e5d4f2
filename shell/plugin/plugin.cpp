// SPDX-License-Identifier: Apache-2.0
#include "plugin/plugin.hpp"

#include "base/text.hpp"

namespace nacre::plugin {

void Plugin::on(std::string topic, Handler handler) {
  ++version_;
  for (Subscription& each : subscriptions_) {
    if (each.topic == topic) {
      each.handler = std::move(handler);
      return;
    }
  }
  subscriptions_.push_back({std::move(topic), std::move(handler)});
}

void Plugin::off(std::string_view topic) {
  ++version_;
  // Emptied, not erased: a call in progress may still refer to it.
  for (Subscription& each : subscriptions_) {
    if (each.topic == topic) each = Subscription{};
  }
}

const Handler* Plugin::match(const std::string& topic) const {
  for (const Subscription& each : subscriptions_) {
    if (each.handler && each.topic == topic) return &each.handler;
  }
  for (const Subscription& each : subscriptions_) {
    if (each.handler && is_glob(each.topic) && glob_match(each.topic, topic)) return &each.handler;
  }
  return nullptr;
}

}  // namespace nacre::plugin
