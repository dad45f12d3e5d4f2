// SPDX-License-Identifier: Apache-2.0
//
// Shrinks, as one shell has them. The leader announces which shells are about to leave; these end their tasks, and
// put out what they have; once they are ready the leader takes them out of the job. elastic/shrinks.hpp decides.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "core/shell_group.hpp"
#include "core/shell_tasks.hpp"
#include "elastic/shrinks.hpp"
#include "event/loop.hpp"
#include "exits/job_end.hpp"
#include "group/group.hpp"
#include "plugin/host.hpp"
#include "value/shrunk.hpp"

namespace nacre::core {

class ShellShrink {
 public:
  using WhenShrunk = std::function<void(Result<value::Shrunk>)>;

  ShellShrink(plugin::Host& host, group::Group* group, ShellGroup& shells, ShellTasks& tasks, exits::JobEnd& end)
      : host_(host), group_(group), shells_(shells), tasks_(tasks), end_(end) {}

  // Before others can take part: sets what the group calls. `grace`: between the first signal and SIGKILL.
  void serve(group::Group::Callbacks& callbacks, event::Seconds grace);

  // The leader's: see plugin::Host::shrink().
  void order(const value::ShrinkOrder& order, WhenShrunk done);

  // This shell's tasks have ended, and what it puts has been put.
  void put_all();
  // The leader's: the job ends, so orders that are open end with an error.
  void job_over();

 private:
  static constexpr std::string_view kTopic = "shell.shrink";

  struct Open {
    WhenShrunk done;
    std::optional<event::Timer> timer;  // of its batch
  };

  [[nodiscard]] Result<void> check(const value::ShrinkOrder& order) const;
  Result<void> begin(elastic::Shrinks::Order number, const value::Idset& fresh, const value::ShrinkOrder& order);
  void settle();
  void take_out(const value::Idset& shells);
  void announced(std::string_view bytes);
  void send_ready();

  plugin::Host& host_;
  group::Group* group_;
  ShellGroup& shells_;
  ShellTasks& tasks_;
  exits::JobEnd& end_;
  event::Seconds grace_{};
  elastic::Shrinks shrinks_;  // the leader's, as the next two
  std::map<elastic::Shrinks::Order, Open> open_;
  bool job_over_ = false;
  plugin::Registration announced_;
  bool leaves_ = false;   // this shell is about to leave
  bool all_put_ = false;  // put_all() was called
  bool is_sent_ = false;  // that it is ready
};

}  // namespace nacre::core
