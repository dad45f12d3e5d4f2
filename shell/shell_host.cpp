// SPDX-License-Identifier: Apache-2.0
//
// The shell as its plugins see it.
#include <unistd.h>

#include <fmt/format.h>

#include "shell.hpp"

namespace nacre {
namespace {

template <typename Holds>
int add_to(Holds& holds, std::string_view name) {
  auto it = holds.find(name);
  if (it == holds.end()) it = holds.emplace(std::string(name), 0).first;
  return ++it->second;
}

template <typename Holds>
Result<void> take_from(Holds& holds, std::string_view name) {
  auto it = holds.find(name);
  if (it == holds.end()) return Error{ENOENT, fmt::format("no completion reference '{}'", name)};
  if (--it->second == 0) holds.erase(it);
  return {};
}

}  // namespace

Json Shell::info() const {
  return Json{{"jobid", job_.id.value()},
              {"instance_owner", ::getuid()},
              {"rank", job_.shell_rank},
              {"size", job_.shells()},
              {"ntasks", job_.tasks()},
              {"service", fmt::format("{}-shell-{}", ::getuid(), job_.id.f58())},
              {"options", {{"verbose", config_.verbose > 0}, {"standalone", standalone_}}},
              {"jobspec", job_.spec.document},
              {"R", job_.resources.document}};
}

void Shell::kill_tasks(int signum) {
  for (const auto& task : tasks_) task->kill(signum);
  signalled_also_.call(signum);
}

plugin::Registration Shell::signal_also(std::function<void(int)> processes) {
  return signalled_also_.add(std::move(processes));
}

int Shell::hold(std::string_view name) { return add_to(holds_, name); }
int Shell::hold_start(std::string_view name) { return add_to(start_holds_, name); }
Result<void> Shell::release(std::string_view name) { return take_from(holds_, name); }
Result<void> Shell::release_start(std::string_view name) { return take_from(start_holds_, name); }

void Shell::add_event_context(std::string_view event, const Json& members) {
  auto it = event_context_.find(event);
  if (it == event_context_.end()) it = event_context_.emplace(std::string(event), Json::object()).first;
  if (members.is_object()) it->second.update(members);
}

plugin::Registration Shell::gather(std::string_view name, std::string mine, WhenGathered done) {
  auto pending = gathers_.add(std::move(done));
  group_->gather(name, std::move(mine), std::move(pending.receive));
  return std::move(pending.registration);
}

Result<void> Shell::announce(std::string_view topic, std::string_view bytes) {
  return group_->announce(topic, bytes);
}

plugin::Registration Shell::on_announcement(Receive receive) { return announced_to_.add(std::move(receive)); }

}  // namespace nacre
