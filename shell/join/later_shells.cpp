// SPDX-License-Identifier: Apache-2.0
#include "join/later_shells.hpp"

#include <utility>

namespace nacre::join {

LaterShells::LaterShells(launch::LaunchRecord own, boot::Way way)
    : record(std::move(own)), is_managed(way == boot::Way::slurm) {
  record.jobspec.reset();
  record.resources.reset();
  if (is_managed) record.agent = {"srun"};  // other hosts: the shells listen for links from there
}

void LaterShells::keep(LeaderGiven leaders) {
  given = std::move(leaders);
  given.resources.reset();
}

std::string LaterShells::lines_of(group::Rank rank, std::string resources, bool is_made, std::string growth) const {
  launch::LaunchRecord out = record.of_child(rank, addresses[0]);
  for (group::Rank each = 1; each < addresses.size(); ++each) out.addresses[each] = addresses[each];
  if (given.jobspec) out.jobspec = given.jobspec->text;
  out.resources = std::move(resources);
  out.makes_resources = is_made;
  out.options = given.options;
  out.growth = std::move(growth);
  return launch::launch_lines(*secret, out);
}

}  // namespace nacre::join
