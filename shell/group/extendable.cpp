// SPDX-License-Identifier: Apache-2.0
#include "group/extendable.hpp"

#include <utility>

namespace nacre::group {

// The caller may itself run in a callback of `alone_`, so the driver gets copies of the callbacks.
Result<OverlayDriver*> Extendable::extend(event::Loop& loop, Membership membership, Log& log) {
  auto driver = TRY(OverlayDriver::create(loop, std::move(membership), log));
  CHECK_OK(driver->keep_alive());
  if (silent_bound_) driver->wait_for_silent(*silent_bound_);
  if (!held_.empty()) driver->hold_links(held_);
  driver_ = std::move(driver);
  now_ = driver_.get();
  port_.become(*driver_->bulk());
  driver_->serve(alone_.callbacks());
  return driver_.get();
}

void Extendable::wait_for_silent(std::chrono::milliseconds bound) {
  silent_bound_ = bound;
  now_->wait_for_silent(bound);
}

void Extendable::hold_links(const value::Idset& shells) {
  held_ = shells;
  now_->hold_links(shells);
}

}  // namespace nacre::group
