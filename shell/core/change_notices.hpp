// SPDX-License-Identifier: Apache-2.0
//
// What plugins, and the job's eventlog, get to know of how the job's shells and tasks change. Each function calls
// the topics of nacre-shell-plugins(7) that it names; the Job of `host` has the change already.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/json.hpp"
#include "elastic/roster.hpp"
#include "exits/record.hpp"
#include "group/group.hpp"
#include "job/job.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class ChangeNotices {
 public:
  // Both have to outlive it.
  ChangeNotices(plugin::Host& host, const elastic::Roster& roster) : host_(host), roster_(roster) {}

  // Is called with each change of shells and tasks, before plugins get to know it by the topic of that name.
  void when_changed(std::function<Result<void>(const std::string& name, const Json& what)> receive) {
    on_change_ = std::move(receive);
  }

  void lost(group::Rank shell, bool ends);                      // shell.lost; `ends`: the job ends with it
  void not_replaced(group::Rank shell);                         // shell.not-replaced, which is no change
  void leaving(const value::Idset& shells, double grace);       // job.shrinking, likewise
  void left(group::Rank shell);                                 // shell.left
  void joined(group::Rank shell);                               // shell.joined
  void restarted(const Json& what);                             // job.tasks-restart
  void ended(const value::Idset& tasks, const exits::Record&);  // job.tasks-exited, which is no change
  // job.tasks-moved for each, and shell.resource-update. `with_all`: all tasks start again with them; `left`: the
  // shell that is lost, "" if none is.
  void moved(std::span<const job::Move> moves, bool with_all, const std::string& left = "");
  // shell.resource-update: idsets of the shells that the job has got, and of those that it has no more.
  void resources(const std::string& added, const std::string& left);

 private:
  void change(const std::string& name, const Json& what);
  void notify(const std::string& topic, const Json& what);
  [[nodiscard]] Json about(group::Rank shell) const;

  plugin::Host& host_;
  const elastic::Roster& roster_;
  std::function<Result<void>(const std::string& name, const Json& what)> on_change_;
};

}  // namespace nacre::core
