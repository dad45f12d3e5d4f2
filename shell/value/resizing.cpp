// SPDX-License-Identifier: Apache-2.0
#include "value/resizing.hpp"

#include "value/duration.hpp"
#include "value/wait_status.hpp"
#include "wire/json.hpp"

namespace nacre::value {

// ---- shrunk -----------------------------------------------------------------------------

namespace {

struct SignalRule {
  static Result<void> read(const JsonAt& at, int& signum) {
    signum =
        at.json().is_string() ? signal_number(TRY(at.string())) : static_cast<int>(TRY(at.integer(1, SIGRTMAX)));
    return signum > 0 ? Result<void>() : at.expected("a signal such as TERM");
  }
};

struct GraceRule {
  static Result<void> read(const JsonAt& at, double& seconds) {
    if (at.json().is_string()) {
      auto duration = Duration::parse(TRY(at.string()));
      if (!duration || duration->is_infinite()) return at.expected("a time that ends, such as 10s");
      seconds = duration->seconds();
    } else {
      seconds = TRY(at.number());
    }
    if (seconds >= 0 && seconds <= ShrinkOrder::kMostGrace) return {};
    return at.expected(fmt::format("0 to {} seconds", ShrinkOrder::kMostGrace));
  }
};

constexpr auto kSomeShell = [](const JsonAt& at, const Idset& shells) -> Result<void> {
  return shells.empty() ? at.error("names no shell") : Result<void>();
};
constexpr auto kSomeHost = [](const JsonAt& at, const Hostlist& hosts) -> Result<void> {
  return hosts.empty() ? at.error("names no host") : Result<void>();
};

constexpr std::array<std::string_view, 2> kOfTasks = {"end", "refuse"};

}  // namespace

void fields(auto& io, wire::Of<ShrinkOrder> auto& m, ShrinkOrder::Unknown members = ShrinkOrder::Unknown::ignore) {
  if (members == ShrinkOrder::Unknown::refuse) io.refuse_others(m);
  io.has_one_of({"shells", "hosts", "count"});
  io.may_have("shells", m.shells, kSomeShell);
  io.may_have("hosts", m.hosts, kSomeHost);
  io.may_have("count", m.count, wire::Between{1, UINT32_MAX});
  io.may_lack("signal", m.signum, SignalRule());
  io.may_have("grace", m.grace, GraceRule());
  io.may_lack("tasks", m.refuse_tasks, wire::Words(kOfTasks, "end or refuse"));
  io.may_lack("force", m.force);
}

Result<ShrinkOrder> ShrinkOrder::parse(const JsonAt& at, Unknown members) {
  return wire::from_json<ShrinkOrder>(at, members);
}

Json ShrinkOrder::json() const { return wire::to_json(*this); }

// ---- grown ------------------------------------------------------------------------------

void fields(auto& io, wire::Of<GrowOrder> auto& m) {
  io.has_one_of({"hosts", "count"});
  io.may_have("hosts", m.hosts, kSomeHost);
  io.check("hosts", m.hosts.size() <= GrowOrder::kMostShells,
           [&] { return fmt::format("{} hosts; at most {} at once", m.hosts.size(), GrowOrder::kMostShells); });
  io.may_have("count", m.count, wire::Between{1, GrowOrder::kMostShells});
  io.may_have("wait", m.wait, [](const JsonAt& at, double wait) -> Result<void> {
    if (wait > 0 && wait <= GrowOrder::kMostWait) return {};
    return at.expected(fmt::format("seconds, more than 0 and at most {}", GrowOrder::kMostWait));
  });
  io.may_have("all", m.all);
}

Result<GrowOrder> GrowOrder::parse(const JsonAt& at) { return wire::from_json<GrowOrder>(at); }

}  // namespace nacre::value
