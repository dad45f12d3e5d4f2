// SPDX-License-Identifier: Apache-2.0
#include "plugin/events.hpp"

#include "base/json.hpp"

namespace nacre::plugin {
namespace {

template <typename Change, typename... More>
Result<Change> parse_change(const Json& members, More... more) {
  JsonAt at = JsonAt::root(members);
  auto shell = static_cast<std::uint32_t>(TRY(TRY(at.at("shell_rank")).integer(0, UINT32_MAX)));
  auto host = TRY(at.find("host"));
  return Change(shell, host ? TRY(host->string()) : "", more...);
}

}  // namespace

Json TasksExited::members() const {
  Json out{{"ranks", ranks.str()}, {"record", record.str()}};
  if (record.status()) out["status"] = record.status()->raw();
  if (record.kind() == exits::Record::Kind::lost) out["lost"] = true;
  return out;
}

Result<TasksExited> TasksExited::parse(const Json& members) {
  JsonAt at = JsonAt::root(members);
  auto ranks = TRY(value::Idset::parse(TRY(TRY(at.at("ranks")).string())));
  return TasksExited(std::move(ranks), TRY(exits::Record::parse(TRY(TRY(at.at("record")).string()))));
}

Json ShellLost::members() const {
  Json out = ShellChange::members();
  out["severity"] = ends_job ? 0 : 2;
  return out;
}

Result<ShellLost> ShellLost::parse(const Json& members) {
  return parse_change<ShellLost>(members, members.value("severity", 0) == 0);
}

Result<ShellLeft> ShellLeft::parse(const Json& members) { return parse_change<ShellLeft>(members); }

Result<ShellJoined> ShellJoined::parse(const Json& members) { return parse_change<ShellJoined>(members); }

}  // namespace nacre::plugin
