// SPDX-License-Identifier: Apache-2.0
//
// `nacre grow`, on the leader: what a front end asks for, and what it gets (doc/control.md, "grow").
#pragma once

#include "base/json.hpp"
#include "plugin/host.hpp"
#include "plugins/control/answers.hpp"

namespace nacre::plugins {

class GrowService {
 public:
  explicit GrowService(plugin::Host& host) : host_(host) {}

  void serve(const Json& arguments, const Answers::Reply& reply) {
    auto order = value::GrowOrder::parse(JsonAt::root(arguments));
    if (!order) return reply.answer(order.error());
    host_.grow(*order, [reply](const Result<Json>& news, bool is_last) {
      if (is_last) return reply.answer(news);
      if (news) reply.part(*news);
    });
  }

 private:
  plugin::Host& host_;
};

}  // namespace nacre::plugins
