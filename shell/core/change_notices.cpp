// SPDX-License-Identifier: Apache-2.0
#include "core/change_notices.hpp"

#include "job/leavers.hpp"
#include "job/resources.hpp"

namespace nacre::core {

Json ChangeNotices::about(group::Rank shell) const {
  return {{"shell_rank", shell}, {"host", host_.job().resources.nodes[shell].hostname}};
}

void ChangeNotices::lost(group::Rank shell, bool ends) {
  Json what = about(shell);
  what["severity"] = ends ? 0 : 2;
  change("shell.lost", what);
}

void ChangeNotices::not_replaced(group::Rank shell) { notify("shell.not-replaced", {{"shell_rank", shell}}); }

void ChangeNotices::leaving(const value::Idset& shells, double grace) {
  const value::Hostlist hosts = job::hosts_of(shells, host_.job());
  notify("job.shrinking", {{"shells", shells.str()}, {"hosts", hosts.str()}, {"grace", grace}});
}

void ChangeNotices::left(group::Rank shell) { change("shell.left", about(shell)); }

void ChangeNotices::joined(group::Rank shell) { change("shell.joined", about(shell)); }

void ChangeNotices::restarted(const Json& what) { change("job.tasks-restart", what); }

void ChangeNotices::ended(const value::Idset& tasks, const exits::Record& record) {
  Json what{{"ranks", tasks.str()}, {"record", record.str()}};
  if (record.status()) what["status"] = record.status()->raw();
  if (record.kind() == exits::Record::Kind::lost) what["lost"] = true;
  notify("job.tasks-exited", what);
}

void ChangeNotices::moved(std::span<const job::Move> moves, bool with_all, const std::string& left) {
  if (moves.empty()) return;
  for (const job::Move& each : moves) {
    Json what{{"ranks", each.ranks.str()},
              {"from", each.from},
              {"to", each.to},
              {"host", host_.job().resources.nodes[each.to].hostname},
              {"try", each.attempt}};
    if (with_all) what["all"] = true;
    change("job.tasks-moved", what);
  }
  resources("", left);
}

void ChangeNotices::resources(const std::string& added, const std::string& left) {
  if (!host_.stack().listens("shell.resource-update")) return;  // R may be large
  notify("shell.resource-update", {{"R", job::without_nodes(host_.job().resources, roster_.gone())},
                                   {"taskmap", host_.job().taskmap.json()},
                                   {"added", added},
                                   {"left", left}});
}

void ChangeNotices::change(const std::string& name, const Json& what) {
  if (on_change_) {
    if (Result<void> posted = on_change_(name, what); !posted)
      host_.log().log(Level::error, "", "{}", posted.error().message);
  }
  notify(name, what);
}

void ChangeNotices::notify(const std::string& topic, const Json& what) {
  if (!host_.stack().listens(topic)) return;
  plugin::Call call(topic);
  call.in.update(what);
  if (Result<int> called = host_.stack().call(call); !called)
    host_.raise({"exec", 0, called.error().message, std::nullopt});
}

}  // namespace nacre::core
