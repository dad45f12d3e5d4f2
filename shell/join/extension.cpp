// SPDX-License-Identifier: Apache-2.0
#include "join/extension.hpp"

#include <utility>

#include "base/variable.hpp"
#include "boot/boot.hpp"
#include "group/alone.hpp"
#include "group/extendable.hpp"
#include "join/start_others.hpp"
#include "launch/own_sockets.hpp"
#include "version.hpp"

namespace nacre::join {
namespace {

// After an error nothing has changed, and it can be tried again.
Result<void> extend(ShellProcess& process, group::Extendable& group, Log& log) {
  LaterShells& later = *process.later;
  const launch::LaunchRecord& record = later.record;
  transport::Secret secret = TRY(group.secret())->copy();  // plugins may have used it already
  std::string directory = boot::temporary_directory(own_variable);
  launch::OwnSockets own =
      TRY(record.agent.empty() ? launch::bind_local_sockets(directory) : launch::bind_own_sockets(directory));
  group::Membership membership{kVersion, record.job, 0, 1, record.arity, secret.copy(), {}, {}, {}, {}};
  own.move_to(membership);
  std::string address = membership.address;
  GuardedDirectory guarded;
  if (membership.socket_directory) guarded = {*process.children, membership.socket_directory->path()};
  group::OverlayDriver* member = TRY(group.extend(*process.loop, std::move(membership), log));
  make_launcher(process, record, *member, log, nullptr);
  later.secret = std::move(secret);
  later.addresses.push_back(std::move(address));
  later.directory = std::move(guarded);
  return {};
}

}  // namespace

void make_lone_group(ShellProcess& process, boot::Boot boot, Log& log) {
  // Another manager starts its job's shells itself, and one that nacre started would not know the manager.
  if (boot.way != boot::Way::hosts && !(boot.way == boot::Way::slurm && boot.record)) {
    process.group = std::make_unique<group::Alone>(0);
    return;
  }
  auto group = std::make_unique<group::Extendable>();
  process.later = std::make_unique<LaterShells>(*std::move(boot.record), boot.way);
  process.later->extend = [&process, &group = *group, &log] { return extend(process, group, log); };
  process.group = std::move(group);
}

}  // namespace nacre::join
