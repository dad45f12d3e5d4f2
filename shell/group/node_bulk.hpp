// SPDX-License-Identifier: Apache-2.0
//
// Bulk data beside the overlay's log: that of the shell's users, and the values of collectives, which have a
// broadcast of their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "event/loop.hpp"
#include "group/bulk_driver.hpp"
#include "group/link_table.hpp"
#include "group/value_carrier.hpp"
#include "overlay/node.hpp"

namespace nacre::group {

class NodeBulk {
 public:
  struct Callbacks {
    std::function<void(overlay::LinkName, const Error&)> broken;  // a link has to be ended; then gone() is called
    // A value that the leader has published has come. Not called on the leader, which has it.
    std::function<void(overlay::Seq entry, std::string value)> arrived;
  };

  // `links` has to outlive it. `leads`: this shell is the leader.
  static Result<std::unique_ptr<NodeBulk>> create(event::Loop& loop, const bulk::BulkOptions& options, bool leads,
                                                  LinkTable& links, Callbacks callbacks);

  [[nodiscard]] BulkDriver& users() { return users_; }
  void perform(overlay::Publish& publish);
  // After each step of the node: what follows for bulk data from where the others are now.
  void look_at(const overlay::Node& node);

  void linked(overlay::LinkName link);
  void gone(overlay::LinkName link);
  void received(overlay::LinkName from, transport::StreamId stream, std::string_view bytes);
  void on_credit(overlay::LinkName to, transport::StreamId stream);
  void cut_off(const Error& why);

 private:
  NodeBulk(const bulk::BulkOptions& options, bool leads, LinkTable& links, const Callbacks& callbacks);
  BulkDriver& of(transport::StreamId stream) { return stream > bulk::kRecords ? values_ : users_; }

  std::optional<event::Timer> answers_timer_;  // of users_
  BulkDriver users_;
  BulkDriver values_;
  ValueCarrier carrier_;
};

}  // namespace nacre::group
