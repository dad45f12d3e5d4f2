// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "boot/ways.hpp"
#include "launch/own_sockets.hpp"

namespace nacre::boot {
namespace {

using group::Membership;
using group::Rank;

Result<Membership> join_launched(const BootRequest& request, const launch::LaunchRecord& record,
                                 transport::Secret secret) {
  std::string directory = temporary_directory(request.variables);
  launch::OwnSockets own =
      TRY(record.agent.empty() ? launch::bind_local_sockets(directory) : launch::bind_own_sockets(directory));
  Membership out{request.version,   record.job, *record.rank, record.size, record.arity,
                 std::move(secret), {},         {},           {},          {}};
  std::string mark = transport::host_mark();
  out.is_newcomer = record.growth.has_value();
  for (const auto& [rank, addresses] : record.addresses) {
    if (out.is_newcomer) CHECK_OK(out.directory.set(rank, transport::usable_on(mark, addresses)));
  }
  for (Rank each : out.is_newcomer ? std::vector<Rank>{0} : ancestors_of(out.rank, out.arity)) {
    auto known = record.addresses.find(each);
    if (known == record.addresses.end()) {
      return invalid(
          fmt::format("the launch record: addresses: shell {} is above this one, and is not there", each));
    }
    CHECK_OK(out.directory.set(each, transport::usable_on(mark, known->second)));
  }
  own.move_to(out);
  return out;
}

Result<Boot> read_and_join(const BootRequest& request) {
  launch::LaunchInput input = TRY(launch::read_launch_input(request.input, request.timeout));
  if (!input.record) return invalid("standard input has ended after the secret: the launch record is missing");
  if (!input.record->rank) return invalid("the launch record: rank: expected this shell's, as no manager gives it");
  Boot out;
  out.way = Way::hosts;
  out.how = fmt::format("hosts: --boot=hosts was given: shell {} of {}", *input.record->rank, input.record->size);
  out.id = input.record->job;
  out.launcher = TRY(launch::take_input(request.input));
  out.launcher_bytes = std::move(input.behind);
  if (input.record->size > 1 || input.record->growth)
    out.membership = TRY(join_launched(request, *input.record, std::move(input.secret)));
  out.record = std::move(input.record);
  return out;
}

Result<Boot> take_own_record(int descriptor) {
  UniqueFd fd(descriptor);           // no task gets it
  ::lseek(descriptor, 0, SEEK_SET);  // it stands where who has written it has stopped
  std::string text =
      TRY(read_file(descriptor, fmt::format("descriptor {}", descriptor), launch::LaunchRecord::kMaxLine));
  auto record = TRY(launch::LaunchRecord::parse(trim(text)));
  if (record.size != 1)
    return invalid(fmt::format("the launch record: size: expected 1, got {}: others need a secret", record.size));
  Boot out;
  out.way = Way::hosts;
  out.how = "hosts: nacre run has become this shell: shell 0 of 1";
  out.id = record.job;
  out.record = std::move(record);
  return out;
}

}  // namespace

Result<Boot> boot_by_own_record(const BootRequest& request) {
  return in("--launch-record", take_own_record(*request.record));
}

Result<Boot> boot_by_record(const BootRequest& request) { return in("--boot=hosts", read_and_join(request)); }

}  // namespace nacre::boot
