// SPDX-License-Identifier: Apache-2.0
//
// Shrinks, as one shell has them. The leader announces which shells are about to leave; these end their tasks, and
// put out what they have; once they are ready the leader takes them out of the job. elastic/shrinks.hpp decides.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "bulk/record_queue.hpp"
#include "core/shell_group.hpp"
#include "core/shell_tasks.hpp"
#include "core/shrink_asks.hpp"
#include "core/shrink_question.hpp"
#include "core/slurm_nodes.hpp"
#include "elastic/shrinks.hpp"
#include "event/loop.hpp"
#include "exits/job_end.hpp"
#include "group/group.hpp"
#include "plugin/host.hpp"
#include "value/shrunk.hpp"

namespace nacre::core {

class ShellShrink {
 public:
  using WhenShrunk = plugin::Host::WhenShrunk;

  ShellShrink(plugin::Host& host, group::Group* group, ShellGroup& shells, ShellTasks& tasks, exits::JobEnd& end)
      : host_(host),
        group_(group),
        shells_(shells),
        tasks_(tasks),
        end_(end),
        asks_(host, shells),
        question_(host) {}

  // Before others can take part: sets what the group calls. `grace`: between the first signal and SIGKILL.
  void serve(group::Group::Callbacks& callbacks, event::Seconds grace);

  // See plugin::Host.
  plugin::Registration ask(const value::ShrinkOrder& order, WhenShrunk news) {
    return asks_.ask(order, std::move(news));
  }
  void offer_release(plugin::NodeRelease* release) { release_ = release; }
  // Leader: hosts that are not of the job's first allocation. Has to outlive the last shrink.
  void set_nodes(SlurmNodes* nodes) { nodes_ = nodes; }

  // Leader: asks these shells, which stay, which of their tasks are connected to PMI.
  void ask_connected(const value::Idset& shells, ShrinkQuestion::Done done) {
    question_.ask(shells, ShrinkQuestion::About::staying, std::move(done));
  }

  // Leader: it is about to leave, or that is asked for.
  [[nodiscard]] bool is_leaving(group::Rank rank) const { return shrinks_.is_leaving(rank); }
  // This shell is about to leave: what fails here does not end the job any more.
  [[nodiscard]] bool leaves() const { return leaves_; }
  // This shell's tasks have ended, and what it puts has been put.
  void put_all();
  // The job ends, so orders that are open end with an error.
  void job_over();

 private:
  static constexpr std::string_view kTopic = "shell.shrink";
  static constexpr std::string_view kReady = "1";  // record: the shell can be taken out

  struct Open {
    WhenShrunk news;
    std::optional<event::Timer> timer;  // of its batch
  };

  void serve_leader();
  [[nodiscard]] Result<value::Idset> shells_of(const value::ShrinkOrder& order) const;
  [[nodiscard]] value::Idset maybe_connected(const value::Idset& shells) const;
  void order(const value::ShrinkOrder& order, const WhenShrunk& news);
  void confirm(const value::ShrinkOrder& order, const value::Idset& shells,
               const ShrinkQuestion::Connected& connected, const WhenShrunk& news);
  [[nodiscard]] Error refusal(const value::Idset& shells, const ShrinkQuestion::Connected& connected) const;
  void open(const value::ShrinkOrder& order, const value::Idset& shells, const WhenShrunk& news);
  Result<void> begin(elastic::Shrinks::Order number, const value::Idset& fresh, const value::ShrinkOrder& order);
  void settle();
  void take_out(const value::Idset& shells);
  void withdraw(const value::Idset& shells);
  void lost_leaving(group::Rank rank);
  void settle_lost(group::Rank rank);
  void released(const value::Idset& shells, const std::function<void()>& done);
  [[nodiscard]] Json answer_of(const value::Shrunk& shrunk) const;
  void announced(std::string_view bytes);
  void stay(const value::Idset& shells);
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
  plugin::NodeRelease* release_ = nullptr;
  SlurmNodes* nodes_ = nullptr;
  value::Idset given_back_;                              // shells
  value::Idset lost_;                                    // shells, while they left or were asked to
  std::vector<std::pair<value::Idset, Json>> releases_;  // what the manager has answered
  ShrinkAsks asks_;
  ShrinkQuestion question_;
  plugin::Registration announced_;
  bool leaves_ = false;    // this shell is about to leave
  bool all_put_ = false;   // put_all() was called
  bool is_ready_ = false;  // and kReady is sent, or waits for room
  bulk::RecordQueue records_{bulk::up::kReadyToLeave};
};

}  // namespace nacre::core
