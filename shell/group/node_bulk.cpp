// SPDX-License-Identifier: Apache-2.0
#include "group/node_bulk.hpp"

#include <utility>

namespace nacre::group {
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

void NodeBulk::perform(overlay::Publish& publish) { carrier_.publish(publish.entry, std::move(publish.value)); }

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

void NodeBulk::received(overlay::LinkName from, transport::StreamId stream, std::string_view bytes) {
  of(stream).received(from, stream, bytes);
}

void NodeBulk::on_credit(overlay::LinkName to, transport::StreamId stream) { of(stream).on_credit(to, stream); }

void NodeBulk::cut_off(const Error& why) {
  users_.cut_off(why);
  values_.cut_off(why);
}

}  // namespace nacre::group
