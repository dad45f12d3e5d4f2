// SPDX-License-Identifier: Apache-2.0
#include "fake_shells.hpp"

namespace nacre::kit {

FakeShells::FakeShells(job::Job job)
    : job_(std::move(job)),
      shell_messages_(job_.shell_rank, job_.shells(),
                      [this](std::string_view topic, std::string_view bytes) { return announce(topic, bytes); }) {}

plugin::Registration FakeShells::gather(std::string_view name, std::string mine, WhenGathered done) {
  gathers[std::string(name)] = mine;
  plugin::Gathered all = gathers_elsewhere;
  all[std::move(mine)].insert(job_.shell_rank);
  done(std::move(all));
  return {};
}

plugin::Registration FakeShells::gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                              WhenGathered done) {
  gathered_up_to = last;
  return gather(name, std::move(mine), std::move(done));
}

Result<void> FakeShells::announce(std::string_view topic, std::string_view bytes) {
  announced(topic, bytes);
  return {};
}

// This shell gets its share at once.
plugin::Registration FakeShells::exec(value::ExecOrder order, WhenOrdered done) {
  orders.push_back(order);
  done(value::ExecAnswer{orders.size(), {}});
  if (auto mine = order.shares.find(job_.shell_rank); mine != order.shares.end())
    ordered({orders.size(), mine->second, order.command, order.kind});
  return {};
}

void FakeShells::announced(std::string_view topic, std::string_view bytes) {
  if (!shell_messages_.take(topic, bytes)) announced_.call(topic, bytes);
}

}  // namespace nacre::kit
