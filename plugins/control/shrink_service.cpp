// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/shrink_service.hpp"

#include <csignal>

#include <fmt/format.h>

#include "value/hostlist.hpp"

namespace nacre::plugins {
namespace {

using value::Idset;

constexpr double kMostGrace = 24.0 * 60 * 60;  // seconds

}  // namespace

void ShrinkService::serve(const Json& arguments, Answers::Reply reply) {
  auto order = read(arguments);
  if (!order) return reply.answer(order.error());
  std::uint64_t number = ++last_;
  auto done = [this, reply](const Result<value::Shrunk>& shrunk) {
    if (!shrunk) return reply.answer(shrunk.error());
    reply.answer(Json{{"gone", shrunk->gone.str()},
                      {"unconfirmed", shrunk->unconfirmed.str()},
                      {"hosts", hosts_of(shrunk->gone | shrunk->unconfirmed)},
                      {"unconfirmed_hosts", hosts_of(shrunk->unconfirmed)}});
  };
  reply.part(Json{{"shells", order->shells.str()}, {"hosts", hosts_of(order->shells)}});
  open_[number] = host_.shrink(*order, done);
}

Result<value::ShrinkOrder> ShrinkService::read(const Json& arguments) const {
  JsonAt at = JsonAt::root(arguments);
  value::ShrinkOrder order;
  order.shells = TRY(shells_of(at));
  if (auto signum = TRY(at.find("signal"))) order.signum = static_cast<int>(TRY(signum->integer(1, SIGRTMAX)));
  if (auto grace = TRY(at.find("grace"))) {
    order.grace = TRY(grace->number());
    if (*order.grace < 0 || *order.grace > kMostGrace)
      return grace->expected(fmt::format("0 to {} seconds", kMostGrace));
  }
  bool refuses = arguments.value("tasks", Json()) == "refuse";
  for (std::uint32_t shell : refuses ? order.shells.ids() : std::vector<Idset::Id>()) {
    Idset there = host_.job().taskmap.ranks_on(shell);
    if (!there.empty()) {
      return Error{EBUSY, fmt::format("shell {}{} has tasks {}; --tasks=end ends them", shell,
                                      host_.job().resources.nodes[shell].on(), there.str())};
    }
  }
  return order;
}

Result<Idset> ShrinkService::shells_of(const JsonAt& at) const {
  if (auto hosts = TRY(at.find("hosts"))) return shells_on(*hosts);
  if (auto count = TRY(at.find("count"))) return last_ones(*count);
  JsonAt shells = TRY(at.at("shells"));
  auto named = Idset::parse(TRY(shells.string()));
  if (!named) return shells.error(named.error().message);
  return *std::move(named);
}

Result<Idset> ShrinkService::shells_on(const JsonAt& hosts) const {
  auto names = value::Hostlist::parse(TRY(hosts.string()));
  if (!names) return hosts.error(names.error().message);
  Idset out;
  for (const std::string& name : names->names()) {
    bool any = false;
    for (std::uint32_t shell = 0; shell < host_.job().shells(); ++shell) {
      if (host_.job().resources.nodes[shell].hostname != name) continue;
      any = true;
      if (!gone_.contains(shell)) out.insert(shell);
    }
    if (!any) return invalid(fmt::format("{} is no host of this job", name));
  }
  if (out.empty()) return invalid(fmt::format("{} is not of the job any more", names->str()));
  return out;
}

// Those without tasks come first, then the highest.
Result<Idset> ShrinkService::last_ones(const JsonAt& count) const {
  auto wanted = static_cast<std::uint64_t>(TRY(count.integer(1, UINT32_MAX)));
  Idset out;
  for (bool with_tasks : {false, true}) {
    for (std::uint32_t shell = host_.job().shells() - 1; shell > 0 && out.size() < wanted; --shell) {
      if (!gone_.contains(shell) && host_.job().taskmap.ranks_on(shell).empty() != with_tasks) out.insert(shell);
    }
  }
  if (out.size() == wanted) return out;
  return invalid(
      fmt::format("{} shells can leave this job, not {}; shell 0, which leads it, stays", out.size(), wanted));
}

std::string ShrinkService::hosts_of(const Idset& shells) const {
  value::Hostlist hosts;
  for (std::uint32_t shell : shells.ids()) {
    if (shell < host_.job().shells() && !host_.job().resources.nodes[shell].hostname.empty())
      hosts.append(host_.job().resources.nodes[shell].hostname);
  }
  return hosts.str();
}

}  // namespace nacre::plugins
