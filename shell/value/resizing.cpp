// SPDX-License-Identifier: Apache-2.0
#include "value/resizing.hpp"

#include <csignal>

#include <fmt/format.h>

#include "value/duration.hpp"
#include "value/wait_status.hpp"

namespace nacre::value {

// ---- shrunk -----------------------------------------------------------------------------

namespace {

Result<int> signal_in(const JsonAt& at) {
  if (!at.json().is_string()) return static_cast<int>(TRY(at.integer(1, SIGRTMAX)));
  int signum = signal_number(TRY(at.string()));
  if (signum <= 0) return at.expected("a signal such as TERM");
  return signum;
}

Result<double> grace_in(const JsonAt& at) {
  double seconds = 0;
  if (at.json().is_string()) {
    auto duration = Duration::parse(TRY(at.string()));
    if (!duration || duration->is_infinite()) return at.expected("a time that ends, such as 10s");
    seconds = duration->seconds();
  } else {
    seconds = TRY(at.number());
  }
  if (!(seconds >= 0 && seconds <= ShrinkOrder::kMostGrace))
    return at.expected(fmt::format("0 to {} seconds", ShrinkOrder::kMostGrace));
  return seconds;
}

Result<void> read_shells(const JsonAt& at, ShrinkOrder& out) {
  auto shells = TRY(at.find("shells"));
  auto hosts = TRY(at.find("hosts"));
  auto count = TRY(at.find("count"));
  if (int{shells.has_value()} + int{hosts.has_value()} + int{count.has_value()} != 1)
    return invalid("expected one of shells, hosts and count");
  if (shells) {
    auto named = Idset::parse(TRY(shells->string()));
    if (!named) return shells->error(named.error().message);
    if (named->empty()) return shells->error("names no shell");
    out.shells = *std::move(named);
  }
  if (hosts) {
    auto named = Hostlist::parse(TRY(hosts->string()));
    if (!named) return hosts->error(named.error().message);
    if (named->empty()) return hosts->error("names no host");
    out.hosts = *std::move(named);
  }
  if (count) out.count = static_cast<std::uint64_t>(TRY(count->integer(1, UINT32_MAX)));
  return {};
}

}  // namespace

Result<ShrinkOrder> ShrinkOrder::parse(const JsonAt& at, Unknown members) {
  if (members == Unknown::refuse)
    CHECK_OK(at.only_keys({"shells", "hosts", "count", "signal", "grace", "tasks", "force"}));
  ShrinkOrder out;
  CHECK_OK(read_shells(at, out));
  if (auto signum = TRY(at.find("signal"))) out.signum = TRY(signal_in(*signum));
  if (auto grace = TRY(at.find("grace"))) out.grace = TRY(grace_in(*grace));
  if (auto tasks = TRY(at.find("tasks"))) {
    if (tasks->json() != "end" && tasks->json() != "refuse") return tasks->expected("end or refuse");
    out.refuse_tasks = tasks->json() == "refuse";
  }
  if (auto force = TRY(at.find("force"))) out.force = TRY(force->boolean());
  return out;
}

Json ShrinkOrder::json() const {
  Json out{{"signal", signum}, {"tasks", refuse_tasks ? "refuse" : "end"}, {"force", force}};
  if (!shells.empty()) out["shells"] = shells.str();
  if (!hosts.empty()) out["hosts"] = hosts.str();
  if (count > 0) out["count"] = count;
  if (grace) out["grace"] = *grace;
  return out;
}

// ---- grown ------------------------------------------------------------------------------

namespace {

Result<Hostlist> hosts_in(const JsonAt& at) {
  auto named = Hostlist::parse(TRY(at.string()));
  if (!named) return at.error(named.error().message);
  if (named->empty()) return at.error("names no host");
  return *std::move(named);
}

}  // namespace

Result<GrowOrder> GrowOrder::parse(const JsonAt& at) {
  GrowOrder out;
  auto hosts = TRY(at.find("hosts"));
  auto count = TRY(at.find("count"));
  if (hosts.has_value() == count.has_value()) return invalid("expected one of hosts and count");
  if (hosts) out.hosts = TRY(hosts_in(*hosts));
  if (count) out.count = static_cast<std::uint64_t>(TRY(count->integer(1, kMostShells)));
  if (out.hosts.size() > kMostShells)
    return hosts->error(fmt::format("{} hosts; at most {} at once", out.hosts.size(), kMostShells));
  if (auto wait = TRY(at.find("wait"))) {
    out.wait = TRY(wait->number());
    if (!(*out.wait > 0 && *out.wait <= kMostWait))
      return wait->expected(fmt::format("seconds, more than 0 and at most {}", kMostWait));
  }
  if (auto all = TRY(at.find("all"))) out.all = TRY(all->boolean());
  return out;
}

}  // namespace nacre::value
