// SPDX-License-Identifier: Apache-2.0
#include "job_group.hpp"

#include <utility>
#include <variant>

#include <fmt/format.h>

namespace nacre::sim {

JobGroup::JobGroup(JobProcess& process) : process_(process) {
  if (process.plan().changes) own_scope_ = {0, 0};
}

void JobGroup::join() {
  waiting_.insert("join");
  process_.on_node([](Node& node) {
    Result<void> entered = node.enter("join", Merge::gather, Bytes("offer"));
    require(entered.has_value(), "the shells can join");
  });
}

// ---- collectives ---------------------------------------------------------------------------

void JobGroup::enter(const std::string& barrier) {
  barriers_[barrier] = cut_off_;
  if (cut_off_) return;
  waiting_.insert(barrier);
  bool is_for_all = barrier == "exit" || barrier == "end";
  Scope scope = is_for_all ? Scope{} : own_scope_;
  std::string name = scope.from == 0 ? barrier : fmt::format("{}@{}", barrier, scope.from);
  process_.on_node([&](Node& node) { static_cast<void>(node.enter(name, Merge::max, std::int64_t{0}, scope)); });
}

bool JobGroup::is_past(const std::string& barrier) {
  if (!barriers_.contains(barrier)) enter(barrier);
  return barriers_.find(barrier)->second;
}

bool JobGroup::has_started() const {
  auto start = barriers_.find("start");
  return start != barriers_.end() && start->second;
}

void JobGroup::released(const Released& value, const std::function<void(const std::string& barrier)>& passed) {
  std::string barrier = value.name.substr(0, value.name.find('@'));
  if (waiting_.erase(barrier) == 0) return;
  if (barrier != "join") {
    return process_.post([this, barrier, passed] {
      barriers_[barrier] = true;
      passed(barrier);
    });
  }
  std::size_t count = 0;
  for (const auto& [bytes, ids] : std::get<Gathered>(value.value)) count += ids.size();
  process_.post([this, count] {
    joined_ = true;
    gathered_ = count;
  });
}

void JobGroup::end_collectives() {
  for (const std::string& name : std::exchange(waiting_, {})) {
    if (name != "join") process_.post([this, name] { barriers_[name] = true; });
  }
}

// ---- requests, and the end -----------------------------------------------------------------

std::optional<std::uint64_t> JobGroup::request(RequestBody body) {
  std::optional<std::uint64_t> out;
  if (cut_off_) return out;
  process_.on_node([&](Node& node) {
    if (auto number = node.request(std::move(body))) out = *number;
  });
  return out;
}

bool JobGroup::cut_off() {
  left_ = false;
  return !std::exchange(cut_off_, true);
}

void JobGroup::leave() { left_ = cut_off_ = true; }

}  // namespace nacre::sim
