// SPDX-License-Identifier: Apache-2.0
#include "transport/link.hpp"

#include <utility>

#include "transport/link_core.hpp"

namespace nacre::transport {

Link::Link(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Link::~Link() { Core::leave(std::move(core_)); }

Result<std::unique_ptr<Link>> Link::create(event::Loop& loop, Start start, LinkLimits limits) {
  return std::unique_ptr<Link>(new Link(TRY(Core::create(loop, std::move(start), limits))));
}

void Link::serve(Callbacks callbacks) { core_->serve(std::move(callbacks)); }

Result<void> Link::send(std::string_view frame) {
  if (core_->is_closed()) return Error{EPIPE, core_->peer() + ": the link is closed"};
  CHECK_OK(in(core_->peer(), core_->exchange.send(frame)));
  core_->changed();
  return {};
}

bool Link::has_room() const { return core_->exchange.has_room(); }

std::size_t Link::write(StreamId stream, std::string_view bytes) { return core_->write(stream, bytes); }

Result<void> Link::end(StreamId stream) {
  if (core_->is_closed()) return Error{EPIPE, core_->peer() + ": the link is closed"};
  CHECK_OK(in(core_->peer(), core_->exchange.end(stream)));
  core_->changed();
  return {};
}

Result<void> Link::grant(StreamId stream, std::size_t bytes) {
  if (core_->is_closed()) return Error{EPIPE, core_->peer() + ": the link is closed"};
  CHECK_OK(in(core_->peer(), core_->exchange.grant(stream, bytes)));
  core_->changed();
  return {};
}

void Link::finish() {
  core_->exchange.finish();
  core_->changed();
}

void Link::abort() { core_->close(); }

const std::string& Link::peer() const { return core_->peer(); }

bool Link::is_closed() const { return core_->is_closed(); }

std::size_t Link::queued() const {
  return core_->exchange.queued_control() + core_->exchange.queued_bulk() + core_->unsent();
}

}  // namespace nacre::transport
