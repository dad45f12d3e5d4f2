// SPDX-License-Identifier: Apache-2.0
#include "group/bulk_driver.hpp"

#include "base/bytes.hpp"

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
  withholds_ = node.withholds();
  if (!withholds_) {
    for (bulk::DeliverRecord& each : std::exchange(early_up_, {})) receive(std::move(each));
  }
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

void BulkDriver::lead(std::uint64_t term) {
  if (cut_off_) return;
  node_.lead(term);
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
  // EPIPE: the channel has ended before
  for (bulk::Channel channel : kUpChannels) static_cast<void>(node_.end(channel));
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
  if (withholds_) return early_up_.push_back(std::move(record));
  if (!serves_all_ && !upward_.contains(record.channel)) return unserved_up_.push_back(std::move(record));
  call_later([this, record = std::move(record)] { deliver(record); });
}

// A user that only puts records on a channel does not take those that come there: on a shell that has come to lead,
// another user may still take them.
void BulkDriver::deliver(const bulk::DeliverRecord& record) {
  auto owner = upward_.find(record.channel);
  if (owner != upward_.end() && owner->second.on_record)
    return owner->second.on_record(record.origin, record.number, record.bytes);
  if (!serves_all_) return unserved_up_.push_back(record);
  taken(record.origin, record.number);
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

// ---- node bulk --------------------------------------------------------------------------

namespace {

bulk::BulkOptions with_answers(bulk::BulkOptions options) {
  options.answers = bulk::answer_channels();
  return options;
}

}  // namespace

NodeBulk::NodeBulk(const bulk::BulkOptions& options, bool leads, LinkTable& links, const Callbacks& callbacks)
    : users_(with_answers(options), links, 0, callbacks.broken,
             [this] { answers_timer_->start(bulk::kAnswerWait); }),
      values_(options, links, bulk::kRecords, callbacks.broken),
      carrier_(values_, leads ? ValueCarrier::Arrived() : callbacks.arrived) {}

Result<std::unique_ptr<NodeBulk>> NodeBulk::create(event::Loop& loop, const bulk::BulkOptions& options, bool leads,
                                                   LinkTable& links, Callbacks callbacks) {
  std::unique_ptr<NodeBulk> out(new NodeBulk(options, leads, links, callbacks));
  NodeBulk& self = *out;
  self.answers_timer_ = TRY(event::Timer::create(loop, [&self] { self.users_.waited(); }));
  self.answers_timer_->unref();
  return out;
}

void NodeBulk::look_at(const overlay::Node& node) {
  for (BulkDriver* each : {&users_, &values_}) each->look_at(node);
  for (BulkDriver* each : {&users_, &values_}) each->pump();
}

void NodeBulk::linked(overlay::LinkName link) {
  users_.linked(link);
  values_.linked(link);
}

void NodeBulk::gone(overlay::LinkName link) {
  users_.gone(link);
  values_.gone(link);
}

void NodeBulk::lead(std::uint64_t term) {
  for (BulkDriver* each : {&users_, &values_}) each->lead(term);
  for (BulkDriver* each : {&users_, &values_}) each->pump();
}

void NodeBulk::received(overlay::LinkName from, transport::StreamId stream, std::string_view bytes) {
  of(stream).received(from, stream, bytes);
}

void NodeBulk::cut_off(const Error& why) {
  users_.cut_off(why);
  values_.cut_off(why);
}

// ---- value carrier ----------------------------------------------------------------------

namespace {

constexpr std::size_t kValueHead = 3 * sizeof(std::uint64_t);  // bytes before the piece of the value

}  // namespace

ValueCarrier::ValueCarrier(bulk::Port& port, Arrived arrived) : port_(port), arrived_(std::move(arrived)) {
  bulk::Port::Downward downward;
  downward.on_record = [this](bulk::Numbered number, std::string_view record) {
    if (arrived_) take(record);
    port_.consumed(number);
  };
  downward.on_room = [this] { send_more(); };
  port_.serve(bulk::values::kValue, std::move(downward));
  port_.serve_no_more();
}

void ValueCarrier::publish(overlay::Seq entry, std::string value) {
  outgoing_.push_back({entry, std::move(value), 0});
  if (outgoing_.size() == 1) send_more();
}

// An error: the shell is cut off, and no shell waits for values any more.
void ValueCarrier::send_more() {
  while (!outgoing_.empty()) {
    Outgoing& first = outgoing_.front();
    std::string_view piece = std::string_view(first.value).substr(first.at, bulk::kMaxRecord - kValueHead);
    std::string record;
    record.reserve(kValueHead + piece.size());
    append_number(record, first.entry);
    append_number(record, std::uint64_t{first.at});
    append_number(record, std::uint64_t{first.value.size()});
    record += piece;
    Result<bool> sent = port_.broadcast(bulk::values::kValue, record);
    if (!sent) return outgoing_.clear();
    if (!*sent) return;
    first.at += piece.size();
    if (first.at == first.value.size()) outgoing_.pop_front();
  }
}

// Ignores a value whose beginning has not come to this shell.
void ValueCarrier::take(std::string_view record) {
  if (record.size() < kValueHead) return;
  auto entry = take_number<std::uint64_t>(record);
  auto at = take_number<std::uint64_t>(record);
  auto total = take_number<std::uint64_t>(record);
  if (total > overlay::kMaxValue || at > total || (at > 0 && entry != entry_)) return;
  entry_ = entry;
  if (incoming_.add(at, total, record)) arrived_(entry, incoming_.take());
}

}  // namespace nacre::group
