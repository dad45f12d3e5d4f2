// SPDX-License-Identifier: Apache-2.0
#include "alarms.hpp"

#include <utility>

namespace nacre::pmix {

void Alarms::after(double seconds, std::function<void()> function) {
  auto alarm = std::make_unique<Alarm>();
  alarm->function = std::move(function);
  auto ring = [](flux_reactor_t*, flux_watcher_t*, int, void* arg) {
    // The function may set another alarm, which destroys this one.
    auto rung = std::move(static_cast<Alarm*>(arg)->function);
    rung();
  };
  flux_reactor_t* reactor = flux_get_reactor(flux_shell_get_flux(shell_));
  alarm->watcher = flux_timer_watcher_create(reactor, seconds, 0, ring, alarm.get());
  if (alarm->watcher == nullptr) return;
  flux_watcher_start(alarm->watcher);
  flux_watcher_unref(alarm->watcher);
  std::erase_if(alarms_, [](const auto& each) { return !flux_watcher_is_active(each->watcher); });
  alarms_.push_back(std::move(alarm));
}

}  // namespace nacre::pmix
