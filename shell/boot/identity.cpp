// SPDX-License-Identifier: Apache-2.0
#include "boot/identity.hpp"

#include <sys/random.h>
#include <unistd.h>

#include "base/file.hpp"

namespace nacre::boot {
namespace {

constexpr std::uint64_t kFluidEpochMs = 1577836800000;  // 2020-01-01T00:00:00Z

Result<std::uint32_t> find_rank(const job::Resources& resources, std::uint32_t broker_rank) {
  if (auto rank = resources.shell_rank(broker_rank)) return *rank;
  value::Idset ranks;
  for (const job::NodeResources& node : resources.nodes) ranks.insert(node.broker_rank);
  return Error{ENOENT, fmt::format("no rank {}: it has rank{} {}", broker_rank, ranks.size() == 1 ? "" : "s",
                                   ranks.short_str())};
}

std::string_view name_of(const std::string& path) {
  return path == "-" ? "standard input" : std::string_view(path);
}

}  // namespace

Result<Identity> standalone(const Standalone& request) {
  Identity me;
  me.standalone = true;
  me.id = request.id.value_or(new_job_id());
  std::string jobspec = TRY(read_file(request.jobspec_path));
  me.spec = TRY(in(name_of(request.jobspec_path), job::Jobspec::parse(jobspec)));
  std::string resources = TRY(read_file(request.resources_path));
  me.resources = TRY(in(name_of(request.resources_path), job::Resources::parse(resources)));
  if (request.broker_rank) {
    me.shell_rank = TRY(in(name_of(request.resources_path), find_rank(me.resources, *request.broker_rank)));
  }
  return me;
}

value::JobId new_job_id() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  auto ms = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  std::uint64_t time = (ms - kFluidEpochMs) & ((std::uint64_t{1} << 40) - 1);
  std::uint32_t random = 0;
  // It fails only where the kernel has not gathered enough at its start: the process is as good there.
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
    random = static_cast<std::uint32_t>(::getpid());
  return value::JobId(time << 24 | (random & ((1U << 24) - 1)));
}

}  // namespace nacre::boot
