// SPDX-License-Identifier: Apache-2.0
//
// rlimit: soft resource limits of the tasks, {"core": 0, "nofile": 4096, "stack": -1}; -1 is unlimited. Names are
// those of getrlimit(2) in lower case without RLIMIT_, and `ofile`. The shell's own limits stay as they are.
//
// A jobspec may have all limits of the host where the job was submitted, so a limit above the hard limit here is
// lowered to that. A limit of the command line that is too high is an error.
#include <sys/resource.h>

#include "plugins/builtins.hpp"
#include "task/command.hpp"

namespace nacre::plugins {
namespace {

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit); }

Result<task::ChildSetup::Limit> limit_of(const std::string& name, const JsonAt& value) {
  auto resource = task::limit_resource(name);
  if (!resource) {
    std::string names;
    for (const task::LimitName& each : task::limit_names())
      names.append(names.empty() ? "" : ", ").append(each.name);
    return value.error("unknown limit; known: " + names);
  }
  auto asked = TRY(value.integer(-1));
  task::ChildSetup::Limit limit{*resource, {}};
  if (::getrlimit(static_cast<__rlimit_resource>(limit.resource), &limit.value) < 0) {
    return in(value.path(), system_error(errno, "getrlimit"));
  }
  limit.value.rlim_cur = asked < 0 ? RLIM_INFINITY : static_cast<rlim_t>(asked);
  return limit;
}

class Rlimit final : public plugin::Plugin {
 public:
  explicit Rlimit(plugin::Host& host) : Plugin("rlimit"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("task.init", [this] {
      auto& setup = host_.current_task()->command().setup;
      setup.limits.insert(setup.limits.end(), limits_.begin(), limits_.end());
    });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at("rlimit");
    if (!option) return {};
    for (const auto& [name, value] : TRY(option->members())) {
      limits_.push_back(TRY(limit_of(name, value)));
      CHECK_OK(keep_to_hard_limit(value, limits_.back().value));
    }
    return {};
  }

  Result<void> keep_to_hard_limit(const JsonAt& option, rlimit& limit) {
    rlim_t hard = limit.rlim_max;  // RLIM_INFINITY is the largest number
    if (limit.rlim_cur <= hard) return {};
    std::string asked = limit_text(limit.rlim_cur);
    if (host_.options().is_of_argument(option.path()))
      return option.error(fmt::format("{} is above the hard limit of this node; ask for at most {}", asked, hard));
    limit.rlim_cur = hard;
    log(host_, *this, Level::warn, "{}: {} is above the hard limit of this node; tasks have {}", option.path(),
        asked, hard);
    return {};
  }

  plugin::Host& host_;
  std::vector<task::ChildSetup::Limit> limits_;
};

}  // namespace

PluginPtr make_rlimit(plugin::Host& host) { return std::make_unique<Rlimit>(host); }

}  // namespace nacre::plugins
