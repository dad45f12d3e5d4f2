// SPDX-License-Identifier: Apache-2.0
#include "group/extendable.hpp"

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

// ---- later port -------------------------------------------------------------------------

namespace {

Error no_other_shell() { return {ENOTCONN, "bulk: the job has no other shell yet"}; }

}  // namespace

void LaterPort::become(bulk::Port& port) {
  port_ = &port;
  for (auto& [channel, owner] : std::exchange(upward_, {})) port.serve(channel, std::move(owner));
  for (auto& [channel, owner] : std::exchange(downward_, {})) port.serve(channel, std::move(owner));
  if (serves_all_) port.serve_no_more();
}

void LaterPort::serve(bulk::Channel channel, Upward owner) {
  if (port_ != nullptr) return port_->serve(channel, std::move(owner));
  upward_[channel] = std::move(owner);
}

void LaterPort::serve(bulk::Channel channel, Downward owner) {
  if (port_ != nullptr) return port_->serve(channel, std::move(owner));
  downward_[channel] = std::move(owner);
}

void LaterPort::serve_no_more() {
  serves_all_ = true;
  if (port_ != nullptr) port_->serve_no_more();
}

Result<bool> LaterPort::put(bulk::Channel channel, std::string_view bytes) {
  return port_ != nullptr ? port_->put(channel, bytes) : no_other_shell();
}

Result<bool> LaterPort::broadcast(bulk::Channel channel, std::string_view bytes) {
  return port_ != nullptr ? port_->broadcast(channel, bytes) : no_other_shell();
}

Result<void> LaterPort::end_broadcast(bulk::Channel channel) {
  return port_ != nullptr ? port_->end_broadcast(channel) : no_other_shell();
}

void LaterPort::taken(bulk::Id origin, bulk::Numbered number) {
  if (port_ != nullptr) port_->taken(origin, number);
}

void LaterPort::consumed(bulk::Numbered number) {
  if (port_ != nullptr) port_->consumed(number);
}

}  // namespace nacre::group
