// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/shrink_service.hpp"

namespace nacre::plugins {

void ShrinkService::serve(const Json& arguments, const Answers::Reply& reply) {
  auto order = value::ShrinkOrder::parse(JsonAt::root(arguments), value::ShrinkOrder::Unknown::ignore);
  if (!order) return reply.answer(order.error());
  std::erase_if(open_, [](const plugin::Registration& each) { return !each.active(); });
  open_.push_back(host_.shrink(*order, [reply](const Result<Json>& news, bool is_last) {
    if (is_last) return reply.answer(news);
    if (news) reply.part(*news);
  }));
}

}  // namespace nacre::plugins
