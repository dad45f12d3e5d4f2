// SPDX-License-Identifier: Apache-2.0
#include "front/rehearse_options.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/variable.hpp"
#include "boot/allocation.hpp"
#include "cli/command_line.hpp"
#include "job/rehearsal.hpp"

namespace nacre::front {
namespace {

constexpr const char* kRehearse = "rehearse";
constexpr const char* kForce = "rehearse-force";

}  // namespace

void RehearseOptions::add_to(cli::CommandLine& verb) {
  verb.add_option("--rehearse", events_,
                  "Do this to the job, to see what becomes of it: 'kill n2 at 30s; freeze rank 5 for 5s'")
      ->option_text("EVENTS")
      ->check(job::Rehearsal::parse);
  verb.add_flag("--rehearse-force", force_,
                "Also where a manager has given the nodes, and may take them out of use; needs --rehearse")
      ->needs({"--rehearse"});
}

std::vector<GivenOption> RehearseOptions::given() const {
  std::vector<GivenOption> out;
  if (!events_.empty()) out.push_back({"--rehearse=" + events_, kRehearse, events_});
  if (force_) out.push_back({"--rehearse-force", kForce, true});
  return out;
}

std::vector<std::string> RehearseOptions::shell_options() const {
  std::vector<std::string> out;
  if (!events_.empty()) out.push_back(fmt::format("{}={}", kRehearse, events_));
  if (force_) out.push_back(fmt::format("{}=on", kForce));
  return out;
}

Result<void> RehearseOptions::allow(bool by_srun) const {
  if (events_.empty() || force_) return {};
  auto allocation = TRY(boot::allocation_of(own_variable));
  if (!allocation && !by_srun) return {};
  return invalid(
      fmt::format("--rehearse: {}, and a manager may take a node whose shell is killed out of use: leave the "
                  "allocation, or add "
                  "--rehearse-force",
                  allocation ? fmt::format("this is within an allocation ({})", allocation->source)
                             : "srun starts the shells"));
}

}  // namespace nacre::front
