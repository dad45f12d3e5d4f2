// SPDX-License-Identifier: Apache-2.0
//
// What plugins exchange with those of the job's other shells, and what they have them do; a part of Host.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "bulk/port.hpp"
#include "plugin/registration.hpp"
#include "plugin/shell_messages.hpp"
#include "value/exec_order.hpp"
#include "value/idset.hpp"

namespace nacre::plugin {

// For each text that shells have given, the ranks of these shells.
using Gathered = std::map<std::string, value::Idset>;

class OtherShells {
 public:
  virtual ~OtherShells() = default;

  // Gives `mine` to all shells of the job, and calls `done` once, perhaps before it returns: with what all have
  // given, or with an error if this shell is cut off from the others. Each shell uses each name once; lost shells
  // are left out. If the Registration is destroyed, `mine` is still given, but `done` is not called.
  using WhenGathered = std::function<void(Result<Gathered>)>;
  [[nodiscard]] virtual Registration gather(std::string_view name, std::string mine, WhenGathered done) = 0;
  // Of the shells up to `last` only, those among them that have joined while the job ran included. `last`: of
  // last_with_tasks(), at one place in the order of the announcements for all of them.
  [[nodiscard]] virtual Registration gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                                  WhenGathered done) = 0;
  // No task is on a shell behind this one. (It is the last one of the job's start, or of a grow.)
  [[nodiscard]] virtual std::uint32_t last_with_tasks() const = 0;

  // Sends to all shells, this one too, in one order, from the loop or before this returns; one that has not run
  // shell.init may miss it. Costs a message to every shell: for rare things. An error: more than 64 MiB.
  virtual Result<void> announce(std::string_view topic, std::string_view bytes) = 0;
  using Receive = std::function<void(std::string_view topic, std::string_view bytes)>;
  [[nodiscard]] virtual Registration on_announcement(Receive receive) = 0;

  // Messages to and from each single other shell; a job's only shell has no other.
  virtual ShellMessages& messages() = 0;
  virtual void hold_links(const value::Idset& shells) = 0;  // as group::Group, for rehearsals

  // Orders shells to start something; the order comes to `receive` of those that it names, in one order with
  // announcements. `done` is called once, perhaps before this returns; an error: it is too long, or cut off.
  using WhenOrdered = std::function<void(Result<value::ExecAnswer>)>;
  [[nodiscard]] virtual Registration exec(value::ExecOrder order, WhenOrdered done) = 0;
  [[nodiscard]] virtual Registration on_exec(std::function<void(const value::ExecShare&)> receive) = 0;

  virtual bulk::Port* bulk() = 0;  // data between the shells; null: there is no other, and none can join
};

}  // namespace nacre::plugin
