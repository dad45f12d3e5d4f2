// SPDX-License-Identifier: Apache-2.0
#include "group/bulk_driver.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace nacre::group {
namespace {

constexpr std::array kUpChannels{bulk::up::kOutput};

}  // namespace

BulkDriver::BulkDriver(const bulk::BulkOptions& options, BulkStreams& streams, bulk::StreamId before,
                       std::function<void(overlay::LinkName, const Error&)> broken, std::function<void()> wait)
    : streams_(streams), before_(before), broken_(std::move(broken)), wait_(std::move(wait)), node_(options) {}

// ---- called by OverlayDriver --------------------------------------------------------------------------

void BulkDriver::look_at(const overlay::Node& node) {
  if (cut_off_) return;
  if (view_ != node.view()) {
    view_ = node.view();
    node_.view(*view_, node.tree().children(node.options().self));
  }
  if (feeder_ != node.feeder()) {
    if (feeder_) gone({*feeder_, overlay::Side::up});
    feeder_ = node.feeder();
    if (feeder_) node_.up(*feeder_);
  }
}

void BulkDriver::linked(overlay::LinkName link) {
  if (cut_off_ || link.side != overlay::Side::down) return;
  gone(link);
  node_.child_up(link.peer);
}

void BulkDriver::gone(overlay::LinkName link) {
  std::erase_if(outgoing_, [&](const auto& each) { return each.first.first == link; });
  std::erase_if(written_, [&](const Stream& each) { return each.first == link; });
  if (link.side == overlay::Side::down) {
    node_.child_gone(link.peer);
  } else if (feeder_ == link.peer) {
    feeder_.reset();
    node_.no_up();
  }
}

void BulkDriver::received(overlay::LinkName from, bulk::StreamId stream, std::string_view bytes) {
  if (cut_off_) return;
  Result<void> received = bytes.empty()
                              ? Result<void>(Error{EPROTO, fmt::format("bulk stream {} has ended", stream)})
                              : node_.received(from, stream - before_, bytes);
  if (!received) broken_(from, received.error());
  pump();
}

void BulkDriver::on_credit(overlay::LinkName to, bulk::StreamId stream) {
  write_on({to, stream - before_});
  pump();
}

void BulkDriver::waited() {
  if (cut_off_) return;
  node_.waited();
  pump();
}

void BulkDriver::close() {
  if (cut_off_) return;
  for (bulk::Channel channel : kUpChannels) static_cast<void>(node_.end(channel));  // EPIPE: it has ended before
  pump();
}

void BulkDriver::cut_off(const Error& why) {
  if (cut_off_) return;
  cut_off_ = why;
  outgoing_.clear();
  written_.clear();
  auto report_end = [this](const auto& owners) {
    for (const auto& [channel, owner] : owners) {
      if (owner.on_end) call_later([this, on_end = owner.on_end] { on_end(*cut_off_); });
    }
  };
  report_end(upward_);
  report_end(downward_);
}

// ---- called by the users of channels -----------------------------------------------------------

void BulkDriver::serve(bulk::Channel channel, Upward owner) {
  upward_[channel] = std::move(owner);
  for (bulk::DeliverRecord& each : std::exchange(unserved_up_, {})) receive(std::move(each));
  pump();
}

void BulkDriver::serve(bulk::Channel channel, Downward owner) {
  downward_[channel] = std::move(owner);
  for (bulk::Announce& each : std::exchange(unserved_down_, {})) {
    call_later([this, each] { announce(each); });
  }
  pump();
}

void BulkDriver::serve_no_more() {
  serves_all_ = true;
  for (bulk::DeliverRecord& each : std::exchange(unserved_up_, {})) receive(std::move(each));
  for (bulk::Announce& each : std::exchange(unserved_down_, {})) {
    call_later([this, each] { announce(each); });
  }
  pump();
}

Result<bool> BulkDriver::put(bulk::Channel channel, std::string_view bytes) {
  if (cut_off_) return *cut_off_;
  Result<bool> put = node_.put(channel, bytes);
  pump();
  return put;
}

Result<bool> BulkDriver::broadcast(bulk::Channel channel, std::string_view bytes) {
  if (cut_off_) return *cut_off_;
  Result<bool> sent = node_.broadcast(channel, bytes);
  pump();
  return sent;
}

Result<void> BulkDriver::end_broadcast(bulk::Channel channel) {
  if (cut_off_) return *cut_off_;
  Result<void> ended = node_.end_broadcast(channel);
  pump();
  return ended;
}

void BulkDriver::taken(bulk::Id origin, bulk::Numbered number) {
  auto up_to = delivered_[origin].done(number);
  if (!up_to) return;
  node_.taken(origin, *up_to);
  pump();
}

void BulkDriver::consumed(bulk::Numbered number) {
  auto up_to = announced_.done(number);
  if (!up_to) return;
  node_.consumed(*up_to);
  pump();
}

// ---- effects of the node -----------------------------------------------------------------------

bool BulkDriver::step() {
  std::vector<bulk::BulkEffect> effects = node_.take_effects();
  for (bulk::BulkEffect& effect : effects) {
    std::visit([this](auto& each) { do_effect(each); }, effect);
  }
  std::vector<Stream> written = std::exchange(written_, {});
  for (const Stream& stream : written) node_.written(stream.first, stream.second);
  return !written.empty() || !effects.empty() || deferred_.call_next();
}

void BulkDriver::do_effect(bulk::Write& write) {
  if (cut_off_) return;
  Stream stream{write.to, write.stream};
  outgoing_[stream] = {std::move(write.bytes), 0};
  write_on(stream);
}

void BulkDriver::write_on(const Stream& stream) {
  auto found = outgoing_.find(stream);
  if (found == outgoing_.end()) return;
  Outgoing& out = found->second;
  out.at += streams_.write(stream.first, before_ + stream.second, std::string_view(out.bytes).substr(out.at));
  if (out.at < out.bytes.size()) return;
  outgoing_.erase(found);
  written_.push_back(stream);
}

// The end of a link is reported elsewhere.
void BulkDriver::do_effect(bulk::Grant& grant) {
  if (!cut_off_) static_cast<void>(streams_.grant(grant.to, before_ + grant.stream, grant.bytes));
}

// All records go through this one queue, so users get them in order, whatever their channel.
void BulkDriver::do_effect(bulk::DeliverRecord& record) {
  delivered_[record.origin].add(record.number);
  receive(std::move(record));
}

void BulkDriver::receive(bulk::DeliverRecord record) {
  if (!serves_all_ && !upward_.contains(record.channel)) return unserved_up_.push_back(std::move(record));
  call_later([this, record = std::move(record)] { deliver(record); });
}

void BulkDriver::deliver(const bulk::DeliverRecord& record) {
  auto owner = upward_.find(record.channel);
  if (owner == upward_.end() || !owner->second.on_record) return taken(record.origin, record.number);
  owner->second.on_record(record.origin, record.number, record.bytes);
}

void BulkDriver::do_effect(bulk::Announce& record) {
  announced_.add(record.number);
  if (!serves_all_ && !downward_.contains(record.channel)) return unserved_down_.push_back(record);
  call_later([this, record] { announce(record); });
}

void BulkDriver::announce(const bulk::Announce& record) {
  auto owner = downward_.find(record.channel);
  if (owner != downward_.end() && owner->second.on_record)
    return owner->second.on_record(record.number, record.bytes);
  if (!serves_all_) return unserved_down_.push_back(record);
  consumed(record.number);
}

void BulkDriver::do_effect(bulk::Room& /*room*/) {
  for (const auto& [channel, owner] : upward_) {
    if (owner.on_room) call_later(owner.on_room);
  }
}

void BulkDriver::do_effect(bulk::BroadcastRoom& /*room*/) {
  for (const auto& [channel, owner] : downward_) {
    if (owner.on_room) call_later(owner.on_room);
  }
}

void BulkDriver::do_effect(bulk::CutOff& /*cut_off*/) {
  cut_off(Error{ECANCELED, "this shell is taken out of the job"});
}

}  // namespace nacre::group
